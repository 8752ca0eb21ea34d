//! Too little persistent memory, and devices that fail while ranges move.

use super::drive::{
    CALLER, Clock, Fault, Fs, Ran, append, create, eager, engine, formatted, put, run, with,
};
use bytefs::{Ino, Personality, Refused, SetXattr};
use dax::{PolicyKind, Settings};
use units::Picos;

const OF: Personality = Personality::Ext4Like;
/// 14 frames.
const SMALL: &str = "64KiB";

/// Upgrades the first ranges of a file, each of four pages.
async fn upgrade(fs: &Fs, ino: Ino, ranges: u64) {
    for range in 0..ranges {
        for byte in 1..3 {
            assert!(!put(fs, ino, 4 * range, byte).await, "it is not upgraded");
        }
    }
}

/// The last thing that was not done.
fn last_refused(fs: &Fs) -> Refused {
    let view = fs.dax_view().expect("it is on");
    view.refused.last().expect("it is refused").clone()
}

/// The power goes, all that is not persisted with it; pages of files are as they are to be.
fn look(ran: &Ran, wanted: &'static [(&'static str, u64, u8)]) {
    run(ran.power_cycled(|| false), async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, with(None))
            .await
            .expect("mounts");
        for (name, page, byte) in wanted {
            let found = fs.lookup(Ino::ROOT, name.as_bytes()).await;
            let ino = found.expect("it was synced").ino;
            let seen = fs.read(ino, page * 4096, 4096, false).await;
            let seen = seen.expect("a read");
            assert!(
                seen.len() == 4096 && seen.iter().all(|seen| seen == byte),
                "{name}, page {page}: {:?}, not {byte}",
                seen.first()
            );
        }
    });
}

#[test]
fn what_is_kept_for_explicit_mappings_is_there_for_nobody_else() {
    let settings = Settings {
        reserve: 50,
        ..eager()
    };
    let (_, ()) = run(engine(OF, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(settings)), OF).await;
        let (auto, asked) = (create(&fs, b"auto").await, create(&fs, b"asked").await);
        fs.set_xattr(&CALLER, asked, b"user.entresol.dax", b"all", SetXattr::Any)
            .await
            .expect("it takes it");
        assert!(!put(&fs, asked, 0, 1).await, "its inode is not durable");
        upgrade(&fs, auto, 4).await;
        for page in 0..14 {
            put(&fs, auto, page, 4).await;
        }
        let view = fs.dax_view().expect("it is on");
        let (frames, reserved) = (view.report.frames.1 as usize, view.reserved);
        assert_eq!((frames, reserved, view.requested), (14, 7, 0));
        assert!(view.free >= reserved, "{} are free", view.free);
        assert!(view.report.pmem.without_room > 0);
        // There are as many free as it needs: they are kept for others.
        let why = view.lacked.expect("a sync found none");
        assert_eq!((why.ino, why.frames, why.free, why.kept), (auto, 1, 7, 7));
        for page in 0..7 {
            assert!(put(&fs, asked, page, 9).await, "page {page} has room");
        }
        assert_eq!(fs.dax_view().expect("it is on").requested, 7);
        // The clock writes them back: what is clean goes to others, and no error comes of it.
        fs.sync().await.expect("a sync");
        assert_eq!(fs.failed(), None);
    });
}

/// A file of which nobody has asked for anything needs no frames, and takes none of those that
/// others have.
#[test]
fn a_sync_that_needs_no_frames_takes_none() {
    let settings = Settings {
        kind: PolicyKind::Explicit,
        ..eager()
    };
    run(engine(OF, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(settings)), OF).await;
        let (hot, other) = (create(&fs, b"hot").await, create(&fs, b"other").await);
        fs.set_xattr(&CALLER, hot, b"user.entresol.dax", b"all", SetXattr::Any)
            .await
            .expect("it takes it");
        for page in 0..15 {
            let is_light = put(&fs, hot, page % 14, 1).await;
            assert_eq!(is_light, page > 0, "{page}");
        }
        // They are clean, and would be given to who needs frames.
        fs.sync().await.expect("a sync");
        for _ in 0..2 {
            append(&fs, other, 0, &[7; 4096]).await;
            fs.fsync(other, true).await.expect("a sync");
        }
        assert_eq!(fs.dax_report().expect("it is on").frames, (14, 14));
    });
}

/// Ranges that are idle are let go when their counts have ended, behind 20 ms.
fn letting_go() -> Settings {
    Settings {
        kind: PolicyKind::Predict,
        write_delay: Picos::from_micros(20_000),
        write_back_delay: Picos::from_micros(10_000),
        ..eager()
    }
}

async fn idle(clock: &Clock) {
    let later = port::Clock::now(clock) + Picos::from_micros(30_000);
    port::Clock::sleep_until(clock, later).await;
}

