//! What a design owes: bytes that are dirty and room that is not collected, and what it would take
//! to pay for them.

use crate::config::Config;
use crate::fabric::Fabric;
use firmware::Owed;
use nand::config::Parallelism;
use serde_json::{Value, json};
use units::address::LINE_BYTES;
use units::{PageSize, Picos};

/// What is dirty at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Debt {
    device: Owed,
    /// Pages of host DRAM that are newer than the device's, of a huge page all of its 4 KiB ones.
    host_pages: u64,
}

impl Debt {
    /// What is dirty now.
    pub(crate) fn of(fabric: &Fabric) -> Self {
        let device = fabric.device.as_ref();
        let on_device = device.map(|device| device.controller.owed());
        Self {
            device: on_device.unwrap_or_default(),
            host_pages: match (device, &fabric.page_store) {
                // Without a device nothing is ever to be written anywhere.
                (None, _) => 0,
                (Some(_), Some(store)) => store.cache.counts().1 as u64,
                (Some(_), None) => fabric.placement.dirty_chunk_count(),
            },
        }
    }

    /// As JSON; `amplified` is how many pages are programmed for so many of the controller's.
    pub(crate) fn json(&self, config: &Config, amplified: (u64, u64)) -> Value {
        let page = config.ftl.mapping_unit.bytes().get();
        let host_page = PageSize::KIB_4.bytes().get();
        let device = self.device;
        let host_pages = self.host_pages * host_page / page;
        let dirty = pay(config, device.pages, device.reads, amplified);
        let gc = time_of(config, device.gc_moved, device.gc_moved, device.gc_erased);
        json!({
            "frame_bytes": device.dirty_frames * page,
            "buffer_bytes": device.buffered * page,
            "log_bytes": device.log_lines * LINE_BYTES.get(),
            "host_bytes": self.host_pages * host_page,
            "program_pages": device.pages,
            "read_pages": device.reads,
            "host_program_pages": host_pages,
            "gc_program_pages": device.gc_moved,
            "gc_erase_pages": device.gc_erased,
            "pay_ps": (dirty + gc).get(),
            "gc_pay_ps": gc.get(),
            "host_pay_ps": pay(config, host_pages, 0, amplified).get(),
        })
    }
}

/// The time that programs of so many dirty pages take, with GC's share of them.
fn pay(config: &Config, pages: u64, reads: u64, amplified: (u64, u64)) -> Picos {
    let (programs, of) = amplified;
    let programmed = (pages * programs).checked_div(of).unwrap_or(pages);
    // What GC programs it has read before.
    let read = reads + programmed.saturating_sub(pages);
    time_of(config, programmed, read, programmed)
}

/// The time that so many programs, reads and pages to erase take when every die is busy with its
/// share and every channel moves its share: a lower bound.
fn time_of(config: &Config, programmed: u64, read: u64, erased: u64) -> Picos {
    let nand = &config.nand;
    let geometry = config.geometry();
    let units = u64::from(geometry.units_per_page);
    let dies = match nand.parallelism {
        Parallelism::Die => u64::from(geometry.die_count()),
        Parallelism::Channel => u64::from(nand.channels),
    };
    let erase = nand.erase_time() * erased / u64::from(geometry.units_per_block);
    let cells = nand.t_prog * programmed.div_ceil(units) + nand.t_r * read + erase;
    let transfer = nand.transfer_time_of(config.ftl.mapping_unit);
    let buses = transfer * (programmed + read);
    (cells / dies).max(buses / u64::from(nand.channels))
}
