//! Who moves a device on, apart from who asks it.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use units::Picos;

/// Whoever owns a device's clock turns this; those who ask the device never see it.
pub trait Drive {
    /// Lets the next thing happen, and wakes the wakers of what is done then.
    fn turn(&self) -> Turned;
}

/// What [`Drive::turn`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turned {
    /// Something happened; wakers of what is done were woken.
    Moved,
    /// Nothing will happen before something is submitted.
    Idle,
    /// The next thing happens so much later on the wall clock. Zero if nobody knows when, as with a
    /// device of another process.
    Early(Picos),
}

/// Turns a device until a future of it is done, and spins where the device is early. A future that
/// waits for something else than this device may wait for ever.
pub fn block_on<T>(device: &impl Drive, future: impl Future<Output = T>) -> T {
    block_on_with(device, future, |_| core::hint::spin_loop())
}

/// As [`block_on`]; `wait` is called where the device is early, with how much.
pub fn block_on_with<T>(
    device: &impl Drive,
    future: impl Future<Output = T>,
    mut wait: impl FnMut(Picos),
) -> T {
    let mut future = pin!(future);
    let is_woken = Arc::new(IsWoken(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&is_woken));
    let mut context = Context::from_waker(&waker);
    loop {
        if is_woken.0.swap(false, Ordering::Acquire)
            && let Poll::Ready(value) = future.as_mut().poll(&mut context)
        {
            return value;
        }
        // Woken by itself or by another thread: the device is not asked.
        if is_woken.0.load(Ordering::Relaxed) {
            continue;
        }
        match device.turn() {
            Turned::Moved => {}
            // Another thread may be about to wake the future, or to submit.
            Turned::Idle => core::hint::spin_loop(),
            Turned::Early(span) => wait(span),
        }
    }
}

struct IsWoken(AtomicBool);

impl Wake for IsWoken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::{Cell, RefCell};
    use core::future::poll_fn;

    /// Is early twice, then wakes who waits.
    #[derive(Default)]
    struct Clock {
        turns: Cell<u32>,
        waker: RefCell<Option<Waker>>,
    }

    impl Drive for Clock {
        fn turn(&self) -> Turned {
            self.turns.set(self.turns.get() + 1);
            if self.turns.get() < 3 {
                return Turned::Early(Picos::from_micros(7));
            }
            match self.waker.take() {
                Some(waker) => waker.wake(),
                None => return Turned::Idle,
            }
            Turned::Moved
        }
    }

    #[test]
    fn a_future_is_polled_when_it_is_woken_and_not_otherwise() {
        let clock = Clock::default();
        let mut polls = 0;
        let mut waits = 0;
        let future = poll_fn(|context| {
            polls += 1;
            if clock.turns.get() >= 3 {
                return Poll::Ready(());
            }
            clock.waker.replace(Some(context.waker().clone()));
            Poll::Pending
        });
        block_on_with(&clock, future, |span| {
            assert_eq!(span, Picos::from_micros(7));
            waits += 1;
        });
        assert_eq!((polls, waits, clock.turns.get()), (2, 2, 3));
    }

    #[test]
    fn a_future_that_wakes_itself_is_polled_again_without_a_turn() {
        let clock = Clock::default();
        let mut polls = 0;
        let future = poll_fn(|context| {
            polls += 1;
            if polls == 5 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        block_on(&clock, future);
        assert_eq!(clock.turns.get(), 0);
    }
}
