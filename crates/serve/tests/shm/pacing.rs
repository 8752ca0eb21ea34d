//! A server whose clients wait for the device's time.
#![allow(
    clippy::disallowed_methods,
    reason = "here the wall clock is what is tested"
)]

use crate::common::{Place, with_slow_flash};
use crate::serving::{BLOCK, Serving};
use device::Pace;
use port::{Device, Drive};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use units::{ByteAddr, TxId};

/// A read of the flash: long enough for thousands of others.
const T_R: &str = "400ms";
/// By how much the median request may take longer than the device says: far more than a hand-over
/// between two threads takes, and a fraction of a wait that is slept.
const MOST_DELAY: Duration = Duration::from_micros(200);
/// What a server that sleeps may use of a core while a read of the flash is under way.
const MOST_BUSY: Duration = Duration::from_millis(100);

fn serving(name: &str) -> Serving {
    let place = Place::new(name);
    with_slow_flash(&place, T_R);
    Serving::paced(place, Pace::Real)
}

#[test]
fn who_hits_the_log_does_not_wait_for_anothers_flash() {
    let serving = serving("shm-paced");
    let (slow, quick) = (serving.connect(), serving.connect());
    let line = ByteAddr::new(3 * BLOCK as u64);
    quick
        .wait(quick.write(line, b"logged", TxId::NONE))
        .unwrap();
    let mut block = [0; BLOCK];
    let mut flash = Box::pin(slow.read_blocks(ByteAddr::new(0), &mut block));
    let mut context = Context::from_waker(Waker::noop());
    let mut delays = Vec::new();
    while flash.as_mut().poll(&mut context).is_pending() {
        slow.turn();
        let (begun, mut found) = (Instant::now(), [0; 6]);
        let read = quick.wait(quick.read(line, &mut found)).unwrap();
        assert_eq!(&found, b"logged");
        let accounted = Duration::from_nanos(read.took().get() / 1_000);
        delays.push(begun.elapsed().saturating_sub(accounted));
    }
    drop(flash);
    assert_eq!(block, [7; BLOCK]);
    delays.sort_unstable();
    let median = delays[delays.len() / 2];
    assert!(median < MOST_DELAY, "{median:?} of {}", delays.len());
    // One in a millisecond, if each waited for a sleep.
    assert!(delays.len() > 400, "{} in {T_R}", delays.len());
    serving.end();
}

#[test]
fn a_server_sleeps_while_its_device_rests_and_is_woken_by_who_asks() {
    let serving = serving("shm-resting");
    let (slow, quick) = (serving.connect(), serving.connect());
    let mut block = [0; BLOCK];
    let mut flash = pin!(slow.read_blocks(ByteAddr::new(0), &mut block));
    let mut context = Context::from_waker(Waker::noop());
    assert!(flash.as_mut().poll(&mut context).is_pending());
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(5));
        quick.wait(quick.persist()).unwrap();
    }
    slow.turn();
    assert!(
        flash.as_mut().poll(&mut context).is_pending(),
        "{T_R} are over"
    );
    let read = slow.wait(flash).unwrap();
    assert!(read.took().get() / 1_000_000_000 >= 400, "{}", read.took());
    let busy = serving.end_busy();
    assert!(busy < MOST_BUSY, "{busy:?} of {T_R}");
}
