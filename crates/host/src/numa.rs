//! The nodes of the machine: which cores and which host DRAM are whose, and how far apart they are
//! (SkyByte §IV).

use serde::{Deserialize, Serialize};
use units::{CoreId, Picos};

units::ids! {
    /// A node: a socket with its cores and its host DRAM.
    NodeId, "node";
}

/// Who moves pages between the host DRAM of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balancing {
    /// Nobody.
    None,
    /// The operating system, by hint faults.
    HintFaults,
}

units::parameters! {
    /// Nodes: sockets that share the program's memory.
    pub struct NumaConfig: "numa" {
        /// Nodes. Cores, channels of host DRAM and host.promoted are split evenly, cores in order.
        nodes: u32, "1 to 8; divides cpu.cores, host_dram.channels and the pages of host.promoted",
            "SkyByte Table II, one socket (1)";
        /// The node whose socket the device is attached to.
        home: u32, "below numa.nodes", "SkyByte IV, home node; which one is our choice (0)";
        /// Added by an access of a core to the device or to host DRAM of another node, there and
        /// back together.
        latency: Picos, "at most 1us",
            "SkyByte IV gives a bound, less than 100ns; our choice below it (70ns)";
        /// Whether a promoted page stays on its node (`none`) or moves to a node two hint faults
        /// in a row come from (`hint_faults`), by scans of tpp.scan_period and tpp.scan_pages
        /// and at the costs of tpp.
        balancing: Balancing, "none or hint_faults, which needs two nodes",
            "SkyByte IV leaves it to the operating system; Linux should_numa_migrate_memory (none)";
    }
}

impl NumaConfig {
    /// What is out of range, as sentences. `shared` is what the nodes share: the key, how many
    /// there are, and of what.
    pub fn validate(&self, shared: &[(&str, u64, &str)]) -> Vec<String> {
        let nodes = self.nodes;
        if !(1..=8).contains(&nodes) {
            return vec![format!("numa.nodes is {nodes}; it must be from 1 to 8.")];
        }
        let mut problems = Vec::new();
        for (key, count, of) in shared {
            if count % u64::from(nodes) != 0 {
                problems.push(format!(
                    "numa.nodes is {nodes}, which does not divide the {count} {of} of {key}; give \
                     each node as many."
                ));
            }
        }
        if self.home >= nodes {
            problems.push(format!(
                "numa.home is {}; it must be below numa.nodes, which is {nodes}.",
                self.home
            ));
        }
        if self.balancing != Balancing::None && nodes == 1 {
            problems.push(
                "numa.balancing moves pages between nodes, but numa.nodes is 1; give the machine \
                 two or take --set numa.balancing=none."
                    .to_string(),
            );
        }
        let longest = Picos::from_micros(1);
        if self.latency > longest {
            problems.push(format!(
                "numa.latency is {}; it must be at most {longest}.",
                self.latency
            ));
        }
        problems
    }
}

/// What the way between two nodes adds to an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hop {
    /// To the request.
    pub there: Picos,
    /// To the answer.
    pub back: Picos,
    /// Whether the nodes differ.
    pub is_remote: bool,
}

impl Hop {
    /// Within a node.
    pub const NONE: Self = Self {
        there: Picos::ZERO,
        back: Picos::ZERO,
        is_remote: false,
    };

    /// There and back.
    #[inline]
    pub fn both(self) -> Picos {
        self.there + self.back
    }
}

/// The nodes of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Nodes {
    count: u32,
    cores_per_node: u32,
    home: NodeId,
    remote: Hop,
}

impl Nodes {
    /// Those of `cores` cores; the configuration has passed [`NumaConfig::validate`].
    pub fn new(config: &NumaConfig, cores: u32) -> Self {
        let there = config.latency / 2;
        Self {
            count: config.nodes,
            cores_per_node: cores / config.nodes,
            home: NodeId::new(config.home),
            remote: Hop {
                there,
                // An odd picosecond goes to the way back, as on the CXL link.
                back: config.latency - there,
                is_remote: true,
            },
        }
    }

    /// How many there are.
    pub const fn count(&self) -> u32 {
        self.count
    }
    /// Whether there is only one, so that nothing is remote.
    #[inline]
    pub const fn is_one(&self) -> bool {
        self.count == 1
    }
    /// The device's.
    #[inline]
    pub const fn home(&self) -> NodeId {
        self.home
    }
    /// A core's.
    #[inline]
    pub const fn of_core(&self, core: CoreId) -> NodeId {
        NodeId::new(core.get() / self.cores_per_node)
    }
    /// What an access of one node to another adds.
    #[inline]
    pub fn hop(&self, from: NodeId, to: NodeId) -> Hop {
        if from == to { Hop::NONE } else { self.remote }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn config(nodes: u32) -> NumaConfig {
        NumaConfig {
            nodes,
            home: 0,
            latency: Picos::new(70_001),
            balancing: Balancing::None,
        }
    }

    #[test]
    fn cores_are_split_evenly_in_order() {
        let nodes = Nodes::new(&config(2), 8);
        let of = |core| nodes.of_core(CoreId::new(core)).get();
        assert_eq!((0..8).map(of).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1]);
        let one = Nodes::new(&config(1), 3);
        assert!((0..3).all(|core| one.of_core(CoreId::new(core)) == one.home()));
    }

    #[test]
    fn there_and_back_add_up_to_the_latency_between_nodes_and_to_nothing_within_one() {
        let nodes = Nodes::new(&config(2), 2);
        let [here, away] = [0, 1].map(NodeId::new);
        assert_eq!(nodes.hop(here, here), Hop::NONE);
        let hop = nodes.hop(away, here);
        assert_eq!(
            (hop.there, hop.back),
            (Picos::new(35_000), Picos::new(35_001))
        );
        assert!(hop.is_remote && hop.both() == config(2).latency);
    }

    #[test]
    fn what_cannot_be_split_or_is_out_of_range_is_named() {
        let eight = [("cpu.cores", 8, "cores")];
        assert!(config(1).validate(&[("cpu.cores", 3, "cores")]).is_empty());
        assert!(config(4).validate(&eight).is_empty());
        for nodes in [0, 9] {
            let text = format!("numa.nodes is {nodes}; it must be from 1 to 8.");
            assert_eq!(config(nodes).validate(&eight), [text]);
        }
        assert_eq!(
            config(2).validate(&[("cpu.cores", 1, "cores")]),
            [
                "numa.nodes is 2, which does not divide the 1 cores of cpu.cores; give each node as \
              many."
            ]
        );
        let away = NumaConfig {
            home: 1,
            latency: Picos::new(1_000_001),
            balancing: Balancing::HintFaults,
            ..config(1)
        };
        let problems = away.validate(&eight);
        assert_eq!(
            problems[0],
            "numa.home is 1; it must be below numa.nodes, which is 1."
        );
        assert!(
            problems[1].starts_with("numa.balancing moves "),
            "{problems:?}"
        );
        assert!(problems[2].starts_with("numa.latency is "), "{problems:?}");
    }
}
