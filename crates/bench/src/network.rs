//! 4 KiB random reads over TCP: our NVMe target beside our NBD server, each with a client of ours.
//!
//! Both serve memory in threads of this process and are read in turn, again and again, so that what
//! else the machine does meets both alike. What counts is the ratio within a round, of which the
//! median is shown.

use crate::Options;
use device::Ram;
use port::{Device, block_on_with};
use serve::nvme::client::{Client, Manner};
use serve::nvme::{Subsystem, serve as serve_nvme};
use serve::{Address, Control, Listener, nbd, nvme};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use units::{ByteAddr, Bytes};

const SIZE: Bytes = Bytes::from_mib(256);
const BLOCK: usize = 4096;
const DEPTHS: [usize; 2] = [1, 32];
/// Of the NBD server's requests a second.
const WANTED: f64 = 0.8;
const ROUNDS: u64 = 15;
const MILLISECONDS: u64 = 400;

/// Who reads blocks, several at a time.
trait Reader {
    /// Asks for a block, at the latest when an answer is waited for.
    fn ask(&mut self, block: u64);
    /// Waits for an answer; its block is left in `into`.
    fn answer(&mut self, into: Vec<u8>) -> Result<Vec<u8>, String>;
}

struct OverNvme(Client);

impl Reader for OverNvme {
    fn ask(&mut self, block: u64) {
        let command = self.0.reading(block, 1);
        self.0.io.send(command, Vec::new());
    }

    fn answer(&mut self, into: Vec<u8>) -> Result<Vec<u8>, String> {
        let answer = self
            .0
            .io
            .receive_into(into)
            .map_err(|error| error.to_string())?;
        Ok(answer.data)
    }
}

/// A client of NBD with simple replies, as `serve::nvme::client` has it: what is asked is sent when
/// an answer is waited for, and as much is read at once as has come.
struct OverNbd {
    stream: TcpStream,
    input: Vec<u8>,
    start: usize,
    end: usize,
    output: Vec<u8>,
}

impl OverNbd {
    fn connect(place: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(place).map_err(|error| error.to_string())?;
        stream
            .set_nodelay(true)
            .map_err(|error| error.to_string())?;
        let mut client = Self {
            stream,
            input: vec![0; 256 << 10],
            start: 0,
            end: 0,
            output: Vec::new(),
        };
        // The greeting; no zeroes behind the export's flags; the export without a name.
        client.skip(18)?;
        client.output.extend(3_u32.to_be_bytes());
        client.output.extend(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
        client.skip(10)?;
        Ok(client)
    }

    fn fill(&mut self, size: usize) -> Result<(), String> {
        if self.end - self.start >= size {
            return Ok(());
        }
        let text = |error: std::io::Error| error.to_string();
        self.stream.write_all(&self.output).map_err(text)?;
        self.output.clear();
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < size {
            match self
                .stream
                .read(&mut self.input[self.end..])
                .map_err(text)?
            {
                0 => return Err("the NBD server hung up".to_string()),
                count => self.end += count,
            }
        }
        Ok(())
    }

    fn skip(&mut self, size: usize) -> Result<(), String> {
        self.fill(size)?;
        self.start += size;
        Ok(())
    }
}

impl Reader for OverNbd {
    fn ask(&mut self, block: u64) {
        self.output.extend(0x2560_9513_u32.to_be_bytes());
        self.output.extend([0; 4]);
        self.output.extend(block.to_be_bytes());
        self.output.extend((block * BLOCK as u64).to_be_bytes());
        self.output.extend((BLOCK as u32).to_be_bytes());
    }

