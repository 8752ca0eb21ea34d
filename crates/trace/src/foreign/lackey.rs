//! Valgrind lackey, `valgrind --tool=lackey --trace-mem=yes`: text, one line for each fetch and
//! access (Valgrind 3.19 manual, §13; the lines are the same since 3.2).
//!
//! ```text
//! I  0401ab70,3
//!  S 1fff000758,8
//! ```
//!
//! `I` fetches an instruction, then ` L`, ` S` and ` M` are its loads, stores and updates: address
//! in hexadecimal, size in bytes in decimal. Lines that begin with `==` or `--` are Valgrind's own.
//! Threads are not told apart, so all are one.
//!
//! Branches are not named either. An instruction that the next one does not follow is one: a call
//! if it stores 8 bytes, a return if it loads 8 bytes and is at most 3 bytes long, otherwise
//! indirect if it loads or has gone to two places besides the next, otherwise conditional. It is
//! known as one from then on. An instruction with accesses that is followed by itself is an
//! iteration of a repeated string operation.

use crate::assembler::Assembler;
use crate::dictionary::AccessKind;
use crate::foreign::columns::{decimal, hexadecimal, quoted};
use crate::foreign::fetched::{Fetched, Sites};
use crate::foreign::memory::note;
use crate::foreign::{ForeignError, ImportOptions, Notes, Source};
use crate::inst::OpClass;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use units::ThreadId;

/// Bytes of a return address.
const RETURN_ADDRESS: u8 = 8;
/// Longest return: a prefix, or two bytes of how much to pop.
const LONGEST_RETURN: u8 = 3;
/// Length of a direct call; indirect ones are shorter or longer.
const DIRECT_CALL: u8 = 5;

/// Whether `head` is the beginning of a lackey trace.
pub(crate) fn recognise(_: &Source<'_>, head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n');
    let mut content = lines.filter(|line| !is_comment(line.trim_ascii()));
    content.next().is_some_and(|line| {
        line.starts_with(b"I  ") && parse(line).is_ok_and(|(kind, ..)| kind == Kind::Fetch)
    })
}

/// Adds the trace in `source` to `out`.
pub(crate) fn import(
    source: &Source<'_>,
    options: &ImportOptions,
    out: &mut Assembler,
) -> Result<Notes, ForeignError> {
    let mut reader = source.open()?;
    let mut program = Program {
        thread: out.thread(),
        fetched: Fetched::default(),
        sites: Sites::new(options.dependencies),
        flows: HashMap::default(),
    };
    while let Some(line) = reader.line()? {
        let line = line.trim_ascii().as_bytes();
        if is_comment(line) {
            continue;
        }
        let done = parse(line).and_then(|(kind, addr, size)| program.line(out, kind, addr, size));
        done.map_err(|problem| reader.fail(problem))?;
    }
    program.retire(out, None);
    Ok(vec![
        note(options.dependencies),
        "no threads in the source: all are one".into(),
        "no branches in the source: an instruction that the next does not follow is one".into(),
    ])
}

fn is_comment(line: &[u8]) -> bool {
    line.is_empty() || line.starts_with(b"==") || line.starts_with(b"--")
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Fetch,
    Access(AccessKind),
}

/// A line's kind, address and size.
fn parse(line: &[u8]) -> Result<(Kind, u64, u64), String> {
    let parsed = || {
        let (letter, rest) = line.trim_ascii().split_first()?;
        let kind = match letter {
            b'I' => Kind::Fetch,
            b'L' => Kind::Access(AccessKind::Load),
            b'S' => Kind::Access(AccessKind::Store),
            b'M' => Kind::Access(AccessKind::Update),
            _ => return None,
        };
        let numbers = rest.strip_prefix(b" ")?.trim_ascii_start();
        let comma = numbers.iter().position(|byte| *byte == b',')?;
        let (addr, size) = (&numbers[..comma], &numbers[comma + 1..]);
        Some((kind, hexadecimal(addr)?, decimal(size)?))
    };
    parsed().ok_or_else(|| {
        format!(
            "is no line of lackey: {}; keep the program's own output out of it (--log-file)",
            quoted(line)
        )
    })
}

/// Where an instruction has gone besides to the next one.
struct Flow {
    target: u64,
    elsewhere: bool,
}

struct Program {
    thread: ThreadId,
    fetched: Fetched,
    sites: Sites,
    flows: HashMap<u64, Flow, FxBuildHasher>,
}

impl Program {
    fn line(
        &mut self,
        out: &mut Assembler,
        kind: Kind,
        addr: u64,
        size: u64,
    ) -> Result<(), String> {
        match kind {
            Kind::Access(kind) => self.fetched.access(kind, addr, size),
            Kind::Fetch => {
                self.retire(out, Some(addr));
                self.fetched.begin(addr, size)
            }
        }
    }
    /// Executes the instruction that was fetched last, now that the next is known.
    fn retire(&mut self, out: &mut Assembler, next: Option<u64>) {
        if !self.fetched.is_some() {
            return;
        }
        let fetched = &self.fetched;
        let next = next.unwrap_or(fetched.fallthrough());
        let repeats = next == fetched.pc() && !fetched.accesses().is_empty();
        if next != fetched.fallthrough() && !repeats {
            let flow = self.flows.entry(fetched.pc()).or_insert(Flow {
                target: next,
                elsewhere: false,
            });
            flow.elsewhere |= flow.target != next;
        }
        let class = match self.flows.get(&fetched.pc()) {
            Some(flow) => branch_class(fetched, flow),
            None => fetched.plain_class(),
        };
        let inst = self.sites.find(out, fetched, class, repeats);
        out.execute(self.thread, inst, fetched.accesses());
    }
}

/// The class of an instruction that has gone elsewhere than to the next one.
fn branch_class(fetched: &Fetched, flow: &Flow) -> OpClass {
    match (fetched.accesses().last(), fetched.len()) {
        (Some((AccessKind::Store, (_, RETURN_ADDRESS))), DIRECT_CALL) => OpClass::Call,
        (Some((AccessKind::Store, (_, RETURN_ADDRESS))), _) => OpClass::IndirectCall,
        (Some((AccessKind::Load, (_, RETURN_ADDRESS))), ..=LONGEST_RETURN) => OpClass::Return,
        (Some(_), _) => OpClass::IndirectJump,
        (None, _) if flow.elsewhere => OpClass::IndirectJump,
        (None, _) => OpClass::CondBranch,
    }
}
