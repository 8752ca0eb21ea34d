//! A server of several clients in a recording of one: rounds of the [loop](super::clients) instead
//! of what lies between two names.
//!
//! What was recorded says to which file the server writes, and from where on. All requests of a
//! round are one write and one sync.

use super::clients::{Clients, Loop};
use super::error::LoadError;
use super::part::{Playing, looked_up};
use super::replay::{OfRun, Player};
use super::result::Part;
use crate::recording::{Entry, Op};
use port::Clock;
use std::cell::Cell;
use units::{Picos, Time};

/// What is played between the names.
pub(super) struct Served {
    clients: Clients,
    /// The number of the operation that begins it; the one behind it ends it.
    pub begin: usize,
    thread: u32,
    ino: u32,
    at: u64,
    is_over: Cell<bool>,
    /// From the begin of the first write to the end of the last sync.
    span: Cell<Option<(Time, Time)>>,
    syncs: Cell<u64>,
    synced: Cell<Picos>,
}

impl Served {
    /// Takes what lies between the names out of a recording, if clients are played instead.
    ///
    /// # Errors
    /// There are no such names, or nothing is written between them.
    pub fn of(playing: &Playing, entries: &mut Vec<Entry>) -> Result<Option<Self>, LoadError> {
        let Some(clients) = playing.clients.clone() else {
            return Ok(None);
        };
        let wrong = |what: &str| {
            Err(LoadError::Setting(format!(
                "clients are played between two names, {what}; name them, in their order"
            )))
        };
        let Some((from, to)) = &playing.between else {
            return wrong("of which there are none");
        };
        let (begin, end) = (looked_up(entries, from)?, looked_up(entries, to)?);
        if end <= begin {
            return wrong("and these are the wrong way round");
        }
        let writes = entries[begin..end].iter().find_map(|entry| match entry.op {
            Op::Write { ino, at, .. } => Some((entry.thread, ino, at)),
            _ => None,
        });
        let Some((thread, ino, at)) = writes else {
            return wrong("and nothing is written between these");
        };
        entries.drain(begin + 1..end);
        Ok(Some(Self {
            clients,
            begin,
            thread,
            ino,
            at,
            is_over: Cell::new(false),
            span: Cell::new(None),
            syncs: Cell::new(0),
            synced: Cell::new(Picos::ZERO),
        }))
    }

    /// Whether an operation of the recording may be played now: up to the first name, or when all
    /// requests are answered.
    pub fn is_next(&self, number: usize) -> bool {
        number <= self.begin || self.is_over.get()
    }

    /// Serves all requests.
    pub async fn all(&self, player: &Player, stage: &OfRun) -> Result<(), LoadError> {
        let clock = &stage.clock;
        let pause = |nanos: u64| player.playing.pause(nanos);
        let mut of = Loop::new(self.clients.clone(), clock.now());
        let mut at = self.at;
        while let Some(begin) = of.begins(clock.now()) {
            clock.sleep_until(begin).await;
            let (taken, took) = of.take(begin);
            clock
                .sleep_until(begin + took + pause(self.clients.round_ns))
                .await;
            let begun = clock.now();
            let size = taken.iter().sum::<u64>() * self.clients.bytes;
            player
                .operation(stage, self.begin, &self.write(at, size))
                .await?;
            at += size;
            clock
                .sleep_until(clock.now() + pause(self.clients.sync_ns))
                .await;
            let syncing = clock.now();
            player.operation(stage, self.begin, &self.sync()).await?;
            self.note(begun, clock.now(), clock.now() - syncing);
            clock.sleep_until(of.answer(taken.len(), clock.now())).await;
        }
        self.is_over.set(true);
        Ok(())
    }

    fn note(&self, begun: Time, ended: Time, synced: Picos) {
        let first = self.span.get().map_or(begun, |(first, _)| first);
        self.span.set(Some((first, ended)));
        self.syncs.set(self.syncs.get() + 1);
        self.synced.set(self.synced.get() + synced);
    }

    fn write(&self, at: u64, size: u64) -> Entry {
        let lines = (at + size).div_ceil(64) - at / 64;
        self.entry(Op::Write {
            ino: self.ino,
            at,
            size: size as usize,
            direct: false,
            sync: false,
            sums: "00000001".repeat(lines as usize),
        })
    }

    fn sync(&self) -> Entry {
        self.entry(Op::Fsync {
            ino: self.ino,
            data_only: true,
        })
    }

    fn entry(&self, op: Op) -> Entry {
        Entry {
            thread: self.thread,
            begin_ns: 0,
            end_ns: 0,
            op,
            found: None,
            error: None,
        }
    }

    /// What it took, as of a part that was recorded.
    pub fn part(&self) -> Part {
        let (begin, end) = self.span.get().unwrap_or((Time::ZERO, Time::ZERO));
        let syncs = self.syncs.get();
        Part {
            threads: 1,
            operations: 2 * syncs,
            virtual_time_ps: (end - begin).get(),
            recorded_time_ps: 0,
            syncs,
            sync_mean_ps: self.synced.get().get().checked_div(syncs).unwrap_or(0),
        }
    }
}
