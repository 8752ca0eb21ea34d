//! All designs on random small machines with random captures, every invariant audited: nothing
//! panics, every design retires the same instructions, and a run repeats bit for bit.

use crate::common::{LINE, PAGE, Program, prepare, stat};
use serde_json::Value;
use sim::config::presets::DESIGNS;
use trace::{FutexId, SyncEvent, TraceFile, Wake};
use units::{Stream, ThreadId};

/// Machines and captures; the seed is part of every message.
const ROUNDS: u64 = 30;

fn pick<'a>(stream: &mut Stream, choices: &[&'a str]) -> &'a str {
    choices[stream.below(choices.len() as u64) as usize]
}

/// Settings of a random small machine.
fn machine(stream: &mut Stream) -> Vec<String> {
    let keys: &[(&str, &[&str])] = &[
        ("cpu.cores", &["1", "2", "3", "5"]),
        ("cpu.rob", &["16", "64", "256"]),
        ("cpu.l1d_mshrs", &["1", "4", "8"]),
        ("cpu.l2_mshrs", &["8", "32"]),
        ("cpu.l3_mshrs", &["2", "16", "1024"]),
        ("cpu.store_queue", &["2", "16", "128"]),
        ("cpu.l3", &["32KiB", "128KiB"]),
        ("os.scheduler", &["cfs", "round_robin", "random"]),
        ("os.time_slice", &["20us", "3ms"]),
        ("os.switch_cost", &["100ns", "2us"]),
        ("os.switch_threshold", &["0ns", "2us", "20us"]),
        ("link.write_credits", &["1", "256"]),
        ("host.promoted", &["32KiB", "64KiB", "512KiB"]),
        ("host.plb", &["1", "64"]),
        ("tpp.scan_period", &["50us", "200us"]),
        ("tpp.scan_pages", &["10", "100"]),
        ("tpp.migrations", &["1", "8"]),
        ("astriflash.ways", &["1", "2", "8"]),
        ("astriflash.fill", &["on_demand", "hotness"]),
        ("ssd.cache.mshr_count", &["1", "8", "128"]),
        ("ssd.buffers", &["1", "16"]),
        ("ssd.log.size", &["512B", "16KiB", "64KiB"]),
        ("ssd.dram", &["128KiB", "1MiB"]),
        ("ssd.cache.ways", &["1", "4", "16"]),
        ("ssd.prefetch.pages", &["0", "1", "4"]),
        ("ssd.promotion.threshold", &["1", "4", "16"]),
        ("ssd.log.takes", &["all", "absent"]),
        ("ssd.log.sparse", &["0", "16", "64"]),
        ("ssd.compaction.takes", &["sealed_half", "both_halves"]),
        ("ssd.compaction.launch", &["at_once", "idle_dies"]),
        ("ssd.dram_order", &["in_turn", "lines_first"]),
        ("ssd.miss_answer", &["frame", "register"]),
        ("ssd.prefetch.throttle", &["off", "by_use"]),
        ("cpu.store_grants", &["0", "1", "64"]),
        ("host.migration_batch", &["1"]),
        ("nand.suspend", &["false"]),
        ("ftl.estimator", &["channel", "die", "reads"]),
        ("ftl.fill", &["0%", "50%", "80%"]),
        ("nand.scheduling", &["fifo", "read_priority"]),
        ("nand.t_r", &["3us", "50us"]),
        ("run.warmup", &["0%", "25%", "60%"]),
        ("run.warm_caches", &["true", "true", "false"]),
        ("run.warm_counts", &["kept", "forgotten"]),
        ("run.warm_waits", &["0", "0", "1", "64"]),
        ("cpu.tlb", &["true", "true", "false"]),
        ("cpu.stores", &["posted", "waited"]),
        ("cpu.memory_issue", &["out_of_order", "in_order"]),
        ("cpu.load_operands", &["address", "all"]),
        ("cpu.l2_victims", &["written", "written", "lost"]),
        (
            "os.wake",
            &["requeue", "hold_core", "on_data", "on_arrival"],
        ),
        ("os.free_start", &["core", "thread"]),
        ("os.core_choice", &["last", "lowest"]),
        ("cpu.code_fetch", &["each_line", "in_groups"]),
        ("host_dram.mapping", &["lines", "rows"]),
        ("host_dram.pipelined", &["true", "false"]),
        ("os.delayed_line", &["dropped", "delivered"]),
        ("os.switch_at", &["retire", "response"]),
        ("os.squash", &["at_once", "runs_on"]),
        ("os.stores_switch", &["false", "true"]),
        ("os.edges", &["replayed", "replayed", "ignored"]),
        ("link.ownership", &["read", "write"]),
        ("host.migration", &["copied", "instant"]),
        ("host.promoted_dirt", &["kept", "forgotten"]),
        ("host.demotion", &["written", "lost"]),
        ("host.reclaim", &["lists", "lru"]),
        ("host.sets", &["0", "0", "2"]),
        ("host.page_access", &["timed", "constant"]),
    ];
    let mut settings: Vec<String> = keys
        .iter()
        .map(|(key, choices)| format!("{key}={}", pick(stream, choices)))
        .collect();
    // What goes with some values of others only.
    let has = |setting: &str| settings.iter().any(|it| it == setting);
    let (is_wide, reads_first) = (has("host.plb=64"), has("nand.scheduling=read_priority"));
    if is_wide {
        settings.push(format!(
            "host.migration_batch={}",
            pick(stream, &["1", "4", "16"])
        ));
    }
    if reads_first {
        settings.push(format!("nand.suspend={}", pick(stream, &["true", "false"])));
    }
    settings.push("host.reserve=0".to_string());
    // As many echoes as there are credits keep driving each other out, and reads wait behind them.
    // 256 of them on a device that has no room for them take the run's time a thousandfold.
    // So do four where programs wait for each other to fill a flash page.
    match stream.below(8) {
        0 | 1 => {
            settings.push("link.write_echo=true".to_string());
            settings.push(format!("link.write_credits={}", 1 + stream.below(4)));
        }
        2..=4 => {
            settings.push("nand.page_size=16KiB".to_string());
            settings.push("ftl.over_provisioning=20%".to_string());
        }
        _ => {}
    }
    settings
}

