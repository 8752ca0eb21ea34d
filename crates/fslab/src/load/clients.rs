//! Group commit as a closed loop: clients of one server that writes what they ask for, syncs once
//! for all of them, and answers.
//!
//! The server is an event loop, as Valkey's with `appendfsync always`: it takes the requests that
//! have come, works through them, writes and syncs, and answers one client after another. The tool
//! is one thread for all clients, as redis-benchmark: it takes a time for each answer before its
//! client asks again. So how many requests share a sync follows from what a sync takes. Requests
//! that come while the server works are those of its next round.
//!
//! [`Loop`] has the times and knows no file system: whoever serves does the writes and syncs.

use super::error::LoadError;
use serde::Deserialize;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use units::{Picos, Time};

/// Clients of one server, and what its work takes.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// How many there are.
    pub count: u64,
    /// Requests that a client sends at once, and waits for the answers of.
    pub pipeline: u64,
    /// Requests of all of them together.
    pub requests: u64,
    /// Of a request in the server's log.
    pub bytes: u64,
    /// What the server takes for what one client has sent: to receive it.
    pub receive_ns: u64,
    /// For each request: to carry it out.
    pub request_ns: u64,
    /// To answer a client.
    pub answer_ns: u64,
    /// For a round, whatever is in it, until it writes.
    pub round_ns: u64,
    /// More for a round that it had to wait for: to wake up, it and the tool.
    pub wake_ns: u64,
    /// From the end of a write to its sync.
    pub sync_ns: u64,
    /// What the tool takes for a client's answers: to receive them and to send what is next.
    pub tool_ns: u64,
    /// More of the tool for each request.
    pub tool_request_ns: u64,
}

/// Clients, and requests that one of them sends at once.
const MOST: u64 = 1_000;
/// The most that each step may take.
const SECOND: u64 = 1_000_000_000;

impl Clients {
    /// From JSON, checked.
    ///
    /// # Errors
    /// It is not, or there would be nothing to do.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let found: Self = serde_json::from_str(text)
            .map_err(|error| LoadError::Setting(format!("clients: {error}")))?;
        for (what, value, most) in [
            ("count", found.count, MOST),
            ("pipeline", found.pipeline, MOST),
            ("requests", found.requests, 10_000_000),
            ("bytes", found.bytes, 1 << 20),
        ] {
            within(what, value, 1..=most)?;
        }
        for (what, value) in [
            ("receive_ns", found.receive_ns),
            ("request_ns", found.request_ns),
            ("answer_ns", found.answer_ns),
            ("round_ns", found.round_ns),
            ("wake_ns", found.wake_ns),
            ("sync_ns", found.sync_ns),
            ("tool_ns", found.tool_ns),
            ("tool_request_ns", found.tool_request_ns),
        ] {
            within(what, value, 0..=SECOND)?;
        }
        Ok(found)
    }
}

fn within(what: &str, value: u64, known: RangeInclusive<u64>) -> Result<(), LoadError> {
    match known.contains(&value) {
        true => Ok(()),
        false => Err(LoadError::Setting(format!(
            "clients: {what} is {value}; it must be {} to {}",
            known.start(),
            known.end()
        ))),
    }
}

/// Requests on their way, and a tool that answers come to.
pub(super) struct Loop {
    clients: Clients,
    /// Requests that are sent: when they are there, and how many, in the order of time.
    sent: VecDeque<(Time, u64)>,
    /// Requests that nobody has sent yet.
    left: u64,
    /// The tool works on what it has received until then.
    is_free_at: Time,
}

impl Loop {
    /// All clients send, one after another.
    pub fn new(clients: Clients, now: Time) -> Self {
        let mut found = Self {
            left: clients.requests,
            clients,
            sent: VecDeque::new(),
            is_free_at: now,
        };
        for _ in 0..found.clients.count {
            found.send(now);
        }
        found
    }

    /// A client that has its answers sends again, if there is something left.
    fn send(&mut self, answered: Time) {
        let count = self.clients.pipeline.min(self.left);
        let took = self.clients.tool_ns + self.clients.tool_request_ns * self.clients.pipeline;
        self.is_free_at = self.is_free_at.max(answered) + Picos::from_nanos(took);
        self.left -= count;
        if count > 0 {
            self.sent.push_back((self.is_free_at, count));
        }
    }

    /// When the server has something to do, if it looks now; none when everything is answered.
    pub fn begins(&self, now: Time) -> Option<Time> {
        let (first, _) = self.sent.front()?;
        let wake = Picos::from_nanos(self.clients.wake_ns);
        Some(if *first > now { *first + wake } else { now })
    }

    /// Takes what has come: the requests of each client, and what they take until they are
    /// written, but for the round itself.
    pub fn take(&mut self, now: Time) -> (Vec<u64>, Picos) {
        let come = self.sent.iter().take_while(|(at, _)| *at <= now).count();
        let taken: Vec<u64> = self.sent.drain(..come).map(|(_, count)| count).collect();
        let requests: u64 = taken.iter().sum();
        let took = self.clients.receive_ns * come as u64 + self.clients.request_ns * requests;
        (taken, Picos::from_nanos(took))
    }

    /// Answers those of a round, one after another; gives when the last one has its answers.
    pub fn answer(&mut self, clients: usize, now: Time) -> Time {
        let each = Picos::from_nanos(self.clients.answer_ns);
        let mut at = now;
        for _ in 0..clients {
            at += each;
            self.send(at);
        }
        at
    }
}

#[cfg(test)]
#[path = "clients_tests.rs"]
mod tests;
