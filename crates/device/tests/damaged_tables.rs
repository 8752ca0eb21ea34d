//! Opening refuses damaged tables, changes nothing then, and says what a check says.

use crate::common::{Place, made, small, small_log};
use device::{DeviceConfig, DeviceEngine, Image, Pace, Purpose, fsck};
use firmware::{BufferId, Durable};
use port::{Acknowledge, Command, Conflict, SharedBlock};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{BlockAddr, ByteAddr, Bytes, FrameId, LogSlot, Lpa, Stream, TxId};

/// Damage of random bytes, one after the other.
const TURNS: u64 = 300;

/// An image of a killed process, with something in every table.
fn killed(place: &Place, config: &DeviceConfig) -> PathBuf {
    let mut engine = made(place, config);
    let mut write = |at: u64, tx| {
        let (at, command) = (ByteAddr::new(at), Command::Write(tx));
        let ticket = engine.submit_write(command, at, &[7; 64]).unwrap();
        engine.finish(ticket, &mut []).unwrap();
    };
    write(40 * 4096, TxId::NONE);
    for line in 0..2_000 {
        write(line * 7 % 900 * 64, TxId::NONE);
    }
    let tx = engine.begin(true).unwrap();
    let commit = Command::Commit(tx);
    for page in 0..8 {
        let (at, command) = (ByteAddr::new(page * 4096), Command::Write(tx));
        let ticket = engine.submit_write(command, at, &[8; 64]).unwrap();
        engine.finish(ticket, &mut []).unwrap();
    }
    let ticket = engine
        .submit(commit, ByteAddr::new(0), Bytes::ZERO)
        .unwrap();
    engine.finish(ticket, &mut []).unwrap();
    drop(engine);
    place.path("image")
}

/// A device whose frames survive, of fewer pages than it has, and few buffers.
fn frames() -> DeviceConfig {
    small("bytefs-cache", &["ssd.dram=128KiB", "ssd.buffers=4"])
}

/// An image of one in whose frames is something when its process is killed.
fn killed_with_frames(place: &Place) -> PathBuf {
    let mut engine = made(place, &frames());
    for line in 0..2_000 {
        let (at, command) = (
            ByteAddr::new(line * 7 % 900 * 256),
            Command::Write(TxId::NONE),
        );
        let ticket = engine.submit_write(command, at, &[7; 64]).unwrap();
        engine.finish(ticket, &mut []).unwrap();
    }
    drop(engine);
    place.path("image")
}

/// Overwrites a word of the DRAM file.
fn store(image: &Path, at: usize, words: &[u64]) {
    let dram = OpenOptions::new().write(true).open(image.join("dram.bin"));
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    dram.unwrap().write_all_at(&bytes, at as u64).unwrap();
}

/// What is wrong with an image's tables, by a check of it, of which its flash is no part.
fn complaints(image: &Path) -> Vec<String> {
    let of_flash = [
        "which is erased",
        "the bytes are not those programmed",
        "where another page is",
    ];
    let found = fsck::check(image, &mut |_| true).unwrap();
    assert_eq!(found.problem_count, found.problems.len() as u64);
    let is_of_flash = |problem: &String| of_flash.iter().any(|end| problem.ends_with(end));
    let problems = found.problems.into_iter();
    problems.filter(|problem| !is_of_flash(problem)).collect()
}

/// The sentence with which the image is refused, if it is; it is as it was then.
fn refusal(image: &Path) -> Option<String> {
    let bytes = |file: &str| fs::read(image.join(file)).unwrap();
    let before = (bytes("media.bin"), bytes("dram.bin"));
    let error = DeviceEngine::open(image, Pace::None).err()?.to_string();
    let now = (bytes("media.bin"), bytes("dram.bin"));
    assert!(before == now, "the image is changed: {error}");
    Some(error)
}

/// Both refuse it, with the same words.
fn check_refused(image: &Path, words: &str) {
    let error = refusal(image).expect("it is opened");
    let complaints = complaints(image);
    assert!(error.contains(words), "{error}");
    assert!(complaints[0].contains(words), "{complaints:?}");
    assert!(error.contains(&complaints[0]), "{error}: {complaints:?}");
}

