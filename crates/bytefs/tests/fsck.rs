//! fsck where the flash has lost blocks, where the power is cut while it repairs, and of images
//! that contradict themselves.

use crate::worn::{
    CALLER, PLAIN, Worn, bytes_of, create, geometry_of, made, mounted, run, tree, tree_of,
};
use bytefs::layout::{BLOCK, INODE_BYTES, Inode, is_sealed};
use bytefs::{FsError, Ino, MountError, Personality, Rename, check};
use port::AnyDevice;
use std::collections::BTreeMap;

const PERSONALITIES: [Personality; 4] = [
    Personality::ByteFsDual,
    Personality::Ext4Like,
    Personality::F2fsLike,
    Personality::NovaLike,
];

/// Two directories, one with a name for each of so many files, and a file of many extents.
fn image(personality: Personality, names: usize) -> Vec<u8> {
    run(async {
        let mib = if personality == Personality::F2fsLike {
            8
        } else {
            4
        };
        let fs = made(personality, mib).await;
        for dir in ["few", "many"] {
            let dir_ino = fs.mkdir(&CALLER, Ino::ROOT, dir.as_bytes(), 0o755).await;
            let dir_ino = dir_ino.unwrap().ino;
            let names = if dir == "few" { 3 } else { names };
            for name in 0..names {
                let tail = "n".repeat(name % 150);
                let ino = create(&fs, dir_ino, &format!("{dir} {name} {tail}")).await;
                let data = vec![(name % 250) as u8 + 1; 40];
                fs.write(&CALLER, ino, 0, &data, PLAIN).await.unwrap();
                if name == 1 {
                    let set = bytefs::SetXattr::Any;
                    let done = fs.set_xattr(&CALLER, ino, b"user.a", b"yes", set);
                    done.await.unwrap();
                }
            }
        }
        let many = create(&fs, Ino::ROOT, "extents").await;
        for page in (0..40).step_by(2) {
            let data = [page as u8 + 1; BLOCK];
            let at = page * BLOCK as u64;
            fs.write(&CALLER, many, at, &data, PLAIN).await.unwrap();
        }
        fs.unmount().await.unwrap();
        bytes_of(&fs.into_device())
    })
}

fn found_in(image: &[u8], text: &str) -> Vec<usize> {
    let text = text.as_bytes();
    let lines = (0..image.len()).step_by(64);
    lines
        .filter(|at| image[at + 8..].starts_with(text))
        .collect()
}

/// Damages the first line of the blocks that hold a name.
fn damage_blocks_of(image: &mut [u8], name: &str) {
    let found = found_in(image, name);
    assert!(!found.is_empty(), "{name}");
    for line in found {
        let head = line / BLOCK * BLOCK;
        image[head + 5] ^= 0x11;
        assert!(!is_sealed(&image[head..head + 64]));
    }
}

fn change_inode(image: &mut [u8], ino: Ino, change: impl FnOnce(&mut Inode)) {
    let (block, at) = geometry_of(image).inode_place(ino);
    let at = block.0 as usize * BLOCK + at;
    let bytes = &mut image[at..at + INODE_BYTES];
    let mut inode = Inode::decode(bytes).unwrap().unwrap();
    change(&mut inode);
    bytes.copy_from_slice(&inode.encode());
}

fn ino_of(image: &[u8], path: &[&str]) -> Ino {
    run(async {
        let fs = mounted(Worn::of(image).0).await;
        let mut ino = Ino::ROOT;
        for name in path {
            ino = fs.lookup(ino, name.as_bytes()).await.unwrap().ino;
        }
        ino
    })
}

