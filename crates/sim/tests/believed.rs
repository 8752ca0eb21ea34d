//! A device of its own as the device of a run: what it says is believed, what it loses is found.

use crate::common::{mixed, prepare, time};
use inloop::Tape;
use inloop::nvme::{Accessed, LineDevice, NvmeError};
use inloop::opencxd::Done;
use serde_json::Value;
use sim::in_loop::{DeviceSource, SharedLines};
use sim::run::Prepared;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use units::{LineAddr, Picos};

/// Caches are small, so lines come back.
const SMALL: [&str; 7] = [
    "cpu.cores=2",
    "cpu.l3=64KiB",
    "cpu.l2=32KiB",
    "cpu.l1d=16KiB",
    "run.warmup=30%",
    "ssd.dram=512KiB",
    "ssd.log.size=64KiB",
];

/// A device that has each page in its DRAM once it was asked for.
#[derive(Debug)]
struct Board {
    hit: Picos,
    miss: Picos,
    /// Says where lines were, as OpenCXD's does.
    tells: bool,
    lines: u64,
    /// Loses the store of this number.
    loses: Option<u64>,
    /// Refuses the access of this number.
    refuses: Option<u64>,
    pages: BTreeSet<u64>,
    data: BTreeMap<u64, [u8; 64]>,
    accesses: u64,
    stores: u64,
    filled: u64,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            hit: Picos::from_nanos(400),
            miss: Picos::from_micros(60),
            tells: false,
            lines: u64::MAX,
            loses: None,
            refuses: None,
            pages: BTreeSet::new(),
            data: BTreeMap::new(),
            accesses: 0,
            stores: 0,
            filled: 0,
        }
    }
}

impl LineDevice for Board {
    fn access(
        &mut self,
        line: LineAddr,
        is_store: bool,
        data: &mut [u8; 64],
    ) -> Result<Accessed, NvmeError> {
        self.accesses += 1;
        if self.refuses == Some(self.accesses) || line.get() >= self.lines {
            return Err(NvmeError::Status {
                path: "/dev/ng9n9".into(),
                what: if is_store { "a store" } else { "a load" },
                at: line.get() * 64,
                status: 0x80,
            });
        }
        let is_miss = !is_store && self.pages.insert(line.get() / 64);
        if is_store {
            self.stores += 1;
            if self.loses != Some(self.stores) {
                self.data.insert(line.get(), *data);
            }
        } else {
            *data = self.data.get(&line.get()).copied().unwrap_or([0xaa; 64]);
        }
        assert!(
            self.filled > 0 || self.accesses == 1,
            "its data are on flash"
        );
        let told = match (is_store, is_miss) {
            (true, _) => Done::LogWrite,
            (false, true) => Done::Miss { overhead: 44 },
            (false, false) if self.data.contains_key(&line.get()) => Done::LogRead,
            (false, false) => Done::CacheHit,
        };
        Ok(Accessed {
            took: if is_miss { self.miss } else { self.hit },
            done: self.tells.then_some(told),
        })
    }

    fn fill(&mut self, pages: u64) -> Result<(), NvmeError> {
        self.filled = pages;
        self.pages.clear();
        Ok(())
    }

    fn keeps_data(&self) -> bool {
        !self.tells
    }
}

fn run(design: &str) -> Prepared {
    prepare(&mixed(4, 300, 1_200, 1), "small", design, &SMALL)
}

fn on(board: Board, run: &Prepared) -> Result<(Value, Tape), String> {
    let lines: SharedLines = Arc::new(Mutex::new(board));
    let outcome = run.execute_on(&DeviceSource::Device(lines), &mut |_| true);
    let (result, tape) = outcome.map_err(|error| error.to_string())?;
    Ok((result.json().clone(), tape.expect("times were told")))
}

fn sentence(board: Board, run: &Prepared) -> String {
    let text = on(board, run).map(|_| ()).unwrap_err();
    assert!(!text.contains('\n'), "one sentence: {text}");
    text
}

#[test]
fn a_run_has_the_times_that_the_device_says_and_its_recording_repeats_it() {
    for design in [
        "base-cssd",
        "skybyte-w",
        "skybyte-c",
        "skybyte-full",
        "entresol",
    ] {
        for tells in [false, true] {
            let board = Board {
                tells,
                ..Board::default()
            };
            let run = run(design);
            let (result, tape) = on(board, &run).unwrap();
            let requests = &result["statistics"]["requests"];
            assert!(requests["ssd_misses"].as_u64().unwrap() > 0, "{design}");
            assert!(requests["ssd_cache_hits"].as_u64().unwrap() > 0, "{design}");
            assert_eq!(result["device"]["source"], "nvme");
            assert_eq!(result["device"]["flash"], "device");
            let miss = &result["device"]["work"].as_array().unwrap()[1];
            assert_eq!(
                (&miss["work"], &miss["p50_ps"]),
                (&"line from flash".into(), &60_000_000.into())
            );
            let tape = Tape::from_bytes(&tape.to_bytes()).unwrap();
            let source = DeviceSource::Recorded(tape);
            let (again, _) = run.execute_on(&source, &mut |_| true).unwrap();
            let again = again.json();
            assert_eq!(
                result["execution_time_ps"], again["execution_time_ps"],
                "{design}"
            );
            assert_eq!(result["statistics"], again["statistics"], "{design}");
            assert_eq!(result["device"]["work"], again["device"]["work"]);
        }
    }
}

