//! The device that tasks see.

use crate::machine::Shared;
use crate::requests::{Ask, Phase, RequestKey};
use port::{
    Acknowledge, Atomicity, Command, Completion, Conflict, Device, DeviceError, DeviceStats,
    Engine, Shape,
};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use units::{ByteAddr, Bytes, TxId};

/// The device of a machine; its requests take virtual time.
pub struct VirtualDevice<E>(Rc<RefCell<Shared<E>>>);

type Outcome = Result<(Completion, Atomicity), DeviceError>;

const NOWHERE: (ByteAddr, Bytes) = (ByteAddr::new(0), Bytes::ZERO);

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

/// A request whose future may be dropped.
struct Waiting<'a, E: Engine> {
    shared: &'a RefCell<Shared<E>>,
    key: Option<RequestKey>,
}

impl<E: Engine> Drop for Waiting<'_, E> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.shared.borrow_mut().abandon(key);
        }
    }
}

impl<E: Engine> VirtualDevice<E> {
    async fn run(
        &self,
        command: Command,
        range: (ByteAddr, Bytes),
        bytes: &[u8],
        into: &mut [u8],
    ) -> Outcome {
        let mut waiting = Waiting {
            shared: &self.0,
            key: None,
        };
        poll_fn(|context| {
            let mut shared = self.0.borrow_mut();
            let Some(key) = waiting.key else {
                let ask = Ask::Device {
                    command,
                    range,
                    conflict: Conflict::Wait,
                    bytes: bytes.to_vec(),
                };
                waiting.key = Some(shared.ask(ask, context.waker()));
                return Poll::Pending;
            };
            let request = shared.requests.get(key);
            let outcome = match &request.phase {
                Phase::Refused(error) => Some(Err(error.clone())),
                Phase::Submitted(ticket) => {
                    let ticket = *ticket;
                    shared.engine.take(ticket, into)
                }
                _ => None,
            };
            if let Some(outcome) = outcome {
                waiting.key = None;
                shared.requests.close(key);
                return Poll::Ready(outcome);
            }
            shared.requests.get(key).waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    async fn run_plain(
        &self,
        command: Command,
        range: (ByteAddr, Bytes),
    ) -> Result<Completion, DeviceError> {
        let outcome = self.run(command, range, &[], &mut []).await;
        outcome.map(|(completion, _)| completion)
    }

    async fn run_read(
        &self,
        command: Command,
        at: ByteAddr,
        into: &mut [u8],
    ) -> Result<Completion, DeviceError> {
        let range = (at, Bytes::new(into.len() as u64));
        let outcome = self.run(command, range, &[], into).await;
        outcome.map(|(completion, _)| completion)
    }

    async fn run_write(
        &self,
        command: Command,
        at: ByteAddr,
        bytes: &[u8],
    ) -> Result<Completion, DeviceError> {
        let range = (at, Bytes::new(bytes.len() as u64));
        let outcome = self.run(command, range, bytes, &mut []).await;
        outcome.map(|(completion, _)| completion)
    }
}

impl<E: Engine> Device for VirtualDevice<E> {
    fn shape(&self) -> Shape {
        self.0.borrow().engine.shape()
    }
    async fn read(&self, at: ByteAddr, into: &mut [u8]) -> Result<Completion, DeviceError> {
        self.run_read(Command::Read, at, into).await
    }
    async fn write(&self, at: ByteAddr, bytes: &[u8], tx: TxId) -> Result<Completion, DeviceError> {
        self.run_write(Command::Write(tx), at, bytes).await
    }
    async fn persist(&self) -> Result<Completion, DeviceError> {
        self.run_plain(Command::Persist, NOWHERE).await
    }
    async fn read_blocks(&self, at: ByteAddr, into: &mut [u8]) -> Result<Completion, DeviceError> {
        self.run_read(Command::ReadBlocks, at, into).await
    }
    async fn write_blocks(
        &self,
        at: ByteAddr,
        bytes: &[u8],
        when: Acknowledge,
    ) -> Result<Completion, DeviceError> {
        self.run_write(Command::WriteBlocks(when), at, bytes).await
    }
    async fn trim(&self, at: ByteAddr, size: Bytes) -> Result<Completion, DeviceError> {
        self.run_plain(Command::Trim, (at, size)).await
    }
    async fn flush(&self) -> Result<Completion, DeviceError> {
        self.run_plain(Command::Flush, NOWHERE).await
    }
    fn begin(&self) -> Result<TxId, DeviceError> {
        self.0.borrow_mut().engine.begin()
    }
    async fn commit(&self, tx: TxId) -> Outcome {
        self.run(Command::Commit(tx), NOWHERE, &[], &mut []).await
    }
    async fn abort(&self, tx: TxId) -> Outcome {
        self.run(Command::Abort(tx), NOWHERE, &[], &mut []).await
    }
    fn stats(&self) -> DeviceStats {
        self.0.borrow().engine.stats()
    }
}
