//! The walk: reads every structure by itself, apart from the code that serves a mounted file
//! system, and notes what is wrong and what would mend it.

use super::Problem;
use crate::dir::{OVERFLOW, behind};
use crate::fs::address;
use crate::layout::{
    self, BITS_PER_BLOCK, BITS_PER_LINE, BLOCK, Extent, Geometry, INODE_BYTES, Inode, LINE, LINES,
    SLOTS_OF_BLOCK, STATE_BLOCK, Span, Superblock, bucket_of, get_u32, is_sealed, span_at,
};
use crate::segments::{Segments, load};
use crate::{BlockNo, FileKind, Ino, MountError};
use core::ops::Range;
use port::{Device, DeviceError};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A name that leads nowhere, or to the wrong kind.
#[derive(Clone, Debug)]
pub(super) struct BadName {
    pub block: BlockNo,
    pub line: usize,
    pub span: usize,
}

/// A name, and what it leads to.
pub(super) type Name = (Vec<u8>, Ino, FileKind);

/// What was read of an inode in use.
pub(super) struct Seen {
    pub inode: Inode,
    /// Names that lead to it.
    pub names: u32,
    /// Directories in it.
    pub children: u32,
    /// Names in it.
    pub entries: u64,
    /// Blocks that it has.
    pub blocks: u32,
    /// Its extended attributes are not whole.
    pub has_bad_xattrs: bool,
    /// It was reached from the root.
    pub is_reached: bool,
    /// The directory that it was reached from.
    pub parent: Ino,
}

/// The walk, and what it has found.
pub(super) struct Walk<'d, D> {
    pub device: &'d D,
    pub superblock: Superblock,
    pub geometry: Geometry,
    pub problems: Vec<Problem>,
    pub inodes: BTreeMap<Ino, Seen>,
    /// Inodes whose bytes are not whole.
    pub torn: BTreeSet<Ino>,
    /// Who has a block.
    pub owners: FxHashMap<u32, Ino>,
    /// Blocks that the flash has lost. They count as blocks of zeroes, and writing them heals them.
    pub lost_blocks: BTreeSet<BlockNo>,
    pub bad_names: Vec<BadName>,
    /// Slots of extents that are not whole: block and first byte.
    pub bad_slots: BTreeSet<(BlockNo, usize)>,
    /// Blocks of extents whose heads are not whole.
    pub bad_heads: BTreeSet<BlockNo>,
    /// Directories whose blocks do not fit together, and the names that were found in them.
    pub rebuilt: BTreeMap<Ino, Vec<Name>>,
    /// Files and directories without a name; what is in such a directory has one.
    pub lost: Vec<Ino>,
    pub directories: u64,
    pub files: u64,
    pub blocks: u64,
    /// The bitmaps are not what they must be.
    pub bitmaps_differ: bool,
    /// The list of files without a name is not empty or not whole.
    pub has_orphans: bool,
    /// Where blocks are, if not where their numbers say.
    pub segments: Option<Segments>,
    /// Blocks that repair has changed and not written yet, where there are segments.
    pub changed: BTreeMap<BlockNo, Box<[u8; BLOCK]>>,
}

impl<'d, D: Device> Walk<'d, D> {
    pub async fn new(device: &'d D, superblock: Superblock) -> Result<Self, MountError> {
        let geometry = superblock.geometry().ok_or(MountError::Damaged {
            what: "the superblock".into(),
        })?;
        let mut problems = Vec::new();
        let mut segments = None;
        if geometry.segments.is_some() {
            let loaded = load(device, &superblock, &geometry).await?;
            problems = loaded.damaged;
            segments = Some(loaded.segments);
        }
        let problems = problems.into_iter().map(|what| Problem {
            what,
            repaired: None,
        });
        Ok(Self {
            problems: problems.collect(),
            segments,
            changed: BTreeMap::new(),
            device,
            superblock,
            geometry,
            inodes: BTreeMap::new(),
            torn: BTreeSet::new(),
            owners: FxHashMap::default(),
            lost_blocks: BTreeSet::new(),
            bad_names: Vec::new(),
            bad_slots: BTreeSet::new(),
            bad_heads: BTreeSet::new(),
            rebuilt: BTreeMap::new(),
            lost: Vec::new(),
            directories: 0,
            files: 0,
            blocks: 0,
            bitmaps_differ: false,
            has_orphans: false,
        })
    }