#[test]
fn a_buffer_of_gc_that_counts_is_refused_by_opening_and_check() {
    let place = Place::new("damaged-gc-buffer");
    let image = killed(&place, &small_log());
    let layout = Image::open_for(&image, Purpose::Check).unwrap().layout;
    // Buffers 0 to 7 are the host's, those behind them GC's, which survive nothing.
    let header = layout.buffer_header(BufferId::new(9));
    store(&image, header, &[5000 << 16 | 1, 13]);
    check_refused(&image, "buffer 9 cannot hold a part of L13");
}

#[test]
fn two_slots_of_one_write_order_are_refused_by_opening_and_check() {
    let place = Place::new("damaged-orders");
    let image = killed(&place, &small_log());
    let layout = Image::open_for(&image, Purpose::Check).unwrap().layout;
    let line = |line: u64| 9000 << 16 | line << 8 | 1;
    for (slot, page) in [(40, 3), (300, 4)] {
        let header = layout.slot_header(LogSlot::new(slot));
        store(&image, header, &[line(5), page]);
    }
    check_refused(&image, "slot 40 and slot 300 have the same write order");
}

#[test]
fn a_buffer_with_the_write_order_of_a_slot_is_refused_by_opening_and_check() {
    let place = Place::new("damaged-buffer-order");
    let image = killed(&place, &small_log());
    let layout = Image::open_for(&image, Purpose::Check).unwrap().layout;
    let word = 9000 << 16 | 1;
    store(&image, layout.slot_header(LogSlot::new(40)), &[word, 3]);
    store(&image, layout.buffer_header(BufferId::new(2)), &[word, 3]);
    check_refused(&image, "buffer 2 has write order 9000, as another");
}

/// What is written behind it would have no order that is later.
#[test]
fn a_write_order_near_the_last_one_is_refused_by_opening_and_check() {
    let last = (1 << 48) - 1;
    let words = "write order 281474976710655 leaves no room for later ones";
    let place = Place::new("damaged-last-order");
    let image = killed(&place, &small_log());
    let layout = Image::open_for(&image, Purpose::Check).unwrap().layout;
    let whole = fs::read(image.join("dram.bin")).unwrap();
    store(
        &image,
        layout.slot_header(LogSlot::new(40)),
        &[last << 16 | 1, 3],
    );
    check_refused(&image, words);
    fs::write(image.join("dram.bin"), whole).unwrap();
    store(
        &image,
        layout.buffer_header(BufferId::new(2)),
        &[last << 16 | 1, 3],
    );
    check_refused(&image, words);
    let place = Place::new("damaged-last-frame");
    let image = killed_with_frames(&place);
    let opened = Image::open_for(&image, Purpose::Check).unwrap();
    let (frame, _) = opened.tables.framed().next().expect("a frame counts");
    let header = opened.layout.frame_header(frame);
    drop(opened);
    store(&image, header, &[last << 16 | 1]);
    check_refused(&image, words);
}

#[test]
fn a_page_in_a_retired_block_is_refused_by_opening_and_check() {
    let place = Place::new("damaged-retired");
    let image = killed(&place, &small_log());
    let opened = Image::open_for(&image, Purpose::Check).unwrap();
    let layout = opened.layout;
    let mapped = |lpa| opened.tables.place_of(Lpa::new(lpa));
    let place = (0..10).find_map(mapped).expect("a page is on flash");
    drop(opened);
    let (block, _) = layout.begun(place);
    store(&image, layout.block(block), &[1 << 63 | 8 << 32]);
    check_refused(&image, "in a retired block");
}

#[test]
fn a_block_that_is_too_full_is_named() {
    let place = Place::new("damaged-block");
    let image = killed(&place, &small_log());
    let layout = Image::open_for(&image, Purpose::Check).unwrap().layout;
    store(&image, layout.block(BlockAddr::new(5)), &[900 << 32]);
    check_refused(&image, ": block 5 is beyond the flash or too full");
}

