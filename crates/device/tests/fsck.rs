//! An image is checked against itself.

mod common;

use common::{Place, made, small_log};
use device::{Ask, DeviceEngine, fsck};
use std::fs;
use std::path::Path;
use units::{ByteAddr, TxId};

/// Writes until the log has been compacted some times.
fn work(engine: &mut DeviceEngine) {
    for line in 0..4_000u64 {
        let at = ByteAddr::new(line * 7 % 3_000 * 64);
        let ask = Ask::Write(TxId::NONE);
        let ticket = engine.submit_write(ask, at, &[line as u8; 64]).unwrap();
        engine.finish(ticket, &mut []).unwrap();
    }
}

fn findings(image: &Path) -> fsck::Findings {
    let before = fs::read(image.join("dram.bin")).unwrap();
    let findings = fsck::check(image, &mut |_| true).unwrap();
    assert!(
        fs::read(image.join("dram.bin")).unwrap() == before,
        "the check changes the image"
    );
    findings
}

#[test]
fn an_image_in_use_is_sound_and_a_flipped_bit_of_its_flash_is_found() {
    let place = Place::new("fsck");
    let mut engine = made(&place, &small_log());
    work(&mut engine);
    engine.settle();
    engine.close().unwrap();
    let image = place.path("image");
    let sound = findings(&image);
    assert_eq!(sound.problems, Vec::<String>::new());
    assert!(
        sound.mapped_pages > 40 && sound.used_blocks > 0,
        "{sound:?}"
    );
    assert!(!sound.was_cut_off);
    let media = image.join("media.bin");
    let mut bytes = fs::read(&media).unwrap();
    // Every page differs in one bit, used or not.
    let first = bytes.len() - 2 * 24 * 8 * 4096;
    for page in bytes[first..].chunks_mut(4096) {
        page[4000] ^= 4;
    }
    fs::write(&media, bytes).unwrap();
    let damaged = findings(&image);
    assert_eq!(damaged.problem_count, damaged.mapped_pages);
    assert!(
        damaged.problems[0].contains("not those programmed"),
        "{damaged:?}"
    );
}

#[test]
fn a_killed_process_is_seen() {
    let place = Place::new("fsck-killed");
    let mut engine = made(&place, &small_log());
    work(&mut engine);
    drop(engine);
    let cut_off = findings(&place.path("image"));
    assert!(cut_off.was_cut_off);
    assert_eq!(cut_off.problems, Vec::<String>::new());
}
