//! Data structures of Identify. Bytes that are not named are zero: not supported, or not reported.

use super::entry::{MOST_DATA_SHIFT, NAMESPACE};
use super::session::MOST_IN_CAPSULE;
use super::subsystem::{DISCOVERY, Subsystem};
use units::Bytes;

/// Bytes of each of them.
pub(super) const BYTES: usize = 4096;
/// Version 1.4.
pub(super) const VERSION: u32 = 0x0001_0400;
/// Most commands of a queue at a time.
pub(super) const MOST_ENTRIES: u16 = 128;
/// Asynchronous event requests that are kept, less one.
pub(super) const EVENTS_LESS_ONE: u8 = 3;
/// Entries of the error log.
pub(super) const ERRORS: usize = 16;
/// Granularity of keep alive, in 100 ms.
const KEEP_ALIVE_UNITS: u16 = 10;

/// Which structure (CNS).
pub(super) mod structure {
    pub const NAMESPACE: u8 = 0x00;
    pub const CONTROLLER: u8 = 0x01;
    pub const ACTIVE: u8 = 0x02;
    pub const DESCRIPTORS: u8 = 0x03;
    pub const SET_NAMESPACE: u8 = 0x05;
    pub const SET_CONTROLLER: u8 = 0x06;
    pub const SETS: u8 = 0x1c;
}

/// Bytes being made.
struct Structure(Vec<u8>);

impl Structure {
    fn new() -> Self {
        Self(vec![0; BYTES])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Letters, with spaces behind them.
    fn text(&mut self, at: usize, size: usize, text: &str) -> &mut Self {
        self.0[at..at + size].fill(b' ');
        let size = size.min(text.len());
        self.put(at, &text.as_bytes()[..size])
    }
}

/// The controller: of the device, or the one that tells of it.
pub(super) fn controller(subsystem: &Subsystem, id: u16, is_discovery: bool) -> Vec<u8> {
    let mut out = Structure::new();
    let name = if is_discovery {
        DISCOVERY
    } else {
        subsystem.name()
    };
    out.text(4, 20, &serial(subsystem))
        .text(24, 40, "Entresol memory-semantic SSD")
        .text(64, 8, env!("CARGO_PKG_VERSION"))
        .put(77, &[MOST_DATA_SHIFT])
        .put(78, &id.to_le_bytes())
        .put(80, &VERSION.to_le_bytes())
        // Traffic keeps alive.
        .put(96, &(1_u32 << 6).to_le_bytes())
        .put(111, &[if is_discovery { 2 } else { 1 }])
        .put(259, &[EVENTS_LESS_ONE])
        // The log page of commands, and offsets into log pages.
        .put(261, &[0b110])
        .put(262, &[ERRORS as u8 - 1])
        .put(320, &KEEP_ALIVE_UNITS.to_le_bytes())
        .put(514, &MOST_ENTRIES.to_le_bytes())
        // SGLs; data in the capsule by offset, or by the transport's descriptor.
        .put(536, &(1_u32 | 1 << 20 | 1 << 21).to_le_bytes())
        .put(768, name.as_bytes())
        .put(1792, &((64 + MOST_IN_CAPSULE) / 16).to_le_bytes())
        .put(1796, &1_u32.to_le_bytes())
        .put(1803, &[1]);
    if !is_discovery {
        // Several controllers may be in the subsystem.
        out.put(76, &[0b10])
            // Entries of 64 and 16 bytes.
            .put(512, &[0x66, 0x44])
            .put(516, &NAMESPACE.to_le_bytes())
            // Compare, dataset management, write zeroes.
            .put(520, &0b1101_u16.to_le_bytes())
            // A flush may be of all namespaces.
            .put(525, &[0b110 | u8::from(subsystem.is_volatile())])
            // All vendor's commands have the one format.
            .put(530, &[1]);
    }
    out.0
}

/// The device's identifier in letters, as far as a serial number has room.
fn serial(subsystem: &Subsystem) -> String {
    let id = subsystem.id();
    id[..10].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The namespace, which may be one that can only be read.
pub(super) fn namespace(subsystem: &Subsystem, is_read_only: bool) -> Vec<u8> {
    let blocks = subsystem.blocks().to_le_bytes();
    let size = u128::from(subsystem.size().get()).to_le_bytes();
    let mut out = Structure::new();
    out.put(0, &blocks)
        .put(8, &blocks)
        .put(16, &blocks)
        // Several controllers may have it.
        .put(30, &[1])
        // What is deallocated reads as zeroes; write zeroes can deallocate.
        .put(33, &[0b1001])
        .put(48, &size)
        .put(99, &[u8::from(is_read_only)])
        .put(104, &subsystem.id())
        // The one format: blocks without metadata.
        .put(128, &(u32::from(subsystem.shift()) << 16).to_le_bytes());
    out.0
}

/// The numbers of namespaces above `above`.
pub(super) fn active(above: u32) -> Vec<u8> {
    let mut out = Structure::new();
    if above < NAMESPACE {
        out.put(0, &NAMESPACE.to_le_bytes());
    }
    out.0
}

/// By which names the namespace is known in the world, and its command set.
pub(super) fn descriptors(subsystem: &Subsystem) -> Vec<u8> {
    let mut uuid = subsystem.id();
    // A UUID of our own making: version 8, variant 1.
    uuid[6] = 0x80 | uuid[6] & 0x0f;
    uuid[8] = 0x80 | uuid[8] & 0x3f;
    let mut out = Structure::new();
    out.put(0, &[2, 16, 0, 0])
        .put(4, &subsystem.id())
        .put(20, &[3, 16, 0, 0])
        .put(24, &uuid)
        // The NVM command set has number 0.
        .put(40, &[4, 1, 0, 0]);
    out.0
}

/// What a deallocation had better not exceed, so that no other command waits for it for long: as
/// many ranges as can be told, and so much in each and in all of them.
const DEALLOCATED: (u8, Bytes) = (u8::MAX, Bytes::from_mib(1024));

/// Limits of the NVM command set: of deallocations (DMRL, DMRSL, DMSL).
pub(super) fn set_controller(subsystem: &Subsystem) -> Vec<u8> {
    let (ranges, size) = DEALLOCATED;
    let blocks = subsystem.blocks().min(size.get() >> subsystem.shift());
    let mut out = Structure::new();
    out.put(3, &[ranges])
        // A gibibyte has fewer blocks than that.
        .put(4, &(blocks as u32).to_le_bytes())
        .put(8, &blocks.to_le_bytes());
    out.0
}

/// Of the namespace the NVM command set has nothing to say.
pub(super) fn nothing() -> Vec<u8> {
    Structure::new().0
}

/// The one combination of command sets: NVM.
pub(super) fn sets() -> Vec<u8> {
    let mut out = Structure::new();
    out.put(0, &1_u64.to_le_bytes());
    out.0
}
