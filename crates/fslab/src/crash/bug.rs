//! Bugs of file systems, planted between one and its device.
//!
//! Each makes of a sound file system one that has forgotten, reordered or torn apart something: the
//! lab must find every one. What cannot be seen in requests is planted in the text of the file
//! system instead (`scripts/planted-bugs`).

use bytefs::layout::{Geometry, STATE_BLOCK, Superblock};
use port::{Command, Conflict, DeviceError, DeviceStats, Engine, Finished, Outcome, Shape, Ticket};
use std::collections::BTreeMap;
use std::ops::Range;
use units::{ByteAddr, Bytes, Time, TxId};

const BLOCK: u64 = 4096;
const LINE: u64 = 64;

/// A part of a file system on its device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Region {
    /// Which blocks are in use.
    BlockBitmap,
    /// Which inodes are in use.
    InodeBitmap,
    /// Inodes.
    Inodes,
    /// The list of files that were unlinked while they were open.
    Orphans,
    /// Directories, attributes, targets of links, extents, and lines of files.
    Files,
    /// The line that closes a record of contents.
    Journal,
}

impl Region {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::BlockBitmap,
        Self::InodeBitmap,
        Self::Inodes,
        Self::Orphans,
        Self::Files,
        Self::Journal,
    ];

    fn blocks(self, geometry: &Geometry) -> Range<u32> {
        match self {
            Self::BlockBitmap => geometry.block_bitmap.clone(),
            Self::InodeBitmap => geometry.inode_bitmap.clone(),
            Self::Inodes => geometry.inode_table.clone(),
            Self::Orphans => STATE_BLOCK.0..STATE_BLOCK.0 + 1,
            Self::Files => geometry.files.clone(),
            Self::Journal => geometry.journal.clone(),
        }
    }
}

/// A bug.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Bug {
    /// Transactions are aborted, and nobody is told.
    CommitForgotten,
    /// A transaction is committed when the next one begins.
    CommitLate,
    /// What belongs to a transaction is written under none.
    NoTransactions,
    /// Every other write of a transaction goes with a second one, committed behind the first.
    TwoTransactions,
    /// The same, and the second one is committed first.
    TwoTransactionsBackwards,
    /// The first write of a transaction is left out.
    FirstWriteForgotten,
    /// The last part of a transaction's last write so far is left out, if it has more than a line.
    TailForgotten,
    /// Writes of transactions to this region are left out.
    Forgotten(Region),
    /// Writes of transactions to this region are posted under none, before the commit.
    Early(Region),
    /// Writes of transactions to this region are posted under none, behind the commit.
    Late(Region),
    /// Half of an inode that changes seldom is posted before the other.
    HalfAnInodeEarly,
    /// Bytes of files that go by blocks are written behind the next commit.
    DataLate,
    /// Bytes of files that go by blocks are not written.
    DataForgotten,
    /// Blocks are not made zero before lines of them are written.
    NoZeroes,
    /// Nobody waits for stores that were posted.
    PersistForgotten,
    /// Contents that overwrite others are not written to their journal.
    RecordForgotten,
    /// Contents that overwrite others are in their places before the commit.
    ContentsEarly,
}

impl Bug {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let mut all = vec![
            Self::CommitForgotten,
            Self::CommitLate,
            Self::NoTransactions,
            Self::TwoTransactions,
            Self::TwoTransactionsBackwards,
            Self::FirstWriteForgotten,
            Self::TailForgotten,
            Self::HalfAnInodeEarly,
            Self::DataLate,
            Self::DataForgotten,
            Self::NoZeroes,
            Self::PersistForgotten,
            Self::RecordForgotten,
            Self::ContentsEarly,
        ];
        all.extend(Region::ALL.map(Self::Forgotten));
        all.extend(Region::ALL.map(Self::Early));
        all.extend(Region::ALL.map(Self::Late));
        all
    }

    /// Whether it is one of data journaling, and nothing without.
    pub fn is_of_journaled_data(self) -> bool {
        match self {
            Self::RecordForgotten | Self::ContentsEarly => true,
            Self::Forgotten(region) | Self::Early(region) | Self::Late(region) => {
                region == Region::Journal
            }
            _ => false,
        }
    }
}

/// A write that comes later.
struct Kept {
    command: Command,
    at: ByteAddr,
    bytes: Vec<u8>,
}

/// A device whose file system has a bug.
pub struct Sabotaged<E> {
    engine: E,
    bug: Option<Bug>,
    geometry: Geometry,
    /// By number of a transaction: the second one that has half of its writes.
    halves: BTreeMap<u32, TxId>,
    /// By number of a transaction: how many writes it has.
    writes: BTreeMap<u32, u32>,
    /// Closed by the file system and not committed.
    uncommitted: Option<TxId>,
    kept: Vec<Kept>,
}