#[test]
fn a_device_that_takes_longer_makes_the_run_longer() {
    let run = run("base-cssd");
    let of = |hit: u64, miss: u64| {
        let board = Board {
            hit: Picos::from_nanos(hit),
            miss: Picos::from_nanos(miss),
            ..Board::default()
        };
        time(&on(board, &run).unwrap().0)
    };
    let plain = of(400, 60_000);
    assert!(of(900, 60_000) > plain);
    assert!(of(400, 90_000) > plain);
}

#[test]
fn a_page_that_is_on_its_way_is_waited_for_and_may_be_delayed() {
    let of = |design: &str| on(Board::default(), &run(design)).unwrap().0;
    let base = of("base-cssd");
    let requests = &base["statistics"]["requests"];
    assert!(
        requests["ssd_merged_misses"].as_u64().unwrap() > 0,
        "{requests}"
    );
    assert_eq!(requests["delayed"], 0);
    let switching = of("skybyte-c");
    assert!(
        switching["statistics"]["requests"]["delayed"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert!(time(&switching) < time(&base), "others run meanwhile");
}

#[test]
fn a_switch_threshold_of_the_host_does_not_change_what_the_device_does() {
    let trace = mixed(4, 300, 1_200, 1);
    let of = |threshold| {
        let mut settings = SMALL.to_vec();
        settings.push(threshold);
        let run = prepare(&trace, "small", "base-cssd", &settings);
        on(Board::default(), &run).unwrap().0
    };
    let (low, high) = (
        of("os.switch_threshold=2us"),
        of("os.switch_threshold=100us"),
    );
    assert_eq!(low["statistics"], high["statistics"]);
    assert_eq!(low["execution_time_ps"], high["execution_time_ps"]);
}

#[test]
fn an_access_of_hours_is_a_sentence() {
    let board = Board {
        miss: Picos::from_micros(3_600_000_001),
        ..Board::default()
    };
    assert!(sentence(board, &run("base-cssd")).contains("look at its firmware"));
}

#[test]
fn what_a_device_refuses_is_a_sentence() {
    let run = run("skybyte-w");
    let refuses = |number| Board {
        refuses: Some(number),
        ..Board::default()
    };
    // The first is the look at the end of the program's data; then come warm-up and the run.
    for number in [1, 2, 700] {
        let text = sentence(refuses(number), &run);
        assert!(text.contains("/dev/ng9n9: answers a"), "{text}");
    }
    let small = Board {
        lines: 100,
        ..Board::default()
    };
    assert!(sentence(small, &run).contains("beyond its end"));
}

#[test]
fn a_device_that_loses_a_store_is_found() {
    let run = run("base-cssd");
    let found = (1..60).filter_map(|number| {
        let board = Board {
            loses: Some(number),
            ..Board::default()
        };
        on(board, &run).err()
    });
    let found: Vec<String> = found.collect();
    // A line that is written once more before it is read hides it.
    assert!(!found.is_empty());
    assert!(
        found.iter().all(|text| text.contains("was written last")),
        "{found:?}"
    );
}

#[test]
fn designs_whose_host_moves_pages_are_refused() {
    for design in ["skybyte-ct", "astriflash-cxl"] {
        let text = sentence(Board::default(), &run(design));
        assert!(text.contains("choose another"), "{text}");
    }
    let mut settings = SMALL.to_vec();
    settings.push("host.migration=instant");
    let at_once = prepare(&mixed(4, 300, 1_200, 1), "small", "skybyte-p", &settings);
    assert!(sentence(Board::default(), &at_once).contains("host.migration"));
}

#[test]
fn a_recording_that_is_cut_or_of_another_run_is_refused() {
    let run = run("skybyte-w");
    let (_, mut tape) = on(Board::default(), &run).unwrap();
    let mut longer = tape.clone();
    longer.times.push(longer.times[0]);
    tape.times.pop();
    for (tape, expected) in [(tape, "has no time of an access"), (longer, "1 more times")] {
        let source = DeviceSource::Recorded(tape);
        let error = run.execute_on(&source, &mut |_| true).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
