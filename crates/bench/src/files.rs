//! What programs do with files, in several directories by turns: so that other work on the machine
//! falls on all alike.
//!
//! `bench [--json] files DIR… [NAME=VALUE…]` tells the microseconds of an operation in each
//! directory, the median of the rounds and the least. Names: `rounds`, `files` (of a thread and
//! round), `writes`, `mib` (of a file that is read and written), `threads` (`1,8`), `only` (a
//! part of the names of the operations that are wanted).
//!
//! Each write brings other bytes than were there, or a file system that compares has nothing to do.
//! What an operation leaves to be written later is synced behind it, unmeasured, so that no other
//! one pays for it; where an fdatasync is part of the operation, its name says so.

use crate::{Options, number, text};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use units::Stream;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
/// What is written and waited for at a time: a cacheline.
const LINE: usize = 64;

struct Plan {
    rounds: u64,
    files: u64,
    writes: u64,
    mib: u64,
    threads: Vec<u64>,
    only: String,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            rounds: 5,
            files: 1000,
            writes: 1000,
            mib: 32,
            threads: vec![1, 8],
            only: String::new(),
        }
    }
}

/// An operation: its name, and what a thread does of it in a directory of its own; how often. What
/// is written are bytes of the value that it gets.
type Work = fn(&Plan, &Path, u8) -> io::Result<u64>;

const WORKS: [(&str, Work); 11] = [
    ("create", create),
    ("stat", stat),
    ("unlink", unlink),
    ("64 B write, fdatasync", write_lines),
    ("1 MiB write", write_in_order),
    ("1 MiB write, one fdatasync", write_in_order_synced),
    ("1 MiB read", read_in_order),
    ("4 KiB write, random", write_by_chance),
    ("4 KiB write, one fdatasync", write_by_chance_synced),
    ("4 KiB read, random", read_by_chance),
    ("4 KiB write, fdatasync", write_pages),
];

impl Plan {
    /// Operations that are wanted, by their places in the table.
    fn works(&self) -> impl Iterator<Item = (usize, &'static str, Work)> {
        let all = WORKS.iter().enumerate();
        let wanted = all.filter(|(_, (name, _))| name.contains(&self.only));
        wanted.map(|(at, (name, body))| (at, *name, *body))
    }
}

/// Values of bytes before they come again. None is that of bytes that were never written.
const VALUES: u64 = 255;

fn plan(words: &[&str]) -> Result<(Plan, Vec<PathBuf>), String> {
    let (mut plan, mut places) = (Plan::default(), Vec::new());
    for word in words {
        match word.split_once('=') {
            Some(("rounds", value)) => plan.rounds = number(value)?,
            Some(("files", value)) => plan.files = number(value)?,
            Some(("writes", value)) => plan.writes = number(value)?,
            Some(("mib", value)) => plan.mib = number(value)?,
            Some(("only", value)) => value.clone_into(&mut plan.only),
            Some(("threads", value)) => {
                let each: Result<Vec<u64>, String> = value.split(',').map(number).collect();
                plan.threads = each?;
            }
            Some((name, _)) => return Err(format!("{name} is no name of `files`")),
            None => places.push(PathBuf::from(word)),
        }
    }
    if places.is_empty() {
        return Err("`files` needs a directory".to_owned());
    }
    if plan.works().next().is_none() {
        return Err(format!("`files` has no operation like `{}`", plan.only));
    }
    Ok((plan, places))
}

/// Measures, and prints.
pub fn measure(words: &[&str], options: &Options) -> Result<(), String> {
    let (plan, places) = plan(words)?;
    let mut times: BTreeMap<(usize, u64, usize), Vec<f64>> = BTreeMap::new();
    for threads in &plan.threads {
        for round in 0..=plan.rounds {
            for (work, _, body) in plan.works() {
                for (place, below) in places.iter().enumerate() {
                    let value = (round * WORKS.len() as u64 + work as u64) % VALUES + 1;
                    let took = one(&plan, below, *threads, (body, value as u8)).map_err(text)?;
                    settle(below, *threads).map_err(text)?;
                    // The first round makes caches and files.
                    if round > 0 {
                        times.entry((work, *threads, place)).or_default().push(took);
                    }
                }
            }
        }
        for below in &places {
            for thread in 0..*threads {
                fs::remove_dir_all(folder(below, thread)).map_err(text)?;
            }
        }
    }
    let of = |key: &(usize, u64, usize)| {
        let mut all = times[key].clone();
        all.sort_by(f64::total_cmp);
        (all[all.len() / 2], all[0])
    };
    let mut rows = Vec::new();
    for threads in &plan.threads {
        for (work, name, _) in plan.works() {
            let each = 0..places.len();
            let each = each.map(|place| of(&(work, *threads, place)));
            let (medians, least): (Vec<f64>, Vec<f64>) = each.unzip();
            rows.push((name, *threads, medians, least));
        }
    }
    for (name, threads, medians, _) in &rows {
        if options.is_json {
            continue;
        }
        let times: Vec<String> = medians.iter().map(|time| format!("{time:10.1}")).collect();
        println!("{name:28} {threads:3} {}", times.join(" "));
    }
    if options.is_json {
        let rows = rows.iter().map(|(name, threads, medians, least)| {
            json!({
                "operation": name,
                "threads": threads,
                "microseconds": medians,
                "least_microseconds": least,
            })
        });
        println!("{}", Value::Array(rows.collect()));
    }
    Ok(())
}

