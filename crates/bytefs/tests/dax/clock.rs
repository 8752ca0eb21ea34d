//! What the clock writes back and settles, before and beside other things that are done to a file.

use super::drive::{
    CALLER, Clock, DIRECT, Drive, Fs, PLAIN, append, beside, create, eager, engine, formatted, run,
    with,
};
use bytefs::{Allocate, Caller, Ino, Personality, SetAttr, Timestamp};
use dax::{PolicyKind, Settings};
use units::Picos;

const OF: Personality = Personality::Ext4Like;
const PAGE: usize = 4096;
/// Nothing in these tests is as old as this.
const LONG_AGO: Timestamp = Timestamp(0);

/// Does something to a file of three pages of ones that is durable, and syncs it; then the power
/// goes. What is left of the file.
fn left(has_frames: bool, test: impl AsyncFnOnce(&Fs, Ino, Drive, Clock) + 'static) -> Vec<u8> {
    let (ran, ()) = run(engine(OF, "256KiB"), async move |device, clock| {
        let kind = PolicyKind::Always;
        let options = with(Some(Settings { kind, ..eager() }));
        let fs = formatted(&device, &clock, options, OF).await;
        let ino = create(&fs, b"file").await;
        for _ in 0..1 + usize::from(has_frames) {
            append(&fs, ino, 0, &[1; 3 * PAGE]).await;
            fs.fsync(ino, true).await.expect("a sync");
        }
        create(&fs, b"other").await;
        fs.sync().await.expect("a sync");
        let frames = fs.dax_report().expect("it is on").frames.0;
        assert_eq!(frames, if has_frames { 3 } else { 0 });
        test(&fs, ino, device, clock).await;
        fs.fsync(ino, true).await.expect("a sync");
    });
    let (_, seen) = run(ran.power_cycled(|| false), async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, with(None))
            .await
            .expect("mounts");
        let file = fs.lookup(Ino::ROOT, b"file").await.expect("it was synced");
        let seen = fs.read(file.ino, 0, 1 << 20, false).await;
        seen.expect("a read")
    });
    seen
}

/// The bytes of such a file in which a range is others.
fn with_range(at: usize, size: usize, byte: u8) -> Vec<u8> {
    let mut bytes = vec![1; 3 * PAGE];
    bytes[at..at + size].fill(byte);
    bytes
}

/// Where two files differ first.
fn differ(seen: &[u8], wanted: &[u8]) -> Option<usize> {
    let differ = seen
        .iter()
        .zip(wanted)
        .position(|(one, other)| one != other);
    differ.or((seen.len() != wanted.len()).then_some(seen.len().min(wanted.len())))
}

/// The ends of a hole are bytes of pages that become zeroes, and nobody wrote them. The clock comes
/// before they are old.
#[test]
fn the_ends_of_a_hole_are_durable_behind_a_sync() {
    for has_frames in [false, true] {
        for how in [Allocate::PunchHole, Allocate::ZeroRangeKeepSize] {
            let seen = left(has_frames, async move |fs, ino, _, _| {
                let hole = fs.fallocate(&CALLER, ino, how, 100, 5000);
                hole.await.expect("a hole");
                fs.flush_old(LONG_AGO).await.expect("the clock's part");
            });
            let wrong = differ(&seen, &with_range(100, 5000, 0));
            assert_eq!(wrong, None, "{how:?}, with frames: {has_frames}");
        }
    }
}

/// Runs something while blocks and the window take a long time; the clock comes meanwhile.
async fn slowly(fs: &Fs, device: &Drive, clock: &Clock, doing: impl Future<Output = ()>) {
    let slow = Picos::from_micros(100_000);
    device.is_slow.set(slow);
    device.hesitates.set(slow);
    let ticking = async {
        let soon = port::Clock::now(clock) + slow / 2;
        port::Clock::sleep_until(clock, soon).await;
        device.is_slow.set(Picos::ZERO);
        fs.flush_old(LONG_AGO).await.expect("the clock's part");
    };
    beside(doing, ticking).await;
    device.hesitates.set(Picos::ZERO);
}

/// What the clock flushes while a block is on its way to the device is not this block: neither of a
/// write past the cache, nor of a writer who writes back himself.
#[test]
fn a_write_that_the_clock_overtakes_is_durable_behind_a_sync() {
    for size in [PAGE, 100] {
        let seen = left(false, async move |fs, ino, device, clock| {
            slowly(fs, &device, &clock, async {
                let written = fs.write(&CALLER, ino, 0, &vec![7; size], DIRECT).await;
                assert_eq!(written, Ok(size));
            })
            .await;
        });
        let wrong = differ(&seen, &with_range(0, size, 7));
        assert_eq!(wrong, None, "{size} bytes");
    }
}

/// The clock comes while frames of pages that go are given back.
#[test]
fn what_is_cut_off_while_the_clock_comes_is_durable_behind_a_sync() {
    let seen = left(true, async move |fs, ino, device, clock| {
        slowly(fs, &device, &clock, async {
            let set = SetAttr {
                size: Some(PAGE as u64),
                ..SetAttr::default()
            };
            fs.setattr(&CALLER, ino, set).await.expect("a size");
        })
        .await;
    });
    assert_eq!(differ(&seen, &[1; PAGE]), None, "a size");
    let seen = left(true, async move |fs, ino, device, clock| {
        slowly(fs, &device, &clock, async {
            let hole = fs.fallocate(&CALLER, ino, Allocate::PunchHole, 0, PAGE as u64);
            hole.await.expect("a hole");
        })
        .await;
    });
    assert_eq!(differ(&seen, &with_range(0, PAGE, 0)), None, "a hole");
}

/// A frame says when its page was written; its file may have been changed later, durably.
#[test]
fn a_recovery_sets_no_time_back() {
    let later = Timestamp(1_000_000);
    let (ran, ()) = run(engine(OF, "256KiB"), async move |device, clock| {
        let kind = PolicyKind::Always;
        let options = with(Some(Settings { kind, ..eager() }));
        let fs = formatted(&device, &clock, options, OF).await;
        let ino = create(&fs, b"file").await;
        for byte in [1, 2] {
            append(&fs, ino, 0, &[byte; 2 * PAGE]).await;
            fs.fsync(ino, true).await.expect("a sync");
        }
        let caller = Caller {
            now: later,
            ..CALLER
        };
        let written = fs.write(&caller, ino, PAGE as u64, &[3; PAGE], PLAIN).await;
        assert_eq!(written, Ok(PAGE));
        fs.fsync(ino, false).await.expect("a sync");
        assert_eq!(fs.dax_report().expect("it is on").frames.0, 2);
    });
    run(ran.power_cycled(|| false), async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, with(Some(eager()))).await;
        let fs = fs.expect("it is mounted");
        let recovered = fs.dax_report().expect("it is on").pmem.recovered;
        assert_eq!(recovered, 2);
        let file = fs.lookup(Ino::ROOT, b"file").await.expect("it was synced");
        assert_eq!(file.mtime, later);
    });
}
