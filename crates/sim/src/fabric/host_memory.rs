//! Host DRAM: each node has its own, and a page lies in that of one node.

use crate::config::{Config, MemoryKind, Migration};
use dram::{Access, Dram, DramLine, DramStats, HostDramConfig};
use host::placement::HostPage;
use host::{HostLine, NodeId, Region};
use units::{LineInPage, PageSize, Time};

/// Which node a page for data is on. Code and page tables are interleaved always.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// Page after page on the next node: the pages of DRAM-Only, which nobody moves.
    Interleaved,
    /// So many neighbouring pages on each node: those for promoted pages.
    Split(u32),
    /// All on this node: the page cache, which is beside the device.
    On(NodeId),
}

/// Where the program has what host DRAM holds, in lines from address 0 on.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// First line of each page of the run.
    pub pages: Vec<u64>,
    /// Each line of code of the run.
    pub code: Vec<u64>,
}

/// The host DRAM of all nodes.
#[derive(Clone, Debug)]
pub struct HostMemory {
    drams: Vec<Dram>,
    layout: Layout,
    /// Nothing where memory is filled page after page (`host_dram.mapping = lines`).
    addresses: Addresses,
}

impl HostMemory {
    /// That of the machine, its channels split over the nodes.
    pub fn new(config: &Config) -> Self {
        let nodes = config.numa.nodes;
        let of_node = HostDramConfig {
            channels: config.host_dram.channels / nodes,
            ..config.host_dram.clone()
        };
        let layout = match (config.design.memory, config.design.migration) {
            (MemoryKind::Dram, _) => Layout::Interleaved,
            (MemoryKind::Ssd, Migration::HostCache) => Layout::On(NodeId::new(config.numa.home)),
            (MemoryKind::Ssd, _) => {
                Layout::Split(config.host.host_page_count(config.ftl.mapping_unit) / nodes)
            }
        };
        Self {
            drams: vec![Dram::new(&of_node.spec()); nodes as usize],
            layout,
            addresses: Addresses::default(),
        }
    }

    /// From now on lines are where the program has them. Promoted pages are not: they have moved.
    pub fn place_at(&mut self, addresses: Addresses) {
        let pages = match self.layout {
            Layout::Interleaved => addresses.pages,
            Layout::Split(_) | Layout::On(_) => Vec::new(),
        };
        self.addresses = Addresses {
            pages,
            code: addresses.code,
        };
    }

    /// The node that a page is on.
    #[inline]
    pub fn node_of(&self, page: HostPage) -> NodeId {
        self.place_of(page).0
    }

    /// The node that a line of code or of a page table is on.
    #[inline]
    pub fn node_of_line(&self, line: HostLine) -> NodeId {
        self.interleaved(line.get()).0
    }

    /// Reads or writes a line of a page; says when it is done at the page's node.
    #[inline]
    pub fn page(&mut self, at: Time, page: HostPage, line: LineInPage, access: Access) -> Time {
        let (node, first) = self.place_of(page);
        self.drams[node.index()].access(at, first.offset(u64::from(line.get())), access)
    }

    /// Reads or writes all lines of a page; says when the last is done.
    pub fn whole_page(&mut self, at: Time, page: HostPage, access: Access) -> Time {
        let (node, first) = self.place_of(page);
        self.drams[node.index()].bulk(at, first, LINES, access)
    }

    /// Reads or writes a line of code or of a page table; says when it is done at its node.
    #[inline]
    pub fn line(&mut self, at: Time, line: HostLine, access: Access) -> Time {
        let (node, place) = self.interleaved(line.get());
        let address = match line.region() {
            Region::Code(number) => self.addresses.code.get(number as usize).copied(),
            Region::Data(..) | Region::PageTable(_) => None,
        };
        let place = address.map_or(place, DramLine::new);
        self.drams[node.index()].access(at, place, access)
    }

    /// What all nodes' DRAM did so far.
    pub fn stats(&self) -> DramStats {
        let mut sum = DramStats::default();
        for dram in &self.drams {
            sum.add(dram.stats());
        }
        sum
    }

    /// Checks each node's DRAM (B6).
    pub fn audit(&self) {
        self.drams.iter().for_each(Dram::audit);
    }

    /// Node and first line of a page.
    #[inline]
    fn place_of(&self, page: HostPage) -> (NodeId, DramLine) {
        let page = page.get();
        let address = self.addresses.pages.get(page as usize).copied();
        let (node, page) = match self.layout {
            _ if self.drams.len() == 1 => (0, page),
            Layout::Interleaved => (page % self.count(), page / self.count()),
            Layout::Split(pages) => (page / pages, page % pages),
            Layout::On(node) => (node.get(), page),
        };
        let first = address.unwrap_or(u64::from(page) * LINES);
        (NodeId::new(node), DramLine::new(first))
    }

    /// Node and line of a line of the interleaved pages. Code and page tables lie above every data
    /// page: the line's name is its address.
    #[inline]
    fn interleaved(&self, line: u32) -> (NodeId, DramLine) {
        if self.drams.len() == 1 {
            return (NodeId::new(0), DramLine::new(u64::from(line)));
        }
        let (page, in_page) = (u64::from(line) / LINES, u64::from(line) % LINES);
        let count = u64::from(self.count());
        let line = DramLine::new(page / count * LINES + in_page);
        (NodeId::new((page % count) as u32), line)
    }

    fn count(&self) -> u32 {
        self.drams.len() as u32
    }
}

/// Lines of a page of the host.
const LINES: u64 = PageSize::KIB_4.line_count() as u64;
