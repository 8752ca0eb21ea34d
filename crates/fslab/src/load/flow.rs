//! Threads that repeat a flow of steps.

use super::error::LoadError;
use super::files::FileSet;
use super::spec::{Load, SLOTS, Step};
use super::stage::Stage;
use super::sync::{Changes, Semaphore, all};
use super::vfs::Vfs;
use bytefs::{FsError, Ino};
use port::Clock;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::filling::fill;
use units::{Bytes, Stream};

/// A file that a thread has open.
#[derive(Clone, Copy)]
struct Opened {
    set: usize,
    entry: u32,
    ino: Ino,
}

/// A thread, which goes on where it was when a phase ends.
struct Thread {
    group: usize,
    core: u32,
    stream: Stream,
    slots: [Option<Opened>; SLOTS],
    /// By set.
    rotations: Vec<u32>,
    /// What it waits for posts with, by name.
    semaphores: BTreeMap<String, Rc<Semaphore>>,
}

/// What comes of a step.
enum Next {
    Step,
    /// There is nothing left to do.
    End,
}

/// The sets of files of a load and its threads.
pub(crate) struct Flow {
    load: Load,
    sets: Vec<RefCell<FileSet>>,
    changes: Changes,
    /// None while it runs.
    threads: Vec<RefCell<Option<Thread>>>,
    /// By name, of each thread that waits by it.
    semaphores: BTreeMap<String, Vec<Rc<Semaphore>>>,
    /// Rounds that counted threads may begin; None: any number.
    rounds: Cell<Option<u64>>,
    /// So that no two writes have the same contents.
    filled: Cell<u64>,
}

impl Flow {
    /// Of a load whose sets have been made; `cores` deal threads among processors.
    pub fn new(load: &Load, sets: Vec<FileSet>, seed: u64, cores: u32) -> Self {
        let mut threads = Vec::new();
        let mut semaphores: BTreeMap<String, Vec<Rc<Semaphore>>> = BTreeMap::new();
        for (group, spec) in load.threads.iter().enumerate() {
            for number in 0..spec.count {
                let path = format!("load/threads/{}/{number}", spec.name);
                let mut own = BTreeMap::new();
                for step in &spec.steps {
                    if let Step::Wait { name, room, .. } = step {
                        let semaphore = Rc::new(Semaphore::new(*room));
                        let of_name = semaphores.entry(name.clone()).or_default();
                        of_name.push(Rc::clone(&semaphore));
                        own.insert(name.clone(), semaphore);
                    }
                }
                threads.push(RefCell::new(Some(Thread {
                    group,
                    core: threads.len() as u32 % cores,
                    stream: Stream::new(seed, &path),
                    slots: [None; SLOTS],
                    rotations: vec![0; sets.len()],
                    semaphores: own,
                })));
            }
        }
        Self {
            load: load.clone(),
            sets: sets.into_iter().map(RefCell::new).collect(),
            changes: Changes::default(),
            threads,
            semaphores,
            rounds: Cell::new(None),
            filled: Cell::new(0),
        }
    }

    /// Threads by name, and whether they are counted.
    pub fn threads(&self) -> Vec<(String, bool)> {
        let groups = self.load.threads.iter();
        let of_group = groups.flat_map(|spec| {
            let name = (spec.name.clone(), spec.counted);
            std::iter::repeat_n(name, spec.count as usize)
        });
        of_group.collect()
    }

    /// Begins a phase of so many rounds.
    pub fn begin(&self, rounds: Option<u64>) {
        self.rounds.set(rounds);
        for semaphore in self.semaphores.values().flatten() {
            semaphore.begin();
        }
    }

    /// Lets those go who wait for posts that will not come.
    pub fn end(&self) {
        self.semaphores.values().flatten().for_each(|one| one.end());
    }

    /// A thread until the phase is over.
    pub async fn run<V: Vfs, C: Clock>(&self, stage: &Stage<V, C>, number: usize) {
        let thread = self.threads[number].take();
        let mut thread = thread.expect("a thread is run once at a time");
        let is_counted = self.load.threads[thread.group].counted;
        if let Err(why) = self.rounds_of(stage, &mut thread, is_counted).await {
            stage.fail(why);
        }
        self.threads[number].replace(Some(thread));
        if is_counted {
            stage.end_one();
        }
    }

