//! What a program is, and the list of them.

use crate::setting::Setting;
use crate::{Digest, Member, bc, bfs, dlrm, radix, roi, srad, team, tpcc, ycsb};
use std::fmt;
use units::Bytes;

/// All programs, in the order of Table I.
pub const PROGRAMS: &[Program] = &[
    bfs::PROGRAM,
    bc::PROGRAM,
    radix::PROGRAM,
    srad::PROGRAM,
    ycsb::PROGRAM,
    tpcc::PROGRAM,
    dlrm::PROGRAM,
];

/// What stands in the list about a program, and how it is run.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name in Table I.
    pub name: &'static str,
    /// The suite whose program of this name it stands for.
    pub suite: &'static str,
    /// What it computes.
    pub what: &'static str,
    /// How it checks its result.
    pub check: &'static str,
    /// What [`crate::Work`] counts.
    pub work_unit: &'static str,
    /// Size of the data as in Table I.
    pub footprint: Bytes,
    /// Work whose region of interest has about 100 million instructions at a sixteenth of the
    /// footprint, of which machine `small` measures the last 40 %.
    pub small_work: u64,
    /// Work at the whole footprint: about 120 million instructions.
    pub paper_work: u64,
    /// Runs it: [`execute`] of its [`Workload`].
    pub run: fn(&Setting) -> Result<Checked, Failure>,
}

/// The program of this name.
///
/// # Errors
/// When there is none; the sentence lists those there are.
pub fn find(name: &str) -> Result<&'static Program, Failure> {
    let found = PROGRAMS.iter().find(|program| program.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
        Failure::refused(format!(
            "{name}: no such program; there are {}.",
            names.join(", ")
        ))
    })
}

/// A program's data and its three phases. The region's threads share it.
pub trait Workload: Sized + Sync {
    /// Builds the data. What it builds depends on footprint, seed and work alone, never on the
    /// number of threads, unless the program's documentation says otherwise.
    ///
    /// # Errors
    /// When the setting cannot be had: footprint too small, work too large, memory refused.
    fn prepare(setting: &Setting) -> Result<Self, Failure>;

    /// What each member does in the region of interest; all run it at once.
    fn region(&self, member: &Member<'_>);

    /// Changes one value of the result, as a wrong program would.
    fn spoil(&mut self);

    /// Checks the result.
    ///
    /// # Errors
    /// When the result is wrong; the sentence says where.
    fn check(self, setting: &Setting) -> Result<Checked, Failure>;
}

/// Prepares, runs the region between its marks, and checks.
///
/// # Errors
/// As the workload's phases.
pub fn execute<W: Workload>(setting: &Setting) -> Result<Checked, Failure> {
    let mut workload = W::prepare(setting)?;
    team::run(setting.threads, |member| {
        member.alone_between_barriers(roi::begin);
        workload.region(member);
    });
    // The others have ended: the mark's condition for being quiet afterwards.
    roi::end();
    if setting.spoil {
        workload.spoil();
    }
    workload.check(setting)
}

/// A result that was checked and found right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What was checked, in a few words with numbers.
    pub said: String,
    /// Digest of the result; the same for any number of threads.
    pub digest: Digest,
}

/// Why a run came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The setting cannot be had: one sentence.
    Refused(String),
    /// The result is wrong: one sentence.
    Wrong(String),
}

impl Failure {
    /// A setting that cannot be had.
    pub fn refused(sentence: impl Into<String>) -> Self {
        Self::Refused(sentence.into())
    }
    /// A wrong result.
    pub fn wrong(sentence: impl Into<String>) -> Self {
        Self::Wrong(sentence.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(sentence) | Self::Wrong(sentence) => f.write_str(sentence),
        }
    }
}