/// Repairs, and looks that nothing is left to be repaired.
fn repaired(device: &AnyDevice, what: &str) -> bytefs::CheckReport {
    let report = run(check(device, true)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let left = report.problems.iter().find(|one| one.repaired.is_none());
    assert!(left.is_none(), "{what}: {report:?}");
    let again = run(check(device, false)).unwrap();
    assert!(again.is_clean(), "{what}: {report:?} then {again:?}");
    report
}

#[test]
fn a_block_that_the_flash_has_lost_is_told_and_written_anew() {
    for personality in PERSONALITIES {
        let image = image(personality, 60);
        let whole = tree_of(&image);
        let geometry = geometry_of(&image);
        let bitmaps = geometry.block_bitmap.start..geometry.inode_bitmap.end;
        let (mut told, mut kept) = (0, 0);
        for block in 0..(image.len() / BLOCK) as u32 {
            let bytes = &image[block as usize * BLOCK..][..BLOCK];
            let is_empty = bytes.iter().all(|byte| *byte == 0) && !bitmaps.contains(&block);
            if is_empty || (geometry.segments.is_none() && geometry.journal.contains(&block)) {
                continue;
            }
            let what = format!("{personality}, block {block}");
            let (device, faults) = Worn::of(&image);
            faults.lost.borrow_mut().insert(u64::from(block));
            let first = run(check(&device, false));
            let first = first.unwrap_or_else(|error| panic!("{what}: {error}"));
            if first.is_clean() {
                // Contents, a copy, or an older version of something: fsck reads none of these.
                continue;
            }
            told += 1;
            assert!(first.problems.len() < 90, "{what}: {first:?}");
            // What has a twin is damaged in one place, whatever the reason.
            let told_so = ["lost", "checkpoint in block", "damaged in one copy"];
            let is_told = told_so
                .iter()
                .any(|told| first.problems[0].what.contains(told));
            assert!(is_told, "{what}: {first:?}");
            repaired(&device, &what);
            // With segments it has another place from then on.
            let is_healed = faults.lost.borrow().is_empty() || geometry.segments.is_some();
            assert!(is_healed, "{what} is not written");
            let mended = run(async { tree(&mounted(device).await).await });
            let is_of_names = geometry.segments.is_none()
                && !bitmaps.contains(&block)
                && block >= geometry.inode_table.start;
            if !is_of_names && geometry.segments.is_none() {
                assert_eq!(mended, whole, "{what}");
                kept += 1;
            }
            // Files of a block of names are in lost+found, a block of inodes takes 32 files with
            // it, and what has lost its extents reads as zeroes; nothing else has changed.
            assert!(mended.len() + 32 >= whole.len(), "{what}: {}", mended.len());
            for (path, data) in &mended {
                let is_known = |known: &Vec<u8>| {
                    let mut bytes = data.iter().zip(known);
                    known.len() == data.len()
                        && bytes.all(|(byte, known)| byte == known || *byte == 0)
                };
                assert!(whole.values().any(is_known), "{what}: {path}");
            }
        }
        assert!(told > 8, "{personality}: {told}");
        assert!(kept > 0 || geometry.segments.is_some(), "{personality}");
    }
}

/// Whoever may write to the root may take the name of the place for files without one.
#[test]
fn a_name_that_is_taken_keeps_no_file_from_being_found() {
    for personality in PERSONALITIES {
        let (device, _) = Worn::of(&image(personality, 20));
        let mut broken = run(async {
            let fs = mounted(device).await;
            create(&fs, Ino::ROOT, "lost+found").await;
            fs.unmount().await.unwrap();
            bytes_of(&fs.into_device())
        });
        for line in found_in(&broken, "few 0 ") {
            broken[line..line + 64].fill(0);
        }
        let (device, _) = Worn::of(&broken);
        repaired(&device, &personality.to_string());
        let tree = tree_of(&bytes_of(&device));
        assert!(tree.contains_key("/lost+found"), "{personality}");
        let is_found = |path: &&String| path.starts_with("/lost+found.1/inode ");
        assert_eq!(tree.keys().filter(is_found).count(), 1, "{personality}");
    }
}

/// Behind every write of a repair the power is cut; a second repair finds every name.
#[test]
fn a_repair_that_was_cut_short_loses_no_name() {
    for personality in PERSONALITIES {
        let mut broken = image(personality, 150);
        let mut whole = tree_of(&broken);
        damage_blocks_of(&mut broken, "many 7 ");
        // A file without a name, which a repair brings to lost+found.
        for line in found_in(&broken, "few 0 ") {
            broken[line..line + 64].fill(0);
        }
        whole.remove("/few/few 0 ");
        let (device, faults) = Worn::of(&broken);
        let report = repaired(&device, &personality.to_string());
        assert!(report.problems.len() > 1, "{report:?}");
        let writes = faults.writes.get();
        assert!(writes > 10, "{writes}");
        let has_all = |tree: &BTreeMap<String, Vec<u8>>, what: &str| {
            for (path, data) in &whole {
                assert_eq!(tree.get(path), Some(data), "{what}: {path}");
            }
            let is_found = |path: &String| path.starts_with("/lost+found/inode ");
            assert_eq!(tree.keys().filter(|path| is_found(path)).count(), 1);
        };
        has_all(&tree_of(&bytes_of(&device)), "at once");
        for cut in 0..writes {
            let what = format!("{personality}, cut behind {cut} of {writes} writes");
            let (device, faults) = Worn::of(&broken);
            faults.left.set(Some(cut));
            let stopped = run(check(&device, true));
            assert!(stopped.is_err(), "{what}: {stopped:?}");
            let (device, _) = Worn::of(&bytes_of(&device));
            repaired(&device, &what);
            has_all(&tree_of(&bytes_of(&device)), &what);
        }
    }
}

#[test]
fn a_file_system_whose_repair_was_cut_short_is_not_mounted() {
    let mut broken = image(Personality::ByteFsDual, 150);
    damage_blocks_of(&mut broken, "many 7 ");
    let (device, faults) = Worn::of(&broken);
    faults.left.set(Some(4));
    assert!(run(check(&device, true)).is_err());
    let (device, _) = Worn::of(&bytes_of(&device));
    let told = run(check(&device, false)).unwrap();
    assert!(told.problems[0].what.contains("interrupted"), "{told:?}");
    let refused = run(crate::common::Fs::mount(
        device,
        crate::common::AnyClock::Still,
        bytefs::MountOptions::default(),
    ));
    let error = refused.map(|_| ()).unwrap_err();
    let is_told = matches!(&error, MountError::Device(what) if what.contains("fsck --repair"));
    assert!(is_told, "{error}");
}

/// Names need new blocks before the old ones go. Without room everything stays as it is.
#[test]
fn a_directory_for_which_there_is_no_room_keeps_its_names() {
    let image = run(async {
        let fs = mounted(Worn::of(&image(Personality::ByteFsDual, 9)).0).await;
        let many = fs.lookup(Ino::ROOT, b"many").await.unwrap().ino;
        let file = fs.lookup(many, b"many 0 ").await.unwrap().ino;
        // More blocks than names are left when contents have no room any more.
        for number in 0..700 {
            let name = format!("link {number} {}", "l".repeat(240));
            let done = fs.link(&CALLER, file, many, name.as_bytes()).await;
            done.unwrap();
        }
        let large = create(&fs, Ino::ROOT, "large").await;
        let mut at = 0;
        while fs
            .write(&CALLER, large, at, &[1; BLOCK], PLAIN)
            .await
            .is_ok()
        {
            at += BLOCK as u64;
        }
        fs.unmount().await.unwrap();
        bytes_of(&fs.into_device())
    });
    let names = tree_of(&image).len();
    let mut broken = image.clone();
    damage_blocks_of(&mut broken, "many 7 ");
    let (device, _) = Worn::of(&broken);
    let report = run(check(&device, true)).unwrap();
    let no_room = |one: &bytefs::Problem| one.what.contains("no room") && one.repaired.is_none();
    assert!(report.problems.iter().any(no_room), "{report:?}");
    run(async {
        let fs = mounted(device).await;
        fs.unlink(&CALLER, Ino::ROOT, b"large").await.unwrap();
        fs.unmount().await.unwrap();
        let device = fs.into_device();
        let report = check(&device, true).await.unwrap();
        assert!(report.problems.iter().all(|one| one.repaired.is_some()));
        assert_eq!(tree(&mounted(device).await).await.len(), names - 1);
    });
}

#[test]
fn a_file_that_was_open_without_a_name_is_gone_behind_an_unmount() {
    for personality in Personality::ALL {
        if personality.needs_transactions() {
            continue;
        }
        run(async {
            let fs = made(personality, 8).await;
            create(&fs, Ino::ROOT, "stays").await;
            fs.sync().await.unwrap();
            let before = fs.usage();
            for name in ["open", "twice"] {
                let made = fs.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o600).await;
                let ino = made.unwrap().ino;
                let data = [7; 3 * BLOCK];
                fs.write(&CALLER, ino, 0, &data, PLAIN).await.unwrap();
                fs.fsync(ino, false).await.unwrap();
                if name == "twice" {
                    fs.open(ino).await.unwrap();
                }
                fs.unlink(&CALLER, Ino::ROOT, name.as_bytes())
                    .await
                    .unwrap();
                fs.write(&CALLER, ino, 0, b"more", PLAIN).await.unwrap();
            }
            fs.unmount().await.unwrap();
            let device = fs.into_device();
            let report = check(&device, false).await.unwrap();
            assert!(report.is_clean() && !report.was_recovered, "{report:?}");
            let fs = mounted(device).await;
            let names: Vec<String> = tree(&fs).await.into_keys().collect();
            assert_eq!(names, ["/stays"], "{personality}");
            let after = fs.usage();
            assert_eq!(after.free_inodes, before.free_inodes, "{personality}");
            // The root has kept what it has got.
            assert!(after.free_blocks + 1 >= before.free_blocks, "{personality}");
        });
    }
}

