//! Files that programs ask to have in persistent memory.

use super::drive::{CALLER, Fs, append, create, eager, engine, formatted, run, with};
use bytefs::{FsError, Ino, MountOptions, Personality, SetAttr, SetXattr};
use dax::{PolicyKind, Settings};

const NAME: &[u8] = b"user.entresol.dax";
const OF: Personality = Personality::Ext4Like;

fn only(kind: PolicyKind) -> MountOptions {
    with(Some(Settings { kind, ..eager() }))
}

async fn ask(fs: &Fs, ino: Ino, value: &[u8]) -> Result<(), FsError> {
    fs.set_xattr(&CALLER, ino, NAME, value, SetXattr::Any).await
}

/// Writes a page and syncs the file; says whether the window alone has answered.
async fn is_light(fs: &Fs, ino: Ino, page: u64) -> bool {
    let light = || fs.dax_report().expect("it is on").pmem.light_syncs;
    let before = light();
    append(fs, ino, page * 4096, &[7; 300]).await;
    fs.fsync(ino, true).await.expect("a sync");
    light() > before
}

#[test]
fn what_a_program_asks_for_is_there_from_its_first_sync_and_nothing_else() {
    let (ran, ()) = run(engine(OF, "256KiB"), async move |device, clock| {
        let fs = formatted(&device, &clock, only(PolicyKind::Explicit), OF).await;
        let (log, other) = (create(&fs, b"log").await, create(&fs, b"other").await);
        let part = create(&fs, b"part").await;
        ask(&fs, log, b"all").await.expect("it takes it");
        ask(&fs, part, b"0-8KiB,40KiB-44KiB").await.expect("so too");
        // The first sync of a file makes its inode durable.
        for ino in [log, part, other] {
            assert!(!is_light(&fs, ino, 0).await);
        }
        for page in [0, 1, 9] {
            assert!(is_light(&fs, log, page).await, "page {page}");
        }
        for (page, is_wanted) in [(0, true), (1, true), (2, false), (10, true)] {
            assert_eq!(is_light(&fs, part, page).await, is_wanted, "page {page}");
            // A sync that took the usual way leaves nothing behind that is not durable.
            fs.sync().await.expect("a sync");
        }
        for _ in 0..20 {
            assert!(!is_light(&fs, other, 0).await, "nobody decides");
        }
        assert_eq!(fs.dax_report().expect("it is on").ranges.wanted_upgrades, 0);
        let view = fs.dax_view().expect("it is on");
        assert_eq!(view.requested, 6);
        let mapped = |ino| {
            let file = view.files.iter().find(|file| file.ino == ino);
            file.map_or(0, |file| {
                file.spans.iter().filter(|of| of.is_requested).count()
            })
        };
        assert_eq!((mapped(log), mapped(part), mapped(other)), (1, 2, 0));
        // What is asked for no more leaves; and that is the file's, not the mount's.
        fs.remove_xattr(&CALLER, part, NAME).await.expect("it was");
        assert_eq!(fs.dax_view().expect("it is on").requested, 3);
        fs.sync().await.expect("a sync");
        assert!(!is_light(&fs, part, 0).await);
        fs.unmount().await.expect("an unmount");
    });
    let (_, ()) = run(ran.power_cycled(|| false), async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, only(PolicyKind::Explicit)).await;
        let fs = fs.expect("it is mounted");
        let log = fs.lookup(Ino::ROOT, b"log").await.expect("it is there").ino;
        let part = fs
            .lookup(Ino::ROOT, b"part")
            .await
            .expect("it is there")
            .ino;
        for ino in [log, part] {
            fs.open(ino).await.expect("it is there");
        }
        assert!(!is_light(&fs, log, 3).await, "the first of the mount");
        assert!(is_light(&fs, log, 3).await, "the attribute is the file's");
        assert!(!is_light(&fs, part, 0).await);
        assert!(!is_light(&fs, part, 0).await);
    });
}

#[test]
fn a_mount_may_be_told_that_programs_ask_for_everything() {
    run(engine(OF, "256KiB"), async move |device, clock| {
        let fs = formatted(&device, &clock, only(PolicyKind::Always), OF).await;
        let log = create(&fs, b"log").await;
        assert!(!is_light(&fs, log, 0).await, "its inode is not durable");
        for page in 0..5 {
            assert!(is_light(&fs, log, page).await, "page {page}");
        }
        let said = fs.change_dax("upgrade", "50");
        assert!(said.is_err_and(|said| said.contains("dax=always")));
    });
}

