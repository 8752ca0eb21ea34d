//! MQSim_CXL traces: text, one access to the device for each line (`ASCII_Trace_Definition.h`,
//! `Host_Interface_CXL.cpp` and the trace translator of MQSim_CXL, 2023).
//!
//! ```text
//! time device address size type
//! 1600 0 69632 8 1
//! ```
//!
//! Time in nanoseconds, not falling; address in bytes (MQSim itself has sectors there); type 0
//! writes, 1 reads. Device and size are constants to MQSim_CXL, which takes 64 bytes for each
//! access; so does the import, the line that holds the address. The accesses are misses of the
//! caches of the machine that was traced, all of one thread, and its computation is the time
//! between them.

use crate::assembler::Assembler;
use crate::dictionary::AccessKind;
use crate::foreign::columns::{decimal, quoted};
use crate::foreign::memory::MemoryOnly;
use crate::foreign::{ForeignError, ImportOptions, Notes, Source};

/// Bytes of an access.
const LINE: u64 = 64;
/// Instructions of a nanosecond: one each cycle of 3 GHz.
const PER_NANOSECOND: u64 = 3;

/// Whether `head` is the beginning of a trace: of its first line, all five numbers.
pub(crate) fn recognise(_: &Source<'_>, head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next();
    line.is_some_and(|line| parse(line.trim_ascii()).is_ok())
}

/// Adds the trace in `source` to `out`.
pub(crate) fn import(
    source: &Source<'_>,
    options: &ImportOptions,
    out: &mut Assembler,
) -> Result<Notes, ForeignError> {
    let mut reader = source.open()?;
    let mut memory = MemoryOnly::new(out, options.dependencies);
    let thread = out.thread();
    let mut last = None;
    while let Some(line) = reader.line()? {
        let line = line.trim_ascii().as_bytes();
        if line.is_empty() {
            continue;
        }
        let access = parse(line).map_err(|problem| reader.fail(problem))?;
        let since = access
            .time
            .checked_sub(last.replace(access.time).unwrap_or(access.time));
        let since =
            since.ok_or_else(|| reader.fail("is earlier than the access before it".into()))?;
        let passed = since.saturating_mul(PER_NANOSECOND);
        memory.gap(out, thread, passed.saturating_sub(1));
        let operand = (access.address & !(LINE - 1), LINE as u8);
        memory.access(out, thread, &[(access.kind, operand)]);
    }
    let mut notes = memory.notes();
    notes.extend([
        "no threads in the source: all are one".into(),
        format!("no instructions in the source: {PER_NANOSECOND} pass in a nanosecond"),
        format!("no sizes in the source: each access is a line of {LINE} bytes"),
    ]);
    Ok(notes)
}

struct Access {
    time: u64,
    address: u64,
    kind: AccessKind,
}

fn parse(line: &[u8]) -> Result<Access, String> {
    let parsed = || {
        let mut numbers = line.split(|byte| *byte == b' ').map(decimal);
        let mut next = || numbers.next().flatten();
        let (time, _device, address, _size) = (next()?, next()?, next()?, next()?);
        let kind = match next()? {
            0 => AccessKind::Store,
            1 => AccessKind::Load,
            _ => return None,
        };
        numbers.next().is_none().then_some(Access {
            time,
            address,
            kind,
        })
    };
    parsed().ok_or_else(|| {
        format!(
            "is not `time device address size type` with type 0 or 1: {}",
            quoted(line)
        )
    })
}
