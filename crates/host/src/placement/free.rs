//! Pages of host DRAM that hold nothing, and which of them a page may take: any, or those of its
//! set.
//!
//! Of any it takes one of the node where it is wanted, first of all the device's, and if that has
//! none, of the node with the most (SkyByte §IV).

use super::HostPage;
use crate::numa::NodeId;
use crate::page_numbers::PageNumbers;
use std::cmp::Reverse;
use units::Lpa;

/// The free pages.
#[derive(Clone, Debug)]
pub(super) enum FreePages {
    /// Any page takes any; of a node's the one freed last is taken first.
    Any {
        nodes: Vec<Vec<HostPage>>,
        per_node: u32,
        home: NodeId,
    },
    /// Page `p` takes one of the ways of set `p` modulo their number, the lowest first; other
    /// numbers of pages may choose the set.
    Sets {
        ways: u32,
        is_free: Vec<bool>,
        numbers: Option<PageNumbers>,
    },
}

impl FreePages {
    /// `count` free pages, in sets if `ways` says how many are in one.
    pub fn new(count: u32, ways: Option<u32>) -> Self {
        match ways {
            None => Self::on_nodes(count, 1, NodeId::new(0)),
            Some(ways) => Self::Sets {
                ways,
                is_free: vec![true; count as usize],
                numbers: None,
            },
        }
    }

    /// From now on these numbers of pages choose their sets. All are free.
    pub fn number_pages(&mut self, of_pages: &PageNumbers) {
        if let Self::Sets { numbers, .. } = self {
            *numbers = Some(of_pages.clone());
        }
    }

    /// `count` free pages, split over so many nodes.
    pub fn on_nodes(count: u32, nodes: u32, home: NodeId) -> Self {
        let per_node = count / nodes;
        let of_node = |node| (node * per_node..(node + 1) * per_node).rev();
        Self::Any {
            nodes: (0..nodes)
                .map(|node| of_node(node).map(HostPage::new).collect())
                .collect(),
            per_node: per_node.max(1),
            home,
        }
    }

    /// The node of a host page; those in sets are all on one.
    pub fn node_of(&self, page: HostPage) -> NodeId {
        match self {
            Self::Any { per_node, .. } => NodeId::new(page.get() / per_node),
            Self::Sets { .. } => NodeId::new(0),
        }
    }

    /// Where pages go first.
    pub fn home(&self) -> NodeId {
        match self {
            Self::Any { home, .. } => *home,
            Self::Sets { .. } => NodeId::new(0),
        }
    }

    /// Takes a free page of this node and no other.
    pub fn take_on(&mut self, node: NodeId) -> Option<HostPage> {
        match self {
            Self::Any { nodes, .. } => nodes[node.index()].pop(),
            Self::Sets { .. } => None,
        }
    }

    /// The host pages that a page may take, if not any.
    pub fn set_of(&self, lpa: Lpa) -> Option<std::ops::Range<usize>> {
        let Self::Sets {
            ways,
            is_free,
            numbers,
        } = self
        else {
            return None;
        };
        let number = numbers.as_ref().map_or(lpa.get(), |all| all.of(lpa));
        let set_count = (is_free.len() as u64 / u64::from(*ways)).max(1);
        let first = (number % set_count) as usize * *ways as usize;
        Some(first..(first + *ways as usize).min(is_free.len()))
    }

    /// Takes a free page for `lpa`, which is wanted near a node.
    pub fn take(&mut self, lpa: Lpa, near: NodeId) -> Option<HostPage> {
        let set = self.set_of(lpa);
        match self {
            Self::Any { nodes, .. } => {
                let most = |(index, pages): &(usize, &mut Vec<HostPage>)| {
                    let is_near = *index == near.index() && !pages.is_empty();
                    (is_near, pages.len(), Reverse(*index))
                };
                nodes.iter_mut().enumerate().max_by_key(most)?.1.pop()
            }
            Self::Sets { is_free, .. } => {
                let index = set?.find(|index| is_free[*index])?;
                is_free[index] = false;
                Some(HostPage::from_index(index))
            }
        }
    }

    /// A page holds nothing any more.
    pub fn give_back(&mut self, page: HostPage) {
        match self {
            Self::Any {
                nodes, per_node, ..
            } => nodes[(page.get() / *per_node) as usize].push(page),
            Self::Sets { is_free, .. } => is_free[page.index()] = true,
        }
    }

    /// How many there are for `lpa`.
    pub fn count_for(&self, lpa: Lpa) -> usize {
        match self {
            Self::Any { nodes, .. } => nodes.iter().map(Vec::len).sum(),
            Self::Sets { is_free, .. } => {
                let set = self.set_of(lpa).into_iter().flatten();
                set.filter(|index| is_free[*index]).count()
            }
        }
    }

    /// All of them.
    pub fn pages(&self) -> Vec<HostPage> {
        match self {
            Self::Any { nodes, .. } => nodes.concat(),
            Self::Sets { is_free, .. } => {
                let free = (0..is_free.len()).filter(|index| is_free[*index]);
                free.map(HostPage::from_index).collect()
            }
        }
    }
}
