//! Syncs that take the usual way although their range is upgraded.

use super::drive::{CALLER, Fs, append, create, eager, engine, formatted, put, run, with};
use bytefs::{Allocate, Ino, Personality, SetAttr, SetXattr};

const OF: Personality = Personality::Ext4Like;
/// 14 frames.
const SMALL: &str = "64KiB";

/// A file whose first ranges of four pages are upgraded.
async fn upgraded(fs: &Fs, name: &[u8], ranges: u64) -> Ino {
    let ino = create(fs, name).await;
    fs.sync().await.expect("a sync");
    for range in 0..ranges {
        for byte in 1..3 {
            assert!(!put(fs, ino, 4 * range, byte).await, "it is not upgraded");
        }
    }
    ino
}

/// What a power cut leaves of page 0 of files; None: there is no such file.
fn left(of: &super::drive::Ran, names: &'static [&'static str]) -> Vec<Option<u8>> {
    let (_, found) = run(of.power_cycled(|| true), async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, with(None))
            .await
            .expect("mounts");
        let mut found = Vec::new();
        for name in names {
            found.push(match fs.lookup(Ino::ROOT, name.as_bytes()).await {
                Ok(attr) => {
                    let bytes = fs.read(attr.ino, 0, 4096, false).await.expect("a read");
                    bytes.first().copied()
                }
                Err(_) => None,
            });
        }
        found
    });
    found
}

/// All frames are of a file that is removed. Until that is durable the file may come back, and
/// nobody else has them.
#[test]
fn frames_of_a_removed_file_are_nobodys_once_that_is_durable() {
    let (ran, ()) = run(engine(OF, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), OF).await;
        let new = upgraded(&fs, b"new", 1).await;
        let old = create(&fs, b"old").await;
        let name = b"user.entresol.dax";
        let set = fs.set_xattr(&CALLER, old, name, b"all", SetXattr::Any);
        set.await.expect("it takes it");
        fs.sync().await.expect("a sync");
        fs.fsync(old, true).await.expect("the first one");
        for page in 0..14 {
            assert!(put(&fs, old, page, 4).await, "page {page} has a frame");
        }
        fs.unlink(&CALLER, Ino::ROOT, b"old").await.expect("it is");
        fs.release(old).await.expect("it was open");
        let view = fs.dax_view().expect("it is on");
        assert_eq!(
            (view.report.frames, view.free),
            ((14, 14), 0),
            "all are old's"
        );
        assert!(!put(&fs, new, 0, 9).await, "the frames are old's");
        fs.sync().await.expect("a sync");
        assert!(put(&fs, new, 0, 10).await, "they are not any more");
    });
    assert_eq!(left(&ran, &["old", "new"]), [None, Some(10)]);
}

/// A file whose mode was changed: the window has not all of it until that is durable.
#[test]
fn a_sync_behind_a_change_of_the_inode_is_a_usual_one() {
    let (ran, ()) = run(engine(OF, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), OF).await;
        let log = upgraded(&fs, b"log", 1).await;
        assert!(put(&fs, log, 0, 3).await);
        fs.sync().await.expect("a sync");
        create(&fs, b"other").await;
        assert!(put(&fs, log, 0, 3).await, "no change of its is pending");
        let set = SetAttr {
            permissions: Some(0o640),
            ..SetAttr::default()
        };
        fs.setattr(&CALLER, log, set).await.expect("it is set");
        assert!(!put(&fs, log, 0, 4).await, "its inode is not durable");
        assert!(put(&fs, log, 0, 5).await);
    });
    assert_eq!(left(&ran, &["log"]), [Some(5)]);
}

/// Pages that were written and cut off, or punched out, before a sync are synced by none.
#[test]
fn pages_that_are_gone_count_for_nothing() {
    for is_cut in [true, false] {
        run(engine(OF, SMALL), async move |device, clock| {
            let fs = formatted(&device, &clock, with(Some(eager())), OF).await;
            let log = create(&fs, b"log").await;
            append(&fs, log, 0, &[1; 8 * 4096]).await;
            fs.fsync(log, true).await.expect("a sync");
            append(&fs, log, 4 * 4096, &[2; 4 * 4096]).await;
            if is_cut {
                let set = SetAttr {
                    size: Some(4096),
                    ..SetAttr::default()
                };
                fs.setattr(&CALLER, log, set).await.expect("a size");
            } else {
                let (at, size) = (4 * 4096, 4 * 4096);
                let hole = fs.fallocate(&CALLER, log, Allocate::PunchHole, at, size);
                hole.await.expect("a hole");
            }
            for _ in 0..3 {
                fs.fsync(log, true).await.expect("a sync");
            }
            let view = fs.dax_view().expect("it is on");
            let ranges = view.files[0].ranges.iter();
            let synced = ranges.filter(|(range, _)| range.pages.start >= 4);
            let counts: Vec<_> = synced.map(|(range, _)| range.counts.write_backs).collect();
            // A range that is cut off is forgotten.
            let wanted = if is_cut { vec![] } else { vec![4] };
            assert_eq!(counts, wanted, "cut off: {is_cut}");
        });
    }
}

/// A sync of a file to which nothing was written is answered by nobody's memory, whether the window
/// or the log is it; nor is that of a directory.
#[test]
fn a_sync_that_has_nothing_to_do_is_no_light_one() {
    let of_log = super::drive::with_safe_log(Personality::ByteFs);
    for (of, device) in [(OF, engine(OF, SMALL)), (Personality::ByteFs, of_log)] {
        run(device, async move |device, clock| {
            let fs = formatted(&device, &clock, with(Some(eager())), of).await;
            let log = upgraded(&fs, b"log", 1).await;
            assert!(put(&fs, log, 0, 3).await);
            fs.sync().await.expect("a sync");
            let light = || fs.dax_report().expect("it is on").pmem.light_syncs;
            let before = light();
            for ino in [log, Ino::ROOT, log] {
                fs.fsync(ino, true).await.expect("a sync");
            }
            assert_eq!(light(), before, "{of}");
            assert!(put(&fs, log, 1, 4).await, "{of}");
            assert_eq!(light(), before + 1, "{of}");
        });
    }
}

/// Its times go with a batch, whatever the window has: nothing is upgraded for it.
#[test]
fn a_file_that_is_synced_with_its_times_stays_where_it_is() {
    run(engine(OF, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), OF).await;
        let log = create(&fs, b"log").await;
        for byte in 0..20 {
            append(&fs, log, 0, &[byte; 4096]).await;
            fs.fsync(log, false).await.expect("a sync");
        }
        let view = fs.dax_view().expect("it is on");
        assert_eq!(view.report.ranges.wanted_upgrades, 0);
        let counts = view.files[0].ranges[0].0.counts;
        assert_eq!((counts.writes, counts.write_backs), (20, 20));
        put(&fs, log, 0, 20).await;
        assert!(put(&fs, log, 0, 21).await, "one that can gain is there");
    });
}
