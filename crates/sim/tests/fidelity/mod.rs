//! Every fidelity switch has a scenario here: a capture made by hand that runs once as the paper
//! says and once with that switch alone, and times and counts that are derived by hand.
//!
//! The scenario has the switch's name. It turns the switch on by that name, so what is tested is
//! the file in `papers/skybyte/fidelity`. A switch without a scenario fails
//! [`every_switch_has_a_scenario`]; a scenario whose switch changes nothing fails too.

mod core;
mod data_cache;
mod device;
mod flash;
mod lab;
mod log;
mod pages;
mod switching;

use sim::config::fidelity::SWITCHES;
use std::collections::BTreeSet;

/// Makes a test of each scenario: a function of a module, named like its switch.
macro_rules! scenarios {
    ($($module:ident: $($switch:ident),+;)+) => {
        /// The switches that have a scenario.
        const SCENARIOS: &[&str] = &[$($(stringify!($switch)),+),+];
        $($(
            #[test]
            fn $switch() {
                lab::Lab::of(stringify!($switch)).check($module::$switch);
            }
        )+)+
    };
}

scenarios! {
    data_cache: clean_victims_programmed, no_buffer_hits, no_prefetch, unlimited_device_mshrs,
        virtual_page_numbers;
    flash: nand_one_unit_per_channel, no_channel_transfer, split_program_timeline,
        exact_delay_estimate, program_80us, erase_853us, no_preconditioning;
    log: log_entries_72_bytes, log_seven_eighths, single_ring_log, compaction_free_of_charge,
        warmup_residue_counted, warmup_past_caches, no_log_merge_on_fill;
    device: constant_device_latencies, link_without_bandwidth, promotion_on_7th_hit,
        warmup_counts_forgotten, warmup_waits_for_flash;
    core: macsim_core, loads_wait_for_all_sources, macsim_caches, no_tlb, l2_victims_lost, write_back_echo,
        store_misses_are_writes, cold_cpu_caches;
    switching: switch_cost_1300ns, round_robin, no_time_slices, threads_wait_on_core,
        lowest_core_first, switch_at_response, delayed_lines_delivered, squashed_work_goes_on, stores_switch,
        no_thread_edges;
    pages: free_migration, promotion_forgets_dirt, demotion_writes_lost, lru_host_pages,
        host_dram_constant_46ns, macsim_dram, tpp_free_of_charge, astriflash_by_hotness;
}

#[test]
fn every_switch_has_a_scenario() {
    let switches: BTreeSet<&str> = SWITCHES.iter().map(|switch| switch.name).collect();
    let tested: BTreeSet<&str> = SCENARIOS.iter().copied().collect();
    let missing: Vec<_> = switches.difference(&tested).collect();
    assert!(
        missing.is_empty(),
        "write a scenario for each, see docs/fidelity.md: {missing:?}"
    );
}
