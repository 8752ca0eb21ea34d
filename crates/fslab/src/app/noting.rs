//! A device that notes what it is asked and when it answers.

use super::notes::Notes;
use crate::crash::RequestNo;
use port::{
    Atomicity, Command, Conflict, Device, DeviceError, DeviceStats, Drive, Opening, Outcome,
    Payload, Shape, Turned,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use units::{ByteAddr, Bytes, TxId};

/// A device, and what is noted of it.
///
/// A request is noted before the device has it, and its answer before who asked has it: so what
/// somebody did who knew of an answer comes behind it in the notes.
pub struct Noting<D> {
    device: D,
    notes: Arc<Notes>,
}

impl<D> Noting<D> {
    /// Notes what `device` is asked.
    pub fn new(device: D, notes: Arc<Notes>) -> Self {
        Self { device, notes }
    }
}

/// A request of a [`Noting`].
pub struct NotedRequest<'a, P> {
    request: P,
    notes: &'a Notes,
    state: State,
}

enum State {
    /// It was not polled.
    New(Command, ByteAddr, Bytes, Box<[u8]>),
    /// The device has it; reads have no number.
    Asked(Option<RequestNo>),
}

impl<P: Future<Output = Outcome> + Unpin> Future for NotedRequest<'_, P> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let Self {
            request,
            notes,
            state,
        } = &mut *self;
        let known = match std::mem::replace(state, State::Asked(None)) {
            State::New(command, at, size, bytes) => {
                // Noted and submitted in one order: requests that overlap are served in it.
                let mut book = notes.book();
                let number = notes.note(&mut book, |book| {
                    book.journal().submit(command, (at, size), &bytes)
                });
                *state = State::Asked(number);
                let polled = Pin::new(&mut *request).poll(context);
                drop(book);
                match polled {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(outcome) => (number, outcome),
                }
            }
            State::Asked(number) => match Pin::new(&mut *request).poll(context) {
                Poll::Pending => {
                    *state = State::Asked(number);
                    return Poll::Pending;
                }
                Poll::Ready(outcome) => (number, outcome),
            },
        };
        let (Some(number), outcome) = known else {
            return Poll::Ready(known.1);
        };
        let mut book = notes.book();
        notes.note(&mut book, |book| {
            book.journal().finish(number, outcome.is_ok());
        });
        if let Ok((_, Atomicity::Parts { .. })) = &outcome {
            book.journal().splits += 1;
        }
        Poll::Ready(outcome)
    }
}

impl<D: Device> Device for Noting<D> {
    type Pending<'a>
        = NotedRequest<'a, D::Pending<'a>>
    where
        Self: 'a;

    fn shape(&self) -> Shape {
        self.device.shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Self::Pending<'a> {
        let bytes = payload.bytes_out().into_owned().into();
        let state = State::New(command, at, payload.size(), bytes);
        NotedRequest {
            request: self.device.request(command, at, payload, conflict),
            notes: &self.notes,
            state,
        }
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.device.open(may_split)
    }

    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        self.device.poll_open(may_split, asked, context)
    }

    fn give_up_open(&self, asked: Opening) {
        self.device.give_up_open(asked);
    }

    fn abandon(&self, tx: TxId) {
        let mut book = self.notes.book();
        self.notes.note(&mut book, |book| book.abort(tx));
        self.device.abandon(tx);
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}

impl<D: Drive> Drive for Noting<D> {
    fn turn(&self) -> Turned {
        self.device.turn()
    }
}