    async fn rounds_of<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        thread: &mut Thread,
        is_counted: bool,
    ) -> Result<(), LoadError> {
        let steps = &self.load.threads[thread.group].steps;
        while self.may_begin(is_counted) && !stage.is_over() {
            for step in steps {
                if let Next::End = self.step(stage, thread, step).await? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn may_begin(&self, is_counted: bool) -> bool {
        match self.rounds.get() {
            Some(0) if is_counted => false,
            Some(rounds) if is_counted => {
                self.rounds.set(Some(rounds - 1));
                true
            }
            _ => true,
        }
    }

    fn set(&self, name: &str) -> usize {
        let place = self.sets.iter().position(|set| set.borrow().name == name);
        place.expect("a load's steps are about its files")
    }

    /// Picks what exists; waits while others are about to change that.
    async fn pick(&self, thread: &mut Thread, set: usize, is_removed: bool) -> Option<u32> {
        let rotation = &mut thread.rotations[set];
        let pick = || {
            let mut files = self.sets[set].borrow_mut();
            let found = files.pick_existing(rotation, is_removed);
            (found.is_some() || !files.has_busy()).then_some(found)
        };
        self.changes.until(pick).await
    }

    async fn pick_missing(&self, set: usize) -> Option<u32> {
        let pick = || {
            let mut files = self.sets[set].borrow_mut();
            let found = files.pick_missing();
            (found.is_some() || !files.has_busy()).then_some(found)
        };
        self.changes.until(pick).await
    }

    fn settle(&self, set: usize, entry: u32, ino: Option<Ino>) {
        self.sets[set].borrow_mut().settle(entry, ino);
        self.changes.tell();
    }

    async fn step<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        thread: &mut Thread,
        step: &Step,
    ) -> Result<Next, LoadError> {
        match step {
            Step::Create { files, slot } => {
                return self.create(stage, thread, self.set(files), *slot).await;
            }
            Step::Open { files, slot } => {
                return self.open(stage, thread, self.set(files), *slot).await;
            }
            Step::Close { slot } => self.close(stage, thread, *slot).await?,
            Step::ReadWhole { slot, io } => {
                if let Some(opened) = thread.slots[*slot] {
                    stage
                        .timed("read", read_whole(stage, opened.ino, *io))
                        .await?;
                }
            }
            Step::WriteWhole { slot, io } => {
                if let Some(opened) = thread.slots[*slot] {
                    let size = self.sets[opened.set].borrow().size(opened.entry);
                    let whole = self.write(stage, thread.core, opened.ino, (0, size), *io);
                    stage.timed("write", whole).await?;
                }
            }
            Step::Append { slot, files, most } => {
                if let (None, Some(files)) = (thread.slots[*slot], files) {
                    self.open(stage, thread, self.set(files), *slot).await?;
                }
                let size = 1 + thread.stream.below(most.get());
                if let Some(opened) = thread.slots[*slot] {
                    let append = async {
                        let at = stage.files.size(opened.ino).await?;
                        let range = (at, at + size);
                        self.write(stage, thread.core, opened.ino, range, *most)
                            .await
                    };
                    stage.timed("append", append).await?;
                }
            }
            Step::Fsync { slot } => {
                if let Some(opened) = thread.slots[*slot] {
                    stage.timed("fsync", stage.files.fsync(opened.ino)).await?;
                }
            }
            Step::Delete { files } => {
                return self.remove(stage, thread, self.set(files)).await;
            }
            Step::Rmdir { files } => {
                return self.remove(stage, thread, self.set(files)).await;
            }
            Step::Mkdir { files } => {
                return self.mkdir(stage, thread, self.set(files)).await;
            }
            Step::Stat { files } => self.stat(stage, thread, self.set(files)).await?,
            Step::ReadRandom { files, io } => {
                let Some((ino, at)) = self.anywhere(thread, self.set(files), *io).await else {
                    return Ok(Next::End);
                };
                let read = async {
                    let found = stage.files.read(ino, at, io.get() as usize).await?;
                    stage.recorder.count_read(found.len());
                    Ok(())
                };
                stage.timed("read", read).await?;
            }
            Step::WriteRandom {
                files,
                io,
                times,
                depth,
                dsync,
            } => {
                let set = self.set(files);
                let mut places = Vec::new();
                for _ in 0..*times {
                    places.extend(self.anywhere(thread, set, *io).await);
                }
                if places.is_empty() {
                    return Ok(Next::End);
                }
                let depth = *depth as usize;
                let lanes = (0..depth.min(places.len())).map(|lane| {
                    let places: Vec<_> = places.iter().skip(lane).step_by(depth).collect();
                    self.lane(stage, thread.core, places, *io, *dsync)
                });
                for done in all(lanes.collect()).await {
                    done?;
                }
            }
            Step::Compute { span } => stage.clock.spend(*span).await,
            Step::Wait { name, posts, .. } => {
                if !thread.semaphores[name].wait(*posts).await {
                    return Ok(Next::End);
                }
            }
            Step::Post { to } => {
                for semaphore in &self.semaphores[to] {
                    semaphore.post().await;
                }
            }
        }
        Ok(Next::Step)
    }

    /// A place in the next file: a multiple of the request's size, each equally likely.
    async fn anywhere(&self, thread: &mut Thread, set: usize, io: Bytes) -> Option<(Ino, u64)> {
        let entry = self.pick(thread, set, false).await?;
        let mut files = self.sets[set].borrow_mut();
        let (ino, size) = (files.ino(entry)?, files.size(entry));
        files.settle(entry, Some(ino));
        drop(files);
        self.changes.tell();
        let requests = (size / io.get()).max(1);
        Some((ino, thread.stream.below(requests) * io.get()))
    }

    /// Writes one behind the other.
    async fn lane<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        core: u32,
        places: Vec<&(Ino, u64)>,
        io: Bytes,
        dsync: bool,
    ) -> Result<(), LoadError> {
        let mut bytes = vec![0; io.get() as usize];
        for (ino, at) in places {
            self.fill(&mut bytes);
            let by = stage.caller(core);
            let write = stage.files.write(&by, *ino, *at, &bytes, dsync);
            stage.timed("write", write).await?;
            stage.recorder.count_written(bytes.len());
        }
        Ok(())
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.filled.set(self.filled.get() + 1);
        fill(self.filled.get(), bytes);
    }

    /// Writes a range of a file in requests of at most so many bytes.
    async fn write<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        core: u32,
        ino: Ino,
        (from, to): (u64, u64),
        io: Bytes,
    ) -> Result<(), FsError> {
        let mut at = from;
        let mut bytes = vec![0; io.get().min(to - from) as usize];
        while at < to {
            let size = bytes.len().min((to - at) as usize);
            self.fill(&mut bytes[..size]);
            stage
                .files
                .write(&stage.caller(core), ino, at, &bytes[..size], false)
                .await?;
            stage.recorder.count_written(size);
            at += size as u64;
        }
        Ok(())
    }

    async fn create<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        thread: &mut Thread,
        set: usize,
        slot: usize,
    ) -> Result<Next, LoadError> {
        self.close(stage, thread, slot).await?;
        let Some(entry) = self.pick_missing(set).await else {
            return Ok(Next::End);
        };
        let (parent, name) = self.sets[set].borrow().place(entry);
        let by = stage.caller(thread.core);
        let create = stage.files.create(&by, parent, &name);
        let ino = stage.timed("create", create).await?;
        self.sets[set].borrow_mut().note_open(entry);
        self.settle(set, entry, Some(ino));
        thread.slots[slot] = Some(Opened { set, entry, ino });
        Ok(Next::Step)
    }

    async fn open<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        thread: &mut Thread,
        set: usize,
        slot: usize,
    ) -> Result<Next, LoadError> {
        self.close(stage, thread, slot).await?;
        let Some(entry) = self.pick(thread, set, false).await else {
            return Ok(Next::End);
        };
        let (parent, name) = self.sets[set].borrow().place(entry);
        let open = async {
            let (ino, _) = stage.files.lookup(parent, &name).await?;
            stage.files.open(ino).await?;
            Ok(ino)
        };
        let ino = stage.timed("open", open).await?;
        self.sets[set].borrow_mut().note_open(entry);
        self.settle(set, entry, Some(ino));
        thread.slots[slot] = Some(Opened { set, entry, ino });
        Ok(Next::Step)
    }

    async fn close<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        thread: &mut Thread,
        slot: usize,
    ) -> Result<(), LoadError> {
        let Some(opened) = thread.slots[slot].take() else {
            return Ok(());
        };
        stage
            .timed("close", stage.files.release(opened.ino))
            .await?;
        self.sets[opened.set].borrow_mut().note_close(opened.entry);
        self.changes.tell();
        Ok(())
    }

    /// Removes a file or a directory; passes if all that exist are open.
    async fn remove<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        thread: &mut Thread,
        set: usize,
    ) -> Result<Next, LoadError> {
        let Some(entry) = self.pick(thread, set, true).await else {
            let is_empty = self.sets[set].borrow().is_empty();
            return Ok(if is_empty { Next::End } else { Next::Step });
        };
        let (parent, name) = self.sets[set].borrow().place(entry);
        let is_directory = self.sets[set].borrow().is_directories;
        match is_directory {
            true => {
                let by = stage.caller(thread.core);
                let rmdir = stage.files.rmdir(&by, parent, &name);
                stage.timed("rmdir", rmdir).await?;
            }
            false => {
                let by = stage.caller(thread.core);
                let unlink = stage.files.unlink(&by, parent, &name);
                stage.timed("delete", unlink).await?;
            }
        }
        self.settle(set, entry, None);
        Ok(Next::Step)
    }

    async fn mkdir<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        thread: &mut Thread,
        set: usize,
    ) -> Result<Next, LoadError> {
        let Some(entry) = self.pick_missing(set).await else {
            return Ok(Next::End);
        };
        let (parent, name) = self.sets[set].borrow().place(entry);
        let by = stage.caller(thread.core);
        let mkdir = stage.files.mkdir(&by, parent, &name);
        let ino = stage.timed("mkdir", mkdir).await?;
        self.settle(set, entry, Some(ino));
        Ok(Next::Step)
    }

    async fn stat<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        thread: &mut Thread,
        set: usize,
    ) -> Result<(), LoadError> {
        let Some(entry) = self.pick(thread, set, false).await else {
            return Ok(());
        };
        let (parent, name) = self.sets[set].borrow().place(entry);
        let (ino, _) = stage
            .timed("stat", stage.files.lookup(parent, &name))
            .await?;
        self.settle(set, entry, Some(ino));
        Ok(())
    }

    /// Makes what is to exist before the run: one of `lanes` that share the work.
    pub async fn populate<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        drawn: &[Vec<u32>],
        (lane, lanes): (usize, usize),
    ) -> Result<(), LoadError> {
        let core = lane as u32 % stage.cores;
        for (set, entries) in drawn.iter().enumerate() {
            for entry in entries.iter().skip(lane).step_by(lanes) {
                let (parent, name) = self.sets[set].borrow().place(*entry);
                let make = async {
                    if self.sets[set].borrow().is_directories {
                        return stage.files.mkdir(&stage.caller(core), parent, &name).await;
                    }
                    let ino = stage
                        .files
                        .create(&stage.caller(core), parent, &name)
                        .await?;
                    let size = self.sets[set].borrow().size(*entry);
                    let io = Bytes::from_mib(1);
                    self.write(stage, core, ino, (0, size), io).await?;
                    stage.files.release(ino).await?;
                    Ok(ino)
                };
                let made = make.await;
                let ino = made.map_err(|error| LoadError::of("making files before", error))?;
                self.settle(set, *entry, Some(ino));
            }
        }
        Ok(())
    }
}

/// Reads a file to its end in requests of at most so many bytes.
async fn read_whole<V: Vfs, C: Clock>(
    stage: &Stage<V, C>,
    ino: Ino,
    io: Bytes,
) -> Result<(), FsError> {
    let mut at = 0;
    loop {
        let found = stage.files.read(ino, at, io.get() as usize).await?;
        stage.recorder.count_read(found.len());
        at += found.len() as u64;
        if (found.len() as u64) < io.get() {
            return Ok(());
        }
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
