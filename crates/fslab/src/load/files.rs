//! Sets of files, and which of them a step is about.
//!
//! Picked as Filebench 1.5 picks: in the order of their numbers, in rotation, past those that
//! another thread is about to open, make or remove. Each thread has a rotation of its own through
//! what exists; what does not exist has one for all.

use super::draw::Size;
use super::error::LoadError;
use super::spec::FilesSpec;
use super::vfs::Vfs;
use bytefs::{Caller, Ino};
use std::collections::BTreeSet;
use units::Stream;

/// A file or directory that a set may have.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The size that it is made with.
    size: u64,
    /// Its number in the file system, while it exists.
    ino: Option<Ino>,
    /// A step is about to open, make or remove it.
    is_busy: bool,
    /// Who has it open.
    opened: u32,
}

/// A set of files, or of directories.
pub(crate) struct FileSet {
    pub name: String,
    pub is_directories: bool,
    entries: Vec<Entry>,
    /// Directories that entries are in, and entries of each.
    directories: Vec<Ino>,
    width: u64,
    existing: BTreeSet<u32>,
    missing: BTreeSet<u32>,
    next_missing: u32,
    busy: u32,
}

impl FileSet {
    /// A set of so many entries, none of which is there.
    pub fn new(spec: &FilesSpec, entries: u64, seed: u64) -> Self {
        let mut stream = Stream::new(seed, &format!("load/files/{}", spec.name));
        let size = spec.size.and_then(|size| Size::new(size, spec.shape));
        let entries: Vec<Entry> = (0..entries)
            .map(|_| Entry {
                size: size.map_or(0, |size| size.draw(&mut stream)),
                ino: None,
                is_busy: false,
                opened: 0,
            })
            .collect();
        let missing = (0..entries.len() as u32).collect();
        Self {
            name: spec.name.clone(),
            is_directories: spec.size.is_none(),
            entries,
            directories: Vec::new(),
            width: spec.width,
            existing: BTreeSet::new(),
            missing,
            next_missing: 0,
            busy: 0,
        }
    }

    /// Makes the directories that the entries will be in.
    pub async fn make_directories<V: Vfs>(
        &mut self,
        files: &V,
        by: &Caller,
    ) -> Result<(), LoadError> {
        let root = directory(files, by, Ino::ROOT, &self.name).await?;
        // From the leaves to the root: how many directories a level has.
        let mut levels = vec![(self.entries.len() as u64).div_ceil(self.width).max(1)];
        while let Some(count) = levels.last().copied().filter(|count| *count > 1) {
            levels.push(count.div_ceil(self.width));
        }
        let mut above = vec![root];
        for count in levels.iter().rev().skip(1) {
            let mut level = Vec::new();
            for number in 0..*count {
                let parent = above[(number / self.width) as usize];
                let name = format!("d{}", number % self.width);
                level.push(directory(files, by, parent, &name).await?);
            }
            above = level;
        }
        self.directories = above;
        Ok(())
    }

    /// Entries that are to exist before the run, drawn, in an order that is drawn too (Filebench
    /// spreads them on the medium).
    pub fn draw_existing(&self, count: u64, seed: u64) -> Vec<u32> {
        let mut stream = Stream::new(seed, &format!("load/existing/{}", self.name));
        let mut all: Vec<u32> = (0..self.entries.len() as u32).collect();
        for at in 0..count as usize {
            let other = at + stream.below((all.len() - at) as u64) as usize;
            all.swap(at, other);
        }
        all.truncate(count as usize);
        all
    }

    /// Where an entry is: its directory and its name there.
    pub fn place(&self, entry: u32) -> (Ino, Vec<u8>) {
        let directory = (u64::from(entry) / self.width) as usize;
        let kind = if self.is_directories { "e" } else { "f" };
        (
            self.directories[directory],
            format!("{kind}{entry:07}").into_bytes(),
        )
    }

    /// The size that a file is made with.
    pub fn size(&self, entry: u32) -> u64 {
        self.entries[entry as usize].size
    }

