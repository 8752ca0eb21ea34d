//! A thread does an operation to its end: it polls it, and moves the device while it waits.
//!
//! [`port::block_on`] spins; here several threads share few processors, and one that waits for
//! another's lock, or for a device that is early, rests until it is woken.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll};
use core::time::Duration;
use port::{Drive, Turned};
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use units::Picos;

/// A sleeper is woken so much late that it sleeps less, and spins for the rest.
const SPIN: Duration = Duration::from_micros(60);
/// Longest rest at a time: somebody else may have moved the device meanwhile.
const LONGEST: Duration = Duration::from_millis(1);
/// Rounds in which nothing happened before a thread rests: another thread is mostly about to
/// release what is waited for.
const PATIENCE: u32 = 200;

/// Wakes a thread that rests. One for each thread, for all its operations: one that is woken for
/// what is over looks once more and rests again.
struct Sleeper {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A thread that drives the device itself is woken by itself, and needs no system call.
        if !self.is_woken.swap(true, Ordering::AcqRel) && thread::current().id() != self.thread.id()
        {
            self.thread.unpark();
        }
    }
}

thread_local! {
    static SLEEPER: OnceCell<Arc<Sleeper>> = const { OnceCell::new() };
}

fn sleeper() -> Arc<Sleeper> {
    SLEEPER.with(|sleeper| {
        let new = || {
            Arc::new(Sleeper {
                thread: thread::current(),
                is_woken: AtomicBool::new(false),
            })
        };
        sleeper.get_or_init(new).clone()
    })
}

/// Does an operation to its end, moving the device. Nothing comes of one that waits when `is_over`:
/// nobody may be there who would wake it.
pub(super) fn finish<T>(
    device: &impl Drive,
    operation: impl Future<Output = T>,
    is_over: &AtomicBool,
) -> Option<T> {
    let mut operation = pin!(operation);
    let sleeper = sleeper();
    let waker = Waker::from(sleeper.clone());
    let mut context = Context::from_waker(&waker);
    sleeper.is_woken.store(true, Ordering::Relaxed);
    let mut idle = 0;
    loop {
        if sleeper.is_woken.swap(false, Ordering::Acquire) {
            if let Poll::Ready(value) = operation.as_mut().poll(&mut context) {
                return Some(value);
            }
            idle = 0;
        }
        // Woken by itself or by another thread: the device is not asked.
        if sleeper.is_woken.load(Ordering::Relaxed) {
            continue;
        }
        match device.turn() {
            Turned::Moved => idle = 0,
            Turned::Idle if idle < PATIENCE => {
                idle += 1;
                core::hint::spin_loop();
            }
            // Whoever has what is waited for wakes this thread. Another thread may submit to the
            // device and leave it, which is for this one then: so the rest has an end.
            Turned::Idle if is_over.load(Ordering::Relaxed) => return None,
            // A look now and then costs little, and a wake that is lost no more than its time.
            Turned::Idle => {
                thread::park_timeout(LONGEST);
                if let Poll::Ready(value) = operation.as_mut().poll(&mut context) {
                    return Some(value);
                }
            }
            Turned::Early(span) => rest(span),
        }
    }
}

fn rest(span: Picos) {
    match Duration::from_nanos(span.get() / 1_000).saturating_sub(SPIN) {
        Duration::ZERO => core::hint::spin_loop(),
        long => thread::park_timeout(long.min(LONGEST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::future::poll_fn;
    use std::sync::Mutex;

    /// A device with nothing to do, or one that is early for ever.
    struct Still(Turned);

    impl Drive for Still {
        fn turn(&self) -> Turned {
            self.0
        }
    }

    #[test]
    fn a_thread_that_rests_is_woken_by_another() {
        for turned in [Turned::Idle, Turned::Early(Picos::from_micros(1_000_000))] {
            let place: Mutex<Option<Waker>> = Mutex::new(None);
            let is_done = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    loop {
                        if let Some(waker) = place.lock().unwrap().take() {
                            is_done.store(true, Ordering::Release);
                            return waker.wake();
                        }
                        thread::yield_now();
                    }
                });
                let operation = poll_fn(|context| {
                    if is_done.load(Ordering::Acquire) {
                        return Poll::Ready(());
                    }
                    *place.lock().unwrap() = Some(context.waker().clone());
                    Poll::Pending
                });
                let done = finish(&Still(turned), operation, &AtomicBool::new(false));
                assert_eq!(done, Some(()));
            });
        }
    }

    #[test]
    fn an_operation_that_wakes_itself_is_polled_again() {
        let mut polls = 0;
        let operation = poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls == 5 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        finish(&Still(Turned::Idle), operation, &AtomicBool::new(false));
        assert_eq!(polls, 5);
    }

    #[test]
    fn what_nobody_will_wake_is_given_up_at_the_end() {
        let is_over = AtomicBool::new(true);
        let operation = core::future::pending::<()>();
        assert_eq!(finish(&Still(Turned::Idle), operation, &is_over), None);
    }
}
