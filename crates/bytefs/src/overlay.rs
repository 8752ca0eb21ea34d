//! A device whose writes stay in the host's memory, for a mount that may write nothing: what a
//! power cut has left is recovered all the same.

use crate::layout::LINE;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use port::{
    Atomicity, Command, Completion, Conflict, Device, DeviceError, DeviceStats, Drive, Opening,
    Outcome, Payload, Shape, Turned,
};
use rustc_hash::FxHashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::{ByteAddr, TxId};

/// A device that passes everything on, or one that keeps what is written: reads find it there, and
/// the device below hears of reads alone. What is kept goes with the overlay.
///
/// It is for one task at a time: a write of a line that an open transaction has written is refused
/// and does not wait.
pub struct Overlay<D> {
    below: D,
    kept: Option<Kept>,
}

/// What was written.
#[derive(Default)]
struct Kept {
    /// Something was.
    is_begun: AtomicBool,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    lines: FxHashMap<u64, KeptLine>,
    /// The lines that open transactions have written, as they were.
    open: FxHashMap<TxId, FxHashMap<u64, Option<KeptLine>>>,
    transactions: u32,
}

/// The bytes of a line that were written, and which these are.
#[derive(Clone, Copy)]
struct KeptLine {
    bytes: [u8; LINE],
    is_written: u64,
}

impl KeptLine {
    const NOTHING: Self = Self {
        bytes: [0; LINE],
        is_written: 0,
    };

    /// The bytes of `range` are these.
    fn write(&mut self, first: usize, bytes: &[u8]) {
        self.bytes[first..first + bytes.len()].copy_from_slice(bytes);
        for byte in first..first + bytes.len() {
            self.is_written |= 1 << byte;
        }
    }
}

/// The parts of a range that lie within a line each: the line's number, the place in it, and the
/// part's in the range.
fn parts(at: ByteAddr, len: usize) -> impl Iterator<Item = (u64, usize, core::ops::Range<usize>)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        let next = at.get() + done as u64;
        let within = (next % LINE as u64) as usize;
        let part = (LINE - within).min(len - done);
        let range = done..done + part;
        done += part;
        (part > 0).then_some((next / LINE as u64, within, range))
    })
}

impl Kept {
    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays what was written over what the device below has.
    fn lay_over(&self, at: ByteAddr, bytes: &mut [u8]) {
        let written = self.written();
        for (line, within, range) in parts(at, bytes.len()) {
            let Some(kept) = written.lines.get(&line) else {
                continue;
            };
            for (place, byte) in (within..).zip(&mut bytes[range]) {
                if kept.is_written >> place & 1 == 1 {
                    *byte = kept.bytes[place];
                }
            }
        }
    }

    fn write(&self, at: ByteAddr, bytes: &[u8], tx: TxId) -> Result<(), DeviceError> {
        self.is_begun.store(true, Ordering::Release);
        let mut written = self.written();
        if tx != TxId::NONE && !written.open.contains_key(&tx) {
            return Err(DeviceError::UnknownTransaction { tx });
        }
        let is_foreign = |line: u64| {
            let mut others = written.open.iter().filter(|(other, _)| **other != tx);
            others.any(|(_, lines)| lines.contains_key(&line))
        };
        if let Some((line, ..)) = parts(at, bytes.len()).find(|(line, ..)| is_foreign(*line)) {
            let at = ByteAddr::new(line * LINE as u64);
            return Err(DeviceError::Locked { at });
        }
        let Written { lines, open, .. } = &mut *written;
        let mut before = open.get_mut(&tx);
        for (line, within, range) in parts(at, bytes.len()) {
            if let Some(before) = &mut before {
                let old = lines.get(&line).copied();
                before.entry(line).or_insert(old);
            }
            let kept = lines.entry(line).or_insert(KeptLine::NOTHING);
            kept.write(within, &bytes[range]);
        }
        Ok(())
    }

    fn open(&self) -> TxId {
        let mut written = self.written();
        written.transactions += 1;
        let tx = TxId::new(written.transactions);
        written.open.insert(tx, FxHashMap::default());
        tx
    }

    fn end(&self, tx: TxId, is_taken_back: bool) -> Result<(), DeviceError> {
        let mut written = self.written();
        let before = written.open.remove(&tx);
        let before = before.ok_or(DeviceError::UnknownTransaction { tx })?;
        if is_taken_back {
            for (line, old) in before {
                match old {
                    Some(old) => written.lines.insert(line, old),
                    None => written.lines.remove(&line),
                };
            }
        }
        Ok(())
    }
}

