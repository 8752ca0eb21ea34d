//! Futures of requests whose outcome is plain, and of several together.

use crate::device::Outcome;
use crate::{Completion, DeviceError};
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use units::Time;

/// A request of which there is nothing to say but when it was done.
#[derive(Debug)]
#[must_use = "a request is submitted when its future is polled"]
pub struct Plain<F>(pub(crate) F);

impl<F: Future<Output = Outcome> + Unpin> Future for Plain<F> {
    type Output = Result<Completion, DeviceError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = Pin::new(&mut self.0).poll(context);
        outcome.map(|outcome| outcome.map(|(completion, _)| completion))
    }
}

/// Several requests together: all are submitted at the first poll, in order.
#[derive(Debug)]
#[must_use = "requests are submitted when their future is polled"]
pub struct Vectored<F> {
    parts: Vec<Part<F>>,
    /// Those before this one are over.
    waits_for: usize,
    is_submitted: bool,
    /// All parts are looked at each time, not only the first that is not over.
    looks_at_all: bool,
}

#[derive(Debug)]
enum Part<F> {
    Pending(F),
    Over(Result<Completion, DeviceError>),
}

impl<F> Vectored<F> {
    /// Of requests that are to be submitted together, in this order, to a device that has said
    /// whether its answers are fetched ([`Device::ANSWERS_ARE_FETCHED`](crate::Device)).
    pub fn new(parts: Vec<F>, answers_are_fetched: bool) -> Self {
        Self {
            parts: parts.into_iter().map(Part::Pending).collect(),
            waits_for: 0,
            is_submitted: false,
            looks_at_all: answers_are_fetched,
        }
    }

    /// From the first submission to the last end, or the first error.
    fn sum(&mut self) -> Result<Completion, DeviceError> {
        let mut whole: Option<Completion> = None;
        for part in self.parts.drain(..) {
            let Part::Over(result) = part else {
                unreachable!("all are over")
            };
            let Completion {
                submitted,
                finished,
            } = result?;
            whole = Some(whole.map_or(
                Completion {
                    submitted,
                    finished,
                },
                |whole| Completion {
                    submitted: whole.submitted.min(submitted),
                    finished: whole.finished.max(finished),
                },
            ));
        }
        // Nothing takes no time, and no device was asked what time it is.
        let at = Time::ZERO;
        Ok(whole.unwrap_or(Completion {
            submitted: at,
            finished: at,
        }))
    }
}

impl<F: Future<Output = Outcome> + Unpin> Future for Vectored<F> {
    type Output = Result<Completion, DeviceError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            parts,
            waits_for,
            is_submitted,
            looks_at_all,
        } = &mut *self;
        // Later only the first that is not over is looked at: each wakes, and there may be
        // thousands.
        let looks_at_all = !core::mem::replace(is_submitted, true) || *looks_at_all;
        for part in &mut parts[*waits_for..] {
            if let Part::Pending(future) = part {
                match Pin::new(future).poll(context) {
                    Poll::Ready(outcome) => {
                        *part = Part::Over(outcome.map(|(completion, _)| completion));
                    }
                    Poll::Pending if looks_at_all => {}
                    Poll::Pending => break,
                }
            }
        }
        let over = |part: &&Part<F>| matches!(part, Part::Over(_));
        *waits_for += parts[*waits_for..].iter().take_while(over).count();
        match *waits_for == parts.len() {
            true => Poll::Ready(self.sum()),
            false => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Atomicity;
    use alloc::collections::BTreeSet;
    use alloc::rc::Rc;
    use core::cell::{Cell, RefCell};
    use core::task::Waker;
    use units::{ByteAddr, Picos};

    /// What is done, by number; how often somebody looked.
    #[derive(Default)]
    struct World {
        done: RefCell<BTreeSet<u64>>,
        order: RefCell<Vec<u64>>,
        looks: Cell<usize>,
    }

    struct Part {
        number: u64,
        fails: bool,
        world: Rc<World>,
    }

    impl Future for Part {
        type Output = Outcome;

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
            let Self {
                number,
                fails,
                world,
            } = &*self;
            world.looks.set(world.looks.get() + 1);
            let mut order = world.order.borrow_mut();
            if !order.contains(number) {
                order.push(*number);
            }
            if !world.done.borrow().contains(number) {
                return Poll::Pending;
            }
            if *fails {
                return Poll::Ready(Err(DeviceError::Locked {
                    at: ByteAddr::new(*number),
                }));
            }
            let at = |nanos| Time::ZERO + Picos::from_nanos(nanos);
            let completion = Completion {
                submitted: at(*number),
                finished: at(100 - *number),
            };
            Poll::Ready(Ok((completion, Atomicity::Whole)))
        }
    }

    fn parts(
        count: u64,
        failing: Option<u64>,
        answers_are_fetched: bool,
    ) -> (Rc<World>, Vectored<Part>) {
        let world = Rc::new(World::default());
        let part = |number| Part {
            number,
            fails: Some(number) == failing,
            world: world.clone(),
        };
        let parts = (0..count).map(part).collect();
        (world, Vectored::new(parts, answers_are_fetched))
    }

    fn look(all: &mut Vectored<Part>) -> Poll<Result<Completion, DeviceError>> {
        Pin::new(all).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn all_are_submitted_at_once_and_each_is_looked_at_a_few_times() {
        const COUNT: u64 = 50;
        for ends in [(0..COUNT).collect::<Vec<_>>(), (0..COUNT).rev().collect()] {
            let (world, mut all) = parts(COUNT, None, false);
            assert!(look(&mut all).is_pending());
            assert!(world.order.borrow().iter().copied().eq(0..COUNT));
            let mut sum = Poll::Pending;
            for number in ends {
                assert!(sum.is_pending(), "before the last is done");
                world.done.borrow_mut().insert(number);
                sum = look(&mut all);
            }
            let Poll::Ready(Ok(sum)) = sum else {
                panic!("all are done");
            };
            let nanos = |at: Time| at.as_picos() / 1_000;
            assert_eq!((nanos(sum.submitted), nanos(sum.finished)), (0, 100));
            // At first, when it is done, and once for each end.
            assert!(world.looks.get() <= 3 * COUNT as usize);
        }
    }

    #[test]
    fn answers_that_hold_room_are_fetched_behind_one_that_waits() {
        let (world, mut all) = parts(4, None, true);
        assert!(look(&mut all).is_pending());
        world.done.borrow_mut().extend(1..4);
        assert!(look(&mut all).is_pending());
        let over = |part: &&super::Part<Part>| matches!(part, super::Part::Over(_));
        assert_eq!(all.parts.iter().filter(over).count(), 3);
        world.done.borrow_mut().insert(0);
        assert!(look(&mut all).is_ready());
    }

    #[test]
    fn the_first_part_that_fails_says_what_came_of_all() {
        let (world, mut all) = parts(3, Some(1), false);
        assert!(look(&mut all).is_pending());
        world.done.borrow_mut().extend(0..3);
        assert!(matches!(look(&mut all), Poll::Ready(Err(_))));
    }

    #[test]
    fn nothing_is_over_at_once() {
        let (_, mut all) = parts(0, None, false);
        assert!(matches!(look(&mut all), Poll::Ready(Ok(_))));
    }
}
