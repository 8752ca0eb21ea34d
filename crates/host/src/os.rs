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
        /// (`requeue`), at once but keeping a core that takes it idle until its page is in device
        /// DRAM (`hold_core`), when that is so (`on_data`), or a switch before it is expected to be
        /// (`on_arrival`): the answer then carries that time.
        wake: WakePolicy, "requeue, hold_core, on_data or on_arrival",
            "SkyByte III-A (requeue); its artifact: hold_core; on_data and on_arrival are ours (D11)";
        /// What starts without a switch: the first thread of each core (`core`) or the first time
        /// of each thread (`thread`).
        free_start: FreeStart, "core or thread", "our choice (core); SkyByte's artifact: thread";
        /// Which free core a runnable thread goes to: the one that it has just left or was on last
        /// (`last`), or the lowest-numbered (`lowest`).
        core_choice: CoreChoice, "last or lowest",
            "our choice (last), as Linux's; SkyByte's artifact: lowest";
        /// What an access that was answered by SkyByte-Delay brings: nothing (`dropped`), or its
        /// line, to all who wait for it but the access that asked (`delivered`).
        delayed_line: DelayedLine, "dropped or delivered",
            "SkyByte III-A (dropped); its artifact: delivered";
        /// When the Long Delay Exception is taken: when the access is the oldest that has not
        /// retired (`retire`), or when the answer arrives (`response`); older instructions then
        /// complete, and the next thread starts after them.
        switch_at: SwitchAt, "retire or response", "SkyByte III-A (retire); its artifact: response";
        /// What becomes of the squashed instructions: they are gone (`at_once`), or run on
        /// (`runs_on`). With delivered lines that means all of them, which then retire and are not
        /// counted as retired instructions; with dropped lines it means their misses.
        squash: SquashPolicy, "at_once or runs_on", "SkyByte III-A (at_once); its artifact: runs_on";
        /// Whether store misses may be answered by SkyByte-Delay too, if the store waits for its
        /// line (cpu.stores) and the device has no write log.
        stores_switch: bool, "true or false", "SkyByte III-A (false); its artifact: true";
        /// Whether futex, join and system calls of the capture are replayed (`replayed`) or take no
        /// notice of each other (`ignored`); threads start where they are created either way.
        edges: EdgePolicy, "replayed or ignored", "decision D1 (replayed); SkyByte's artifact: ignored";
        /// From the moment a core leaves a thread to the first instruction of the next one; the
        /// exception, its handler and the scheduler are in it.
        switch_cost: Picos, "at most 1ms", "SkyByte Table II (2us)";
        /// Estimated delay beyond which the device asks for a coordinated context switch.
        switch_threshold: Picos, "any", "SkyByte Table II (2us)";
        /// How long a thread runs before another one that waits may take its core.
        time_slice: Picos, "1us to 1000s",
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
    /// At once; a core that takes it too early waits, and does not try.
    HoldCore,
    /// When its data has arrived in device DRAM.
    OnData,
    /// When its data will arrive in the time that a switch takes.
    OnArrival,
}

/// Which free core a runnable thread goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreChoice {
    /// That which it has left or was on last.
    Last,
    /// The lowest-numbered.
    Lowest,
}

/// What starts without the cost of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FreeStart {
    /// The first thread of each core.
    Core,
    /// The first start of each thread.
    Thread,
}

/// What an access that was answered by SkyByte-Delay brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayedLine {
    /// Nothing.
    Dropped,
    /// Its line, to all who wait but the access that asked.
    Delivered,
}

/// When the Long Delay Exception is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SwitchAt {
    /// When the access is the oldest that has not retired.
    Retire,
    /// When the answer arrives.
    Response,
}

/// What becomes of squashed instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SquashPolicy {
    /// They are gone.
    AtOnce,
    /// They, or their misses, run on.
    RunsOn,
}

/// Whether the capture's synchronisation is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgePolicy {
    /// A thread that waited for another one waits.
    Replayed,
    /// Nobody waits, and system calls cost nothing.
    Ignored,
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
        let (least, most) = (Picos::from_micros(1), Picos::from_micros(1_000_000_000));
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
            free_start: FreeStart::Core,
            core_choice: CoreChoice::Last,
            delayed_line: DelayedLine::Dropped,
            switch_at: SwitchAt::Retire,
            squash: SquashPolicy::AtOnce,
            stores_switch: false,
            edges: EdgePolicy::Replayed,
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
