use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

fn fill(pages: u32, ratio: u32) -> ReclaimLists {
    let mut lists = ReclaimLists::new(pages, ratio, ReclaimPolicy::Lists);
    for page in 0..pages {
        lists.insert(HostPage::new(page), Lpa::new(u64::from(page) + 100));
    }
    lists
}

/// Reclaims until nothing is left.
fn drain(lists: &mut ReclaimLists) -> Vec<u32> {
    let victims = std::iter::from_fn(|| {
        let victim = lists.coldest()?;
        lists.remove(victim.page);
        Some(victim.page.get())
    });
    victims.collect()
}

#[test]
fn pages_that_nobody_accesses_leave_in_the_order_of_arrival() {
    assert_eq!(drain(&mut fill(5, 1)), [0, 1, 2, 3, 4]);
}

#[test]
fn accessed_pages_leave_after_the_others() {
    let mut lists = fill(6, 4);
    for page in [0, 2, 3] {
        lists.touch(HostPage::new(page));
    }
    assert_eq!(drain(&mut lists), [1, 4, 5, 0, 2, 3]);
}

#[test]
fn under_lru_pages_leave_in_the_order_of_their_last_access() {
    let mut lists = ReclaimLists::new(4, 1, ReclaimPolicy::Lru);
    for page in 0..4 {
        lists.insert(HostPage::new(page), Lpa::new(u64::from(page)));
    }
    // Second chance would let 2 and 3 go first and then 0 and 1, in the order of arrival.
    for page in [1, 0, 1] {
        lists.touch(HostPage::new(page));
    }
    lists.audit();
    assert_eq!(drain(&mut lists), [2, 3, 0, 1]);
}

#[test]
fn in_sets_the_page_of_the_set_accessed_longest_ago_is_coldest() {
    let mut lists = ReclaimLists::in_sets(4);
    for page in 0..4 {
        lists.insert(HostPage::new(page), Lpa::new(u64::from(page)));
    }
    lists.touch(HostPage::new(2));
    let coldest = |lists: &ReclaimLists, set| lists.coldest_of(set).map(|victim| victim.page.get());
    assert_eq!(coldest(&lists, 0..2), Some(0));
    assert_eq!(coldest(&lists, 2..4), Some(3));
    lists.remove(HostPage::new(3));
    assert_eq!(coldest(&lists, 2..4), Some(2));
    lists.audit();
}

#[test]
fn a_page_accessed_between_all_reclaims_is_never_the_victim() {
    let mut lists = fill(8, 1);
    for round in 0..100 {
        lists.touch(HostPage::new(3));
        let victim = lists.coldest().expect("pages are left");
        assert_ne!(victim.page.get(), 3, "round {round}");
        lists.remove(victim.page);
        lists.insert(victim.page, Lpa::new(200 + round));
    }
}

#[test]
fn the_last_page_is_reclaimed_although_it_was_accessed() {
    let mut lists = fill(1, 1);
    lists.touch(HostPage::new(0));
    lists.set_dirty(HostPage::new(0));
    let victim = lists.coldest().expect("one page is left");
    assert_eq!((victim.lpa, victim.is_dirty), (Lpa::new(100), true));
    assert_eq!(drain(&mut lists), [0]);
    assert_eq!(lists.coldest(), None);
}

#[test]
fn dirt_does_not_outlive_the_page() {
    let mut lists = fill(1, 1);
    lists.set_dirty(HostPage::new(0));
    lists.remove(HostPage::new(0));
    lists.insert(HostPage::new(0), Lpa::new(7));
    assert!(!lists.coldest().expect("one page is left").is_dirty);
}

/// The same policy over plain queues; the front is the head.
#[derive(Default)]
struct Model {
    active: VecDeque<u32>,
    inactive: VecDeque<u32>,
    accessed: [bool; 8],
}

impl Model {
    fn coldest(&mut self, ratio: usize) -> Option<u32> {
        loop {
            while self.active.len() > self.inactive.len() * ratio {
                let page = self.active.pop_back()?;
                self.accessed[page as usize] = false;
                self.inactive.push_front(page);
            }
            let page = *self.inactive.back()?;
            if !std::mem::take(&mut self.accessed[page as usize]) {
                return Some(page);
            }
            self.inactive.pop_back();
            self.active.push_front(page);
        }
    }
    fn holds(&self, page: u32) -> bool {
        self.active.contains(&page) || self.inactive.contains(&page)
    }
}

proptest! {
    #[test]
    fn the_lists_choose_as_plain_queues_do(
        ratio in 1u32..4,
        steps in proptest::collection::vec((0u8..4, 0u32..8), 1..200),
    ) {
        let mut lists = ReclaimLists::new(8, ratio, ReclaimPolicy::Lists);
        let mut model = Model::default();
        for (kind, page) in steps {
            let host_page = HostPage::new(page);
            match kind {
                0 if !model.holds(page) => {
                    model.inactive.push_front(page);
                    model.accessed[page as usize] = false;
                    lists.insert(host_page, Lpa::new(u64::from(page)));
                }
                1 | 2 if model.holds(page) => {
                    model.accessed[page as usize] = true;
                    lists.touch(host_page);
                }
                3 => {
                    let expected = model.coldest(ratio as usize);
                    let victim = lists.coldest();
                    prop_assert_eq!(victim.map(|victim| victim.page.get()), expected);
                    if let Some(victim) = victim {
                        model.inactive.pop_back();
                        lists.remove(victim.page);
                    }
                }
                _ => {}
            }
            lists.audit();
            let listed: Vec<u32> = lists.pages().map(|(page, _)| page.get()).collect();
            let expected = model.active.iter().chain(&model.inactive);
            prop_assert_eq!(listed, expected.copied().collect::<Vec<_>>());
        }
    }
}
