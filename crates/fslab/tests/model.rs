//! A file system does what the model does: the same answers, the same tree, and both again when it
//! was unmounted and mounted.

use bytefs::{FormatOptions, MountOptions, Personality, Usage};
use device::{DeviceEngine, Pace, Ram};
use fslab::crash::op::{Op, to_text};
use fslab::crash::{Driver, Files, Model, random, run, small_device, walk};
use port::{AnyClock, AnyDevice};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use units::{Bytes, Stream};
use vtime::Machine;

/// Operations between two looks at everything.
const STEP: usize = 40;

fn format() -> FormatOptions {
    let mut format = FormatOptions::new(Personality::ByteFsDual);
    format.inodes = Some(200);
    format
}

/// So small that pages are thrown out and read again.
fn options() -> MountOptions {
    MountOptions {
        cache: Bytes::from_kib(128),
        metadata_cache: Bytes::from_kib(256),
        cores: 2,
        ..MountOptions::default()
    }
}

/// Operations whose answers FUSE and the kernel give, not the file system.
fn is_for_others(model: &Model, op: &Op) -> bool {
    let file = match op {
        Op::Write { file, .. }
        | Op::Read { file, .. }
        | Op::Truncate { file, .. }
        | Op::Fallocate { file, .. } => file,
        _ => return false,
    };
    model
        .file(file)
        .is_ok_and(|id| model.contents(id).is_none())
}

/// Every inode is a file's, and as many blocks are free as there must be.
fn check_usage(model: &Model, usage: Usage) -> Result<(), String> {
    let used = usage.inodes - usage.free_inodes;
    match used == model.files() as u64 {
        true => Ok(()),
        false => Err(format!(
            "{used} inodes are taken and there are {} files",
            model.files()
        )),
    }
}

struct Subject {
    model: Model,
    driver: Driver,
}

impl Subject {
    fn new() -> Self {
        Self {
            model: Model::new(0o755, (0, 0)),
            driver: Driver::default(),
        }
    }

    async fn step(&mut self, fs: &Files, ops: &[Op]) -> Result<(), String> {
        for op in ops {
            if is_for_others(&self.model, op) {
                continue;
            }
            if std::env::var("TRACE").is_ok() {
                eprintln!("{op}");
            }
            let wanted = self.model.apply(op);
            let found = self.driver.apply(fs, op).await?;
            if found != wanted {
                let short = |answer: &Result<Vec<u8>, i32>| match answer {
                    Ok(bytes) => format!("{} B", bytes.len()),
                    Err(errno) => format!("error {errno}"),
                };
                let (found, wanted) = (short(&found), short(&wanted));
                return Err(format!("`{op}` gives {found} and should give {wanted}"));
            }
        }
        self.look(fs).await
    }

    async fn look(&self, fs: &Files) -> Result<(), String> {
        check_usage(&self.model, fs.usage())?;
        match self.model.tree().difference(&walk(fs).await?) {
            Some(how) => Err(how),
            None => Ok(()),
        }
    }

    /// Closes everything, so that what has no name goes.
    async fn close(&mut self, fs: &Files) -> Result<(), String> {
        let ops: Vec<Op> = (0..3).map(Op::Close).collect();
        self.step(fs, &ops).await
    }
}

/// Runs operations with looks between them, unmounts, mounts and looks again, all of it twice.
async fn play(
    device: AnyDevice,
    clock: AnyClock,
    personality: Personality,
    ops: &[Op],
) -> Result<(), String> {
    let said = |error: bytefs::MountError| error.to_string();
    let mut subject = Subject::new();
    let format = FormatOptions {
        personality,
        ..format()
    };
    Files::format(&device, &format).await.map_err(said)?;
    let mut fs = Files::mount(device, clock.clone(), options())
        .await
        .map_err(said)?;
    let empty = fs.usage();
    for half in ops.chunks(ops.len().div_ceil(2).max(1)) {
        for step in half.chunks(STEP) {
            subject.step(&fs, step).await?;
        }
        subject.close(&fs).await?;
        fs.unmount().await.map_err(|error| error.to_string())?;
        let usage = fs.usage();
        fs = Files::mount(fs.into_device(), clock.clone(), options())
            .await
            .map_err(said)?;
        subject
            .look(&fs)
            .await
            .map_err(|how| format!("mounted again: {how}"))?;
        if fs.usage() != usage {
            let found = fs.usage();
            return Err(format!(
                "mounted again, {found:?} is in use and was {usage:?}"
            ));
        }
    }
    clear(&mut subject, &fs).await?;
    let left = fs.usage();
    // The root keeps the blocks that its names once took.
    if empty.free_inodes != left.free_inodes || empty.free_blocks > left.free_blocks + 3 {
        return Err(format!(
            "when everything is removed, {left:?} is left of {empty:?}"
        ));
    }
    Ok(())
}

/// Removes everything.
async fn clear(subject: &mut Subject, fs: &Files) -> Result<(), String> {
    let tree = subject.model.tree();
    let mut ops: Vec<Op> = Vec::new();
    for (path, entry) in tree.0.iter().rev().filter(|(path, _)| *path != ".") {
        ops.push(match entry.meta.kind {
            bytefs::FileKind::Directory => Op::Rmdir(path.clone()),
            _ => Op::Unlink(path.clone()),
        });
    }
    ops.push(Op::Sync);
    subject.step(fs, &ops).await
}

