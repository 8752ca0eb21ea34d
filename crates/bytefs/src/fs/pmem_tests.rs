//! Files of which the host has forgotten something while they have frames, or had some.

use super::*;
use crate::layout::{BLOCK, Personality};
use crate::{Caller, FormatOptions, MountOptions, Timestamp, WriteOptions};
use dax::Settings;
use device::{DeviceEngine, Pace};
use port::{
    Acknowledge, AnyClock, AnyDevice, Command, Conflict, DeviceError, DeviceStats, Outcome,
    Payload, Shape,
};
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use units::Picos;
use vtime::Machine;

#[path = "../../tests/dax/small.rs"]
mod small;

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};

/// The file system that `check` mounts too: each other is compiled once more.
type Fs = FileSystem<AnyDevice, AnyClock>;

/// A device that has lost what is from a byte on.
#[derive(Clone)]
struct Forgetful {
    inner: AnyDevice,
    lost: Rc<Cell<Option<u64>>>,
}

impl Device for Forgetful {
    type Pending<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

    fn shape(&self) -> Shape {
        self.inner.shape()
    }
    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Self::Pending<'a> {
        let bytes = at.get()..at.get() + payload.size().get();
        let is_lost = self.lost.get().is_some_and(|lost| bytes.contains(&lost));
        match command {
            Command::ReadBlocks if is_lost => {
                Box::pin(core::future::ready(Err(DeviceError::Lost { at })))
            }
            _ => Box::pin(self.inner.request(command, at, payload, conflict)),
        }
    }
    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.inner.open(may_split)
    }
    fn abandon(&self, tx: TxId) {
        self.inner.abandon(tx);
    }
    fn stats(&self) -> DeviceStats {
        self.inner.stats()
    }
}

/// Runs something on a file system with 14 frames.
fn run(settings: Settings, test: impl AsyncFnOnce(Rc<Fs>) + 'static) {
    run_on(settings, async |fs, _| test(fs).await);
}

/// The same on a device that forgets what it is told to.
fn run_on(settings: Settings, test: impl AsyncFnOnce(Rc<Fs>, Rc<Cell<Option<u64>>>) + 'static) {
    let config = small::config("consumer-tlc", "64KiB", &[]);
    let engine = DeviceEngine::in_memory(&config, Pace::None).unwrap();
    let mut machine = Machine::new(engine, 2);
    let lost = Rc::default();
    let device = AnyDevice::new(Forgetful {
        inner: AnyDevice::new(machine.device()),
        lost: Rc::clone(&lost),
    });
    let clock = AnyClock::new(machine.clock());
    let has_ended = Rc::new(Cell::new(false));
    let ended = Rc::clone(&has_ended);
    machine.spawn("test", async move {
        let mut format = FormatOptions::new(Personality::Ext4Like);
        format.inodes = Some(200);
        Fs::format(&device, &format).await.unwrap();
        let options = MountOptions {
            dax: Some(settings),
            ..MountOptions::default()
        };
        let fs = Fs::mount(device, clock, options).await.unwrap();
        test(Rc::new(fs), lost).await;
        ended.set(true);
    });
    machine.run().unwrap();
    assert!(has_ended.get());
}

async fn create(fs: &Fs, name: &str) -> Ino {
    let made = fs.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o600).await;
    made.unwrap().ino
}

/// Writes pages and syncs them; says whether the window alone has answered.
async fn put(fs: &Fs, ino: Ino, pages: usize) -> bool {
    let light = || fs.dax_report().unwrap().pmem.light_syncs;
    let before = light();
    let bytes = vec![7; pages * BLOCK];
    let written = fs.write(&CALLER, ino, 0, &bytes, WriteOptions::default());
    assert_eq!(written.await, Ok(bytes.len()));
    fs.fsync(ino, true).await.unwrap();
    light() > before
}

/// Two files with all frames, and a third one without, whose inode is in another block: of the
/// first two nothing is on the host any more. Where the inode of the first is.
async fn with_frames_of_unknown_files(fs: &Fs) -> ([Ino; 3], ByteAddr, usize) {
    let (bad, good) = (create(fs, "bad").await, create(fs, "good").await);
    for number in 0..BLOCK / crate::layout::INODE_BYTES {
        create(fs, &format!("{number}")).await;
    }
    let log = create(fs, "log").await;
    for ino in [bad, good] {
        assert!(!put(fs, ino, 7).await, "its inode is not durable");
        assert!(put(fs, ino, 7).await);
    }
    assert!(!put(fs, log, 1).await, "its inode is not durable");
    fs.sync().await.unwrap();
    assert_eq!(fs.dax_report().unwrap().frames, (14, 14));
    let mut state = fs.state();
    for ino in [bad, good] {
        state.drop_node(ino);
    }
    let (block, at) = state.geometry.inode_place(bad);
    state.blocks.forget(block);
    let place = ByteAddr::new(u64::from(block.0) * BLOCK as u64);
    ([bad, good, log], place, at)
}

