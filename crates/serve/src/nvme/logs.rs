//! Log pages.

use super::entry::admin;
use super::io::opcode;
use super::status::Status;
use super::subsystem::{DISCOVERY, Subsystem};
use super::wire::CommandId;
use port::DeviceStats;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Which page.
pub(super) mod page {
    pub const ERRORS: u8 = 0x01;
    pub const HEALTH: u8 = 0x02;
    pub const FIRMWARE: u8 = 0x03;
    pub const CHANGED: u8 = 0x04;
    pub const COMMANDS: u8 = 0x05;
    pub const DISCOVERY: u8 = 0x70;
}

/// A command that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    /// The how-manyth of the controller.
    pub number: u64,
    pub queue: u16,
    pub command: CommandId,
    pub status: Status,
    pub block: u64,
    pub namespace: u32,
}

/// The last failures, the newest first.
pub(super) fn errors(failures: &VecDeque<Failure>, entries: usize) -> Vec<u8> {
    let mut out = vec![0; entries * 64];
    for (entry, failure) in out.chunks_exact_mut(64).zip(failures) {
        entry[..8].copy_from_slice(&failure.number.to_le_bytes());
        entry[8..10].copy_from_slice(&failure.queue.to_le_bytes());
        entry[10..12].copy_from_slice(&failure.command.0.to_le_bytes());
        entry[12..14].copy_from_slice(&(failure.status.0 << 1).to_le_bytes());
        // No field of the command in particular.
        entry[14..16].copy_from_slice(&u16::MAX.to_le_bytes());
        entry[16..24].copy_from_slice(&failure.block.to_le_bytes());
        entry[24..28].copy_from_slice(&failure.namespace.to_le_bytes());
        // Over TCP.
        entry[29] = 3;
    }
    out
}

/// What is critical.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Warning(pub u8);

impl Warning {
    /// The device has stopped.
    pub const STOPPED: Self = Self(1 << 2);
    /// The flash can only be read.
    pub const READ_ONLY: Self = Self(1 << 3);
}

impl Warning {
    /// Whether it is among these.
    pub fn is_in(self, others: Self) -> bool {
        others.0 & self.0 != 0
    }
}

/// What has happened to the device since the server has it, which every controller tells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    pub warning: Warning,
    /// Commands for which the flash had lost blocks, or did not take them.
    pub lost: u64,
}

/// Health (SMART). Temperature, spare and wear are not reported: the ports of a device have none.
pub(super) fn health(stats: &DeviceStats, health: Health, failures: u64) -> Vec<u8> {
    let mut out = vec![0; 512];
    let mut put = |at: usize, value: u64| {
        out[at..at + 16].copy_from_slice(&u128::from(value).to_le_bytes());
    };
    let ports = [&stats.byte_port, &stats.block_port];
    // Thousands of 512 bytes.
    let units = |bytes: u64| bytes.div_ceil(512_000);
    put(32, units(ports.iter().map(|port| port.to_host.get()).sum()));
    put(
        48,
        units(ports.iter().map(|port| port.to_device.get()).sum()),
    );
    put(64, ports.iter().map(|port| port.reads).sum());
    put(80, ports.iter().map(|port| port.writes).sum());
    put(160, health.lost);
    put(176, failures);
    out[0] = health.warning.0;
    out
}

/// One slot with the firmware that there is.
pub(super) fn firmware() -> Vec<u8> {
    let mut out = vec![0; 512];
    out[0] = 1;
    out[8..16].fill(b' ');
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let size = version.len().min(8);
    out[8..8 + size].copy_from_slice(&version[..size]);
    out
}

/// Which commands there are, and which of them change blocks.
pub(super) fn commands(is_discovery: bool) -> Vec<u8> {
    const SUPPORTED: u32 = 1;
    const CHANGES: u32 = 1 << 1;
    let mut out = vec![0; 4096];
    let mut put = |at: usize, opcode: u8, effects: u32| {
        let at = at + usize::from(opcode) * 4;
        out[at..at + 4].copy_from_slice(&effects.to_le_bytes());
    };
    for code in [
        admin::GET_LOG_PAGE,
        admin::IDENTIFY,
        admin::ABORT,
        admin::SET_FEATURES,
        admin::GET_FEATURES,
        admin::ASYNC_EVENT,
        admin::KEEP_ALIVE,
    ] {
        put(0, code, SUPPORTED);
    }
    if !is_discovery {
        for code in opcode::READING {
            put(1024, code, SUPPORTED);
        }
        for code in opcode::CHANGING {
            put(1024, code, SUPPORTED | CHANGES);
        }
    }
    out
}

/// Where subsystems are: this one, and who tells of it.
pub(super) fn discovery(subsystem: &Subsystem, place: Option<SocketAddr>) -> Vec<u8> {
    const ENTRY: usize = 1024;
    let mut out = vec![0; ENTRY];
    let Some(place) = place else {
        return out;
    };
    out[8..16].copy_from_slice(&2_u64.to_le_bytes());
    for (kind, name) in [(3, DISCOVERY), (2, subsystem.name())] {
        let mut entry = vec![0; ENTRY];
        let mut put = |at: usize, bytes: &[u8]| entry[at..at + bytes.len()].copy_from_slice(bytes);
        let mut spaced = [b' '; 32];
        let port = place.port().to_string();
        spaced[..port.len()].copy_from_slice(port.as_bytes());
        put(0, &[3, if place.is_ipv4() { 1 } else { 2 }, kind]);
        // Controllers are made when hosts connect.
        put(6, &u16::MAX.to_le_bytes());
        put(8, &32_u16.to_le_bytes());
        put(32, &spaced);
        put(256, name.as_bytes());
        put(512, &[b' '; 256]);
        put(512, place.ip().to_string().as_bytes());
        out.extend(entry);
    }
    out
}
