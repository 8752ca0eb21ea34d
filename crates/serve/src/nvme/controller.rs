//! A controller: what a host has of the subsystem, from its connect to its end.

use super::entry::{Entry, MOST_DATA, NAMESPACE, admin};
use super::identify::{self, ERRORS, EVENTS_LESS_ONE, MOST_ENTRIES, structure};
use super::logs::{self, Failure, Health, Warning, page};
use super::status::Status;
use super::subsystem::Subsystem;
use super::wire::CommandId;
use port::DeviceStats;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use units::TxId;

/// I/O queues of a controller.
pub(super) const MOST_QUEUES: u16 = 16;

/// Registers, by their offsets.
mod property {
    pub const CAPABILITIES: u32 = 0x00;
    pub const VERSION: u32 = 0x08;
    pub const CONFIGURATION: u32 = 0x14;
    pub const STATUS: u32 = 0x1c;
}

mod feature {
    pub const ARBITRATION: u8 = 0x01;
    pub const POWER: u8 = 0x02;
    pub const TEMPERATURE: u8 = 0x04;
    pub const RECOVERY: u8 = 0x05;
    pub const WRITE_CACHE: u8 = 0x06;
    pub const QUEUES: u8 = 0x07;
    pub const ATOMICITY: u8 = 0x0a;
    pub const EVENTS: u8 = 0x0b;
    pub const KEEP_ALIVE: u8 = 0x0f;
}

/// A feature that is as it is.
const NOT_CHANGEABLE: Status = Status(0x410e);
/// Time within which a controller is ready, in 500 ms.
const READY_WITHIN: u64 = 20;
/// What is sent of a failing device: a health event, of the reliability, told in the health page.
const EVENT: u32 = 0x1 | (page::HEALTH as u32) << 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shutdown {
    No,
    UnderWay,
    Done,
}

/// What comes of an admin command at once.
#[derive(Debug)]
pub(super) enum Reply {
    Value(u64),
    Data(Vec<u8>),
    /// It is answered when something happens.
    Later,
    /// The host takes its leave, for the how manieth time: what was acknowledged is to be flushed.
    Shutdown(u32),
    /// The controller is reset, and its I/O queues are no more. These, which waited for events,
    /// wait no more.
    Reset(Vec<CommandId>),
}

/// What a controller answers from.
pub(super) struct Scene<'a> {
    pub subsystem: &'a Subsystem,
    pub stats: DeviceStats,
    pub health: Health,
    /// Where the host has come.
    pub place: Option<SocketAddr>,
}

/// Who a host is: its identifier and its name.
pub(super) type Host = ([u8; 16], Vec<u8>);

#[derive(Debug)]
pub(super) struct Controller {
    pub id: u16,
    pub is_discovery: bool,
    pub host: Host,
    /// The connection of its admin queue.
    pub admin: usize,
    /// When something came of its host.
    pub heard: Instant,
    /// I/O queues that its host may connect.
    pub queues: u16,
    /// Open transactions.
    pub transactions: Vec<TxId>,
    /// Writes are answered when the device has them; if not, when they survive.
    pub is_caching: bool,
    /// Nothing comes of a host for so long: it has gone. Zero: it may be silent.
    keep_alive: Duration,
    configuration: u32,
    is_ready: bool,
    /// It was enabled as it cannot be.
    is_misconfigured: bool,
    /// The device has: no reset brings it back.
    has_stopped: bool,
    shutdown: Shutdown,
    /// How often it has been asked to shut down.
    shutdowns: u32,
    /// Requests for events that wait.
    events: Vec<CommandId>,
    events_wanted: u32,
    has_news: bool,
    failures: VecDeque<Failure>,
    failed: u64,
}

impl Controller {
    pub fn new(id: u16, is_discovery: bool, host: Host, admin: usize, now: Instant) -> Self {
        Self {
            id,
            is_discovery,
            host,
            admin,
            heard: now,
            queues: MOST_QUEUES,
            transactions: Vec::new(),
            is_caching: true,
            keep_alive: Duration::ZERO,
            configuration: 0,
            is_ready: false,
            is_misconfigured: false,
            has_stopped: false,
            shutdown: Shutdown::No,
            shutdowns: 0,
            events: Vec::new(),
            events_wanted: 0,
            has_news: false,
            failures: VecDeque::new(),
            failed: 0,
        }
    }

