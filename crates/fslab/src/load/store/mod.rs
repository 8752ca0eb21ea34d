//! A store of keys on a file system: a log-structured merge tree.
//!
//! Small and real, so that YCSB asks of a file system what it asks below RocksDB: writes go to a
//! log, all that wait together in one write and one sync, and to a table in memory. That is written
//! as a sorted table of level 0 when it is full; level 0 is merged into level 1, each level into
//! the next one when it is too large, ten times as large each. A manifest says which tables there
//! are. Opened again, it has everything that was synced.
//!
//! Not in it: snapshots (a scan sees what is written meanwhile), compression, a cache of its own
//! (the file system's pages are one), more than one merge at a time.

mod merge;
mod table;
#[cfg(test)]
mod tests;

use super::sync::{Changes, Lock};
use super::vfs::{Vfs, caller};
use bytefs::{Caller, FsError, Ino};
use merge::Cursor;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use table::{Builder, Table, decode, encode};
use thiserror::Error;
use units::Time;

/// A key and its value; None: it is deleted.
pub(crate) type Entry = (Vec<u8>, Option<Vec<u8>>);

/// Why the store did not do something.
#[derive(Clone, Debug, Error)]
pub(crate) enum Error {
    /// The file system refused.
    #[error(transparent)]
    Files(#[from] FsError),
    /// It holds something else than was written.
    #[error("{0} is damaged")]
    Damaged(String),
    /// An earlier write failed.
    #[error("a write failed before; open it again")]
    Failed,
}

impl Error {
    fn damaged(what: &str) -> Self {
        Self::Damaged(what.to_owned())
    }
}

/// What a store is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Bytes of keys and values in memory before they are written.
    pub memtable: u64,
    /// Bytes of a table.
    pub table: u64,
    /// Bytes of level 1.
    pub level: u64,
    /// Tables of level 0 at which they are merged.
    pub merge_at: usize,
    /// Tables of level 0 at which writes wait.
    pub stop_at: usize,
    /// Whether a write is answered when it survives a power cut.
    pub sync: bool,
}

/// A table in memory.
#[derive(Default)]
struct Memory {
    entries: RefCell<BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
    bytes: Cell<u64>,
}

/// What is where: replaced as a whole.
#[derive(Clone)]
struct Version {
    memory: Rc<Memory>,
    /// That is being written, and its log.
    frozen: Option<(Rc<Memory>, Rc<Journal>)>,
    /// Level 0 newest first, the others in the order of keys.
    levels: Vec<Vec<Rc<Table>>>,
}

/// What all parts of the store use.
pub(crate) struct Shared<V> {
    pub files: Rc<V>,
    pub directory: Ino,
    now: Box<dyn Fn() -> Time>,
}

impl<V: Vfs> Shared<V> {
    fn by(&self) -> Caller {
        caller(0, (self.now)())
    }
    async fn create(&self, name: &str) -> Result<Ino, FsError> {
        let name = name.as_bytes();
        // What is left of before a power cut is no table or log of the manifest's.
        match self.files.create(&self.by(), self.directory, name).await {
            Err(FsError::Exists) => {
                self.files.unlink(&self.by(), self.directory, name).await?;
                self.files.create(&self.by(), self.directory, name).await
            }
            made => made,
        }
    }
    async fn remove(&self, name: &str) -> Result<(), FsError> {
        self.files
            .unlink(&self.by(), self.directory, name.as_bytes())
            .await
    }
    async fn write(&self, ino: Ino, at: u64, bytes: &[u8]) -> Result<(), FsError> {
        self.files.write(&self.by(), ino, at, bytes, false).await
    }
    async fn read(&self, ino: Ino, at: u64, size: usize) -> Result<Vec<u8>, FsError> {
        self.files.read(ino, at, size).await
    }
}

/// A file to which checked records are appended.
struct Journal {
    number: u64,
    ino: Ino,
    end: Cell<u64>,
}

impl Journal {
    async fn append<V: Vfs>(
        &self,
        shared: &Shared<V>,
        payload: &[u8],
        sync: bool,
    ) -> Result<(), FsError> {
        let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
        bytes.extend(checksum::crc32c(payload).to_le_bytes());
        bytes.extend(payload);
        let at = self.end.get();
        self.end.set(at + bytes.len() as u64);
        shared.write(self.ino, at, &bytes).await?;
        if sync {
            shared.files.fsync(self.ino).await?;
        }
        Ok(())
    }

