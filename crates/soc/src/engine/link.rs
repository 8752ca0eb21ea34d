//! The link between host and device, for its byte port and its block port: bandwidth in each
//! direction, and the time of a load, a store and a command.
//!
//! A direction is booked at the time at which something is ready to go, in the order of these
//! times: whoever calls has reached them (architecture B4). What blocks hold goes in packets, one
//! request behind the other. Lines, commands and answers without data are packets by themselves and
//! go between those, in turn with them: they wait for one packet each and not for all requests that
//! came before. What they take of the link, blocks that come later wait for.

pub use port::PortCosts as LinkConfig;
use units::address::LINE_BYTES;
use units::{Bytes, Picos, Time};

/// What a packet holds of a block: the largest payload that PCIe hosts commonly agree on (the
/// standard has 128 B to 4 KiB).
const PACKET: Bytes = Bytes::new(256);

/// The link, with what is on it.
#[derive(Clone, Debug)]
pub struct Link {
    config: LinkConfig,
    /// It takes no time at all.
    is_direct: bool,
    /// What a line takes in each direction, which most of what is sent is.
    line: [Picos; 2],
    /// What a packet of a block takes in each direction.
    packet: [Picos; 2],
    /// When each direction is free for blocks: to the device, to the host.
    free: [Time; 2],
    /// When it is free for what goes between their packets.
    free_between: [Time; 2],
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
            packet: [config.write_bandwidth, config.read_bandwidth]
                .map(|rate| rate.time_for(PACKET)),
            config,
            free: [now; 2],
            free_between: [now; 2],
            posted_until: now,
        }
    }

    /// Whether nothing takes any time on it.
    #[inline]
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Sends a block's `size` bytes that are ready at `at`; when the last one has left. Without any
    /// it is a packet by itself.
    #[inline]
    fn send(&mut self, direction: usize, at: Time, size: Bytes) -> Time {
        if size.is_zero() {
            return self.send_between(direction, at, 1, Picos::ZERO);
        }
        let takes = self.time_for(direction, size);
        let free = &mut self.free[direction];
        *free = (*free).max(at) + takes;
        *free
    }

    /// Sends so many packets that are ready at `at` and take so long together, in turn with those
    /// of blocks; when the last one has left.
    #[inline]
    fn send_between(&mut self, direction: usize, at: Time, packets: u64, takes: Picos) -> Time {
        let free = &mut self.free[direction];
        let begins = self.free_between[direction].max(at);
        // As long as there are blocks on it, each packet lets one of theirs go first.
        let backlog = free.saturating_since(begins);
        let ends = begins + backlog.min(self.packet[direction] * packets) + takes;
        self.free_between[direction] = ends;
        *free = (*free + takes).max(ends);
        ends
    }

    /// Sends so many lines.
    #[inline]
    fn send_lines(&mut self, direction: usize, at: Time, lines: u64) -> Time {
        let takes = match lines {
            1 => self.line[direction],
            _ => self.time_for(direction, LINE_BYTES * lines),
        };
        self.send_between(direction, at, lines, takes)
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
        let sent = self.send_lines(0, at, lines);
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
        let sent = self.send_lines(1, answered, lines);
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

#[cfg(test)]
mod tests {
    use super::*;
    use units::BytesPerSec;

    /// A byte takes a nanosecond in each direction; a line 600 ns more, a command 5,000 ns.
    fn link() -> Link {
        let config = LinkConfig {
            line_read: Picos::from_nanos(4_000),
            line_write: Picos::from_nanos(600),
            line_reads: 1,
            line_writes: 10,
            block_command: Picos::from_nanos(5_000),
            read_bandwidth: BytesPerSec::new(1_000_000_000),
            write_bandwidth: BytesPerSec::new(1_000_000_000),
        };
        Link::new(config, at(0))
    }

    fn at(nanos: u64) -> Time {
        Time::ZERO + Picos::from_nanos(nanos)
    }

    #[test]
    fn lines_and_commands_go_between_the_packets_of_blocks() {
        let mut link = link();
        let block = Bytes::from_kib(4);
        // Two blocks, one behind the other.
        assert_eq!(link.command(at(0), block), at(4_096 + 2_500));
        assert_eq!(link.command(at(0), block), at(8_192 + 2_500));
        // A line lets one packet go first, and not both blocks.
        assert_eq!(link.store(at(100), 1), at(100 + 256 + 64 + 600));
        // The next one is behind it.
        assert_eq!(link.store(at(100), 1), at(100 + 2 * (256 + 64) + 600));
        // So does a command without data.
        assert_eq!(link.command(at(1_000), Bytes::ZERO), at(1_256 + 2_500));
        // What they took, the next block waits for.
        assert_eq!(link.command(at(0), block), at(3 * 4_096 + 2 * 64 + 2_500));
        // Answers come by the other direction.
        assert_eq!(link.commanded(at(0), Bytes::ZERO), at(2_500));
    }

    #[test]
    fn an_idle_link_lets_nothing_wait_and_many_lines_take_its_bandwidth() {
        let mut link = link();
        assert_eq!(link.store(at(0), 10), at(640 + 600));
        assert_eq!(link.command(at(0), Bytes::ZERO), at(640 + 2_500));
        assert_eq!(link.loaded(at(0), 1), at(64 + 2_000));
        // Of what is nearly over only the rest is waited for.
        let mut link = self::link();
        assert_eq!(link.command(at(0), Bytes::new(300)), at(300 + 2_500));
        assert_eq!(link.store(at(250), 1), at(300 + 64 + 600));
    }

    #[test]
    fn no_more_is_sent_than_the_link_can() {
        let mut link = link();
        let mut last = at(0);
        for nth in 0..1_000 {
            link.store(at(nth), 3);
            last = link.command(at(nth), Bytes::from_kib(4));
        }
        assert_eq!(last, at(1_000 * (4_096 + 3 * 64) + 2_500));
    }
}
