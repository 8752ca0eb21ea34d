use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn config(ways: u32) -> AstriflashConfig {
    AstriflashConfig {
        ways,
        fill: FillPolicy::OnDemand,
        tag_latency: Picos::from_nanos(15),
        switch_cost: Picos::from_nanos(200),
    }
}

fn cache(pages: u64, ways: u32) -> PageCache {
    PageCache::new(
        &config(ways),
        PageSize::KIB_4.bytes() * pages,
        PageSize::KIB_4,
    )
}

fn bring(cache: &mut PageCache, lpa: u64) -> Begun {
    let begun = cache.begin_fill(Lpa::new(lpa)).expect("a way is free");
    cache.filled(Lpa::new(lpa));
    begun
}

#[test]
fn a_page_is_absent_then_coming_then_present() {
    let mut cache = cache(4, 2);
    let lpa = Lpa::new(9);
    assert_eq!(cache.access(lpa, false), Lookup::Absent);
    let begun = cache.begin_fill(lpa).expect("the cache is empty");
    assert_eq!(begun.dirty_victim, None);
    assert_eq!(cache.access(lpa, true), Lookup::Coming);
    assert_eq!(cache.filled(lpa), begun.page);
    assert_eq!(cache.access(lpa, false), Lookup::Present(begun.page));
}

#[test]
fn the_page_of_the_set_used_longest_ago_makes_room() {
    // Two sets of two ways: even pages share one.
    let mut cache = cache(4, 2);
    let first = bring(&mut cache, 0);
    bring(&mut cache, 2);
    bring(&mut cache, 1);
    cache.access(Lpa::new(0), false);
    bring(&mut cache, 4);
    assert_eq!(cache.access(Lpa::new(2), false), Lookup::Absent);
    assert_eq!(
        cache.access(Lpa::new(0), false),
        Lookup::Present(first.page)
    );
    assert!(matches!(
        cache.access(Lpa::new(1), false),
        Lookup::Present(_)
    ));
}

#[test]
fn only_a_written_page_is_written_back() {
    let mut cache = cache(2, 1);
    bring(&mut cache, 0);
    assert_eq!(bring(&mut cache, 2).dirty_victim, None);
    cache.access(Lpa::new(2), true);
    assert_eq!(bring(&mut cache, 4).dirty_victim, Some(Lpa::new(2)));
    let stats = cache.stats();
    assert_eq!((stats.fills, stats.drops, stats.write_backs), (3, 1, 1));
}

#[test]
fn a_set_whose_pages_are_all_on_their_way_takes_no_more() {
    let mut cache = cache(2, 2);
    for lpa in [0, 1].map(Lpa::new) {
        cache.begin_fill(lpa).expect("a way is free");
    }
    assert_eq!(cache.begin_fill(Lpa::new(2)), None);
    assert_eq!(cache.stats().conflicts, 1);
    cache.filled(Lpa::new(1));
    assert!(cache.begin_fill(Lpa::new(2)).is_some());
}

#[test]
fn ways_must_divide_the_pages() {
    let check = |pages: u64, ways: u32| {
        let size = PageSize::KIB_4.bytes() * pages;
        config(ways).validate(size, PageSize::KIB_4).len()
    };
    assert_eq!(
        (check(16, 8), check(12, 8), check(16, 0), check(65, 65)),
        (0, 1, 1, 1)
    );
}

/// The bytes, as version numbers: of host DRAM and of the device.
#[derive(Default)]
struct World {
    host: BTreeMap<HostPage, u32>,
    device: BTreeMap<Lpa, u32>,
    newest: BTreeMap<Lpa, u32>,
    coming: Vec<Lpa>,
}

proptest! {
    /// P5 and P6 of docs/placement.md: a page is read as it was written last, a clean victim's
    /// bytes are on the device.
    #[test]
    fn the_last_write_is_read_wherever_the_page_is(
        steps in proptest::collection::vec((0u64..12, any::<bool>(), any::<bool>()), 1..300),
        ways in 1u32..4,
    ) {
        let mut cache = cache(u64::from(ways) * 2, ways);
        let mut world = World::default();
        for (version, (lpa, is_write, ends)) in (1..).zip(steps) {
            let lpa = Lpa::new(lpa);
            match cache.access(lpa, is_write) {
                Lookup::Coming => {}
                Lookup::Absent => {
                    if let Some(begun) = cache.begin_fill(lpa) {
                        if let Some(victim) = begun.dirty_victim {
                            let bytes = world.host[&begun.page];
                            world.device.insert(victim, bytes);
                        }
                        world.coming.push(lpa);
                    }
                }
                Lookup::Present(page) if is_write => {
                    world.host.insert(page, version);
                    world.newest.insert(lpa, version);
                }
                Lookup::Present(page) => {
                    let newest = world.newest.get(&lpa).copied().unwrap_or(0);
                    prop_assert_eq!(world.host[&page], newest);
                }
            }
            if ends && !world.coming.is_empty() {
                let lpa = world.coming.remove(0);
                let page = cache.filled(lpa);
                let bytes = world.device.get(&lpa).copied().unwrap_or(0);
                world.host.insert(page, bytes);
            }
            cache.audit();
        }
    }
}
