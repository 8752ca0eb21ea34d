//! A file as a drive: what is written comes back, nothing outside the range changes, and what
//! cannot be a drive is refused with a sentence.

use inloop::{Drive, DriveError, DriveOptions, GRAIN, Transfer};
use proptest::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use units::{Bytes, Picos};

/// A file of so many grains, on the file system of the build.
fn file(name: &str, grains: usize) -> PathBuf {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", env!("CARGO_PKG_NAME")));
    let file = File::create(&path).unwrap();
    file.set_len((grains * GRAIN) as u64).unwrap();
    path
}

fn of(grains: usize) -> DriveOptions {
    DriveOptions {
        size: Some(Bytes::new((grains * GRAIN) as u64)),
        overwrites_device: false,
    }
}

fn sentence(path: &Path, options: DriveOptions) -> String {
    let text = Drive::open(path, options).unwrap_err().to_string();
    assert!(!text.contains('\n'), "one sentence: {text}");
    text
}

#[test]
fn nothing_behind_the_range_is_written() {
    let path = file("range", 600);
    let mut drive = Drive::open(&path, of(500)).unwrap();
    drive.fill().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let (inside, outside) = bytes.split_at(500 * GRAIN);
    let mut words = inside.as_chunks::<8>().0.iter();
    assert!(
        words.all(|word| *word != [0; 8]),
        "all of the range is filled"
    );
    assert!(outside.iter().all(|byte| *byte == 0), "and nothing else");
    let beyond = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut write = [Transfer::new(true, 499 * GRAIN as u64, 2 * GRAIN)];
        let _ = drive.perform(&mut write);
    }));
    assert!(beyond.is_err(), "it is refused before it is tried");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn many_are_under_way_at_once_and_each_takes_time() {
    let path = file("many", 64);
    let mut drive = Drive::open(&path, DriveOptions::default()).unwrap();
    drive.fill().unwrap();
    // More than the kernel's ring has room for.
    let mut reads: Vec<Transfer> = (0..1_500)
        .map(|index| Transfer::new(false, (index % 64) * GRAIN as u64, GRAIN))
        .collect();
    drive.perform(&mut reads).unwrap();
    assert!(reads.iter().all(|read| read.took > Picos::ZERO));
    let bytes = std::fs::read(&path).unwrap();
    for read in &reads {
        assert_eq!(read.bytes(0, GRAIN), &bytes[read.at as usize..][..GRAIN]);
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_cannot_be_a_drive_is_a_sentence() {
    let here = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let text = sentence(&here.join("nowhere"), DriveOptions::default());
    assert!(text.contains("cannot be opened"), "{text}");
    let text = sentence(here, DriveOptions::default());
    assert!(text.contains("neither a file nor a block device"), "{text}");
    let text = sentence(Path::new("/dev/null"), DriveOptions::default());
    assert!(text.contains("neither a file nor a block device"), "{text}");
    let path = file("small", 2);
    let text = sentence(&path, of(3));
    assert!(text.contains("has 8KiB and 12KiB are wanted"), "{text}");
    std::fs::write(&path, "less than a grain").unwrap();
    let text = sentence(&path, DriveOptions::default());
    assert!(text.contains("are wanted"), "{text}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_file_in_memory_is_no_drive() {
    let path = Path::new("/dev/shm").join(format!("entresol-drive-{}", std::process::id()));
    std::fs::write(&path, [0; GRAIN]).unwrap();
    let text = sentence(&path, DriveOptions::default());
    std::fs::remove_file(path).unwrap();
    assert!(text.contains("has no direct I/O"), "{text}");
}

#[test]
fn a_read_that_brings_less_is_a_sentence() {
    let path = file("cut", 8);
    let mut drive = Drive::open(&path, DriveOptions::default()).unwrap();
    let shorter = File::options().write(true).open(&path).unwrap();
    shorter.set_len(4 * GRAIN as u64).unwrap();
    let mut reads = [
        Transfer::new(false, 0, GRAIN),
        Transfer::new(false, 6 * GRAIN as u64, GRAIN),
    ];
    let error = drive.perform(&mut reads).unwrap_err();
    assert!(matches!(error, DriveError::Transfer { at: 24_576, .. }));
    let text = error.to_string();
    assert!(text.contains("a read at byte 24576"), "{text}");
    std::fs::remove_file(path).unwrap();
}

/// A transfer: whether it writes, its first grain, how many.
fn transfers() -> impl Strategy<Value = Vec<(bool, usize, usize)>> {
    proptest::collection::vec((any::<bool>(), 0..24_usize, 1..9_usize), 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Against a vector: transfers one after the other.
    #[test]
    fn what_was_written_comes_back(transfers in transfers()) {
        let path = file("model", 32);
        let mut drive = Drive::open(&path, DriveOptions::default()).unwrap();
        let mut model = vec![0_u8; 32 * GRAIN];
        for (number, (is_write, first, grains)) in transfers.into_iter().enumerate() {
            let at = first * GRAIN;
            let mut one = [Transfer::new(is_write, at as u64, grains * GRAIN)];
            if is_write {
                for grain in 0..grains {
                    one[0].bytes_mut(grain * GRAIN, GRAIN).fill(number as u8 + 1);
                }
                model[at..at + grains * GRAIN].fill(number as u8 + 1);
            }
            drive.perform(&mut one).unwrap();
            for grain in 0..grains {
                let expected = &model[at + grain * GRAIN..][..GRAIN];
                prop_assert_eq!(one[0].bytes(grain * GRAIN, GRAIN), expected);
            }
        }
        let mut bytes = vec![0; 32 * GRAIN];
        File::open(&path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        prop_assert_eq!(bytes, model);
        std::fs::remove_file(path).unwrap();
    }
}
