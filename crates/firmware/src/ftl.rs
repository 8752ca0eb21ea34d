//! The flash translation layer: where pages are, where they go next, and how room is made.
//!
//! Interface only; see docs/ftl.md.

pub mod config;

pub use config::{EstimatorKind, FtlConfig, GcKind};

use crate::platform::{BufferId, NandTag, PagePlace, Platform};
use units::{FlashGeometry, Lpa, Picos, Time};

units::ids! {
    /// Whoever asked for a NAND operation; the FTL hands it back and knows nothing of it.
    Owner, "owner";
}

/// What a finished NAND operation means to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// The page is in `PagePlace::Register(tag)` until the call of `on_nand_done` is over.
    Read {
        /// Who asked.
        owner: Owner,
        /// Which page.
        lpa: Lpa,
        /// The page was programmed or trimmed after the read was submitted, so the register may
        /// hold older bytes. Relocation by GC does not make a read stale.
        stale: bool,
    },
    /// The page is on flash and, unless a program submitted later finished first, mapped.
    Programmed {
        /// Who asked.
        owner: Owner,
        /// Which page.
        lpa: Lpa,
    },
    /// A matter of the FTL alone.
    Internal,
}

/// What Algorithm 1 (SkyByte §III-A) says of a read submitted now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// tR × (reads queued + 1) + tProg × programs queued + tBERS × erases queued.
    pub latency: Picos,
    /// GC operations are queued before it: switch at once.
    pub gc_in_progress: bool,
}

/// Times of the flash that the estimator multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashTiming {
    /// tR: page read of a die.
    pub read: Picos,
    /// tProg: page program of a die.
    pub program: Picos,
    /// tBERS: block erase of a die.
    pub erase: Picos,
}

/// Counters of the FTL since the last reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FtlStats {
    /// Pages read for the controller.
    pub host_reads: u64,
    /// Pages programmed for the controller.
    pub host_programs: u64,
    /// Pages read by GC.
    pub gc_reads: u64,
    /// Pages programmed by GC.
    pub gc_programs: u64,
}

/// The flash translation layer.
pub struct Ftl {
    geometry: FlashGeometry,
    stats: FtlStats,
}

impl Ftl {
    /// A preconditioned device. GC uses the buffers `first_buffer` and the `config.gc_buffers - 1`
    /// after it.
    pub fn new(
        geometry: FlashGeometry,
        config: &FtlConfig,
        timing: FlashTiming,
        first_buffer: BufferId,
    ) -> Self {
        let _ = (config, timing, first_buffer);
        Self {
            geometry,
            stats: FtlStats::default(),
        }
    }
    /// Pages of the exported logical space; LPAs are below it.
    pub fn logical_page_count(&self) -> u64 {
        self.geometry.page_count()
    }
    /// Whether the page is on flash.
    pub fn is_mapped(&self, lpa: Lpa) -> bool {
        lpa.get() < self.logical_page_count()
    }
    /// Fetches a mapped page.
    pub fn read<P: Platform>(&mut self, at: Time, lpa: Lpa, owner: Owner, platform: &mut P) {
        let _ = (at, lpa, owner, platform);
    }
    /// Programs a page; waits inside while no die has room, so `from` must keep the bytes until
    /// `Done::Programmed`.
    pub fn program<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        from: PagePlace,
        owner: Owner,
        platform: &mut P,
    ) {
        let _ = (at, lpa, from, owner, platform);
    }
    /// Forgets a page; programs of it that are in flight come to nothing.
    pub fn trim(&mut self, lpa: Lpa) {
        let _ = lpa;
    }
    /// A NAND operation has finished.
    pub fn on_nand_done<P: Platform>(&mut self, now: Time, tag: NandTag, platform: &mut P) -> Done {
        let _ = (now, tag, platform);
        Done::Internal
    }
    /// How long a read of a mapped page submitted now would take, by Algorithm 1.
    pub fn estimate(&self, lpa: Lpa) -> Estimate {
        let _ = lpa;
        Estimate {
            latency: Picos::ZERO,
            gc_in_progress: false,
        }
    }
    /// Whether nothing is in flight or waiting.
    pub fn is_idle(&self) -> bool {
        true
    }
    /// Checks everything that can be checked.
    ///
    /// # Panics
    /// With a sentence, if an invariant is broken.
    pub fn audit(&self) {}
    /// Counters since the last reset.
    pub fn stats(&self) -> &FtlStats {
        &self.stats
    }
    /// Sets the counters to zero; wear stays.
    pub fn reset_stats(&mut self) {
        self.stats = FtlStats::default();
    }
}
