//! Betweenness centrality by Brandes's algorithm: from each source, count the shortest paths to
//! every node level by level, then add up, from the farthest level back, the share of them that
//! each node lies on. Paths of up to [`REACH`] edges count (bounded-distance betweenness).
//!
//! The region of interest is a section of the last source's search around its turning point: the
//! end of the counting and the beginning of the adding up. Threads race to reach a node, and
//! whoever comes first writes what all would; path counts are integers, and a node's own sum is
//! made by one thread in the order of its successors. So the result is exactly the serial one.

use crate::graph::{Graph, Spread, per_node};
use crate::{Checked, Digest, Failure, Member, Program, Setting, Workload, program, random, team};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use units::Bytes;

/// What stands in the list.
pub const PROGRAM: Program = Program {
    name: "bc",
    suite: "GAP",
    what: "betweenness centrality (Brandes) by paths of up to three edges from two sources",
    check: "every node's score is exactly that of a serial run",
    work_unit: "edges followed",
    footprint: Bytes::new(8_180_000_000),
    small_work: 3_200_000,
    paper_work: 6_500_000,
    run: program::execute::<Bc>,
};

/// Edges of the longest path that counts.
const REACH: usize = 3;
const SOURCES: usize = 2;
/// Degree³ by nodes, in hundredths.
const DENSITY: u64 = 200;
/// Of the region's edges, how many are followed forward, in hundredths.
const FORWARD: u64 = 40;
const UNSEEN: u32 = 0;

/// What is known of a node, by [`DEPTH`], [`PATHS`], [`SHARE`] and [`SCORE`].
type Node = [AtomicU32; 4];
/// 1 more than the distance from the source, or [`UNSEEN`].
const DEPTH: usize = 0;
/// Shortest paths from the source.
const PATHS: usize = 1;
/// Share of the source's shortest paths that the node lies on; bits of an `f32`.
const SHARE: usize = 2;
/// Sum of the shares over all sources; bits of an `f32`.
const SCORE: usize = 3;

/// The data of the computation.
pub struct Bc {
    graph: Graph,
    nodes: Box<[Node]>,
    sources: [u32; SOURCES],
    /// Nodes at each distance from the last source.
    levels: Vec<Vec<u32>>,
    /// Nodes of the last level that the region follows forward and back.
    forward: Range<usize>,
    backward: Range<usize>,
}

impl Workload for Bc {
    fn prepare(setting: &Setting) -> Result<Self, Failure> {
        let key = random::key(setting.seed, "bc edges");
        let per = size_of::<Node>() as u64;
        let graph = Graph::fitting(setting, per, DENSITY, Spread::Skewed, key)?;
        let mut bc = Self {
            nodes: per_node(&graph)?,
            sources: sources(&graph, setting.seed),
            levels: Vec::new(),
            forward: 0..0,
            backward: 0..0,
            graph,
        };
        for source in &bc.sources[..SOURCES - 1] {
            let levels = bc.search(*source);
            bc.follow(&levels, 0);
            for (level, nodes) in levels.iter().enumerate().rev() {
                team::in_parts(nodes.len(), |part| bc.add_up(&nodes[part], level));
            }
            bc.forget();
        }
        bc.levels = bc.search(bc.sources[SOURCES - 1]);
        bc.sections(setting)?;
        let before = &bc.levels[REACH - 1][..bc.forward.start];
        team::in_parts(before.len(), |part| {
            bc.count(&before[part], REACH - 1, &mut |_| {})
        });
        Ok(bc)
    }

    fn region(&self, member: &Member<'_>) {
        let last = &self.levels[REACH - 1];
        let own = |section: &Range<usize>| {
            let part = member.part(section.len());
            &last[section.start + part.start..section.start + part.end]
        };
        self.count(own(&self.forward), REACH - 1, &mut |_| {});
        member.barrier();
        self.add_up(own(&self.backward), REACH - 1);
    }

    fn spoil(&mut self) {
        let node = self.levels[REACH - 1][self.backward.start] as usize;
        let score = self.nodes[node][SCORE].get_mut();
        *score = (f32::from_bits(*score) + 1.0).to_bits();
    }

    fn check(self, setting: &Setting) -> Result<Checked, Failure> {
        for (level, nodes) in self.levels.iter().enumerate().rev() {
            let done = if level == REACH - 1 {
                self.backward.end
            } else {
                0
            };
            team::in_parts(nodes.len() - done, |part| {
                self.add_up(&nodes[done + part.start..done + part.end], level);
            });
        }
        let serial = self.serial();
        for (node, (right, found)) in serial.iter().zip(&self.nodes).enumerate() {
            let found = f32::from_bits(found[SCORE].load(Relaxed));
            if found.to_bits() != right.to_bits() {
                return Err(Failure::wrong(format!(
                    "node {node} has score {found}; a serial run says {right}."
                )));
            }
        }
        Ok(Checked {
            said: format!(
                "scores of {} nodes, {} edges each, {} followed in the region",
                self.graph.nodes(),
                self.graph.degree(),
                setting.work.get()
            ),
            digest: Digest::of(serial.iter().map(|score| u64::from(score.to_bits()))),
        })
    }
}

/// Different nodes, from the rarer half.
fn sources(graph: &Graph, seed: u64) -> [u32; SOURCES] {
    let key = random::key(seed, "bc sources");
    let half = graph.nodes() as u64 / 2;
    let each = half / SOURCES as u64;
    std::array::from_fn(|index| {
        let place = random::below(random::hash(key, index as u64), each);
        (half + index as u64 * each + place) as u32
    })
}

