//! Whatever is left behind is what was answered, though pages are where they were never copied to.

use super::*;
use crate::activity::ACTIVITY;
use crate::config::DeviceConfig;
use crate::engine::{DeviceEngine, Step};
use crate::fsck;
use crate::layout::Layout;
use crate::pace::Pace;
use crate::superblock::{OLDEST, VERSION};
use firmware::Durable;
use port::{Acknowledge, Command, Conflict, DeviceError, SharedBlock, Ticket};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{ByteAddr, Bytes, Stream, TxId};

const PAGE: u64 = SHARED as u64;
/// Pages that are written: few, so that they are written again while they are on their way.
const PAGES: u64 = 24;

fn config(more: &[&str]) -> DeviceConfig {
    let small = [
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=2",
        "nand.blocks_per_plane=24",
        "nand.pages_per_block=16",
        "ftl.over_provisioning=2/3",
        "ssd.log.size=64KiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=1MiB",
    ];
    let layers: Vec<_> = small
        .iter()
        .chain(more)
        .map(|set| settings::Layer::assignment(set).expect("it is one"))
        .collect();
    DeviceConfig::of_preset("bytefs", &layers).expect("it is in range")
}

fn place(page: u64) -> ByteAddr {
    ByteAddr::new(page * PAGE)
}

fn submit(engine: &mut DeviceEngine, first: u64, values: &[u8]) -> Ticket {
    let blocks: Vec<SharedBlock> = values.iter().map(|of| Arc::new([*of; SHARED])).collect();
    let command = Command::WriteBlocks(Acknowledge::Accepted);
    let ticket = engine.submit_shared(command, place(first), Conflict::Wait, &blocks);
    ticket.expect("it is taken")
}

fn read(engine: &mut DeviceEngine, page: u64) -> Result<Vec<u8>, DeviceError> {
    let mut found = vec![0; SHARED];
    let ticket = engine.submit(Command::ReadBlocks, place(page), Bytes::new(PAGE))?;
    engine.finish(ticket, &mut found).map(|_| found)
}

fn on_flash(engine: &DeviceEngine) -> usize {
    engine.engine.bytes().tables.on_flash().count()
}

/// What a line of each page may be: what was answered last, or what is under way.
struct Model {
    pages: Vec<Vec<[u8; 64]>>,
}

impl Model {
    fn agrees(&self, engine: &mut DeviceEngine, under_way: Option<(u64, &[u8])>) {
        for page in 0..PAGES {
            let found = read(engine, page).expect("it is read");
            let is_old = found.iter().enumerate().all(|(at, byte)| {
                let line = &self.pages[page as usize];
                line[at / LINE][0] == *byte
            });
            let new = under_way.and_then(|(first, values)| {
                let nth = page.checked_sub(first)?;
                values.get(nth as usize).copied()
            });
            let is_new = new.is_some_and(|new| found == vec![new; SHARED]);
            assert!(
                is_old || is_new,
                "page {page}: {:?}, new {new:?}",
                &found[..65]
            );
        }
    }
}

/// What there was at the cuts: pages of buffers that were on flash, and pages that were in buffers.
#[derive(Default)]
struct Seen {
    on_flash: usize,
    in_buffers: usize,
    failures: u64,
}

impl Seen {
    fn look(&mut self, engine: &DeviceEngine) {
        let is_coming = engine.engine.bytes().past_buffers.is_coming();
        assert!(!is_coming, "outside of a step no record waits");
        self.on_flash += on_flash(engine);
        let buffered = engine.engine.bytes().tables.buffered().count();
        self.in_buffers += buffered - on_flash(engine);
    }
}

