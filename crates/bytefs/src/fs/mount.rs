//! From a device to a mounted file system and back.

use super::write_back::{OVERHEAD_LINES, PAGE_LINES};
use super::{DataMode, FileSystem, MountOptions, address};
use crate::check;
use crate::gate::{Bell, Gate};
use crate::journal::Journal;
use crate::journal::contents::ContentRecords;
use crate::layout::Personality::{NovaLike, PmfsLike};
use crate::layout::{
    self, BITS_PER_BLOCK, BITS_PER_LINE, BLOCK, LINE, LINES, STATE_BLOCK, Superblock, get_u32,
    is_sealed,
};
use crate::segments;
use crate::shortcuts::HostBlocks;
use crate::state::batch::{Batch, BatchId};
use crate::state::blocks::Blocks;
use crate::state::pages::{Clock as PageClock, MANY_NODES};
use crate::state::pmem::{DaxAt, Pmem, Window};
use crate::state::space::FreeMap;
use crate::state::{BlockWrites, State};
use crate::stats::Counters;
use crate::structures::Structure;
use crate::{BlockNo, FsError, Ino, MountError};
use core::ops::Range;
use dax::Dax;
use port::{Acknowledge, Clock, Device, PersistenceDomain, Shape};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use units::{Bytes, Ratio};

/// Bytes of one read of bitmaps.
const READ: usize = 64 * BLOCK;
/// Lines of one batch, where the device has room for more.
const BATCH_MOST: usize = 4096;

/// Blocks of metadata that are always cached: more than any operation needs at once.
const METADATA_LEAST: usize = 256;

/// Reads the superblock of a device.
pub(crate) async fn read_superblock<D: Device>(device: &D) -> Result<Superblock, MountError> {
    check_device(device)?;
    let mut block = vec![0; BLOCK];
    device.read_blocks(address(BlockNo(0)), &mut block).await?;
    let found = Superblock::decode(&block)?;
    let room = device.shape().capacity.get() / BLOCK as u64;
    if u64::from(found.blocks) > room {
        return Err(MountError::Device(format!(
            "the file system has {} blocks of 4KiB and the device has room for {room}; mount it on \
             the device that it was made on",
            found.blocks
        )));
    }
    Ok(found)
}

/// Refuses devices that no file system of ours can be on.
pub(crate) fn check_device<D: Device>(device: &D) -> Result<(), MountError> {
    let shape = device.shape();
    if shape.line.get() != LINE as u64 || !(BLOCK as u64).is_multiple_of(shape.block.get()) {
        return Err(MountError::Device(format!(
            "the device has lines of {} and blocks of {}; the file system needs lines of 64B and \
             blocks that divide 4KiB",
            shape.line, shape.block
        )));
    }
    Ok(())
}

/// Changed lines from which a page goes by blocks.
fn block_lines(share: Ratio) -> Result<u32, MountError> {
    let of_lines = (LINES as u64).checked_mul(share.numerator());
    let lines = of_lines.map_or(0, |lines| lines.div_ceil(share.denominator()));
    match (1..=LINES as u64).contains(&lines) {
        true => Ok(lines as u32),
        false => Err(MountError::Device(format!(
            "the share of lines from which a page goes by blocks is {share}; it must be above 0% \
             and at most 100%"
        ))),
    }
}

/// Pages of a write that is durable as a whole: the largest that FUSE hands on, wherever it begins.
const ATOMIC_PAGES: usize = (1 << 20) / BLOCK;
/// Pages of a file that may be dirty beside those: the one in which such a write ends, and one
/// whose tail becomes zeroes.
const BESIDE: usize = 2;

/// Pages of a file that may be dirty where all of them go with one batch.
fn dirty_most(
    options: &MountOptions,
    superblock: &Superblock,
    records: Option<&ContentRecords>,
    batch_most: usize,
) -> Result<usize, MountError> {
    let refused = |why: String| Err(MountError::Device(why));
    let personality = superblock.personality;
    if !personality.needs_transactions() {
        return refused(format!(
            "data=journal needs the device's transactions, and {personality} uses none; leave it \
             out, or make the file system with --personality bytefs"
        ));
    }
    if !options.shortcuts.is_none() {
        return refused(
            "fs.data is journal, and fs.contents, fs.batches or fs.metadata saves what it needs; \
             leave these at their defaults"
                .into(),
        );
    }
    let room = records.map_or(0, ContentRecords::room);
    let of_lines = block_lines(options.blocks_from)? as usize + PAGE_LINES;
    let most = (ATOMIC_PAGES + BESIDE)
        .min(room.saturating_sub(BESIDE))
        .min(batch_most.saturating_sub(OVERHEAD_LINES) / of_lines);
    if batch_most < OVERHEAD_LINES + of_lines * (BESIDE + 1) {
        return refused(format!(
            "data=journal needs room for {} lines in a batch, and the device's log leaves {}; make \
             the device with a larger ssd.log.size",
            OVERHEAD_LINES + of_lines * (BESIDE + 1),
            batch_most
        ));
    }
    if most <= BESIDE {
        return refused(format!(
            "data=journal needs a journal, and the file system has one of {}; make it anew with \
             --journal 4MiB",
            Bytes::new(u64::from(superblock.journal) * BLOCK as u64)
        ));
    }
    Ok(most)
}

