//! Configuration of cores and caches.

use crate::page_numbers::PageNumbering;
use crate::pages::MappedPage;
use serde::{Deserialize, Serialize};
use units::{Bytes, Cycles, Hertz, Picos};

/// When a store is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorePolicy {
    /// Before its line is there: it retires and then writes.
    Posted,
    /// When its line is there: there is no write buffer.
    Waited,
}

/// In which order memory accesses execute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryIssue {
    /// As soon as their operands are there.
    OutOfOrder,
    /// Not before the last store before them is complete.
    InOrder,
}

/// What a load waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadOperands {
    /// The registers that form its address.
    Address,
    /// Every register that its instruction reads.
    All,
}

/// What the front end knows of the targets of indirect branches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BranchTargets {
    /// What it predicts.
    Predicted,
    /// All of them.
    Perfect,
}

/// What the direction predictor says of a branch that it has not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BranchStart {
    /// Weakly not taken.
    NotTaken,
    /// Strongly taken.
    Taken,
}

/// Where the front end looks for code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeFetch {
    /// In each line that it comes to.
    EachLine,
    /// In groups of as many instructions as are dispatched in a cycle: once for each group, in the
    /// line where the successor of the last branch is; what follows in line is at hand. A group
    /// with a branch that was predicted wrong is fetched to its end: branches behind it are
    /// predicted by a history with what was predicted in it, fetching goes on once the first of
    /// those that were predicted wrong is done, and the history is then that of the last of them.
    InGroups,
}

/// What becomes of a dirty line that leaves L2.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum L2Victims {
    /// It is written to L3.
    Written,
    /// It is lost; a line is dirty in L3 once a store has found it there.
    Lost,
}

