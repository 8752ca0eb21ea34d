//! Round trips through shared memory, beside one of two processes over bare memory.
//!
//! `bench [--json] shm PRESET DIRECTORY [NAME=VALUE…] [SETTING…]` makes an image in the directory,
//! serves it from a process of its own, and removes it. Names: `rounds`, `trips` (of each kind in a
//! round). The kinds take turns, so that what else the machine does falls on all; of each the round
//! with the least median counts.
#![allow(
    clippy::disallowed_methods,
    reason = "what is measured is time on the wall"
)]

use crate::{Options, calibrate};
use ::shm::handshake::memory;
use ::shm::{Client, Connect, Region};
use device::{Pace, RealDevice};
use port::{Device, Drive};
use serde_json::{Value, json};
use serve::{Address, Control, Listener};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use units::{ByteAddr, TxId};

/// Words of the bare memory, a pair of lines apart.
const PING: usize = 0;
const PONG: usize = 256;
/// What ends the echo.
const END: u64 = u64::MAX;
/// Requests under way of the deeper kind.
const DEPTH: usize = 16;
/// Lines that are read and written: they stay in the log.
const LINES: u64 = 1024;
/// Longer than server and client look before they sleep.
const PAUSE: Duration = Duration::from_micros(300);

type Trips = Vec<u64>;

/// Medians and 99th percentiles of the best round, in nanoseconds.
#[derive(Clone, Copy)]
struct Best {
    median: u64,
    p99: u64,
}

impl Best {
    const NONE: Self = Self {
        median: u64::MAX,
        p99: u64::MAX,
    };

    fn take(&mut self, mut trips: Trips) {
        trips.sort_unstable();
        let median = trips[trips.len() / 2];
        if median < self.median {
            self.median = median;
            self.p99 = trips[trips.len() * 99 / 100];
        }
    }
}

/// A process that goes when it is no longer needed.
pub(crate) struct Helper(Child);

