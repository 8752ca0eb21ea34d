//! The client: a [`port::Device`] whose device is in another process.
//!
//! Futures submit when they are first polled and never block; [`Drive::turn`] looks at the ring of
//! answers and wakes who has one. Who has nothing else to do calls [`Client::wait`], which spins
//! for a while and then sleeps until the server rings.

mod connecting;
mod numbers;
mod space;
mod state;
mod transfer;

pub use connecting::{Connect, ConnectError};
pub use transfer::Transfer;

use crate::handshake;
use crate::layout::{Layout, MOST_REQUEST, Side};
use crate::region::Region;
use crate::ring::{announce_awake, announce_sleep};
use crate::statistics::{STATISTICS_BYTES, statistics_from_bytes};
use port::{
    Command, Conflict, Device, DeviceError, DeviceStats, Drive, Payload, PersistenceDomain, Shape,
    Turned,
};
use state::State;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use transfer::Verb;
use units::{ByteAddr, Bytes, Picos, TxId};

/// Longest that a sleeper does not look for himself.
const LONGEST: Duration = Duration::from_millis(100);
/// Not zero, which a fork finds.
const CONNECTED: u64 = 1;
/// Looks at the ring between two looks at the clock.
const LOOKS: u32 = 32;

/// A device of another process, for the threads and tasks of this one.
///
/// Only the process that connected may use it: in a fork of that process every call is
/// [`DeviceError::Forked`], for both would take each other's answers. When it is dropped, or its
/// process and the forks that have it die, the server ends what is under way and aborts the
/// transactions that it has open.
#[derive(Debug)]
pub struct Client {
    /// Its first word is [`CONNECTED`] in the process that connected.
    origin: Region,
    region: Region,
    layout: Layout,
    socket: UnixStream,
    /// Wakes the thread that sleeps at the socket when another has made room.
    wake: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
    spin: Duration,
}

impl Client {
    /// Waits for something: spins, then sleeps.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let value = self.wait_unless(future, || false);
        value.expect("nobody interrupts")
    }

    /// As [`Client::wait`], but asks some times a second, and after each signal, whether to give
    /// up. What was begun is then left to the server.
    pub fn wait_unless<T>(
        &self,
        future: impl Future<Output = T>,
        mut gives_up: impl FnMut() -> bool,
    ) -> Option<T> {
        let mut future = pin!(future);
        // What changes is seen in the count of changes: nobody is to be woken.
        let mut context = Context::from_waker(Waker::noop());
        let mut since = None;
        // In a fork the first poll is the last, and the lock may be another process'.
        let mut seen = match self.is_fork() {
            true => 0,
            false => self.state().changes,
        };
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return Some(value);
            }
            if self.spin_unless_changed(&mut seen) {
                continue;
            }
            if now().duration_since(*since.get_or_insert_with(now)) < self.spin {
                continue;
            }
            if gives_up() {
                return None;
            }
            self.sleep(seen);
            seen = self.state().changes;
            since = None;
        }
    }

    /// Looks at the ring for some time, or until something has changed since `seen`, which it
    /// brings up to date. Says whether something has.
    fn spin_unless_changed(&self, seen: &mut u64) -> bool {
        for _ in 0..LOOKS {
            let mut state = self.state();
            let before = state.changes;
            state.look(&self.region, &self.socket);
            let changes = state.changes;
            self.tell(state, before);
            if changes != *seen {
                *seen = changes;
                return true;
            }
            core::hint::spin_loop();
        }
        false
    }

    /// Sleeps until something has changed since `seen`, or for a while.
    fn sleep(&self, seen: u64) {
        let mut state = self.state();
        if state.changes != seen {
            return;
        }
        if state.has_sleeper {
            state.waiters += 1;
            let waited = self.changed.wait_timeout(state, LONGEST);
            waited.unwrap_or_else(PoisonError::into_inner).0.waiters -= 1;
            return;
        }
        announce_sleep(&self.region, Side::Client);
        if !state.collect(&self.region) {
            state.has_sleeper = true;
            drop(state);
            handshake::sleep(&self.socket, &self.wake, LONGEST);
            state = self.state();
            state.has_sleeper = false;
            state.hear(&self.region, &self.socket);
        }
        announce_awake(&self.region, Side::Client);
        state.collect(&self.region);
        // One of those who wait sleeps at the socket next.
        self.changed.notify_all();
        self.wake(state);
    }

    /// Tells others what has changed, if they wait.
    fn tell(&self, state: MutexGuard<'_, State>, before: u64) {
        if state.changes == before {
            return;
        }
        if state.waiters > 0 {
            self.changed.notify_all();
        }
        if state.has_sleeper && state.has_queue() {
            handshake::wake(&self.wake);
        }
        self.wake(state);
    }

    /// Wakes who is to be woken, with the lock released: he may ask the device.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let mut next = state.next_to_wake();
        drop(state);
        while let Some(waker) = next {
            waker.wake();
            next = self.state().next_to_wake();
        }
    }

    /// Whether this process is a fork of the one that connected. To be asked before the lock is
    /// taken: another thread of that process may have had it at the moment of the fork.
    fn is_fork(&self) -> bool {
        self.origin.word(0).load(Ordering::Relaxed) != CONNECTED
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, at: ByteAddr, size: Bytes, is_blocks: bool) -> Result<(), DeviceError> {
        let Shape {
            capacity, block, ..
        } = self.layout.shape();
        let end = at.checked_add(size);
        if end.is_none_or(|end| end.get() > capacity.get()) {
            return Err(DeviceError::OutOfRange { at, size, capacity });
        }
        let is_whole = |bytes: u64| bytes.is_multiple_of(block.get());
        if is_blocks && !(is_whole(at.get()) && is_whole(size.get())) {
            return Err(DeviceError::NotBlocks { at, size, block });
        }
        Ok(())
    }
}