units::parameters! {
    /// Cores, their caches and TLBs, and the shared L3.
    pub struct CpuConfig: "cpu" {
        /// Clock of every core; its period must be a whole number of picoseconds.
        clock: Hertz, "10MHz to 1000GHz, period of whole picoseconds", "SkyByte Table II: 4 GHz";
        /// Cores.
        cores: u32, "1 to 256", "SkyByte Table II: 8";
        /// Instructions dispatched, and retired, in a cycle.
        width: u32, "1 to 16", "SkyByte's artifact: large_width 4";
        /// Instructions that are fetched and not yet in the reorder buffer, at most, where a thread
        /// leaves and its squashed instructions run on (`os.squash`): these run on too.
        fetch_ahead: u32, "0 to 1024",
            "SkyByte §III-A (0): what was fetched is gone; its artifact: 256 (fe_size)";
        /// Reorder buffer entries.
        rob: u32, "8 to 512", "SkyByte Table II: 256";
        /// Loads between dispatch and retirement.
        load_queue: u32, "1 to 512", "SkyByte's artifact: 128";
        /// Stores between dispatch and their write to L1D.
        store_queue: u32, "1 to 512", "SkyByte's artifact: 128";
        /// Integer operations issued in a cycle.
        alu_ports: u32, "1 to 7", "SkyByte's artifact: integer schedule rate 4";
        /// Loads issued in a cycle.
        load_ports: u32, "1 to 7", "SkyByte's artifact: memory schedule rate 2";
        /// Stores issued in a cycle.
        store_ports: u32, "1 to 7", "our choice: one store port, as on Skylake";
        /// Floating-point and vector operations issued in a cycle.
        fp_ports: u32, "1 to 7", "SkyByte's artifact: floating-point schedule rate 2";
        /// Integer operations, branches and others, that can wait for operands out of order. An
        /// operation behind them waits in a queue, in order; when that is full dispatch stops.
        alu_scheduler: u32, "0 to 512; 0: no limit but the ROB",
            "our choice: 0, Skylake's 97 shared entries seldom fill; SkyByte's artifact: 16";
        /// Operations that wait for an entry of the integer scheduler.
        alu_queue: u32, "1 to 512", "SkyByte's artifact: 32";
        /// Loads and stores that can wait for operands out of order, as `alu_scheduler`.
        memory_scheduler: u32, "0 to 512; 0: no limit but the ROB",
            "our choice: 0; SkyByte's artifact: 8";
        /// Operations that wait for an entry of the memory scheduler.
        memory_queue: u32, "1 to 512", "SkyByte's artifact: 16";
        /// Floating-point operations that can wait for operands out of order, as `alu_scheduler`.
        fp_scheduler: u32, "0 to 512; 0: no limit but the ROB",
            "our choice: 0; SkyByte's artifact: 24";
        /// Operations that wait for an entry of the floating-point scheduler.
        fp_queue: u32, "1 to 512", "SkyByte's artifact: 32";
        /// Branches issued in a cycle.
        branch_ports: u32, "1 to 7", "our choice: two, as on Skylake";
        /// From the execution of a mispredicted branch to the dispatch of its successor.
        mispredict_penalty: Cycles, "0 to 1000cycles", "SkyByte's artifact: fetch 5 + allocate 10";
        /// Bits of global history of the gshare predictor.
        history_bits: u32, "1 to 20", "our choice: 16; SkyByte's artifact: 14, the first of two values given";
        /// What the predictor's counters say at the start: weakly not taken (`not_taken`) or
        /// strongly taken (`taken`).
        branch_start: BranchStart, "not_taken or taken",
            "our choice: not_taken; SkyByte's artifact: taken";
        /// Where the front end looks for code: in each line (`each_line`), or once for each group
        /// of `width` instructions, in the line of the last branch's successor and not in those
        /// behind it (`in_groups`); then a group is fetched to its end behind a wrong prediction.
        code_fetch: CodeFetch, "each_line or in_groups",
            "our choice: each_line; SkyByte's artifact: in_groups";
        /// L1 instruction cache of a core.
        l1i: Bytes, "ways × 64B × a power of two, at most 1MiB", "SkyByte Table II: 32 KB";
        /// Ways of L1I.
        l1i_ways: u32, "1 to 32", "SkyByte Table II: 8";
        /// L1 data cache of a core.
        l1d: Bytes, "ways × 64B × a power of two, at most 1MiB", "SkyByte Table II: 32 KB";
        /// Ways of L1D.
        l1d_ways: u32, "1 to 32", "SkyByte Table II: 8";
        /// From the issue of a load to its data when L1D has it.
        l1d_latency: Cycles, "1 to 100cycles", "our choice: 4 cycles, as on Skylake";
        /// MSHRs of L1D: lines that loads and stores may be waiting for.
        l1d_mshrs: u32, "1 to 1024", "SkyByte Table II: 8";
        /// L2 of a core.
        l2: Bytes, "ways × 64B × a power of two, at most 64MiB", "SkyByte Table II: 512 KB";
        /// Ways of L2.
        l2_ways: u32, "1 to 32", "SkyByte Table II: 32";
        /// Added by an access that misses L1.
        l2_latency: Cycles, "1 to 1000cycles", "our choice: 10 cycles after L1's 4, as on Skylake";
        /// MSHRs of L2.
        l2_mshrs: u32, "1 to 1024", "SkyByte Table II: 128";
        /// Lines of the device that a core's retired stores may own before their data have come, in
        /// merge buffers: the host keeps the coherence of the device's memory, so L3 grants what no
        /// cache has. Such a store is done, and its miss holds an MSHR of L2 but none of L1D. 0: a
        /// store waits for its line.
        store_grants: u32, "0 to 1024", "SkyByte Table II (0: 8 MSHRs of L1D and nothing else); more is ours";
        /// L3, shared by all cores.
        l3: Bytes, "ways × 64B × a power of two, at most 4GiB", "SkyByte Table II: 16 MB";
        /// Ways of L3.
        l3_ways: u32, "1 to 32", "SkyByte Table II: 16";
        /// Added by an access that misses L2: the way to L3 and back, and its lookup.
        l3_latency: Cycles, "1 to 10000cycles", "our choice: 40 cycles (10 ns at 4 GHz)";
        /// Added by an access that misses L2 for each core that stands between its own and L3, as
        /// on a ring: none for the last core.
        l3_hop: Cycles, "0 to 1000cycles",
            "our choice: 0, L3 is as far for every core; SkyByte's artifact: 31 cycles measured";
        /// Added by an access that misses L3: the way to the memory controller and back.
        memory_latency: Cycles, "0 to 10000cycles",
            "our choice: 0, it is in l3_latency; SkyByte's artifact: 225 cycles measured";
        /// Least time between two lines that all cores together get through L3, hits or not.
        l3_interval: Cycles, "0 to 10000cycles",
            "our choice: 0, L3 and its network have no limit; SkyByte's artifact: 20 cycles measured";
        /// MSHRs of L3.
        l3_mshrs: u32, "1 to 65536", "SkyByte Table II: 1024";
        /// Entries of the first-level data TLB, 4 ways.
        l1_tlb: u32, "4 × a power of two, at most 65536 entries", "our choice: 64 entries, as on Skylake";
        /// Entries of the second-level TLB, 12 ways.
        l2_tlb: u32, "12 × a power of two, at most 65536 entries", "our choice: 1536 entries, as on Skylake";
        /// Whether data addresses are translated by TLBs and page walks; without, at no cost, and
        /// hint faults come at the first access to a page that was unmapped.
        tlb: bool, "true or false", "decision D20 (true); SkyByte's artifact: false";
        /// Size of the pages that the operating system maps data in. At 2MiB every 2 MiB of
        /// addresses that the program touches are one page, untouched parts included, and what is
        /// moved to host DRAM is such a page.
        page_size: MappedPage, "4KiB or 2MiB", "SkyByte III-C (4KiB); IV, multiple page sizes: 2MiB";
        /// Which number of a page chooses its set in L2, L3, the device's data cache and host DRAM,
        /// where that has sets: its place among the pages that the program touches (`canonical`) or
        /// its virtual page number (`virtual`).
        page_numbers: PageNumbering, "canonical or virtual",
            "our choice: canonical, the same on every machine; SkyByte's artifact: virtual";
        /// Whether an access that reaches beyond its line or page touches the next one too; if not,
        /// every access is one of its first byte.
        split_accesses: bool, "true or false",
            "our choice: true, as on x86; SkyByte's artifact: false";
        /// When a store is complete: before its line is there (`posted`), or when it is (`waited`),
        /// so that it holds up retirement.
        stores: StorePolicy, "posted or waited",
            "our choice: posted, as every core has a write buffer; SkyByte's artifact: waited";
        /// Whether loads and stores execute as soon as their operands are there (`out_of_order`)
        /// or not before the last store before them is complete (`in_order`).
        memory_issue: MemoryIssue, "out_of_order or in_order",
            "our choice: out_of_order, as on Skylake; SkyByte's artifact: mem_ooo_stores 0";
        /// What a load waits for: the registers that form its address (`address`), or every
        /// register that its instruction reads (`all`). `add rax, [rbx]` reads both; its load needs
        /// `rbx` alone.
        load_operands: LoadOperands, "address or all",
            "our choice: address, as on x86, where the load is an operation of its own; SkyByte's artifact: all";
        /// Whether atomics, fences and system calls wait for everything older to retire and be
        /// written, and hold back everything younger.
        serialising: bool, "true or false", "our choice: true, as on x86; SkyByte's artifact: false";
        /// Whether targets of indirect branches are predicted or known (`perfect`).
        branch_targets: BranchTargets, "predicted or perfect",
            "our choice: predicted; SkyByte's artifact: perfect";
        /// Whether a dirty line that leaves L2 is written to L3 (`written`) or lost (`lost`); then
        /// a line is dirty in L3 once a store has found it there.
        l2_victims: L2Victims, "written or lost",
            "SkyByte Table II (written); its artifact: lost on the way to L3";
        /// Added by an access that misses the first-level TLB.
        l2_tlb_latency: Cycles, "0 to 1000cycles", "our choice: 7 cycles, as on Skylake";
    }
}

