//! Ways between nodes: who asks, and what is asked for, may be on different ones (SkyByte §IV).

use super::Fabric;
use crate::request::MissRef;
use dram::Access;
use host::placement::HostPage;
use host::{Hop, NodeId};
use units::{CoreId, LineInPage, PageSize, Picos, Time};

impl Fabric {
    /// What a miss adds whose line is on a node: the one who waits first asks.
    #[inline]
    pub(super) fn hop_of(&self, miss: MissRef, to: NodeId) -> Hop {
        if self.nodes.is_one() {
            return Hop::NONE;
        }
        let first = self.llc.waiters(miss.slot).next();
        self.hop_from(first.map(|waiter| waiter.core), to)
    }

    /// What a request to the device adds that a core sends, if one does: L3 is everybody's, so what
    /// leaves it by itself comes from no node.
    #[inline]
    pub(crate) fn hop_home(&self, source: Option<CoreId>) -> Hop {
        self.hop_from(source, self.nodes.home())
    }

    /// One way between a page of host DRAM and the device's node.
    pub(crate) fn way_home(&self, page: HostPage) -> Picos {
        let node = self.host_dram.node_of(page);
        self.nodes.hop(node, self.nodes.home()).back
    }

    /// Copies a page to the host DRAM of another node, line by line; says when all are there.
    pub(crate) fn copy_between_nodes(&mut self, now: Time, from: HostPage, to: HostPage) -> Time {
        let nodes = [from, to].map(|page| self.host_dram.node_of(page));
        let way = self.nodes.hop(nodes[0], nodes[1]).back;
        let mut done = now;
        for line in (0..PageSize::KIB_4.line_count()).map(LineInPage::new) {
            let read = self.host_dram.page(now, from, line, Access::Read);
            let written = self.host_dram.page(read + way, to, line, Access::Write);
            done = done.max(written);
        }
        done
    }

    /// What an access adds of a core, if one asks, to a node.
    #[inline]
    pub(super) fn hop_from(&self, source: Option<CoreId>, to: NodeId) -> Hop {
        match source {
            Some(core) if !self.nodes.is_one() => self.nodes.hop(self.nodes.of_core(core), to),
            _ => Hop::NONE,
        }
    }
}
