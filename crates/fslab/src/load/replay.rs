//! A recorded program, played on a file system in virtual time.
//!
//! What was there before is made by one thread, and the file system mounted anew. Then each thread
//! of the recording does its operations, one behind the other, as soon as those of other threads
//! are over that it must come behind ([`dependencies`]); with `thinks`, also not before the
//! program's own time between two of them has passed, and its first one not before it was recorded
//! to begin. Each must have the outcome that was recorded.

use super::error::LoadError;
use super::hardware::scaled;
use super::options::Kept;
use super::part::{Playing, measured};
use super::result::{Conditions, Decisions, LoadResult};
use super::runner::{Bench, Files, Setup};
use super::serving::Served;
use super::spec::{Load, ThreadsSpec};
use super::stage::Stage;
use super::sync::Changes;
use crate::recording::{Entry, Op, Recording, bytes_of, dependencies};
use bytefs::{Caller, FsError, Ino, Seek, SetAttr, SetXattr, WriteOptions};
use device::{DeviceEngine, Pace};
use port::Clock;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::Time;
use vtime::{Machine, VirtualClock};

pub(super) type OfRun = Stage<Files, VirtualClock<DeviceEngine>>;

/// Plays a recording. The same recording on the same setup gives the same result, byte for byte.
///
/// # Errors
/// As [`super::run`]; an operation has another outcome than it had when it was recorded.
pub fn replay(
    name: &str,
    recording: &Recording,
    setup: &Setup,
    playing: &Playing,
) -> Result<LoadResult, LoadError> {
    setup.check()?;
    let config = scaled(setup.preset(), setup.scale, &setup.layers)?;
    let texts = config.texts();
    let engine = DeviceEngine::in_memory(&config, Pace::None)?;
    let mut bench = Bench {
        machine: Machine::new(engine, setup.cores as usize),
        setup: setup.clone(),
        kept: Kept::default(),
        made: None,
    };
    let load = described(name, recording);
    let conditions = Conditions::new(name, &load, setup, setup.preset(), &texts);
    let makes = |entry: &&Entry| matches!(entry.op, Op::Make { .. } | Op::Symlink { .. });
    let all = recording.before.iter().chain(&recording.entries);
    bench.format(all.filter(makes).count() as u64)?;
    let files = bench.mount()?;
    let numbers = Rc::new(RefCell::new(BTreeMap::from([(Ino::ROOT.0, Ino::ROOT)])));
    let first = bench.stage(&files, 1);
    let before = Player::new(recording.before.clone(), &numbers, Playing::default());
    play(&mut bench, &first, &Rc::new(before))?;
    // Whoever records what was there has just mounted it: nothing is cached or counted.
    let files = bench.rest(files, !recording.before.is_empty())?;
    let totals = bench.totals(&files);
    let mut entries = recording.entries.clone();
    let served = Served::of(playing, &mut entries)?;
    let player = Player::new(entries, &numbers, playing.clone());
    let player = Rc::new(Player { served, ..player });
    if playing.decides {
        files.keep_dax_trace();
    }
    let stage = bench.stage(&files, player.tasks());
    play(&mut bench, &stage, &player)?;
    let mut result = bench.finish(&files, &stage, totals, conditions)?;
    if playing.decides {
        let (decisions, lost) = files.take_dax_trace();
        result.decisions = Some(Decisions::of(&decisions, lost));
    }
    if let Some(served) = &player.served {
        result.part = Some(served.part());
    } else if let Some(between) = &playing.between {
        result.part = Some(measured(between, &player.entries, &player.spans.borrow())?);
    }
    Ok(result)
}

/// A recording in the words of loads.
fn described(name: &str, recording: &Recording) -> Load {
    Load {
        title: name.to_owned(),
        rounds: None,
        warm_up: 0,
        cold: false,
        files: Vec::new(),
        threads: vec![ThreadsSpec {
            name: "recorded".to_owned(),
            count: recording.threads(),
            counted: true,
            steps: Vec::new(),
        }],
        store: None,
    }
}

