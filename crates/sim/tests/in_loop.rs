//! The device in the loop: a firmware process in a thread of its own, what its recording gives, and
//! what becomes of a run whose process misbehaves.

use crate::common::{mixed, prepare, time};
use ::firmware::Work;
use inloop::{Drive, DriveOptions, Hello, Listener, Processor, Tape, Words};
use serde_json::Value;
use sim::SimError;
use sim::in_loop::{DeviceSource, Fate, serve};
use sim::run::Prepared;
use soc::Timed;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;
use trace::TraceFile;
use units::{Bytes, Picos};

pub type Mangler = Box<dyn FnMut(&mut Words) -> Fate + Send>;

static SOCKETS: AtomicU32 = AtomicU32::new(0);
/// A run in the loop keeps two processors busy.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A firmware process for one run.
pub struct Process {
    _turn: MutexGuard<'static, ()>,
    socket: PathBuf,
    pub thread: JoinHandle<Option<Drive>>,
}

impl Process {
    pub fn start(times: Option<Tape>, mangle: Option<Mangler>) -> Self {
        Self::with(times, None, mangle)
    }

    fn with(times: Option<Tape>, drive: Option<Drive>, mangle: Option<Mangler>) -> Self {
        let turn = ONE_AT_A_TIME.lock();
        let turn = turn.unwrap_or_else(std::sync::PoisonError::into_inner);
        let number = SOCKETS.fetch_add(1, Ordering::Relaxed);
        let name = format!("entresol-loop-{}-{number}", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let listener = Listener::at(&socket).unwrap();
        let thread = spawn(move || {
            let run = listener.accept(Duration::from_secs(20)).unwrap();
            let run = run.expect("a run connects");
            let mut mangle = mangle;
            let mangle = mangle.as_mut().map(|mangle| &mut **mangle as _);
            // A run that has gone takes nothing more.
            let times = times.map(|tape| tape.times.into_iter().map(work_of).collect());
            let mut drive = drive;
            let _ = serve(run, times, &mut drive, mangle);
            drive
        });
        Self {
            _turn: turn,
            socket,
            thread,
        }
    }

    pub fn source(&self, processor: &str, patience: Duration) -> DeviceSource {
        DeviceSource::Loop {
            socket: self.socket.clone(),
            processor: Processor::of_text(processor).unwrap(),
            patience,
        }
    }
}

/// A recording without a drive has nothing but work.
fn work_of((what, time): (Timed, Picos)) -> (Work, Picos) {
    match what {
        Timed::Work(work) => (work, time),
        other => panic!("{other:?} of no firmware"),
    }
}

/// A file as a drive, filled.
fn drive(name: &str, size: Bytes) -> Drive {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", env!("CARGO_PKG_NAME")));
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(size.get()).unwrap();
    let mut drive = Drive::open(&path, DriveOptions::default()).unwrap();
    std::fs::remove_file(&path).unwrap();
    drive.fill().unwrap();
    drive
}

fn on(run: &Prepared, source: &DeviceSource) -> Result<(Value, Option<Tape>), SimError> {
    let (result, tape) = run.execute_on(source, &mut |_| true)?;
    Ok((result.json().clone(), tape))
}

pub const PATIENCE: Duration = Duration::from_secs(20);

/// What a run says that has no result.
fn sentence(run: &Prepared, source: &DeviceSource) -> String {
    match on(run, source) {
        Ok(_) => panic!("the run has a result"),
        Err(error) => error.to_string(),
    }
}

fn in_loop(run: &Prepared, processor: &str) -> (Value, Tape) {
    let process = Process::start(None, None);
    let (result, tape) = on(run, &process.source(processor, PATIENCE)).unwrap();
    process.thread.join().unwrap();
    (result, tape.expect("times were measured"))
}

/// Little of everything: the log turns, pages move, dies collect.
const SMALL: [&str; 10] = [
    "ssd.dram=512KiB",
    "ssd.log.size=16KiB",
    "cpu.cores=2",
    "cpu.l3=64KiB",
    "cpu.l2=32KiB",
    "cpu.l1d=16KiB",
    "host.promoted=64KiB",
    "host.reserve=4",
    "ftl.fill=80%",
    "run.warmup=30%",
];

fn small(threads: u32, steps: u64, seed: u64) -> TraceFile {
    mixed(threads, 400, steps, seed)
}

pub fn same_statistics(a: &Value, b: &Value) {
    assert_eq!(a["execution_time_ps"], b["execution_time_ps"]);
    assert_eq!(a["statistics"], b["statistics"]);
}

#[test]
fn a_recording_gives_the_run_of_every_design_once_more_to_the_picosecond() {
    let trace = small(3, 900, 1);
    for design in sim::config::presets::DESIGNS {
        let run = prepare(&trace, "small", design.name, &SMALL);
        if run.config().design.memory == sim::config::MemoryKind::Dram {
            continue;
        }
        let (looped, tape) = in_loop(&run, "cortex-a53");
        assert!(!tape.times.is_empty(), "{}: work was timed", design.name);
        let tape = Tape::from_bytes(&tape.to_bytes()).unwrap();
        let (fed, _) = on(&run, &DeviceSource::Recorded(tape)).unwrap();
        same_statistics(&looped, &fed);
        assert_eq!(looped["device"]["work"], fed["device"]["work"]);
    }
}

/// Firmware whose work takes nothing.
pub const NO_LATENCIES: [&str; 6] = [
    "ssd.log.lookup=0ns",
    "ssd.cache.lookup=0ns",
    "ssd.read_rate=unlimited",
    "ssd.write_rate=unlimited",
    "ssd.compaction.page_cost=0ns",
    "ftl.gc_page_cost=0ns",
];

#[test]
fn a_firmware_that_takes_no_time_gives_the_time_of_a_model_without_latencies() {
    let trace = small(2, 1_200, 2);
    for design in ["base-cssd", "skybyte-w", "skybyte-full"] {
        let mut settings = SMALL.to_vec();
        settings.extend(NO_LATENCIES);
        let run = prepare(&trace, "small", design, &settings);
        let modelled = run.execute(&mut |_| true).unwrap().json().clone();
        let (looped, _) = in_loop(&run, "instant");
        same_statistics(&modelled, &looped);
    }
}

/// The process has the times of a recording: what is shown is that how late its replies come
/// changes nothing. That a slow platform is in no time that is taken is the meter's to show
/// (`what_the_platform_itself_takes_is_in_no_figure` in `crates/inloop/src/metered.rs`).
#[test]
fn when_replies_come_is_in_no_figure() {
    let trace = small(2, 800, 3);
    let run = prepare(&trace, "small", "skybyte-full", &SMALL);
    let (looped, tape) = in_loop(&run, "cortex-a53");
    let mut count = 0_u32;
    let slow: Mangler = Box::new(move |_| {
        count += 1;
        if count.is_multiple_of(64) {
            // What a busy machine does.
            let began = inloop::cycles();
            while inloop::cycles() - began < 200_000 {
                std::thread::yield_now();
            }
        }
        Fate::Said
    });
    let process = Process::start(Some(tape.clone()), Some(slow));
    let (slowly, again) = on(&run, &process.source("cortex-a53", PATIENCE)).unwrap();
    process.thread.join().unwrap();
    same_statistics(&looped, &slowly);
    assert_eq!(again, Some(tape));
}

/// What a run says whose process changes its `number`th message so.
fn error_of(number: u32, patience: Duration, change: fn(&mut Words) -> Fate) -> String {
    let trace = small(1, 500, 4);
    let run = prepare(&trace, "small", "skybyte-w", &SMALL);
    let mut count = 0;
    let mangle: Mangler = Box::new(move |words| {
        count += 1;
        match count == number {
            true => change(words),
            false => Fate::Said,
        }
    });
    let process = Process::start(None, Some(mangle));
    let error = sentence(&run, &process.source("cortex-a53", patience));
    process.thread.join().unwrap();
    let text = error;
    assert!(!text.contains('\n'), "one sentence: {text}");
    text
}

#[test]
fn a_process_that_dies_is_a_sentence() {
    for number in [1, 40, 300] {
        let text = error_of(number, PATIENCE, |_| Fate::Dies);
        assert!(text.contains("has gone"), "{text}");
    }
}

#[test]
fn a_process_that_hangs_is_a_sentence() {
    let text = error_of(300, Duration::from_millis(200), |_| Fate::Lost);
    assert!(text.contains("has not answered command"), "{text}");
    assert!(text.contains("200ms"), "{text}");
}

#[test]
fn answers_out_of_order_are_a_sentence() {
    let text = error_of(300, PATIENCE, |words| {
        words[1] -= 1;
        Fate::Said
    });
    assert!(text.contains("out of order"), "{text}");
}

#[test]
fn an_answer_with_a_wrong_tag_is_a_sentence() {
    let text = error_of(300, PATIENCE, |words| {
        words[1] += 1_000_000;
        Fate::Said
    });
    assert!(text.contains("which was never sent"), "{text}");
}

#[test]
fn an_answer_of_another_version_is_a_sentence() {
    let text = error_of(300, PATIENCE, |words| {
        words[0] ^= 1 << 40;
        Fate::Said
    });
    assert!(
        text.contains("in version 3 of the device protocol"),
        "{text}"
    );
}

#[test]
fn an_answer_that_the_model_does_not_give_is_a_sentence() {
    let is_answer = |words: &Words| (words[0] >> 32) as u8 == 0x81;
    let trace = small(1, 500, 4);
    let run = prepare(&trace, "small", "skybyte-w", &SMALL);
    let mut has_lied = false;
    let late: Mangler = Box::new(move |words| {
        if is_answer(words) && !has_lied {
            words[6] += 1;
            has_lied = true;
        }
        Fate::Said
    });
    let process = Process::start(None, Some(late));
    let error = sentence(&run, &process.source("cortex-a53", PATIENCE));
    process.thread.join().unwrap();
    assert!(error.contains("differ"), "{error}");
}

#[test]
fn a_read_that_gives_an_older_version_is_a_sentence() {
    let trace = mixed(1, 100, 4_000, 5);
    let mut settings = SMALL.to_vec();
    settings.push("cpu.l3=32KiB");
    let run = prepare(&trace, "small", "skybyte-w", &settings);
    let stale: Mangler = Box::new(|words| {
        let is_answer = (words[0] >> 32) as u8 == 0x81;
        let has_data = (words[2] >> 32) as u8 == 0;
        if is_answer && has_data && words[7] != 0 {
            words[7] -= 1;
        }
        Fate::Said
    });
    let process = Process::start(None, Some(stale));
    let error = sentence(&run, &process.source("cortex-a53", PATIENCE));
    process.thread.join().unwrap();
    assert!(error.contains("was written last"), "{error}");
}

#[test]
fn nobody_at_the_socket_is_a_sentence() {
    let trace = small(1, 10, 6);
    let run = prepare(&trace, "small", "skybyte-w", &SMALL);
    let source = DeviceSource::Loop {
        socket: "/nowhere/at/all".into(),
        processor: Processor::of_text("host").unwrap(),
        patience: PATIENCE,
    };
    let error = sentence(&run, &source);
    assert!(error.contains("/nowhere/at/all"), "{error}");
    assert!(error.contains("entresol firmware serve"), "{error}");
}

#[test]
fn a_process_that_is_at_another_run_is_a_sentence() {
    let trace = small(1, 100, 4);
    let run = prepare(&trace, "small", "skybyte-w", &SMALL);
    let socket = std::env::temp_dir().join(format!("entresol-busy-{}", std::process::id()));
    let listener = Listener::at(&socket).unwrap();
    let source = DeviceSource::Loop {
        socket,
        processor: Processor::of_text("instant").unwrap(),
        patience: Duration::from_millis(50),
    };
    let error = sentence(&run, &source);
    drop(listener);
    assert!(error.contains("may be at another run"), "{error}");
}

#[test]
fn a_recording_of_another_run_is_refused() {
    let trace = small(1, 500, 7);
    let run = prepare(&trace, "small", "skybyte-w", &SMALL);
    let (_, mut tape) = in_loop(&run, "host");
    let mut other = SMALL.to_vec();
    other.push("run.seed=9");
    let other = prepare(&trace, "small", "skybyte-w", &other);
    let error = sentence(&other, &DeviceSource::Recorded(tape.clone()));
    assert!(error.contains("run what was recorded"), "{error}");
    tape.times.truncate(tape.times.len() / 2);
    let error = sentence(&run, &DeviceSource::Recorded(tape));
    assert!(error.contains("record it anew"), "{error}");
}

#[test]
fn times_differ_with_the_processor() {
    let trace = small(2, 1_500, 8);
    let run = prepare(&trace, "small", "skybyte-w", &SMALL);
    let instant = time(&in_loop(&run, "instant").0);
    let slow = "[processor]\nclock = \"10MHz\"\ncycles = \"10/1\"";
    let (result, _) = in_loop(&run, slow);
    assert!(time(&result) > instant);
    // Software that slow is what everything waits for, and not the constants of the configuration.
    let told = &result["bottleneck"];
    assert_eq!(told["what"], "index lookup", "{told}");
    let evidence = told["evidence"].as_str().unwrap();
    assert!(evidence.contains("measured"), "{told}");
}

pub fn of_work<'a>(result: &'a Value, name: &str) -> &'a Value {
    let work = result["device"]["work"].as_array().unwrap();
    let found = work.iter().find(|each| each["work"] == name);
    found.unwrap_or_else(|| panic!("{name} in {work:?}"))
}

