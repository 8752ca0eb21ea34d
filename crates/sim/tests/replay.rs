//! The device alone, end to end: times derived by hand, conservation, any geometry.

use proptest::prelude::*;
use serde_json::Value;
use sim::config::Fidelity;
use sim::replay::{Replay, ReplaySpec, Workload};
use sim::run::RunSpec;

pub fn spec(design: &str, words: &[&str], settings: &[&str]) -> ReplaySpec {
    let pairs = words
        .iter()
        .map(|word| word.split_once('=').expect("name=value"));
    let pairs: Vec<_> = pairs.map(|(n, v)| (n.to_string(), v.to_string())).collect();
    ReplaySpec {
        run: RunSpec {
            trace: "test".into(),
            machine: "demo".into(),
            design: design.into(),
            nand: None,
            fidelity: Fidelity::default(),
            files: Vec::new(),
            overrides: settings.iter().map(ToString::to_string).collect(),
            threads: None,
            is_audited: true,
            mode: sim::run::Mode::Detailed,
        },
        workload: Workload::from_words(&pairs).expect("a workload"),
    }
}

fn run(design: &str, words: &[&str], settings: &[&str]) -> Value {
    let replay = Replay::new(spec(design, words, settings)).expect("a replay");
    let result = replay.execute(&mut |_| true).expect("it ends");
    result.json().clone()
}

fn number(result: &Value, at: &str) -> u64 {
    let found = result
        .pointer(&format!("/statistics/{at}"))
        .and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{at} is a number"))
}

/// One at a time, each of another page that is not cached: lookup 49 ns, tR 3 µs, transfer of 4 KiB
/// at 2.4 GB/s 1,706,667 ps (rounded up), and the frame's fill in device DRAM.
#[test]
fn a_lonely_page_read_takes_lookup_flash_transfer_and_fill() {
    let words = ["pattern=seqread", "qd=1", "requests=100", "bs=4KiB"];
    let result = run("base-cssd", &words, &[]);
    assert_eq!(number(&result, "read_parts/index_ps"), 49_000);
    assert_eq!(
        number(&result, "read_parts/flash_ps"),
        3_000_000 + 1_706_667
    );
    assert_eq!(number(&result, "read_parts/stall_ps"), 0);
    assert_eq!(number(&result, "read_parts/order_ps"), 0);
    let dram = number(&result, "read_parts/ssd_dram_ps");
    let mean = number(&result, "read_latency/mean_ps");
    assert!(mean - (49_000 + 4_706_667 + dram) <= 1, "the parts add up");
    assert_eq!(number(&result, "flash/host_read_pages"), 100);
    assert_eq!(number(&result, "served/misses"), 100);
}

/// A page write is in a buffer after its lookup. The pipeline takes 64 B in 64 ÷ 9.37 GB/s = 6,831
/// ps, so the second lookup ends 55,831 ps after the start. On one die the second program follows
/// the first, which began 49 ns after the start: transfer 1,706,667 ps + tProg 100 µs each.
#[test]
fn a_page_write_is_answered_from_the_buffer_or_after_its_program() {
    let one_die = [
        "nand.channels=1",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
        "ftl.fill=0%",
    ];
    let words = ["pattern=seqwrite", "qd=2", "requests=2", "working-set=8KiB"];
    let buffered = run("base-cssd", &words, &one_die);
    assert_eq!(number(&buffered, "write_latency/max_ps"), 49_000 + 6_831);
    let programmed: Vec<&str> = one_die
        .into_iter()
        .chain(["ssd.block_write_ack=programmed"])
        .collect();
    let programmed = run("base-cssd", &words, &programmed);
    assert_eq!(
        number(&programmed, "write_latency/max_ps"),
        49_000 + 2 * 101_706_667
    );
    assert_eq!(number(&programmed, "flash/host_program_pages"), 2);
}

/// All that is asked is measured, and the bytes are those of the requests.
#[test]
fn warm_up_is_not_measured() {
    let words = ["pattern=randrw", "requests=3000", "warmup=1000", "bs=8KiB"];
    let result = run("skybyte-w", &words, &[]);
    assert_eq!(result["warmup_requests"], 1000);
    assert_eq!(result["requests"], 3000);
    let bytes =
        number(&result, "throughput/read_bytes") + number(&result, "throughput/write_bytes");
    assert_eq!(bytes, 3000 * 8192);
    let operations =
        number(&result, "read_parts/operations") + number(&result, "write_parts/operations");
    // Two pages each; of the 31 requests under way when measurement starts one may be answered.
    assert!((6000 - 31..=6000).contains(&operations), "{operations}");
}

