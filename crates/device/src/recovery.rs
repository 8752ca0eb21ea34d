//! The firmware as it begins, from what a power cut has left: of a new image that is nothing.

use crate::config::DeviceConfig;
use crate::error::DeviceFileError;
use crate::tables::Tables;
use crate::world::World;
use firmware::log_index::{SkipList, TwoLevelHash};
use firmware::{
    Controller, ControllerStats, Durable, Failures, FtlStats, Fullness, Health, LogIndexKind,
    NandFault, NandTag, Request, Timer, UnsoundState,
};
use std::path::Path;
use units::address::LINE_BYTES;
use units::{Picos, Time};

/// The firmware, with the log index that the configuration names.
pub enum Brain {
    /// SkyByte's.
    Hash(Box<Controller<TwoLevelHash>>),
    /// ByteFS's.
    Skip(Box<Controller<SkipList>>),
}

/// The same call of either.
macro_rules! either {
    ($brain:expr, $controller:ident => $call:expr) => {
        match $brain {
            Brain::Hash($controller) => $call,
            Brain::Skip($controller) => $call,
        }
    };
}

impl Brain {
    /// Takes over what the tables say. `tables` is a second look at the file that `world` writes.
    ///
    /// # Errors
    /// The tables are damaged.
    pub fn recover(
        config: &DeviceConfig,
        tables: &Tables,
        world: &mut World,
    ) -> Result<Self, UnsoundState> {
        let (now, parts) = (world.now(), config.controller());
        Ok(match config.ssd.log_index {
            LogIndexKind::TwoLevelHash => {
                Self::Hash(Box::new(Controller::recover(&parts, tables, now, world)?))
            }
            LogIndexKind::SkipList => {
                Self::Skip(Box::new(Controller::recover(&parts, tables, now, world)?))
            }
        })
    }

    /// A host request has arrived.
    #[inline]
    pub fn on_request(&mut self, now: Time, request: Request, world: &mut World) {
        either!(self, controller => controller.on_request(now, request, world));
    }

    /// A NAND operation is over.
    pub fn on_nand(&mut self, now: Time, tag: NandTag, fault: Option<NandFault>, to: &mut World) {
        match fault {
            None => either!(self, controller => controller.on_nand_done(now, tag, to)),
            Some(fault) => {
                either!(self, controller => controller.on_nand_failed(now, tag, fault, to));
            }
        }
    }

    /// A timer has rung.
    pub fn on_timer(&mut self, now: Time, timer: Timer, world: &mut World) {
        either!(self, controller => controller.on_timer(now, timer, world));
    }

    /// Starts to bring everything that is logged to flash.
    pub fn drain_log(&mut self, now: Time, world: &mut World) {
        either!(self, controller => controller.drain_log(now, Vec::new(), world));
    }

    /// How the device is.
    pub fn health(&self) -> Health {
        either!(self, controller => controller.health())
    }

    /// What controller and FTL have counted since the image was opened.
    pub fn stats(&self) -> (&ControllerStats, &FtlStats) {
        either!(self, controller => (controller.stats(), controller.ftl_stats()))
    }

    /// What has failed since the image was opened.
    pub fn failures(&self) -> Failures {
        either!(self, controller => controller.failures())
    }

    /// How full everything is.
    pub fn fullness(&self) -> Fullness {
        either!(self, controller => controller.fullness())
    }

    /// Checks everything that can be checked.
    pub fn audit(&self) {
        either!(self, controller => controller.audit());
    }
}

/// What opening an image takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Slots of the write log, whose headers are read.
    pub slots: u64,
    /// Lines among them that a record vouches for, committed or not.
    pub lines: u64,
    /// Commits in the log of transactions.
    pub commits: u64,
    /// Accounted time: an access to device DRAM for each header of a slot or buffer and for each
    /// line of 64 B of the TxLog, and an access to the index for each line.
    pub scan: Picos,
}

impl Recovered {
    /// Of an image that is about to be opened.
    pub fn of(config: &DeviceConfig, tables: &Tables) -> Self {
        let slots = 2 * config.ssd.half_slot_count();
        let lines = tables.logged().count() as u64;
        let buffers = u64::from(config.ssd.buffers) + u64::from(config.ftl.gc_buffers);
        let of_commits = config.ssd.tx_log.get().div_ceil(LINE_BYTES.get());
        let read = config.ssd.dram_latency * (slots + buffers + of_commits);
        Self {
            slots,
            lines,
            commits: tables.committed().count() as u64,
            scan: read + config.ssd.log_lookup * lines,
        }
    }
}

/// Checks tables that are about to be changed before the firmware sees them.
///
/// # Errors
/// The tables are damaged.
pub fn check(config: &DeviceConfig, tables: &Tables, dram: &Path) -> Result<(), DeviceFileError> {
    let mut first = None;
    firmware::check_tables(&config.controller(), tables, &mut |unsound| {
        first.get_or_insert(unsound);
    });
    let damaged = |unsound: UnsoundState| DeviceFileError::damaged(dram, unsound.to_string());
    first.map_or(Ok(()), |unsound| Err(damaged(unsound)))
}

/// The firmware of an image that was just opened.
///
/// # Errors
/// The tables are damaged.
pub fn start(
    config: &DeviceConfig,
    tables: &Tables,
    world: &mut World,
    dram: &Path,
) -> Result<Brain, DeviceFileError> {
    let recovered = Brain::recover(config, tables, world);
    recovered.map_err(|unsound| DeviceFileError::damaged(dram, unsound.to_string()))
}

/// The first name for a transaction that nothing in the tables has.
pub fn first_free_transaction(tables: &Tables) -> u32 {
    let logged = tables.logged().map(|(_, line)| line.tx.get());
    let committed = tables.committed().map(|(_, tx)| tx.get());
    let last = logged.chain(committed).max().unwrap_or(0);
    last.wrapping_add(1).max(1)
}
