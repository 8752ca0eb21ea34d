use super::super::Target;
use super::super::config::tests::config;
use super::*;
use units::{LineInPage, PageSize};

/// Two pages of host DRAM on each of two nodes, the device at node 1.
fn placement() -> Placement {
    Placement::new(&config(4), PageSize::KIB_4, 8).on_nodes(2, NodeId::new(1))
}
fn promote(placement: &mut Placement, lpa: u64) -> HostPage {
    let lpa = Lpa::new(lpa);
    placement.begin_promotion(lpa).expect("there is room");
    placement.copy_at_once(lpa);
    placement.finish_promotion(lpa, false)
}

#[test]
fn pages_go_to_the_home_node_first_and_then_where_most_is_free() {
    let mut placement = Placement::new(&config(6), PageSize::KIB_4, 8);
    placement = placement.on_nodes(3, NodeId::new(1));
    let pages: Vec<u32> = (0..6)
        .map(|lpa| promote(&mut placement, lpa).get())
        .collect();
    // Node 0 has pages 0 and 1, node 1 has 2 and 3, node 2 has 4 and 5; of equals the lowest node.
    assert_eq!(pages, [2, 3, 0, 4, 1, 5]);
    assert_eq!(placement.stats().promotions_elsewhere, 4);
    placement.audit();
}

#[test]
fn a_page_wanted_on_a_node_goes_there() {
    let mut placement = placement();
    let begun = placement.begin_promotion_near(Lpa::new(3), NodeId::new(0));
    assert_eq!(begun, Ok(HostPage::new(0)));
}

#[test]
fn a_page_on_a_move_is_locked_and_then_on_the_other_node_as_dirty_as_before() {
    let mut placement = placement();
    let (lpa, line) = (Lpa::new(5), LineInPage::new(7));
    assert_eq!(promote(&mut placement, 5), HostPage::new(2));
    placement.write(lpa, line);
    assert_eq!(placement.begin_move(lpa, NodeId::new(1)), None, "is there");
    let to = placement.begin_move(lpa, NodeId::new(0)).expect("free");
    assert_eq!(placement.moving(lpa), Some((HostPage::new(2), to)));
    assert_eq!(placement.read(lpa, line), Target::Locked);
    assert_eq!(placement.write(lpa, line), Target::Locked);
    assert_eq!(placement.begin_move(lpa, NodeId::new(0)), None, "moves");
    assert_eq!(placement.reclaim(lpa), super::super::Reclaimed::Nothing);
    placement.audit();
    placement.finish_move(lpa);
    placement.audit();
    assert_eq!(placement.read(lpa, line), Target::Host(to));
    let victim = placement.reclaim(lpa);
    assert_eq!(victim, super::super::Reclaimed::Copying(lpa), "dirty");
    let stats = placement.stats();
    assert_eq!((stats.moves, stats.moves_refused), (1, 0));
}

#[test]
fn a_full_node_takes_no_page() {
    let mut placement = placement();
    let pages: Vec<u32> = (0..4)
        .map(|lpa| promote(&mut placement, lpa).get())
        .collect();
    assert_eq!(pages, [2, 3, 0, 1]);
    assert_eq!(placement.begin_move(Lpa::new(0), NodeId::new(0)), None);
    assert_eq!(placement.stats().moves_refused, 1);
    placement.audit();
}

#[test]
fn a_page_belongs_where_two_faults_in_a_row_come_from() {
    let mut balancer = Balancer::new(4);
    let nodes = [0, 1, 0, 0, 1, 1, 1].map(NodeId::new);
    let belongs = nodes.map(|node| balancer.on_fault(Lpa::new(2), node));
    assert_eq!(belongs, [false, false, false, true, false, true, true]);
    assert!(
        !balancer.on_fault(Lpa::new(3), NodeId::new(0)),
        "another page"
    );
}
