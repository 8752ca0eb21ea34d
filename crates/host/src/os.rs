//! The operating system's part: which thread runs where, and which thread waits for which.
//!
//! Knows threads, cores and time; knows no instruction, no cache and no device. Nothing here
//! schedules an event: every call is handed the time, and the caller owns the event queue.

pub mod run_queue;
pub mod scheduler;
pub mod sync;

pub use scheduler::{CoreTimes, Dispatch, Scheduler, SchedulerStats, ThreadState};
pub use sync::{Action, SyncEngine, ThreadOrigin};

use serde::{Deserialize, Serialize};
use units::Picos;

units::parameters! {
    /// Scheduling of threads.
    pub struct OsConfig: "os" {
        /// Which runnable thread a free core takes: `round_robin`, `random` or `cfs`.
        scheduler: SchedulerPolicy, "round_robin, random or cfs", "SkyByte III-A (cfs)";
        /// When a thread that yielded at a Long Delay Exception is runnable again: at once
        /// (`requeue`) or when its page is in device DRAM (`on_data`).
        wake: WakePolicy, "requeue or on_data", "SkyByte III-A (requeue); on_data is ours (D11)";
        /// From the moment a core leaves a thread to the first instruction of the next one; the
        /// exception, its handler and the scheduler are in it.
        switch_cost: Picos, "at most 1ms", "SkyByte Table II (2us)";
        /// Estimated delay beyond which the device asks for a coordinated context switch.
        switch_threshold: Picos, "any", "SkyByte Table II (2us)";
        /// How long a thread runs before another one that waits may take its core.
        time_slice: Picos, "1us to 1s",
            "our choice, the paper gives none: least granularity of Linux CFS on 8 cores (3ms)";
        /// Time a thread spends in the kernel for a system call that does not block it.
        syscall_cost: Picos, "at most 1ms",
            "our choice, the paper gives none: order of a short system call (200ns)";
    }
}

/// Which runnable thread a free core takes (SkyByte §III-A).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerPolicy {
    /// The one that has waited longest in the queue.
    RoundRobin,
    /// Any, with equal chances.
    Random,
    /// The one that has received the least execution time.
    Cfs,
}

/// When a thread that yielded at a Long Delay Exception is runnable again (D11).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WakePolicy {
    /// At once, as in the paper: it may be switched in too early and yield again.
    Requeue,
    /// When its data has arrived in device DRAM.
    OnData,
}

impl OsConfig {
    /// What is out of range, as sentences; empty if nothing is.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let longest = Picos::from_micros(1_000);
        for (key, span) in [
            ("os.switch_cost", self.switch_cost),
            ("os.syscall_cost", self.syscall_cost),
        ] {
            if span > longest {
                problems.push(format!("{key} is {span}; it must be at most {longest}."));
            }
        }
        let (least, most) = (Picos::from_micros(1), Picos::from_micros(1_000_000));
        if !(least..=most).contains(&self.time_slice) {
            problems.push(format!(
                "os.time_slice is {}; it must be from {least} to {most}.",
                self.time_slice
            ));
        }
        problems
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The defaults of Table II, with `policy`.
    pub(crate) fn config(policy: SchedulerPolicy) -> OsConfig {
        OsConfig {
            scheduler: policy,
            wake: WakePolicy::Requeue,
            switch_cost: Picos::from_micros(2),
            switch_threshold: Picos::from_micros(2),
            time_slice: Picos::from_micros(3_000),
            syscall_cost: Picos::from_nanos(200),
        }
    }

    #[test]
    fn the_defaults_are_in_range_and_each_excess_is_named() {
        let good = config(SchedulerPolicy::Cfs);
        assert_eq!(good.validate(), Vec::<String>::new());
        let bad = OsConfig {
            switch_cost: Picos::from_micros(1_001),
            syscall_cost: Picos::from_micros(1_001),
            time_slice: Picos::ZERO,
            ..good
        };
        let problems = bad.validate();
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert_eq!(
            problems[0],
            "os.switch_cost is 1.001ms; it must be at most 1ms."
        );
    }
}