/// What there is to be known of persistent memory, if it is to be used.
fn pmem_of(
    options: &MountOptions,
    personality: layout::Personality,
    shape: &Shape,
) -> Result<Option<Pmem>, MountError> {
    use layout::Personality::{ByteFs, ByteFsLog, Ext4Like};
    let Some(settings) = &options.dax else {
        return Ok(None);
    };
    let refused = |what: String| Err(MountError::Device(what));
    if options.read_only {
        return Ok(None);
    }
    if !matches!(personality, ByteFs | ByteFsLog | Ext4Like) {
        return refused(format!(
            "dax=auto is of bytefs, bytefs-log and ext4-like, and the file system is {personality}; \
             mount it with dax=off"
        ));
    }
    if options.data == DataMode::Journal || options.shortcuts.kept().is_some() {
        return refused(
            "dax=auto makes contents durable line by line, which neither data=journal nor \
             fs.contents=host allows; take one or the other"
                .into(),
        );
    }
    let at = options.dax_at.unwrap_or_else(|| DaxAt::of(shape));
    let window = match (at, Window::of(shape)) {
        (DaxAt::Window, Some(window)) => window,
        (DaxAt::Window, None) => {
            return refused(format!(
                "dax=auto needs a device with persistent memory, and this one has {}; make it with \
                 device.pmem=64MiB",
                shape.pmem
            ));
        }
        (DaxAt::Log, _) if !personality.needs_transactions() => {
            return refused(format!(
                "dax_at=log stores lines and metadata in the device's log, and {personality} has \
                 its metadata elsewhere; make the file system with --personality bytefs, or mount \
                 it with dax_at=window"
            ));
        }
        (DaxAt::Log, _) if settings.reserve > 0 => {
            return refused(
                "dax_reserve keeps frames of the window for some pages, and dax_at=log has none; \
                 leave it out"
                    .into(),
            );
        }
        (DaxAt::Log, _) => Window::NONE,
    };
    match Dax::new(settings) {
        Ok(dax) => Ok(Some(Pmem::new(dax, at, window))),
        Err(error) => refused(error.to_string()),
    }
}

