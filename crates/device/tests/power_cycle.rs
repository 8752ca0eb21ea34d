//! A power cut of a device in memory leaves what a killed process leaves of an image.

use crate::common::{Place, small, small_log};
use device::{DeviceConfig, DeviceEngine, Image, Pace};
use port::{Acknowledge, Command};
use units::{ByteAddr, Bytes, Stream, TxId};

const PAGE: usize = 4096;

fn read(engine: &mut DeviceEngine, at: usize) -> Vec<u8> {
    let mut into = vec![0; PAGE];
    let place = ByteAddr::new(at as u64);
    let ticket = engine.submit(Command::ReadBlocks, place, Bytes::new(PAGE as u64));
    engine.finish(ticket.unwrap(), &mut into).unwrap();
    into
}

fn contents(engine: &mut DeviceEngine) -> Vec<u8> {
    let pages = engine.shape().capacity.get() as usize / PAGE;
    let pages = (0..pages).flat_map(|page| read(engine, page * PAGE));
    pages.collect()
}

/// The same requests on both kinds of device; some are under way when the power goes.
fn work(engine: &mut DeviceEngine, seed: u64) {
    let mut stream = Stream::new(seed, "power cycle");
    let lines = engine.shape().capacity.get() / 64;
    let has_transactions = engine.shape().transactions.is_some();
    for _ in 0..200 {
        let at = ByteAddr::new(64 * stream.below(lines));
        let page = ByteAddr::new(4096 * stream.below(lines / 64));
        let value = stream.bits() as u8;
        let ticket = match stream.below(4) {
            0 if has_transactions => {
                let tx = engine.begin(true).unwrap();
                let wrote = engine.submit_write(Command::Write(tx), at, &[value; 64]);
                engine.finish(wrote.unwrap(), &mut []).unwrap();
                let end = [Command::Commit(tx), Command::Abort(tx)][stream.below(2) as usize];
                engine.submit(end, ByteAddr::new(0), Bytes::ZERO)
            }
            0 | 1 => engine.submit_write(Command::Write(TxId::NONE), at, &[value; 64]),
            2 => engine.submit(Command::Flush, ByteAddr::new(0), Bytes::ZERO),
            _ => {
                let command = Command::WriteBlocks(Acknowledge::Accepted);
                engine.submit_write(command, page, &[value; PAGE])
            }
        };
        match stream.below(4) {
            0 => {
                engine.step();
            }
            _ => {
                engine.finish(ticket.unwrap(), &mut []).unwrap();
            }
        }
    }
    // One that is open, one that is on its way and one that nobody has waited for.
    if has_transactions {
        let tx = engine.begin(true).unwrap();
        let wrote = engine.submit_write(Command::Write(tx), ByteAddr::new(0), &[0xaa; 64]);
        engine.finish(wrote.unwrap(), &mut []).unwrap();
    }
    let posted = engine.submit_write(Command::Write(TxId::NONE), ByteAddr::new(64), &[0xbb; 64]);
    assert!(posted.is_ok());
}

fn check(name: &str, config: &DeviceConfig) {
    for seed in 0..12 {
        let place = Place::new(&format!("power-cycle-{name}-{seed}"));
        let path = place.path("image");
        Image::create(&path, config).unwrap();
        let mut on_disk = DeviceEngine::open(&path, Pace::None).unwrap();
        let mut in_memory = DeviceEngine::in_memory(config, Pace::None).unwrap();
        work(&mut on_disk, seed);
        work(&mut in_memory, seed);
        drop(on_disk);
        let mut reopened = DeviceEngine::open(&path, Pace::None).unwrap();
        let mut cycled = in_memory.power_cycled().unwrap();
        assert_eq!(
            contents(&mut cycled),
            contents(&mut reopened),
            "seed {seed}"
        );
        cycled.audit();
        // What was cut goes on, and what is left is cut again.
        let before = contents(&mut in_memory);
        assert_eq!(contents(&mut in_memory), before);
        let again = contents(&mut cycled.power_cycled().unwrap());
        if cycled.shape().transactions.is_some() {
            assert_eq!(again, contents(&mut cycled), "seed {seed}");
        }
        assert_ne!(before[64], again[64], "what was on the link is gone");
    }
}

/// The store has marked its page's frame as dirty while the page is still on its way: what survives
/// is fetched anew, and a load wants a line of it first.
#[test]
fn a_load_gets_its_line_first_where_the_power_went_during_a_fetch() {
    let sets = [
        "ssd.dram=128KiB",
        "ssd.buffers=4",
        "nand.transfer=wanted_first",
        "nand.codeword=256B",
    ];
    let mut engine = DeviceEngine::in_memory(&small("bytefs-cache", &sets), Pace::None).unwrap();
    for page in 0..100 {
        let command = Command::WriteBlocks(Acknowledge::Accepted);
        let at = ByteAddr::new((page * PAGE) as u64);
        let wrote = engine.submit_write(command, at, &[page as u8; PAGE]);
        engine.finish(wrote.unwrap(), &mut []).unwrap();
    }
    let store = engine.submit_write(Command::Write(TxId::NONE), ByteAddr::new(64), &[0xbb; 64]);
    engine.finish(store.unwrap(), &mut []).unwrap();
    let mut left = engine.power_cycled().unwrap();
    let mut seen = [0xff; 192];
    let load = left.submit(Command::Read, ByteAddr::new(0), Bytes::new(192));
    left.finish(load.unwrap(), &mut seen).unwrap();
    assert_eq!((&seen[..64], &seen[128..]), (&[0; 64][..], &[0; 64][..]));
    assert_eq!(seen[64..128], [0xbb; 64]);
}

#[test]
fn a_power_cut_in_memory_leaves_what_a_killed_process_leaves() {
    check("log", &small_log());
}

#[test]
fn a_power_cut_in_memory_empties_what_no_battery_holds() {
    check("cache", &small("consumer-tlc", &["ssd.dram=64KiB"]));
}

#[test]
fn a_power_cut_in_memory_empties_buffers_where_the_log_alone_has_a_battery() {
    let sets = [
        "ssd.dram=128KiB",
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=1KiB",
        "ssd.power_loss_protection=log",
    ];
    check("safe-log", &small("consumer-tlc", &sets));
}