fn folder(below: &Path, thread: u64) -> PathBuf {
    below.join(format!("thread{thread}"))
}

/// Microseconds of an operation, with so many threads at a time.
fn one(plan: &Plan, below: &Path, threads: u64, (body, value): (Work, u8)) -> io::Result<f64> {
    for thread in 0..threads {
        fs::create_dir_all(folder(below, thread))?;
    }
    let before = crate::wall_seconds();
    let counts: Vec<io::Result<u64>> = thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || body(plan, &folder(below, thread), value)))
            .collect();
        let joined = spawned.into_iter().map(|thread| {
            let panics = |_| io::Error::other("a thread of the measurement panics");
            thread.join().map_err(panics).flatten()
        });
        joined.collect()
    });
    let took = crate::wall_seconds() - before;
    let counts: io::Result<Vec<u64>> = counts.into_iter().collect();
    let count: u64 = counts?.iter().sum();
    Ok(took * 1e6 / count as f64)
}

/// Has nothing be left to write.
fn settle(below: &Path, threads: u64) -> io::Result<()> {
    (0..threads).try_for_each(|thread| {
        let folder = folder(below, thread);
        large(&folder)?.sync_all()?;
        File::open(folder)?.sync_all()
    })
}

fn name(below: &Path, number: u64) -> PathBuf {
    below.join(format!("file{number:06}"))
}

fn create(plan: &Plan, below: &Path, _: u8) -> io::Result<u64> {
    for number in 0..plan.files {
        drop(File::create(name(below, number))?);
    }
    Ok(plan.files)
}

fn stat(plan: &Plan, below: &Path, _: u8) -> io::Result<u64> {
    for number in 0..plan.files {
        fs::metadata(name(below, number))?;
    }
    Ok(plan.files)
}

fn unlink(plan: &Plan, below: &Path, _: u8) -> io::Result<u64> {
    for number in 0..plan.files {
        fs::remove_file(name(below, number))?;
    }
    Ok(plan.files)
}

fn large(below: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true);
    options.truncate(false).open(below.join("large"))
}

fn write_synced(plan: &Plan, below: &Path, value: u8, size: usize) -> io::Result<u64> {
    let file = large(below)?;
    let bytes = vec![value; size];
    let pieces = plan.mib * MIB as u64 / size as u64;
    for number in 0..plan.writes {
        file.write_all_at(&bytes, number % pieces * size as u64)?;
        file.sync_data()?;
    }
    Ok(plan.writes)
}

fn write_lines(plan: &Plan, below: &Path, value: u8) -> io::Result<u64> {
    write_synced(plan, below, value, LINE)
}

fn write_pages(plan: &Plan, below: &Path, value: u8) -> io::Result<u64> {
    write_synced(plan, below, value, PAGE)
}

fn write_in_order(plan: &Plan, below: &Path, value: u8) -> io::Result<u64> {
    let file = large(below)?;
    let bytes = vec![value; MIB];
    for number in 0..plan.mib {
        file.write_all_at(&bytes, number * MIB as u64)?;
    }
    Ok(plan.mib)
}

fn write_in_order_synced(plan: &Plan, below: &Path, value: u8) -> io::Result<u64> {
    let count = write_in_order(plan, below, value)?;
    large(below)?.sync_data()?;
    Ok(count)
}

/// The file, of which the kernel has forgotten all pages.
fn forgotten(below: &Path) -> io::Result<File> {
    let file = large(below)?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    Ok(file)
}

fn read_in_order(plan: &Plan, below: &Path, _: u8) -> io::Result<u64> {
    let file = forgotten(below)?;
    let mut bytes = vec![0; MIB];
    for number in 0..plan.mib {
        file.read_exact_at(&mut bytes, number * MIB as u64)?;
    }
    Ok(plan.mib)
}

fn pages(plan: &Plan) -> impl Iterator<Item = u64> {
    let mut stream = Stream::new(plan.writes, "bench/files");
    let pages = plan.mib * (MIB / PAGE) as u64;
    (0..plan.writes).map(move |_| stream.below(pages) * PAGE as u64)
}

fn write_by_chance(plan: &Plan, below: &Path, value: u8) -> io::Result<u64> {
    let file = large(below)?;
    let bytes = [value; PAGE];
    for at in pages(plan) {
        file.write_all_at(&bytes, at)?;
    }
    Ok(plan.writes)
}

fn write_by_chance_synced(plan: &Plan, below: &Path, value: u8) -> io::Result<u64> {
    let count = write_by_chance(plan, below, value)?;
    large(below)?.sync_data()?;
    Ok(count)
}

fn read_by_chance(plan: &Plan, below: &Path, _: u8) -> io::Result<u64> {
    let file = forgotten(below)?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM)?;
    let mut bytes = [0; PAGE];
    for at in pages(plan) {
        file.read_exact_at(&mut bytes, at)?;
    }
    Ok(plan.writes)
}