#[test]
fn a_file_is_the_flash_and_its_recording_gives_the_run_once_more() {
    let trace = mixed(1, 100, 2_500, 1);
    let mut settings = SMALL.to_vec();
    settings.extend([
        "ssd.log.size=4KiB",
        "cpu.l3=8KiB",
        "cpu.l2=4KiB",
        "cpu.l1d=2KiB",
    ]);
    let run = prepare(&trace, "small", "skybyte-w", &settings);
    let process = Process::with(None, Some(drive("flash", Bytes::from_mib(16))), None);
    let (looped, tape) = on(&run, &process.source("cortex-a53", PATIENCE)).unwrap();
    let back = process.thread.join().unwrap();
    assert!(back.is_some(), "the drive is there for the next run");
    assert_eq!(looped["device"]["flash"], "drive");
    assert!(of_work(&looped, "flash read")["mean_ps"].as_u64().unwrap() > 0);
    assert!(
        of_work(&looped, "flash program")["mean_ps"]
            .as_u64()
            .unwrap()
            > 0
    );
    let tape = Tape::from_bytes(&tape.unwrap().to_bytes()).unwrap();
    let (fed, _) = on(&run, &DeviceSource::Recorded(tape)).unwrap();
    same_statistics(&looped, &fed);
    assert_eq!(looped["device"], {
        let mut same = fed["device"].clone();
        for name in ["source", "clock", "cycles"] {
            same[name] = looped["device"][name].clone();
        }
        same
    });
}

