//! Recordings played again.

use bytefs::{FsError, Personality};
use device::config::Layer;
use fslab::load::{Clients, FsOptions, LoadResult, Playing, Scale, Setup, replay};
use fslab::recording::{Entry, Kind, Op, Recording, sums_of};
use units::Picos;

fn entry(thread: u32, op: Op, found: Option<u32>) -> Entry {
    Entry {
        thread,
        begin_ns: 0,
        end_ns: 1_000,
        op,
        found,
        error: None,
    }
}

/// Two threads: one makes a file and changes 64 bytes of it again and again, the other looks.
fn recording() -> Recording {
    let write = |at: u64, bytes: &[u8]| Op::Write {
        ino: 40,
        at,
        size: bytes.len(),
        direct: false,
        sync: false,
        sums: sums_of(at, bytes)
            .iter()
            .map(|sum| format!("{sum:08x}"))
            .collect(),
    };
    let make = Op::Make {
        parent: 1,
        name: "f".to_owned(),
        kind: Kind::File,
        permissions: 0o644,
        is_opened: true,
    };
    let fsync = || Op::Fsync {
        ino: 40,
        data_only: false,
    };
    let lookup = |name: &str| Op::Lookup {
        parent: 1,
        name: name.to_owned(),
    };
    let mut missing = entry(1, lookup("none"), None);
    missing.error = Some(FsError::NotFound.errno());
    let mut entries = vec![
        entry(0, make, Some(40)),
        entry(0, write(0, &[7; 16_384]), None),
        entry(0, fsync(), None),
        missing,
        entry(1, lookup("f"), Some(40)),
    ];
    for value in 1..30_u8 {
        entries.push(entry(0, write(4096, &[value; 64]), None));
        entries.push(entry(0, fsync(), None));
    }
    Recording {
        before: Vec::new(),
        entries,
    }
}

fn played(personality: Personality, recording: &Recording) -> LoadResult {
    let setup = Setup::new(personality, Scale::new(256).unwrap());
    replay("test", recording, &setup, &Playing::default()).unwrap()
}

#[test]
fn small_changes_go_by_bytes_where_a_file_system_can() {
    let recording = recording();
    let bytefs = played(Personality::ByteFs, &recording);
    let again = played(Personality::ByteFs, &recording);
    assert_eq!(bytefs.json().to_string(), again.json().to_string());
    let blocks = played(Personality::Ext4Like, &recording);
    assert_eq!(bytefs.operations, recording.entries.len() as u64);
    assert_eq!(bytefs.synced["fs_pages_by_bytes"], 29);
    assert_eq!(blocks.synced["fs_pages_by_bytes"], 0);
    assert!(blocks.virtual_time_ps > bytefs.virtual_time_ps);
}

#[test]
fn syncs_of_a_recording_become_stores_with_dax() {
    let mut recording = recording();
    for entry in &mut recording.entries {
        if let Op::Fsync { data_only, .. } = &mut entry.op {
            *data_only = true;
        }
    }
    recording.entries.insert(5, mark("from"));
    recording.entries.push(mark("to"));
    let mut setup = Setup::new(Personality::Ext4Like, Scale::new(256).unwrap());
    setup.preset = Some("consumer-tlc".to_owned());
    setup.layers = vec![Layer::assignment("device.pmem=1MiB").unwrap()];
    let playing = Playing {
        between: Some(("from".to_owned(), "to".to_owned())),
        ..Playing::default()
    };
    let usual = replay("test", &recording, &setup, &playing).unwrap();
    setup.fs = FsOptions::of(&["fs.dax=auto"]).unwrap();
    let light = replay("test", &recording, &setup, &playing).unwrap();
    let count = |result: &LoadResult| result.measured.get("dax_light_syncs").copied();
    assert_eq!(count(&usual), None);
    assert!(count(&light) > Some(20), "{:?}", count(&light));
    let took = |result: &LoadResult| result.part.unwrap().virtual_time_ps;
    assert!(took(&usual) > 2 * took(&light));
}

/// Writes that made what was there before are none of the run's: a file that was written whole
/// and is then synced behind each write is upgraded as a new one is.
#[test]
fn what_was_there_before_does_not_count_for_dax() {
    let mut recording = recording();
    recording.entries.retain(|entry| entry.error.is_none());
    recording.before = recording.entries.drain(..2).collect();
    let Op::Write { sums, size, .. } = &mut recording.before[1].op else {
        panic!("it is a write");
    };
    *sums = "00000001".repeat(64 * 64);
    *size = 64 * 4096;
    for entry in &mut recording.entries {
        if let Op::Fsync { data_only, .. } = &mut entry.op {
            *data_only = true;
        }
    }
    let mut setup = Setup::new(Personality::Ext4Like, Scale::new(256).unwrap());
    setup.preset = Some("consumer-tlc".to_owned());
    setup.layers = vec![Layer::assignment("device.pmem=1MiB").unwrap()];
    setup.fs = FsOptions::of(&["fs.dax=auto"]).unwrap();
    let played = replay("test", &recording, &setup, &Playing::default()).unwrap();
    let light = played.measured["dax_light_syncs"];
    assert!(light > 20, "{light} of 30");
}

