//! Flash that loses pages: an error or the right bytes, never others.

use crate::common::{Place, made, small};
use device::activity::ACTIVITY;
use device::latency::Kind;
use device::{DeviceConfig, DeviceEngine, Image, Pace, fsck};
use port::Command;
use port::{Acknowledge, DeviceError};
use units::{ByteAddr, Bytes, Picos, Stream, TxId};

const PAGE: usize = 4096;
const PAGES: usize = 232;
/// About one page in a hundred is lost as it is written.
const LOSES: [&str; 2] = ["faults.raw_errors=1700", "faults.retry_steps=0"];

fn with_log(faults: &[&str]) -> DeviceConfig {
    let log = [
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=100KiB",
    ];
    let sets: Vec<&str> = log.iter().chain(faults).copied().collect();
    small("bytefs", &sets)
}

fn read(
    engine: &mut DeviceEngine,
    command: Command,
    at: usize,
    into: &mut [u8],
) -> Result<(), DeviceError> {
    let size = Bytes::new(into.len() as u64);
    let ticket = engine
        .submit(command, ByteAddr::new(at as u64), size)
        .unwrap();
    engine.finish(ticket, into).map(|_| ())
}

fn write(
    engine: &mut DeviceEngine,
    command: Command,
    at: usize,
    bytes: &[u8],
) -> Result<(), DeviceError> {
    let at = ByteAddr::new(at as u64);
    let ticket = engine.submit_write(command, at, bytes).unwrap();
    engine.finish(ticket, &mut []).map(|_| ())
}

fn activity(engine: &mut DeviceEngine, name: &str) -> u64 {
    engine.publish();
    let counters = Image::describe(engine.image()).unwrap().counters;
    let at = ACTIVITY.iter().position(|(known, _)| *known == name);
    counters.activity[at.unwrap()]
}

/// The pages that cannot be read whole; what can be read is what was written.
fn lost_pages(engine: &mut DeviceEngine, model: &[u8]) -> Vec<usize> {
    let mut lost = Vec::new();
    for page in 0..PAGES {
        let at = page * PAGE;
        let mut found = vec![0xee; PAGE];
        match read(engine, Command::ReadBlocks, at, &mut found) {
            Ok(()) => assert!(found == model[at..at + PAGE], "page {page} is another one"),
            Err(DeviceError::Lost { at: told }) => {
                assert_eq!(told.get() as usize, at);
                assert_eq!(found, [0xee; PAGE], "bytes come with the error");
                lost.push(page);
            }
            Err(other) => panic!("{other}"),
        }
    }
    lost
}

fn work(engine: &mut DeviceEngine, model: &mut [u8], stream: &mut Stream) {
    for _ in 0..stream.below(300) {
        let value = stream.bits() as u8;
        let (command, at, size) = match stream.below(3) {
            0 => {
                let command = Command::WriteBlocks(Acknowledge::Accepted);
                (command, stream.below(PAGES as u64) as usize * PAGE, PAGE)
            }
            _ => {
                let line = stream.below((PAGES * 64 - 4) as u64) as usize;
                let count = 1 + stream.below(4) as usize;
                (Command::Write(TxId::NONE), line * 64, count * 64)
            }
        };
        // Whole lines need no byte of what was there before.
        write(engine, command, at, &vec![value; size]).unwrap();
        model[at..at + size].fill(value);
    }
}

fn check(name: &str, config: &DeviceConfig) {
    let place = Place::new(name);
    let image = place.path("image");
    let mut engine = made(&place, config);
    let mut model = vec![0; PAGES * PAGE];
    let mut stream = Stream::new(9, name);
    let mut seen = 0;
    for turn in 0..30 {
        work(&mut engine, &mut model, &mut stream);
        if turn % 3 == 0 {
            for _ in 0..stream.below(50) {
                engine.step();
            }
            drop(engine);
            engine = DeviceEngine::open(&image, Pace::None).unwrap();
        }
        seen += lost_pages(&mut engine, &model).len();
        engine.audit();
    }
    assert!(seen > 30, "{seen} pages could not be read");
    assert!(activity(&mut engine, "media_errors") > 30);
    engine.drain().unwrap();
    engine.settle();
    let lost = lost_pages(&mut engine, &model);
    engine.close().unwrap();
    let findings = fsck::check(&image, &mut |_| true).unwrap();
    assert_eq!(findings.problems, Vec::<String>::new());
    assert_eq!(
        findings.lost_pages,
        lost.len() as u64,
        "{:?}",
        findings.lost
    );
    let mut engine = DeviceEngine::open(&image, Pace::None).unwrap();
    assert_eq!(lost_pages(&mut engine, &model), lost, "after opening");
    assert!(!lost.is_empty());
}

