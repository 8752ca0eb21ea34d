//! Who asks a device does not move it; who turns it wakes those whose requests are done.

use crate::common::{Place, small_log};
use device::{Image, Pace, RealDevice};
use port::{Device, Drive, Turned};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};
use units::{ByteAddr, TxId};

#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count {
    fn wakes(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

fn device(place: &Place) -> RealDevice {
    let path = place.path("image");
    Image::create(&path, &small_log()).unwrap();
    RealDevice::open(&path, Pace::None).unwrap()
}

#[test]
fn polls_submit_and_look_and_move_nothing() {
    let place = Place::new("driving-polls");
    let device = device(&place);
    let mut context = Context::from_waker(Waker::noop());
    let before = device.stats().clock;
    let mut write = pin!(device.write(ByteAddr::new(0), &[1; 64], TxId::NONE));
    for _ in 0..100 {
        assert!(write.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(device.stats().clock, before);
    while device.turn() == Turned::Moved {}
    let done = write.as_mut().poll(&mut context);
    assert!(done.is_ready());
    assert_eq!(device.turn(), Turned::Idle);
}

#[test]
fn a_future_is_woken_once_when_it_is_done_and_others_are_not() {
    let place = Place::new("driving-wakes");
    let device = device(&place);
    let counts: [Arc<Count>; 3] = Default::default();
    let wakers = counts.clone().map(Waker::from);
    // The third waits for the first, whose line it writes.
    let lines = [0_u64, 4096, 0];
    let mut writes =
        lines.map(|at| Box::pin(device.write(ByteAddr::new(at), &[2; 64], TxId::NONE)));
    let mut is_done = [false; 3];
    for (write, waker) in writes.iter_mut().zip(&wakers) {
        assert!(
            write
                .as_mut()
                .poll(&mut Context::from_waker(waker))
                .is_pending()
        );
    }
    while is_done != [true; 3] {
        assert_eq!(device.turn(), Turned::Moved);
        for nth in 0..3 {
            let is_woken = counts[nth].wakes() > 0;
            if !is_done[nth] {
                let mut context = Context::from_waker(&wakers[nth]);
                is_done[nth] = writes[nth].as_mut().poll(&mut context).is_ready();
                assert_eq!(is_done[nth], is_woken, "{nth}");
            }
        }
        assert!(is_done[0] || !is_done[2], "the later one is done first");
    }
    assert_eq!(counts.map(|count| count.wakes()), [1; 3]);
}

#[test]
fn who_has_dropped_his_future_is_not_woken() {
    let place = Place::new("driving-dropped");
    let device = device(&place);
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut write = Box::pin(device.write(ByteAddr::new(0), &[3; 64], TxId::NONE));
    assert!(
        write
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(write);
    while device.turn() == Turned::Moved {}
    assert_eq!(count.wakes(), 0);
    // It was done all the same, and its place serves another.
    let mut found = [0; 64];
    device
        .block_on(device.read(ByteAddr::new(0), &mut found))
        .unwrap();
    assert_eq!(found, [3; 64]);
}
