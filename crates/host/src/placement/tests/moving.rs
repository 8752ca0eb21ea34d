//! Moves between nodes, in the model of bytes.

use super::bytes::Model;
use crate::numa::NodeId;
use units::Lpa;

impl Model {
    /// The operating system copies the page at once: a write that came later would be lost.
    pub(super) fn begin_move(&mut self, lpa: Lpa, node: u32) {
        if let Some(to) = self.placement.begin_move(lpa, NodeId::new(node)) {
            let (from, _) = self.placement.moving(lpa).expect("it has begun");
            self.host[to.index()] = self.host[from.index()];
        }
    }

    pub(super) fn end_move(&mut self, lpa: Lpa) {
        if self.placement.moving(lpa).is_some() {
            self.placement.finish_move(lpa);
        }
    }
}