impl<D: Device> Overlay<D> {
    /// Passes everything on.
    pub fn passing(below: D) -> Self {
        Self { below, kept: None }
    }

    /// Keeps what is written.
    pub fn keeping(below: D) -> Self {
        Self {
            below,
            kept: Some(Kept::default()),
        }
    }

    /// The device below.
    pub const fn below(&self) -> &D {
        &self.below
    }

    /// Gives the device below back; what was kept is forgotten.
    pub fn into_below(self) -> D {
        self.below
    }

    /// What comes of a request that the device below is not to hear of.
    fn done(&self, kept: &Kept, command: Command, at: ByteAddr, payload: &Payload<'_>) -> Outcome {
        let shape = self.below.shape();
        let (size, capacity) = (payload.size(), shape.capacity + shape.pmem);
        let end = at.get().checked_add(size.get());
        if command.is_write() && end.is_none_or(|end| end > capacity.get()) {
            return Err(DeviceError::OutOfRange { at, size, capacity });
        }
        match command {
            Command::Trim => kept.write(at, &vec![0; size.get() as usize], TxId::NONE)?,
            Command::Write(tx) => kept.write(at, &payload.bytes_out(), tx)?,
            Command::WriteLines | Command::WriteBlocks(_) => {
                kept.write(at, &payload.bytes_out(), TxId::NONE)?;
            }
            Command::Commit(tx) => kept.end(tx, false)?,
            Command::Abort(tx) => kept.end(tx, true)?,
            _ => {}
        }
        let now = self.below.stats().clock;
        let completion = Completion {
            submitted: now,
            finished: now,
        };
        Ok((completion, Atomicity::Whole))
    }
}

/// A request of an [`Overlay`].
pub enum Pending<'a, D: Device + 'a> {
    /// The device below has it.
    Below(D::Pending<'a>),
    /// It reads what the device below has, and then what is kept.
    Over(Pin<Box<dyn Future<Output = Outcome> + 'a>>),
    /// It is done, and was not polled since.
    Done(Option<Outcome>),
}

impl<'a, D: Device + 'a> Future for Pending<'a, D> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        match &mut *self {
            Self::Below(pending) => Pin::new(pending).poll(context),
            Self::Over(pending) => pending.as_mut().poll(context),
            Self::Done(outcome) => Poll::Ready(outcome.take().expect("it is polled once")),
        }
    }
}

impl<D: Device> Device for Overlay<D> {
    const ANSWERS_ARE_FETCHED: bool = D::ANSWERS_ARE_FETCHED;

    type Pending<'a>
        = Pending<'a, D>
    where
        Self: 'a;

    fn shape(&self) -> Shape {
        self.below.shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Pending<'a, D> {
        let Some(kept) = &self.kept else {
            return Pending::Below(self.below.request(command, at, payload, conflict));
        };
        match payload {
            Payload::In(into) if kept.is_begun.load(Ordering::Acquire) => {
                Pending::Over(Box::pin(async move {
                    let reading = Payload::In(&mut *into);
                    let done = self.below.request(command, at, reading, conflict).await?;
                    kept.lay_over(at, into);
                    Ok(done)
                }))
            }
            Payload::In(_) => Pending::Below(self.below.request(command, at, payload, conflict)),
            _ => Pending::Done(Some(self.done(kept, command, at, &payload))),
        }
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        match &self.kept {
            Some(kept) if self.below.shape().transactions.is_some() => Ok(kept.open()),
            _ => self.below.open(may_split),
        }
    }

    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        match self.kept {
            Some(_) => Poll::Ready(self.open(may_split)),
            None => self.below.poll_open(may_split, asked, context),
        }
    }

    fn give_up_open(&self, asked: Opening) {
        self.below.give_up_open(asked);
    }

    fn abandon(&self, tx: TxId) {
        match &self.kept {
            // One that has ended already has nothing to be taken back.
            Some(kept) => drop(kept.end(tx, true)),
            None => self.below.abandon(tx),
        }
    }

    fn stats(&self) -> DeviceStats {
        self.below.stats()
    }
}

impl<D: Drive> Drive for Overlay<D> {
    fn turn(&self) -> Turned {
        self.below.turn()
    }
}