impl CpuConfig {
    /// Everything that is out of range, each as a sentence.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.clock.period().is_none() {
            problems.push(format!(
                "cpu.clock {} has no period of whole picoseconds",
                self.clock
            ));
        } else if !(10_000_000..=1_000_000_000_000).contains(&self.clock.get()) {
            problems.push(format!(
                "cpu.clock {} is not between 10MHz and 1000GHz",
                self.clock
            ));
        }
        self.check_counts(&mut problems);
        self.check_latencies(&mut problems);
        check_cache(&mut problems, "l1i", self.l1i, self.l1i_ways, 1);
        check_cache(&mut problems, "l1d", self.l1d, self.l1d_ways, 1);
        check_cache(&mut problems, "l2", self.l2, self.l2_ways, 64);
        check_cache(&mut problems, "l3", self.l3, self.l3_ways, 4096);
        for (key, entries, ways) in [("l1_tlb", self.l1_tlb, 4), ("l2_tlb", self.l2_tlb, 12)] {
            if entries % ways != 0 || !(entries / ways).is_power_of_two() || entries > 65_536 {
                problems.push(format!(
                    "cpu.{key} {entries} is not {ways} × a power of two up to 65536"
                ));
            }
        }
        problems
    }

    /// What every core's accesses take to pass the cores between it and L3, in order of the cores.
    pub fn ring(&self) -> Vec<Picos> {
        let passed = (0..u64::from(self.cores)).rev();
        passed
            .map(|cores| self.period() * (self.l3_hop.get() * cores))
            .collect()
    }

    /// The period of the clock; one picosecond for a clock that `validate` refuses.
    pub fn period(&self) -> Picos {
        self.clock.period().unwrap_or(Picos::new(1))
    }

    fn check_counts(&self, problems: &mut Vec<String>) {
        for (key, value, low, high) in [
            ("cores", self.cores, 1, 256),
            ("width", self.width, 1, 16),
            ("rob", self.rob, 8, 512),
            ("fetch_ahead", self.fetch_ahead, 0, 1024),
            ("load_queue", self.load_queue, 1, 512),
            ("store_queue", self.store_queue, 1, 512),
            ("alu_ports", self.alu_ports, 1, 7),
            ("load_ports", self.load_ports, 1, 7),
            ("store_ports", self.store_ports, 1, 7),
            ("fp_ports", self.fp_ports, 1, 7),
            ("branch_ports", self.branch_ports, 1, 7),
            ("alu_scheduler", self.alu_scheduler, 0, 512),
            ("alu_queue", self.alu_queue, 1, 512),
            ("memory_scheduler", self.memory_scheduler, 0, 512),
            ("memory_queue", self.memory_queue, 1, 512),
            ("fp_scheduler", self.fp_scheduler, 0, 512),
            ("fp_queue", self.fp_queue, 1, 512),
            ("history_bits", self.history_bits, 1, 20),
            ("l1d_mshrs", self.l1d_mshrs, 1, 1024),
            ("l2_mshrs", self.l2_mshrs, 1, 1024),
            ("l3_mshrs", self.l3_mshrs, 1, 65_536),
            ("store_grants", self.store_grants, 0, 1024),
        ] {
            if value < low || value > high {
                problems.push(format!("cpu.{key} {value} is not between {low} and {high}"));
            }
        }
    }

    fn check_latencies(&self, problems: &mut Vec<String>) {
        for (key, value, low, high) in [
            ("mispredict_penalty", self.mispredict_penalty, 0, 1_000),
            ("l1d_latency", self.l1d_latency, 1, 100),
            ("l2_latency", self.l2_latency, 1, 1_000),
            ("l3_latency", self.l3_latency, 1, 10_000),
            ("l3_hop", self.l3_hop, 0, 1_000),
            ("memory_latency", self.memory_latency, 0, 10_000),
            ("l3_interval", self.l3_interval, 0, 10_000),
            ("l2_tlb_latency", self.l2_tlb_latency, 0, 1_000),
        ] {
            if value < Cycles::new(low) || value > Cycles::new(high) {
                problems.push(format!(
                    "cpu.{key} {value} is not between {low} and {high} cycles"
                ));
            }
        }
    }
}