#[test]
fn pages_in_a_block_that_is_too_full_are_no_complaints_of_their_own() {
    let place = Place::new("damaged-full");
    let image = killed(&place, &small_log());
    let opened = Image::open_for(&image, Purpose::Check).unwrap();
    let layout = opened.layout;
    let mapped = |lpa| opened.tables.place_of(Lpa::new(lpa));
    let page = (0..10).find_map(mapped).expect("a page is on flash");
    drop(opened);
    let (block, _) = layout.begun(page);
    store(&image, layout.block(block), &[900 << 32]);
    let found = fsck::check(&image, &mut |_| true).unwrap();
    assert_eq!(found.problem_count, 1, "{found:?}");
    check_refused(&image, "is beyond the flash or too full");
}

#[test]
fn a_device_without_a_battery_that_is_refused_keeps_its_bytes() {
    let place = Place::new("damaged-unprotected");
    let config = small("consumer-tlc", &["ssd.dram=64KiB"]);
    let engine = made(&place, &config);
    drop(engine);
    let image = place.path("image");
    let layout = Image::open_for(&image, Purpose::Check).unwrap().layout;
    store(&image, layout.block(BlockAddr::new(5)), &[900 << 32]);
    check_refused(&image, "block 5 is beyond the flash or too full");
}

/// Pages that were on flash past their buffers are brought back by opening, before the controller
/// looks at the tables.
#[test]
fn an_image_that_is_refused_keeps_pages_past_their_buffers() {
    let place = Place::new("damaged-past-buffers");
    let mut engine = made(&place, &small_log());
    let blocks: Vec<SharedBlock> = (0..4).map(|byte| Arc::new([byte; 4096])).collect();
    let command = Command::WriteBlocks(Acknowledge::Accepted);
    let at = ByteAddr::new(0);
    let ticket = engine.submit_shared(command, at, Conflict::Wait, &blocks);
    engine.finish(ticket.unwrap(), &mut []).unwrap();
    drop(engine);
    let image = place.path("image");
    let opened = Image::open_for(&image, Purpose::Check).unwrap();
    assert!(opened.tables.on_flash().next().is_some());
    let block = opened.layout.block(BlockAddr::new(5));
    drop(opened);
    let whole = fs::read(image.join("dram.bin")).unwrap();
    store(&image, block, &[900 << 32]);
    check_refused(&image, "block 5 is beyond the flash or too full");
    fs::write(image.join("dram.bin"), whole).unwrap();
    let mut engine = DeviceEngine::open(&image, Pace::None).unwrap();
    let mut found = [9; 4096];
    let ticket = engine.submit(Command::Read, ByteAddr::new(3 * 4096), Bytes::new(4096));
    engine.finish(ticket.unwrap(), &mut found).unwrap();
    assert_eq!(found, [3; 4096]);
}

/// The line that a killed process was writing to a frame is where opening writes to first.
#[test]
fn an_image_that_is_refused_keeps_the_line_on_its_way_into_a_frame() {
    let place = Place::new("damaged-incoming");
    let image = killed_with_frames(&place);
    let layout = Image::open_for(&image, Purpose::Check).unwrap().layout;
    let on_its_way = |frame: u64| frame << 16 | 3 << 8 | 1;
    let header = layout.incoming_header();
    store(&image, header, &[on_its_way(32), 0, 9]);
    check_refused(
        &image,
        "line 3 of frame 32, which there is not, is on its way",
    );
    store(&image, header, &[on_its_way(0)]);
    let block = layout.block(BlockAddr::new(5));
    let whole = fs::read(image.join("dram.bin")).unwrap();
    store(&image, block, &[900 << 32]);
    check_refused(&image, "block 5 is beyond the flash or too full");
    fs::write(image.join("dram.bin"), whole).unwrap();
    DeviceEngine::open(&image, Pace::None)
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(complaints(&image), Vec::<String>::new());
    store(&image, header, &[on_its_way(0)]);
    check_refused(
        &image,
        "line 3 of frame 0, of an image that was closed, is on its way",
    );
}

