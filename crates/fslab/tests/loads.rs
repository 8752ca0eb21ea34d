//! Loads on real file systems in virtual time: each at a tiny scale, on every personality.

use bytefs::{Personality, Structure};
use device::config::Layer;
use fslab::load::{FsOptions, LOADS, LoadResult, Scale, Setup, run, shipped};

/// A host of four cores, and as little of a load as there can be.
fn setup(name: &str, personality: Personality) -> Setup {
    // Files of the data base are not divided, so the device cannot be as small.
    let scale = Scale::new(if name == "oltp" { 256 } else { 1024 });
    let mut setup = Setup::new(personality, scale.unwrap());
    setup.cores = 4;
    setup
}

fn result(name: &str, setup: &Setup) -> LoadResult {
    let load = shipped(name).unwrap().load().unwrap();
    run(name, &load, setup).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What must hold of any result.
fn check(name: &str, personality: Personality, result: &LoadResult) {
    let what = format!("{name} on {personality}");
    assert!(
        result.operations > 0 && result.virtual_time_ps > 0,
        "{what}"
    );
    let counts = |key: &str| result.synced[key];
    // The file system counts what the application does; the store of keys does more.
    if !name.starts_with("ycsb") {
        let counted = (result.measured["fs_read"], result.measured["fs_written"]);
        let asked = (
            result.application_read_bytes,
            result.application_written_bytes,
        );
        assert_eq!(counted, asked, "{what}");
    }
    // What it says that it has moved is what the device says.
    let to_device = counts("metadata_written_by_blocks")
        + counts("journal_written_by_blocks")
        + counts("data_written_by_blocks");
    assert_eq!(
        to_device,
        counts("device_block_port_to_device_bytes"),
        "{what}"
    );
    for (of_structures, of_class) in [
        ("read", &["read_by_blocks"][..]),
        ("written", &["written_by_bytes", "written_by_blocks"]),
    ] {
        let by_structure = Structure::ALL.iter().map(|structure| {
            let name = structure.name();
            counts(&format!("{name}_{of_structures}"))
        });
        let by_class = of_class
            .iter()
            .map(|way| counts(&format!("metadata_{way}")));
        assert_eq!(by_structure.sum::<u64>(), by_class.sum::<u64>(), "{what}");
    }
    if !personality.writes_bytes() {
        assert_eq!(counts("device_byte_port_to_device_bytes"), 0, "{what}");
    }
    if personality.needs_transactions() {
        assert_eq!(
            counts("journal_written_by_blocks"),
            0,
            "{what}: it has no journal"
        );
    }
}

fn every_load_runs(personality: Personality) {
    for shipped in LOADS {
        let result = result(shipped.name, &setup(shipped.name, personality));
        check(shipped.name, personality, &result);
    }
}

/// A test for each: they run beside each other.
macro_rules! every_load_runs_on {
    ($($test:ident: $personality:ident,)*) => {
        $(
            #[test]
            fn $test() {
                every_load_runs(Personality::$personality);
            }
        )*

        #[test]
        fn no_personality_is_left_out() {
            let tried = [$(Personality::$personality),*];
            assert!(Personality::ALL.iter().all(|one| tried.contains(one)));
        }
    };
}

every_load_runs_on! {
    every_load_runs_on_bytefs: ByteFs,
    every_load_runs_on_bytefs_log: ByteFsLog,
    every_load_runs_on_bytefs_dual: ByteFsDual,
    every_load_runs_on_ext4_like: Ext4Like,
    every_load_runs_on_f2fs_like: F2fsLike,
    every_load_runs_on_nova_like: NovaLike,
    every_load_runs_on_pmfs_like: PmfsLike,
}

#[test]
fn a_drive_that_was_in_use_is_cleaned_from_the_first_write() {
    for personality in [Personality::ByteFs, Personality::Ext4Like] {
        let moved = |aged: &str| {
            let mut setup = setup("create", personality);
            setup.fs = FsOptions::of(&[&format!("fs.aged={aged}")]).unwrap();
            let result = result("create", &setup);
            check("create", personality, &result);
            result.synced["device_gc_programmed_pages"]
        };
        assert_eq!(moved("0%"), 0, "{personality}: the flash is new");
        assert!(moved("25%") > 0, "{personality}");
    }
}

#[test]
fn a_run_gives_the_same_bytes_again_and_another_seed_others() {
    for name in ["varmail", "ycsb-a"] {
        let mut setup = setup(name, Personality::ByteFs);
        let once = result(name, &setup).json().to_string();
        assert_eq!(once, result(name, &setup).json().to_string(), "{name}");
        setup.seed = 2;
        let other = result(name, &setup);
        let times = |text: &str| text.contains(&other.virtual_time_ps.to_string());
        assert!(!times(&once), "{name}: another seed, other times");
    }
}

#[test]
fn what_a_run_cannot_be_is_one_sentence() {
    let load = shipped("oltp").unwrap().load().unwrap();
    let sentence = |change: fn(&mut Setup)| {
        let mut setup = setup("oltp", Personality::Ext4Like);
        change(&mut setup);
        run("oltp", &load, &setup).unwrap_err().to_string()
    };
    let cores = sentence(|setup| setup.cores = 0);
    assert_eq!(cores, "--cores is 0; it must be 1 to 1024");
    let threads = sentence(|setup| setup.threads = Some(0));
    assert_eq!(threads, "--threads is 0; it must be 1 to 4096");
    let preset = sentence(|setup| setup.preset = Some("bytefs-cash".to_owned()));
    assert!(
        preset.contains("there is no device preset bytefs-cash"),
        "{preset}"
    );
    let full = sentence(|setup| {
        let fewer = Layer::assignment("nand.channels=1").unwrap();
        setup.layers = vec![fewer];
    });
    assert!(full.contains("is full") && !full.contains('\n'), "{full}");
}

#[test]
fn threads_of_one_kind_can_be_more_or_fewer() {
    let mut few = setup("varmail", Personality::ByteFs);
    few.threads = Some(1);
    let one = result("varmail", &few);
    few.threads = Some(8);
    let eight = result("varmail", &few);
    let syncs = |result: &LoadResult| result.latencies["fsync"].operations;
    assert_eq!(syncs(&one), syncs(&eight));
    assert!(one.virtual_time_ps > 2 * eight.virtual_time_ps);
}

#[test]
fn what_making_the_files_has_moved_is_told_apart() {
    let result = result("delete", &setup("delete", Personality::Ext4Like));
    let entered = |of: &std::collections::BTreeMap<String, u64>| of["data_written_by_blocks"];
    // Files are made with their contents, and removing them moves none.
    assert!(entered(&result.made) > 0);
    assert_eq!(entered(&result.synced), 0);
}

/// A run of a load with values of the file system's section.
fn told(name: &str, personality: Personality, sets: &[&str]) -> LoadResult {
    let mut setup = setup(name, personality);
    setup.fs = FsOptions::of(sets).unwrap();
    result(name, &setup)
}

#[test]
fn without_a_page_cache_contents_go_by_bytes_alone() {
    for personality in [Personality::PmfsLike, Personality::NovaLike] {
        let moved = told("webproxy", personality, &["fs.page_cache=off"]).synced;
        for way in ["data_read_by_blocks", "data_written_by_blocks"] {
            assert_eq!(moved[way], 0, "{personality}: {way}");
        }
        assert!(
            moved["data_read_by_bytes"] > moved["fs_read"] / 2,
            "{personality}"
        );
    }
}

#[test]
fn without_trims_zeroes_are_written() {
    for personality in [Personality::PmfsLike, Personality::ByteFs] {
        let of = |sets: &[&str], keys: &[&str]| -> u64 {
            let result = told("mkdir", personality, sets);
            let parts = [&result.made, &result.synced];
            let counts = parts
                .iter()
                .flat_map(|part| keys.iter().map(|key| part[*key]));
            counts.sum()
        };
        let written = ["metadata_written_by_bytes", "metadata_written_by_blocks"];
        let off = ["fs.trim=off"];
        assert!(of(&[], &["fs_trims"]) > 0, "{personality}");
        assert_eq!(of(&off, &["fs_trims"]), 0, "{personality}");
        assert!(of(&off, &written) > of(&[], &written), "{personality}");
    }
}

#[test]
fn contents_on_the_host_are_kept_and_no_device_hears_of_them() {
    // A store reads back what it wrote, also after the mount anew; so do cold loads.
    for name in ["ycsb-a", "varmail"] {
        let on_device = told(name, Personality::ByteFs, &[]);
        let on_host = told(name, Personality::ByteFs, &["fs.contents=host"]);
        let moved = |result: &LoadResult| -> u64 {
            let of = [
                "data_written_by_bytes",
                "data_written_by_blocks",
                "data_read_by_blocks",
            ];
            of.iter().map(|key| result.synced[*key]).sum()
        };
        assert_eq!(moved(&on_host), 0, "{name}");
        assert!(moved(&on_device) > 0, "{name}");
        assert_eq!(on_host.operations, on_device.operations, "{name}");
        assert!(
            on_host.virtual_time_ps < on_device.virtual_time_ps,
            "{name}"
        );
        let to_device = "device_block_port_to_device_bytes";
        assert!(
            on_host.synced[to_device] < on_device.synced[to_device],
            "{name}"
        );
    }
    let mut segments = setup("mkdir", Personality::F2fsLike);
    segments.fs = FsOptions::of(&["fs.contents=host"]).unwrap();
    let load = shipped("mkdir").unwrap().load().unwrap();
    let refused = run("mkdir", &load, &segments).unwrap_err().to_string();
    assert!(refused.contains("fs.contents is host"), "{refused}");
}

#[test]
fn metadata_that_are_free_are_a_bound_and_all_there() {
    // Names are found again after the mount anew, and a store reads back what it wrote.
    for name in ["delete", "varmail", "ycsb-a"] {
        let of = |sets: &[&str]| {
            let result = told(name, Personality::ByteFs, sets);
            let moved = |ways: [&str; 2]| {
                let counted = ways.map(|way| result.synced[&format!("metadata_{way}")]);
                counted.iter().sum::<u64>()
            };
            let written = moved(["written_by_bytes", "written_by_blocks"]);
            let read = result.synced["metadata_read_by_blocks"];
            (result.operations, result.virtual_time_ps, written, read)
        };
        let (operations, slow, written, _) = of(&[]);
        let unwritten = of(&["fs.metadata=unwritten"]);
        let free = of(&["fs.metadata=host"]);
        assert_eq!((unwritten.0, free.0), (operations, operations), "{name}");
        // But for chance: writes at other times put blocks elsewhere.
        assert!(unwritten.1 < slow + slow / 20, "{name}");
        assert!(written > 0 && unwritten.2 + free.2 == 0, "{name}");
        if name == "delete" {
            assert!(unwritten.3 > 0 && free.1 < unwritten.1 && unwritten.1 < slow);
        }
    }
    let mut blocks = setup("mkdir", Personality::Ext4Like);
    blocks.fs = FsOptions::of(&["fs.metadata=host"]).unwrap();
    let load = shipped("mkdir").unwrap().load().unwrap();
    let refused = run("mkdir", &load, &blocks).unwrap_err().to_string();
    assert!(refused.contains("fs.metadata is not device"), "{refused}");
}

#[test]
fn metadata_are_read_ahead_unless_the_run_says_otherwise() {
    let reads = |sets: &[&str]| {
        let result = told("delete", Personality::ByteFs, sets);
        (
            result.measured["device_block_port_reads"],
            result.virtual_time_ps,
        )
    };
    let (few, fast) = reads(&[]);
    let (many, slow) = reads(&["fs.read_ahead=off"]);
    assert!(few < many && fast < slow, "{few} and {many} reads");
}

#[test]
fn batches_as_lines_ask_for_no_commit() {
    let commits = |sets: &[&str]| {
        let result = told("varmail", Personality::ByteFs, sets);
        (result.synced["device_commits"], result.virtual_time_ps)
    };
    let (with, slow) = commits(&[]);
    let (without, fast) = commits(&["fs.batches=lines"]);
    assert!(with > 0 && without == 0 && fast < slow);
}

#[test]
fn the_share_from_which_pages_go_by_blocks_is_that_of_the_mount() {
    // Requests of 2 KiB are half a page.
    let by_bytes = |sets: &[&str]| {
        let result = told("oltp", Personality::ByteFs, sets);
        result.synced["fs_pages_by_bytes"]
    };
    let (few, many) = (by_bytes(&[]), by_bytes(&["fs.blocks_from=100%"]));
    assert!(few < many, "{few} and {many}");
    let mut setup = setup("mkdir", Personality::ByteFs);
    setup.fs = FsOptions::of(&["fs.blocks_from=0%"]).unwrap();
    let load = shipped("mkdir").unwrap().load().unwrap();
    let refused = run("mkdir", &load, &setup).unwrap_err().to_string();
    assert!(
        refused.contains("it must be above 0% and at most 100%"),
        "{refused}"
    );
}

#[test]
fn contents_that_overwrite_others_are_written_twice_where_they_are_journaled() {
    let run_of = |load: &str, sets: &[&str]| {
        let result = told(load, Personality::ByteFs, sets);
        let journal = result.synced["journal_written_by_blocks"];
        let data = result.synced["data_written_by_blocks"];
        (journal, data)
    };
    let (none, data) = run_of("oltp", &[]);
    let (journal, same) = run_of("oltp", &["fs.data=journal"]);
    assert!(none == 0 && journal > data / 2, "{journal} beside {data}");
    assert!(same > data / 2, "{same} beside {data}");
    // New files overwrite nothing.
    let (journal, _) = run_of("create", &["fs.data=journal"]);
    assert_eq!(journal, 0);
    let mut other = setup("mkdir", Personality::Ext4Like);
    other.fs = FsOptions::of(&["fs.data=journal"]).unwrap();
    let load = shipped("mkdir").unwrap().load().unwrap();
    let refused = run("mkdir", &load, &other).unwrap_err().to_string();
    assert!(refused.contains("ext4-like uses none"), "{refused}");
}
