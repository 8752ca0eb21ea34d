//! Files of which the host has forgotten something while they have frames, or had some.

use super::*;
use crate::layout::{BLOCK, Personality};
use crate::{Caller, FormatOptions, MountOptions, Timestamp, WriteOptions};
use dax::Settings;
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Pace};
use port::{Acknowledge, AnyClock, AnyDevice};
use std::cell::Cell;
use std::rc::Rc;
use units::Picos;
use vtime::Machine;

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};

/// The file system that `check` mounts too: each other is compiled once more.
type Fs = FileSystem<AnyDevice, AnyClock>;

/// Runs something on a file system with 14 frames.
fn run(settings: Settings, test: impl AsyncFnOnce(Rc<Fs>) + 'static) {
    let small = [
        "device.pmem=64KiB",
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
        "nand.planes_per_die=1",
        "nand.blocks_per_plane=96",
        "nand.pages_per_block=32",
        "ftl.over_provisioning=50%",
        "ssd.dram=4MiB",
    ];
    let layers = small.map(|set| Layer::assignment(set).unwrap());
    let config = DeviceConfig::of_preset("consumer-tlc", &layers).unwrap();
    let engine = DeviceEngine::in_memory(&config, Pace::None).unwrap();
    let mut machine = Machine::new(engine, 2);
    let device = AnyDevice::new(machine.device());
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
        test(Rc::new(fs)).await;
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

/// A sync that lacks frames takes those of clean pages, of whatever files; that one of them is
/// damaged is nothing to it.
#[test]
fn a_damaged_file_that_has_frames_stops_no_sync_of_another_one() {
    let settings = Settings {
        kind: PolicyKind::Always,
        ..Settings::default()
    };
    run(settings, async |fs| {
        let (bad, good, log) = (
            create(&fs, "bad").await,
            create(&fs, "good").await,
            create(&fs, "log").await,
        );
        for ino in [bad, good] {
            assert!(!put(&fs, ino, 7).await, "its inode is not durable");
            assert!(put(&fs, ino, 7).await);
        }
        assert!(!put(&fs, log, 1).await, "its inode is not durable");
        fs.sync().await.unwrap();
        assert_eq!(fs.dax_report().unwrap().frames, (14, 14));
        // Nothing of it is on the host any more, and what is on the device is torn.
        let (block, at) = {
            let mut state = fs.state();
            for ino in [bad, good] {
                state.drop_node(ino);
            }
            let (block, at) = state.geometry.inode_place(bad);
            state.blocks.forget(block);
            (block, at)
        };
        let place = ByteAddr::new(u64::from(block.0) * BLOCK as u64);
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
        // Nor is it any use: who asks for it is told.
        let read = fs.read(bad, 0, BLOCK, false).await;
        assert!(read.is_err_and(|error| error.to_string().contains("damaged")));
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
