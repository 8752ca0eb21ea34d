//! Parameters of the link.

use serde::{Deserialize, Serialize};
use units::{BytesPerSec, Picos};

/// As what a store's fetch of its line reaches the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ownership {
    /// As a read.
    Read,
    /// As a write whose answer is taken for the line.
    Write,
}

units::parameters! {
    /// The CXL link between host and device.
    pub struct LinkConfig: "link" {
        /// Bandwidth of each direction, flit overhead included.
        bandwidth: BytesPerSec, "1MB/s to 1000GB/s, or unlimited", "SkyByte Table II (16GB/s, PCIe 5.0 x4)";
        /// Protocol latency of a request and its response together, half for each way.
        protocol_latency: Picos, "at most 1ms", "SkyByte Table II (40ns), round trip by D10";
        /// Writes that may be on their way without acknowledgement; at the limit the host holds
        /// reads back, so that a device whose log is full slows the program down.
        write_credits: u32, "1 to 65536", "our choice, the paper gives none: 256";
        /// As what a store's fetch of its line reaches the device: `read`, or `write`, which a
        /// device with a log appends there and answers at once, and one without takes for a read of
        /// a page that is dirty from then on.
        ownership: Ownership, "read or write", "SkyByte III-B (read); its artifact: write";
        /// Whether the answer to a written line puts it into L3 again, dirty; not in DRAM-Only.
        write_echo: bool, "true or false", "CXL.mem (false); SkyByte's artifact: true";
    }
}

impl LinkConfig {
    /// Everything that is out of range, one sentence each; empty if the section is usable.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let Self {
            bandwidth,
            protocol_latency,
            write_credits,
            ..
        } = self;
        if !(1..=65_536).contains(write_credits) {
            problems.push(format!(
                "link.write_credits is {write_credits}; it must be 1 to 65536"
            ));
        }
        let is_finite = (1_000_000..=1_000_000_000_000).contains(&bandwidth.get());
        if !is_finite && *bandwidth != BytesPerSec::UNLIMITED {
            problems.push(format!(
                "link.bandwidth is {bandwidth}; it must be 1MB/s to 1000GB/s, or unlimited"
            ));
        }
        if *protocol_latency > Picos::from_micros(1_000) {
            problems.push(format!(
                "link.protocol_latency is {protocol_latency}; it must be at most 1ms"
            ));
        }
        problems
    }
}