impl Bc {
    /// Finds the nodes at each distance below [`REACH`] from a source, in order, and counts the
    /// paths to them.
    fn search(&self, source: u32) -> Vec<Vec<u32>> {
        let node = &self.nodes[source as usize];
        node[DEPTH].store(1, Relaxed);
        node[PATHS].store(1, Relaxed);
        let mut levels = vec![vec![source]];
        for level in 0..REACH - 1 {
            let nodes = &levels[level];
            let part = |part: Range<usize>| {
                let mut reached = Vec::new();
                self.count(&nodes[part], level, &mut |node| reached.push(node));
                reached
            };
            let mut next = team::combine(nodes.len(), part, |a, b| [a, b].concat());
            next.sort_unstable();
            levels.push(next);
        }
        levels
    }

    /// Counts the paths from the last level on, beginning at its node `from`.
    fn follow(&self, levels: &[Vec<u32>], from: usize) {
        let last = &levels[REACH - 1][from..];
        team::in_parts(last.len(), |part| {
            self.count(&last[part], REACH - 1, &mut |_| {})
        });
    }

    /// Hands the path counts of nodes at distance `level` on to their successors one farther;
    /// `reached` is told of each that nobody reached before.
    #[inline]
    fn count(&self, nodes: &[u32], level: usize, reached: &mut impl FnMut(u32)) {
        let depth = level as u32 + 2;
        for node in nodes {
            let paths = self.nodes[*node as usize][PATHS].load(Relaxed);
            for successor in self.graph.successors(*node as usize) {
                let there = &self.nodes[*successor as usize];
                let mut seen = there[DEPTH].load(Relaxed);
                if seen == UNSEEN {
                    let first = there[DEPTH].compare_exchange(UNSEEN, depth, Relaxed, Relaxed);
                    if first.is_ok() {
                        reached(*successor);
                    }
                    seen = first.map_or_else(|other| other, |_| depth);
                }
                if seen == depth {
                    there[PATHS].fetch_add(paths, Relaxed);
                }
            }
        }
    }

    /// Adds up, for nodes at distance `level`, the shares of their successors one farther.
    fn add_up(&self, nodes: &[u32], level: usize) {
        let depth = level as u32 + 2;
        for node in nodes {
            let own = &self.nodes[*node as usize];
            let paths = own[PATHS].load(Relaxed) as f32;
            let mut share = 0.0;
            for successor in self.graph.successors(*node as usize) {
                let there = &self.nodes[*successor as usize];
                if there[DEPTH].load(Relaxed) == depth {
                    let beyond = f32::from_bits(there[SHARE].load(Relaxed));
                    share += paths / there[PATHS].load(Relaxed) as f32 * (1.0 + beyond);
                }
            }
            own[SHARE].store(share.to_bits(), Relaxed);
            if level > 0 {
                let score = f32::from_bits(own[SCORE].load(Relaxed));
                own[SCORE].store((score + share).to_bits(), Relaxed);
            }
        }
    }

    /// Forgets all about the last source.
    fn forget(&self) {
        team::in_parts(self.nodes.len(), |part| {
            for node in &self.nodes[part] {
                for field in [DEPTH, PATHS, SHARE] {
                    node[field].store(0, Relaxed);
                }
            }
        });
    }

    fn sections(&mut self, setting: &Setting) -> Result<(), Failure> {
        let work = setting.work.get();
        let nodes = |edges: u64| (edges.div_ceil(self.graph.degree() as u64)).max(1) as usize;
        let forward = nodes(work * FORWARD / 100);
        let backward = nodes(work - work * FORWARD / 100);
        let there = self.levels[REACH - 1].len();
        if forward.max(backward) > there {
            return Err(Failure::refused(format!(
                "--work {work}: at {} the last level has {} edges to follow forward and back.",
                setting.footprint,
                there * self.graph.degree()
            )));
        }
        self.forward = there - forward..there;
        self.backward = 0..backward;
        Ok(())
    }

    /// Scores by a serial run.
    fn serial(&self) -> Vec<f32> {
        let mut score = vec![0.0; self.nodes.len()];
        for source in self.sources {
            let mut depth = vec![u32::MAX; self.nodes.len()];
            let mut paths = vec![0_u32; self.nodes.len()];
            let mut share = vec![0_f32; self.nodes.len()];
            (depth[source as usize], paths[source as usize]) = (0, 1);
            let mut queue = vec![source as usize];
            let mut next = 0;
            while let Some(&node) = queue.get(next) {
                next += 1;
                for successor in self.inner(node, depth[node]) {
                    let successor = *successor as usize;
                    if depth[successor] == u32::MAX {
                        depth[successor] = depth[node] + 1;
                        queue.push(successor);
                    }
                    if depth[successor] == depth[node] + 1 {
                        paths[successor] += paths[node];
                    }
                }
            }
            for &node in queue.iter().rev() {
                for successor in self.inner(node, depth[node]) {
                    let successor = *successor as usize;
                    if depth[successor] == depth[node] + 1 {
                        let part = paths[node] as f32 / paths[successor] as f32;
                        share[node] += part * (1.0 + share[successor]);
                    }
                }
                if node != source as usize {
                    score[node] += share[node];
                }
            }
        }
        score
    }

    /// The successors of a node that is near enough to its source to be followed.
    fn inner(&self, node: usize, depth: u32) -> &[u32] {
        let near = (depth as usize) < REACH;
        if near {
            self.graph.successors(node)
        } else {
            &[]
        }
    }
}