/// Plays everything to its end.
fn play(bench: &mut Bench, stage: &Rc<OfRun>, player: &Rc<Player>) -> Result<(), LoadError> {
    for thread in 0..player.threads() {
        let (stage, player) = (Rc::clone(stage), Rc::clone(player));
        bench.machine.spawn(format!("thread {thread}"), async move {
            if let Err(why) = player.thread(&stage, thread).await {
                stage.fail(why);
                player.fail();
            }
            stage.end_one();
        });
    }
    if player.served.is_some() {
        let (stage, player) = (Rc::clone(stage), Rc::clone(player));
        bench.machine.spawn("server", async move {
            if let Err(why) = player.serve(&stage).await {
                stage.fail(why);
                player.fail();
            }
            stage.end_one();
        });
    }
    bench.spawn_write_back(stage);
    bench.machine.run()?;
    stage.outcome().map(drop)
}

/// Operations, and which of them are over.
pub(super) struct Player {
    entries: Vec<Entry>,
    wanted: Vec<Vec<usize>>,
    /// Begin and end of those that are over.
    spans: RefCell<Vec<Option<(Time, Time)>>>,
    has_failed: Cell<bool>,
    changes: Changes,
    /// By the number that it had: an inode here.
    numbers: Rc<RefCell<BTreeMap<u32, Ino>>>,
    /// By thread and directory: where its last names ended.
    listed: RefCell<BTreeMap<(u32, u32), u64>>,
    pub(super) playing: Playing,
    /// What is played between the names instead of what was recorded.
    served: Option<Served>,
}

/// What an operation gave.
struct Gave {
    found: Option<Ino>,
    read: usize,
    written: usize,
}

impl From<()> for Gave {
    fn from((): ()) -> Self {
        Self {
            found: None,
            read: 0,
            written: 0,
        }
    }
}

impl Gave {
    fn inode(ino: Ino) -> Self {
        Self {
            found: Some(ino),
            ..().into()
        }
    }
}

impl Player {
    fn new(
        entries: Vec<Entry>,
        numbers: &Rc<RefCell<BTreeMap<u32, Ino>>>,
        playing: Playing,
    ) -> Self {
        Self {
            wanted: dependencies(&entries),
            spans: RefCell::new(vec![None; entries.len()]),
            has_failed: Cell::new(false),
            changes: Changes::default(),
            numbers: Rc::clone(numbers),
            listed: RefCell::default(),
            entries,
            playing,
            served: None,
        }
    }

    fn threads(&self) -> u32 {
        let numbers = self.entries.iter().map(|entry| entry.thread + 1);
        numbers.max().unwrap_or(0).max(1)
    }

    /// Threads, and the server of clients.
    fn tasks(&self) -> u32 {
        self.threads() + u32::from(self.served.is_some())
    }

    /// Serves clients, behind the name that says that they begin.
    async fn serve(&self, stage: &OfRun) -> Result<(), LoadError> {
        let Some(served) = &self.served else {
            return Ok(());
        };
        let begins = || {
            let has_begun = self.spans.borrow()[served.begin].is_some();
            (has_begun || self.has_failed.get()).then_some(())
        };
        self.changes.until(begins).await;
        if !self.has_failed.get() {
            served.all(self, stage).await?;
        }
        self.changes.tell();
        Ok(())
    }

    fn fail(&self) {
        self.has_failed.set(true);
        self.changes.tell();
    }

    /// Does all operations of a thread.
    async fn thread(&self, stage: &OfRun, thread: u32) -> Result<(), LoadError> {
        let mut ended_ns = 0;
        for (number, entry) in self.entries.iter().enumerate() {
            if entry.thread != thread {
                continue;
            }
            let before = core::mem::replace(&mut ended_ns, entry.end_ns);
            if self.playing.thinks {
                let pause = self.playing.pause(entry.begin_ns.saturating_sub(before));
                stage.clock.sleep_until(stage.clock.now() + pause).await;
            }
            let is_free = || {
                let over = self.spans.borrow();
                let can = self.wanted[number]
                    .iter()
                    .all(|other| over[*other].is_some());
                let can = can && self.served.as_ref().is_none_or(|of| of.is_next(number));
                (can || self.has_failed.get()).then_some(())
            };
            self.changes.until(is_free).await;
            if self.has_failed.get() {
                return Ok(());
            }
            let begun = stage.clock.now();
            self.operation(stage, number, entry).await?;
            self.spans.borrow_mut()[number] = Some((begun, stage.clock.now()));
            self.changes.tell();
        }
        Ok(())
    }