    /// Whether it takes commands other than those of fabrics.
    pub fn is_ready(&self) -> bool {
        self.is_ready && self.shutdown == Shutdown::No
    }

    pub fn set_keep_alive(&mut self, milliseconds: u32) {
        self.keep_alive = Duration::from_millis(u64::from(milliseconds));
    }

    /// Whether its host has been silent for too long.
    pub fn is_late(&self, now: Instant) -> bool {
        !self.keep_alive.is_zero() && now.saturating_duration_since(self.heard) > self.keep_alive
    }

    /// The value of a property.
    pub fn property(&self, at: u32) -> Result<u64, Status> {
        let queue = u64::from(MOST_ENTRIES - 1);
        Ok(match at {
            // Contiguous queues, and the NVM command set.
            property::CAPABILITIES => queue | 1 << 16 | READY_WITHIN << 24 | 1 << 37,
            property::VERSION => u64::from(identify::VERSION),
            property::CONFIGURATION => u64::from(self.configuration),
            property::STATUS => {
                let shutdown = match self.shutdown {
                    Shutdown::No => 0,
                    Shutdown::UnderWay => 1,
                    Shutdown::Done => 2,
                };
                let has_failed = self.is_misconfigured || self.has_stopped;
                u64::from(self.is_ready) | u64::from(has_failed) << 1 | shutdown << 2
            }
            _ => return Err(Status::FIELD),
        })
    }

    pub fn set_property(&mut self, at: u32, value: u64) -> Result<Reply, Status> {
        if at != property::CONFIGURATION {
            return Err(Status::FIELD);
        }
        let before = core::mem::replace(&mut self.configuration, value as u32);
        let field = |value: u32, from: u32, bits: u32| (value >> from) & ((1 << bits) - 1);
        let (was_on, is_on) = (before & 1 != 0, self.configuration & 1 != 0);
        if is_on && !was_on {
            let (set, page) = (
                field(self.configuration, 4, 3),
                field(self.configuration, 7, 4),
            );
            let entries = field(self.configuration, 16, 8);
            let is_fit = set == 0 && page == 0 && (self.is_discovery || entries == 0x46);
            self.is_ready = is_fit;
            self.is_misconfigured = !is_fit;
            self.shutdown = Shutdown::No;
        } else if was_on && !is_on {
            return Ok(Reply::Reset(self.reset()));
        }
        if field(self.configuration, 14, 2) != 0 && self.shutdown == Shutdown::No {
            self.shutdown = Shutdown::UnderWay;
            self.shutdowns += 1;
            return Ok(Reply::Shutdown(self.shutdowns));
        }
        Ok(Reply::Value(0))
    }

    /// Off, as it was when it was new but for the keep alive, which its connect has set: who waited
    /// for events.
    fn reset(&mut self) -> Vec<CommandId> {
        self.is_ready = false;
        self.is_misconfigured = false;
        self.shutdown = Shutdown::No;
        self.queues = MOST_QUEUES;
        self.is_caching = true;
        self.events_wanted = 0;
        self.has_news = false;
        core::mem::take(&mut self.events)
    }

    /// What was acknowledged before that shutdown is flushed, or never will be.
    pub fn was_shut_down(&mut self, shutdown: u32) {
        // A reset meanwhile has made an end of it, and another shutdown has a flush of its own.
        if self.shutdown == Shutdown::UnderWay && self.shutdowns == shutdown {
            self.shutdown = Shutdown::Done;
        }
    }