/// Ranges that nobody has written for longer than counts last leave the window with the policy
/// that looks ahead, whether flash has their pages already or not; a sync behind that is right, and
/// so is what a power cut leaves.
#[test]
fn what_is_idle_leaves_and_is_on_flash() {
    let settings = letting_go();
    for is_clean in [true, false] {
        let (ran, ()) = run(engine(OF, SMALL), async move |device, clock| {
            let fs = formatted(&device, &clock, with(Some(settings)), OF).await;
            let (old, new) = (create(&fs, b"old").await, create(&fs, b"new").await);
            fs.sync().await.expect("a sync");
            for byte in 1..=6 {
                for page in 0..4 {
                    put(&fs, old, page, byte).await;
                }
            }
            let report = || fs.dax_report().expect("it is on");
            assert_eq!((report().frames.0, report().ranges.let_go), (4, 0));
            if is_clean {
                fs.sync().await.expect("a sync");
                assert_eq!(report().frames.0, 4, "its counts are alive");
            }
            idle(&clock).await;
            put(&fs, new, 0, 9).await;
            // And the range that its stream would have come to next.
            assert_eq!(report().ranges.let_go, 2, "{:?}", report());
            assert_eq!(report().frames.0, 0, "{:?}", report());
            assert!(!put(&fs, old, 1, 7).await, "it is a plain range again");
        });
        look(
            &ran,
            &[("old", 0, 6), ("old", 1, 7), ("old", 3, 6), ("new", 0, 9)],
        );
    }
}

/// A page of a range that leaves stays if programs have asked for it.
#[test]
fn what_is_asked_for_stays_when_its_range_leaves() {
    let settings = letting_go();
    for is_clean in [true, false] {
        run(engine(OF, SMALL), async move |device, clock| {
            let fs = formatted(&device, &clock, with(Some(settings)), OF).await;
            let (old, new) = (create(&fs, b"old").await, create(&fs, b"new").await);
            let asked = fs.set_xattr(
                &CALLER,
                old,
                b"user.entresol.dax",
                b"8KiB-12KiB",
                SetXattr::Any,
            );
            asked.await.expect("it takes it");
            fs.sync().await.expect("a sync");
            for byte in 1..=6 {
                for page in 0..4 {
                    put(&fs, old, page, byte).await;
                }
            }
            let frames = || {
                let view = fs.dax_view().expect("it is on");
                (view.report.frames.0, view.requested)
            };
            assert_eq!(frames(), (4, 1));
            if is_clean {
                fs.sync().await.expect("a sync");
            }
            idle(&clock).await;
            put(&fs, new, 0, 9).await;
            assert_eq!(frames(), (1, 1), "clean: {is_clean}");
            fs.sync().await.expect("a sync");
            assert!(!put(&fs, old, 1, 7).await, "it is a plain range again");
            fs.sync().await.expect("a sync");
            assert!(put(&fs, old, 2, 7).await, "and this page is asked for");
        });
    }
}

#[test]
fn the_weakest_range_leaves_when_there_are_no_frames() {
    let (ran, ()) = run(engine(OF, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), OF).await;
        let (weak, strong) = (create(&fs, b"weak").await, create(&fs, b"strong").await);
        fs.sync().await.expect("a sync");
        // Twelve of fourteen frames, in three ranges; the first is the weakest.
        upgrade(&fs, weak, 3).await;
        for page in 0..12 {
            for byte in 1..=3 + page as u8 / 4 {
                put(&fs, weak, page, byte).await;
            }
        }
        assert_eq!(fs.dax_report().expect("it is on").frames.0, 12);
        // A range that is synced more often needs four.
        let mut light = 0;
        for byte in 1..=20 {
            for page in 0..4 {
                light += u32::from(put(&fs, strong, page, byte).await);
            }
        }
        let view = fs.dax_view().expect("it is on");
        let report = &view.report;
        assert!(report.ranges.evictions >= 1, "{report:?}");
        assert!(report.pmem.without_room >= 1, "{report:?}");
        assert!(light > 40, "{light} of 80");
        let why = view.lacked.expect("a sync found none");
        assert_eq!(why.ino, strong);
    });
    look(
        &ran,
        &[
            ("weak", 0, 3),
            ("weak", 3, 3),
            ("weak", 4, 4),
            ("weak", 11, 5),
            ("strong", 0, 20),
            ("strong", 3, 20),
        ],
    );
}

