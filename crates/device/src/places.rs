//! Where the bytes of a range are in the device, and what its time was spent on.

use crate::engine::DeviceEngine;
use units::{ByteAddr, Bytes, LineAddr, Picos, Time};

/// In which memories of the device bytes are. What is in one may be in others too, older.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Places {
    /// Lines of 64 bytes in the write log.
    pub log_lines: u64,
    /// Pages of flash that the page cache in device DRAM has.
    pub cached_pages: u64,
    /// Pages of flash that are mapped: they were programmed, or are being so.
    pub flash_pages: u64,
}

/// What operations of the device have taken so far, in sum: where they overlap, longer than its
/// clock has gone on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Spent {
    /// The device's clock.
    pub clock: Time,
    /// Waiting for other operations of their lines, for transactions, for room.
    pub waiting: Picos,
    /// Lookups and device DRAM: the log, and the page cache.
    pub memory: Picos,
    /// Flash.
    pub flash: Picos,
    /// The link, there and back.
    pub link: Picos,
}

impl DeviceEngine {
    /// Where the bytes of a range are. Nothing moves by it.
    pub fn places(&self, at: ByteAddr, size: Bytes) -> Places {
        let controller = &self.engine.soc().controller;
        let lines = at.get() / LINE..(at.get() + size.get()).div_ceil(LINE);
        let mut places = Places::default();
        let mut last = None;
        for line in lines.map(LineAddr::new) {
            let copies = controller.copies_of(line);
            places.log_lines += u64::from(copies.log.is_some());
            let page = line.lpa(self.page);
            if last.replace(page) != Some(page) {
                places.cached_pages += u64::from(copies.frame.is_some());
                places.flash_pages += u64::from(controller.die_of(page).is_some());
            }
        }
        places
    }

    /// What operations have taken so far.
    pub fn spent(&self) -> Spent {
        let parts = self.engine.parts();
        let sum = |of: fn(&soc::Parts) -> u128| {
            let all = parts.iter().map(of).sum::<u128>();
            Picos::new(u64::try_from(all).unwrap_or(u64::MAX))
        };
        Spent {
            clock: self.now(),
            waiting: sum(|part| part.order + part.stall),
            memory: sum(|part| part.index + part.dram),
            flash: sum(|part| part.flash),
            link: sum(|part| part.link),
        }
    }
}

const LINE: u64 = units::address::LINE_BYTES.get();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceConfig, Pace};
    use port::{Acknowledge, Command};
    use units::TxId;

    #[test]
    fn bytes_are_where_they_were_written_and_time_is_spent_on_them() {
        let config = DeviceConfig::of_preset("bytefs", &[]).unwrap();
        let sets = ["nand.blocks_per_plane=72", "nand.pages_per_block=4"];
        let layers = sets.map(|set| crate::config::Layer::assignment(set).unwrap());
        let small = DeviceConfig::of_preset("bytefs", &layers).unwrap();
        assert!(small.capacity() < config.capacity());
        let mut device = DeviceEngine::in_memory(&small, Pace::None).unwrap();
        let (at, size) = (ByteAddr::new(8192), Bytes::from_kib(8));
        assert_eq!(device.places(at, size), Places::default());
        let store = device.submit_write(Command::Write(TxId::NONE), at, &[1; 128]);
        device.finish(store.unwrap(), &mut []).unwrap();
        let before = device.spent();
        let block = Command::WriteBlocks(Acknowledge::Durable);
        let write = device.submit_write(block, ByteAddr::new(12_288), &[2; 4096]);
        device.finish(write.unwrap(), &mut []).unwrap();
        device.settle();
        let places = device.places(at, size);
        assert_eq!((places.log_lines, places.flash_pages), (2, 1));
        let after = device.spent();
        let took = after.clock - before.clock;
        let known = |of: &Spent| of.waiting + of.memory + of.flash + of.link;
        assert!(known(&after) > known(&before) && took > Picos::ZERO);
    }
}