/// A program that asks for its file: with the value that it has set, or, in recordings that do not
/// say it, for all of it.
#[test]
fn what_a_program_asked_for_is_asked_for_again() {
    let mut setup = Setup::new(Personality::Ext4Like, Scale::new(256).unwrap());
    setup.preset = Some("consumer-tlc".to_owned());
    setup.layers = vec![Layer::assignment("device.pmem=1MiB").unwrap()];
    // The policy has nothing upgraded before so many writes.
    setup.fs = FsOptions::of(&["fs.dax=auto", "fs.dax_after=1000"]).unwrap();
    // Page 1 is what is written and synced.
    for (value, is_asked_for) in [
        (Some("all"), true),
        (Some("4KiB-8KiB"), true),
        (Some("0B-4KiB"), false),
        (None, true),
    ] {
        let mut recording = recording();
        for entry in &mut recording.entries {
            if let Op::Fsync { data_only, .. } = &mut entry.op {
                *data_only = true;
            }
        }
        let set = Op::SetXattr {
            ino: 40,
            name: "user.entresol.dax".to_owned(),
            size: value.map_or(3, str::len),
            value: value.map(str::to_owned),
        };
        recording.entries.insert(1, entry(0, set, None));
        let recording = Recording::parse(&recording.text()).unwrap();
        let played = replay("test", &recording, &setup, &Playing::default()).unwrap();
        let light = played.measured["dax_light_syncs"];
        assert_eq!(light > 20, is_asked_for, "{value:?}: {light} of 30");
    }
}

fn mark(name: &str) -> Entry {
    let op = Op::Lookup {
        parent: 1,
        name: name.to_owned(),
    };
    Entry {
        error: Some(FsError::NotFound.errno()),
        ..entry(7, op, None)
    }
}

#[test]
fn another_outcome_than_the_recorded_one_is_an_error() {
    let mut recording = recording();
    recording.entries[3].error = None;
    let setup = Setup::new(Personality::ByteFs, Scale::new(256).unwrap());
    let error = replay("test", &recording, &setup, &Playing::default()).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("operation 4 of the recording, lookup"),
        "{error}"
    );
}

/// A server's batches between two names, as a recording of one client has them.
fn of_one_client() -> Recording {
    let whole = recording();
    let mut entries = whole.entries[..3].to_vec();
    entries.push(mark("from"));
    entries.extend(whole.entries[5..].iter().cloned());
    entries.push(mark("to"));
    entries.push(whole.entries[2].clone());
    Recording {
        before: Vec::new(),
        entries,
    }
}

fn clients(count: u64) -> Clients {
    let text = format!(
        "{{\"count\":{count},\"pipeline\":1,\"requests\":600,\"bytes\":45,\"receive_ns\":5000,\
         \"request_ns\":1000,\"answer_ns\":4000,\"round_ns\":10000,\"wake_ns\":30000,\
         \"sync_ns\":5000,\"tool_ns\":40000,\"tool_request_ns\":1000}}"
    );
    Clients::parse(&text).unwrap()
}

#[test]
fn clients_share_syncs_as_long_as_these_take() {
    let recording = of_one_client();
    let mut setup = Setup::new(Personality::Ext4Like, Scale::new(256).unwrap());
    setup.preset = Some("consumer-tlc".to_owned());
    setup.layers = vec![Layer::assignment("device.pmem=1MiB").unwrap()];
    let served = |setup: &Setup, count: u64| {
        let playing = Playing {
            between: Some(("from".to_owned(), "to".to_owned())),
            clients: Some(clients(count)),
            ..Playing::default()
        };
        replay("test", &recording, setup, &playing).unwrap()
    };
    let alone = served(&setup, 1).part.unwrap();
    assert_eq!((alone.syncs, alone.operations), (600, 1_200));
    // What a round takes beside its write and its sync, but for the last answer and the first turn.
    let turn = Picos::from_nanos(5_000 + 1_000 + 4_000 + 10_000 + 30_000 + 5_000 + 41_000);
    let pauses = turn.get() * 600 - Picos::from_nanos(96_000 - 5_000).get();
    let of_files = alone.virtual_time_ps - pauses;
    assert!(of_files >= 600 * alone.sync_mean_ps && of_files < 606 * alone.sync_mean_ps);
    // A sync of milliseconds is shared by all that are not being answered meanwhile:
    // k = 50 - k + k · 4 / 41.
    let several = served(&setup, 50);
    let part = several.part.unwrap();
    let shared = 600.0 / part.syncs as f64;
    assert!((24.0..29.0).contains(&shared), "{shared}");
    assert_eq!(several.json(), served(&setup, 50).json());
    // Light ones are shared by fewer of few clients.
    let few = served(&setup, 8).part.unwrap();
    setup.fs = FsOptions::of(&["fs.dax=auto"]).unwrap();
    let light = served(&setup, 8).part.unwrap();
    assert!(light.syncs > few.syncs, "{} {}", light.syncs, few.syncs);
    assert!(light.virtual_time_ps < few.virtual_time_ps);
}

#[test]
fn clients_without_a_part_are_one_sentence() {
    let setup = Setup::new(Personality::Ext4Like, Scale::new(256).unwrap());
    let between = |from: &str, to: &str| Some((from.to_owned(), to.to_owned()));
    let mut silent = of_one_client();
    silent.entries.drain(4..silent.entries.len() - 2);
    for (recording, between, said) in [
        (of_one_client(), None, "of which there are none"),
        (
            of_one_client(),
            between("to", "from"),
            "the wrong way round",
        ),
        (
            of_one_client(),
            between("from", "none"),
            "none is not looked up",
        ),
        (silent, between("from", "to"), "nothing is written between"),
    ] {
        let playing = Playing {
            between,
            clients: Some(clients(2)),
            ..Playing::default()
        };
        let error = replay("test", &recording, &setup, &playing)
            .unwrap_err()
            .to_string();
        assert!(error.contains(said) && !error.contains('\n'), "{error}");
    }
}
