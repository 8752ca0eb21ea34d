//! Firmware with the log index that the configuration names.

use crate::platform::Firmware;
use firmware::log_index::{SkipList, TwoLevelHash};
use firmware::{
    Controller, ControllerConfig, ControllerStats, Copies, Drain, Durable, Failures, FtlStats,
    Fullness, Health, LogIndexKind, NandFault, NandTag, Platform, Refusal, Request, Timer,
    UnsoundState,
};
use units::{DieId, LineAddr, LineMask, Lpa, Time, TxId};

/// A controller with either index of the log.
#[derive(Clone)]
pub enum AnyController {
    /// SkyByte's.
    TwoLevelHash(Box<Controller<TwoLevelHash>>),
    /// ByteFS's.
    SkipList(Box<Controller<SkipList>>),
}

/// The same call of either.
macro_rules! either {
    ($any:expr, $controller:ident => $call:expr) => {
        match $any {
            AnyController::TwoLevelHash($controller) => $call,
            AnyController::SkipList($controller) => $call,
        }
    };
}

impl AnyController {
    /// A preconditioned device with empty DRAM.
    ///
    /// # Panics
    /// If `config.validate()` has problems.
    pub fn new(config: &ControllerConfig) -> Self {
        match config.ssd.log.index {
            LogIndexKind::TwoLevelHash => {
                Self::TwoLevelHash(Box::new(Controller::with_index(config)))
            }
            LogIndexKind::SkipList => Self::SkipList(Box::new(Controller::with_index(config))),
        }
    }

    /// Takes over what a power cut has left: of a new device that is nothing.
    ///
    /// # Errors
    /// The tables are damaged.
    pub fn recover<P: Platform>(
        config: &ControllerConfig,
        tables: &impl Durable,
        now: Time,
        platform: &mut P,
    ) -> Result<Self, UnsoundState> {
        Ok(match config.ssd.log.index {
            LogIndexKind::TwoLevelHash => {
                let controller = Controller::recover(config, tables, now, platform)?;
                Self::TwoLevelHash(Box::new(controller))
            }
            LogIndexKind::SkipList => {
                let controller = Controller::recover(config, tables, now, platform)?;
                Self::SkipList(Box::new(controller))
            }
        })
    }

    /// Starts to bring everything that is logged to flash; [`Self::is_drained`] says when it is.
    pub fn drain_log<P: Platform>(&mut self, now: Time, platform: &mut P) -> Drain {
        either!(self, controller => controller.drain_log(now, platform))
    }

    /// Whether what was logged when a drain was asked for is on flash.
    #[inline]
    pub fn is_drained(&self, drain: Drain) -> bool {
        either!(self, controller => controller.is_drained(drain))
    }

    /// Lines of open transactions that the log keeps at most.
    pub fn most_open_lines(&self) -> u32 {
        either!(self, controller => controller.most_open_lines())
    }

    /// The open transaction that has written a line.
    pub fn holder(&self, line: LineAddr) -> Option<TxId> {
        either!(self, controller => controller.holder(line))
    }

    /// Keeps room for so many lines of a transaction.
    ///
    /// # Errors
    /// Why there is none ([`Controller::reserve`]).
    pub fn reserve(&mut self, tx: TxId, lines: u32) -> Result<(), Refusal> {
        either!(self, controller => controller.reserve(tx, lines))
    }

    /// How the device is.
    pub fn health(&self) -> Health {
        either!(self, controller => controller.health())
    }

    /// What controller and FTL have counted.
    pub fn stats(&self) -> (&ControllerStats, &FtlStats) {
        either!(self, controller => (controller.stats(), controller.ftl_stats()))
    }

    /// Sets all counters to zero; contents stay.
    pub fn reset_stats(&mut self) {
        either!(self, controller => controller.reset_stats());
    }

    /// What has failed.
    pub fn failures(&self) -> Failures {
        either!(self, controller => controller.failures())
    }

    /// Whether flash has no room left, and nothing is under way that could make any.
    #[inline]
    pub fn is_stuck(&self) -> bool {
        either!(self, controller => controller.is_stuck())
    }

    /// How full everything is.
    pub fn fullness(&self) -> Fullness {
        either!(self, controller => controller.fullness())
    }

    /// Where the copies of a line in device DRAM are.
    pub fn copies_of(&self, line: LineAddr) -> Copies {
        either!(self, controller => controller.copies_of(line))
    }

    /// The die that a page is on, if it is mapped.
    pub fn die_of(&self, page: Lpa) -> Option<DieId> {
        either!(self, controller => controller.die_of(page))
    }

    /// Checks everything that can be checked.
    ///
    /// # Panics
    /// With a sentence, if an invariant is broken.
    pub fn audit(&self) {
        either!(self, controller => controller.audit());
    }
}

impl Firmware for AnyController {
    #[inline(always)]
    fn on_request<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        either!(self, controller => controller.on_request(now, request, platform));
    }
    #[inline]
    fn on_nand<P: Platform>(
        &mut self,
        now: Time,
        tag: NandTag,
        fault: Option<NandFault>,
        platform: &mut P,
    ) {
        either!(self, controller => Firmware::on_nand(controller.as_mut(), now, tag, fault, platform));
    }
    fn on_lines<P: Platform>(
        &mut self,
        now: Time,
        tag: NandTag,
        lines: LineMask,
        platform: &mut P,
    ) {
        either!(self, controller => controller.on_lines(now, tag, lines, platform));
    }
    #[inline]
    fn on_timer<P: Platform>(&mut self, now: Time, timer: Timer, platform: &mut P) {
        either!(self, controller => controller.on_timer(now, timer, platform));
    }
}
