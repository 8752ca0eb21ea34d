//! Accounted time beside the wall clock.
#![allow(
    clippy::disallowed_methods,
    reason = "here the wall clock is what is tested"
)]

#[path = "../common/mod.rs"]
mod common;

use common::{Place, with_slow_flash};
use device::{Pace, RealDevice};
use port::Command;
use port::{Device, Drive, Turned};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use units::{ByteAddr, Picos, TxId};

/// A device whose flash reads take `t_r`, with a page on flash.
fn device(place: &Place, t_r: &str, pace: Pace) -> RealDevice {
    RealDevice::open(&with_slow_flash(place, t_r), pace).unwrap()
}

fn nanos(span: Picos) -> Duration {
    Duration::from_nanos(span.get() / 1_000)
}

#[test]
fn a_host_that_waits_waits_at_least_the_accounted_time() {
    let place = Place::new("pace-waits");
    let device = device(&place, "5ms", Pace::Real);
    let mut block = vec![0; 4096];
    for turn in 0..8 {
        let began = Instant::now();
        let took = match turn % 4 {
            0 => device.block_on(device.read_blocks(ByteAddr::new(0), &mut block)),
            1 => device.block_on(device.write(ByteAddr::new(9_000), &[1; 64], TxId::NONE)),
            2 => device.block_on(device.persist()),
            _ => {
                let mut engine = device.engine();
                let ticket = engine.submit(Command::Persist, ByteAddr::new(0), units::Bytes::ZERO);
                engine
                    .finish(ticket.unwrap(), &mut [])
                    .map(|(completion, _)| completion)
            }
        };
        let (waited, took) = (began.elapsed(), took.unwrap().took());
        // Both clocks round down to nanoseconds.
        assert!(
            waited + Duration::from_nanos(2) >= nanos(took),
            "{turn}: {waited:?} for {took}"
        );
        if turn % 4 == 0 {
            assert!(took >= Picos::from_micros(5_000), "{took}");
        }
    }
}

#[test]
fn a_host_that_does_not_wait_is_not_kept() {
    let place = Place::new("pace-none");
    let device = device(&place, "1s", Pace::None);
    let began = Instant::now();
    let mut block = vec![0; 4096];
    for _ in 0..60 {
        let read = device.block_on(device.read_blocks(ByteAddr::new(0), &mut block));
        assert!(read.unwrap().took() >= Picos::from_micros(1_000_000));
    }
    assert_eq!(device.turn(), Turned::Idle);
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "it waits for device time"
    );
}

#[test]
fn neither_poll_nor_turn_sleeps_and_the_device_says_how_early_it_is() {
    let place = Place::new("pace-polls");
    let device = device(&place, "200ms", Pace::Real);
    let mut block = vec![0; 4096];
    let mut read = pin!(device.read_blocks(ByteAddr::new(0), &mut block));
    let mut context = Context::from_waker(Waker::noop());
    let mut turns = 0u32;
    let mut earliest = Picos::ZERO;
    while read.as_mut().poll(&mut context).is_pending() {
        turns += 1;
        if let Turned::Early(span) = device.turn() {
            earliest = earliest.max(span);
        }
    }
    // A sleep of a millisecond in each would leave room for two hundred.
    assert!(turns > 1_000, "{turns} turns in 200 ms");
    assert!(earliest > Picos::from_micros(10_000), "early by {earliest}");
    assert!(
        earliest <= Picos::from_micros(201_000),
        "early by {earliest}"
    );
}

#[test]
fn time_passes_while_nobody_asks() {
    let place = Place::new("pace-idle");
    let device = device(&place, "40us", Pace::Real);
    let before = device.block_on(device.persist()).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    let after = device.block_on(device.persist()).unwrap();
    let between = after.submitted.saturating_since(before.finished);
    assert!(between >= Picos::from_micros(29_000), "{between} in 30 ms");
}
