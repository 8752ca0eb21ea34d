//! A device that notes what it is asked, takes its time and fails when told.

use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Poll, Waker};
use device::Ram;
use port::{
    Command, Conflict, Device, DeviceError, DeviceStats, Drive, Outcome, Payload, Shape, Turned,
};
use units::{ByteAddr, Bytes, TxId};

pub const BLOCK: u64 = 4096;
pub const SIZE: Bytes = Bytes::from_mib(64);
/// A block that is lost, one at which the device stops, and one at which it is found worn out.
pub const LOST: u64 = 100 * BLOCK;
pub const FATAL: u64 = 101 * BLOCK;
pub const WORN: u64 = 102 * BLOCK;

/// How the device behaves.
#[derive(Clone, Copy, Default)]
pub struct Manner {
    /// Turns of the device until a read is done.
    pub read_turns: u32,
    /// Turns until a write is done.
    pub write_turns: u32,
}

pub struct Probe {
    ram: Ram,
    manner: Manner,
    log: RefCell<Vec<String>>,
    under_way: Cell<u32>,
    most_under_way: Cell<u32>,
    is_stopped: Cell<bool>,
    /// Turns so far.
    turns: Cell<u32>,
    /// Who waits, and until which turn.
    waiting: RefCell<Vec<(u32, Waker)>>,
}

impl Probe {
    pub fn new(manner: Manner) -> Self {
        Self {
            ram: Ram::new(SIZE, Bytes::new(BLOCK)),
            manner,
            log: RefCell::default(),
            under_way: Cell::new(0),
            most_under_way: Cell::new(0),
            is_stopped: Cell::new(false),
            turns: Cell::new(0),
            waiting: RefCell::default(),
        }
    }

    /// What it was asked, and how many requests it had at a time.
    pub fn told(&self) -> (Vec<String>, u32) {
        (self.log.take(), self.most_under_way.get())
    }

    async fn enter(&self, at: ByteAddr, note: String, turns: u32) -> Result<(), DeviceError> {
        self.log.borrow_mut().push(note);
        self.under_way.set(self.under_way.get() + 1);
        let most = self.most_under_way.get().max(self.under_way.get());
        self.most_under_way.set(most);
        let due = self.turns.get() + turns;
        poll_fn(|context| {
            if self.turns.get() >= due {
                return Poll::Ready(());
            }
            let waiter = (due, context.waker().clone());
            self.waiting.borrow_mut().push(waiter);
            Poll::Pending
        })
        .await;
        self.under_way.set(self.under_way.get() - 1);
        self.is_stopped
            .set(self.is_stopped.get() || at.get() == FATAL);
        if self.is_stopped.get() {
            let reason = "told to".to_string();
            return Err(DeviceError::Stopped { reason });
        }
        if at.get() == WORN {
            return Err(DeviceError::ReadOnly);
        }
        if at.get() == LOST {
            return Err(DeviceError::Lost { at });
        }
        Ok(())
    }
}

impl Drive for Probe {
    fn turn(&self) -> Turned {
        if self.waiting.borrow().is_empty() {
            return Turned::Idle;
        }
        let now = self.turns.get() + 1;
        self.turns.set(now);
        let mut waiting = self.waiting.borrow_mut();
        let due: Vec<_> = waiting.extract_if(.., |(due, _)| *due <= now).collect();
        drop(waiting);
        due.into_iter().for_each(|(_, waker)| waker.wake());
        Turned::Moved
    }
}

impl Device for Probe {
    type Pending<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

    fn shape(&self) -> Shape {
        self.ram.shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Self::Pending<'a> {
        let size = payload.size().get();
        let (read, write) = (self.manner.read_turns, self.manner.write_turns);
        let entry = match command {
            Command::ReadBlocks => Some((at, format!("read {at}+{size}"), read)),
            Command::WriteBlocks(when) => Some((at, format!("write {at}+{size} {when:?}"), write)),
            Command::Trim => Some((at, format!("trim {at}+{size}"), write)),
            Command::Flush => Some((ByteAddr::new(1), "flush".to_string(), write)),
            _ => None,
        };
        Box::pin(async move {
            if let Some((at, note, turns)) = entry {
                self.enter(at, note, turns).await?;
            }
            self.ram.request(command, at, payload, conflict).await
        })
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.ram.open(may_split)
    }

    fn abandon(&self, tx: TxId) {
        self.ram.abandon(tx);
    }

    fn stats(&self) -> DeviceStats {
        self.ram.stats()
    }
}