impl<E: Engine> Sabotaged<E> {
    /// With this bug, in a file system that begins with this block.
    ///
    /// # Panics
    /// If it is no superblock.
    pub fn new(engine: E, bug: Option<Bug>, superblock: &[u8]) -> Self {
        let superblock = Superblock::decode(superblock).expect("a file system was made");
        Self {
            engine,
            bug,
            geometry: superblock
                .geometry()
                .expect("a superblock that fits was decoded"),
            halves: BTreeMap::new(),
            writes: BTreeMap::new(),
            uncommitted: None,
            kept: Vec::new(),
        }
    }

    fn is_in(&self, region: Region, at: ByteAddr) -> bool {
        let block = u32::try_from(at.get() / BLOCK).unwrap_or(u32::MAX);
        region.blocks(&self.geometry).contains(&block)
    }

    /// A request that promises nothing, in the place of one that is left out.
    fn nothing(&mut self, at: Time) -> Result<Ticket, DeviceError> {
        self.ask(at, Command::Drain, (ByteAddr::new(0), Bytes::ZERO), &[])
    }

    fn ask(
        &mut self,
        at: Time,
        command: Command,
        range: (ByteAddr, Bytes),
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        self.engine
            .submit(at, command, range, Conflict::Wait, bytes)
    }

    /// Asks and waits for nothing.
    fn tell(&mut self, at: Time, command: Command, range: (ByteAddr, Bytes), bytes: &[u8]) {
        if let Ok(ticket) = self.ask(at, command, range, bytes) {
            self.engine.abandon(ticket);
        }
    }

    fn alone(&mut self, at: Time, command: Command) -> Result<Ticket, DeviceError> {
        self.ask(at, command, (ByteAddr::new(0), Bytes::ZERO), &[])
    }

    fn tell_alone(&mut self, at: Time, command: Command) {
        self.tell(at, command, (ByteAddr::new(0), Bytes::ZERO), &[]);
    }

    /// Commits what should have been committed, and writes what should have been written.
    fn make_up(&mut self, at: Time) {
        if let Some(tx) = self.uncommitted.take() {
            self.tell_alone(at, Command::Commit(tx));
        }
        for kept in std::mem::take(&mut self.kept) {
            let range = (kept.at, Bytes::new(kept.bytes.len() as u64));
            self.tell(at, kept.command, range, &kept.bytes);
        }
    }

    /// Writes blocks of a record to where they go.
    fn put_early(&mut self, at: Time, command: Command, record: &[u8]) {
        let (numbers, blocks) = record.split_at(BLOCK as usize);
        let blocks = blocks.chunks_exact(BLOCK as usize);
        for (number, block) in numbers.chunks_exact(4).zip(blocks) {
            let number = number.iter().rev();
            let number = number.fold(0, |number, byte| number << 8 | u64::from(*byte));
            let place = (ByteAddr::new(number * BLOCK), Bytes::new(BLOCK));
            self.tell(at, command, place, block);
        }
    }

    fn keep(&mut self, command: Command, at: ByteAddr, bytes: &[u8]) {
        let bytes = bytes.to_vec();
        self.kept.push(Kept { command, at, bytes });
    }

    /// A write of a transaction.
    fn write(
        &mut self,
        now: Time,
        tx: TxId,
        range: (ByteAddr, Bytes),
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        let plain = Command::Write(TxId::NONE);
        let writes = self.writes.entry(tx.get()).or_default();
        *writes += 1;
        let writes = *writes;
        let at = range.0;
        match self.bug {
            Some(Bug::NoTransactions) => self.ask(now, plain, range, bytes),
            Some(Bug::TwoTransactions | Bug::TwoTransactionsBackwards)
                if writes.is_multiple_of(2) =>
            {
                let half = match self.halves.get(&tx.get()) {
                    Some(half) => *half,
                    None => self.engine.begin(true)?,
                };
                self.halves.insert(tx.get(), half);
                self.ask(now, Command::Write(half), range, bytes)
            }
            Some(Bug::FirstWriteForgotten) if writes == 1 => self.nothing(now),
            Some(Bug::TailForgotten) if bytes.len() as u64 > LINE => {
                let less = &bytes[..bytes.len() - LINE as usize];
                let range = (at, Bytes::new(less.len() as u64));
                self.ask(now, Command::Write(tx), range, less)
            }
            Some(Bug::Forgotten(region)) if self.is_in(region, at) => self.nothing(now),
            Some(Bug::Early(region)) if self.is_in(region, at) => {
                self.ask(now, plain, range, bytes)
            }
            Some(Bug::Late(region)) if self.is_in(region, at) => {
                self.keep(plain, at, bytes);
                self.nothing(now)
            }
            Some(Bug::HalfAnInodeEarly) if self.is_in(Region::Inodes, at) => {
                self.write_halves(now, tx, range, bytes)
            }
            _ => self.ask(now, Command::Write(tx), range, bytes),
        }
    }

