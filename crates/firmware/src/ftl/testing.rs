//! A small flash under the FTL in tests: real bytes (one token per page), a FIFO per die, and any
//! order across dies.

use super::{EstimatorKind, FirstWrite, FlashTiming, FtlConfig, GcKind};
use crate::platform::{
    BufferId, Cell, NandCommand, NandOp, NandTag, PagePlace, Platform, Response, Timer, Unit,
};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use units::{
    Bytes, DieId, FlashGeometry, LineMask, Lpa, PageSize, Picos, Ppa, Ratio, Stream, Time,
};

/// Two channels of two dies, 16 blocks of 8 pages each.
pub const GEOMETRY: FlashGeometry = FlashGeometry {
    channel_count: 2,
    chips_per_channel: 2,
    dies_per_chip: 1,
    planes_per_die: 1,
    blocks_per_plane: 16,
    pages_per_block: 8,
    page_size: PageSize::KIB_4,
};

/// SkyByte Table II.
pub const TIMING: FlashTiming = FlashTiming {
    read: Picos::from_micros(3),
    program: Picos::from_micros(100),
    erase: Picos::from_micros(1000),
};

/// Incremental GC that runs almost all the time.
pub fn config() -> FtlConfig {
    FtlConfig {
        over_provisioning: Ratio::percent(40),
        fill: Ratio::percent(100),
        overwritten: Ratio::percent(100),
        placement: 0,
        first_write: FirstWrite::FirstDie,
        gc: GcKind::Incremental,
        gc_start_blocks: 3,
        gc_pages: 2,
        gc_foreground_pages: 4,
        gc_buffers: 3,
        gc_page_cost: Picos::from_nanos(500),
        gc_threshold: Ratio::percent(80),
        gc_bulk_blocks: 8,
        estimator: EstimatorKind::Channel,
    }
}

/// The bytes of a page, as far as tests care.
pub type Token = u64;

/// A flash that finishes operations when told to.
#[derive(Clone, Debug)]
pub struct Flash {
    geometry: FlashGeometry,
    /// What is programmed, by physical page; absent where erased.
    pages: BTreeMap<Ppa, (Lpa, Token)>,
    dies: Vec<VecDeque<(NandCommand, Token)>>,
    registers: BTreeMap<NandTag, Token>,
    buffers: BTreeMap<BufferId, Token>,
    /// Whether operations of one die may finish in any order too.
    reorders: bool,
    /// What a page reads as that was never written here; without it, such a read is an error.
    unwritten: Option<Token>,
}

impl Flash {
    /// An idle flash that holds `pages`.
    pub fn new(geometry: FlashGeometry, pages: BTreeMap<Ppa, (Lpa, Token)>) -> Self {
        let dies = vec![VecDeque::new(); geometry.die_count() as usize];
        let (registers, buffers) = (BTreeMap::new(), BTreeMap::new());
        Self {
            geometry,
            pages,
            dies,
            registers,
            buffers,
            reorders: false,
            unwritten: None,
        }
    }
    /// A flash too large to write down what it holds at the start.
    pub fn vast(geometry: FlashGeometry) -> Self {
        Self {
            unwritten: Some(0),
            ..Self::new(geometry, BTreeMap::new())
        }
    }
    /// A flash whose dies finish operations in any order.
    pub fn reordering(self) -> Self {
        Self {
            reorders: true,
            ..self
        }
    }
    /// Puts bytes in a buffer.
    pub fn fill(&mut self, buffer: BufferId, token: Token) {
        self.buffers.insert(buffer, token);
    }
    /// The bytes in a place.
    pub fn bytes(&self, place: PagePlace) -> Token {
        match place {
            PagePlace::Register(tag) => self.registers[&tag],
            PagePlace::Buffer(buffer) => self.buffers[&buffer],
            PagePlace::Zero => 0,
            PagePlace::Frame(_) | PagePlace::Host(_) => unreachable!("the FTL knows buffers only"),
        }
    }
    /// Finishes an operation of a random busy die: the oldest, unless dies reorder.
    pub fn finish_one(&mut self, stream: &mut Stream) -> Option<NandTag> {
        let busy: Vec<usize> = (0..self.dies.len())
            .filter(|die| !self.dies[*die].is_empty())
            .collect();
        let die = busy.get(stream.below(busy.len().max(1) as u64) as usize)?;
        let queue = &mut self.dies[*die];
        let nth = if self.reorders {
            stream.below(queue.len() as u64) as usize
        } else {
            0
        };
        let (command, token) = queue.remove(nth)?;
        match command.op {
            NandOp::Read { ppa } => {
                let token = self.pages.get(&ppa).map(|(_, token)| *token);
                let token = token.or(self.unwritten);
                let token = token.unwrap_or_else(|| panic!("{ppa} is read but erased"));
                self.registers.insert(command.tag, token);
            }
            NandOp::Program { ppa, lpa, .. } => {
                let before = self.pages.insert(ppa, (lpa, token));
                assert!(
                    before.is_none(),
                    "{ppa} is programmed twice without an erase"
                );
            }
            NandOp::Erase { block } => {
                for page in 0..self.geometry.pages_per_block {
                    self.pages.remove(&self.geometry.page_on(block, page));
                }
            }
        }
        Some(command.tag)
    }
    /// Operations queued on a die.
    pub fn queue(&self, die: DieId) -> impl Iterator<Item = &NandCommand> {
        self.dies[die.index()].iter().map(|(command, _)| command)
    }
}

impl Platform for Flash {
    fn charge(&mut self, at: Time, _: Unit, latency: Picos, _: Picos) -> Time {
        at + latency
    }
    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        assert_eq!(lines, LineMask::full(self.geometry.page_size));
        let PagePlace::Buffer(buffer) = to else {
            unreachable!("the FTL copies registers to buffers");
        };
        self.buffers.insert(buffer, self.bytes(from));
    }
    fn nand(&mut self, _: Time, command: NandCommand) {
        let (block, token) = match command.op {
            NandOp::Read { ppa } => (self.geometry.block_of(ppa), 0),
            NandOp::Program { ppa, from, .. } => (self.geometry.block_of(ppa), self.bytes(from)),
            NandOp::Erase { block } => (block, 0),
        };
        self.dies[self.geometry.die_of(block).index()].push_back((command, token));
    }
    fn dram(&mut self, _: Time, _: Bytes, _: Bytes, _: bool) -> Time {
        unreachable!("the FTL does not use device DRAM")
    }
    fn copy_line(&mut self, _: Cell, _: Cell) {
        unreachable!("the FTL copies pages")
    }
    fn respond(&mut self, _: Response) {
        unreachable!("the FTL does not answer the host")
    }
    fn request_promotion(&mut self, _: Time, _: Lpa) {
        unreachable!("the FTL does not promote")
    }
    fn wake_at(&mut self, _: Time, _: Timer) {
        unreachable!("the FTL sets no timers")
    }
}
