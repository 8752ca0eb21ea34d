//! Journals on the host's side: what they hold is never given up without a word.

use crate::common::{AnyClock, Fs};
use crate::worn::{Worn, bytes_of, create, geometry_of, made, mounted, run, tree, tree_of};
use bytefs::layout::BLOCK;
use bytefs::{Ino, MountError, MountOptions, Personality, check};
use port::{AnyDevice, Device};
use units::ByteAddr;

/// Where the fields are of the line that says whether a record of lines counts.
const COUNTS: usize = 16;

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

/// With a record of lines that counts, as if the power had been cut before its lines were all in
/// their places: the last record stays where it is, and its first line is made to say so.
fn with_record_of_lines(personality: Personality) -> Vec<u8> {
    let mut image = not_unmounted(personality);
    let head = geometry_of(&image).journal.start as usize * BLOCK;
    image[head + COUNTS] = 1;
    bytefs::layout::seal(&mut image[head..head + 64]);
    image
}

fn refusal(device: AnyDevice) -> MountError {
    let mounted = run(Fs::mount(device, AnyClock::Still, MountOptions::default()));
    mounted.map(|_| ()).unwrap_err()
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

#[test]
fn a_record_of_lines_is_replayed_and_a_damaged_one_stops_a_mount() {
    for personality in [Personality::ByteFsDual, Personality::PmfsLike] {
        let image = with_record_of_lines(personality);
        let head = geometry_of(&image).journal.start as usize * BLOCK;
        assert!(tree_of(&image).contains_key("/synced 3"));
        // The first line, how many lines it says there are, a line, and a line of addresses.
        for (number, (at, bits)) in [(3, 0x40), (11, 0x40), (150, 1), (64, 0x40)]
            .into_iter()
            .enumerate()
        {
            let mut broken = image.clone();
            broken[head + at] ^= bits;
            if number == 1 {
                bytefs::layout::seal(&mut broken[head..head + 64]);
            }
            let error = refusal(Worn::of(&broken).0);
            let is_told =
                matches!(&error, MountError::Damaged { what } if what.contains("journal"));
            assert!(is_told, "{personality}, damage {number}: {error}");
            left_alone(&Worn::of(&broken).0);
        }
        // Nothing was ever written there.
        let mut empty = not_unmounted(personality);
        empty[head..head + 64].fill(0);
        assert_eq!(tree_of(&empty).len(), 6);
    }
}

#[test]
fn a_damaged_first_block_of_a_journal_of_blocks_stops_a_mount() {
    let image = run(async {
        let (device, _) = Worn::of(&not_unmounted(Personality::Ext4Like));
        // Behind a recovery it says where records begin.
        let fs = mounted(device).await;
        let ino = create(&fs, Ino::ROOT, "last").await;
        fs.fsync(ino, false).await.unwrap();
        bytes_of(&fs.into_device())
    });
    let first = geometry_of(&image).journal.start as usize * BLOCK;
    assert!(tree_of(&image).contains_key("/last"));
    let used: Vec<usize> = (0..BLOCK).filter(|at| image[first + at] != 0).collect();
    assert!(used.len() > 8, "{used:?}");
    for at in used {
        let mut broken = image.clone();
        broken[first + at] ^= 0x10;
        let error = refusal(Worn::of(&broken).0);
        let is_told = matches!(&error, MountError::Damaged { what } if what.contains("journal"));
        assert!(is_told, "byte {at}: {error}");
        left_alone(&Worn::of(&broken).0);
    }
}

/// A journal of which nothing is needed any more may be damaged.
#[test]
fn damage_of_a_journal_behind_an_unmount_stops_nobody() {
    for personality in [Personality::Ext4Like, Personality::ByteFsDual] {
        let image = run(async {
            let fs = mounted(Worn::of(&not_unmounted(personality)).0).await;
            fs.unmount().await.unwrap();
            bytes_of(&fs.into_device())
        });
        let names = tree_of(&image);
        let first = geometry_of(&image).journal.start;
        let mut broken = image.clone();
        broken[first as usize * BLOCK + 2] ^= 0x20;
        let lost = {
            let (device, faults) = Worn::of(&image);
            faults.lost.borrow_mut().insert(u64::from(first));
            device
        };
        for device in [Worn::of(&broken).0, lost] {
            run(async {
                assert!(check(&device, false).await.unwrap().is_clean());
                let fs = mounted(device).await;
                assert_eq!(tree(&fs).await, names, "{personality}");
                let ino = create(&fs, Ino::ROOT, "behind").await;
                fs.fsync(ino, false).await.unwrap();
                let fs = mounted(fs.into_device()).await;
                assert_eq!(tree(&fs).await.len(), names.len() + 1, "{personality}");
            });
        }
    }
}
