//! An image is checked against itself.

use crate::common::{Place, made, small_log};
use device::{DeviceEngine, fsck};
use port::Command;
use port::DeviceError;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use units::{ByteAddr, Bytes, TxId};

/// Writes until the log has been compacted some times.
fn work(engine: &mut DeviceEngine) {
    work_on(engine, 0);
}

/// As [`work`], from this byte on.
fn work_on(engine: &mut DeviceEngine, first: u64) {
    for line in 0..4_000u64 {
        let at = ByteAddr::new(first + line * 7 % 3_000 * 64);
        let command = Command::Write(TxId::NONE);
        let ticket = engine.submit_write(command, at, &[line as u8; 64]).unwrap();
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
fn a_check_is_observed_block_by_block_and_ends_when_it_is_told_to() {
    let place = Place::new("fsck-observed");
    let mut engine = made(&place, &small_log());
    work(&mut engine);
    engine.settle();
    engine.close().unwrap();
    let image = place.path("image");
    let mut seen = Vec::new();
    let whole = fsck::check(&image, &mut |pages| {
        seen.push(pages);
        true
    });
    assert!(seen.is_sorted(), "{seen:?}");
    // Twice 24 blocks, and the end.
    assert_eq!(seen.len(), 49, "{seen:?}");
    assert_eq!(seen[48] - seen[47], whole.unwrap().mapped_pages);
    for calls in 1..=48 {
        let mut left = calls;
        let cut_short = fsck::check(&image, &mut |_| {
            left -= 1;
            left > 0
        });
        assert_eq!((left, cut_short.unwrap().mapped_pages), (0, 0));
    }
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

#[test]
fn bytes_that_the_disk_changed_are_reported_and_never_given() {
    let place = Place::new("lost");
    let mut engine = made(&place, &small_log());
    let page = [9; 4096];
    let write = Command::WriteBlocks(port::Acknowledge::Accepted);
    let ticket = engine
        .submit_write(write, ByteAddr::new(4096), &page)
        .unwrap();
    engine.finish(ticket, &mut []).unwrap();
    engine.settle();
    // The device has it open; the disk does what it likes.
    let media = place.path("image").join("media.bin");
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&media)
        .unwrap();
    let length = file.metadata().unwrap().len();
    for at in (length - 2 * 24 * 8 * 4096..length).step_by(4096) {
        file.write_all_at(&[8], at + 100).unwrap();
    }
    let read = |engine: &mut DeviceEngine, at, into: &mut [u8]| {
        let size = Bytes::new(into.len() as u64);
        let ticket = engine
            .submit(Command::Read, ByteAddr::new(at), size)
            .unwrap();
        engine.finish(ticket, into)
    };
    let mut line = [0; 64];
    let lost = DeviceError::Lost {
        at: ByteAddr::new(4096),
    };
    assert_eq!(read(&mut engine, 4096, &mut line), Err(lost.clone()));
    assert_eq!(line, [0; 64], "bytes are given with the error");
    // What is written anew is good; the rest of the page is not, also after it has moved.
    let command = Command::Write(TxId::NONE);
    let ticket = engine
        .submit_write(command, ByteAddr::new(4096 + 640), &[5; 64])
        .unwrap();
    engine.finish(ticket, &mut []).unwrap();
    work_on(&mut engine, 16_384);
    engine.settle();
    read(&mut engine, 4096 + 640, &mut line).unwrap();
    assert_eq!(line, [5; 64]);
    assert_eq!(read(&mut engine, 4096 + 704, &mut line), Err(lost));
    engine.audit();
}