    pub(super) async fn operation(
        &self,
        stage: &OfRun,
        number: usize,
        entry: &Entry,
    ) -> Result<(), LoadError> {
        let by = stage.caller(entry.thread % stage.cores);
        let begun = stage.clock.now();
        let done = self.done(&stage.files, &by, entry).await;
        let name = entry.op.name();
        stage.recorder.record(name, stage.clock.now() - begun);
        let differs = |found: String| LoadError::Differs {
            number: number + 1,
            what: name,
            wanted: entry
                .error
                .map_or("success".to_owned(), |error| format!("error {error}")),
            found,
        };
        match (done, entry.error) {
            (Ok(gave), None) => {
                stage.recorder.count_read(gave.read);
                stage.recorder.count_written(gave.written);
                if let (Some(found), Some(old)) = (gave.found, entry.found) {
                    self.numbers.borrow_mut().insert(old, found);
                }
                Ok(())
            }
            (Err(error), Some(wanted)) if error.errno() == wanted => Ok(()),
            (Ok(_), Some(_)) => Err(differs("success".to_owned())),
            (Err(error), _) => Err(differs(error.to_string())),
        }
    }

    fn inode(&self, old: u32) -> Result<Ino, FsError> {
        let found = self.numbers.borrow().get(&old).copied();
        found.ok_or(FsError::Stale)
    }

