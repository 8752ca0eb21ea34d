//! Breadth-first search of a dense random graph, level by level: each thread looks through its
//! nodes for those of the level, and marks what their successors find not yet visited.
//!
//! The region of interest is the beginning of the fourth level's expansion, where two fifths of all
//! successors are new. Threads race to mark a node, and all write the same: the result does not
//! depend on who comes first.

use crate::graph::{Graph, Spread, per_node};
use crate::{Checked, Digest, Failure, Member, Program, Setting, Workload, program, random};
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use units::Bytes;

/// What stands in the list.
pub const PROGRAM: Program = Program {
    name: "bfs-dense",
    suite: "Rodinia",
    what: "level-synchronous breadth-first search of a dense random graph",
    check: "every node's level is that of a serial search",
    work_unit: "edges followed",
    footprint: Bytes::new(9_130_000_000),
    small_work: 8_400_000,
    paper_work: 10_500_000,
    run: program::execute::<Bfs>,
};

/// Levels expanded before the region.
const BEFORE: u32 = 3;
/// Degree³ by nodes, in hundredths: e^-0.92 = 0.4 of the nodes are new to the region.
const DENSITY: u64 = 92;
/// Bytes of a node beside its edges.
const PER_NODE: u64 = 7;
const SOURCE: usize = 0;

/// The search's data.
pub struct Bfs {
    graph: Graph,
    /// Whether the node is of the level that is expanded.
    mask: Box<[AtomicU8]>,
    /// Whether it was found in this expansion.
    found: Box<[AtomicU8]>,
    visited: Box<[AtomicU8]>,
    /// Level of the visited and the found.
    cost: Box<[AtomicU32]>,
    /// Nodes among which the region expands those of the level.
    section: Range<usize>,
}

impl Workload for Bfs {
    fn prepare(setting: &Setting) -> Result<Self, Failure> {
        let key = random::key(setting.seed, "bfs edges");
        let graph = Graph::fitting(setting, PER_NODE, DENSITY, Spread::Even, key)?;
        let mut bfs = Self {
            mask: per_node(&graph)?,
            found: per_node(&graph)?,
            visited: per_node(&graph)?,
            cost: per_node(&graph)?,
            section: 0..0,
            graph,
        };
        bfs.mask[SOURCE].store(1, Relaxed);
        bfs.visited[SOURCE].store(1, Relaxed);
        for _ in 0..BEFORE {
            bfs.expand(0..bfs.graph.nodes());
            bfs.advance();
        }
        bfs.section = bfs.section_of(setting)?;
        Ok(bfs)
    }

    fn region(&self, member: &Member<'_>) {
        let part = member.part(self.section.len());
        self.expand(self.section.start + part.start..self.section.start + part.end);
    }

    fn spoil(&mut self) {
        let last = self
            .found
            .iter_mut()
            .map(AtomicU8::get_mut)
            .rposition(|found| *found != 0);
        *self.cost[last.expect("some node was found")].get_mut() += 1;
    }

    fn check(self, setting: &Setting) -> Result<Checked, Failure> {
        self.advance();
        let serial = self.serial();
        for (node, (level, cost)) in serial.iter().zip(&self.cost).enumerate() {
            let visited = self.visited[node].load(Relaxed) != 0;
            if visited != (*level != u32::MAX) || visited && cost.load(Relaxed) != *level {
                let found = if visited {
                    cost.load(Relaxed).to_string()
                } else {
                    "none".into()
                };
                let right = if *level == u32::MAX {
                    "none".into()
                } else {
                    level.to_string()
                };
                return Err(Failure::wrong(format!(
                    "node {node} has level {found}; a serial search says {right}."
                )));
            }
        }
        let reached = serial.iter().filter(|level| **level != u32::MAX).count();
        Ok(Checked {
            said: format!(
                "{reached} of {} nodes reached, {} edges each, {} followed in the region",
                self.graph.nodes(),
                self.graph.degree(),
                setting.work.get()
            ),
            digest: Digest::of(serial.iter().map(|level| u64::from(*level))),
        })
    }
}

impl Bfs {
    /// Marks the successors of the level's nodes among `nodes` that were not visited before.
    fn expand(&self, nodes: Range<usize>) {
        let count = self.graph.nodes();
        let (visited, cost) = (&self.visited[..count], &self.cost[..count]);
        let found = &self.found[..count];
        for node in nodes {
            if self.mask[node].load(Relaxed) == 0 {
                continue;
            }
            self.mask[node].store(0, Relaxed);
            for successor in self.graph.successors(node) {
                let successor = *successor as usize;
                if visited[successor].load(Relaxed) == 0 {
                    cost[successor].store(cost[node].load(Relaxed) + 1, Relaxed);
                    found[successor].store(1, Relaxed);
                }
            }
        }
    }

    /// What was found is visited, and the next level.
    fn advance(&self) {
        for (node, found) in self.found.iter().enumerate() {
            if found.load(Relaxed) != 0 {
                found.store(0, Relaxed);
                self.mask[node].store(1, Relaxed);
                self.visited[node].store(1, Relaxed);
            }
        }
    }

    /// The first nodes, with as many of the level that they have the work's edges.
    fn section_of(&self, setting: &Setting) -> Result<Range<usize>, Failure> {
        let wanted = setting.work.get().div_ceil(self.graph.degree() as u64);
        let mut level = (0..self.graph.nodes()).filter(|node| self.mask[*node].load(Relaxed) != 0);
        let last = level.nth((wanted.max(1) - 1) as usize);
        last.map(|last| 0..last + 1).ok_or_else(|| {
            let nodes = self
                .mask
                .iter()
                .filter(|mask| mask.load(Relaxed) != 0)
                .count();
            Failure::refused(format!(
                "--work {}: at {} the level has {} edges.",
                setting.work.get(),
                setting.footprint,
                nodes * self.graph.degree()
            ))
        })
    }

    /// Levels by a serial search with a queue, of the same levels and section; `u32::MAX`: not
    /// reached.
    fn serial(&self) -> Vec<u32> {
        let mut level = vec![u32::MAX; self.graph.nodes()];
        level[SOURCE] = 0;
        let mut queue = vec![SOURCE];
        let mut next = 0;
        while let Some(&node) = queue.get(next) {
            next += 1;
            let own = level[node];
            if own > BEFORE || own == BEFORE && !self.section.contains(&node) {
                continue;
            }
            for successor in self.graph.successors(node) {
                let successor = *successor as usize;
                if level[successor] == u32::MAX {
                    level[successor] = own + 1;
                    queue.push(successor);
                }
            }
        }
        level
    }
}