/// How pages come, of a stream of its own: so the machines stay what they are otherwise.
fn arrivals(stream: &mut Stream) -> Vec<String> {
    let keys: &[(&str, &[&str])] = &[
        ("ssd.fill", &["at_once", "buffered"]),
        ("ssd.fill_buffers", &["1", "8", "512"]),
        ("nand.transfer", &["page", "wanted_first"]),
        ("nand.codeword", &["256B", "1KiB", "4KiB"]),
    ];
    let picked = keys
        .iter()
        .map(|(key, choices)| format!("{key}={}", pick(stream, choices)));
    picked.collect()
}

/// A random capture: loads, chases, stores, some across lines, arithmetic, and futex pairs.
fn capture(stream: &mut Stream) -> TraceFile {
    let mut program = Program::new();
    let syscall = program.writer.syscall();
    let threads = 1 + stream.below(9);
    let pages = 50 + stream.below(1_500);
    let ids: Vec<ThreadId> = (0..threads).map(|_| program.thread()).collect();
    for count in 1..=3 {
        for &id in &ids {
            for _ in 0..500 {
                step(&mut program, stream, id, pages);
            }
        }
        // A barrier of sorts: the first thread wakes, the others have waited for it.
        let futex = FutexId::new(stream.below(3) as u32);
        program
            .writer
            .execute_sync(ids[0], syscall, SyncEvent::FutexWake { futex, count });
        for &id in &ids[1..] {
            let woken_by = Some(Wake {
                thread: ids[0],
                count,
            });
            program
                .writer
                .execute_sync(id, syscall, SyncEvent::FutexWait { futex, woken_by });
        }
    }
    program.finish()
}

fn step(program: &mut Program, stream: &mut Stream, id: ThreadId, pages: u64) {
    // Half of the accesses go to a sixteenth of the pages.
    let range = if stream.below(2) == 0 {
        pages / 16 + 1
    } else {
        pages
    };
    let line = stream.below(range) * PAGE + stream.below(64) * LINE;
    // One in eight crosses a line.
    let address = if stream.below(8) == 0 {
        line + 60
    } else {
        line
    };
    match stream.below(8) {
        0..=2 => program.load(id, address),
        3 => program.chase(id, address),
        4 | 5 => program.store(id, address),
        _ => program.alu(id, 4),
    }
}

fn execute(trace: &TraceFile, design: &str, settings: &[String]) -> Value {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let prepared = prepare(trace, "demo", design, &settings);
    // A run that makes no progress is stopped: each call stands for thousands of events.
    let mut calls = 0;
    let result = prepared.execute(&mut |_| {
        calls += 1;
        calls < 5_000
    });
    result
        .unwrap_or_else(|error| panic!("{design}: {error}"))
        .json()
        .clone()
}

fn round(seed: u64) {
    let mut stream = Stream::new(seed, "smoke");
    let mut settings = machine(&mut stream);
    settings.extend(arrivals(&mut Stream::new(seed, "smoke/arrivals")));
    let trace = capture(&mut stream);
    println!("seed {seed}: {}", settings.join(" "));
    let mut counts = Vec::new();
    for design in DESIGNS {
        let result = execute(&trace, design.name, &settings);
        counts.push(stat(&result, "cores/instructions"));
        if design.name == "skybyte-full" {
            assert_eq!(
                result,
                execute(&trace, design.name, &settings),
                "seed {seed}: repeats"
            );
        }
    }
    assert!(
        counts.windows(2).all(|pair| pair[0] == pair[1]),
        "seed {seed}: {counts:?}"
    );
    assert!(counts[0] > 0, "seed {seed}: something is measured");
}

#[test]
fn random_machines_run_random_captures_on_all_designs() {
    (0..ROUNDS).for_each(round);
}