    async fn done(&self, fs: &Files, by: &Caller, entry: &Entry) -> Result<Gave, FsError> {
        match &entry.op {
            Op::Write {
                ino,
                at,
                size,
                direct,
                sync,
                sums,
            } => {
                let ino = self.inode(*ino)?;
                let sums = crate::recording::sums_from(sums).unwrap_or_default();
                let data = bytes_of(*at, *size, &sums);
                let options = WriteOptions {
                    direct: *direct,
                    sync: *sync,
                    kill_privileges: false,
                };
                let mut done = 0;
                while done < data.len() {
                    let at = at + done as u64;
                    match fs.write(by, ino, at, &data[done..], options).await? {
                        0 => return Err(FsError::NoSpace),
                        count => done += count,
                    }
                }
                Ok(Gave {
                    written: done,
                    ..().into()
                })
            }
            Op::Read {
                ino,
                at,
                size,
                direct,
            } => {
                let read = fs.read(self.inode(*ino)?, *at, *size, *direct).await?;
                Ok(Gave {
                    read: read.len(),
                    ..().into()
                })
            }
            Op::Lookup { parent, name } => {
                let parent = self.inode(*parent)?;
                let attr = fs.lookup(parent, name.as_bytes()).await?;
                Ok(Gave::inode(attr.ino))
            }
            Op::Open { ino } => fs.open(self.inode(*ino)?).await.map(|_| ().into()),
            Op::Release { ino } => fs.release(self.inode(*ino)?).await.map(Into::into),
            Op::Getattr { ino } => fs.getattr(self.inode(*ino)?).await.map(|_| ().into()),
            Op::Fsync { ino, data_only } => {
                let done = fs.fsync(self.inode(*ino)?, *data_only).await;
                done.map(Into::into)
            }
            Op::Sync {} => fs.sync().await.map(Into::into),
            Op::Make { .. }
            | Op::Symlink { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::Rmdir { .. }
            | Op::Rename { .. } => self.name_done(fs, by, &entry.op).await,
            _ => self.other_done(fs, by, entry).await,
        }
    }

    async fn name_done(&self, fs: &Files, by: &Caller, op: &Op) -> Result<Gave, FsError> {
        match op {
            Op::Make {
                parent,
                name,
                kind,
                permissions,
                is_opened,
            } => {
                let (parent, name) = (self.inode(*parent)?, name.as_bytes());
                let kind = kind.file_kind();
                let made = match (kind, is_opened) {
                    (_, true) => fs.create(by, parent, name, *permissions).await?,
                    (bytefs::FileKind::Directory, _) => {
                        fs.mkdir(by, parent, name, *permissions).await?
                    }
                    _ => fs.mknod(by, parent, name, kind, *permissions, 0).await?,
                };
                Ok(Gave::inode(made.ino))
            }
            Op::Symlink {
                parent,
                name,
                target,
            } => {
                let parent = self.inode(*parent)?;
                let made = fs.symlink(by, parent, name.as_bytes(), target.as_bytes());
                Ok(Gave::inode(made.await?.ino))
            }
            Op::Link { ino, parent, name } => {
                let (ino, parent) = (self.inode(*ino)?, self.inode(*parent)?);
                let made = fs.link(by, ino, parent, name.as_bytes()).await?;
                Ok(Gave::inode(made.ino))
            }
            Op::Unlink { parent, name } => {
                let done = fs.unlink(by, self.inode(*parent)?, name.as_bytes());
                done.await.map(Into::into)
            }
            Op::Rmdir { parent, name } => {
                let done = fs.rmdir(by, self.inode(*parent)?, name.as_bytes());
                done.await.map(Into::into)
            }
            Op::Rename {
                from,
                name,
                to,
                new_name,
                how,
            } => {
                let (from, to) = (self.inode(*from)?, self.inode(*to)?);
                let (name, new_name) = (name.as_bytes(), new_name.as_bytes());
                let done = fs.rename(by, from, name, to, new_name, (*how).into());
                done.await.map(Into::into)
            }
            _ => Err(FsError::Invalid("it is about no name")),
        }
    }

    async fn other_done(&self, fs: &Files, by: &Caller, entry: &Entry) -> Result<Gave, FsError> {
        match &entry.op {
            Op::Setattr { ino, size } => {
                let ino = self.inode(*ino)?;
                let mut set = SetAttr {
                    size: *size,
                    ..SetAttr::default()
                };
                if size.is_none() {
                    // Whatever it was: modes, owners and times cost the same.
                    set.mtime = Some(by.now);
                }
                fs.setattr(by, ino, set).await?;
            }
            Op::Readlink { ino } => {
                fs.readlink(self.inode(*ino)?).await?;
            }
            Op::Allocate { ino, how, at, size } => {
                let ino = self.inode(*ino)?;
                fs.fallocate(by, ino, (*how).into(), *at, *size).await?;
            }
            Op::Seek { ino, at, is_data } => {
                let what = if *is_data { Seek::Data } else { Seek::Hole };
                fs.seek(self.inode(*ino)?, *at, what).await?;
            }
            Op::Readdir {
                ino,
                is_first,
                most,
            } => {
                let key = (entry.thread, *ino);
                let known = self.listed.borrow().get(&key).copied();
                let from = known.filter(|_| !is_first).unwrap_or(0);
                let names = fs.readdir(self.inode(*ino)?, from, *most).await?;
                let next = names.last().map_or(from, |last| last.next);
                self.listed.borrow_mut().insert(key, next);
            }
            Op::SetXattr {
                ino,
                name,
                size,
                value,
            } => {
                let (ino, name) = (self.inode(*ino)?, name.as_bytes());
                let value = match value {
                    Some(value) => value.clone().into_bytes(),
                    // Earlier recordings do not say which pages a program has asked for.
                    None if name == bytefs::DAX_ATTRIBUTE => b"all".to_vec(),
                    None => vec![b'x'; *size],
                };
                fs.set_xattr(by, ino, name, &value, SetXattr::Any).await?;
            }
            Op::GetXattr { ino, name } => {
                fs.get_xattr(self.inode(*ino)?, name.as_bytes()).await?;
            }
            Op::RemoveXattr { ino, name } => {
                let ino = self.inode(*ino)?;
                fs.remove_xattr(by, ino, name.as_bytes()).await?;
            }
            Op::ListXattr { ino } => {
                fs.list_xattr(self.inode(*ino)?).await?;
            }
            _ => return Err(FsError::Invalid("it is about a name")),
        }
        Ok(().into())
    }
}