impl Helper {
    pub(crate) fn start(words: &[&str]) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .spawn();
        child.map(Self).map_err(|error| error.to_string())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends this process when the one that started it does, which holds the other end of its input.
pub(crate) fn end_with_parent() {
    std::thread::spawn(|| {
        // Nothing comes but the end.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
}

/// Serves an image until it is killed or its input ends.
pub fn serve(image: &str, socket: &str) -> Result<(), String> {
    end_with_parent();
    let text = |error: &dyn core::fmt::Display| error.to_string();
    let device = RealDevice::open(Path::new(image), Pace::None).map_err(|error| text(&error))?;
    let address = Address::parse_unix(&format!("unix:{socket}")).map_err(|error| text(&error))?;
    let listener = Listener::bind(&address).map_err(|error| text(&error))?;
    let served = serve::shm::serve(&device, &listener, || Control::Continue);
    served.map(|_| ()).map_err(|error| text(&error))
}

/// Answers every new value of one word in another.
pub fn echo(path: &str) -> Result<(), String> {
    end_with_parent();
    let file = File::options().read(true).write(true).open(path);
    let file = file.map_err(|error| format!("{path}: {error}"))?;
    let region = Region::new(&file, 4096).map_err(|error| error.to_string())?;
    let (ping, pong) = (region.word(PING), region.word(PONG));
    let mut last = 0;
    while last != END {
        let value = ping.load(Ordering::Acquire);
        if value != last {
            pong.store(value, Ordering::Release);
            last = value;
        }
    }
    Ok(())
}

fn timed(trips: u64, mut trip: impl FnMut(u64)) -> Trips {
    let one = |number| {
        let begun = Instant::now();
        trip(number);
        nanos(begun)
    };
    (0..trips).map(one).collect()
}

fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn line(number: u64) -> ByteAddr {
    // Neighbours go to different pages.
    ByteAddr::new(number * 67 % LINES * 64)
}

/// Reads with several under way, each from submission to answer.
fn deep(client: &Client, trips: u64) -> Trips {
    let mut context = Context::from_waker(Waker::noop());
    let mut buffers = [[0_u8; 64]; DEPTH];
    let mut found = Vec::with_capacity(trips as usize);
    let mut number = 0;
    while number < trips {
        let mut under_way: Vec<Option<(Instant, Pin<Box<_>>)>> = Vec::with_capacity(DEPTH);
        for buffer in &mut buffers {
            let begun = Instant::now();
            let mut read = Box::pin(client.read(line(number), buffer));
            assert!(
                read.as_mut().poll(&mut context).is_pending(),
                "takes a while"
            );
            under_way.push(Some((begun, read)));
            number += 1;
        }
        while under_way.iter().any(Option::is_some) {
            client.turn();
            for entry in &mut under_way {
                if let Some((begun, read)) = entry
                    && read.as_mut().poll(&mut context).is_ready()
                {
                    found.push(nanos(*begun));
                    *entry = None;
                }
            }
        }
    }
    found
}

struct Plan {
    rounds: u64,
    trips: u64,
    settings: Vec<String>,
}

impl Plan {
    fn from_words(words: &[&str]) -> Result<Self, String> {
        let mut plan = Self {
            rounds: 30,
            trips: 4_000,
            settings: Vec::new(),
        };
        for word in words {
            match word.split_once('=') {
                Some(("rounds", value)) => plan.rounds = crate::number(value)?,
                Some(("trips", value)) => plan.trips = crate::number(value)?.max(100),
                _ => plan.settings.push((*word).to_owned()),
            }
        }
        Ok(plan)
    }
}

/// Measures everything and prints it.
pub fn measure(
    preset: &str,
    directory: &str,
    words: &[&str],
    options: &Options,
) -> Result<(), String> {
    let plan = Plan::from_words(words)?;
    let image = crate::device::image(preset, directory, &plan.settings)?;
    let report = with_server(&image, &plan);
    std::fs::remove_dir_all(&image).map_err(|error| error.to_string())?;
    let kinds = report?;
    let bare = kinds[0].1.median as f64;
    let steps_per_ns = if options.is_json {
        calibrate() / 1e3
    } else {
        0.0
    };
    for (name, best) in &kinds {
        let ratio = best.median as f64 / bare;
        if options.is_json {
            let told: Value = json!({
                "kind": name, "median_ns": best.median, "p99_ns": best.p99, "of_bare": ratio,
                "calibration_steps": best.median as f64 * steps_per_ns,
            });
            println!("{told}");
        } else {
            let (median, p99) = (best.median, best.p99);
            println!("{name:<44} median {median:>6} ns  p99 {p99:>7} ns  {ratio:>6.2} of bare");
        }
    }
    Ok(())
}

fn with_server(image: &Path, plan: &Plan) -> Result<Vec<(&'static str, Best)>, String> {
    let socket = std::env::temp_dir().join(format!("entresol-bench-{}", std::process::id()));
    let words = [image.display().to_string(), socket.display().to_string()];
    let _server = Helper::start(&["shm-serve", &words[0], &words[1]])?;
    let spinning = reach(&socket, Connect::default())?;
    let sleeping = Connect {
        spin: Duration::ZERO,
        ..Connect::default()
    };
    let sleeping = reach(&socket, sleeping)?;
    let (file, region) = memory(4096).map_err(|error| error.to_string())?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let echo = Helper::start(&["shm-echo", &path])?;
    let kinds = rounds(plan, &spinning, &sleeping, (&region, echo));
    // The server was killed and has left it.
    let _ = std::fs::remove_file(&socket);
    Ok(kinds)
}

fn reach(socket: &Path, connect: Connect) -> Result<Client, String> {
    let since = Instant::now();
    loop {
        match connect.to(socket) {
            Ok(client) => return Ok(client),
            Err(error) if since.elapsed() > Duration::from_secs(30) => {
                return Err(error.to_string());
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn read(client: &Client, number: u64) {
    let mut bytes = [0; 64];
    client
        .wait(client.read(line(number), &mut bytes))
        .expect("read");
}

fn write(client: &Client, number: u64) {
    let bytes = [number as u8; 64];
    client
        .wait(client.write(line(number), &bytes, TxId::NONE))
        .expect("written");
    client.wait(client.persist()).expect("persisted");
}

/// All kinds in turn. The echo spins only while it is measured, by itself: the server sleeps then.
fn rounds(
    plan: &Plan,
    spinning: &Client,
    sleeping: &Client,
    (region, echo): (&Region, Helper),
) -> Vec<(&'static str, Best)> {
    let mut kinds = [
        "bare ping-pong of two processes",
        "64 B read, both spin",
        "64 B persisted write (2 requests), both spin",
        "64 B read, 16 under way",
        "64 B read, both sleep",
    ]
    .map(|name| (name, Best::NONE));
    (0..LINES).for_each(|number| write(spinning, number));
    let mut value = 0;
    for _ in 0..plan.rounds {
        kinds[0].1.take(timed(plan.trips, |_| {
            value += 1;
            region.word(PING).store(value, Ordering::Release);
            while region.word(PONG).load(Ordering::Acquire) != value {
                core::hint::spin_loop();
            }
        }));
    }
    region.word(PING).store(END, Ordering::Release);
    drop(echo);
    for _ in 0..plan.rounds {
        kinds[1]
            .1
            .take(timed(plan.trips, |number| read(spinning, number)));
        kinds[2]
            .1
            .take(timed(plan.trips, |number| write(spinning, number)));
        kinds[3].1.take(deep(spinning, plan.trips));
        let sleepy = (0..plan.trips.div_ceil(40)).map(|number| {
            std::thread::sleep(PAUSE);
            let begun = Instant::now();
            read(sleeping, number);
            nanos(begun)
        });
        kinds[4].1.take(sleepy.collect());
    }
    kinds.to_vec()
}