#[test]
fn a_file_that_finds_no_memory_is_right_and_the_reason_can_be_seen() {
    let (ran, ()) = run(engine(OF, "16KiB"), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), OF).await;
        let log = create(&fs, b"log").await;
        fs.sync().await.expect("a sync");
        // One sync of more pages than there are frames.
        for byte in 1..=5 {
            for page in 0..4 {
                append(&fs, log, page * 4096, &[byte; 4096]).await;
            }
            fs.fsync(log, true).await.expect("a sync");
        }
        let view = fs.dax_view().expect("it is on");
        let why = view.lacked.expect("a sync found none");
        assert_eq!((why.ino, why.frames), (log, 4));
        assert!(why.free < 4 && view.report.pmem.without_room > 0);
    });
    look(&ran, &[("log", 0, 5), ("log", 3, 5)]);
}

/// A window that takes no stores any more: the sync that meets it fails, and says why.
#[test]
fn a_window_that_fails_stops_the_file_system_and_loses_nothing() {
    let (ran, ()) = run(engine(OF, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), OF).await;
        let log = create(&fs, b"log").await;
        fs.sync().await.expect("a sync");
        for byte in 1..=5 {
            put(&fs, log, 0, byte).await;
        }
        device.fails.set(Some(Fault::Window));
        append(&fs, log, 4096, &[6; 4096]).await;
        let failed = fs.fsync(log, true).await.expect_err("it is not durable");
        assert!(failed.to_string().contains("can only be read"), "{failed}");
        let why = fs.failed().expect("nothing can be changed any more");
        assert!(why.contains("can only be read"), "{why}");
        let write = fs.write(&CALLER, log, 0, &[1], super::drive::PLAIN).await;
        assert!(write.is_err());
    });
    look(&ran, &[("log", 0, 5)]);
}

/// Flash that takes no blocks any more while a range is brought back to it.
#[test]
fn flash_that_fails_under_a_downgrade_leaves_what_was_synced() {
    let (ran, ()) = run(engine(OF, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), OF).await;
        let log = create(&fs, b"log").await;
        fs.sync().await.expect("a sync");
        for byte in 1..=5 {
            put(&fs, log, 0, byte).await;
        }
        // Written much and synced seldom: it is to leave.
        for _ in 0..20 {
            append(&fs, log, 4096, &[6; 4096]).await;
        }
        device.fails.set(Some(Fault::Blocks));
        let synced = fs.fsync(log, true).await;
        let report = fs.dax_report().expect("it is on");
        assert_eq!(report.ranges.wanted_downgrades, 1, "{report:?}");
        assert_eq!((report.ranges.failures, report.ranges.downgrades), (1, 0));
        // The sync itself needs no flash; what failed is behind it.
        assert_eq!(synced, Ok(()));
        let refused = last_refused(&fs);
        assert_eq!((refused.ino, refused.pages), (Some(log), Some(0..4)));
        assert_eq!(refused.asked, "downgrade");
        assert!(refused.why.contains("can only be read"), "{}", refused.why);
        assert!(
            fs.failed()
                .is_some_and(|why| why.contains("can only be read"))
        );
    });
    look(&ran, &[("log", 0, 5), ("log", 1, 6)]);
}

/// A window that takes no stores any more while frames are made free for a range that is upgraded:
/// the sync was answered for by flash, and the worker has the range no longer.
#[test]
fn a_window_that_fails_under_an_upgrade_leaves_the_range_to_be_tried_again() {
    let (ran, ()) = run(engine(OF, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), OF).await;
        let (full, log) = (create(&fs, b"full").await, create(&fs, b"log").await);
        fs.sync().await.expect("a sync");
        upgrade(&fs, full, 4).await;
        for page in 0..14 {
            assert!(put(&fs, full, page, 4).await, "page {page} has a frame");
        }
        // They are clean: frames to be had by others. Half of them are asked for at once.
        fs.sync().await.expect("a sync");
        fs.change_dax("reserve", "50").expect("a setting");
        for byte in 5..7 {
            device.fails.set((byte == 6).then_some(Fault::Window));
            append(&fs, log, 0, &[byte; 4096]).await;
            // It takes the usual way, and needs no frame itself.
            assert_eq!(fs.fsync(log, true).await, Ok(()), "{byte}");
        }
        let view = fs.dax_view().expect("it is on");
        let ranges = view.report.ranges;
        assert_eq!((ranges.failures, ranges.upgrades), (1, 4), "{ranges:?}");
        let refused = last_refused(&fs);
        assert_eq!((refused.ino, &refused.asked[..]), (Some(log), "upgrade"));
        assert!(refused.why.contains("can only be read"), "{}", refused.why);
        let of = view.files.iter().find(|file| file.ino == log);
        let stage = of.expect("it is tracked").ranges[0].0.stage;
        assert_eq!(stage, dax::Stage::ToUpgrade);
        assert!(
            fs.failed()
                .is_some_and(|why| why.contains("can only be read"))
        );
    });
    look(&ran, &[("full", 13, 4), ("log", 0, 6)]);
}
