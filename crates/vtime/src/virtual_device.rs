//! The device that tasks see.

use crate::machine::Shared;
use crate::requests::{Ask, Phase, RequestKey};
use port::{
    Command, Conflict, Device, DeviceError, DeviceStats, Engine, Opening, Outcome, Payload, Shape,
};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use units::{ByteAddr, TxId};

/// The device of a machine; its requests take virtual time.
pub struct VirtualDevice<E>(Rc<RefCell<Shared<E>>>);

impl<E> VirtualDevice<E> {
    pub(crate) fn new(shared: Rc<RefCell<Shared<E>>>) -> Self {
        Self(shared)
    }
}

impl<E> Clone for VirtualDevice<E> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

/// A request of a [`VirtualDevice`].
pub struct Pending<'a, E: Engine> {
    shared: &'a RefCell<Shared<E>>,
    command: Command,
    at: ByteAddr,
    conflict: Conflict,
    payload: Payload<'a>,
    state: State,
}

/// How far a request is.
#[derive(Clone, Copy)]
enum State {
    /// It was not polled.
    New,
    Asked(RequestKey),
    /// Its outcome was taken.
    Over,
}

impl<E: Engine> Future for Pending<'_, E> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let pending = &mut *self;
        let mut shared = pending.shared.borrow_mut();
        let key = match pending.state {
            State::New => {
                let ask = Ask::Device {
                    command: pending.command,
                    range: (pending.at, pending.payload.size()),
                    conflict: pending.conflict,
                    bytes: pending.payload.bytes_out().into_owned(),
                };
                pending.state = State::Asked(shared.ask(ask, context.waker()));
                return Poll::Pending;
            }
            State::Asked(key) => key,
            State::Over => panic!("a request is polled after its end"),
        };
        let outcome = match &shared.requests.get(key).phase {
            Phase::Refused(error) => Some(Err(error.clone())),
            Phase::Submitted(ticket) => {
                let ticket = *ticket;
                shared.engine.take(ticket, pending.payload.bytes_in())
            }
            _ => None,
        };
        if let Some(outcome) = outcome {
            pending.state = State::Over;
            shared.requests.close(key);
            return Poll::Ready(outcome);
        }
        shared.requests.get(key).waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<E: Engine> Drop for Pending<'_, E> {
    fn drop(&mut self) {
        if let State::Asked(key) = self.state {
            self.shared.borrow_mut().abandon(key);
        }
    }
}

impl<E: Engine> Device for VirtualDevice<E> {
    type Pending<'a>
        = Pending<'a, E>
    where
        E: 'a;

    fn shape(&self) -> Shape {
        self.0.borrow().engine.shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Pending<'a, E> {
        Pending {
            shared: &self.0,
            command,
            at,
            conflict,
            payload,
            state: State::New,
        }
    }

    /// At once, in the order of calls, which polls that nobody needs may change:
    /// [`Device::begin`] opens in the order of tasks.
    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.0.borrow_mut().engine.begin(may_split)
    }

    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        let mut shared = self.0.borrow_mut();
        let Some(opening) = *asked else {
            let key = shared.ask(Ask::Open { may_split }, context.waker());
            *asked = Some(Opening(key.0));
            return Poll::Pending;
        };
        let key = RequestKey(opening.0);
        let request = shared.requests.get(key);
        let opened = match &request.phase {
            Phase::Opened(tx) => Ok(*tx),
            Phase::Refused(error) => Err(error.clone()),
            _ => {
                request.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
        };
        *asked = None;
        shared.requests.close(key);
        Poll::Ready(opened)
    }

    fn give_up_open(&self, asked: Opening) {
        self.0.borrow_mut().abandon(RequestKey(asked.0));
    }

    fn abandon(&self, tx: TxId) {
        self.0.borrow_mut().abandon_transaction(tx);
    }

    fn stats(&self) -> DeviceStats {
        self.0.borrow().engine.stats()
    }
}
