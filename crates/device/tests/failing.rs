//! Flash whose blocks fail: bad ones are never used, and nothing acknowledged is lost.

use crate::common::{Place, made, small};
use device::activity::{ACTIVITY, HEALTH};
use device::{Counters, DeviceConfig, DeviceEngine, Image, Pace, fsck};
use port::Command;
use port::{Acknowledge, DeviceError};
use units::{ByteAddr, Bytes, Stream, TxId};

/// With a log of a few pages, and these faults.
fn config(faults: &[&str]) -> DeviceConfig {
    let log = [
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=100KiB",
    ];
    let sets: Vec<&str> = log.iter().chain(faults).copied().collect();
    small("bytefs", &sets)
}

fn number(counters: &Counters, name: &str) -> u64 {
    let at = |names: &[(&str, &str)]| names.iter().position(|(known, _)| *known == name);
    match at(&HEALTH) {
        Some(nth) => counters.health[nth],
        None => counters.activity[at(&ACTIVITY).expect("a known name")],
    }
}

fn counters(engine: &mut DeviceEngine) -> Counters {
    engine.publish();
    Image::describe(engine.image()).unwrap().counters
}

struct Work {
    engine: DeviceEngine,
    model: Vec<u8>,
    stream: Stream,
    writes: u64,
}

impl Work {
    fn new(place: &Place, config: &DeviceConfig) -> Self {
        Self {
            engine: made(place, config),
            model: vec![0; config.capacity().get() as usize],
            stream: Stream::new(11, "failing"),
            writes: 0,
        }
    }

