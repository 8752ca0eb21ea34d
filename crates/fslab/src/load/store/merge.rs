//! Records of several tables in the order of keys, the newest of each key; and tables merged by it.

use super::table::{Builder, Table, name_of};
use super::{Edit, Entry, Error, Memory, Shared, Store, Version};
use crate::load::vfs::Vfs;
use std::collections::VecDeque;
use std::ops::Bound;
use std::rc::Rc;

/// Records that a cursor takes from memory at a time.
const AT_A_TIME: usize = 64;
/// How much larger a level is than the one before.
const GROWTH: u64 = 10;

/// A place among records in the order of keys.
pub(crate) struct Cursor {
    source: Source,
    /// Records that are read and not given yet.
    ready: VecDeque<Entry>,
    /// From where on; behind it once a record was given.
    from: Bound<Vec<u8>>,
    is_over: bool,
}

enum Source {
    Memory(Rc<Memory>),
    /// Tables in the order of keys; the one and the block that come next.
    Tables(Vec<Rc<Table>>, usize, usize),
}

impl Cursor {
    fn new(source: Source, from: &[u8]) -> Self {
        Self {
            source,
            ready: VecDeque::new(),
            from: Bound::Included(from.to_vec()),
            is_over: false,
        }
    }

    pub fn memory(memory: &Rc<Memory>, from: &[u8]) -> Self {
        Self::new(Source::Memory(Rc::clone(memory)), from)
    }

    /// Over tables that do not overlap and come in the order of keys.
    pub fn tables(tables: Vec<Rc<Table>>, from: &[u8]) -> Self {
        let block = tables.first().map_or(0, |table| table.block_of(from));
        Self::new(Source::Tables(tables, 0, block), from)
    }