#[test]
fn a_drive_that_is_too_small_is_a_sentence_and_stays() {
    let trace = small(1, 500, 4);
    let run = prepare(&trace, "small", "skybyte-w", &SMALL);
    let process = Process::with(None, Some(drive("tiny", Bytes::from_kib(64))), None);
    let error = sentence(&run, &process.source("cortex-a53", PATIENCE));
    let back = process.thread.join().unwrap();
    assert!(back.is_some(), "another run may want less");
    assert!(error.contains("has 64KiB and"), "{error}");
    assert!(!error.contains('\n'), "one sentence: {error}");
}

#[test]
fn a_run_that_goes_while_it_is_let_in_leaves_the_drive_to_the_next() {
    let trace = small(1, 500, 4);
    let run = prepare(&trace, "small", "skybyte-w", &SMALL);
    let hello = Hello {
        pages: 64,
        config: run.config().to_toml(),
        processor: Processor::of_text("cortex-a53").unwrap().to_toml(),
    };
    let (mut host, board) = UnixStream::pair().unwrap();
    hello.send(&mut host).unwrap();
    drop(host);
    let mut flash = Some(drive("left", Bytes::from_mib(16)));
    assert!(serve(board, None, &mut flash, None).is_err(), "it has gone");
    assert!(flash.is_some());
}

#[test]
fn a_drive_that_becomes_full_is_a_sentence() {
    let trace = mixed(1, 400, 4_000, 4);
    let run = prepare(&trace, "small", "base-cssd", &SMALL);
    let process = Process::with(None, Some(drive("full", Bytes::from_kib(1_608))), None);
    let error = sentence(&run, &process.source("cortex-a53", PATIENCE));
    process.thread.join().unwrap();
    assert!(error.contains("give a larger one"), "{error}");
}
