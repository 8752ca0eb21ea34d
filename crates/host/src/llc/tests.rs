use super::*;
use crate::core::testing::config;
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::Bytes;

fn small(mshrs: u32) -> SharedCache {
    let config = CpuConfig {
        l3: Bytes::from_kib(4),
        l3_ways: 4,
        l3_mshrs: mshrs,
        cores: 2,
        ..config()
    };
    SharedCache::new(&config)
}

fn waiter(core: u32, slot: u32) -> Waiter {
    Waiter {
        core: CoreId::new(core),
        slot: MissSlot::new(slot, 0),
        kind: MissKind::Load,
    }
}

fn line(number: u32) -> HostLine {
    HostLine::from_raw(number)
}

#[test]
fn a_miss_is_filled_for_everybody_who_joined_it_in_order() {
    let mut cache = small(4);
    let L3Access::Miss(slot) = cache.access(line(9), waiter(0, 3)) else {
        panic!("a cold miss")
    };
    assert_eq!(cache.access(line(9), waiter(1, 3)), L3Access::Merged(slot));
    assert_eq!(cache.access(line(9), waiter(0, 4)), L3Access::Merged(slot));
    let mut waiters = Vec::new();
    assert_eq!(cache.fill(slot, &mut waiters), None);
    assert_eq!(waiters, [waiter(0, 3), waiter(1, 3), waiter(0, 4)]);
    assert_eq!(cache.access(line(9), waiter(1, 3)), L3Access::Hit);
}

#[test]
fn the_last_waiter_to_leave_frees_the_mshr() {
    let mut cache = small(1);
    let L3Access::Miss(slot) = cache.access(line(9), waiter(0, 3)) else {
        panic!("a cold miss")
    };
    cache.access(line(9), waiter(1, 3));
    assert_eq!(cache.access(line(10), waiter(1, 5)), L3Access::Full);
    let cancel =
        |cache: &mut SharedCache, core| cache.cancel(CoreId::new(core), MissSlot::new(3, 0));
    assert_eq!(cancel(&mut cache, 0), Cancelled::Detached(slot));
    assert_eq!(cancel(&mut cache, 0), Cancelled::NotWaiting);
    assert_eq!(cancel(&mut cache, 1), Cancelled::Freed(slot));
    assert!(matches!(
        cache.access(line(10), waiter(1, 5)),
        L3Access::Miss(_)
    ));
}

#[test]
fn a_line_written_back_while_it_is_fetched_stays_dirty() {
    let mut cache = small(4);
    let L3Access::Miss(slot) = cache.access(line(0), waiter(0, 0)) else {
        panic!("a cold miss")
    };
    assert_eq!(cache.write_back(line(0)), None);
    cache.fill(slot, &mut Vec::new());
    assert_eq!(cache.occupancy(), (1, 1));
    for number in 1..=4 {
        let (_, victim) = cache.warm_read(line(number * 16));
        assert_eq!(victim.is_some_and(|victim| victim.is_dirty), number == 4);
    }
}

proptest! {
    /// MSHRs against a map from line to its waiters, with reads, fills and cancellations mixed.
    #[test]
    fn mshrs_behave_as_a_map_of_lists(
        choices in prop::collection::vec((0u8..4, 0u32..2, 0u32..16, 0u32..24), 1..300),
    ) {
        let mut cache = small(6);
        let mut waiting: BTreeMap<u32, Vec<Waiter>> = BTreeMap::new();
        let mut slots: BTreeMap<u32, L3Slot> = BTreeMap::new();
        for (action, core, number, wanted) in choices {
            let asker = waiter(core, number);
            let current = waiting.iter().find(|(_, list)| list.contains(&asker)).map(|(line, _)| *line);
            match (action, current) {
                (0 | 1, None) => {
                    let expected_full = !waiting.contains_key(&wanted) && waiting.len() == 6;
                    match cache.access(line(wanted), asker) {
                        L3Access::Hit => prop_assert!(!waiting.contains_key(&wanted)),
                        L3Access::Full => prop_assert!(expected_full),
                        L3Access::Merged(slot) => {
                            prop_assert_eq!(slots[&wanted], slot);
                            waiting.get_mut(&wanted).unwrap().push(asker);
                        }
                        L3Access::Miss(slot) => {
                            prop_assert!(!expected_full);
                            slots.insert(wanted, slot);
                            prop_assert!(waiting.insert(wanted, vec![asker]).is_none());
                        }
                    }
                }
                (2, Some(current)) => {
                    let list = waiting.get_mut(&current).unwrap();
                    list.retain(|other| *other != asker);
                    let freed = list.is_empty();
                    let expected = if freed { Cancelled::Freed(slots[&current]) } else { Cancelled::Detached(slots[&current]) };
                    prop_assert_eq!(cache.cancel(asker.core, asker.slot), expected);
                    if freed { waiting.remove(&current); }
                }
                (3, _) => if let Some(list) = waiting.remove(&wanted) {
                    let mut filled = Vec::new();
                    cache.fill(slots[&wanted], &mut filled);
                    prop_assert_eq!(filled, list);
                },
                _ => {}
            }
            prop_assert_eq!(cache.in_use() as usize, waiting.len());
            prop_assert_eq!(cache.audit(), Vec::<String>::new());
        }
    }
}
