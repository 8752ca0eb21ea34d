//! The link as a resource: in each direction messages are put on the wire one after the other,
//! then travel for half the protocol latency.

use crate::LinkConfig;
use units::{Bytes, Picos, Time};

/// Bytes on the wire for each slot: a flit carries four slots of 16 B in 68 B, of which 4 B are
/// protocol id and CRC.
pub const SLOT_BYTES: Bytes = Bytes::new(17);

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From host to device (M2S).
    ToDevice,
    /// From device to host (S2M).
    ToHost,
}

/// The class of a message, which decides its direction and size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageClass {
    /// Request without data, such as MemRd (M2S Req).
    MemRd,
    /// Request with a line of data, such as MemWr (M2S RwD).
    MemWr,
    /// Response without data, such as Cmp and SkyByte-Delay (S2M NDR).
    Ndr,
    /// Response with a line of data (S2M DRS).
    Drs,
}

impl MessageClass {
    /// All classes, in the order of their statistics.
    pub const ALL: [Self; 4] = [Self::MemRd, Self::MemWr, Self::Ndr, Self::Drs];

    /// Position in [`MessageClass::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
    /// Which way messages of the class go.
    #[inline]
    pub const fn direction(self) -> Direction {
        match self {
            Self::MemRd | Self::MemWr => Direction::ToDevice,
            Self::Ndr | Self::Drs => Direction::ToHost,
        }
    }
    /// Slots of a message: one for the header, four for a line.
    pub const fn slot_count(self) -> u64 {
        match self {
            Self::MemRd | Self::Ndr => 1,
            Self::MemWr | Self::Drs => 5,
        }
    }
    /// Bytes that a message occupies on the wire.
    pub fn wire_bytes(self) -> Bytes {
        SLOT_BYTES * self.slot_count()
    }
}

/// The link. Messages of a direction are served in the order of the calls, also when a later call
/// has an earlier `at`.
#[derive(Clone, Debug)]
pub struct Link {
    lanes: [Lane; 2],
    /// By class: time on the wire.
    serialization: [Picos; 4],
    stats: LinkStats,
}

/// One direction.
#[derive(Clone, Copy, Debug)]
struct Lane {
    free_at: Time,
    propagation: Picos,
}

/// Counters of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DirectionStats {
    /// Time that messages were put on the wire.
    pub busy: Picos,
    /// Sum over messages of the wait for those before.
    pub wait: Picos,
    /// Bytes on the wire, flit overhead included.
    pub bytes: Bytes,
}

/// Counters of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkStats {
    /// Messages by class, in the order of [`MessageClass::ALL`].
    pub messages: [u64; 4],
    /// From host to device.
    pub to_device: DirectionStats,
    /// From device to host.
    pub to_host: DirectionStats,
}

impl LinkStats {
    /// Messages of a class.
    pub const fn of(&self, class: MessageClass) -> u64 {
        self.messages[class.index()]
    }
    fn direction_mut(&mut self, direction: Direction) -> &mut DirectionStats {
        match direction {
            Direction::ToDevice => &mut self.to_device,
            Direction::ToHost => &mut self.to_host,
        }
    }
}

impl Link {
    /// An idle link. The configuration has passed [`LinkConfig::validate`].
    pub fn new(config: &LinkConfig) -> Self {
        let there = config.protocol_latency / 2;
        // An odd picosecond goes to the way back, so that both ways add up to the parameter.
        let back = config.protocol_latency - there;
        let lane = |propagation| Lane {
            free_at: Time::ZERO,
            propagation,
        };
        Self {
            lanes: [lane(there), lane(back)],
            serialization: MessageClass::ALL
                .map(|class| config.bandwidth.time_for(class.wire_bytes())),
            stats: LinkStats::default(),
        }
    }

    /// What the link did so far.
    pub const fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Sends a message that is ready at `at`; gives the time at which all of it has arrived.
    #[inline]
    pub fn send(&mut self, at: Time, class: MessageClass) -> Time {
        let direction = class.direction();
        let serialization = self.serialization[class.index()];
        let lane = &mut self.lanes[direction as usize];
        let wait = lane.free_at.saturating_since(at);
        lane.free_at = at + wait + serialization;
        let arrival = lane.free_at + lane.propagation;
        self.stats.messages[class.index()] += 1;
        let stats = self.stats.direction_mut(direction);
        stats.busy += serialization;
        stats.wait += wait;
        stats.bytes += class.wire_bytes();
        arrival
    }

    /// Checks what counters can show of the invariants of `docs/cxl.md` (architecture B6); panics
    /// at the first that does not hold.
    pub fn audit(&self) {
        for (direction, stats) in [
            (Direction::ToDevice, &self.stats.to_device),
            (Direction::ToHost, &self.stats.to_host),
        ] {
            let passed = self.lanes[direction as usize].free_at - Time::ZERO;
            assert!(
                stats.busy <= passed,
                "a direction carries one message at a time"
            );
            let (mut bytes, mut busy) = (Bytes::ZERO, Picos::ZERO);
            for class in MessageClass::ALL {
                if class.direction() == direction {
                    bytes += class.wire_bytes() * self.stats.of(class);
                    busy += self.serialization[class.index()] * self.stats.of(class);
                }
            }
            assert_eq!(
                (bytes, busy),
                (stats.bytes, stats.busy),
                "each message is counted once"
            );
        }
    }

    /// Time from readiness to arrival of a message that waits for nothing.
    pub fn unloaded(&self, class: MessageClass) -> Picos {
        self.serialization[class.index()] + self.lanes[class.direction() as usize].propagation
    }
}