    /// The records of a file up to the first that is not whole.
    async fn records<V: Vfs>(
        shared: &Shared<V>,
        ino: Ino,
        size: u64,
    ) -> Result<(Vec<Vec<u8>>, u64), FsError> {
        let bytes = shared.read(ino, 0, size as usize).await?;
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + 8) {
            let size = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let payload = bytes.get(at + 8..at + 8 + size);
            let Some(payload) = payload.filter(|payload| {
                !payload.is_empty() && checksum::crc32c(payload).to_le_bytes() == head[4..]
            }) else {
                break;
            };
            found.push(payload.to_vec());
            at += 8 + size;
        }
        Ok((found, at as u64))
    }
}

/// Changes of the manifest: tables, which have a level, and logs come and go.
#[derive(Clone, Copy)]
enum Edit {
    Table { number: u64, level: u64 },
    NoTable(u64),
    Log(u64),
    NoLog(u64),
}

const MANIFEST: &str = "manifest";

fn log_name(number: u64) -> String {
    format!("{number:06}.log")
}

/// A store of keys.
pub(crate) struct Store<V> {
    shared: Shared<V>,
    options: Options,
    version: RefCell<Rc<Version>>,
    changes: Changes,
    manifest: Journal,
    /// Who writes, and who changes the version.
    writer: Lock,
    editor: Lock,
    log: RefCell<Rc<Journal>>,
    next_file: Cell<u64>,
    /// Records that wait to be written, and how many were taken up before and are written.
    waiting: RefCell<Vec<Entry>>,
    asked: Cell<u64>,
    written: Cell<u64>,
    is_failed: Cell<bool>,
    is_closed: Cell<bool>,
    /// By level: the key up to which it was merged last.
    merged: RefCell<Vec<Vec<u8>>>,
    dead: RefCell<Vec<Rc<Table>>>,
}

impl<V: Vfs> Store<V> {
    /// Opens the store in a directory of the root, and makes it if it is not there.
    pub async fn open(
        files: Rc<V>,
        name: &str,
        options: Options,
        now: impl Fn() -> Time + 'static,
    ) -> Result<Self, Error> {
        let directory = match files.lookup(Ino::ROOT, name.as_bytes()).await {
            Ok((ino, _)) => ino,
            Err(FsError::NotFound) => {
                files
                    .mkdir(&caller(0, now()), Ino::ROOT, name.as_bytes())
                    .await?
            }
            Err(error) => return Err(error.into()),
        };
        let shared = Shared {
            files,
            directory,
            now: Box::new(now),
        };
        let found = shared.files.lookup(directory, MANIFEST.as_bytes()).await;
        let (ino, records, end) = match found {
            Ok((ino, size)) => {
                shared.files.open(ino).await?;
                let (records, end) = Journal::records(&shared, ino, size).await?;
                (ino, records, end)
            }
            Err(FsError::NotFound) => {
                let ino = shared.create(MANIFEST).await?;
                shared.files.fsync(ino).await?;
                shared.files.fsync(directory).await?;
                (ino, Vec::new(), 0)
            }
            Err(error) => return Err(error.into()),
        };
        let listed = Listed::of(&records).ok_or_else(|| Error::damaged(MANIFEST))?;
        let mut levels: Vec<Vec<Rc<Table>>> = vec![Vec::new()];
        for (number, level) in &listed.tables {
            let level = *level as usize;
            if levels.len() <= level {
                levels.resize(level + 1, Vec::new());
            }
            levels[level].push(Rc::new(Table::open(&shared, *number).await?));
        }
        levels[0].reverse();
        for level in &mut levels[1..] {
            level.sort_by(|one, other| one.first.cmp(&other.first));
        }
        let memory = Rc::new(Memory::default());
        for number in &listed.logs {
            let name = log_name(*number);
            let (ino, size) = shared.files.lookup(directory, name.as_bytes()).await?;
            for record in Journal::records(&shared, ino, size).await?.0 {
                let entries = decode(&record).ok_or_else(|| Error::damaged(&name))?;
                entries
                    .into_iter()
                    .for_each(|(key, value)| memory.put(key, value));
            }
        }
        let number = listed.next;
        let log = Journal {
            number,
            ino: shared.create(&log_name(number)).await?,
            end: Cell::new(0),
        };
        let store = Self {
            shared,
            options,
            version: RefCell::new(Rc::new(Version {
                memory,
                frozen: None,
                levels,
            })),
            changes: Changes::default(),
            manifest: Journal {
                number: 0,
                ino,
                end: Cell::new(end),
            },
            writer: Lock::default(),
            editor: Lock::default(),
            log: RefCell::new(Rc::new(log)),
            next_file: Cell::new(number + 1),
            waiting: RefCell::default(),
            asked: Cell::new(0),
            written: Cell::new(0),
            is_failed: Cell::new(false),
            is_closed: Cell::new(false),
            merged: RefCell::default(),
            dead: RefCell::default(),
        };
        store.write_recovered(&listed.logs).await?;
        Ok(store)
    }

