//! What tasks wait for beside the device: each other.

use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A lock that is held across waiting, first come first served.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    is_closed: bool,
    next: u64,
    waiting: VecDeque<(u64, Waker)>,
    /// Whom the one before has let in.
    admitted: Option<u64>,
}

impl Gate {
    /// Waits until nobody else has passed.
    pub fn pass(&self) -> Passing {
        Passing {
            gate: self.clone(),
            number: None,
        }
    }

    /// Passes if nobody else has.
    pub fn try_pass(&self) -> Option<Passed> {
        let mut queue = self.queue();
        if queue.is_closed {
            return None;
        }
        queue.is_closed = true;
        Some(Passed(self.clone()))
    }

    /// Whether it is the same gate.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether somebody has passed and not left.
    pub fn is_closed(&self) -> bool {
        self.queue().is_closed
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self) {
        let mut queue = self.queue();
        match queue.waiting.pop_front() {
            Some((number, waker)) => {
                queue.admitted = Some(number);
                drop(queue);
                waker.wake();
            }
            None => queue.is_closed = false,
        }
    }
}

/// Somebody who waits before a gate.
pub(crate) struct Passing {
    gate: Gate,
    number: Option<u64>,
}

/// Who has passed; the gate opens when it goes.
pub(crate) struct Passed(Gate);