    /// Entries that there may be.
    pub fn most(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Whether nothing exists.
    pub fn is_empty(&self) -> bool {
        self.existing.is_empty()
    }

    /// Whether a step is about any of its entries.
    pub fn has_busy(&self) -> bool {
        self.busy > 0
    }

    /// The inode of an entry that exists.
    pub fn ino(&self, entry: u32) -> Option<Ino> {
        self.entries[entry as usize].ino
    }

    /// The next that exists, in a thread's rotation; it is busy until [`FileSet::settle`].
    pub fn pick_existing(&mut self, rotation: &mut u32, is_removed: bool) -> Option<u32> {
        let entries = &self.entries;
        let mut turn = self
            .existing
            .range(*rotation..)
            .chain(self.existing.range(..*rotation));
        let free = |entry: &&u32| {
            let entry = &entries[**entry as usize];
            let is_kept = is_removed && entry.opened > 0;
            !(entry.is_busy || is_kept)
        };
        let found = *turn.find(free)?;
        *rotation = found + 1;
        self.entries[found as usize].is_busy = true;
        self.busy += 1;
        Some(found)
    }

    /// The next that does not exist; it is busy until [`FileSet::settle`].
    pub fn pick_missing(&mut self) -> Option<u32> {
        let entries = &self.entries;
        let from = self.next_missing;
        let mut turn = self.missing.range(from..).chain(self.missing.range(..from));
        let found = *turn.find(|entry| !entries[**entry as usize].is_busy)?;
        self.next_missing = found + 1;
        self.entries[found as usize].is_busy = true;
        self.busy += 1;
        Some(found)
    }

    /// A step about an entry is over: it exists under a number, or it does not.
    pub fn settle(&mut self, entry: u32, ino: Option<Ino>) {
        let state = &mut self.entries[entry as usize];
        self.busy -= u32::from(state.is_busy);
        state.is_busy = false;
        state.ino = ino;
        match ino {
            Some(_) => {
                self.missing.remove(&entry);
                self.existing.insert(entry);
            }
            None => {
                self.existing.remove(&entry);
                self.missing.insert(entry);
            }
        }
    }

    /// Somebody has opened an entry.
    pub fn note_open(&mut self, entry: u32) {
        self.entries[entry as usize].opened += 1;
    }

    /// Somebody has closed an entry.
    pub fn note_close(&mut self, entry: u32) {
        self.entries[entry as usize].opened -= 1;
    }
}

async fn directory<V: Vfs>(
    files: &V,
    by: &Caller,
    parent: Ino,
    name: &str,
) -> Result<Ino, LoadError> {
    let made = files.mkdir(by, parent, name.as_bytes()).await;
    made.map_err(|error| LoadError::of(format!("mkdir of {name}"), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Bytes, Ratio};

    fn set(entries: u64) -> FileSet {
        let spec = FilesSpec {
            name: "files".to_owned(),
            entries,
            least: 1,
            size: Some(Bytes::from_kib(4)),
            shape: None,
            width: 100,
            existing: Ratio::percent(50),
        };
        FileSet::new(&spec, entries, 1)
    }

    #[test]
    fn files_are_picked_in_rotation_past_busy_and_open_ones() {
        let mut set = set(4);
        for entry in [0, 1, 3] {
            set.settle(entry, Some(Ino(entry + 10)));
        }
        let mut rotation = 1;
        assert_eq!(set.pick_existing(&mut rotation, false), Some(1));
        assert_eq!(set.pick_existing(&mut rotation, false), Some(3));
        assert_eq!(set.pick_existing(&mut rotation, false), Some(0));
        assert_eq!(
            set.pick_existing(&mut rotation, false),
            None,
            "all are busy"
        );
        set.settle(0, Some(Ino(10)));
        set.note_open(0);
        assert_eq!(set.pick_existing(&mut rotation, true), None, "it is open");
        set.note_close(0);
        assert_eq!(set.pick_existing(&mut rotation, true), Some(0));
        set.settle(0, None);
        assert_eq!(set.pick_missing(), Some(0));
        assert_eq!(set.pick_missing(), Some(2));
        assert_eq!(set.pick_missing(), None);
    }

    #[test]
    fn those_that_exist_before_are_different_ones() {
        let set = set(1000);
        let mut drawn = set.draw_existing(800, 5);
        assert_ne!(drawn, set.draw_existing(800, 6));
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 800);
        assert!(drawn.iter().any(|entry| *entry >= 900));
    }
}
