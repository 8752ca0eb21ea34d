//! The controller after a power cut, from what survived it (ByteFS §4.7).
//!
//! Mapping and blocks are as recorded. Of the log, the lines that are committed are indexed anew in
//! the order of their writes: the half of the latest one is active, and if the other one has lines
//! too, it was being compacted, which begins again. A page that a buffer has is programmed again,
//! and log lines that are older than it count no more. A frame that was kept is in the data cache
//! again, dirty, unless a buffer is newer; what it lacks of its page is fetched. Then the device
//! serves.
//!
//! Power may fail again at any moment of it: what is dropped here counted for nothing already, as
//! something newer or no commit says, so whoever recovers next comes to the same.

use super::Controller;
use super::tables::{CheckedTables, UnsoundState};
use crate::config::ControllerConfig;
use crate::durable::{BufferedPage, Durable, KeptFrame, LoggedLine, Record};
use crate::ftl::Ftl;
use crate::log_index::LogIndex;
use crate::platform::{BufferId, Platform};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use units::{FrameId, LogSlot, Lpa, Time, TxId};

/// The lines and pages that count.
struct Survivors {
    /// In the order of their writes.
    lines: Vec<(LogSlot, LoggedLine)>,
    buffers: BTreeMap<Lpa, (BufferId, BufferedPage)>,
    frames: BTreeMap<Lpa, (FrameId, KeptFrame)>,
}

impl<I: LogIndex> Controller<I> {
    /// The controller of a device that `durable` has survived of. Tables that are refused are as
    /// they were: everything is checked before the first record.
    ///
    /// # Errors
    /// If the tables are damaged or of another device.
    ///
    /// # Panics
    /// If `config.validate()` has problems.
    pub fn recover<D: Durable, P: Platform>(
        config: &ControllerConfig,
        durable: &D,
        now: Time,
        platform: &mut P,
    ) -> Result<Self, UnsoundState> {
        let CheckedTables { lines, flash } = CheckedTables::read(config, durable, &mut Err)?;
        let mut controller = Self::with_ftl(config, |config| {
            let first_gc_buffer = BufferId::new(config.ssd.buffers);
            let parts = (config.geometry, &config.ftl, config.timing);
            Ftl::taken_over(parts, first_gc_buffer, flash, now, platform)
        });
        let survivors = controller.survivors(lines, durable, platform);
        controller.restore_commits(durable, survivors.lines.is_empty(), platform);
        if let Some(log) = controller.log.as_mut() {
            log.restore(&survivors.lines, now, platform);
        }
        controller.restore_buffers(now, &survivors.buffers, platform);
        for (frame, kept) in survivors.frames.into_values() {
            controller.restore_frame(now, (frame, kept), platform);
        }
        controller.pump_log(now, platform);
        controller.settle(now, platform);
        Ok(controller)
    }

    /// What counts; the rest is dropped.
    fn survivors<D: Durable, P: Platform>(
        &mut self,
        mut lines: Vec<(LogSlot, LoggedLine)>,
        durable: &D,
        platform: &mut P,
    ) -> Survivors {
        let mut buffers: BTreeMap<Lpa, (BufferId, BufferedPage)> = BTreeMap::new();
        for (buffer, page) in durable.buffered() {
            self.write_order = self.write_order.max(page.order);
            let other = buffers.get(&page.lpa).copied();
            let outdated = match other {
                Some((_, newer)) if newer.order > page.order => Some(buffer),
                _ => buffers
                    .insert(page.lpa, (buffer, page))
                    .map(|(older, _)| older),
            };
            if let Some(outdated) = outdated {
                platform.record(Record::Unbuffered(outdated));
            }
        }
        let committed: BTreeSet<TxId> = durable.committed().map(|(_, tx)| tx).collect();
        lines.retain(|(slot, logged)| {
            self.write_order = self.write_order.max(logged.order);
            let buffer = buffers.get(&logged.lpa);
            let is_newest = buffer.is_none_or(|(_, page)| page.order < logged.order);
            if is_newest && (logged.tx == TxId::NONE || committed.contains(&logged.tx)) {
                return true;
            }
            platform.record(Record::Dropped(*slot));
            false
        });
        let frames = self.surviving_frames(&buffers, durable, platform);
        Survivors {
            lines,
            buffers,
            frames,
        }
    }

    /// Of each page the newest frame, if no buffer is newer.
    fn surviving_frames<D: Durable, P: Platform>(
        &mut self,
        buffers: &BTreeMap<Lpa, (BufferId, BufferedPage)>,
        durable: &D,
        platform: &mut P,
    ) -> BTreeMap<Lpa, (FrameId, KeptFrame)> {
        let mut frames: BTreeMap<Lpa, (FrameId, KeptFrame)> = BTreeMap::new();
        for (frame, kept) in durable.framed() {
            self.write_order = self.write_order.max(kept.order);
            let of_buffer = buffers.get(&kept.lpa).map(|(_, page)| page.order);
            let of_frame = frames.get(&kept.lpa).map(|(_, other)| other.order);
            if of_buffer.max(of_frame) > Some(kept.order) {
                platform.record(Record::Unframed(frame));
            } else if let Some((older, _)) = frames.insert(kept.lpa, (frame, kept)) {
                platform.record(Record::Unframed(older));
            }
        }
        frames
    }

    /// What is committed counts until its lines are on flash; without lines it is forgotten.
    fn restore_commits<D: Durable, P: Platform>(
        &mut self,
        durable: &D,
        is_log_empty: bool,
        platform: &mut P,
    ) {
        if let Some(log) = self.log.as_mut() {
            log.restore_commits(durable.committed().collect(), is_log_empty, platform);
        }
    }

    fn restore_buffers<P: Platform>(
        &mut self,
        now: Time,
        buffers: &BTreeMap<Lpa, (BufferId, BufferedPage)>,
        platform: &mut P,
    ) {
        for (lpa, (buffer, _)) in buffers {
            self.back_end.restore(now, (*lpa, *buffer), platform);
        }
    }
}