    /// What logs gave back becomes a table, and the logs go.
    async fn write_recovered(&self, old_logs: &BTreeSet<u64>) -> Result<(), Error> {
        let memory = Rc::clone(&self.version().memory);
        let mut edits = vec![Edit::Log(self.log.borrow().number)];
        edits.extend(old_logs.iter().map(|number| Edit::NoLog(*number)));
        let mut added = Vec::new();
        if !memory.entries.borrow().is_empty() {
            let table = self.write_memory(&memory).await?;
            let (number, level) = (table.number, 0);
            edits.push(Edit::Table { number, level });
            added.push(Rc::new(table));
        }
        self.shared.files.fsync(self.shared.directory).await?;
        self.edit(&edits).await?;
        self.replace(|version| {
            version.memory = Rc::default();
            version.levels[0].splice(0..0, added);
        });
        for number in old_logs {
            self.shared.remove(&log_name(*number)).await?;
        }
        Ok(())
    }

    fn version(&self) -> Rc<Version> {
        Rc::clone(&self.version.borrow())
    }

    fn replace(&self, change: impl FnOnce(&mut Version)) {
        let mut version = Version::clone(&self.version.borrow());
        change(&mut version);
        self.version.replace(Rc::new(version));
        self.changes.tell();
    }

    fn number(&self) -> u64 {
        let number = self.next_file.get();
        self.next_file.set(number + 1);
        number
    }

    async fn edit(&self, edits: &[Edit]) -> Result<(), Error> {
        let _turn = self.editor.hold().await;
        let words = edits.iter().flat_map(|edit| match edit {
            Edit::Table { number, level } => [0, *number, *level],
            Edit::NoTable(number) => [1, *number, 0],
            Edit::Log(number) => [2, *number, 0],
            Edit::NoLog(number) => [3, *number, 0],
        });
        let payload: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        Ok(self.manifest.append(&self.shared, &payload, true).await?)
    }

    /// Writes records, all or none of which are there after a power cut.
    pub async fn put(&self, entries: Vec<Entry>) -> Result<(), Error> {
        let mine = self.asked.get() + entries.len() as u64;
        self.asked.set(mine);
        self.waiting.borrow_mut().extend(entries);
        let _turn = self.writer.hold().await;
        if self.written.get() >= mine {
            // Who came before has written it with its own.
            return Ok(());
        }
        if self.is_failed.get() {
            return Err(Error::Failed);
        }
        let done = self.write_waiting().await;
        self.is_failed.set(done.is_err());
        done
    }

    async fn write_waiting(&self) -> Result<(), Error> {
        self.make_room().await?;
        let entries = self.waiting.take();
        let upto = self.asked.get();
        let mut payload = Vec::new();
        for (key, value) in &entries {
            encode(&mut payload, key, value.as_deref());
        }
        let log = Rc::clone(&self.log.borrow());
        log.append(&self.shared, &payload, self.options.sync)
            .await?;
        let memory = Rc::clone(&self.version().memory);
        for (key, value) in entries {
            memory.put(key, value);
        }
        self.written.set(upto);
        Ok(())
    }

    /// A full table in memory is set aside to be written; waits while another one is, or while
    /// there are too many tables in level 0.
    async fn make_room(&self) -> Result<(), Error> {
        if self.version().memory.bytes.get() < self.options.memtable {
            return Ok(());
        }
        let has_room = || {
            let version = self.version.borrow();
            let may = version.frozen.is_none() && version.levels[0].len() < self.options.stop_at;
            (may || self.is_failed.get()).then_some(())
        };
        self.changes.until(has_room).await;
        if self.is_failed.get() {
            return Err(Error::Failed);
        }
        let number = self.number();
        let ino = self.shared.create(&log_name(number)).await?;
        self.shared.files.fsync(self.shared.directory).await?;
        self.edit(&[Edit::Log(number)]).await?;
        let end = Cell::new(0);
        let full = self.log.replace(Rc::new(Journal { number, ino, end }));
        self.replace(|version| {
            version.frozen = Some((std::mem::take(&mut version.memory), full));
        });
        Ok(())
    }