    /// A command of the admin queue.
    pub fn admin(&mut self, entry: &Entry, scene: &Scene<'_>) -> Result<Reply, Status> {
        if !self.is_ready() && entry.opcode() != admin::KEEP_ALIVE {
            return Err(Status::SEQUENCE);
        }
        match entry.opcode() {
            admin::IDENTIFY => self.identify(entry, scene),
            admin::GET_LOG_PAGE => self.log_page(entry, scene),
            admin::SET_FEATURES => self.set_feature(entry, scene),
            admin::GET_FEATURES => self.feature(entry, scene).map(Reply::Value),
            admin::KEEP_ALIVE => Ok(Reply::Value(0)),
            // A command is done soon: none is taken back.
            admin::ABORT => Ok(Reply::Value(1)),
            admin::ASYNC_EVENT if self.events.len() > usize::from(EVENTS_LESS_ONE) => {
                Err(Status::EVENT_LIMIT)
            }
            admin::ASYNC_EVENT => {
                self.events.push(entry.command());
                Ok(Reply::Later)
            }
            _ => Err(Status::OPCODE),
        }
    }

    fn identify(&self, entry: &Entry, scene: &Scene<'_>) -> Result<Reply, Status> {
        let (subsystem, namespace) = (scene.subsystem, entry.namespace());
        let is_read_only = Warning::READ_ONLY.is_in(scene.health.warning);
        let data = match entry.dword(10) as u8 {
            structure::CONTROLLER => identify::controller(subsystem, self.id, self.is_discovery),
            _ if self.is_discovery => return Err(Status::FIELD),
            structure::ACTIVE if namespace >= 0xffff_fffe => return Err(Status::NAMESPACE),
            structure::ACTIVE => identify::active(namespace),
            // Of all namespaces: what they have in common.
            structure::NAMESPACE if matches!(namespace, NAMESPACE | u32::MAX) => {
                identify::namespace(subsystem, is_read_only)
            }
            structure::DESCRIPTORS if namespace == NAMESPACE => identify::descriptors(subsystem),
            structure::NAMESPACE | structure::DESCRIPTORS => return Err(Status::NAMESPACE),
            // Of the NVM command set, of which nobody else is.
            structure::SET_NAMESPACE | structure::SET_CONTROLLER if entry.dword(11) >> 24 != 0 => {
                return Err(Status::FIELD);
            }
            structure::SET_NAMESPACE => identify::nothing(),
            structure::SET_CONTROLLER => identify::set_controller(subsystem),
            structure::SETS => identify::sets(),
            _ => return Err(Status::FIELD),
        };
        Ok(Reply::Data(data))
    }

    fn log_page(&mut self, entry: &Entry, scene: &Scene<'_>) -> Result<Reply, Status> {
        let which = entry.dword(10) as u8;
        let dwords = u64::from(entry.dword(10) >> 16) | u64::from(entry.dword(11) & 0xffff) << 16;
        let (size, offset) = ((dwords + 1) * 4, entry.u64(48));
        if size > u64::from(MOST_DATA) {
            return Err(Status::FIELD);
        }
        let mut data = match which {
            page::DISCOVERY if self.is_discovery => logs::discovery(scene.subsystem, scene.place),
            page::COMMANDS => logs::commands(self.is_discovery),
            page::ERRORS => logs::errors(&self.failures, ERRORS),
            _ if self.is_discovery => return Err(Status::LOG_PAGE),
            page::HEALTH => logs::health(&scene.stats, scene.health, self.failed),
            page::FIRMWARE => logs::firmware(),
            // Namespaces do not change.
            page::CHANGED => vec![0; 4096],
            _ => return Err(Status::LOG_PAGE),
        };
        if offset > data.len() as u64 || !offset.is_multiple_of(4) {
            return Err(Status::FIELD);
        }
        data.drain(..offset as usize);
        data.resize(size as usize, 0);
        Ok(Reply::Data(data))
    }