/// A device would program its pages, which flash does not take.
#[test]
fn a_block_that_is_thought_erased_and_is_not_is_refused_by_opening_and_check() {
    let place = Place::new("damaged-begun");
    let image = killed(&place, &small_log());
    let opened = Image::open_for(&image, Purpose::Check).unwrap();
    let layout = opened.layout;
    let mapped: Vec<_> = (0..layout.logical_pages as u64)
        .filter_map(|lpa| opened.tables.place_of(Lpa::new(lpa)))
        .map(|ppa| layout.begun(ppa).0)
        .collect();
    let blocks = (0..layout.blocks as u32).map(BlockAddr::new);
    let is_programmed = |block| opened.media.holder(layout.first_page(block)).is_some();
    let stale: Vec<_> = blocks
        .filter(|block| is_programmed(*block) && !mapped.contains(block))
        .collect();
    drop(opened);
    let block = *stale.first().expect("some block has only old pages");
    assert_eq!(complaints(&image), Vec::<String>::new());
    store(&image, layout.block(block), &[1]);
    let first = layout.first_page(block);
    check_refused(&image, &format!("{first} is programmed, and has not begun"));
}

/// The block is being written, and a bit of its word has flipped: it is thought to end earlier.
#[test]
fn a_block_that_is_thought_to_end_earlier_is_refused_by_opening_and_check() {
    let place = Place::new("damaged-shorter");
    let image = killed(&place, &small_log());
    let opened = Image::open_for(&image, Purpose::Check).unwrap();
    let layout = opened.layout;
    let mapped: Vec<_> = (0..layout.logical_pages as u64)
        .filter_map(|lpa| opened.tables.place_of(Lpa::new(lpa)))
        .map(|ppa| layout.begun(ppa))
        .collect();
    let pages = layout.block_pages as u32;
    let last_mapped = |block| {
        let of_block = mapped.iter().filter(|(other, _)| *other == block);
        of_block.map(|(_, begun)| *begun as u32).max().unwrap_or(0)
    };
    // All behind the last page that counts are overwritten ones.
    let shorter = opened.tables.blocks().find_map(|(block, record)| {
        let known = last_mapped(block);
        (record.begun <= pages && known < record.begun).then_some((block, known))
    });
    let (block, begun) = shorter.expect("some block ends in old pages");
    drop(opened);
    store(&image, layout.block(block), &[u64::from(begun) << 32]);
    let ppa = units::Ppa::new(layout.first_page(block).get() + u64::from(begun));
    check_refused(&image, &format!("{ppa} is programmed, and has not begun"));
}