    /// Of lines of inodes the second halves go first, under no transaction.
    fn write_halves(
        &mut self,
        now: Time,
        tx: TxId,
        (at, _): (ByteAddr, Bytes),
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        let mut last = None;
        for (index, line) in bytes.chunks(LINE as usize).enumerate() {
            let place = ByteAddr::new(at.get() + index as u64 * LINE);
            let is_second = place.get() / LINE % 2 == 1;
            let command = Command::Write(if is_second { TxId::NONE } else { tx });
            let ticket = self.ask(now, command, (place, Bytes::new(LINE)), line)?;
            if let Some(before) = last.replace(ticket) {
                self.engine.abandon(before);
            }
        }
        last.map_or_else(|| self.nothing(now), Ok)
    }

    fn commit(&mut self, now: Time, tx: TxId) -> Result<Ticket, DeviceError> {
        self.writes.remove(&tx.get());
        let half = self.halves.remove(&tx.get());
        match (self.bug, half) {
            (Some(Bug::CommitForgotten), _) => self.alone(now, Command::Abort(tx)),
            (Some(Bug::CommitLate), _) => {
                self.uncommitted = Some(tx);
                self.nothing(now)
            }
            (Some(Bug::TwoTransactionsBackwards), Some(half)) => {
                self.tell_alone(now, Command::Commit(half));
                self.alone(now, Command::Commit(tx))
            }
            (_, Some(half)) => {
                self.tell_alone(now, Command::Commit(tx));
                self.alone(now, Command::Commit(half))
            }
            _ => {
                let ticket = self.alone(now, Command::Commit(tx));
                self.make_up(now);
                ticket
            }
        }
    }
}

impl<E: Engine> Engine for Sabotaged<E> {
    fn shape(&self) -> Shape {
        self.engine.shape()
    }

    fn now(&self) -> Time {
        self.engine.now()
    }

    fn next_deadline(&mut self) -> Option<Time> {
        self.engine.next_deadline()
    }

    fn advance(&mut self, to: Time, finished: &mut Vec<Finished>) {
        self.engine.advance(to, finished);
    }

    fn submit(
        &mut self,
        at: Time,
        command: Command,
        range: (ByteAddr, Bytes),
        conflict: Conflict,
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        match (command, self.bug) {
            (_, None) => self.engine.submit(at, command, range, conflict, bytes),
            (Command::Write(tx), _) if command.transaction().is_some() => {
                self.write(at, tx, range, bytes)
            }
            (Command::Commit(tx), _) => self.commit(at, tx),
            (Command::Write(_), Some(Bug::CommitLate)) => {
                self.make_up(at);
                self.ask(at, command, range, bytes)
            }
            (Command::WriteBlocks(_), Some(Bug::DataForgotten))
                if self.is_in(Region::Files, range.0) =>
            {
                self.nothing(at)
            }
            (Command::WriteBlocks(_), Some(Bug::DataLate))
                if self.is_in(Region::Files, range.0) =>
            {
                self.keep(command, range.0, bytes);
                self.nothing(at)
            }
            (Command::WriteBlocks(_), Some(Bug::RecordForgotten))
                if self.is_in(Region::Journal, range.0) =>
            {
                self.nothing(at)
            }
            (Command::WriteBlocks(_), Some(Bug::ContentsEarly))
                if self.is_in(Region::Journal, range.0) =>
            {
                self.put_early(at, command, bytes);
                self.ask(at, command, range, bytes)
            }
            // The whole device is trimmed when a file system is made.
            (Command::Trim, Some(Bug::NoZeroes)) => self.nothing(at),
            (Command::Persist, Some(Bug::PersistForgotten)) => self.nothing(at),
            _ => self.engine.submit(at, command, range, conflict, bytes),
        }
    }

    fn take(&mut self, ticket: Ticket, into: &mut [u8]) -> Option<Outcome> {
        self.engine.take(ticket, into)
    }

    fn abandon(&mut self, ticket: Ticket) {
        self.engine.abandon(ticket);
    }

    fn begin(&mut self, may_split: bool) -> Result<TxId, DeviceError> {
        let now = self.engine.now();
        if self.bug == Some(Bug::CommitLate) {
            self.make_up(now);
        }
        self.engine.begin(may_split)
    }

    fn stats(&self) -> DeviceStats {
        self.engine.stats()
    }
}