    fn set_feature(&mut self, entry: &Entry, scene: &Scene<'_>) -> Result<Reply, Status> {
        if entry.dword(10) >> 31 != 0 {
            return Err(Status::NOT_SAVEABLE);
        }
        let value = entry.dword(11);
        match entry.dword(10) as u8 {
            feature::KEEP_ALIVE => self.set_keep_alive(value),
            feature::EVENTS => self.events_wanted = value,
            _ if self.is_discovery => return Err(Status::FIELD),
            feature::QUEUES => {
                let wanted = (value as u16).min((value >> 16) as u16);
                if wanted == u16::MAX {
                    return Err(Status::FIELD);
                }
                self.queues = (wanted + 1).min(MOST_QUEUES);
                return self.feature(entry, scene).map(Reply::Value);
            }
            feature::WRITE_CACHE if scene.subsystem.is_volatile() => {
                self.is_caching = value & 1 != 0;
            }
            feature::WRITE_CACHE => return Err(Status::FIELD),
            feature::ARBITRATION
            | feature::POWER
            | feature::TEMPERATURE
            | feature::RECOVERY
            | feature::ATOMICITY => return Err(NOT_CHANGEABLE),
            _ => return Err(Status::FIELD),
        }
        Ok(Reply::Value(0))
    }

    fn feature(&self, entry: &Entry, scene: &Scene<'_>) -> Result<u64, Status> {
        if entry.opcode() == admin::GET_FEATURES && (entry.dword(10) >> 8) & 7 != 0 {
            // Only what is now can be asked for.
            return Err(Status::FIELD);
        }
        Ok(match entry.dword(10) as u8 {
            feature::KEEP_ALIVE => self.keep_alive.as_millis() as u64,
            feature::EVENTS => u64::from(self.events_wanted),
            _ if self.is_discovery => return Err(Status::FIELD),
            feature::QUEUES => u64::from(self.queues - 1) * 0x1_0001,
            feature::WRITE_CACHE if scene.subsystem.is_volatile() => u64::from(self.is_caching),
            // A threshold that no temperature reaches.
            feature::TEMPERATURE => 0xffff,
            feature::ARBITRATION | feature::POWER | feature::RECOVERY | feature::ATOMICITY => 0,
            _ => return Err(Status::FIELD),
        })
    }

    /// Notes a command that failed.
    pub fn note(&mut self, queue: u16, command: CommandId, status: Status, block: u64, ns: u32) {
        self.failed += 1;
        self.failures.truncate(ERRORS - 1);
        self.failures.push_front(Failure {
            number: self.failed,
            queue,
            command,
            status,
            block,
            namespace: ns,
        });
    }

    /// Something critical has happened; it is news unless it had before the controller was.
    pub fn warn(&mut self, warning: Warning, is_news: bool) {
        self.has_stopped |= Warning::STOPPED.is_in(warning);
        self.has_news |= is_news && self.events_wanted & u32::from(warning.0) != 0;
    }

    /// A request for events that can be answered now, and with what.
    pub fn event(&mut self) -> Option<(CommandId, u64)> {
        if !self.has_news || self.events.is_empty() {
            return None;
        }
        self.has_news = false;
        Some((self.events.remove(0), u64::from(EVENT)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: u64 = 0x46 << 16 | 1;
    const SHUT: u64 = ON | 1 << 14;

    #[test]
    #[allow(
        clippy::disallowed_methods,
        reason = "a controller knows when its host was heard"
    )]
    fn the_flush_of_an_earlier_shutdown_ends_no_later_one() {
        let host = ([0; 16], Vec::new());
        let mut controller = Controller::new(1, false, host, 0, Instant::now());
        let mut set = |value| {
            let reply = controller.set_property(property::CONFIGURATION, value);
            match reply.expect("a register") {
                Reply::Shutdown(number) => Some(number),
                _ => None,
            }
        };
        assert_eq!(set(ON), None);
        let first = set(SHUT).expect("a flush");
        assert_eq!((set(0), set(ON)), (None, None), "a reset meanwhile");
        let second = set(SHUT).expect("another flush");
        let status = |controller: &Controller| {
            let status = controller.property(property::STATUS).expect("a register");
            status >> 2 & 3
        };
        controller.was_shut_down(first);
        assert_eq!(status(&controller), 1, "the second one is under way");
        controller.was_shut_down(second);
        assert_eq!(status(&controller), 2);
    }
}