#[test]
fn a_device_with_a_log_says_what_flash_has_lost() {
    check("losing-log", &with_log(&LOSES));
}

#[test]
fn a_device_with_log_and_cache_says_what_flash_has_lost() {
    let log = ["ssd.log.size=32KiB", "ssd.dram=96KiB"];
    let sets: Vec<&str> = log.iter().chain(&LOSES).copied().collect();
    check("losing-cache", &small("skybyte", &sets));
}

#[test]
fn a_line_in_part_of_a_lost_page_is_an_error_and_a_whole_one_is_good() {
    let place = Place::new("losing-edge");
    let mut engine = made(
        &place,
        &with_log(&["faults.raw_errors=10000", "faults.retry_steps=0"]),
    );
    let blocks = Command::WriteBlocks(Acknowledge::Accepted);
    write(&mut engine, blocks, 0, &[1; PAGE]).unwrap();
    engine.settle();
    let lost = Err(DeviceError::Lost {
        at: ByteAddr::new(0),
    });
    let mut line = [0; 64];
    assert_eq!(read(&mut engine, Command::Read, 128, &mut line), lost);
    let bytes = Command::Write(TxId::NONE);
    assert_eq!(
        write(&mut engine, bytes, 130, &[2; 3]),
        lost,
        "bytes of its line are lost"
    );
    write(&mut engine, bytes, 128, &[3; 64]).unwrap();
    read(&mut engine, Command::Read, 128, &mut line).unwrap();
    assert_eq!(line, [3; 64]);
    assert_eq!(read(&mut engine, Command::Read, 192, &mut line), lost);
}

/// Flash that holds what it holds for a tenth of a second.
const FORGETS: [&str; 4] = [
    "faults.day=10ms",
    "faults.rated_retention_days=2",
    "faults.raw_errors=300",
    "faults.retry_steps=5",
];

/// Reads what is on flash until so much time has passed.
fn rest(engine: &mut DeviceEngine, span: Picos) {
    let end = engine.stats().clock + span;
    let mut page = vec![0; PAGE];
    while engine.stats().clock < end {
        let _ = read(engine, Command::ReadBlocks, 0, &mut page);
    }
}

#[test]
fn what_rests_for_long_is_lost_and_what_is_written_anew_is_not() {
    let place = Place::new("forgetting");
    let image = place.path("image");
    let mut engine = made(&place, &with_log(&FORGETS));
    let blocks = Command::WriteBlocks(Acknowledge::Accepted);
    for page in 0..64 {
        write(&mut engine, blocks, page * PAGE, &[7; PAGE]).unwrap();
    }
    engine.settle();
    let mut model = vec![0; PAGES * PAGE];
    model[..64 * PAGE].fill(7);
    assert_eq!(lost_pages(&mut engine, &model), [0; 0], "they are fresh");
    assert_eq!(activity(&mut engine, "read_retries"), 0);
    rest(&mut engine, Picos::from_micros(60_000));
    // Now some need a second read, which takes the time of one, and none is lost.
    assert_eq!(
        lost_pages(&mut engine, &model),
        [0; 0],
        "they are six days old"
    );
    let retries = activity(&mut engine, "read_retries");
    assert!(retries > 0 && activity(&mut engine, "read_retry_time_ps") > 0);
    let longest = engine.latencies().of(Kind::BlockRead).longest().unwrap();
    assert!(longest > Picos::from_micros(80), "{longest}");
    drop(engine);
    let mut engine = DeviceEngine::open(&image, Pace::None).unwrap();
    rest(&mut engine, Picos::from_micros(300_000));
    let lost = lost_pages(&mut engine, &model);
    assert_eq!(lost, (0..64).collect::<Vec<_>>(), "they are a month old");
    write(&mut engine, blocks, 0, &[8; PAGE]).unwrap();
    model[..PAGE].fill(8);
    engine.settle();
    engine.close().unwrap();
    let mut engine = DeviceEngine::open(&image, Pace::None).unwrap();
    assert_eq!(lost_pages(&mut engine, &model), lost[1..]);
}
