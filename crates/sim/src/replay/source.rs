//! Where requests come from: a pattern or a block trace.

use super::pattern::Generator;
use super::workload::{Arrivals, Input, Port, Workload};
use crate::error::SimError;
use trace::foreign::block::{BlockReader, block_requests};
use units::{Bytes, PageSize, Time};

/// Lines or pages of one request at most: each is an operation with a record of its own.
const MOST_OPERATIONS: u64 = 1 << 16;

/// A request as it is offered to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostRequest {
    /// When it arrives, in an open loop.
    pub at: Time,
    /// Its first byte.
    pub offset: Bytes,
    /// Its length.
    pub size: Bytes,
    /// Whether it writes.
    pub is_write: bool,
}

enum Kind {
    Pattern {
        generator: Generator,
        size: Bytes,
    },
    File {
        reader: Box<BlockReader>,
        name: String,
    },
}

/// The requests of a workload.
pub struct Source {
    kind: Kind,
    /// Requests that may still be given.
    left: u64,
    /// Requests given so far.
    given: u64,
    capacity: Bytes,
    /// Bytes of a request at most.
    largest: Bytes,
    speedup_milli: u64,
    port: Port,
}

impl Source {
    /// The requests of `workload` on a device that exports `capacity` in pages of `page`.
    ///
    /// # Errors
    /// The workload does not fit the device, or its file cannot be read.
    pub fn open(
        workload: &Workload,
        capacity: Bytes,
        page: PageSize,
        seed: u64,
    ) -> Result<Self, SimError> {
        let speedup_milli = match workload.arrivals {
            Arrivals::Open { speedup_milli } => speedup_milli,
            Arrivals::Closed(0) => {
                return Err(SimError::Mismatch("--qd 0: must be 1 or more".to_string()));
            }
            Arrivals::Closed(_) => 1000,
        };
        if speedup_milli == 0 {
            return Err(SimError::Mismatch(
                "--speedup: must be 0.001 or more".to_string(),
            ));
        }
        let (kind, port) = match &workload.input {
            Input::Synthetic(synthetic) => {
                let generator = Generator::new(synthetic, capacity, page, seed)?;
                let size = synthetic.block;
                (Kind::Pattern { generator, size }, Port::for_size(size))
            }
            Input::File(path) => {
                let reader = block_requests(path).map_err(|error| trace_error(&error))?;
                let name = path.display().to_string();
                (
                    Kind::File {
                        reader: Box::new(reader),
                        name,
                    },
                    Port::Block,
                )
            }
        };
        if matches!(kind, Kind::Pattern { .. })
            && matches!(workload.arrivals, Arrivals::Open { .. })
        {
            return Err(SimError::Mismatch(
                "a pattern has no arrival times; say how many requests are under way with --qd"
                    .to_string(),
            ));
        }
        let port = workload.port.unwrap_or(port);
        let largest = port.unit(page) * MOST_OPERATIONS;
        if let Kind::Pattern { size, .. } = kind
            && size > largest
        {
            return Err(SimError::Mismatch(format!(
                "--bs {size}: must be {largest} or less through this port"
            )));
        }
        let limit = workload
            .limit
            .map(|limit| limit.saturating_add(workload.warmup));
        Ok(Self {
            kind,
            left: limit.unwrap_or(u64::MAX),
            given: 0,
            capacity,
            largest,
            speedup_milli,
            port,
        })
    }

    /// Through which port the requests go.
    pub fn port(&self) -> Port {
        self.port
    }

    /// Requests of the file that were stamped earlier than their predecessor.
    pub fn late(&self) -> u64 {
        match &self.kind {
            Kind::Pattern { .. } => 0,
            Kind::File { reader, .. } => reader.late(),
        }
    }

    /// The next request, if there is another.
    ///
    /// # Errors
    /// A record of the file is wrong or beyond the device.
    pub fn next(&mut self) -> Result<Option<HostRequest>, SimError> {
        if self.left == 0 {
            return Ok(None);
        }
        match &self.kind {
            Kind::Pattern { .. } => Ok(self.draw()),
            Kind::File { .. } => self.next_of_file(),
        }
    }

    /// The next request if this is a pattern that goes on: as [`Source::next`], but in registers. A
    /// result that is put together in memory and read back as a whole waits for its stores.
    #[inline]
    pub fn draw(&mut self) -> Option<HostRequest> {
        let Kind::Pattern { generator, size } = &mut self.kind else {
            return None;
        };
        self.left = self.left.checked_sub(1)?;
        self.given += 1;
        let (offset, is_write) = generator.next();
        Some(HostRequest {
            at: Time::ZERO,
            offset,
            size: *size,
            is_write,
        })
    }

    fn next_of_file(&mut self) -> Result<Option<HostRequest>, SimError> {
        let Kind::File { reader, name } = &mut self.kind else {
            unreachable!("a pattern is no file")
        };
        self.left -= 1;
        self.given += 1;
        let Some(request) = reader.next() else {
            return Ok(None);
        };
        let request = request.map_err(|error| trace_error(&error))?;
        let end = request.offset + request.size;
        if end > self.capacity {
            return Err(SimError::Trace(format!(
                "{name}: request {} ends at byte {}, beyond the device, which exports {}; choose a \
                 larger nand section",
                self.given,
                end.get(),
                self.capacity
            )));
        }
        if request.size > self.largest {
            return Err(SimError::Trace(format!(
                "{name}: request {} is of {}; through this port one may be of {}",
                self.given, request.size, self.largest
            )));
        }
        let at = u128::from(request.at.as_picos()) * 1000 / u128::from(self.speedup_milli);
        // As much again is left for the device to catch up.
        let at = u64::try_from(at).ok().filter(|at| *at <= u64::MAX / 2);
        let at = at.ok_or_else(|| {
            SimError::Trace(format!(
                "{name}: lasts longer than can be simulated, which is 106 days; use --speedup"
            ))
        })?;
        Ok(Some(HostRequest {
            at: Time::from_picos(at),
            offset: request.offset,
            size: request.size,
            is_write: request.is_write,
        }))
    }
}

fn trace_error(error: &trace::TraceError) -> SimError {
    SimError::Trace(error.to_string())
}
