//! A device alone whose firmware is in the loop: what its recording gives, and what becomes of a
//! replay whose process misbehaves.

use crate::common::time;
use crate::in_loop::{Mangler, NO_LATENCIES, PATIENCE, Process, of_work, same_statistics};
use crate::replay::spec;
use ::firmware::Work;
use inloop::{Tape, Words};
use serde_json::Value;
use sim::SimError;
use sim::in_loop::{DeviceSource, Fate};
use sim::replay::Replay;
use soc::Timed;
use units::{FlashOp, Picos};

/// Little of everything: the log turns, dies collect.
const SMALL: [&str; 8] = [
    "nand.channels=2",
    "nand.chips_per_channel=1",
    "nand.dies_per_chip=1",
    "nand.blocks_per_plane=40",
    "nand.pages_per_block=8",
    "ftl.over_provisioning=25%",
    "ssd.dram=128KiB",
    "ssd.log.size=16KiB",
];

fn replay(design: &str, words: &[&str], settings: &[&str]) -> Replay {
    let settings = [&SMALL[..], settings].concat();
    Replay::new(spec(design, words, &settings)).expect("a replay")
}

fn on(replay: &Replay, times: &DeviceSource) -> Result<(Value, Option<Tape>), SimError> {
    let (result, tape) = replay.execute_on(times, &mut |_| true)?;
    Ok((result.json().clone(), tape))
}

#[test]
fn a_recording_gives_the_replay_once_more_to_the_picosecond() {
    let lines = ["pattern=randrw", "bs=64B", "zipf=0.9", "requests=3000"];
    let pages = ["pattern=randrw", "bs=4KiB", "requests=400"];
    let parts = ["pattern=randrw", "bs=1536B", "port=block", "requests=400"];
    for words in [&lines[..], &pages, &parts] {
        for (design, depth) in [
            ("skybyte-w", "qd=1"),
            ("skybyte-w", "qd=32"),
            ("base-cssd", "qd=8"),
        ] {
            let words = [words, &[depth]].concat();
            let replay = replay(design, &words, &[]);
            let process = Process::start(None, None);
            let (looped, tape) = on(&replay, &process.source("cortex-a53", PATIENCE)).unwrap();
            process.thread.join().unwrap();
            assert_eq!(looped["device"]["source"], "loop");
            let tape = Tape::from_bytes(&tape.unwrap().to_bytes()).unwrap();
            assert!(!tape.times.is_empty(), "{words:?}: work was timed");
            let (fed, _) = on(&replay, &DeviceSource::Recorded(tape.clone())).unwrap();
            same_statistics(&looped, &fed);
            assert_eq!(looped["device"]["work"], fed["device"]["work"]);
            assert!(fed["warnings"].to_string().contains("it repeats that run"));
            let mut short = tape;
            short.times.pop();
            let error = on(&replay, &DeviceSource::Recorded(short)).unwrap_err();
            assert!(error.to_string().contains("are not of this run"), "{error}");
        }
    }
}

#[test]
fn a_firmware_that_takes_no_time_gives_the_replay_of_a_model_without_latencies() {
    let words = ["pattern=randrw", "bs=64B", "requests=3000", "qd=4"];
    let replay = replay("skybyte-w", &words, &NO_LATENCIES);
    let modelled = replay.execute(&mut |_| true).unwrap().json().clone();
    let process = Process::start(None, None);
    let (looped, _) = on(&replay, &process.source("instant", PATIENCE)).unwrap();
    process.thread.join().unwrap();
    same_statistics(&modelled, &looped);
}

/// Software asks the log only for what the data cache has not.
#[test]
fn work_that_is_not_done_is_not_counted() {
    let words = ["pattern=seqread", "bs=64B", "qd=1", "requests=64"];
    let replay = replay("skybyte-w", &words, &[]);
    let process = Process::start(None, None);
    let (looped, _) = on(&replay, &process.source("cortex-a53", PATIENCE)).unwrap();
    process.thread.join().unwrap();
    assert_eq!(of_work(&looped, "check cache")["count"], 64);
    assert_eq!(of_work(&looped, "check log")["count"], 1);
}

/// What a replay says whose process changes its messages so.
fn error_of(change: impl FnMut(&mut Words) -> Fate + Send + 'static) -> String {
    let words = ["pattern=randrw", "bs=64B", "zipf=0.9", "requests=3000"];
    let replay = replay("skybyte-w", &words, &[]);
    let mangle: Mangler = Box::new(change);
    let process = Process::start(None, Some(mangle));
    let error = on(&replay, &process.source("cortex-a53", PATIENCE));
    process.thread.join().unwrap();
    let text = error.expect_err("there is no result").to_string();
    assert!(!text.contains('\n'), "one sentence: {text}");
    text
}

#[test]
fn a_process_that_dies_or_forgets_is_a_sentence() {
    let mut said = 0;
    let error = error_of(move |_| {
        said += 1;
        match said {
            700 => Fate::Dies,
            _ => Fate::Said,
        }
    });
    assert!(error.contains("the firmware process has gone"), "{error}");
    let error = error_of(|words| {
        let is_answer = (words[0] >> 32) as u8 == 0x81;
        let has_data = (words[2] >> 32) as u8 == 0;
        if is_answer && has_data && words[7] != 0 {
            words[7] -= 1;
        }
        Fate::Said
    });
    assert!(error.contains("was written last"), "{error}");
}

/// What a read takes that is nowhere but on flash, of which a read takes so long. The next page is
/// fetched, too.
fn cold_read(flash: Picos) -> u64 {
    let words = ["pattern=seqread", "bs=64B", "qd=1", "requests=1"];
    let replay = replay("base-cssd", &words, &[]);
    let work = |work| (Timed::Work(work), Picos::ZERO);
    let read = (Timed::Flash(FlashOp::Read), flash);
    let lookup = work(Work::CacheLookup { is_write: false });
    let insert = work(Work::CacheInsert);
    let times = vec![lookup, insert, insert, read, read];
    let tape = Tape {
        config_digest: replay
            .config_of_device()
            .digest()
            .as_bytes()
            .try_into()
            .unwrap(),
        times,
    };
    time(&on(&replay, &DeviceSource::Recorded(tape)).unwrap().0)
}

#[test]
fn what_the_drive_takes_is_what_a_request_waits_for_it() {
    let (short, long) = (Picos::from_micros(50), Picos::from_micros(90));
    assert!(cold_read(short) > short.get());
    assert_eq!(cold_read(long) - cold_read(short), (long - short).get());
}
