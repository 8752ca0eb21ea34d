//! Dense random graphs: every node has the same number of successors, drawn independently.

use crate::memory::{Zeroed, zeroed};
use crate::random::hash;
use crate::team;
use crate::{Failure, Setting};

/// How the successors of all nodes are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Each node is as likely as any other.
    Even,
    /// Nodes are numbered by popularity: the first share x of them draws a share √x of all edges.
    Skewed,
}

/// A directed graph.
pub struct Graph {
    nodes: usize,
    degree: usize,
    successors: Box<[u32]>,
}

impl Graph {
    /// The largest graph whose edges and `per_node` bytes for each node fit the footprint, with a
    /// degree such that degree³ is `density` times the number of nodes, in hundredths: that says
    /// how much of the graph three steps reach.
    ///
    /// # Errors
    /// When that leaves no graph, or one too large to number, or memory is refused.
    pub fn fitting(
        setting: &Setting,
        per_node: u64,
        density: u64,
        spread: Spread,
        key: u64,
    ) -> Result<Self, Failure> {
        let nodes = |degree: u64| setting.footprint.get() / (4 * degree + per_node);
        let reaches = |degree: &u64| 100 * degree.pow(3) >= density * nodes(*degree);
        let degree = (2..=1 << 12).find(reaches).unwrap_or(1 << 12);
        let nodes = nodes(degree);
        if nodes < 1000 || u32::try_from(nodes).is_err() {
            return Err(Failure::refused(format!(
                "--footprint {}: makes a graph of {nodes} nodes; it takes 1,000 to 4 billion.",
                setting.footprint
            )));
        }
        let (nodes, degree) = (nodes as usize, degree as usize);
        let mut successors: Box<[u32]> = zeroed(nodes * degree)?;
        team::fill_rows(&mut successors, degree, |node, row| {
            draw(hash(key, node as u64), nodes as u64, spread, row);
        });
        Ok(Self {
            nodes,
            degree,
            successors,
        })
    }
    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }
    /// Successors of each node.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.degree
    }
    /// The successors of a node; with repetitions, if they were drawn so.
    #[inline]
    #[must_use]
    pub fn successors(&self, node: usize) -> &[u32] {
        &self.successors[node * self.degree..][..self.degree]
    }
}

/// Draws a row of node numbers.
fn draw(key: u64, nodes: u64, spread: Spread, row: &mut [u32]) {
    for (index, pair) in row.chunks_mut(2).enumerate() {
        let bits = hash(key, index as u64);
        for (bits, successor) in [bits >> 32, bits & 0xffff_ffff].into_iter().zip(pair) {
            let place = match spread {
                Spread::Even => bits,
                Spread::Skewed => (bits * bits) >> 32,
            };
            *successor = ((place * nodes) >> 32) as u32;
        }
    }
}

/// Something for each node, all zero.
///
/// # Errors
/// When memory is refused.
pub fn per_node<T: Zeroed>(graph: &Graph) -> Result<Box<[T]>, Failure> {
    zeroed(graph.nodes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Threads, Work};
    use units::Bytes;

    fn graph(spread: Spread) -> Graph {
        let setting = Setting {
            footprint: Bytes::from_mib(2),
            threads: Threads::new(2).unwrap(),
            seed: 1,
            work: Work::new(1),
            spoil: false,
        };
        Graph::fitting(&setting, 16, 200, spread, 7).unwrap()
    }

    #[test]
    fn a_graph_fits_its_footprint_and_has_its_density() {
        let graph = graph(Spread::Even);
        let size = graph.nodes() * (4 * graph.degree() + 16);
        assert!((2_000_000..=2 << 20).contains(&size), "{size}");
        let reached = graph.degree().pow(3) as f64 / graph.nodes() as f64;
        assert!((2.0..2.6).contains(&reached), "{reached}");
    }

    #[test]
    fn successors_are_spread_as_asked() {
        for (spread, share) in [(Spread::Even, 0.25), (Spread::Skewed, 0.5)] {
            let graph = graph(spread);
            let quarter = graph.nodes() as u32 / 4;
            let low = graph
                .successors
                .iter()
                .filter(|node| **node < quarter)
                .count();
            let found = low as f64 / graph.successors.len() as f64;
            assert!((found - share).abs() < 0.01, "{spread:?}: {found}");
            assert!(
                graph
                    .successors
                    .iter()
                    .all(|node| (*node as usize) < graph.nodes())
            );
        }
    }
}