    async fn fill<V: Vfs>(&mut self, shared: &Shared<V>) -> Result<(), Error> {
        while self.ready.is_empty() && !self.is_over {
            match &mut self.source {
                Source::Memory(memory) => {
                    let entries = memory.entries.borrow();
                    let range = (self.from.clone(), Bound::Unbounded);
                    let some = entries.range::<Vec<u8>, _>(range).take(AT_A_TIME);
                    self.ready
                        .extend(some.map(|(key, value)| (key.clone(), value.clone())));
                    self.is_over = self.ready.is_empty();
                }
                Source::Tables(tables, table, block) => {
                    let Some(open) = tables.get(*table).cloned() else {
                        self.is_over = true;
                        return Ok(());
                    };
                    let entries = open.read_block(shared, *block).await?;
                    let from = &self.from;
                    let is_new = |entry: &Entry| match from {
                        Bound::Included(from) => entry.0 >= *from,
                        Bound::Excluded(from) => entry.0 > *from,
                        Bound::Unbounded => true,
                    };
                    self.ready.extend(entries.into_iter().filter(is_new));
                    *block += 1;
                    if *block == open.block_count() {
                        (*table, *block) = (*table + 1, 0);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The next record of all cursors, of which the first is the newest.
pub(crate) async fn next<V: Vfs>(
    cursors: &mut [Cursor],
    shared: &Shared<V>,
) -> Result<Option<Entry>, Error> {
    for cursor in cursors.iter_mut() {
        cursor.fill(shared).await?;
    }
    let first = cursors
        .iter()
        .filter_map(|cursor| cursor.ready.front())
        .map(|(key, _)| key);
    let Some(key) = first.min().cloned() else {
        return Ok(None);
    };
    let mut newest = None;
    for cursor in cursors.iter_mut() {
        if let Some((_, value)) = cursor.ready.pop_front_if(|(other, _)| *other == key) {
            newest.get_or_insert(value);
            cursor.from = Bound::Excluded(key.clone());
        }
    }
    Ok(newest.map(|value| (key, value)))
}

/// Tables that are merged into a level.
struct Merge {
    /// From level to level.
    upper: usize,
    from_upper: Vec<Rc<Table>>,
    from_lower: Vec<Rc<Table>>,
}

impl<V: Vfs> Store<V> {
    /// Merges levels that are too large, until the store is closed: a task.
    pub async fn merging(&self) -> Result<(), Error> {
        let wanted = || match self.wanted(&self.version.borrow()) {
            // What is left to merge does not keep a closed store open.
            _ if self.is_closed.get() => Some(None),
            Some(merge) => Some(Some(merge)),
            None => None,
        };
        while let Some(merge) = self.changes.until(wanted).await {
            self.or_fail(self.merge(merge).await)?;
        }
        self.bury().await
    }

    /// What is to be merged next, if anything is.
    fn wanted(&self, version: &Version) -> Option<Merge> {
        let below = |upper: usize, from_upper: Vec<Rc<Table>>| {
            let first = from_upper.iter().map(|table| &table.first).min()?;
            let last = from_upper.iter().map(|table| &table.last).max()?;
            let lower = version.levels.get(upper + 1).into_iter().flatten();
            let lower = lower
                .filter(|table| table.overlaps(first, last))
                .cloned()
                .collect();
            Some(Merge {
                upper,
                from_upper,
                from_lower: lower,
            })
        };
        // The level that is the fullest against what it may have, in thousandths.
        let mut fullest = (1000 * version.levels[0].len() / self.options.merge_at, 0);
        let mut most = self.options.level;
        for (level, tables) in version.levels.iter().enumerate().skip(1) {
            let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
            fullest = fullest.max(((1000 * bytes / most) as usize, level));
            most *= GROWTH;
        }
        match fullest {
            (..1000, _) => None,
            (_, 0) => below(0, version.levels[0].clone()),
            (_, upper) => {
                // In rotation through the keys.
                let tables = &version.levels[upper];
                let merged = self.merged.borrow();
                let after = merged.get(upper).cloned().unwrap_or_default();
                let next = tables.iter().find(|table| table.first > after);
                below(upper, vec![Rc::clone(next.or(tables.first())?)])
            }
        }
    }

    async fn merge(&self, merge: Merge) -> Result<(), Error> {
        self.bury().await?;
        let lower = merge.upper + 1;
        let mut cursors = Vec::new();
        for table in &merge.from_upper {
            cursors.push(Cursor::tables(vec![Rc::clone(table)], &[]));
        }
        cursors.push(Cursor::tables(merge.from_lower.clone(), &[]));
        // What was deleted is forgotten where nothing older lies below.
        let is_lowest = self
            .version()
            .levels
            .iter()
            .skip(lower + 1)
            .all(Vec::is_empty);
        let mut made = Vec::new();
        let mut builder = Builder::default();
        while let Some((key, value)) = next(&mut cursors, &self.shared).await? {
            if value.is_some() || !is_lowest {
                builder.add(&key, value.as_deref());
            }
            if builder.size() >= self.options.table {
                let whole = std::mem::take(&mut builder);
                made.push(Rc::new(whole.write(&self.shared, self.number()).await?));
            }
        }
        if builder.size() > 0 {
            made.push(Rc::new(builder.write(&self.shared, self.number()).await?));
        }
        self.shared.files.fsync(self.shared.directory).await?;
        let gone: Vec<Rc<Table>> = [&merge.from_upper[..], &merge.from_lower[..]].concat();
        let level = lower as u64;
        let come = made.iter().map(|table| Edit::Table {
            number: table.number,
            level,
        });
        let go = gone.iter().map(|table| Edit::NoTable(table.number));
        self.edit(&come.chain(go).collect::<Vec<_>>()).await?;
        self.note_merged(&merge);
        drop(cursors);
        self.replace(|version| {
            if version.levels.len() <= lower {
                version.levels.resize(lower + 1, Vec::new());
            }
            let is_there = |table: &Rc<Table>| gone.iter().all(|other| !Rc::ptr_eq(table, other));
            for level in [merge.upper, lower] {
                version.levels[level].retain(is_there);
            }
            version.levels[lower].extend(made);
            version.levels[lower].sort_by(|one, other| one.first.cmp(&other.first));
        });
        for table in &gone {
            self.shared.remove(&name_of(table.number)).await?;
        }
        drop(merge);
        self.dead.borrow_mut().extend(gone);
        self.bury().await
    }

    fn note_merged(&self, merge: &Merge) {
        let mut merged = self.merged.borrow_mut();
        if merged.len() <= merge.upper {
            merged.resize(merge.upper + 1, Vec::new());
        }
        if let Some(last) = merge.from_upper.iter().map(|table| &table.last).max() {
            merged[merge.upper].clone_from(last);
        }
    }

    /// Closes the files of tables that nobody reads any more.
    async fn bury(&self) -> Result<(), Error> {
        let all = self.dead.take();
        let is_read = |table: &Rc<Table>| Rc::strong_count(table) > 1;
        let (read, unread): (Vec<_>, Vec<_>) = all.into_iter().partition(is_read);
        self.dead.borrow_mut().extend(read);
        for table in unread {
            self.shared.files.release(table.ino).await?;
        }
        Ok(())
    }
}