fn on_ram(personality: Personality, ops: &[Op]) -> Result<(), String> {
    let ram = AnyDevice::new(Ram::new(Bytes::from_mib(8), Bytes::from_kib(4)));
    let played = run(play(ram, AnyClock::Still, personality, ops));
    played.unwrap_or_else(|| Err("it waits for what will not come".to_owned()))
}

fn on_device(personality: Personality, ops: &[Op]) -> Result<(), String> {
    let config = small_device().unwrap();
    let engine = DeviceEngine::in_memory(&config, Pace::None).unwrap();
    let mut machine = Machine::new(engine, 2);
    let device = AnyDevice::new(machine.device());
    let clock = AnyClock::new(machine.clock());
    let ended = Rc::new(RefCell::new(None));
    let (result, ops) = (Rc::clone(&ended), ops.to_vec());
    machine.spawn("operations", async move {
        *result.borrow_mut() = Some(play(device, clock, personality, &ops).await);
    });
    machine.run().map_err(|error| error.to_string())?;
    machine.engine().audit();
    ended.take().unwrap()
}

const ON_RAM: [Personality; 5] = [
    Personality::ByteFsDual,
    Personality::Ext4Like,
    Personality::PmfsLike,
    Personality::F2fsLike,
    Personality::NovaLike,
];
const ON_DEVICE: [Personality; 2] = [Personality::ByteFs, Personality::ByteFsLog];

fn ops(words: &[u64]) -> Vec<Op> {
    let words = words.iter().zip(1..);
    words.map(|(word, mark)| random::op(*word, mark)).collect()
}

/// What fails, with as few operations as are left when one after the other is taken out.
fn check(play: impl Fn(&[Op]) -> Result<(), String>, mut words: Vec<u64>) {
    let Err(mut how) = play(&ops(&words)) else {
        return;
    };
    let all = ops(&words);
    let mut kept: Vec<Op> = all;
    let mut piece = kept.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < kept.len() {
            let mut fewer = kept.clone();
            fewer.drain(at..(at + piece).min(fewer.len()));
            match play(&fewer) {
                Err(why) => (kept, how) = (fewer, why),
                Ok(()) => at += piece,
            }
        }
        piece /= 2;
    }
    words.clear();
    panic!("{how}\n{}", to_text(&kept));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn memory_does_what_the_model_does(
        words in prop::collection::vec(any::<u64>(), 1..150),
        personality in 0..ON_RAM.len(),
    ) {
        let played = on_ram(ON_RAM[personality], &ops(&words));
        prop_assert!(played.is_ok(), "{:?}: {}\n{}", ON_RAM[personality], played.unwrap_err(), to_text(&ops(&words)));
    }

    #[test]
    fn a_device_in_virtual_time_does_what_the_model_does(
        words in prop::collection::vec(any::<u64>(), 1..100),
        personality in 0..ON_DEVICE.len(),
    ) {
        let played = on_device(ON_DEVICE[personality], &ops(&words));
        prop_assert!(played.is_ok(), "{:?}: {}\n{}", ON_DEVICE[personality], played.unwrap_err(), to_text(&ops(&words)));
    }
}

fn words(seed: u64, count: usize) -> Vec<u64> {
    let mut stream = Stream::new(seed, "fslab/model");
    (0..count).map(|_| stream.bits()).collect()
}

/// FSLAB_SEED and FSLAB_RUNS for others and more of them.
fn runs(most: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let seed = number("FSLAB_SEED").unwrap_or(1);
    seed..seed + number("FSLAB_RUNS").unwrap_or(most)
}

#[test]
fn long_runs_in_memory_do_what_the_model_does() {
    for seed in runs(6) {
        let personality = ON_RAM[seed as usize % ON_RAM.len()];
        check(|ops| on_ram(personality, ops), words(seed, 2000));
    }
}

#[test]
fn long_runs_in_virtual_time_do_what_the_model_does() {
    for seed in runs(4) {
        let personality = ON_DEVICE[seed as usize % ON_DEVICE.len()];
        check(|ops| on_device(personality, ops), words(seed, 1000));
    }
}

/// Pages of which little is written go by bytes, in one batch with what says where they are: as
/// many as it has room for.
#[test]
fn many_pages_that_hold_little_are_written_back() {
    let write = |page: u32, size: u32| format!("write foo {} {size} {}\n", page * 8192, page + 1);
    for (size, pages) in [(1, 40), (440, 200)] {
        let writes: String = (0..pages).map(|page| write(page, size)).collect();
        let text = format!("create foo\n{writes}fsync foo\n{writes}sync\n");
        let ops = fslab::crash::op::parse_all(&text).unwrap();
        for personality in ON_RAM {
            assert_eq!(on_ram(personality, &ops), Ok(()), "{personality:?}");
        }
        for personality in ON_DEVICE {
            assert_eq!(on_device(personality, &ops), Ok(()), "{personality:?}");
        }
    }
}

/// The page that made a file longer is dropped before it was written.
#[test]
fn a_size_survives_when_the_page_that_made_it_becomes_a_hole() {
    for how in ["punch", "zero-keep-size"] {
        let text = format!(
            "create foo\nwrite foo 100 500 1\nfsync foo\nwrite foo end 512 2\n\
             fallocate foo {how} 0 8192\nsync\n"
        );
        let ops = fslab::crash::op::parse_all(&text).unwrap();
        assert_eq!(on_ram(Personality::ByteFsDual, &ops), Ok(()), "{how}");
        assert_eq!(on_device(Personality::ByteFs, &ops), Ok(()), "{how}");
    }
}