/// Four reads of one page at once: one fetch, and a write waits for them.
#[test]
fn operations_of_one_page_keep_their_order() {
    let words = [
        "pattern=randwrite",
        "qd=8",
        "requests=100",
        "working-set=4KiB",
    ];
    let result = run("base-cssd", &words, &["ssd.block_write_ack=programmed"]);
    assert_eq!(number(&result, "served/ordered"), 99);
    assert_eq!(number(&result, "flash/host_program_pages"), 100);
    let words = ["pattern=randread", "qd=4", "requests=4", "working-set=4KiB"];
    let result = run("base-cssd", &words, &[]);
    assert_eq!(number(&result, "served/ordered"), 0);
    assert_eq!(number(&result, "served/merged_misses"), 3);
    assert_eq!(number(&result, "flash/host_read_pages"), 1);
}

/// Flash pages of 16 KiB, mapped as a whole.
const LARGE_PAGES: [&str; 2] = ["nand.page_size=16KiB", "ftl.mapping_unit=16KiB"];
/// The same, mapped in pieces of 4 KiB: a fourth of the pages, and the flash has the same size.
const LARGE_FLASH_PAGES: [&str; 3] = [
    "nand.page_size=16KiB",
    "nand.pages_per_block=8",
    "ftl.over_provisioning=25%",
];

/// Nothing is read first of what a mapping unit holds; four of them are one program.
#[test]
fn flash_pages_of_16_kib_are_filled_with_pages_of_4_kib() {
    let words = ["pattern=randwrite", "bs=4KiB", "requests=4000", "qd=64"];
    let small = run("base-cssd", &words, &[]);
    let large = run("base-cssd", &words, &LARGE_FLASH_PAGES);
    for result in [&small, &large] {
        assert_eq!(number(result, "served/partial_page_writes"), 0);
        assert_eq!(number(result, "flash/host_program_pages"), 4000);
    }
    assert!(small.pointer("/statistics/flash/padding_pages").is_none());
    let padding = number(&large, "flash/padding_pages");
    assert!(padding < 600, "{padding} of 4000 places are padding");
    // A read brings 4 KiB over the channel, not 16.
    let words = ["pattern=randread", "bs=4KiB", "requests=500", "qd=1"];
    let latency = |settings: &[&str]| {
        let result = run("base-cssd", &words, settings);
        number(&result, "flash/average_read_latency_ps")
    };
    assert_eq!(latency(&LARGE_FLASH_PAGES), latency(&[]));
    assert!(latency(&LARGE_PAGES) > latency(&[]));
}

/// A page of which a part is written is read first.
#[test]
fn a_part_of_a_page_is_written_after_the_page_is_read() {
    let words = ["pattern=randwrite", "bs=4KiB", "requests=500", "qd=4"];
    let result = run("base-cssd", &words, &LARGE_PAGES);
    assert_eq!(number(&result, "served/partial_page_writes"), 500);
    assert_eq!(number(&result, "flash/host_program_pages"), 500);
    assert_eq!(number(&result, "throughput/write_bytes"), 500 * 4096);
}

/// Each line or page has a record of its own, so a request of a terabyte would fill the memory.
#[test]
fn a_request_of_too_many_lines_or_pages_is_refused() {
    let refused = |words: &[&str]| {
        let replay = Replay::new(spec("base-cssd", words, &[]));
        replay
            .and_then(|replay| replay.execute(&mut |_| true).map(drop))
            .expect_err("it is too large")
            .to_string()
    };
    let words = ["pattern=seqread", "port=line", "bs=8MiB", "requests=1"];
    let said = "--bs 8MiB: must be 4MiB or less through this port";
    assert_eq!(refused(&words), said);
    let path = std::env::temp_dir().join(format!("replay-large-{}.csv", std::process::id()));
    std::fs::write(
        &path,
        "time_ns,offset,size,op\n0,0,4096,R\n1,0,268439552,R\n",
    )
    .unwrap();
    let error = refused(&[&format!("file={}", path.display())]);
    std::fs::remove_file(&path).unwrap();
    assert!(
        error.contains("request 2 is of 262148KiB; through this port"),
        "{error}"
    );
}

