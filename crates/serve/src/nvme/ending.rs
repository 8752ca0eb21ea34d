//! What ends: transactions, queues, controllers, and connections with them.

use super::connection::Connection;
use super::io::Operation;
use super::perform::{Answer, Done};
use super::server::{Hosts, Place};
use super::status::Status;
use port::{Device, DeviceError};
use std::time::Instant;
use units::TxId;

/// Aborts what is open.
pub(super) fn abandon(transactions: &mut Vec<TxId>, device: &impl Device) {
    transactions.drain(..).for_each(|tx| device.abandon(tx));
}

impl Hosts {
    /// Which transactions are open, after a command that opens or closes one.
    pub(super) fn transaction_of(&mut self, done: &mut Done, device: &impl Device) {
        match (&done.operation, &done.outcome) {
            // Nobody can end it: the server stops, or its host has gone meanwhile.
            (_, Ok(Answer::Begun(tx))) if self.is_stopping => device.abandon(*tx),
            (_, Ok(Answer::Begun(tx))) => {
                let (tx, most) = (*tx, self.limits.transactions);
                match self.controller(done.connection) {
                    Some(controller) if controller.transactions.len() < most => {
                        controller.transactions.push(tx);
                    }
                    controller => {
                        let open = controller.map_or(0, |it| it.transactions.len() as u32);
                        let error = DeviceError::TooManyTransactions { open };
                        done.outcome = Err((Status::TRANSACTIONS, error));
                        device.abandon(tx);
                    }
                }
            }
            // One that fails to commit is aborted.
            (Operation::Commit(tx) | Operation::Abort(tx), _) => {
                match self.controller(done.connection) {
                    Some(controller) => controller.transactions.retain(|open| open != tx),
                    // Its queue has gone meanwhile, and nobody knows any more whose it was.
                    None => {
                        for controller in self.controllers.iter_mut().flatten() {
                            controller.transactions.retain(|open| open != tx);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// The connections of the I/O queues of an admin queue's controller.
    pub(super) fn queues_of(&self, admin: usize) -> Vec<usize> {
        let queue = |place: &Option<Place>| {
            let queue = place.as_ref()?.connection.queue.as_ref()?;
            Some((queue.controller, queue.id))
        };
        let own = queue(&self.connections[admin]).map(|(controller, _)| controller);
        let is_own = |place: &Option<Place>| {
            queue(place).is_some_and(|(controller, id)| id != 0 && Some(controller) == own)
        };
        let numbered = self.connections.iter().enumerate();
        let own = numbered.filter(|(_, place)| is_own(place));
        own.map(|(number, _)| number).collect()
    }

    /// A controller is off: it has no I/O queues any more, and no transactions.
    pub(super) fn delete_queues(&mut self, admin: usize, device: &impl Device) {
        for queue in self.queues_of(admin) {
            if let Some(connection) = self.connection(queue) {
                connection.queue = None;
                connection.give_up();
            }
        }
        if let Some(controller) = self.controller(admin) {
            abandon(&mut controller.transactions, device);
        }
    }

    /// Hosts that were silent for longer than they said have gone.
    pub(super) fn end_late_controllers(&mut self, time: Instant) {
        for place in 0..self.controllers.len() {
            let controller = self.controllers[place].as_ref();
            let late = controller.filter(|controller| controller.is_late(time));
            let admin = late.map(|controller| controller.admin);
            if let Some(connection) = admin.and_then(|admin| self.connection(admin)) {
                connection.give_up();
            }
        }
    }

    /// A connection ends: with that of its admin queue, a controller does, and all its queues.
    pub(super) fn part(&mut self, number: usize, device: &impl Device) {
        let queue = |connection: &Connection| {
            let queue = connection.queue.as_ref()?;
            Some((queue.controller, queue.id))
        };
        let queue = self.connection(number).and_then(|it| queue(it));
        if let Some((controller, 0)) = queue {
            self.delete_queues(number, device);
            self.controllers[controller] = None;
        }
        if let Some(connection) = self.connection(number) {
            connection.queue = None;
        }
    }
}
