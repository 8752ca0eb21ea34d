//! Commands byte for byte, answers, and what is refused.

use super::door::{Answer, ID, IO64, URING};
use super::*;

fn line(at: u64) -> LineAddr {
    LineAddr::new(at / LINE_BYTES.get())
}

#[test]
fn the_kernel_knows_its_calls_by_these_numbers() {
    assert_eq!(u64::from(ID), 0x4e40);
    assert_eq!(u64::from(IO64), 0xc050_4e48);
    assert_eq!(u64::from(URING), 0xc048_4e80);
}

#[test]
fn a_store_of_ours_is_laid_out_as_the_target_reads_it() {
    let bytes = command(Dialect::Entresol, 1, line(0x12_3456_7840), true).to_bytes();
    let mut wanted = [0; 72];
    wanted[0] = 0xc1;
    wanted[4] = 1;
    wanted[36] = 64; // data_len
    wanted[40..44].copy_from_slice(&[0x40, 0x78, 0x56, 0x34]); // dword 10
    wanted[44] = 0x12; // dword 11
    wanted[48] = 64; // dword 12; 13, the transaction, is none
    wanted[64..68].copy_from_slice(&10_000_u32.to_le_bytes()); // timeout_ms
    assert_eq!(bytes, wanted);
    let load = command(Dialect::Entresol, 1, line(0x12_3456_7840), false).to_bytes();
    assert_eq!(load[0], 0xc2);
    assert_eq!(load[1..], wanted[1..]);
}

#[test]
fn a_store_of_opencxd_has_no_data_and_its_address_in_dword_11() {
    let bytes = command(Dialect::OpenCxd, 0x0399_1c00, line(0x1234_5640), true).to_bytes();
    let mut wanted = [0; 72];
    wanted[0] = 0xa0;
    wanted[4..8].copy_from_slice(&[0x00, 0x1c, 0x99, 0x03]);
    wanted[44..48].copy_from_slice(&[0x40, 0x56, 0x34, 0x12]); // dword 11
    wanted[48] = 1; // dword 12
    wanted[64..68].copy_from_slice(&10_000_u32.to_le_bytes());
    assert_eq!(bytes, wanted);
    let load = command(Dialect::OpenCxd, 0x0399_1c00, line(0x1234_5640), false);
    assert_eq!(load.dwords_10, [0, 0x1234_5640, 0, 0, 0, 0]);
}

#[test]
fn answers_are_times_or_statuses() {
    let ours = |status, value| accessed(Dialect::Entresol, Answer { status, value });
    let took = |nanos| Picos::from_nanos(nanos);
    assert_eq!(
        ours(0, 5 << 40),
        Ok(Accessed {
            took: Picos::new(5 << 40),
            done: None
        })
    );
    assert_eq!(ours(0x80, 7), Err(0x80));
    let theirs = |status, value| accessed(Dialect::OpenCxd, Answer { status, value });
    let hit = theirs(4, 34).unwrap();
    assert_eq!((hit.took, hit.done), (took(600), Some(Done::CacheHit)));
    // Faster than its timer.
    assert_eq!(theirs(2, 3).unwrap().took, Picos::ZERO);
    let miss = theirs(20, 4_000).unwrap();
    assert_eq!(miss.done, Some(Done::Miss { overhead: 20 }));
    assert_eq!(theirs(0x281, 9), Err(0x281));
    // An ordinary controller that does not know the command.
    assert_eq!(theirs(0x4001, 9), Err(1));
    assert_eq!(theirs(1, 0), Err(1));
    assert_eq!(ours(0x4080, 0), Err(0x80));
}

#[test]
fn what_is_no_nvme_device_is_a_sentence() {
    let sentence = |path: &Path| {
        let error = Nvme::open(path, Dialect::Entresol, Door::Ioctl).unwrap_err();
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    };
    let text = sentence(Path::new("/dev/ng99n9"));
    assert!(text.contains("/dev/ng99n9: cannot be opened"), "{text}");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(sentence(&here.join("Cargo.toml")).contains("is no NVMe device"));
    assert!(sentence(Path::new("/dev/null")).contains("is no NVMe device"));
}
