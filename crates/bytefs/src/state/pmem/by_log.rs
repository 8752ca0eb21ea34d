//! The device's write log as persistent memory: which syncs lines in it can answer alone.

use super::{State, runs};
use crate::Ino;
use crate::fs::{OVERHEAD_LINES, PAGE_LINES};
use crate::layout::LINES;
use core::fmt;
use core::str::FromStr;
use port::{PersistenceDomain, Shape};

/// What of a device is persistent memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DaxAt {
    /// Its window: pages have frames there.
    Window,
    /// Its write log: lines of pages, and the metadata that says where they are.
    Log,
}

impl DaxAt {
    const ALL: [Self; 2] = [Self::Window, Self::Log];

    /// As users say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Log => "log",
        }
    }

    /// What it is of a device unless somebody says: the window, if there is one. The log of a
    /// device that loses blocks which are not flushed; where nothing is lost, no sync waits for
    /// flash that lines could spare it.
    pub fn of(shape: &Shape) -> Self {
        let keeps_log_alone = shape.byte_domain == PersistenceDomain::Device
            && shape.block_domain == PersistenceDomain::Flash;
        match shape.pmem.is_zero() && keeps_log_alone && shape.transactions.is_some() {
            true => Self::Log,
            false => Self::Window,
        }
    }
}

impl fmt::Display for DaxAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DaxAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|at| at.name() == text);
        found.ok_or_else(|| format!("dax_at={text} is none; choose dax_at=window or dax_at=log"))
    }
}

impl State {
    /// Pages that go by lines with one batch, however many lines of them have changed.
    pub fn most_by_lines(&self) -> usize {
        let room = self.batch_most.saturating_sub(OVERHEAD_LINES);
        room / (LINES + PAGE_LINES)
    }

    /// Whether a sync of a file may go by lines alone: each dirty page is of an upgraded range or
    /// is asked for, the pages are no more than one batch has room for, and no block of the file
    /// waits for a flush. Then it counts as a light one if there is something to be made durable,
    /// which is said.
    pub fn begin_sync_by_log(&mut self, ino: Ino) -> Option<bool> {
        let most = self.most_by_lines();
        let node = self.nodes.get(&ino).filter(|node| node.is_regular)?;
        let Some(pmem) = &mut self.pmem else {
            return None;
        };
        let tracked = pmem.files.get(&ino)?;
        if pmem.pending.contains_key(&ino) {
            return None;
        }
        // Lines that the clock has posted, or the file's inode, wait for a batch.
        let is_changed = tracked.batch > self.committed
            && !(tracked.batch == self.batch.id && self.batch.is_empty());
        let has_work = is_changed || !tracked.unsynced.is_empty();
        let spans = pmem.dax.spans(tracked.id);
        if !node.dirty.iter().all(|page| spans.find(page).is_some()) {
            return None;
        }
        if node.dirty.len() > most {
            pmem.stats.without_room += 1;
            return None;
        }
        pmem.stats.light_syncs += u64::from(has_work);
        for (first, count) in runs(tracked.unsynced.keys().copied()) {
            pmem.dax.served(tracked.id, first, count);
        }
        Some(has_work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::TxLimits;
    use units::Bytes;

    #[test]
    fn the_log_is_taken_where_it_alone_is_safe_and_there_is_no_window() {
        let shape = |byte_domain, block_domain, pmem| Shape {
            byte_domain,
            block_domain,
            pmem: Bytes::from_kib(pmem),
            transactions: Some(TxLimits { open: 1, lines: 1 }),
            ..Shape::plain(Bytes::from_mib(1), Bytes::from_kib(4))
        };
        use PersistenceDomain::{Device, Flash};
        assert_eq!(DaxAt::of(&shape(Device, Flash, 0)), DaxAt::Log);
        for other in [
            shape(Device, Flash, 64),
            shape(Device, Device, 0),
            shape(Flash, Flash, 0),
        ] {
            assert_eq!(DaxAt::of(&other), DaxAt::Window);
        }
        for at in DaxAt::ALL {
            assert_eq!(at.to_string().parse(), Ok(at));
        }
        let wrong = "dram".parse::<DaxAt>().unwrap_err();
        assert!(wrong.contains("dax_at=dram is none"), "{wrong}");
    }
}