fn check_cache(problems: &mut Vec<String>, key: &str, size: Bytes, ways: u32, most_mib: u64) {
    let way = Bytes::new(64) * u64::from(ways);
    let is_possible =
        (1..=32).contains(&ways) && (size / way).is_power_of_two() && way * (size / way) == size;
    if !is_possible {
        problems.push(format!(
            "cpu.{key} {size} is not {ways} ways (1 to 32) of 64-byte lines × a power of two"
        ));
    } else if size > Bytes::from_mib(most_mib) {
        let most = Bytes::from_mib(most_mib);
        problems.push(format!("cpu.{key} {size} is more than {most}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::testing::config;

    #[test]
    fn table_ii_is_accepted() {
        assert_eq!(config().validate(), Vec::<String>::new());
    }

    /// Three cores stand between the first of four and L3; 31 cycles of 1 ps each.
    #[test]
    fn the_last_core_of_the_ring_is_next_to_l3() {
        let four = CpuConfig {
            cores: 4,
            l3_hop: Cycles::new(31),
            ..config()
        };
        assert_eq!(four.ring(), [93, 62, 31, 0].map(Picos::new));
    }

    #[test]
    fn a_clock_or_a_cache_that_no_run_could_hold_is_refused() {
        let wrong = CpuConfig {
            clock: Hertz::new(1),
            l1d: Bytes::from_mib(2),
            l2: Bytes::from_mib(128),
            l3: Bytes::from_mib(8192),
            l1_tlb: 4 << 16,
            l2_tlb: 12 << 16,
            ..config()
        };
        assert_eq!(wrong.validate().len(), 6, "{:?}", wrong.validate());
    }

    #[test]
    fn each_value_out_of_range_is_named_in_one_sentence() {
        let good = config;
        let bad = [
            (
                "cpu.clock",
                CpuConfig {
                    clock: Hertz::new(3_000_000_000),
                    ..good()
                },
            ),
            ("cpu.rob", CpuConfig { rob: 513, ..good() }),
            (
                "cpu.l1d_latency",
                CpuConfig {
                    l1d_latency: Cycles::new(0),
                    ..good()
                },
            ),
            (
                "cpu.l2",
                CpuConfig {
                    l2: Bytes::from_kib(384),
                    ..good()
                },
            ),
            (
                "cpu.l3",
                CpuConfig {
                    l3_ways: 0,
                    ..good()
                },
            ),
            (
                "cpu.l1_tlb",
                CpuConfig {
                    l1_tlb: 0,
                    ..good()
                },
            ),
            (
                "cpu.l2_tlb",
                CpuConfig {
                    l2_tlb: 1000,
                    ..good()
                },
            ),
        ];
        for (key, config) in bad {
            let problems = config.validate();
            assert!(
                problems.len() == 1 && problems[0].contains(key),
                "{key}: {problems:?}"
            );
        }
    }
}
