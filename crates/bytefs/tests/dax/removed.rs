//! Files that are removed while nobody has them open, and those that get their numbers.

use super::drive::{CALLER, Fs, append, create, eager, engine, formatted, run, with};
use bytefs::{Ino, MountOptions, Personality, Rename};
use dax::{PolicyKind, Settings};

const OF: Personality = Personality::Ext4Like;
/// 14 frames.
const SMALL: &str = "64KiB";
/// More than there are inodes: their numbers come back.
const TIMES: u8 = 80;

fn always() -> MountOptions {
    let kind = PolicyKind::Always;
    with(Some(Settings { kind, ..eager() }))
}

/// A new file with a page that has a frame: as the journal of a transaction.
async fn made(fs: &Fs, name: &[u8], byte: u8) -> Ino {
    let ino = create(fs, name).await;
    for byte in [0, byte] {
        append(fs, ino, 0, &[byte; 4096]).await;
        fs.fsync(ino, true).await.expect("a sync");
    }
    fs.release(ino).await.expect("it was open");
    ino
}

#[test]
fn a_closed_file_that_is_removed_leaves_no_frames() {
    for is_renamed in [false, true] {
        let (_, ()) = run(engine(OF, SMALL), async move |device, clock| {
            let fs = formatted(&device, &clock, always(), OF).await;
            for byte in 0..TIMES {
                made(&fs, b"new", byte).await;
                let done = match is_renamed {
                    false => fs.unlink(&CALLER, Ino::ROOT, b"new").await,
                    true => {
                        let (from, to) = (Ino::ROOT, Ino::ROOT);
                        fs.rename(&CALLER, from, b"new", to, b"old", Rename::Replace)
                            .await
                    }
                };
                done.expect("it has the name");
            }
            let report = fs.dax_report().expect("it is on");
            assert_eq!(report.pmem.light_syncs, u64::from(TIMES), "{report:?}");
            let view = fs.dax_view().expect("it is on");
            assert_eq!(view.files.len(), usize::from(is_renamed), "{view:?}");
        });
    }
}

/// Its number was another file's, of which the window knows what is not so any more.
#[test]
fn the_first_sync_of_a_file_whose_number_comes_back_makes_it_durable() {
    let (ran, ()) = run(engine(OF, "1MiB"), async move |device, clock| {
        let fs = formatted(&device, &clock, always(), OF).await;
        for byte in 0..TIMES {
            made(&fs, b"old", byte).await;
            let gone = fs.unlink(&CALLER, Ino::ROOT, b"old").await;
            gone.expect("it has the name");
            // Nothing of an earlier file waits to be durable.
            fs.sync().await.expect("a sync");
        }
        let kept = create(&fs, b"kept").await;
        append(&fs, kept, 0, &[7; 4096]).await;
        fs.fsync(kept, true).await.expect("a sync");
    });
    run(ran.power_cycled(|| false), async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, with(None))
            .await
            .expect("mounts");
        let kept = fs.lookup(Ino::ROOT, b"kept").await.expect("it was synced");
        let seen = fs.read(kept.ino, 0, 8192, false).await.expect("a read");
        assert!(seen == [7; 4096], "{} bytes", seen.len());
    });
}

/// What was decided about a file is told of that file, also if another one has what it was tracked
/// by when the trace is looked at.
#[test]
fn the_trace_says_whose_a_range_was_when_it_was_judged() {
    run(engine(OF, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), OF).await;
        fs.keep_dax_trace();
        let old = create(&fs, b"old").await;
        let new = create(&fs, b"new").await;
        let write = async |ino: Ino| {
            append(&fs, ino, 0, &[1; 4096]).await;
            fs.fsync(ino, true).await.expect("a sync");
        };
        write(old).await;
        fs.release(old).await.expect("it was open");
        fs.unlink(&CALLER, Ino::ROOT, b"old").await.expect("a name");
        write(new).await;
        let (decisions, lost) = fs.take_dax_trace();
        let of: Vec<Ino> = decisions.iter().map(|(ino, _)| *ino).collect();
        assert_eq!((of, lost), (vec![old, new], 0));
        assert_eq!(
            decisions[0].1.file, decisions[1].1.file,
            "it was tracked as this"
        );
    });
}
