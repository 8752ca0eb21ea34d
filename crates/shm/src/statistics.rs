//! What a device has done, as words in the data area.

use port::{DeviceStats, FlashTraffic, PortTraffic};
use units::{Bytes, Picos, Time};

const WORDS: usize = 21;
/// Bytes of the statistics in the data area.
pub const STATISTICS_BYTES: usize = WORDS * 8;

fn port_words(port: &PortTraffic) -> [u64; 6] {
    let PortTraffic {
        reads,
        writes,
        to_host,
        to_device,
        read_time,
        write_time,
    } = *port;
    let (read_time, write_time) = (read_time.get(), write_time.get());
    let (to_host, to_device) = (to_host.get(), to_device.get());
    [reads, writes, to_host, to_device, read_time, write_time]
}

/// As bytes.
pub fn statistics_to_bytes(stats: &DeviceStats) -> [u8; STATISTICS_BYTES] {
    let DeviceStats {
        clock,
        byte_port,
        block_port,
        barriers,
        commits,
        aborts,
        flash,
    } = stats;
    let FlashTraffic {
        reads,
        programs,
        erases,
        read_bytes,
        programmed_bytes,
    } = *flash;
    let mut words = Vec::with_capacity(WORDS);
    words.push(clock.as_picos());
    words.extend(port_words(byte_port));
    words.extend(port_words(block_port));
    words.extend([*barriers, *commits, *aborts, reads, programs, erases]);
    words.extend([read_bytes.get(), programmed_bytes.get()]);
    let mut bytes = [0; STATISTICS_BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// From bytes.
pub fn statistics_from_bytes(bytes: &[u8; STATISTICS_BYTES]) -> DeviceStats {
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let mut next = || words.next().expect("as many words as values");
    let clock = Time::from_picos(next());
    let mut port = || PortTraffic {
        reads: next(),
        writes: next(),
        to_host: Bytes::new(next()),
        to_device: Bytes::new(next()),
        read_time: Picos::new(next()),
        write_time: Picos::new(next()),
    };
    let (byte_port, block_port) = (port(), port());
    DeviceStats {
        clock,
        byte_port,
        block_port,
        barriers: next(),
        commits: next(),
        aborts: next(),
        flash: FlashTraffic {
            reads: next(),
            programs: next(),
            erases: next(),
            read_bytes: Bytes::new(next()),
            programmed_bytes: Bytes::new(next()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_come_back_whole() {
        let mut bytes = [0; STATISTICS_BYTES];
        for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
            word[0] = index as u8 + 1;
        }
        let stats = statistics_from_bytes(&bytes);
        assert_eq!(stats.clock, Time::from_picos(1));
        assert_eq!(stats.flash.programmed_bytes, Bytes::new(WORDS as u64));
        assert_eq!(statistics_to_bytes(&stats), bytes);
    }
}