    /// The value of a key.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let version = self.version();
        let frozen = version.frozen.as_ref().map(|(memory, _)| memory);
        for memory in [&version.memory].into_iter().chain(frozen) {
            if let Some(value) = memory.entries.borrow().get(key) {
                return Ok(value.clone());
            }
        }
        for table in &version.levels[0] {
            if let Some(value) = table.get(&self.shared, key).await? {
                return Ok(value);
            }
        }
        for level in &version.levels[1..] {
            let at = level.partition_point(|table| table.last[..] < *key);
            if let Some(table) = level.get(at)
                && let Some(value) = table.get(&self.shared, key).await?
            {
                return Ok(value);
            }
        }
        Ok(None)
    }

    /// Up to `most` records from a key on, in the order of keys.
    pub async fn scan(&self, from: &[u8], most: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Error> {
        let version = self.version();
        let mut cursors = vec![Cursor::memory(&version.memory, from)];
        cursors.extend(
            version
                .frozen
                .iter()
                .map(|(memory, _)| Cursor::memory(memory, from)),
        );
        for table in &version.levels[0] {
            cursors.push(Cursor::tables(vec![Rc::clone(table)], from));
        }
        for level in &version.levels[1..] {
            let at = level.partition_point(|table| table.last[..] < *from);
            cursors.push(Cursor::tables(level[at..].to_vec(), from));
        }
        let mut found = Vec::new();
        while found.len() < most
            && let Some((key, value)) = merge::next(&mut cursors, &self.shared).await?
        {
            found.extend(value.map(|value| (key, value)));
        }
        Ok(found)
    }

    /// Writes tables that were set aside, until the store is closed: a task.
    pub async fn flushing(&self) -> Result<(), Error> {
        let frozen = || match &self.version.borrow().frozen {
            Some((memory, log)) => Some(Some((Rc::clone(memory), Rc::clone(log)))),
            None => self.is_closed.get().then_some(None),
        };
        while let Some((memory, log)) = self.changes.until(frozen).await {
            self.or_fail(self.flush(&memory, &log).await)?;
        }
        Ok(())
    }

    /// A failed task lets nobody wait for it.
    fn or_fail(&self, done: Result<(), Error>) -> Result<(), Error> {
        if done.is_err() {
            self.is_failed.set(true);
            self.changes.tell();
        }
        done
    }

    async fn flush(&self, memory: &Memory, log: &Journal) -> Result<(), Error> {
        let table = Rc::new(self.write_memory(memory).await?);
        self.shared.files.fsync(self.shared.directory).await?;
        let (number, level) = (table.number, 0);
        let edits = [Edit::Table { number, level }, Edit::NoLog(log.number)];
        self.edit(&edits).await?;
        self.replace(|version| {
            version.levels[0].insert(0, table);
            version.frozen = None;
        });
        self.shared.remove(&log_name(log.number)).await?;
        self.shared.files.release(log.ino).await?;
        Ok(())
    }

    async fn write_memory(&self, memory: &Memory) -> Result<Table, Error> {
        let mut builder = Builder::default();
        for (key, value) in memory.entries.borrow().iter() {
            builder.add(key, value.as_deref());
        }
        builder.write(&self.shared, self.number()).await
    }

    /// Nothing more will be asked; tasks end when they have nothing left to do.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.changes.tell();
    }
}

impl Memory {
    fn put(&self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let size = (key.len() + value.as_ref().map_or(0, Vec::len) + 8) as u64;
        self.bytes.set(self.bytes.get() + size);
        self.entries.borrow_mut().insert(key, value);
    }
}

/// What the manifest lists.
#[derive(Default)]
struct Listed {
    /// Tables by number, with their levels.
    tables: BTreeMap<u64, u64>,
    logs: BTreeSet<u64>,
    /// A number that no file had.
    next: u64,
}

impl Listed {
    fn of(records: &[Vec<u8>]) -> Option<Self> {
        let mut listed = Self {
            next: 1,
            ..Self::default()
        };
        for edit in records.iter().flat_map(|record| record.chunks(24)) {
            let word = |nth: usize| {
                let bytes = edit.get(nth * 8..nth * 8 + 8)?;
                bytes.try_into().map(u64::from_le_bytes).ok()
            };
            let (kind, number, level) = (word(0)?, word(1)?, word(2)?);
            match kind {
                0 if level < 16 => drop(listed.tables.insert(number, level)),
                1 => drop(listed.tables.remove(&number)),
                2 => drop(listed.logs.insert(number)),
                3 => drop(listed.logs.remove(&number)),
                _ => return None,
            }
            listed.next = listed.next.max(number + 1);
        }
        Some(listed)
    }
}
