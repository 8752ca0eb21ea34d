//! Room that transactions reserve when they begin (D25).
//!
//! A reservation is a command to the device, which keeps room for so many open lines. Reservations
//! are served in the order in which they were submitted: the first one asks, and asks again when a
//! transaction has ended; the others wait behind it. A transaction without one that has written
//! nothing waits behind all of them, so that no stream of small ones keeps a large one away. One
//! that has written goes on: it holds room, and must be able to end.

use super::Engine;
use super::command::State;
use super::event::{Event, Word};
use crate::bytes::DataPlane;
use crate::lockstep::Lockstep;
use firmware::Refusal;
use port::{Command, Conflict, DeviceError};
use std::collections::VecDeque;
use units::{Bytes, Time, TxId};

/// Reservations that are not granted.
#[derive(Clone, Debug, Default)]
pub struct Reservations {
    /// Their commands, in the order of submission.
    queue: VecDeque<u32>,
    /// The first one is on its way to the device.
    is_asking: bool,
}

impl Reservations {
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether an answer to one is to come.
    pub fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// The device has stopped.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl<B: DataPlane, W: Lockstep> Engine<B, W> {
    /// Why a reservation cannot be made, whatever there is room for.
    pub(super) fn check_reservation(&self, tx: TxId, size: Bytes) -> Result<(), DeviceError> {
        let open = self.transactions.get(tx)?;
        if open.is_known || open.writes > 0 {
            return Err(DeviceError::LateReservation { tx });
        }
        let most = self.soc.controller.most_open_lines();
        match size.get().div_ceil(super::command::LINE) <= most.into() {
            true => Ok(()),
            false => Err(DeviceError::TooLarge { most }),
        }
    }

    /// A reservation begins: behind those that wait.
    pub(super) fn reserve(&mut self, now: Time, index: u32) {
        let running = &mut self.commands[index as usize];
        if running.first == running.end {
            // Room for nothing.
            return self.conclude(now, index);
        }
        if running.conflict == Conflict::Refuse && !self.reservations.is_empty() {
            running.error = Some(Box::new(DeviceError::LogFull));
            return self.conclude(now, index);
        }
        running.state = State::Reserving;
        self.reservations.queue.push_back(index);
        self.ask_for_room(now);
    }

    /// Has the first reservation ask the device, unless it does.
    pub(super) fn ask_for_room(&mut self, now: Time) {
        if let Some(first) = self.reservations.queue.front()
            && !self.reservations.is_asking
        {
            self.reservations.is_asking = true;
            let arrives = self.link.command(now, Bytes::ZERO);
            let event = Event::Resume(*first);
            self.host.queue.push(arrives, Word::of(event));
        }
    }

    /// The first reservation has reached the device.
    pub(super) fn on_reservation(&mut self, now: Time, index: u32, tx: TxId) {
        self.reservations.is_asking = false;
        match self.room_for(index, tx) {
            Ok(lines) => {
                let open = self.transactions.get_mut(tx);
                (open.reserved, open.is_known) = (lines, true);
            }
            Err(DeviceError::LogFull) if self.may_wait(index) => return self.relieve(now),
            Err(error) => self.commands[index as usize].error = Some(Box::new(error)),
        }
        self.reservations.queue.pop_front();
        let known = self.link.commanded(now, Bytes::ZERO);
        self.end_reservation(known, now, index);
        self.next_reservation(now);
    }

    /// Room for the lines of a reservation; says how many these are.
    fn room_for(&mut self, index: u32, tx: TxId) -> Result<u32, DeviceError> {
        let running = &self.commands[index as usize];
        let lines = u32::try_from(running.end - running.first).expect("it was checked");
        loop {
            if self.transactions.get(tx).is_err() {
                // Its abort came meanwhile.
                return Err(DeviceError::UnknownTransaction { tx });
            }
            let name = self.transactions.name(tx);
            return match self.soc.controller.reserve(name, lines) {
                Ok(()) => Ok(lines),
                Err(Refusal::NameInUse) => {
                    self.transactions.rename(tx);
                    continue;
                }
                Err(Refusal::NoRoom) => Err(DeviceError::LogFull),
                Err(refusal) => {
                    panic!("a reservation is refused with {refusal:?}, which cannot be")
                }
            };
        }
    }

    fn end_reservation(&mut self, known: Time, now: Time, index: u32) {
        let running = &mut self.commands[index as usize];
        running.state = State::UnderWay;
        running.finished = known;
        self.conclude(now, index);
    }

    /// The next reservation asks; if there is none, those that waited behind them go on.
    fn next_reservation(&mut self, now: Time) {
        match self.reservations.is_empty() {
            true => self.wake(now, |state| state == State::Room),
            false => self.ask_for_room(now),
        }
    }

    /// The reservation of a transaction that is aborted is given up, unless it is on its way.
    pub(super) fn give_up_reservation(&mut self, now: Time, tx: TxId) {
        let command = Command::Reserve(tx);
        let mut queue = self.reservations.queue.iter();
        let place = queue.position(|index| self.commands[*index as usize].command == command);
        let is_on_its_way = place == Some(0) && self.reservations.is_asking;
        let Some(place) = place.filter(|_| !is_on_its_way) else {
            return;
        };
        let index = self.reservations.queue.remove(place);
        let index = index.expect("it was found there");
        let error = DeviceError::UnknownTransaction { tx };
        self.commands[index as usize].error = Some(Box::new(error));
        self.end_reservation(now, now, index);
        self.next_reservation(now);
    }
}
