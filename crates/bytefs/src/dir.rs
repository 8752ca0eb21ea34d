//! Names in directories, as operations on metadata: found, added, removed, listed.

use crate::layout::{
    self, BLOCK, Entry, Extent, Inode, LINE, LINES, NAME_MOST, Span, Torn, bucket_of, cookie_of,
    free_span, get_u32, is_sealed, next_cookie, put_u32, seal, span_at, span_of,
};
use crate::tx::{Done, Share, Stop, Tx};
use crate::{BlockNo, DirEntry, FileKind, FsError, Ino};

/// The page of the first block behind a full bucket: above every bucket.
pub(crate) const OVERFLOW: u64 = 1 << 32;
/// Pages of a directory that is read as a whole.
const PAGES_AHEAD: u32 = 8;
/// Buckets of a directory from which on its names are kept in first blocks. A smaller one is on the
/// host after a few lookups, for its blocks are read ahead, and needs fewer blocks without.
const FEW_BUCKETS: u32 = 64;
/// Buckets of a directory: no file of ours needs more, and numbers stay within 32 bits.
const MOST_BUCKETS: u32 = 1 << 30;
/// "." and ".." come first.
pub(crate) const FIRST_COOKIE: u64 = 2;

/// Where a name was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub ino: Ino,
    pub kind: FileKind,
    block: BlockNo,
    line: usize,
    span: usize,
}

/// An entry that moves: its line, file, kind and name.
type Moved = (usize, Ino, FileKind, Vec<u8>);

/// Free lines: their block, the first one, and how many of the last span stay free.
type Room = (BlockNo, usize, usize);

/// Refuses names that are none.
pub(crate) fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > NAME_MOST {
        return Err(FsError::NameTooLong);
    }
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
        return Err(FsError::Invalid("no file may have this name"));
    }
    Ok(())
}

fn damaged(block: BlockNo) -> Stop {
    Stop::Damaged(format!("the directory in {block}"))
}

/// What begins at each line of a directory's block.
fn spans(data: &[u8; BLOCK], block: BlockNo) -> Done<Vec<(usize, Span<'_>)>> {
    if !is_sealed(&data[..LINE]) {
        return Err(damaged(block));
    }
    let mut found = Vec::with_capacity(LINES);
    let mut line = 1;
    while line < LINES {
        let span = span_at(&data[line * LINE..]).map_err(|Torn| damaged(block))?;
        found.push((line, span));
        line += match span {
            Span::Free(lines) | Span::Entry(_, lines) => lines,
        };
    }
    Ok(found)
}

/// Whether a block can be one of a directory.
pub(crate) fn is_names(data: &[u8; BLOCK]) -> bool {
    spans(data, BlockNo(0)).is_ok()
}

/// The block behind a full one.
pub(crate) fn behind(data: &[u8; BLOCK]) -> Option<u64> {
    let next = get_u32(data, 0);
    (next != 0).then(|| OVERFLOW + u64::from(next) - 1)
}

