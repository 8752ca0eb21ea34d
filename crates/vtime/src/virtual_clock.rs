//! The clock that tasks see.

use crate::machine::Shared;
use crate::requests::{Ask, Phase, RequestKey};
use port::{Clock, Engine};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use units::{Picos, Time};

/// The time of a machine, and its processors.
pub struct VirtualClock<E>(Rc<RefCell<Shared<E>>>);

impl<E> VirtualClock<E> {
    pub(crate) fn new(shared: Rc<RefCell<Shared<E>>>) -> Self {
        Self(shared)
    }
}

impl<E> Clone for VirtualClock<E> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<E: Engine> Clock for VirtualClock<E> {
    fn now(&self) -> Time {
        self.0.borrow().now
    }
    fn sleep_until(&self, at: Time) -> impl Future<Output = ()> {
        Timed::new(&self.0, Ask::Sleep(at))
    }
    fn spend(&self, span: Picos) -> impl Future<Output = ()> {
        Timed::new(&self.0, Ask::Spend(span))
    }
}

/// Waits for clock or processor.
struct Timed<'a, E: Engine> {
    shared: &'a Rc<RefCell<Shared<E>>>,
    ask: Option<Ask>,
    key: Option<RequestKey>,
}

impl<'a, E: Engine> Timed<'a, E> {
    fn new(shared: &'a Rc<RefCell<Shared<E>>>, ask: Ask) -> Self {
        Self {
            shared,
            ask: Some(ask),
            key: None,
        }
    }
}

impl<E: Engine> Future for Timed<'_, E> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = Rc::clone(self.shared);
        let mut shared = shared.borrow_mut();
        if let Some(ask) = self.ask.take() {
            self.key = Some(shared.ask(ask, context.waker()));
            return Poll::Pending;
        }
        let Some(key) = self.key else {
            return Poll::Ready(());
        };
        let request = shared.requests.get(key);
        if matches!(request.phase, Phase::Over) {
            shared.requests.close(key);
            self.key = None;
            return Poll::Ready(());
        }
        request.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<E: Engine> Drop for Timed<'_, E> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.shared.borrow_mut().abandon(key);
        }
    }
}
