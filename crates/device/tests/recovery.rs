//! What a killed process has left is taken over.
//!
//! Dropping an engine without closing it is what a kill is to the image: stores that were made are
//! in it, and nothing else happens.

mod common;

use common::{Place, made, small, small_log};
use device::{Ask, DeviceConfig, DeviceEngine, Pace, fsck};
use port::Acknowledge;
use units::{ByteAddr, Bytes, Stream, TxId};

/// Writes at random places for some turns, keeping the model; stops in the middle of things.
fn work(engine: &mut DeviceEngine, model: &mut [u8], stream: &mut Stream) {
    let turns = 1 + stream.below(400);
    for _ in 0..turns {
        let is_block = stream.below(5) == 0;
        let (at, size) = if is_block {
            (stream.below(232) * 4096, 4096)
        } else {
            let at = stream.below(model.len() as u64 - 300);
            (at, 1 + stream.below(300))
        };
        let bytes = vec![stream.bits() as u8; size as usize];
        let ask = match is_block {
            true => Ask::WriteBlocks(Acknowledge::Accepted),
            false => Ask::Write(TxId::NONE),
        };
        let ticket = engine.submit_write(ask, ByteAddr::new(at), &bytes).unwrap();
        engine.finish(ticket, &mut []).unwrap();
        model[at as usize..(at + size) as usize].copy_from_slice(&bytes);
    }
    // Some events more, and the power is gone in between.
    for _ in 0..stream.below(50) {
        engine.step();
    }
}

fn check(name: &str, config: &DeviceConfig) {
    let place = Place::new(name);
    let mut engine = made(&place, config);
    let image = place.path("image");
    let mut model = vec![0; config.capacity().get() as usize];
    let mut stream = Stream::new(3, name);
    for turn in 0..40 {
        work(&mut engine, &mut model, &mut stream);
        drop(engine);
        if turn % 8 == 0 {
            let findings = fsck::check(&image, &mut |_| true).unwrap();
            assert_eq!(findings.problems, Vec::<String>::new());
        }
        engine = DeviceEngine::open(&image, Pace::None).unwrap();
        engine.audit();
        let mut found = vec![0; model.len()];
        let size = Bytes::new(model.len() as u64);
        let ticket = engine.submit(Ask::Read, ByteAddr::new(0), size).unwrap();
        engine.finish(ticket, &mut found).unwrap();
        let wrong = found
            .iter()
            .zip(&model)
            .position(|(found, model)| found != model);
        assert_eq!(
            wrong, None,
            "turn {turn}: the first byte that is another one"
        );
    }
    assert_eq!(engine.health().unsafe_shutdowns, 40);
}

#[test]
fn a_log_of_skip_lists_survives_what_was_acknowledged() {
    check("survives-skip", &small_log());
}

#[test]
fn a_hashed_log_beside_a_cache_survives_what_was_acknowledged() {
    let sets = ["ssd.write_log=32KiB", "ssd.dram=96KiB"];
    check("survives-hash", &small("skybyte", &sets));
}