impl Future for Passing {
    type Output = Passed;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Passed> {
        let gate = self.gate.clone();
        let mut queue = gate.queue();
        match self.number {
            None if !queue.is_closed => {
                queue.is_closed = true;
                drop(queue);
                Poll::Ready(Passed(gate))
            }
            None => {
                let number = queue.next;
                queue.next += 1;
                queue.waiting.push_back((number, context.waker().clone()));
                self.number = Some(number);
                Poll::Pending
            }
            Some(number) if queue.admitted == Some(number) => {
                queue.admitted = None;
                self.number = None;
                drop(queue);
                Poll::Ready(Passed(gate))
            }
            Some(number) => {
                let place = queue.waiting.iter_mut().find(|(other, _)| *other == number);
                if let Some((_, waker)) = place {
                    waker.clone_from(context.waker());
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut queue = self.gate.queue();
        if queue.admitted == Some(number) {
            queue.admitted = None;
            drop(queue);
            self.gate.leave();
        } else {
            queue.waiting.retain(|(other, _)| *other != number);
        }
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Tells those who wait for it that something has changed.
#[derive(Clone, Default)]
pub(crate) struct Bell(Arc<Mutex<Waiters>>);

#[derive(Default)]
struct Waiters {
    next: u64,
    waiting: Vec<(u64, Waker)>,
}

impl Bell {
    /// Something has changed: everybody looks.
    pub fn ring(&self) {
        let waiting = core::mem::take(&mut self.waiters().waiting);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Waits until there is something to be seen, looking now and whenever it rings.
    pub fn until<T, F: FnMut() -> Option<T> + Unpin>(&self, look: F) -> Until<F> {
        Until {
            bell: self.clone(),
            look,
            number: None,
        }
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who looks whenever a bell rings.
pub(crate) struct Until<F> {
    bell: Bell,
    look: F,
    number: Option<u64>,
}

impl<T, F: FnMut() -> Option<T> + Unpin> Future for Until<F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Before it looks: what changes meanwhile in another thread rings for it.
        let bell = self.bell.clone();
        {
            let mut waiters = bell.waiters();
            let number = match self.number {
                Some(number) => number,
                None => {
                    waiters.next += 1;
                    waiters.next
                }
            };
            self.number = Some(number);
            let place = waiters.waiting.iter_mut().find(|(of, _)| *of == number);
            match place {
                Some((_, waker)) => waker.clone_from(context.waker()),
                None => waiters.waiting.push((number, context.waker().clone())),
            }
        }
        match (self.look)() {
            Some(seen) => Poll::Ready(seen),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Until<F> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut waiters = self.bell.waiters();
            waiters.waiting.retain(|(of, _)| *of != number);
        }
    }
}

/// What one of two futures gives first; the other one is dropped. The first is asked first.
pub(crate) async fn either<T>(
    first: impl Future<Output = T>,
    second: impl Future<Output = T>,
) -> T {
    let (mut first, mut second) = (pin!(first), pin!(second));
    core::future::poll_fn(move |context| match first.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(value),
        Poll::Pending => second.as_mut().poll(context),
    })
    .await
}

/// All of several futures: each is begun in order, and then waited for in order. Whoever wakes
/// them wakes them often, and all of them would be looked at each time.
pub(crate) async fn join_all<F: Future + Unpin>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running = futures.into_iter();
    let mut begun = Vec::with_capacity(running.len());
    core::future::poll_fn(|context| {
        begun.extend(running.by_ref().map(
            |mut future| match Pin::new(&mut future).poll(context) {
                Poll::Ready(value) => Begun::Over(value),
                Poll::Pending => Begun::Running(future),
            },
        ));
        Poll::Ready(())
    })
    .await;
    let mut done = Vec::with_capacity(begun.len());
    for one in begun {
        done.push(match one {
            Begun::Over(value) => value,
            Begun::Running(future) => future.await,
        });
    }
    done
}

enum Begun<F: Future> {
    Running(F),
    Over(F::Output),
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn who_comes_first_passes_first_and_who_gives_up_is_left_out() {
        let gate = Gate::default();
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(first) = pin!(gate.pass()).poll(&mut context) else {
            panic!("nobody is before it");
        };
        let mut second = Box::pin(gate.pass());
        let mut third = Box::pin(gate.pass());
        let mut fourth = Box::pin(gate.pass());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.as_mut().poll(&mut context).is_pending());
        assert!(fourth.as_mut().poll(&mut context).is_pending());
        drop(second);
        drop(first);
        assert!(fourth.as_mut().poll(&mut context).is_pending());
        // Let in, but gone before it has seen that.
        drop(third);
        let Poll::Ready(last) = fourth.as_mut().poll(&mut context) else {
            panic!("it is its turn");
        };
        assert!(gate.is_closed());
        drop(last);
        assert!(!gate.is_closed());
    }

    #[test]
    fn who_waits_for_a_bell_sees_what_changes_and_who_goes_is_forgotten() {
        let (bell, number) = (Bell::default(), Cell::new(1));
        let mut context = Context::from_waker(Waker::noop());
        let two = || (number.get() >= 2).then_some(number.get());
        let mut first = Box::pin(bell.until(two));
        let mut second = Box::pin(bell.until(two));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        // A poll too many does not put it there twice.
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(bell.waiters().waiting.len(), 2);
        drop(first);
        assert_eq!(bell.waiters().waiting.len(), 1);
        bell.ring();
        assert!(second.as_mut().poll(&mut context).is_pending());
        number.set(2);
        bell.ring();
        assert_eq!(second.as_mut().poll(&mut context), Poll::Ready(2));
        drop(second);
        assert!(bell.waiters().waiting.is_empty());
    }

    #[test]
    fn the_first_of_two_goes_before_the_second() {
        let gate = Gate::default();
        let mut context = Context::from_waker(Waker::noop());
        let one = async { 1 };
        let mut both = pin!(either(one, async { 2 }));
        assert_eq!(both.as_mut().poll(&mut context), Poll::Ready(1));
        let passed = async {
            drop(gate.pass().await);
            1
        };
        let Poll::Ready(held) = pin!(gate.pass()).poll(&mut context) else {
            panic!("nobody is before it");
        };
        let mut both = Box::pin(either(passed, async { 2 }));
        assert_eq!(both.as_mut().poll(&mut context), Poll::Ready(2));
        drop(both);
        drop(held);
        assert!(!gate.is_closed());
    }
}
