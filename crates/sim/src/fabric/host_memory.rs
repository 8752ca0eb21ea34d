//! Host DRAM: each node has its own, and a page lies in that of one node.

use crate::config::{Config, MemoryKind, Migration};
use dram::{Access, Dram, DramLine, DramStats, HostDramConfig};
use host::placement::HostPage;
use host::{HostLine, NodeId};
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

/// The host DRAM of all nodes.
#[derive(Clone, Debug)]
pub struct HostMemory {
    drams: Vec<Dram>,
    layout: Layout,
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
                Layout::Split(config.host.host_page_count(config.nand.page_size) / nodes)
            }
        };
        Self {
            drams: vec![Dram::new(&of_node.spec()); nodes as usize],
            layout,
        }
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
        let (node, line) = self.interleaved(line.get());
        self.drams[node.index()].access(at, line, access)
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
        let (node, page) = match self.layout {
            _ if self.drams.len() == 1 => (0, page),
            Layout::Interleaved => (page % self.count(), page / self.count()),
            Layout::Split(pages) => (page / pages, page % pages),
            Layout::On(node) => (node.get(), page),
        };
        (NodeId::new(node), DramLine::new(u64::from(page) * LINES))
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