/// What `docs/formats/image.md` says that nobody sees: the line of a changed header is elsewhere,
/// that of a transaction whose commit is gone is what it was, a page that is nowhere is zeroes.
#[test]
fn what_nobody_sees_is_what_is_documented() {
    let place = Place::new("damaged-unseen");
    let image = killed(&place, &small_log());
    let whole = fs::read(image.join("dram.bin")).unwrap();
    let opened = Image::open_for(&image, Purpose::Check).unwrap();
    let layout = opened.layout;
    let of_tx = opened
        .tables
        .logged()
        .filter(|(_, line)| line.tx != TxId::NONE);
    let (slot, line) = of_tx.last().expect("the last transaction is in the log");
    let logged: Vec<_> = opened.tables.logged().map(|(_, line)| line.lpa).collect();
    let is_only_on_flash =
        |lpa: &Lpa| opened.tables.place_of(*lpa).is_some() && !logged.contains(lpa);
    let on_flash = (0..41).map(Lpa::new).find(is_only_on_flash);
    let on_flash = on_flash.expect("a page is on flash alone");
    let (commit, _) = opened.tables.committed().last().unwrap();
    drop(opened);
    let first_line = |page: u64| {
        assert_eq!(fsck::check(&image, &mut |_| true).unwrap().problem_count, 0);
        let mut engine = DeviceEngine::open(&image, Pace::None).unwrap();
        let (at, size) = (ByteAddr::new(page * 4096), units::Bytes::new(64));
        let ticket = engine.submit(Command::Read, at, size).unwrap();
        let mut bytes = [1; 64];
        engine.finish(ticket, &mut bytes).unwrap();
        drop(engine);
        fs::write(image.join("dram.bin"), &whole).unwrap();
        bytes[0]
    };
    let media = fs::read(image.join("media.bin")).unwrap();
    let restore_flash = || fs::write(image.join("media.bin"), &media).unwrap();
    let page = line.lpa.get();
    assert_eq!(first_line(page), 8);
    restore_flash();
    store(
        &image,
        layout.slot_header(slot) + 8,
        &[u64::from(line.tx.get()) << 32 | 100],
    );
    assert_eq!(first_line(100), 8, "the line has moved");
    restore_flash();
    store(&image, layout.tx_entry(commit & !1), &[0]);
    assert_eq!(first_line(page), 7, "the commit is gone");
    restore_flash();
    let mut dram = whole.clone();
    dram[layout.mapping(on_flash)..][..4].fill(0);
    fs::write(image.join("dram.bin"), dram).unwrap();
    assert_eq!(first_line(on_flash.get()), 0, "the page is nowhere");
}

/// Damages a bit of one of these parts of the DRAM file at a time: what a check finds sound is
/// opened, and nothing else. How often it was refused.
fn damage(image: &Path, parts: &[(usize, usize)]) -> u64 {
    let whole = ["media.bin", "dram.bin"].map(|file| fs::read(image.join(file)).unwrap());
    let mut stream = Stream::new(1, "damaged tables");
    let mut refused = 0;
    for turn in 0..TURNS {
        fs::write(image.join("media.bin"), &whole[0]).unwrap();
        let mut dram = whole[1].clone();
        let (at, size) = parts[turn as usize % parts.len()];
        let at = at + stream.below(size as u64) as usize;
        dram[at] ^= 1 << stream.below(8);
        fs::write(image.join("dram.bin"), dram).unwrap();
        let complaints = complaints(image);
        let refusal = refusal(image);
        assert_eq!(
            refusal.is_some(),
            !complaints.is_empty(),
            "a bit of byte {at}: {refusal:?}, {complaints:?}"
        );
        refused += u64::from(refusal.is_some());
    }
    refused
}

/// Whatever bytes of the tables are damaged: what a check finds sound is opened, and nothing else.
#[test]
fn opening_and_check_agree_on_any_damage() {
    let place = Place::new("damaged-any");
    let image = killed(&place, &small_log());
    let layout = Image::open_for(&image, Purpose::Check).unwrap().layout;
    let refused = damage(
        &image,
        &[
            (layout.slot_header(LogSlot::new(0)), layout.slots * 16),
            (layout.buffer_header(BufferId::new(0)), layout.buffers * 16),
            (layout.tx_entry(0), 64),
            (layout.mapping(Lpa::new(0)), layout.logical_pages * 4),
            (layout.block(BlockAddr::new(0)), layout.blocks * 8),
        ],
    );
    assert!(refused > TURNS / 10, "{refused}");
    assert!(refused < TURNS * 9 / 10, "{refused}");
}

/// So it is where frames count.
#[test]
fn opening_and_check_agree_on_any_damage_of_frames() {
    let place = Place::new("damaged-frames");
    let image = killed_with_frames(&place);
    let layout = Image::open_for(&image, Purpose::Check).unwrap().layout;
    let refused = damage(
        &image,
        &[
            (layout.frame_header(FrameId::new(0)), layout.frames * 48),
            (layout.buffer_header(BufferId::new(0)), layout.buffers * 16),
            (layout.incoming_header(), 8),
        ],
    );
    assert!(refused > TURNS / 10, "{refused}");
    assert!(refused < TURNS * 9 / 10, "{refused}");
}