    /// Writes somewhere, lines or a page; says whether the device took it.
    fn write(&mut self) -> bool {
        let is_block = self.stream.below(3) == 0;
        let (at, size) = match is_block {
            true => (self.stream.below(232) as usize * 4096, 4096),
            false => {
                let at = self.stream.below(self.model.len() as u64 - 300) as usize;
                (at, 1 + self.stream.below(300) as usize)
            }
        };
        let command = match is_block {
            true => Command::WriteBlocks(Acknowledge::Accepted),
            false => Command::Write(TxId::NONE),
        };
        let bytes = vec![self.stream.bits() as u8; size];
        let ticket = self
            .engine
            .submit_write(command, ByteAddr::new(at as u64), &bytes);
        match self.engine.finish(ticket.unwrap(), &mut []) {
            Ok(_) => {
                self.writes += 1;
                self.model[at..at + size].copy_from_slice(&bytes);
                true
            }
            Err(DeviceError::ReadOnly) => {
                // Pages before, and lines of a run that waited, may be there.
                let found = self.read(at, size);
                let either = |nth: usize| [self.model[at + nth], bytes[nth]].contains(&found[nth]);
                assert!((0..size).all(either), "what is there was not written");
                self.model[at..at + size].copy_from_slice(&found);
                false
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn read(&mut self, at: usize, size: usize) -> Vec<u8> {
        let mut found = vec![0; size];
        let size = Bytes::new(size as u64);
        let ticket = self
            .engine
            .submit(Command::Read, ByteAddr::new(at as u64), size);
        self.engine.finish(ticket.unwrap(), &mut found).unwrap();
        found
    }

    fn check(&mut self) {
        self.engine.audit();
        let found = self.read(0, self.model.len());
        let wrong = (0..found.len()).find(|at| found[*at] != self.model[*at]);
        assert_eq!(wrong, None, "the first byte that is another one");
    }

    /// Cuts the power in the middle of things.
    fn kill(mut self, image: &std::path::Path) -> Self {
        for _ in 0..self.stream.below(50) {
            self.engine.step();
        }
        drop(self.engine);
        let findings = fsck::check(image, &mut |_| true).unwrap();
        assert_eq!(findings.problems, Vec::<String>::new());
        self.engine = DeviceEngine::open(image, Pace::None).unwrap();
        self
    }
}

/// Works and kills until nothing more may be written.
fn wear_out(name: &str, faults: &[&str]) -> (Work, Place) {
    let place = Place::new(name);
    let image = place.path("image");
    let mut work = Work::new(&place, &config(faults));
    for turn in 0.. {
        assert!(turn < 3_000, "the device does not wear out");
        // Counters are written every 256 commands: a life has more.
        let has_taken = (0..900).all(|_| work.write());
        if turn % 4 == 0 || !has_taken {
            work.check();
        }
        if !has_taken {
            break;
        }
        work = work.kill(&image);
    }
    (work, place)
}

#[test]
fn what_the_factory_has_marked_is_never_used() {
    let place = Place::new("factory");
    let mut work = Work::new(
        &place,
        &config(&["faults.factory_bad=10%", "faults.seed=2"]),
    );
    for _ in 0..4_000 {
        assert!(work.write());
    }
    work.check();
    let counters = counters(&mut work.engine);
    let bad = number(&counters, "factory_bad_blocks");
    assert!((1..9).contains(&bad), "{bad}");
    assert_eq!(number(&counters, "retired_blocks"), bad);
    assert!(number(&counters, "available_spare_percent") < 100);
    assert_eq!(number(&counters, "program_failures"), 0);
    work.engine.close().unwrap();
    let findings = fsck::check(&place.path("image"), &mut |_| true).unwrap();
    assert_eq!((findings.retired_blocks, findings.problem_count), (bad, 0));
}

#[test]
fn flash_without_room_for_the_device_is_not_made() {
    let place = Place::new("no-room");
    let image = place.path("image");
    let refused = Image::create(&image, &config(&["faults.factory_bad=50%"]));
    let sentence = refused.unwrap_err().to_string();
    assert!(sentence.contains("of the 48 blocks bad"), "{sentence}");
    assert!(!image.exists());
}

#[test]
fn seeds_are_pieces_of_flash() {
    let place = Place::new("seeds");
    let mut bad = Vec::new();
    for (nth, seed) in ["faults.seed=4", "faults.seed=4", "faults.seed=5"]
        .iter()
        .enumerate()
    {
        let image = place.path(&nth.to_string());
        Image::create(&image, &config(&["faults.factory_bad=12%", seed])).unwrap();
        let dram = std::fs::read(image.join("dram.bin")).unwrap();
        // Of the tables only the blocks are not empty; behind the superblock, which has the name.
        bad.push(dram[1 << 16..].to_vec());
    }
    assert!(bad[0] == bad[1] && bad[0] != bad[2]);
}

#[test]
fn programs_and_erases_that_fail_lose_nothing_until_the_device_is_read_only_nor_then() {
    let faults = [
        "faults.rated_wear=100",
        "faults.program_failure=0.1%",
        "faults.erase_failure=1%",
        "faults.grown_bad=5%",
    ];
    let (mut work, place) = wear_out("worn-out", &faults);
    let numbers = counters(&mut work.engine);
    let of = |name: &str| number(&numbers, name);
    assert!(of("program_failures") > 3, "{}", of("program_failures"));
    assert!(of("erase_failures") > 0 && of("media_errors") == 0);
    assert!(of("retired_blocks") > 3 && of("factory_bad_blocks") == 0);
    assert!(of("most_wear_erases") > 10 && of("wear_used_percent") > 0);
    assert_eq!(of("is_read_only"), 1);
    println!("{} writes until the flash was worn out", work.writes);
    // Again and again, with the power off between: reads go on, writes are refused.
    for _ in 0..3 {
        work = work.kill(&place.path("image"));
        work.check();
        assert!((0..20).all(|_| !work.write()));
    }
}

#[test]
fn a_used_drive_begins_with_its_wear() {
    let place = Place::new("used");
    let mut engine = made(&place, &config(&["faults.initial_wear=2400"]));
    let numbers = counters(&mut engine);
    for (name, expected) in [
        ("least_wear_erases", 2_400),
        ("average_wear_erases", 2_400),
        ("wear_used_percent", 80),
    ] {
        assert_eq!(number(&numbers, name), expected, "{name}");
    }
}