/// Cuts the power between any two steps of a device that is written by blocks and by lines.
fn cut_everywhere(seed: u64, more: &[&str]) -> Seen {
    let config = config(more);
    let mut engine = DeviceEngine::in_memory(&config, Pace::None).expect("there is memory");
    let mut stream = Stream::new(seed, "past buffers");
    let mut model = Model {
        pages: vec![vec![[0; 64]; SHARED / LINE]; PAGES as usize],
    };
    let mut seen = Seen::default();
    for _ in 0..60 {
        let first = stream.below(PAGES);
        if stream.below(3) == 0 {
            let line = stream.below(64) as usize;
            let value = stream.bits() as u8;
            let at = ByteAddr::new(first * PAGE + (line * LINE) as u64);
            let command = Command::Write(TxId::NONE);
            let ticket = engine.submit_write(command, at, &[value; 64]);
            engine
                .finish(ticket.expect("it is taken"), &mut [])
                .expect("done");
            model.pages[first as usize][line] = [value; 64];
            continue;
        }
        let count = 1 + stream.below(8.min(PAGES - first));
        let values: Vec<u8> = (0..count).map(|_| stream.bits() as u8).collect();
        let ticket = submit(&mut engine, first, &values);
        loop {
            if engine.take(ticket, &mut []).is_some() {
                break;
            }
            seen.look(&engine);
            if stream.below(6) == 0 {
                let mut left = engine.power_cycled().expect("it is recovered");
                assert_eq!(on_flash(&left), 0, "an open device has them in its buffers");
                model.agrees(&mut left, Some((first, &values)));
            }
            assert_eq!(engine.step(), Step::Moved);
        }
        for (nth, value) in values.iter().enumerate() {
            model.pages[first as usize + nth] = vec![[*value; 64]; SHARED / LINE];
        }
        seen.look(&engine);
        let mut left = engine.power_cycled().expect("it is recovered");
        model.agrees(&mut left, None);
        if stream.below(4) == 0 {
            model.agrees(&mut engine, None);
        }
    }
    while engine.step() == Step::Moved {}
    assert_eq!(on_flash(&engine), 0, "nothing is on its way");
    model.agrees(&mut engine, None);
    let nth = ACTIVITY
        .iter()
        .position(|(name, _)| *name == "program_failures");
    seen.failures = engine.counters().activity[nth.expect("it is counted")];
    seen
}

#[test]
fn what_was_answered_is_left_by_any_cut() {
    for seed in 0..3 {
        assert!(cut_everywhere(seed, &[]).on_flash > 20);
    }
}

#[test]
fn it_is_left_where_programs_fail_too() {
    let failing = [
        "nand.blocks_per_plane=64",
        "faults.rated_wear=100",
        "faults.initial_wear=100",
        "faults.program_failure=5%",
    ];
    let seen: Vec<Seen> = (10..13)
        .map(|seed| cut_everywhere(seed, &failing))
        .collect();
    assert!(seen.iter().map(|seen| seen.failures).sum::<u64>() > 5);
    assert!(seen.iter().all(|seen| seen.on_flash > 20));
}

/// Of several units a page waits in its buffer until a flash page is full.
#[test]
fn it_is_left_where_pages_wait_for_others_too() {
    let units = ["nand.page_size=16KiB", "ftl.mapping_unit=4KiB"];
    for seed in 20..23 {
        assert!(cut_everywhere(seed, &units).in_buffers > 20);
    }
}