/// Refuses what has no order on a device whose log survives a power cut and whose buffers do not:
/// there a persist of lines says nothing of blocks.
fn check_order(
    options: &MountOptions,
    personality: layout::Personality,
    shape: &Shape,
) -> Result<(), MountError> {
    use layout::Personality::{ByteFsDual, NovaLike, PmfsLike};
    let keeps_log_alone = shape.byte_domain == PersistenceDomain::Device
        && shape.block_domain == PersistenceDomain::Flash;
    if !keeps_log_alone || options.read_only {
        return Ok(());
    }
    let refused = |what: String| Err(MountError::Device(what));
    match (personality, options.data) {
        (ByteFsDual | PmfsLike | NovaLike, _) => refused(format!(
            "{personality} takes what is written by blocks to survive when lines behind it do, and \
             of this device the log alone survives; make the device with \
             ssd.power_loss_protection=battery, or the file system with --personality bytefs"
        )),
        (_, DataMode::Journal) => refused(
            "data=journal takes blocks to survive when they are answered, and of this device the \
             log alone survives; make it with ssd.power_loss_protection=battery, or leave \
             data=journal out"
                .into(),
        ),
        _ => Ok(()),
    }
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Mounts what is on a device, recovering what a power cut has left.
    ///
    /// # Errors
    /// There is none, it is damaged or newer; the device fails or lacks what it needs.
    pub async fn mount(device: D, clock: C, options: MountOptions) -> Result<Self, MountError> {
        let superblock = read_superblock(&device).await?;
        if superblock.is_repairing {
            return Err(MountError::Device(
                "a repair of the file system was interrupted; run `entresol fsck --repair` on the \
                 image, which goes on"
                    .into(),
            ));
        }
        let damaged = |what: &str| MountError::Damaged { what: what.into() };
        let geometry = superblock
            .geometry()
            .ok_or_else(|| damaged("the superblock"))?;
        let personality = superblock.personality;
        let shape = device.shape();
        if personality.needs_transactions() && shape.transactions.is_none() {
            return Err(MountError::Device(format!(
                "{personality} needs transactions of the device, and it has none; make the device \
                 with ssd.log.size=256MiB and ssd.log.tx_log=2MiB, or the file system with \
                 --personality bytefs-dual"
            )));
        }
        check_order(&options, personality, &shape)?;
        let recovers = !options.read_only || (options.is_forgotten && !superblock.is_clean);
        if !recovers && !superblock.is_clean {
            return Err(MountError::Device(
                "the file system was not unmounted and needs recovery, which writes; mount it once \
                 without `ro`"
                    .into(),
            ));
        }
        let block_lines = block_lines(options.blocks_from)?;
        if options.shortcuts.kept().is_some() && geometry.segments.is_some() {
            return Err(MountError::Device(format!(
                "fs.contents is host, and {personality} gives contents places of its own on the \
                 device; leave it at device"
            )));
        }
        if options.shortcuts.keeps_metadata() && !personality.needs_transactions() {
            return Err(MountError::Device(format!(
                "fs.metadata is not device, and {personality} writes more for its metadata than \
                 ByteFS; leave it at device, or take bytefs or bytefs-log"
            )));
        }
        if !options.page_cache && !matches!(personality, PmfsLike | NovaLike) {
            return Err(MountError::Device(format!(
                "fs.page_cache is off, and {personality} reads and writes contents by blocks, \
                 through the host's cache; leave it on, or take pmfs-like or nova-like"
            )));
        }
        if !options.page_cache && options.shortcuts.kept().is_some() {
            return Err(MountError::Device(
                "fs.page_cache is off, but with fs.contents=host no contents are on the device; \
                 take one or the other"
                    .into(),
            ));
        }
        // Whatever goes back is a page: lines of one would wait for their batch, in the cache.
        let block_lines = if options.page_cache { block_lines } else { 1 };
        let limit = shape
            .transactions
            .map_or(usize::MAX, |limits| limits.lines as usize / 2);
        // Ext4 gives files of a directory neighbouring inodes, whoever makes them. Blocks come from
        // one place for all: many would spread files over the device, which makes its garbage
        // collection dear (YCSB-A took 1.3 times as long).
        let hands = match personality {
            layout::Personality::Ext4Like => 1,
            _ => options.cores,
        };
        let pages = |bytes: Bytes| (bytes.get() / BLOCK as u64) as usize;
        let batch_most = BATCH_MOST
            .min(limit)
            .min(Journal::most(personality, &geometry));
        let records = ContentRecords::of(&superblock, &geometry);
        let journals_data = options.data == DataMode::Journal;
        let dirty_most = match journals_data {
            true => Some(dirty_most(
                &options,
                &superblock,
                records.as_ref(),
                batch_most,
            )?),
            false => None,
        };
        let pmem = pmem_of(&options, personality, &shape)?;
        let state = State {
            records,
            dirty_most,
            hash_seed: superblock.hash_seed(),
            blocks: Blocks::new(pages(options.metadata_cache).max(METADATA_LEAST)),
            space: FreeMap::new(geometry.files.clone(), 1),
            inodes: FreeMap::new(1..geometry.inodes + 1, hands),
            segments: None,
            // No earlier mount has given these, unless it has made 65,536 files.
            generation: superblock.mounts << 16,
            fresh: VecDeque::new(),
            reserved: 0,
            pending_free: 0,
            batch: Batch::first(matches!(personality, PmfsLike | NovaLike)),
            committed: BatchId(0),
            checkpoint: BTreeMap::new(),
            nodes: FxHashMap::default(),
            most_nodes: MANY_NODES,
            owners: personality.is_synchronous().then(FxHashMap::default),
            orphans: Vec::new(),
            clock: PageClock::new(pages(options.cache)),
            pmem,
            barriers: (0, 0),
            block_writes: BlockWrites::default(),
            failed: None,
            counters: Counters::default(),
            batch_most,
            writes_blocks: !personality.writes_bytes(),
            reads_ahead: options.reads_ahead.unwrap_or(personality.reads_ahead()),
            first_blocks: options
                .first_blocks
                .unwrap_or(personality.has_first_blocks()),
            keeps_blocks: options.shortcuts.keeps_metadata(),
            block_lines,
            superblock,
            geometry,
        };
        let journal = Journal::new(&state.superblock, &state.geometry);
        let journal = journal.ok_or_else(|| damaged("the superblock"))?;
        let mut fs = Self {
            is_synchronous: personality.is_synchronous(),
            caches_contents: options.page_cache,
            // Who writes whole blocks needs no zeroes below them.
            trims: options.trims || !personality.writes_bytes(),
            journals_data,
            orders_blocks: personality.needs_transactions()
                && shape.block_domain == PersistenceDomain::Flash,
            shape,
            costs: options.costs,
            is_read_only: !recovers,
            shortcuts: options.shortcuts,
            state: Mutex::new(state),
            journal: Mutex::new(Some(journal)),
            commit_gate: Gate::default(),
            order_gate: Gate::default(),
            progress: Bell::default(),
            fresh_gate: Gate::default(),
            cleaning_gate: Gate::default(),
            loading: Mutex::default(),
            device,
            clock,
        };
        fs.recover().await?;
        fs.is_read_only = options.read_only;
        Ok(fs)
    }

    async fn recover(&self) -> Result<(), MountError> {
        let superblock = self.state().superblock;
        let geometry = self.state().geometry.clone();
        if geometry.segments.is_some() {
            let loaded = segments::load(&self.device, &superblock, &geometry).await?;
            self.state().segments = Some(loaded.segments);
        }
        if !superblock.is_clean {
            let journal = self.journal().take();
            if let Some(mut journal) = journal {
                journal.replay(self).await?;
                *self.journal() = Some(journal);
            }
            self.replay_contents().await?;
        }
        let journal = self.journal().take();
        if let Some(mut journal) = journal {
            if !self.is_read_only {
                journal.open(self, &superblock).await?;
            }
            *self.journal() = Some(journal);
        }
        if let Some(kept) = self.shortcuts.free_metadata() {
            self.keep_table(kept).await?;
        }
        for area in [&geometry.block_bitmap, &geometry.inode_bitmap] {
            self.pin(area.clone()).await?;
        }
        if self.is_synchronous && !superblock.is_clean {
            self.rebuild_bitmaps(&superblock).await?;
        }
        self.load_bitmap(geometry.block_bitmap.clone(), 0..geometry.blocks, true)?;
        self.load_bitmap(geometry.inode_bitmap.clone(), 1..geometry.inodes + 1, false)?;
        self.pin(STATE_BLOCK.0..STATE_BLOCK.0 + 1).await?;
        if self.is_read_only {
            return Ok(());
        }
        if !superblock.is_clean {
            self.state().forget_unclaimed();
        }
        if superblock.is_clean {
            self.clear_window().await?;
        }
        {
            let mut state = self.state();
            state.superblock.is_clean = false;
            state.superblock.mounts = state.superblock.mounts.wrapping_add(1);
        }
        self.write_superblock().await?;
        self.purge_orphans().await.map_err(|error| match error {
            FsError::Io(what) => MountError::Device(what),
            other => MountError::Device(format!("files without a name cannot be removed: {other}")),
        })?;
        match superblock.is_clean {
            true => Ok(()),
            false => self.replay_window().await,
        }
    }

    pub(super) async fn write_superblock(&self) -> Result<(), MountError> {
        let block = self.state().superblock.encode();
        let copy = self.state().geometry.superblock_copy;
        for place in [BlockNo(0), copy] {
            let written = self
                .device
                .write_blocks(address(place), &block, Acknowledge::Durable);
            written.await?;
        }
        let mut state = self.state();
        let bytes = 2 * BLOCK as u64;
        state
            .counters
            .metadata_written(Structure::Superblock, bytes);
        Ok(())
    }

    /// Reads blocks of metadata that stay on the host.
    async fn pin(&self, blocks: Range<u32>) -> Result<(), MountError> {
        let mut next = blocks.start;
        let mut buffer = vec![0; READ.min((blocks.end - next) as usize * BLOCK)];
        while next < blocks.end {
            let count = (READ / BLOCK).min((blocks.end - next) as usize);
            let bytes = &mut buffer[..count * BLOCK];
            self.read_kept(BlockNo(next), bytes).await?;
            let mut state = self.state();
            let of = Structure::of(&state.geometry, BlockNo(next), None);
            state.counters.metadata_read(of, bytes.len() as u64);
            for (block, data) in (next..).zip(bytes.chunks_exact(BLOCK)) {
                let mut copy = Box::new([0; BLOCK]);
                copy.copy_from_slice(data);
                state.blocks.insert(BlockNo(block), copy, true, 0);
            }
            next += count as u32;
        }
        Ok(())
    }

    /// Has the table of inodes on the host, of which no block is made anew when it is used.
    async fn keep_table(&self, kept: &HostBlocks) -> Result<(), MountError> {
        let table = self.state().geometry.inode_table.clone();
        let mut bytes = vec![0; table.len() * BLOCK];
        self.read_numbers(BlockNo(table.start), &mut bytes).await?;
        kept.overlay(BlockNo(table.start), &mut bytes);
        kept.write(BlockNo(table.start), &bytes);
        Ok(())
    }

    /// Makes the host's bitmaps anew from what is in use: those of the device are of the last
    /// unmount.
    async fn rebuild_bitmaps(&self, superblock: &Superblock) -> Result<(), MountError> {
        for (block, bytes) in check::bitmaps_in_use(&self.device, *superblock).await? {
            let mut state = self.state();
            if let Some(buffer) = state.blocks.get_mut(block) {
                buffer.data.copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    fn load_bitmap(
        &self,
        area: Range<u32>,
        numbers: Range<u32>,
        is_blocks: bool,
    ) -> Result<(), MountError> {
        let mut state = self.state();
        let State {
            blocks,
            space,
            inodes,
            ..
        } = &mut *state;
        let map = if is_blocks { space } else { inodes };
        for (index, block) in (0..).zip(area) {
            let Some(buffer) = blocks.get(BlockNo(block)) else {
                continue;
            };
            for (line, bytes) in (0..).zip(buffer.data.chunks_exact(LINE)) {
                if !layout::are_sealed_bits(bytes) {
                    let what = format!("line {line} of the bitmap in block {block}");
                    return Err(MountError::Damaged { what });
                }
                let first = index * BITS_PER_BLOCK + line * BITS_PER_LINE;
                if bytes.iter().all(|byte| *byte == 0) {
                    continue;
                }
                for bit in (0..BITS_PER_LINE).filter(|bit| layout::is_set(bytes, *bit)) {
                    if !numbers.contains(&(first + bit)) {
                        let what = format!("bit {} of the bitmap in block {block}", first + bit);
                        return Err(MountError::Damaged { what });
                    }
                    map.take(first + bit);
                }
            }
        }
        Ok(())
    }

    /// Removes what was unlinked while it was open, and is open no more.
    async fn purge_orphans(&self) -> Result<(), FsError> {
        let mut next = {
            let mut state = self.state();
            let line = state
                .blocks
                .get(STATE_BLOCK)
                .map(|buffer| buffer.data[..LINE].to_vec());
            match line.filter(|line| is_sealed(line)) {
                Some(line) => Ino(get_u32(&line, 0)),
                None => {
                    return Err(FsError::Io(
                        "the list of files without a name is damaged; run `entresol fsck --repair`"
                            .into(),
                    ));
                }
            }
        };
        let mut found = Vec::new();
        while next != Ino::NONE {
            if found.contains(&next) {
                return Err(FsError::Io(
                    "the list of files without a name runs in a circle; run `entresol fsck \
                     --repair`"
                        .into(),
                ));
            }
            found.push(next);
            next = self.run(|tx| tx.inode(next)).await?.next_orphan;
        }
        self.state().orphans.clone_from(&found);
        for ino in found {
            self.purge(ino).await?;
        }
        self.commit().await
    }

    /// Removes files without a name whoever has them open: nobody can read them behind an unmount.
    async fn purge_open(&self) -> Result<(), FsError> {
        let orphans = self.state().orphans.clone();
        for ino in orphans {
            if let Some(node) = self.state().nodes.get_mut(&ino) {
                node.opens = 0;
            }
            self.purge_rest(Some(ino)).await?;
        }
        Ok(())
    }

    /// Writes everything, brings it to flash and marks the file system as whole. Nothing may be
    /// asked of it afterwards.
    ///
    /// # Errors
    /// The device fails.
    pub async fn unmount(&self) -> Result<(), FsError> {
        if self.is_read_only {
            return Ok(());
        }
        self.purge_open().await?;
        self.sync().await?;
        self.close_journal().await?;
        self.leave_pmem_for_good().await?;
        self.state().superblock.is_clean = true;
        let failed = |error: MountError| FsError::Io(error.to_string());
        self.write_superblock().await.map_err(failed)?;
        self.device.drain().await?;
        self.device.flush().await?;
        Ok(())
    }
}

impl State {
    /// Blocks of files that have a place and are nobody's have none any more: they were written
    /// before a power cut, and what says whose they are was not. The next record says so: behind
    /// another power cut nobody may read there what was written before the first.
    fn forget_unclaimed(&mut self) {
        let files = self.geometry.files.clone();
        let Some(segments) = &mut self.segments else {
            return;
        };
        for number in segments.placed(files) {
            if !self.space.is_taken(number) {
                segments.note_unset(number);
            }
        }
    }
}