impl Tx<'_> {
    /// An inode that is a directory.
    pub fn directory(&mut self, ino: Ino) -> Done<Inode> {
        let inode = self.inode(ino)?;
        if inode.mode.kind != FileKind::Directory {
            return Err(FsError::NotDirectory.into());
        }
        Ok(inode)
    }

    fn hash(&self, name: &[u8]) -> u64 {
        layout::hash(self.state.hash_seed, name)
    }

    /// The block that holds a page of a directory. A directory of a few pages is read as a whole.
    fn dir_block(&mut self, ino: Ino, dir: &Inode, page: u64) -> Done<BlockNo> {
        let extent = self.extents(ino, dir)?.find(page);
        let extent = extent.ok_or_else(|| Stop::Damaged(format!("directory {ino}")))?;
        let block = extent.block_of(page);
        self.state.own(ino, block);
        if self.state.reads_ahead && !self.state.blocks.contains(block) {
            // Blocks of metadata are given out side by side.
            let space = &self.state.space;
            let around = self.around(block).filter(|block| space.is_taken(*block));
            let mut others: Vec<BlockNo> = around.map(BlockNo).collect();
            if dir.buckets + dir.overflows <= PAGES_AHEAD {
                let extents = self.extents(ino, dir)?.iter();
                let own = extents.flat_map(|extent| extent.block.0..extent.block.0 + extent.count);
                others.extend(own.take(PAGES_AHEAD as usize).map(BlockNo));
            }
            return Err(Stop::Miss(block, others));
        }
        Ok(block)
    }

    /// Blocks of a bucket, the first one first.
    fn bucket(&mut self, ino: Ino, dir: &Inode, bucket: u32) -> Done<Vec<BlockNo>> {
        let mut blocks = Vec::with_capacity(1);
        let mut page = Some(u64::from(bucket));
        while let Some(at) = page {
            let block = self.dir_block(ino, dir, at)?;
            if blocks.contains(&block) {
                return Err(damaged(block));
            }
            page = behind(self.block(block)?);
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// Looks a name up.
    pub fn find_name(&mut self, ino: Ino, dir: &Inode, name: &[u8]) -> Done<Option<Found>> {
        if dir.buckets == 0 {
            return Ok(None);
        }
        let mut page = Some(u64::from(bucket_of(self.hash(name), dir.buckets)));
        let mut steps = 0;
        while let Some(at) = page {
            let block = self.dir_block(ino, dir, at)?;
            let data = self.block(block)?;
            if !is_sealed(&data[..LINE]) || steps > dir.overflows {
                return Err(damaged(block));
            }
            let mut line = 1;
            while line < LINES {
                let span = span_at(&data[line * LINE..]).map_err(|Torn| damaged(block))?;
                line += match span {
                    Span::Entry(entry, span) if entry.name == name => {
                        return Ok(Some(Found {
                            ino: entry.ino,
                            kind: entry.kind,
                            block,
                            line,
                            span,
                        }));
                    }
                    Span::Free(lines) | Span::Entry(_, lines) => lines,
                };
            }
            page = behind(data);
            steps += 1;
        }
        Ok(None)
    }

    /// As [`Tx::find_name`]; that it is not there is refused.
    pub fn need_name(&mut self, ino: Ino, dir: &Inode, name: &[u8]) -> Done<Found> {
        let found = self.find_name(ino, dir, name)?;
        found.ok_or_else(|| FsError::NotFound.into())
    }

    /// Adds a name that is not there. The directory's inode is to be put afterwards.
    pub fn add_name(
        &mut self,
        ino: Ino,
        dir: &mut Inode,
        name: &[u8],
        what: (Ino, FileKind),
    ) -> Done<()> {
        let lines = span_of(name.len());
        if dir.buckets == 0 {
            self.add_page(ino, dir, 0)?;
            dir.buckets = 1;
        }
        let hash = self.hash(name);
        let bucket = bucket_of(hash, dir.buckets);
        let mut place = self.find_room(ino, dir, bucket, lines)?;
        if self.needs_split(ino, dir, bucket, place)? {
            self.split(ino, dir)?;
            place = self.find_room(ino, dir, bucket_of(hash, dir.buckets), lines)?;
        }
        let (block, line, left) = match place {
            Some(place) => place,
            None => {
                let block = self.add_overflow(ino, dir, bucket_of(hash, dir.buckets))?;
                (block, 1, 0)
            }
        };
        dir.size += 1;
        let (ino, kind) = what;
        self.put_entry(block, line, &Entry { ino, kind, name })?;
        self.put_free(block, line + lines, left)
    }

    /// Whether a bucket is to be split before a name goes to a place in this one. In a directory of
    /// many buckets that is so if its first block is full, for who looks for a name behind it reads
    /// two blocks one after the other. But not if other buckets hold less than half as much on
    /// average: names that happen to be in one bucket would have the directory grow without end.
    fn needs_split(
        &mut self,
        ino: Ino,
        dir: &Inode,
        bucket: u32,
        place: Option<Room>,
    ) -> Done<bool> {
        if dir.buckets >= MOST_BUCKETS {
            return Ok(false);
        }
        let Some((block, ..)) = place.filter(|_| dir.buckets >= FEW_BUCKETS) else {
            return Ok(place.is_none());
        };
        let first = self.dir_block(ino, dir, u64::from(bucket))?;
        if block == first {
            return Ok(false);
        }
        let spans = spans(self.block(first)?, first)?;
        let names = spans
            .iter()
            .filter(|(_, span)| matches!(span, Span::Entry(..)));
        Ok(dir.size * 2 >= names.count() as u64 * u64::from(dir.buckets))
    }

    fn put_entry(&mut self, block: BlockNo, line: usize, entry: &Entry<'_>) -> Done<()> {
        let mut bytes = Vec::with_capacity(5 * LINE);
        entry.encode(&mut bytes);
        self.write(block, line * LINE, &bytes)
    }

    /// Says that so many lines are free.
    fn put_free(&mut self, block: BlockNo, line: usize, lines: usize) -> Done<()> {
        if lines == 0 {
            return Ok(());
        }
        self.write(block, line * LINE, &free_span(lines))
    }

    /// Free lines in a bucket, one behind the other.
    fn find_room(
        &mut self,
        ino: Ino,
        dir: &Inode,
        bucket: u32,
        lines: usize,
    ) -> Done<Option<Room>> {
        for block in self.bucket(ino, dir, bucket)? {
            let place = self.room_in(block, lines)?;
            if place.is_some() {
                return Ok(place);
            }
        }
        Ok(None)
    }

    /// Free lines in a block, one behind the other.
    fn room_in(&mut self, block: BlockNo, lines: usize) -> Done<Option<Room>> {
        let mut run = (0, 0);
        for (line, span) in spans(self.block(block)?, block)? {
            let Span::Free(free) = span else {
                run = (0, 0);
                continue;
            };
            if run.1 == 0 {
                run.0 = line;
            }
            run.1 += free;
            if run.1 >= lines {
                return Ok(Some((block, run.0, run.1 - lines)));
            }
        }
        Ok(None)
    }

    /// Gives a new directory its first page before it has a name, as Ext4 does, whose directories
    /// name themselves and their parent there.
    pub fn add_first_page(&mut self, ino: Ino, dir: &mut Inode) -> Done<()> {
        let block = self.add_page(ino, dir, 0)?;
        dir.buckets = 1;
        self.put_free(block, 1, LINES - 1)
    }

    /// Gives a directory a page of zeroes.
    fn add_page(&mut self, ino: Ino, dir: &mut Inode, page: u64) -> Done<BlockNo> {
        let before = page.checked_sub(1).zip(Some(self.extents(ino, dir)?));
        let before = before.and_then(|(page, extents)| Some(extents.find(page)?.block_of(page)));
        let goal = before.map(|block| BlockNo(block.0 + 1));
        let pages = (dir.buckets + dir.overflows) as usize;
        // Few blocks are behind many buckets, and so both parts are used up together.
        let apart = match dir.buckets < FEW_BUCKETS {
            true => Share { part: 1, whole: 2 },
            false => Share {
                part: dir.buckets as usize,
                whole: pages,
            },
        };
        let apart = (page >= OVERFLOW).then_some(apart);
        let block = self.take_fresh_for(goal, apart, pages)?;
        self.state.own(ino, block);
        let extent = Extent {
            page,
            block,
            count: 1,
            is_written: true,
        };
        self.add_extent(ino, dir, extent)?;
        Ok(block)
    }

    /// Puts a block behind the last one of a bucket.
    fn add_overflow(&mut self, ino: Ino, dir: &mut Inode, bucket: u32) -> Done<BlockNo> {
        let last = self.bucket(ino, dir, bucket)?.last().copied();
        let last = last.ok_or_else(|| Stop::Damaged(format!("directory {ino}")))?;
        let block = self.add_page(ino, dir, OVERFLOW + u64::from(dir.overflows))?;
        dir.overflows += 1;
        let mut head = [0; LINE];
        put_u32(&mut head, 0, dir.overflows);
        seal(&mut head);
        self.write(last, 0, &head)?;
        Ok(block)
    }

    /// Adds a bucket, and moves there what belongs there of the one that it splits. In a directory
    /// of many buckets what stays moves to the first block, where there is room now.
    fn split(&mut self, ino: Ino, dir: &mut Inode) -> Done<()> {
        let new = dir.buckets;
        let old = new - (1 << new.ilog2());
        let from = self.bucket(ino, dir, old)?;
        let mut to = self.add_page(ino, dir, u64::from(new))?;
        dir.buckets += 1;
        let mut next = 1;
        for block in &from {
            let block = *block;
            let moved = self.entries_of(block, new, dir.buckets)?;
            for (line, ino_of, kind, name) in moved {
                let span = span_of(name.len());
                if next + span > LINES {
                    to = self.add_overflow(ino, dir, new)?;
                    next = 1;
                }
                let entry = Entry {
                    ino: ino_of,
                    kind,
                    name: &name,
                };
                self.put_entry(to, next, &entry)?;
                next += span;
                self.put_free(block, line, span)?;
            }
        }
        match from.split_first() {
            Some((first, behind)) if new >= FEW_BUCKETS => self.move_up(old, *first, behind, dir),
            _ => Ok(()),
        }
    }

    /// Moves names of a bucket from the blocks behind its first one to that one, while they fit.
    fn move_up(
        &mut self,
        bucket: u32,
        first: BlockNo,
        behind: &[BlockNo],
        dir: &Inode,
    ) -> Done<()> {
        for block in behind {
            for (line, ino, kind, name) in self.entries_of(*block, bucket, dir.buckets)? {
                let span = span_of(name.len());
                let Some((_, to, left)) = self.room_in(first, span)? else {
                    continue;
                };
                let name = &name;
                self.put_entry(first, to, &Entry { ino, kind, name })?;
                self.put_free(first, to + span, left)?;
                self.put_free(*block, line, span)?;
            }
        }
        Ok(())
    }

    /// The entries of a block that belong to a bucket among so many.
    fn entries_of(&mut self, block: BlockNo, bucket: u32, buckets: u32) -> Done<Vec<Moved>> {
        let seed = self.state.hash_seed;
        let found = spans(self.block(block)?, block)?;
        let entries = found.into_iter().filter_map(|(line, span)| match span {
            Span::Entry(entry, _)
                if bucket_of(layout::hash(seed, entry.name), buckets) == bucket =>
            {
                Some((line, entry.ino, entry.kind, entry.name.to_vec()))
            }
            _ => None,
        });
        Ok(entries.collect())
    }

    /// Removes a name that was found. The directory's inode is to be put afterwards.
    pub fn remove_name(&mut self, dir: &mut Inode, found: &Found) -> Done<()> {
        dir.size = dir.size.saturating_sub(1);
        self.put_free(found.block, found.line, found.span)
    }

    /// Has a name mean another file.
    pub fn change_name(
        &mut self,
        found: &Found,
        ino: Ino,
        kind: FileKind,
        name: &[u8],
    ) -> Done<()> {
        self.put_entry(found.block, found.line, &Entry { ino, kind, name })
    }

    /// Names of one bucket from a place on, in order, and the place behind the bucket; none if it
    /// is the last one. Who wants more asks again: a directory that was large has empty buckets by
    /// the thousand, of which one operation would have all blocks on the host.
    pub fn list_names(
        &mut self,
        ino: Ino,
        dir: &Inode,
        from: u64,
    ) -> Done<(Vec<DirEntry>, Option<u64>)> {
        let place = from.saturating_sub(FIRST_COOKIE);
        let mut entries = Vec::new();
        if dir.buckets == 0 {
            return Ok((entries, None));
        }
        let (bucket, end) = next_cookie(place, dir.buckets);
        for block in self.bucket(ino, dir, bucket)? {
            let seed = self.state.hash_seed;
            for (_, span) in spans(self.block(block)?, block)? {
                let Span::Entry(entry, _) = span else {
                    continue;
                };
                let cookie = cookie_of(layout::hash(seed, entry.name));
                if cookie >= place {
                    entries.push(DirEntry {
                        ino: entry.ino,
                        kind: entry.kind,
                        next: cookie + 1 + FIRST_COOKIE,
                        name: entry.name.to_vec(),
                    });
                }
            }
        }
        entries.sort_by(|a, b| (a.next, &a.name).cmp(&(b.next, &b.name)));
        Ok((entries, end.map(|end| end + FIRST_COOKIE)))
    }
}
