//! Journals on the host's side: what they hold is never given up without a word.

use crate::worn::{Worn, bytes_of, create, geometry_of, made, run, tree_of};
use bytefs::layout::BLOCK;
use bytefs::{Ino, Personality, check};
use port::{AnyDevice, Device};
use units::ByteAddr;

/// Not unmounted, and the only place of synced names is the journal.
fn not_unmounted(personality: Personality) -> Vec<u8> {
    run(async {
        let fs = made(personality, 8).await;
        create(&fs, Ino::ROOT, "old").await;
        fs.sync().await.unwrap();
        for name in 0..5 {
            let ino = create(&fs, Ino::ROOT, &format!("synced {name}")).await;
            fs.fsync(ino, false).await.unwrap();
        }
        bytes_of(&fs.into_device())
    })
}

/// What fsck says of an image that it leaves as it is.
fn left_alone(device: &AnyDevice) -> String {
    let before = bytes_of_whole(device);
    let report = run(check(device, true)).unwrap();
    assert!(!report.was_recovered, "{report:?}");
    assert_eq!(report.problems.len(), 1, "{report:?}");
    let problem = &report.problems[0];
    assert_eq!(problem.repaired, None, "{report:?}");
    assert!(problem.what.contains("nothing is repaired"), "{problem}");
    assert!(before == bytes_of_whole(device), "something was written");
    problem.what.clone()
}

/// Bytes of all blocks that can be read.
fn bytes_of_whole(device: &AnyDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.shape().capacity.get() as usize];
    for (block, bytes) in bytes.chunks_exact_mut(BLOCK).enumerate() {
        let at = ByteAddr::new((block * BLOCK) as u64);
        let _ = run(device.read_blocks(at, bytes));
    }
    bytes
}

#[test]
fn a_block_that_a_journal_has_lost_stops_a_repair() {
    let image = not_unmounted(Personality::Ext4Like);
    let names = tree_of(&image);
    assert_eq!(names.len(), 6);
    let first = u64::from(geometry_of(&image).journal.start);
    for lost in [first, first + 1, first + 3] {
        let (device, faults) = Worn::of(&image);
        faults.lost.borrow_mut().insert(lost);
        let told = left_alone(&device);
        let place = format!("has lost the block at byte {}", lost * BLOCK as u64);
        assert!(told.contains(&place), "{told}");
        // A copy of that block brings everything back.
        faults.lost.borrow_mut().clear();
        let report = run(check(&device, true)).unwrap();
        assert!(report.is_clean() && report.was_recovered, "{report:?}");
        assert_eq!(tree_of(&bytes_of(&device)), names);
    }
}

#[test]
fn a_device_that_can_only_be_read_stops_a_repair_and_loses_nothing() {
    for personality in [Personality::Ext4Like, Personality::F2fsLike] {
        let image = not_unmounted(personality);
        let (device, faults) = Worn::of(&image);
        faults.is_read_only.set(true);
        let told = left_alone(&device);
        assert!(told.contains("can only be read"), "{told}");
        assert_eq!(tree_of(&image).len(), 6);
    }
}

/// What stops the mount is none of the journal, whose records are in their places by then.
#[test]
fn damage_beside_a_journal_is_mended_behind_its_recovery() {
    for personality in [
        Personality::Ext4Like,
        Personality::ByteFsDual,
        Personality::PmfsLike,
    ] {
        let image = not_unmounted(personality);
        let names = tree_of(&image);
        let mut broken = image.clone();
        // The list of files without a name, of which nothing is in the journal.
        broken[BLOCK + 5] ^= 1;
        let (device, _) = Worn::of(&broken);
        let report = run(check(&device, true)).unwrap();
        assert!(report.was_recovered, "{personality}: {report:?}");
        let are_mended = report.problems.iter().all(|one| one.repaired.is_some());
        assert!(!report.is_clean() && are_mended, "{report:?}");
        assert_eq!(tree_of(&bytes_of(&device)), names, "{personality}");
    }
}
