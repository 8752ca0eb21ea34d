//! How long a device takes to recover from a power cut, against the size of its log (ByteFS §5.5).

use crate::config::DeviceConfig;
use crate::engine::DeviceEngine;
use crate::error::DeviceFileError;
use crate::image::Image;
use crate::pace::{Pace, WallClock};
use crate::recovery::Recovered;
use port::{Acknowledge, Command, DeviceError};
use std::path::Path;
use thiserror::Error;
use units::address::LINE_BYTES;
use units::{ByteAddr, Bytes, Picos, Stream, Time, TxId};

/// Pages that one command writes before the log is filled.
const AT_A_TIME: u64 = 256;
/// Lines between two questions whether to go on.
const TURN: u64 = 8192;
/// Lines that are under way at a time while the second half of the log is filled.
const WAVE: u64 = 256;

/// What the log is filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filling {
    /// Lines logged for each page, on average, at random places.
    pub lines_per_page: u32,
    /// Both halves are filled: the second one so fast that the compaction of the first has hardly
    /// begun. Otherwise it is one.
    pub both_halves: bool,
}

/// What a recovery took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// What was there, and the accounted time of the scan.
    pub recovered: Recovered,
    /// Pages that lines were logged of, at most.
    pub pages: u64,
    /// Accounted time from the end of the scan until everything is on flash.
    pub flush: Picos,
    /// Pages read for it.
    pub read_pages: u64,
    /// Pages programmed for it.
    pub programmed_pages: u64,
    /// Time on this machine's clock until the device serves.
    pub opening_wall: Picos,
    /// Time on this machine's clock until everything is on flash.
    pub flush_wall: Picos,
}

/// Why there is no measurement.
#[derive(Debug, Error)]
pub enum Failed {
    /// The image cannot be made or opened.
    #[error(transparent)]
    File(#[from] DeviceFileError),
    /// A request failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// There is no log to fill.
    #[error("the device has no write log; choose a preset that has one, or set ssd.log.size")]
    NoLog,
    /// More lines than a page has.
    #[error("{each} lines of each page were to be logged and a page has {most}; take fewer")]
    TooManyLines {
        /// For each page.
        each: u32,
        /// What a page has.
        most: u64,
    },
    /// The device is too small for the log.
    #[error(
        "{lines} lines of the log, {each} for each page, need {needed} pages and the device has \
         {pages}; take more lines for each page, a smaller log or more flash"
    )]
    TooFewPages {
        /// Lines to be logged.
        lines: u64,
        /// For each page.
        each: u32,
        /// Pages that they would be of.
        needed: u64,
        /// Pages of the device.
        pages: u64,
    },
    /// The caller had enough.
    #[error("it was stopped")]
    Stopped,
}

/// Makes a device at `image`, where nothing is, writes pages, logs lines of them until one more
/// would seal a half of the log (or the second half), cuts the power, opens the device again and
/// drains the log. The image is removed. `go_on` is asked on the way.
///
/// # Errors
/// See [`Failed`].
pub fn measure(
    image: &Path,
    config: &DeviceConfig,
    filling: Filling,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Measured, Failed> {
    let half = match config.ssd.log.half_slot_count() {
        0 => return Err(Failed::NoLog),
        _ => config.ssd.log.seal_slot_count(),
    };
    let lines = if filling.both_halves { 2 * half } else { half } - 1;
    if lines == 0 {
        return Err(Failed::NoLog);
    }
    let each = filling.lines_per_page.max(1);
    let most = 1u64 << config.page().line_bits();
    if u64::from(each) > most {
        return Err(Failed::TooManyLines { each, most });
    }
    let (needed, pages) = (
        lines.div_ceil(u64::from(each)),
        config.capacity() / config.page().bytes(),
    );
    if needed > pages {
        return Err(Failed::TooFewPages {
            lines,
            each,
            needed,
            pages,
        });
    }
    Image::create(image, config)?;
    let filled = fill(image, config, (lines, half), needed, go_on);
    let measured = filled.and_then(|()| recover(image, needed));
    // Whatever came of it, nobody needs the image.
    let _ = std::fs::remove_dir_all(image);
    measured
}

/// Writes the pages, logs the lines, of which a half of the log takes so many, and drops the
/// engine, which is the power cut.
fn fill(
    image: &Path,
    config: &DeviceConfig,
    (lines, half): (u64, u64),
    pages: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), Failed> {
    let mut engine = DeviceEngine::open(image, Pace::None)?;
    let page = config.page().bytes();
    let mut first = 0;
    while first < pages {
        let count = AT_A_TIME.min(pages - first);
        let bytes = vec![1; (page * count).get() as usize];
        let command = Command::WriteBlocks(Acknowledge::Accepted);
        write(&mut engine, command, page * first, &bytes)?;
        first += count;
        check(go_on)?;
    }
    engine.settle();
    let mut stream = Stream::new(1, "recovery time");
    let in_range = pages * (page / LINE_BYTES);
    let mut next = || LINE_BYTES * stream.below(in_range);
    let (command, bytes) = (Command::Write(TxId::NONE), [2; LINE_BYTES.get() as usize]);
    for line in 0..lines.min(half - 1) {
        write(&mut engine, command, next(), &bytes)?;
        if line % TURN == 0 {
            check(go_on)?;
        }
    }
    engine.settle();
    let mut logged = half - 1;
    while logged < lines {
        let wave = WAVE.min(lines - logged);
        let mut tickets = Vec::with_capacity(wave as usize);
        for _ in 0..wave {
            tickets.push(engine.submit_write(command, ByteAddr::new(next().get()), &bytes)?);
        }
        for ticket in tickets {
            engine.finish(ticket, &mut [])?;
        }
        logged += wave;
        check(go_on)?;
    }
    Ok(())
}

fn write(
    engine: &mut DeviceEngine,
    command: Command,
    at: Bytes,
    bytes: &[u8],
) -> Result<(), Failed> {
    let ticket = engine.submit_write(command, ByteAddr::new(at.get()), bytes)?;
    engine.finish(ticket, &mut [])?;
    Ok(())
}

fn check(go_on: &mut dyn FnMut() -> bool) -> Result<(), Failed> {
    if go_on() {
        Ok(())
    } else {
        Err(Failed::Stopped)
    }
}

/// Opens the device that was cut off, and drains its log.
fn recover(image: &Path, pages: u64) -> Result<Measured, Failed> {
    let wall = WallClock::start(Time::ZERO);
    let since = |earlier: Time| wall.now().saturating_since(earlier);
    let mut engine = DeviceEngine::open(image, Pace::None)?;
    let opening_wall = since(Time::ZERO);
    let (opened, before) = (wall.now(), engine.stats());
    engine.drain()?;
    let after = engine.stats();
    Ok(Measured {
        recovered: engine.recovered(),
        pages,
        flush: after.clock.saturating_since(before.clock),
        read_pages: after.flash.reads - before.flash.reads,
        programmed_pages: after.flash.programs - before.flash.programs,
        opening_wall,
        flush_wall: since(opened),
    })
}