/// Why frames of a file were not taken, and how often they were asked for.
fn kept(fs: &Fs, ino: Ino) -> (String, u64) {
    let view = fs.dax_view().unwrap();
    let last = view.refused.last().expect("it is said");
    assert_eq!((last.ino, &last.asked[..]), (Some(ino), "reclaim"));
    assert_eq!(last.pages, None);
    (last.why.clone(), last.times)
}

/// A sync that lacks frames takes those of clean pages, of whatever files; that one of them is
/// damaged is nothing to it.
#[test]
fn a_damaged_file_that_has_frames_stops_no_sync_of_another_one() {
    let settings = Settings {
        kind: PolicyKind::Always,
        ..Settings::default()
    };
    run(settings, async |fs| {
        let ([bad, _, log], place, at) = with_frames_of_unknown_files(&fs).await;
        let mut bytes = vec![0; BLOCK];
        fs.device().read_blocks(place, &mut bytes).await.unwrap();
        bytes[at + crate::layout::INODE_BYTES / 2] ^= 0x11;
        let torn = fs
            .device()
            .write_blocks(place, &bytes, Acknowledge::Durable);
        torn.await.unwrap();
        assert!(
            put(&fs, log, 2).await,
            "the frames of the good one are there"
        );
        assert_eq!(fs.failed(), None);
        let (why, times) = kept(&fs, bad);
        assert!(why.contains("is damaged; run") && times == 1, "{why}");
        // Nor is it any use: who asks for it is told.
        let read = fs.read(bad, 0, BLOCK, false).await;
        assert!(read.is_err_and(|error| error.to_string().contains("damaged")));
    });
}

/// The same of a device that does not give the inode: nothing of the file changes, the reason can
/// be seen, and when the device gives it again its frames can be had.
#[test]
fn a_file_that_the_device_does_not_give_keeps_its_frames_and_stops_no_sync() {
    let settings = Settings {
        kind: PolicyKind::Always,
        ..Settings::default()
    };
    run_on(settings, async |fs, lost| {
        let ([bad, good, log], place, _) = with_frames_of_unknown_files(&fs).await;
        lost.set(Some(place.get()));
        // Both have their inodes in that block, so none of the frames can be had: flash answers.
        assert!(!put(&fs, log, 2).await);
        assert_eq!(fs.failed(), None);
        assert_eq!(fs.dax_report().unwrap().frames, (14, 14));
        let (why, times) = kept(&fs, good);
        assert!(why.contains("has lost the block at byte"), "{why}");
        assert_eq!(times, 1);
        assert!(!put(&fs, log, 3).await);
        assert_eq!(
            kept(&fs, good),
            (why, 2),
            "it is asked for again, and counted"
        );
        let read = fs.read(bad, 0, BLOCK, false).await;
        assert!(read.is_err_and(|error| error.to_string().contains("has lost the block")));
        lost.set(None);
        assert!(put(&fs, log, 4).await, "frames are there");
        for ino in [bad, good] {
            let bytes = fs.read(ino, 0, 7 * BLOCK, false).await.unwrap();
            assert!(bytes.len() == 7 * BLOCK && bytes.iter().all(|byte| *byte == 7));
        }
    });
}

/// As a copy of many files does it, each of which is written once: what is kept of a file goes when
/// nothing is known of it any more.
#[test]
fn a_file_of_which_nothing_is_known_is_tracked_no_longer() {
    for kind in [PolicyKind::Ratio, PolicyKind::Always] {
        let settings = Settings {
            kind,
            write_delay: Picos::from_micros(2_000),
            write_back_delay: Picos::from_micros(1_000),
            ..Settings::default()
        };
        run(settings, async move |fs| {
            let tracked = || fs.state().pmem.as_ref().unwrap().tracked();
            fs.open(Ino::ROOT).await.unwrap();
            fs.fsync(Ino::ROOT, true).await.unwrap();
            assert_eq!(tracked(), 0, "a directory is never tracked");
            for number in 0..60 {
                let ino = create(&fs, &format!("{number}")).await;
                put(&fs, ino, 1).await;
                assert!(tracked() > 0);
                fs.sync().await.unwrap();
                // As if others had taken its place in the cache, and its counts have ended.
                fs.state().forget_pages(ino, 0..u64::MAX);
                let then = fs.clock.now() + Picos::from_micros(10_000);
                fs.clock.sleep_until(then).await;
                fs.state().pmem.as_mut().unwrap().most_files = 4;
                fs.release(ino).await.unwrap();
            }
            assert!(tracked() <= 5, "{} of 60, {kind}", tracked());
        });
    }
}
