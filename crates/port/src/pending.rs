//! Futures of requests whose outcome is plain, and of several together.

use crate::device::Outcome;
use crate::{Completion, DeviceError};
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
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
}

#[derive(Debug)]
enum Part<F> {
    Pending(F),
    Over(Result<Completion, DeviceError>),
}

impl<F> Vectored<F> {
    /// Of requests that are to be submitted together, in this order.
    pub fn new(parts: Vec<F>) -> Self {
        Self {
            parts: parts.into_iter().map(Part::Pending).collect(),
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
        let mut are_over = true;
        for part in &mut self.parts {
            if let Part::Pending(future) = part {
                match Pin::new(future).poll(context) {
                    Poll::Ready(outcome) => {
                        *part = Part::Over(outcome.map(|(completion, _)| completion));
                    }
                    Poll::Pending => are_over = false,
                }
            }
        }
        ready!(if are_over {
            Poll::Ready(())
        } else {
            Poll::Pending
        });
        Poll::Ready(self.sum())
    }
}
