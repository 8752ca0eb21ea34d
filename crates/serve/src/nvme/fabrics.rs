//! Commands of fabrics: connect, properties, disconnect.

use super::connection::Queue;
use super::controller::{Controller, Reply};
use super::entry::{Entry, fabrics};
use super::identify::MOST_ENTRIES;
use super::server::Hosts;
use super::status::Status;
use super::subsystem::DISCOVERY;
use super::wire::{array_at, u16_at};
use crate::server::now;

/// Bytes of the data of a connect.
const CONNECT_BYTES: usize = 1024;
/// Bytes of a name.
const NAME_BYTES: usize = 256;
/// A host that takes whichever controller it gets.
const ANY_CONTROLLER: u16 = u16::MAX;
/// Attribute of a connect: the host does not count on the queue's head.
const UNCOUNTED: u8 = 1 << 2;

/// Where the wrong field of a connect is: in the command or in its data.
enum Wrong {
    Command(u16),
    Data(u16),
}

impl Hosts {
    pub(super) fn fabrics(
        &mut self,
        number: usize,
        entry: &Entry,
        data: &[u8],
    ) -> Result<Reply, Status> {
        let queue = self
            .connection(number)
            .and_then(|connection| connection.queue.as_ref());
        let queue = queue.map(|queue| (queue.controller, queue.id));
        let attribute = entry.0[40] & 7;
        let at = entry.dword(11);
        match (entry.fabrics_type(), queue) {
            (fabrics::CONNECT, None) => self.connect(number, entry, data),
            (fabrics::CONNECT, Some(_)) | (_, None) => Err(Status::SEQUENCE),
            (fabrics::DISCONNECT, Some((_, id))) => {
                if id == 0 {
                    return Err(Status::FIELD);
                }
                if let Some(connection) = self.connection(number) {
                    connection.complete(entry.command(), Status::SUCCESS, 0);
                    connection.take_leave();
                }
                Ok(Reply::Later)
            }
            (fabrics::PROPERTY_GET | fabrics::PROPERTY_SET, Some((_, id))) if id != 0 => {
                Err(Status::FIELD)
            }
            // Of 4 bytes, or of 8, which only the capabilities have.
            (fabrics::PROPERTY_GET | fabrics::PROPERTY_SET, _)
                if attribute != u8::from(at == 0) =>
            {
                Err(Status::FIELD)
            }
            (kind, Some((controller, _))) => {
                let controller = self.controllers[controller].as_mut();
                let controller = controller.ok_or(Status::SEQUENCE)?;
                match kind {
                    fabrics::PROPERTY_GET => controller.property(at).map(Reply::Value),
                    fabrics::PROPERTY_SET => controller.set_property(at, entry.u64(48)),
                    _ => Err(Status::OPCODE),
                }
            }
        }
    }

    fn connect(&mut self, number: usize, entry: &Entry, data: &[u8]) -> Result<Reply, Status> {
        if entry.u16(40) != 0 {
            return Err(Status::CONNECT_FORMAT);
        }
        if data.len() != CONNECT_BYTES {
            return Err(Status::LENGTH);
        }
        let queue = entry.u16(42);
        let outcome = match queue {
            0 => self.connect_admin(number, entry, data)?,
            _ => self.connect_queue(queue, entry, data)?,
        };
        match outcome {
            Ok(controller) => {
                let is_counted = entry.0[46] & UNCOUNTED == 0;
                let joined = Queue::new(controller, queue, entry.u16(44), is_counted);
                let id = self.controllers[controller]
                    .as_ref()
                    .map_or(0, |known| known.id);
                if let Some(connection) = self.connection(number) {
                    connection.queue = Some(joined);
                }
                Ok(Reply::Value(u64::from(id)))
            }
            Err(wrong) => {
                let value = match wrong {
                    Wrong::Command(at) => u64::from(at),
                    Wrong::Data(at) => u64::from(at) | 1 << 16,
                };
                self.note(number, entry.command(), Status::CONNECT_FIELD, None);
                if let Some(connection) = self.connection(number) {
                    connection.complete(entry.command(), Status::CONNECT_FIELD, value);
                }
                Ok(Reply::Later)
            }
        }
    }

    /// A new controller.
    fn connect_admin(
        &mut self,
        number: usize,
        entry: &Entry,
        data: &[u8],
    ) -> Result<Result<usize, Wrong>, Status> {
        let (host, wanted) = (array_at(data, 0), u16_at(data, 16));
        let subsystem = name(data, 256);
        let is_discovery = subsystem == DISCOVERY.as_bytes();
        if !is_discovery && subsystem != self.subsystem.name().as_bytes() {
            return Ok(Err(Wrong::Data(256)));
        }
        if wanted != ANY_CONTROLLER {
            return Ok(Err(Wrong::Data(16)));
        }
        if !is_fit(entry) {
            return Ok(Err(Wrong::Command(44)));
        }
        if name(data, 512).is_empty() {
            return Ok(Err(Wrong::Data(512)));
        }
        if self.controllers.iter().flatten().count() >= self.limits.controllers {
            return Err(Status::BUSY);
        }
        let host = (host, name(data, 512).to_vec());
        let id = self.free_id();
        let mut controller = Controller::new(id, is_discovery, host, number, now());
        controller.set_keep_alive(entry.dword(12));
        controller.warn(self.health.warning, false);
        self.served.controllers += 1;
        let free = self.controllers.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.controllers.push(None);
            self.controllers.len() - 1
        });
        self.controllers[place] = Some(controller);
        Ok(Ok(place))
    }

    fn free_id(&mut self) -> u16 {
        loop {
            let id = self.next_id;
            // 0xfff0 and above are no controllers.
            self.next_id = if id >= 0xffef { 1 } else { id + 1 };
            if !self
                .controllers
                .iter()
                .flatten()
                .any(|known| known.id == id)
            {
                return id;
            }
        }
    }

    /// One more queue of a controller.
    fn connect_queue(
        &mut self,
        queue: u16,
        entry: &Entry,
        data: &[u8],
    ) -> Result<Result<usize, Wrong>, Status> {
        let wanted = u16_at(data, 16);
        let is_it = |known: &Option<Controller>| known.as_ref().is_some_and(|it| it.id == wanted);
        let Some(place) = self.controllers.iter().position(is_it) else {
            return Ok(Err(Wrong::Data(16)));
        };
        let controller = self.controllers[place].as_ref().ok_or(Status::INTERNAL)?;
        let (id, own) = &controller.host;
        if array_at::<16>(data, 0) != *id || name(data, 512) != own {
            return Err(Status::CONNECT_HOST);
        }
        if name(data, 256) != self.subsystem.name().as_bytes() || controller.is_discovery {
            return Ok(Err(Wrong::Data(256)));
        }
        if !controller.is_ready() {
            return Err(Status::SEQUENCE);
        }
        if queue > controller.queues || self.has_queue(place, queue) {
            return Ok(Err(Wrong::Command(42)));
        }
        if !is_fit(entry) {
            return Ok(Err(Wrong::Command(44)));
        }
        Ok(Ok(place))
    }
}

/// Whether a queue of that size can be.
fn is_fit(entry: &Entry) -> bool {
    (1..MOST_ENTRIES).contains(&entry.u16(44))
}

/// A name, up to its closing zero; nothing if it has none.
fn name(data: &[u8], at: usize) -> &[u8] {
    let field = &data[at..at + NAME_BYTES];
    let end = field.iter().position(|byte| *byte == 0);
    &field[..end.unwrap_or(0)]
}