/// The wall clock: how long to spin. Nothing that the device does depends on it.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

impl Drive for Client {
    /// Looks at the ring of answers. When the server answers is known to nobody: with a request
    /// under way the client is early, by zero.
    fn turn(&self) -> Turned {
        if self.is_fork() {
            return Turned::Idle;
        }
        let mut state = self.state();
        let before = state.changes;
        let has_changed = state.look(&self.region, &self.socket);
        let is_busy = state.is_busy() || state.has_queue();
        self.tell(state, before);
        match (has_changed, is_busy) {
            (true, _) => Turned::Moved,
            (false, true) => Turned::Early(Picos::ZERO),
            (false, false) => Turned::Idle,
        }
    }
}

impl Device for Client {
    type Pending<'a> = Transfer<'a>;
    const ANSWERS_ARE_FETCHED: bool = true;

    fn shape(&self) -> Shape {
        self.layout.shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Transfer<'a> {
        let size = payload.size();
        let is_large = command.is_block() && command != Command::Trim;
        let step = match is_large {
            true => self.layout.most_blocks(),
            false => MOST_REQUEST,
        };
        let checked = match command {
            Command::Reserve(_) => Ok(()),
            _ => self.check(at, size, command.is_block()),
        };
        let verb = Verb::of(command, at, size);
        Transfer::new(self, (verb, conflict), payload, step, checked)
    }

    /// Numbers are the connection's own: the server hears of the transaction when it writes or
    /// reserves, and may say then that all clients together have too many.
    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        if self.is_fork() {
            return Err(DeviceError::Forked);
        }
        let shape = self.shape();
        let Some(limits) = shape.transactions else {
            let has_log = shape.byte_domain == PersistenceDomain::Device;
            return Err(DeviceError::NoTransactions { has_log });
        };
        let mut state = self.state();
        match state.gone() {
            Some(error) => Err(error),
            None => state.numbers.open(may_split, limits),
        }
    }

    fn abandon(&self, tx: TxId) {
        if !self.is_fork() {
            let mut state = self.state();
            state.abandon_transaction(tx, &self.region, &self.socket);
        }
    }

    /// Waits for the server; nothing but zeroes if that has gone ([`Client::statistics`] says so).
    fn stats(&self) -> DeviceStats {
        self.statistics().unwrap_or_default()
    }
}

impl Client {
    /// What the device has done since it was made.
    ///
    /// # Errors
    /// The server has gone.
    pub fn statistics(&self) -> Result<DeviceStats, DeviceError> {
        let mut bytes = [0; STATISTICS_BYTES];
        let payload = Payload::In(&mut bytes);
        let what = (Verb::Statistics, Conflict::Wait);
        self.wait(Transfer::new(self, what, payload, MOST_REQUEST, Ok(())))?;
        Ok(statistics_from_bytes(&bytes))
    }
}