#[test]
fn directories_that_are_in_each_other_end_a_rename_with_an_error() {
    let image = run(async {
        let fs = made(Personality::ByteFsDual, 8).await;
        for name in ["a", "b", "c"] {
            let made = fs.mkdir(&CALLER, Ino::ROOT, name.as_bytes(), 0o755).await;
            made.unwrap();
        }
        fs.unmount().await.unwrap();
        bytes_of(&fs.into_device())
    });
    let [a, b] = [["a"], ["b"]].map(|path| ino_of(&image, &path));
    let mut crafted = image;
    change_inode(&mut crafted, a, |inode| inode.parent = b);
    change_inode(&mut crafted, b, |inode| inode.parent = a);
    run(async {
        let fs = mounted(Worn::of(&crafted).0).await;
        let how = Rename::NoReplace;
        let renamed = fs.rename(&CALLER, Ino::ROOT, b"c", a, b"c", how).await;
        let is_told = matches!(&renamed, Err(FsError::Io(what)) if what.contains("damaged"));
        assert!(is_told, "{renamed:?}");
    });
    repaired(&Worn::of(&crafted).0, "directories in each other");
}

#[test]
fn extents_beyond_everything_end_in_a_report() {
    for personality in [Personality::ByteFsDual, Personality::Ext4Like] {
        let image = image(personality, 60);
        for path in [&["many"][..], &["extents"]] {
            let ino = ino_of(&image, path);
            let geometry = geometry_of(&image);
            let beyond = [
                (geometry.files.end, 1),
                (geometry.blocks + 5, 3),
                (geometry.files.end - 1, 2),
                (1, 1),
                (1, i32::MAX as u32),
                (u32::MAX, i32::MAX as u32),
            ];
            for (block, count) in beyond {
                let mut crafted = image.clone();
                change_inode(&mut crafted, ino, |inode| {
                    for extent in inode.slots.iter_mut().flatten() {
                        extent.block.0 = block;
                        extent.count = count;
                    }
                });
                let what = format!("{personality}, {path:?}, block {block}, {count} blocks");
                let (device, _) = Worn::of(&crafted);
                let report = run(check(&device, false));
                let report = report.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(!report.is_clean(), "{what}");
                let report = run(check(&device, true)).unwrap();
                assert!(report.problems.len() < 200, "{what}: {report:?}");
            }
        }
    }
}