    pub fn complain(&mut self, what: impl Into<String>) {
        self.problems.push(Problem {
            what: what.into(),
            repaired: None,
        });
    }

    /// A block; zeroes, in which nothing is in use, if the flash has lost it.
    pub async fn read(&mut self, block: BlockNo) -> Result<Vec<u8>, MountError> {
        let mut bytes = vec![0; BLOCK];
        let place = match &self.segments {
            None => Some(block.0),
            Some(segments) => segments.place(block),
        };
        if let Some(changed) = self.changed.get(&block) {
            bytes.copy_from_slice(&changed[..]);
        } else if let Some(place) = place.filter(|_| !self.lost_blocks.contains(&block)) {
            let at = address(BlockNo(place));
            match self.device.read_blocks(at, &mut bytes).await {
                Ok(_) => {}
                Err(DeviceError::Lost { .. }) => {
                    bytes.fill(0);
                    self.lost_blocks.insert(block);
                    let of = self.part_of(block);
                    self.complain(format!("the flash has lost {block}, which is {of}"));
                }
                Err(error) => return Err(error.into()),
            }
            if let Some(segments) = &self.segments {
                segments.trim_node(block, &mut bytes);
            }
        }
        Ok(bytes)
    }

    /// What a block belongs to.
    fn part_of(&self, block: BlockNo) -> &'static str {
        let geometry = &self.geometry;
        let parts = [
            (&geometry.block_bitmap, "of the bitmap of blocks"),
            (&geometry.inode_bitmap, "of the bitmap of inodes"),
            (&geometry.inode_table, "of the table of inodes"),
        ];
        let found = parts.into_iter().find(|(area, _)| area.contains(&block.0));
        match found {
            Some((_, name)) => name,
            None if block == STATE_BLOCK => "the head of the list of files without a name",
            None => "of names, extents or extended attributes",
        }
    }

    /// Everything.
    pub async fn run(&mut self) -> Result<(), MountError> {
        self.read_owners().await?;
        self.walk_names(Ino::ROOT, Ino::ROOT).await?;
        self.walk_lost().await?;
        self.compare_inodes();
        self.compare_bitmaps().await?;
        self.look_at_orphans().await?;
        self.blocks = self.owners.len() as u64;
        for seen in self.inodes.values() {
            match seen.inode.mode.kind {
                FileKind::Directory => self.directories += 1,
                _ => self.files += 1,
            }
        }
        Ok(())
    }

    /// Every inode, and which blocks each has.
    pub async fn read_owners(&mut self) -> Result<(), MountError> {
        self.read_inodes().await?;
        let inos: Vec<Ino> = self.inodes.keys().copied().collect();
        for ino in &inos {
            self.read_blocks_of(*ino).await?;
        }
        Ok(())
    }

    /// Every inode of the table that the bitmap or its own bytes say is in use.
    async fn read_inodes(&mut self) -> Result<(), MountError> {
        let table = self.geometry.inode_table.clone();
        for block in table.clone() {
            let bytes = self.read(BlockNo(block)).await?;
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            let per_block = self.geometry.inodes_per_block;
            let first = (block - table.start) * per_block;
            let inodes = bytes.chunks_exact(INODE_BYTES).take(per_block as usize);
            for (number, bytes) in (first..).zip(inodes) {
                let ino = Ino(number);
                if ino == Ino::NONE || number > self.geometry.inodes {
                    continue;
                }
                match Inode::decode(bytes) {
                    Ok(None) => {}
                    Ok(Some(inode)) => {
                        let seen = Seen {
                            inode,
                            names: 0,
                            children: 0,
                            entries: 0,
                            blocks: 0,
                            has_bad_xattrs: false,
                            is_reached: ino == Ino::ROOT,
                            parent: Ino::NONE,
                        };
                        self.inodes.insert(ino, seen);
                    }
                    Err(_) => {
                        self.torn.insert(ino);
                        self.complain(format!("{ino} is not as it was written"));
                    }
                }
            }
        }
        if !self.inodes.contains_key(&Ino::ROOT) {
            self.complain("there is no root directory");
        }
        Ok(())
    }

    /// Takes blocks for an inode; says whether they may be its.
    fn own(&mut self, ino: Ino, blocks: Range<u32>) -> bool {
        let files = self.geometry.files.clone();
        if blocks.start < files.start || blocks.end > files.end {
            let first = blocks.start;
            self.complain(format!("{ino} has block {first}, which is no file's"));
            return false;
        }
        let mut is_alone = true;
        for block in blocks {
            if let Some(other) = self.owners.insert(block, ino) {
                is_alone = false;
                self.complain(format!("block {block} belongs to {other} and to {ino}"));
            }
        }
        is_alone
    }

    async fn read_blocks_of(&mut self, ino: Ino) -> Result<(), MountError> {
        let inode = self.inodes[&ino].inode;
        let mut count = 0_u32;
        let (extents, lists) = self.extents_and_lists(ino, &inode).await?;
        if inode.mode.kind == FileKind::Symlink {
            let has_target = |extent: &Extent| extent.page == 0 && self.is_of_files(extent);
            if !extents.first().is_some_and(has_target) || inode.size > BLOCK as u64 {
                // Nobody could read it: it is as good as damaged.
                self.complain(format!(
                    "{ino} is a symbolic link, and what it leads to is lost"
                ));
                self.inodes.remove(&ino);
                self.torn.insert(ino);
                return Ok(());
            }
        }
        for extent in extents {
            self.own(
                ino,
                extent.block.0..extent.block.0.saturating_add(extent.count),
            );
            if self.is_of_files(&extent) {
                count = count.saturating_add(extent.count);
            }
        }
        for block in lists {
            self.own(ino, block.0..block.0 + 1);
            count += 1;
        }
        let mut has_bad_xattrs = false;
        if inode.xattrs.0 != 0 && self.own(ino, inode.xattrs.0..inode.xattrs.0 + 1) {
            count += 1;
            let bytes = self.read(inode.xattrs).await?;
            if layout::xattr::decode(&bytes).is_err() {
                self.complain(format!(
                    "extended attributes of {ino} are not as they were written"
                ));
                has_bad_xattrs = true;
            }
        }
        if let Some(seen) = self.inodes.get_mut(&ino) {
            seen.blocks = count;
            seen.has_bad_xattrs = has_bad_xattrs;
        }
        Ok(())
    }

    /// Whether all blocks of an extent are files'.
    fn is_of_files(&self, extent: &Extent) -> bool {
        let files = &self.geometry.files;
        let end = extent.block.0.checked_add(extent.count);
        extent.block.0 >= files.start && end.is_some_and(|end| end <= files.end)
    }

    /// The extents of an inode, by page; what is not whole is left out.
    pub async fn extents(&mut self, ino: Ino, inode: &Inode) -> Result<Vec<Extent>, MountError> {
        let (extents, _) = self.extents_and_lists(ino, inode).await?;
        Ok(extents)
    }

    /// The same, and the blocks that list those which the inode has no slots for.
    async fn extents_and_lists(
        &mut self,
        ino: Ino,
        inode: &Inode,
    ) -> Result<(Vec<Extent>, BTreeSet<BlockNo>), MountError> {
        let mut found: Vec<Extent> = inode.slots.iter().flatten().copied().collect();
        let mut next = inode.extent_block();
        let mut lists = BTreeSet::new();
        while let Some(block) = next {
            if !self.geometry.files.contains(&block.0) || !lists.insert(block) {
                self.complain(format!("the list of extents of {ino} leads nowhere"));
                break;
            }
            let bytes = self.read(block).await?;
            let has_head = is_sealed(&bytes[..LINE]);
            if !has_head {
                self.complain(format!(
                    "extents of {ino} in {block} are not as they were written"
                ));
                self.bad_heads.insert(block);
            }
            // Each slot has a sum of its own: those behind a damaged head are good, and nobody else
            // may get their blocks.
            let slots = bytes[LINE..].chunks_exact(Extent::BYTES);
            for (index, slot) in slots.take(SLOTS_OF_BLOCK).enumerate() {
                match Extent::decode(slot) {
                    Ok(extent) => found.extend(extent),
                    Err(_) => {
                        self.complain(format!("an extent of {ino} is not as it was written"));
                        self.bad_slots.insert((block, LINE + index * Extent::BYTES));
                    }
                }
            }
            let behind = has_head.then(|| BlockNo(get_u32(&bytes, 0)));
            next = behind.filter(|block| block.0 != 0);
        }
        found.sort_unstable_by_key(|extent| extent.page);
        if found.windows(2).any(|two| two[0].end() > two[1].page) {
            self.complain(format!("extents of {ino} overlap"));
        }
        Ok((found, lists))
    }

    /// Directories that cannot be reached, those first that are in no other such one; and files.
    async fn walk_lost(&mut self) -> Result<(), MountError> {
        for is_top in [true, false] {
            let unreached = |walk: &Self, ino: Ino| {
                let seen = walk.inodes.get(&ino);
                seen.is_some_and(|seen| {
                    !seen.is_reached && seen.inode.mode.kind == FileKind::Directory
                })
            };
            let all: Vec<Ino> = self.inodes.keys().copied().collect();
            for ino in all {
                let parent = self.inodes[&ino].inode.parent;
                if unreached(self, ino) && !(is_top && parent != ino && unreached(self, parent)) {
                    self.lost.push(ino);
                    self.walk_names(ino, Ino::NONE).await?;
                }
            }
        }
        let files = self.inodes.iter().filter(|(_, seen)| !seen.is_reached);
        self.lost.extend(files.map(|(ino, _)| *ino));
        Ok(())
    }

    /// All names from a directory on.
    async fn walk_names(&mut self, top: Ino, parent: Ino) -> Result<(), MountError> {
        let mut queue = VecDeque::from([top]);
        if let Some(top) = self.inodes.get_mut(&top) {
            top.parent = parent;
            top.is_reached = true;
        }
        while let Some(dir) = queue.pop_front() {
            let Some(seen) = self.inodes.get(&dir) else {
                continue;
            };
            let inode = seen.inode;
            if inode.mode.kind != FileKind::Directory {
                if dir == Ino::ROOT {
                    self.complain("the root is no directory");
                }
                continue;
            }
            for below in self.walk_directory(dir, &inode).await? {
                queue.push_back(below);
            }
        }
        Ok(())
    }

    /// The names of a directory; gives the directories among them.
    async fn walk_directory(&mut self, dir: Ino, inode: &Inode) -> Result<Vec<Ino>, MountError> {
        let quiet = self.problems.len();
        let extents = self.extents(dir, inode).await?;
        self.problems.truncate(quiet);
        let mut below = Vec::new();
        let mut names = BTreeMap::new();
        let mut is_broken = false;
        let mut chained = BTreeSet::new();
        let mut buckets = BTreeSet::new();
        for extent in extents {
            // Nobody knows what that would be; the walk of the owners has told it.
            if !self.is_of_files(&extent) {
                is_broken = true;
                continue;
            }
            for page in extent.page..extent.end() {
                let block = extent.block_of(page);
                let bytes = self.read(block).await?;
                // What was behind it is not known.
                is_broken |= self.lost_blocks.contains(&block);
                if !is_sealed(&bytes[..LINE]) {
                    is_broken = true;
                    self.complain(format!(
                        "a block of {dir}, {block}, is not as it was written"
                    ));
                }
                if let Some(next) = behind_of(&bytes) {
                    chained.insert(next);
                }
                let is_bucket = page < u64::from(inode.buckets);
                if !is_bucket && page < OVERFLOW {
                    is_broken = true;
                    self.complain(format!("{dir} has a page {page} that is no bucket"));
                }
                let bucket = is_bucket.then_some(page as u32);
                buckets.extend(bucket);
                self.walk_block(dir, inode, (block, &bytes, bucket), &mut names, &mut below);
            }
        }
        let linked = chained.len() as u64;
        if linked != u64::from(inode.overflows) {
            is_broken = true;
            self.complain(format!(
                "{dir} has {linked} blocks behind full ones, not {}",
                inode.overflows
            ));
        }
        if buckets.len() != inode.buckets as usize {
            is_broken = true;
            let missing = inode.buckets as usize - buckets.len();
            self.complain(format!("{dir} has no blocks for {missing} of its buckets"));
        }
        if is_broken {
            let names = names
                .into_iter()
                .map(|(name, (ino, kind))| (name, ino, kind));
            self.rebuilt.insert(dir, names.collect());
        }
        Ok(below)
    }

    fn walk_block(
        &mut self,
        dir: Ino,
        inode: &Inode,
        (block, bytes, bucket): (BlockNo, &[u8], Option<u32>),
        names: &mut BTreeMap<Vec<u8>, (Ino, FileKind)>,
        below: &mut Vec<Ino>,
    ) {
        let seed = self.superblock.hash_seed();
        let mut line = 1;
        while line < LINES {
            let (entry, span) = match span_at(&bytes[line * LINE..]) {
                Ok(Span::Free(lines)) => {
                    line += lines;
                    continue;
                }
                Ok(Span::Entry(entry, span)) => (entry, span),
                Err(_) => {
                    self.complain(format!(
                        "a name of {dir} in {block} is not as it was written"
                    ));
                    self.bad_names.push(BadName {
                        block,
                        line,
                        span: 1,
                    });
                    line += 1;
                    continue;
                }
            };
            let told = String::from_utf8_lossy(entry.name).into_owned();
            let hash = layout::hash(seed, entry.name);
            let mut wrong = None;
            if bucket.is_some_and(|bucket| bucket_of(hash, inode.buckets) != bucket) {
                wrong = Some("stands where it is not looked for");
            } else if names.contains_key(entry.name) {
                wrong = Some("is there twice");
            } else {
                match self.inodes.get_mut(&entry.ino) {
                    None => wrong = Some("leads to no file"),
                    Some(seen) if seen.inode.mode.kind != entry.kind => {
                        wrong = Some("leads to a file of another kind");
                    }
                    Some(seen) if entry.kind == FileKind::Directory && seen.is_reached => {
                        wrong = Some("is a second name of a directory");
                    }
                    Some(seen) => {
                        seen.names += 1;
                        seen.is_reached = true;
                        if entry.kind == FileKind::Directory {
                            seen.parent = dir;
                            below.push(entry.ino);
                        }
                    }
                }
            }
            match wrong {
                Some(wrong) => {
                    self.complain(format!("the name {told} in {dir} {wrong}"));
                    self.bad_names.push(BadName { block, line, span });
                }
                None => {
                    names.insert(entry.name.to_vec(), (entry.ino, entry.kind));
                    if let Some(seen) = self.inodes.get_mut(&dir) {
                        seen.entries += 1;
                        seen.children += u32::from(entry.kind == FileKind::Directory);
                    }
                }
            }
            line += span;
        }
    }

    fn compare_inodes(&mut self) {
        let mut told = Vec::new();
        for (ino, seen) in &self.inodes {
            let inode = &seen.inode;
            let is_directory = inode.mode.kind == FileKind::Directory;
            let is_lost = self.lost.contains(ino);
            if is_lost {
                told.push(format!("{ino} has no name"));
            }
            let links = if is_directory {
                2 + seen.children
            } else {
                seen.names
            };
            if !is_lost && inode.links != links {
                told.push(format!("{ino} has {links} links and says {}", inode.links));
            }
            if inode.blocks != seen.blocks {
                told.push(format!(
                    "{ino} has {} blocks and says {}",
                    seen.blocks, inode.blocks
                ));
            }
            if is_directory && inode.size != seen.entries {
                told.push(format!(
                    "{ino} has {} names and says {}",
                    seen.entries, inode.size
                ));
            }
            if is_directory && !is_lost && inode.parent != seen.parent {
                told.push(format!(
                    "{ino} is in {} and says {}",
                    seen.parent, inode.parent
                ));
            }
        }
        for what in told {
            self.complain(what);
        }
    }

    async fn compare_bitmaps(&mut self) -> Result<(), MountError> {
        let areas = [
            (self.geometry.block_bitmap.clone(), true),
            (self.geometry.inode_bitmap.clone(), false),
        ];
        for (area, is_blocks) in areas {
            let (mut missing, mut spare, mut torn) = (0_u64, 0_u64, 0_u64);
            let mut first = None;
            let wanted = match is_blocks {
                true => bits_of(self.owners.keys().copied(), area.len()),
                false => bits_of(self.inodes.keys().map(|ino| ino.0), area.len()),
            };
            let mut wanted = wanted.chunks_exact(LINE - 2);
            let mut begin = 0;
            for block in area.clone() {
                let bytes = self.read(BlockNo(block)).await?;
                for (line, wanted) in bytes.chunks_exact(LINE).zip(&mut wanted) {
                    torn += u64::from(!layout::are_sealed_bits(line));
                    let found = &line[..LINE - 2];
                    // Nearly all of a file system is as it should be.
                    if found != wanted {
                        for (at, (&found, &wanted)) in (0..).zip(found.iter().zip(wanted)) {
                            let differs = found ^ wanted;
                            if differs != 0 {
                                first.get_or_insert(begin + at * 8 + differs.trailing_zeros());
                            }
                            missing += u64::from((differs & wanted).count_ones());
                            spare += u64::from((differs & found).count_ones());
                        }
                    }
                    begin += BITS_PER_LINE;
                }
            }
            let name = if is_blocks { "blocks" } else { "inodes" };
            let at = first.map_or(String::new(), |first| format!(", the first is {first}"));
            if missing > 0 {
                self.complain(format!(
                    "{missing} {name} are in use and their bitmap says free{at}"
                ));
            }
            if spare > 0 {
                self.complain(format!(
                    "{spare} {name} are free and their bitmap says in use{at}"
                ));
            }
            if torn > 0 {
                self.complain(format!(
                    "{torn} lines of the bitmap of {name} are not as they were written"
                ));
            }
            let is_lost = self.lost_blocks.iter().any(|block| area.contains(&block.0));
            self.bitmaps_differ |= is_lost || missing + spare + torn > 0;
        }
        Ok(())
    }

    async fn look_at_orphans(&mut self) -> Result<(), MountError> {
        let bytes = self.read(STATE_BLOCK).await?;
        let is_whole = is_sealed(&bytes[..LINE]);
        if !is_whole {
            self.complain("the head of the list of files without a name is not as it was written");
        } else if get_u32(&bytes, 0) != 0 {
            self.complain("files without a name are listed although the file system was recovered");
        }
        self.has_orphans = !is_whole || get_u32(&bytes, 0) != 0;
        Ok(())
    }
}

/// What the lines of a bitmap of some blocks hold that says of these numbers that they are taken,
/// without the sums: a line has as many bits as go into bytes. Numbers beyond are in no bitmap.
fn bits_of(numbers: impl Iterator<Item = u32>, blocks: usize) -> Vec<u8> {
    let mut bits = vec![0_u8; blocks * BITS_PER_BLOCK as usize / 8];
    for number in numbers {
        if let Some(byte) = bits.get_mut(number as usize / 8) {
            *byte |= 1 << (number % 8);
        }
    }
    bits
}

/// The page behind a full bucket.
fn behind_of(bytes: &[u8]) -> Option<u64> {
    let mut block = [0; BLOCK];
    block.copy_from_slice(bytes);
    behind(&block)
}