/// A file that is made and synced is there, and has the size that it was given last.
#[test]
fn a_light_sync_is_of_a_file_that_is_durable_and_of_its_size() {
    let (ran, ()) = run(engine(OF, "256KiB"), async move |device, clock| {
        let fs = formatted(&device, &clock, only(PolicyKind::Always), OF).await;
        fs.sync().await.expect("a sync");
        let new = create(&fs, b"new").await;
        append(&fs, new, 0, &[7; 4096]).await;
        fs.fsync(new, true).await.expect("a sync");
        append(&fs, new, 0, &[8; 4096]).await;
        fs.fsync(new, true).await.expect("a sync");
        assert_eq!(fs.dax_report().expect("it is on").pmem.light_syncs, 1);
        let set = SetAttr {
            size: Some(8192),
            ..SetAttr::default()
        };
        fs.setattr(&CALLER, new, set).await.expect("a size");
        fs.fsync(new, true).await.expect("a sync");
    });
    run(ran.power_cycled(|| false), async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, with(None))
            .await
            .expect("mounts");
        let new = fs.lookup(Ino::ROOT, b"new").await.expect("it was synced");
        assert_eq!(new.size, 8192);
        let seen = fs.read(new.ino, 0, 4096, false).await.expect("a read");
        assert_eq!(seen, [8; 4096]);
    });
}

/// A range may be upgraded and asked for: it stays for as long as either is so.
#[test]
fn both_reasons_hold_a_page() {
    run(engine(OF, "256KiB"), async move |device, clock| {
        let fs = formatted(&device, &clock, only(PolicyKind::Ratio), OF).await;
        let log = create(&fs, b"log").await;
        fs.sync().await.expect("a sync");
        for _ in 0..4 {
            is_light(&fs, log, 0).await;
        }
        assert!(is_light(&fs, log, 0).await, "it is upgraded");
        // What is asked for counts as that from then on, whenever it got its frame.
        let requested = || fs.dax_view().expect("it is on").requested;
        assert_eq!(requested(), 0);
        ask(&fs, log, b"all").await.expect("it takes it");
        assert_eq!(requested(), 1);
        fs.sync().await.expect("a sync");
        assert!(is_light(&fs, log, 9).await, "it is asked for");
        assert_eq!(requested(), 2);
        fs.remove_xattr(&CALLER, log, NAME).await.expect("it was");
        assert_eq!(requested(), 0);
        fs.sync().await.expect("a sync");
        assert!(is_light(&fs, log, 0).await, "it is upgraded still");
        assert!(!is_light(&fs, log, 9).await);
    });
}

#[test]
fn what_a_program_cannot_ask_for_is_refused_and_not_kept() {
    run(engine(OF, "256KiB"), async move |device, clock| {
        let fs = formatted(&device, &clock, only(PolicyKind::Ratio), OF).await;
        let log = create(&fs, b"log").await;
        for value in [&b"on"[..], b"", b"4KiB-0", b"\xff"] {
            let said = ask(&fs, log, value)
                .await
                .map_err(|error| error.to_string());
            assert!(said.is_err_and(|said| said.contains("ranges of bytes")));
        }
        let found = fs.get_xattr(log, NAME).await;
        assert_eq!(found, Err(FsError::NoAttribute));
        // Who asks through the kernel is told a number: the reason is there for who looks.
        let refused = fs.dax_view().expect("it is on").refused;
        let seen: Vec<_> = refused.iter().map(|of| (of.ino, &of.asked[..])).collect();
        let asked = ["on", "", "4KiB-0", "\u{fffd}"];
        assert_eq!(seen, asked.map(|asked| (Some(log), asked)));
        assert!(refused.iter().all(|of| of.why.contains("ranges of bytes")));
        for (key, value, wanted) in [
            ("upgrade", "600", "at most 200 %"),
            ("upgrade", "10", "back and forth"),
            ("order", "3", "-o dax_order="),
            ("size", "3", "no setting"),
            ("policy", "best", "no such policy"),
        ] {
            let said = fs.change_dax(key, value);
            assert!(said.is_err_and(|said| said.contains(wanted)), "{key}");
        }
        assert_eq!(fs.change_dax("upgrade", "61"), Ok(()));
        let view = fs.dax_view().expect("it is on");
        assert_eq!(view.settings.policy.upgrade_above, 61);
    });
}
