//! The oracle: which value each line has, and what a read must therefore give (D30).
//!
//! Captures hold no data, so the value of a line is how often it was written. The host sends no
//! read of a line while a write of it is on its way, and no write while anything of it is: what a
//! read gives is known when it is sent.

use super::is_of_line;
use crate::config::Config;
use ::firmware::{Request, RequestOp};
use hashbrown::HashMap;
use inloop::{Answered, Outcome};
use rustc_hash::FxBuildHasher;
use units::{LineAddr, RequestId};

/// Bits of a value that are the line's version; the others are its address.
const VERSION_BITS: u32 = 24;
const MOST_VERSION: u64 = (1 << VERSION_BITS) - 1;

/// The values that lines have.
#[derive(Debug)]
pub(super) struct Values {
    of_line: HashMap<LineAddr, u64, FxBuildHasher>,
    /// What the reads on their way are of.
    reads: HashMap<RequestId, LineAddr, FxBuildHasher>,
    /// The design loses writes on purpose, as the artifact does.
    is_followed: bool,
}

impl Values {
    pub(super) fn new(config: &Config) -> Self {
        let whole_pages = config.design.migration == crate::config::Migration::HostCache;
        let loses = config.host.promoted_dirt == host::placement::PromotedDirt::Forgotten
            || config.host.demotion == host::placement::DemotionKind::Lost
            || config.link.ownership == cxl::Ownership::Write;
        Self {
            of_line: HashMap::default(),
            reads: HashMap::default(),
            is_followed: !whole_pages && !loses,
        }
    }

    /// A request is sent: the value that it writes, or that the line has.
    pub(super) fn of_request(&mut self, request: &Request, is_warm: bool) -> u64 {
        if !self.is_followed || !is_of_line(request.op) {
            return 0;
        }
        if request.op == RequestOp::Write {
            let value = self.of_line.entry(request.line).or_default();
            let version = (*value + 1) & MOST_VERSION;
            *value = request.line.get() << VERSION_BITS | version;
            return *value;
        }
        if !is_warm {
            self.reads.insert(request.id, request.line);
        }
        0
    }

    /// The value that a read of a line must give, if this run has written it.
    pub(super) fn due(&self, line: LineAddr) -> Option<u64> {
        self.of_line.get(&line).copied()
    }

    /// What is wrong with a value.
    pub(super) fn differs(line: LineAddr, found: u64, due: u64) -> String {
        format!(
            "a read of {line:?} gives version {} of line {} where version {} was written last",
            found & MOST_VERSION,
            found >> VERSION_BITS,
            due & MOST_VERSION
        )
    }

    /// What is wrong with the values of answers; takes them off, for the simulation has none.
    pub(super) fn check(&mut self, answers: &mut [Answered]) -> Option<String> {
        let mut problem = None;
        for answered in answers {
            let found = std::mem::take(&mut answered.value);
            let Some(line) = self.reads.remove(&answered.request) else {
                continue;
            };
            if answered.outcome != Outcome::Data {
                continue;
            }
            let due = self.due(line).unwrap_or_default();
            if found != due && problem.is_none() {
                problem = Some(Self::differs(line, found, due));
            }
        }
        problem
    }
}
