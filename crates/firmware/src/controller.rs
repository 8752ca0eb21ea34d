//! The controller: requests in, answers out.
//!
//! Interface only; see docs/firmware.md.

use crate::config::ControllerConfig;
use crate::ftl::{Ftl, FtlStats};
use crate::platform::{BufferId, NandTag, Platform, Request, Timer};
use crate::stats::ControllerStats;
use units::{FrameId, LineAddr, LogSlot, Lpa, Time};

/// Where the copies of a line are; all of them are equal (invariant of the model tests).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copies {
    /// The newest slot of the write log that holds the line.
    pub log: Option<LogSlot>,
    /// The resident frame that holds the page.
    pub frame: Option<FrameId>,
}

/// The controller of a memory-semantic SSD. Owns the FTL.
pub struct Controller {
    ftl: Ftl,
    stats: ControllerStats,
}

impl Controller {
    /// A preconditioned device with empty DRAM.
    ///
    /// # Panics
    /// If `config.validate()` has problems.
    pub fn new(config: &ControllerConfig) -> Self {
        let first = BufferId::new(config.ssd.buffers);
        Self {
            ftl: Ftl::new(config.geometry, &config.ftl, config.timing, first),
            stats: ControllerStats::default(),
        }
    }

    /// A host request has arrived. It is answered once, in this call or in a later one.
    ///
    /// Two requests for one line must not be outstanding together unless both are reads (the host
    /// keeps that order, as CXL.mem wants).
    pub fn on_request<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        let _ = (now, request, platform);
    }

    /// A NAND operation has finished.
    pub fn on_nand_done<P: Platform>(&mut self, now: Time, tag: NandTag, platform: &mut P) {
        let _ = (now, tag, platform);
    }

    /// A timer has rung.
    pub fn on_timer<P: Platform>(&mut self, now: Time, timer: Timer, platform: &mut P) {
        let _ = (now, timer, platform);
    }

    /// The host has copied the page and owns it now: frame and log entries are dropped (D20).
    /// Returns whether the page differed from flash. The host's requests for the page that were
    /// sent before have been answered.
    pub fn on_promotion_done<P: Platform>(
        &mut self,
        now: Time,
        lpa: Lpa,
        platform: &mut P,
    ) -> bool {
        let _ = (now, lpa, platform);
        false
    }

    /// The host declines the offer of a page; it may be offered again when it is hot again.
    pub fn on_promotion_refused(&mut self, lpa: Lpa) {
        let _ = lpa;
    }

    /// Pages of the exported logical space.
    pub fn logical_page_count(&self) -> u64 {
        self.ftl.logical_page_count()
    }

    /// Where the copies of a line in device DRAM are.
    pub fn copies_of(&self, line: LineAddr) -> Copies {
        let _ = line;
        Copies::default()
    }

    /// Whether nothing is in flight or waiting.
    pub fn is_idle(&self) -> bool {
        self.ftl.is_idle()
    }

    /// Checks everything that can be checked; for tests and `--audit`.
    ///
    /// # Panics
    /// With a sentence, if an invariant is broken.
    pub fn audit(&self) {
        self.ftl.audit();
    }

    /// Counters since the last reset.
    pub fn stats(&self) -> &ControllerStats {
        &self.stats
    }

    /// Counters of the FTL since the last reset.
    pub fn ftl_stats(&self) -> &FtlStats {
        self.ftl.stats()
    }

    /// Sets all counters to zero; contents stay.
    pub fn reset_stats(&mut self) {
        self.stats = ControllerStats::default();
        self.ftl.reset_stats();
    }
}
