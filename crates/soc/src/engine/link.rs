//! The link between host and device, for its byte port and its block port: bandwidth in each
//! direction, and the time of a load, a store and a command.
//!
//! A direction is booked at the time at which something is ready to go, in the order of these
//! times: whoever calls has reached them (architecture B4).

pub use port::PortCosts as LinkConfig;
use units::address::LINE_BYTES;
use units::{Bytes, Picos, Time};

/// The link, with what is on it.
#[derive(Clone, Debug)]
pub struct Link {
    config: LinkConfig,
    /// It takes no time at all.
    is_direct: bool,
    /// What a line takes in each direction, which most of what is sent is.
    line: [Picos; 2],
    /// When each direction is free: to the device, to the host.
    free: [Time; 2],
    /// When the last posted line will be in the device.
    posted_until: Time,
}

impl Link {
    /// Idle at `now`.
    pub fn new(config: LinkConfig, now: Time) -> Self {
        Self {
            is_direct: config == LinkConfig::DIRECT,
            line: [config.write_bandwidth, config.read_bandwidth]
                .map(|rate| rate.time_for(LINE_BYTES)),
            config,
            free: [now; 2],
            posted_until: now,
        }
    }

    /// Whether nothing takes any time on it.
    #[inline]
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Sends `size` bytes that are ready at `at`; when the last one has left.
    #[inline]
    fn send(&mut self, direction: usize, at: Time, size: Bytes) -> Time {
        let takes = match size {
            LINE_BYTES => self.line[direction],
            _ => self.time_for(direction, size),
        };
        let free = &mut self.free[direction];
        *free = (*free).max(at) + takes;
        *free
    }

    fn time_for(&self, direction: usize, size: Bytes) -> Picos {
        let rate = match direction {
            0 => self.config.write_bandwidth,
            _ => self.config.read_bandwidth,
        };
        rate.time_for(size)
    }

    /// When a store of `lines` lines at `at` has reached the device.
    #[inline]
    pub fn store(&mut self, at: Time, lines: u64) -> Time {
        if self.is_direct {
            return at;
        }
        let rounds = lines.div_ceil(self.config.line_writes.into());
        let sent = self.send(0, at, LINE_BYTES * lines);
        sent + self.config.line_write * rounds
    }

    /// A store will be in battery-backed DRAM at `stored`, which the host does not wait for.
    pub fn post(&mut self, stored: Time) {
        self.posted_until = self.posted_until.max(stored);
    }

    /// When everything that was posted will be in battery-backed DRAM.
    pub fn posted_until(&self) -> Time {
        self.posted_until
    }

    /// When a load at `at` has reached the device.
    pub fn load(&self, at: Time) -> Time {
        at + self.config.line_read / 2
    }

    /// When the host has `lines` lines that the device answers with at `answered`.
    #[inline]
    pub fn loaded(&mut self, answered: Time, lines: u64) -> Time {
        if self.is_direct {
            return answered;
        }
        let rounds = lines.div_ceil(self.config.line_reads.into()).max(1);
        let back = self.config.line_read - self.config.line_read / 2;
        let sent = self.send(1, answered, LINE_BYTES * lines);
        sent + back + self.config.line_read * (rounds - 1)
    }

    /// When a read that pushes all stores before it is answered (write-verify read, ByteFS §4.2).
    pub fn pushed(&self, at: Time) -> Time {
        let back = self.config.line_read - self.config.line_read / 2;
        self.load(at).max(self.posted_until) + back
    }

    /// When a block command at `at`, with `size` bytes for the device, has reached it.
    #[inline]
    pub fn command(&mut self, at: Time, size: Bytes) -> Time {
        if self.is_direct {
            return at;
        }
        self.send(0, at, size) + self.config.block_command / 2
    }

    /// When the host knows that it is done, and has `size` bytes of it.
    #[inline]
    pub fn commanded(&mut self, answered: Time, size: Bytes) -> Time {
        if self.is_direct {
            return answered;
        }
        let back = self.config.block_command - self.config.block_command / 2;
        self.send(1, answered, size) + back
    }
}