    fn answer(&mut self, mut into: Vec<u8>) -> Result<Vec<u8>, String> {
        self.fill(16)?;
        if self.input[self.start..self.start + 8] != [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0] {
            return Err("the NBD server answers with an error".to_string());
        }
        self.start += 16;
        into.clear();
        while into.len() < BLOCK {
            self.fill(1)?;
            let size = (self.end - self.start).min(BLOCK - into.len());
            into.extend_from_slice(&self.input[self.start..self.start + size]);
            self.start += size;
        }
        Ok(into)
    }
}

/// Requests a second, so many at a time. Each block that is read is one that was written.
fn rate(reader: &mut dyn Reader, depth: usize, seed: u64, span: Duration) -> Result<f64, String> {
    let blocks = SIZE.get() / BLOCK as u64;
    let mut state = seed;
    let mut next = || {
        // Knuth's MMIX generator; its upper bits.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % blocks
    };
    for _ in 0..depth {
        reader.ask(next());
    }
    let (begin, mut count, mut buffer) = (now(), 0_u64, Vec::new());
    while !count.is_multiple_of(64) || begin.elapsed() < span {
        buffer = reader.answer(buffer)?;
        let stamp = buffer.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        if buffer.len() != BLOCK || stamp.is_none_or(|stamp| stamp >= blocks) {
            return Err("a block was read that was never written".to_string());
        }
        reader.ask(next());
        count += 1;
    }
    let took = begin.elapsed();
    for _ in 0..depth {
        buffer = reader.answer(buffer)?;
    }
    Ok(count as f64 / took.as_secs_f64())
}

#[allow(clippy::disallowed_methods, reason = "a measurement of the wall clock")]
fn now() -> Instant {
    Instant::now()
}

/// Memory in which each block begins with its number.
fn memory() -> Result<Ram, String> {
    let ram = Ram::new(SIZE, Bytes::new(BLOCK as u64));
    let mut block = vec![0; BLOCK];
    for number in 0..SIZE.get() / BLOCK as u64 {
        block[..8].copy_from_slice(&number.to_le_bytes());
        let at = ByteAddr::new(number * BLOCK as u64);
        let write = ram.write_blocks(at, &block, port::Acknowledge::Accepted);
        block_on_with(&ram, write, |_| {}).map_err(|error| error.to_string())?;
    }
    Ok(ram)
}

fn listen() -> Result<(Listener, SocketAddr), String> {
    let address = Address::parse("127.0.0.1:0", false).map_err(|error| error.to_string())?;
    let listener = Listener::bind(&address).map_err(|error| error.to_string())?;
    let place = listener
        .place()
        .parse()
        .map_err(|_| "no port".to_string())?;
    Ok((listener, place))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// `bench over-tcp [rounds=N] [milliseconds=N]`.
pub fn measure(words: &[&str], options: &Options) -> Result<(), String> {
    let (mut rounds, mut milliseconds) = (ROUNDS, MILLISECONDS);
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match (name, value.parse::<u64>()) {
            ("rounds", Ok(value)) => rounds = value.max(1),
            ("milliseconds", Ok(value)) => milliseconds = value,
            _ => return Err(format!("{word}: write rounds=N or milliseconds=N")),
        }
    }
    let (over_nbd, nbd_place) = listen()?;
    let (over_nvme, nvme_place) = listen()?;
    let stop = AtomicBool::new(false);
    let control = || match stop.load(Ordering::Relaxed) {
        true => Control::Stop,
        false => Control::Continue,
    };
    std::thread::scope(|scope| {
        scope.spawn(move || -> Result<(), String> {
            let ram = memory()?;
            let export =
                nbd::Export::new("memory", ram.shape()).map_err(|error| error.to_string())?;
            nbd::serve(&ram, over_nbd, export, nbd::Limits::default(), control)
                .map(drop)
                .map_err(|error| error.to_string())
        });
        scope.spawn(move || -> Result<(), String> {
            let ram = memory()?;
            let subsystem = Subsystem::new("memory", [7; 16], ram.shape());
            let subsystem = subsystem.map_err(|error| error.to_string())?;
            serve_nvme(&ram, over_nvme, subsystem, nvme::Limits::default(), control)
                .map(drop)
                .map_err(|error| error.to_string())
        });
        let outcome = compare(
            nbd_place,
            nvme_place,
            rounds,
            Duration::from_millis(milliseconds),
        );
        stop.store(true, Ordering::Relaxed);
        show(&outcome?, options)
    })
}

/// Of each depth the rates of each round: NBD, NVMe.
type Rates = Vec<(usize, Vec<(f64, f64)>)>;

fn compare(
    nbd: SocketAddr,
    nvme: SocketAddr,
    rounds: u64,
    span: Duration,
) -> Result<Rates, String> {
    let mut over_nbd = OverNbd::connect(nbd)?;
    let client = Client::connect(nvme, Manner::default()).map_err(|error| error.to_string())?;
    let mut over_nvme = OverNvme(client);
    let mut rates: Rates = DEPTHS.iter().map(|depth| (*depth, Vec::new())).collect();
    for round in 0..rounds {
        for (depth, found) in &mut rates {
            // Who is first changes with each round.
            let mut of_nbd = || rate(&mut over_nbd, *depth, round, span);
            let mut of_nvme = || rate(&mut over_nvme, *depth, round, span);
            found.push(if round.is_multiple_of(2) {
                let first = of_nbd()?;
                (first, of_nvme()?)
            } else {
                let first = of_nvme()?;
                (of_nbd()?, first)
            });
        }
    }
    Ok(rates)
}

fn show(rates: &Rates, options: &Options) -> Result<(), String> {
    let mut is_enough = true;
    for (depth, found) in rates {
        let of = |pick: fn(&(f64, f64)) -> f64| median(found.iter().map(pick).collect());
        let ratio = of(|(nbd, nvme)| nvme / nbd);
        is_enough &= ratio >= WANTED;
        let (nbd, nvme) = (of(|rates| rates.0), of(|rates| rates.1));
        if options.is_json {
            let row = serde_json::json!({
                "depth": depth, "nbd_per_s": nbd, "nvme_per_s": nvme, "ratio": ratio,
            });
            println!("{row}");
        } else {
            println!(
                "{depth:2} at a time: NBD {nbd:8.0}/s, NVMe/TCP {nvme:8.0}/s, ratio {ratio:.2} \
                 (median of {} rounds)",
                found.len()
            );
        }
    }
    match is_enough {
        true => Ok(()),
        false => Err(format!("less than {WANTED} of the NBD server's reads")),
    }
}