/// A directory that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("entresol-past-buffers-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("it is new");
        Self(path)
    }

    /// An image as a process leaves it that is killed with pages of its buffers on flash; which.
    fn killed(&self) -> (PathBuf, Vec<(BufferId, Lpa, Ppa)>) {
        self.killed_of_version(VERSION)
    }

    fn killed_of_version(&self, version: u32) -> (PathBuf, Vec<(BufferId, Lpa, Ppa)>) {
        let (image, left) = (self.0.join("image"), self.0.join("left"));
        crate::Image::create(&image, &config(&[])).expect("there is room");
        forge::image::set_version_of(&image, version);
        let mut engine = DeviceEngine::open(&image, Pace::None).expect("it is sound");
        let ticket = submit(&mut engine, 0, &[1, 2, 3, 4]);
        while engine.take(ticket, &mut []).is_none() {
            assert_eq!(engine.step(), Step::Moved);
        }
        let pages = engine.engine.bytes().tables.on_flash().collect();
        fs::create_dir(&left).expect("it is new");
        for file in ["media.bin", "dram.bin"] {
            fs::copy(image.join(file), left.join(file)).expect("there is room");
        }
        (left, pages)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn store(file: &Path, at: usize, bytes: &[u8]) {
    let file = fs::File::options()
        .write(true)
        .open(file)
        .expect("it is there");
    file.write_all_at(bytes, at as u64).expect("there is room");
}

#[test]
fn a_killed_process_leaves_pages_that_the_next_one_finds() {
    let folder = Folder::new("killed");
    let (image, pages) = folder.killed();
    assert!(!pages.is_empty());
    let found = fsck::check(&image, &mut |_| true).expect("it is checked");
    assert_eq!(
        (found.problem_count, found.buffered_pages),
        (0, pages.len() as u64)
    );
    for _ in 0..2 {
        let mut engine = DeviceEngine::open(&image, Pace::None).expect("it is sound");
        for (page, value) in [1, 2, 3, 4].into_iter().enumerate() {
            assert_eq!(read(&mut engine, page as u64), Ok(vec![value; SHARED]));
        }
        engine.close().expect("it is closed");
    }
}

/// What programs of its version do not know is not in it.
#[test]
fn an_older_image_keeps_its_pages_in_buffers() {
    let folder = Folder::new("older");
    let (image, pages) = folder.killed_of_version(OLDEST);
    assert_eq!(pages, Vec::new());
    let mut engine = DeviceEngine::open(&image, Pace::None).expect("it is sound");
    for page in 0..4 {
        let found = read(&mut engine, page);
        assert_eq!(found, Ok(vec![page as u8 + 1; SHARED]));
    }
    engine.close().expect("it is closed");
    let again = fs::read(image.join("media.bin")).expect("it is there");
    assert_eq!(again[8..12], OLDEST.to_le_bytes());
}

#[test]
fn what_flash_has_changed_of_such_a_page_is_lost_and_told() {
    let folder = Folder::new("changed");
    let (image, pages) = folder.killed();
    let (_, lpa, ppa) = pages[0];
    let at = Layout::new(&config(&[])).physical_page(ppa);
    store(&image.join("media.bin"), at + 100, &[0x5a]);
    let found = fsck::check(&image, &mut |_| true).expect("it is checked");
    assert_eq!(found.problem_count, 1, "{:?}", found.problems);
    assert!(
        found.problems[0].contains("not those programmed"),
        "{}",
        found.problems[0]
    );
    let mut engine = DeviceEngine::open(&image, Pace::None).expect("it is sound");
    for page in 0..4 {
        let found = read(&mut engine, page);
        match page == lpa.get() {
            true => assert!(found.is_err(), "page {page}"),
            false => assert_eq!(found, Ok(vec![page as u8 + 1; SHARED])),
        }
    }
}

#[test]
fn a_page_at_a_place_that_there_is_not_is_damage() {
    let folder = Folder::new("nowhere");
    let (image, pages) = folder.killed();
    let (buffer, lpa, _) = pages[0];
    let at = Layout::new(&config(&[])).buffer_header(buffer) + 8;
    let word = u64::from(u32::MAX) << 32 | lpa.get();
    store(&image.join("dram.bin"), at, &word.to_le_bytes());
    let before = fs::read(image.join("dram.bin")).expect("it is there");
    let refused = DeviceEngine::open(&image, Pace::None)
        .map(|_| ())
        .expect_err("it is damaged");
    assert!(
        refused.to_string().contains("which there is not"),
        "{refused}"
    );
    assert!(fs::read(image.join("dram.bin")).expect("it is there") == before);
    let found = fsck::check(&image, &mut |_| true).expect("it is checked");
    assert_eq!(found.problem_count, 1, "{:?}", found.problems);
}
