//! Speed of the real-time device: persisted writes of a line, in process, without waiting for
//! device time.
//!
//! `bench [--json] [--count] device PRESET DIRECTORY [NAME=VALUE…] [SETTING…]` makes an image in
//! the directory and removes it. Names: `pattern` (`seq`, `random`, `same`), `writes`, `span`
//! (bytes that they fall on).

use crate::{Options, calibrate, cpu_seconds};
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Image, Pace};
use port::Command;
use serde_json::json;
use std::path::{Path, PathBuf};
use units::{ByteAddr, Bytes, Stream, TxId};

/// What is written.
struct Writes {
    pattern: String,
    count: u64,
    span: u64,
}

impl Writes {
    fn from_words(words: &[&str]) -> Result<(Self, Vec<String>), String> {
        let mut writes = Self {
            pattern: "seq".to_owned(),
            count: 4_000_000,
            span: 64 << 20,
        };
        let mut settings = Vec::new();
        for word in words {
            match word.split_once('=') {
                Some(("pattern", value)) => writes.pattern = value.to_owned(),
                Some(("writes", value)) => writes.count = crate::number(value)?,
                Some(("span", value)) => {
                    let span: Bytes = value.parse().map_err(|error| format!("{error}"))?;
                    writes.span = span.get();
                }
                _ => settings.push((*word).to_owned()),
            }
        }
        Ok((writes, settings))
    }

    /// Where the next line goes.
    fn next(&self, number: u64, stream: &mut Stream) -> u64 {
        let lines = self.span / 64;
        let line = match self.pattern.as_str() {
            "random" => stream.below(lines),
            "same" => 0,
            _ => number % lines,
        };
        line * 64
    }
}

/// Makes an image in a directory; its path.
pub fn image(preset: &str, directory: &str, settings: &[String]) -> Result<PathBuf, String> {
    let layers: Result<Vec<Layer>, _> = settings.iter().map(|set| Layer::assignment(set)).collect();
    let layers = layers.map_err(|error| error.to_string())?;
    let config = DeviceConfig::of_preset(preset, &layers).map_err(|error| error.to_string())?;
    let path = Path::new(directory).join("bench-image");
    Image::create(&path, &config).map_err(|error| error.to_string())?;
    Ok(path)
}

/// Writes lines and waits for each to be persistent.
pub fn measure(
    preset: &str,
    directory: &str,
    words: &[&str],
    options: &Options,
) -> Result<(), String> {
    let (writes, settings) = Writes::from_words(words)?;
    let path = image(preset, directory, &settings)?;
    let report = run(&path, &writes, options);
    std::fs::remove_dir_all(&path).map_err(|error| error.to_string())?;
    println!("{}", report?);
    Ok(())
}

fn run(path: &Path, writes: &Writes, options: &Options) -> Result<String, String> {
    let calibration = if options.is_counted { 0.0 } else { calibrate() };
    let mut engine = DeviceEngine::open(path, Pace::None).map_err(|error| error.to_string())?;
    let before = cpu_seconds();
    persist_lines(&mut engine, writes)?;
    let seconds = cpu_seconds() - before;
    let rate = writes.count as f64 / seconds;
    let stats = engine.stats();
    if options.is_json {
        return Ok(json!({
            "pattern": writes.pattern,
            "writes": writes.count,
            "cpu_seconds": seconds,
            "persisted_writes_per_second": rate,
            "calibration_million_per_second": calibration,
            "device_ps": stats.clock.as_picos(),
            "flash_programs": stats.flash.programs,
        })
        .to_string());
    }
    Ok(format!(
        "{} persisted writes of 64 B ({}) in {seconds:.2} s: {:.2} million/s; device time {}; \
         {} pages programmed; calibration {calibration:.0} M steps/s",
        writes.count,
        writes.pattern,
        rate / 1e6,
        stats.clock,
        stats.flash.programs,
    ))
}

/// What callgrind counts.
#[inline(never)]
fn persist_lines(engine: &mut DeviceEngine, writes: &Writes) -> Result<(), String> {
    let mut stream = Stream::new(1, "bench/device");
    let nowhere = (ByteAddr::new(0), Bytes::ZERO);
    let mut bytes = [0; 64];
    for number in 0..writes.count {
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        let at = ByteAddr::new(writes.next(number, &mut stream));
        let write = engine.submit_write(Command::Write(TxId::NONE), at, &bytes);
        let write = write.map_err(|error| error.to_string())?;
        let done = engine.finish(write, &mut []);
        done.map_err(|error| error.to_string())?;
        let persist = engine.submit(Command::Persist, nowhere.0, nowhere.1);
        let persist = persist.map_err(|error| error.to_string())?;
        let done = engine.finish(persist, &mut []);
        done.map_err(|error| error.to_string())?;
    }
    Ok(())
}