/// A block trace of reads, and its replay.
fn replay_file(name: &str, text: &str, words: &[&str], settings: &[&str]) -> Value {
    let path = std::env::temp_dir().join(format!("replay-{name}-{}.csv", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let file = format!("file={}", path.display());
    let words: Vec<&str> = words.iter().copied().chain([file.as_str()]).collect();
    let result = run("base-cssd", &words, settings);
    std::fs::remove_file(&path).unwrap();
    result
}

/// Reads of three pages, 100 µs apart: each is alone, whether time runs once or four times as fast.
#[test]
fn an_open_loop_asks_at_the_times_of_the_file() {
    let text = "time_us,offset,size,op\n7,0,4096,R\n107,40960,4096,R\n207,81920,4096,R\n";
    let lonely = run("base-cssd", &["pattern=seqread", "qd=1", "requests=1"], &[]);
    let lonely = number(&lonely, "read_latency/max_ps");
    for (speedup, last) in [("speedup=1", 200_000_000), ("speedup=4", 50_000_000)] {
        let result = replay_file("open", text, &[speedup], &[]);
        // Rows and refresh of device DRAM differ by some nanoseconds.
        let time = result["execution_time_ps"].as_u64().unwrap();
        assert!(time.abs_diff(last + lonely) < 50_000, "{time}");
        let mean = number(&result, "read_latency/mean_ps");
        assert!(mean.abs_diff(lonely) < 50_000, "{mean}");
    }
    // With a depth instead, each answer brings the next.
    let result = replay_file("closed", text, &["qd=1"], &[]);
    let time = result["execution_time_ps"].as_u64().unwrap();
    assert!(time.abs_diff(3 * lonely) < 150_000, "{time}");
}

/// 8,000 reads of pages on one die at once, a second each: the last one waits for 8,000 s, all
/// together for 32 million; 64 bits of picoseconds are 18 million.
#[test]
fn waiting_beyond_64_bits_is_counted() {
    let rows = (0..8_000).map(|n| format!("0,{},4096,R\n", n * 4096));
    let text = format!("time_ns,offset,size,op\n{}", rows.collect::<String>());
    let slow = [
        "nand.channels=1",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
        "nand.blocks_per_plane=512",
        "nand.t_r=1s",
    ];
    let result = replay_file("slow", &text, &[], &slow);
    let mean = number(&result, "read_latency/mean_ps");
    assert!(mean > u64::MAX / 8_000, "it would fit: {mean}");
    let parts = ["order", "stall", "index", "ssd_dram", "flash"];
    let sum = parts.map(|part| number(&result, &format!("read_parts/{part}_ps")));
    assert!(mean - sum.iter().sum::<u64>() <= 5, "{mean} {sum:?}");
}

fn geometry() -> impl Strategy<Value = Vec<String>> {
    let organisation = (1u32..8, 1u32..3, 1u32..4, 1u32..3, 12u32..40, 1u32..40);
    let device = (
        prop::sample::select(vec![
            ("512B", "512B"),
            ("4KiB", "4KiB"),
            ("4KiB", "1KiB"),
            ("8KiB", "8KiB"),
            ("16KiB", "4KiB"),
            ("16KiB", "16KiB"),
        ]),
        prop::sample::select(vec!["incremental", "bulk"]),
        prop::sample::select(vec!["buffered", "programmed"]),
        prop::sample::select(vec!["fifo", "read_priority"]),
        prop::sample::select(vec!["die", "channel"]),
        0u32..=100,
        prop::sample::select(vec!["halves", "ring"]),
        any::<bool>(),
    );
    (organisation, device).prop_map(|(organisation, device)| {
        let (channels, chips, dies, planes, blocks, pages) = organisation;
        let ((page, unit), gc, ack, scheduling, parallelism, fill, log, buffer_hits) = device;
        vec![
            format!("nand.channels={channels}"),
            format!("nand.chips_per_channel={chips}"),
            format!("nand.dies_per_chip={dies}"),
            format!("nand.planes_per_die={planes}"),
            format!("nand.blocks_per_plane={blocks}"),
            format!("nand.pages_per_block={pages}"),
            format!("nand.page_size={page}"),
            format!("ftl.mapping_unit={unit}"),
            format!("nand.scheduling={scheduling}"),
            format!("nand.parallelism={parallelism}"),
            format!("ssd.block_write_ack={ack}"),
            format!("ssd.log.mode={log}"),
            format!("ssd.buffer_hits={buffer_hits}"),
            format!("ftl.gc={gc}"),
            format!("ftl.fill={fill}%"),
            "ftl.over_provisioning=55%".to_string(),
            "ftl.gc_threshold=80%".to_string(),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Odd counts, one die, one page in a block: every request is answered, audits hold.
    #[test]
    fn any_geometry_works(
        settings in geometry(),
        pattern in prop::sample::select(vec!["randrw", "randwrite", "seqwrite"]),
        block in prop::sample::select(vec!["64B", "512B", "4KiB", "24KiB"]),
        depth in 1u32..70,
        design in prop::sample::select(vec!["base-cssd", "skybyte-w", "skybyte-full"]),
    ) {
        let (depth, pattern) = (format!("qd={depth}"), format!("pattern={pattern}"));
        let block = format!("bs={block}");
        let words = [&pattern, &block, &depth, "requests=2000", "warmup=10", "working-set=100%"];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        match Replay::new(spec(design, &words, &settings)) {
            Ok(replay) => {
                let result = replay.execute(&mut |_| true).expect("it ends");
                prop_assert_eq!(&result.json()["requests"], 2000);
            }
            // A device smaller than a request, or without room for GC: of each block all units but
            // those of a flash page less one count.
            Err(error) => {
                let error = error.to_string();
                let is_known = ["has no room", "ftl.over_provisioning is"];
                prop_assert!(is_known.iter().any(|known| error.contains(known)), "{error}");
            }
        }
    }
}
