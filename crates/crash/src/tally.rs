//! What is counted while workloads run.

use crate::oracle::{Asked, Oracle};
use crate::power_cutter::Cut;
use crate::token::Digest;
use firmware::log_index::LogIndex;
use firmware::{Answer, Controller, Refusal};
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

/// What is counted while workloads run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cuts that were judged, each with another state or other expectations than all before.
    pub points: u64,
    /// Those of them that were second cuts, while the firmware recovered from a first.
    pub again: u64,
    /// Cuts that left what an earlier one left, with the same expectations.
    pub repeats: u64,
    /// Reads that were compared while the power was on.
    pub reads: u64,
    /// Steps that could not be done at their moment, or had no transaction to do it to.
    pub passed_over: u64,
    /// The first of them, counted from 0 in its workload.
    pub first_passed_over: Option<usize>,
    /// What the devices did, to show that the mechanisms met.
    pub activity: Activity,
    judged: HashSet<u64, FxBuildHasher>,
    states: HashSet<u64, FxBuildHasher>,
}

/// How often what happened while the power was on, all workloads together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    /// Halves of the log compacted.
    pub compactions: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages moved by garbage collection.
    pub moves: u64,
    /// NAND operations that failed.
    pub failures: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions given up.
    pub aborts: u64,
    /// Transactions for which room was reserved.
    pub reservations: u64,
    /// Lines of open transactions that moved when a half of the log was sealed.
    pub migrations: u64,
    /// Commits that waited for an entry of the TxLog.
    pub commit_stalls: u64,
    /// Requests refused.
    pub refusals: u64,
    /// Those of them that were for a line of another transaction.
    pub conflicts: u64,
    /// Those of them that were for more lines than may be open.
    pub oversized: u64,
    /// Pages trimmed.
    pub trims: u64,
    /// Pages that were fetched ahead and asked for behind it.
    pub used_prefetches: u64,
    /// Lives that ended in a power cut.
    pub power_cuts: u64,
    /// Lives that ended while flash had no room for what was accepted.
    pub standstills: u64,
}

impl Activity {
    /// All of it, with names.
    pub fn counts(&self) -> [(&'static str, u64); 16] {
        [
            ("compactions", self.compactions),
            ("erases", self.erases),
            ("moves", self.moves),
            ("failures", self.failures),
            ("commits", self.commits),
            ("aborts", self.aborts),
            ("reservations", self.reservations),
            ("migrations", self.migrations),
            ("commit_stalls", self.commit_stalls),
            ("refusals", self.refusals),
            ("conflicts", self.conflicts),
            ("oversized", self.oversized),
            ("trims", self.trims),
            ("used_prefetches", self.used_prefetches),
            ("power_cuts", self.power_cuts),
            ("standstills", self.standstills),
        ]
    }

    /// An answer was given to what the host had asked.
    pub(crate) fn note(&mut self, asked: &Asked, answer: Answer) {
        match (asked, answer) {
            (Asked::Commit(_), Answer::Written) => self.commits += 1,
            (Asked::Abort(_), Answer::Written) => self.aborts += 1,
            (_, Answer::Refused(why)) => {
                self.refusals += 1;
                let is_too_much = matches!(
                    why,
                    Refusal::TooLarge | Refusal::NoRoom | Refusal::BeyondReservation
                );
                self.conflicts += u64::from(matches!(why, Refusal::Conflict { .. }));
                self.oversized += u64::from(is_too_much);
            }
            _ => {}
        }
    }

    pub(crate) fn add<I: LogIndex>(&mut self, controller: &Controller<I>) {
        let (own, flash) = (controller.stats(), controller.ftl_stats());
        self.compactions += own.compactions;
        self.migrations += own.migrated_lines;
        self.commit_stalls += own.commit_stalls;
        self.trims += own.trims;
        self.used_prefetches += own.prefetches_useful;
        self.standstills += u64::from(controller.is_stuck());
        self.erases += flash.erases;
        self.moves += flash.gc_programs;
    }
}

impl Tally {
    /// Different states that cuts left.
    pub fn state_count(&self) -> usize {
        self.states.len()
    }

    /// A step cannot be done.
    pub(crate) fn pass_over(&mut self, step: usize) {
        self.passed_over += 1;
        self.first_passed_over.get_or_insert(step);
    }

    /// As [`Tally::note`], of a second cut.
    pub(crate) fn note_again(&mut self, cut: &Cut, oracle: &Oracle) -> bool {
        let is_new = self.note(cut, oracle).is_some();
        self.again += u64::from(is_new);
        is_new
    }

    /// Takes note of a cut; its digest, if it is one to be judged.
    pub(crate) fn note(&mut self, cut: &Cut, oracle: &Oracle) -> Option<u64> {
        let state = cut.media.digest();
        let mut digest = Digest::new();
        digest.add(state);
        oracle.digest(&mut digest);
        self.states.insert(state);
        let is_new = self.judged.insert(digest.get());
        *(match is_new {
            true => &mut self.points,
            false => &mut self.repeats,
        }) += 1;
        is_new.then_some(state)
    }
}

impl core::fmt::Display for Tally {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            points,
            again,
            repeats,
            reads,
            ..
        } = self;
        let states = self.state_count();
        write!(
            f,
            "{points} crash points judged, {again} of them in recovery; {states} distinct device \
             states; {repeats} more left what an earlier one had left; {reads} reads compared \
             while the power was on"
        )
    }
}
