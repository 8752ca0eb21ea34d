//! What a device says of itself: while it works, to others, and after it was killed.

use crate::common::{Place, made, small, small_log};
use device::activity::{ACTIVITY, STANDING};
use device::latency::Kind;
use device::{Counters, DeviceEngine, Image, Pace};
use port::{Acknowledge, Command, Conflict};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use units::{ByteAddr, Bytes, Picos, TxId};

fn write(engine: &mut DeviceEngine, command: Command, at: u64, bytes: &[u8]) -> Picos {
    let ticket = engine
        .submit_write(command, ByteAddr::new(at), bytes)
        .unwrap();
    engine.finish(ticket, &mut []).unwrap().0.took()
}

fn run(engine: &mut DeviceEngine, command: Command, at: u64, into: &mut [u8]) -> Picos {
    let size = Bytes::new(into.len() as u64);
    let ticket = engine.submit(command, ByteAddr::new(at), size).unwrap();
    engine.finish(ticket, into).unwrap().0.took()
}

fn activity(counters: &Counters, name: &str) -> u64 {
    let at = ACTIVITY.iter().position(|(known, _)| *known == name);
    counters.activity[at.unwrap()]
}

fn standing(counters: &Counters, name: &str) -> u64 {
    let at = STANDING.iter().position(|(known, _)| *known == name);
    counters.standing[at.unwrap()]
}

#[test]
fn every_kind_of_request_has_its_latencies() {
    let place = Place::new("latencies");
    let mut engine = made(&place, &small_log());
    let tx = engine.begin(true).unwrap();
    let other = engine.begin(true).unwrap();
    let (mut line, mut page) = ([0; 64], vec![0; 4096]);
    let took = [
        run(&mut engine, Command::Read, 0, &mut line),
        write(&mut engine, Command::Write(tx), 0, &line),
        run(&mut engine, Command::Persist, 0, &mut []),
        run(&mut engine, Command::ReadBlocks, 8192, &mut page),
        write(
            &mut engine,
            Command::WriteBlocks(Acknowledge::Durable),
            8192,
            &page,
        ),
        run(&mut engine, Command::Flush, 0, &mut []),
        run(&mut engine, Command::Trim, 8192, &mut []),
        run(&mut engine, Command::Commit(tx), 0, &mut []),
        run(&mut engine, Command::Abort(other), 0, &mut []),
    ];
    let latencies = Image::describe(engine.image()).unwrap().latencies;
    assert_eq!(latencies, engine.latencies());
    for (kind, took) in Kind::ALL.into_iter().zip(took) {
        let latency = latencies.of(kind);
        let found = (latency.count(), latency.sum(), latency.longest());
        assert_eq!(found, (1, took, Some(took)), "{}", kind.name());
        assert_eq!(latency.quantile(500), Some(took), "{}", kind.name());
    }
}

#[test]
fn a_request_that_fails_has_no_latency() {
    let place = Place::new("no-latency");
    let mut engine = made(&place, &small_log());
    let line = [1; 64];
    let (first, second) = (engine.begin(true).unwrap(), engine.begin(true).unwrap());
    write(&mut engine, Command::Write(first), 0, &line);
    let range = (ByteAddr::new(0), Bytes::new(64));
    let ticket = engine.submit_any(Command::Write(second), range, Conflict::Refuse, &line);
    assert!(engine.finish(ticket.unwrap(), &mut []).is_err());
    assert_eq!(engine.latencies().of(Kind::ByteWrite).count(), 1);
}

#[test]
fn counts_are_of_the_whole_life_and_survive_a_kill() {
    let place = Place::new("whole-life");
    let mut engine = made(
        &place,
        &small(
            "cxl",
            &[
                "ssd.log.size=32KiB",
                "ssd.log.tx_log=4KiB",
                "ssd.dram=100KiB",
            ],
        ),
    );
    let image = engine.image().to_owned();
    let mut appends = 0;
    for turn in 0..3 {
        for line in 0..1_000 {
            write(
                &mut engine,
                Command::Write(TxId::NONE),
                line * 64,
                &[turn; 64],
            );
        }
        engine.settle();
        engine.publish();
        let now = Image::describe(&image).unwrap().counters;
        let found = activity(&now, "log_appends");
        assert!(found >= appends + 1_000, "turn {turn}: {found}");
        appends = found;
        assert!(activity(&now, "compactions") > 0);
        assert_eq!(now.stats.byte_port.writes, 1_000 * (u64::from(turn) + 1));
        drop(engine);
        engine = DeviceEngine::open(&image, Pace::None).unwrap();
        assert_eq!(activity(&engine.counters(), "log_appends"), appends);
        assert_eq!(
            engine.latencies().of(Kind::ByteWrite).count(),
            now.stats.byte_port.writes
        );
    }
}

#[test]
fn how_it_stands_is_seen_while_it_works() {
    let place = Place::new("standing");
    let mut engine = made(&place, &small_log());
    let image = engine.image().to_owned();
    let seen = |engine: &mut DeviceEngine, name: &str| {
        engine.publish();
        standing(&Image::describe(&image).unwrap().counters, name)
    };
    let free = seen(&mut engine, "free_blocks");
    assert_eq!(
        (seen(&mut engine, "log_slots"), seen(&mut engine, "blocks")),
        (512, 48)
    );
    let tx = engine.begin(true).unwrap();
    for line in 0..9 {
        write(&mut engine, Command::Write(tx), line * 64, &[1; 64]);
    }
    assert_eq!(seen(&mut engine, "log_used_slots"), 9);
    assert_eq!(seen(&mut engine, "open_transactions"), 1);
    write(
        &mut engine,
        Command::WriteBlocks(Acknowledge::Durable),
        1 << 16,
        &[1; 4096],
    );
    assert_eq!(seen(&mut engine, "free_blocks"), free - 1);
    let ticket = engine.submit(Command::Read, ByteAddr::new(1 << 16), Bytes::new(64));
    assert_eq!(seen(&mut engine, "requests_under_way"), 1);
    engine.finish(ticket.unwrap(), &mut [0; 64]).unwrap();
    run(&mut engine, Command::Commit(tx), 0, &mut []);
    assert_eq!(seen(&mut engine, "open_transactions"), 0);
    assert_eq!(seen(&mut engine, "requests_under_way"), 0);
}

/// Picoseconds in 64 bits end after 213 days.
#[test]
fn a_device_that_has_run_for_213_days_goes_on() {
    let place = Place::new("long-life");
    let engine = made(&place, &small_log());
    let image = engine.image().to_owned();
    engine.close().unwrap();
    let file = OpenOptions::new().write(true).open(image.join("dram.bin"));
    let file = file.unwrap();
    let clock = u64::MAX - 1_000_000;
    // The region of counters is behind the superblock; the clock is its ninth number.
    file.write_all_at(&clock.to_le_bytes(), (64 << 10) + 8 * 8)
        .unwrap();
    drop(file);
    let mut engine = DeviceEngine::open(&image, Pace::None).unwrap();
    for line in 0..100 {
        write(&mut engine, Command::Write(TxId::NONE), line * 64, &[1; 64]);
    }
    run(&mut engine, Command::Flush, 0, &mut []);
    engine.close().unwrap();
    let counters = Image::describe(&image).unwrap().counters;
    let nanos = u128::from(counters.nanos_before) * 1_000;
    let life = nanos + u128::from(counters.stats.clock.as_picos());
    assert!(
        life > u128::from(clock),
        "{life} ps, of which {clock} were before"
    );
    assert!(counters.stats.clock < units::Time::from_picos(1 << 50));
}
