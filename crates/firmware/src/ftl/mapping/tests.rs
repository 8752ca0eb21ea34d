use super::*;
use crate::ftl::testing::{self, GEOMETRY};
use proptest::prelude::*;

fn assert_equal(implicit: &ImplicitMapping, explicit: &ExplicitMapping, pages: u64) {
    for lpa in (0..pages).map(Lpa::new) {
        assert_eq!(implicit.lookup(lpa), explicit.lookup(lpa), "{lpa}");
        let is_mapped = explicit.is_mapped(lpa);
        assert_eq!(implicit.is_mapped(lpa), is_mapped, "{lpa}");
    }
    for ppa in (0..GEOMETRY.unit_count()).map(Ppa::new) {
        assert_eq!(implicit.reverse(ppa), explicit.reverse(ppa), "{ppa}");
    }
    for block in (0..GEOMETRY.block_count()).map(BlockAddr::new) {
        assert_eq!(
            implicit.valid_count(block),
            explicit.valid_count(block),
            "{block:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// A page goes anywhere that holds no page, back to its first place included, or nowhere.
    #[test]
    fn formula_and_overlay_equal_a_table(steps in prop::collection::vec((0u64..308, any::<u16>(), 0u8..8), 0..200)) {
        let precondition = Precondition::new(GEOMETRY, &testing::config());
        let pages = precondition.logical_page_count();
        let mut explicit = ExplicitMapping::new(GEOMETRY, &precondition);
        let mut implicit = ImplicitMapping::new(GEOMETRY, precondition.clone());
        for (page, to, how) in steps {
            let lpa = Lpa::new(page % pages);
            let home = precondition.lookup(lpa);
            let anywhere = Ppa::new(u64::from(to) % GEOMETRY.unit_count());
            let wanted = match how {
                0 => None,
                1..=3 => home,
                _ => Some(anywhere),
            };
            let to = wanted.filter(|page| explicit.reverse(*page).is_none());
            let source = explicit.lookup(lpa);
            match (source, to) {
                (Some(source), Some(to)) if how >= 6 => {
                    prop_assert!(implicit.still_holds(source, lpa));
                    implicit.relocate(lpa, source, to);
                    explicit.relocate(lpa, source, to);
                }
                _ => prop_assert_eq!(implicit.update(lpa, to), explicit.update(lpa, to)),
            }
            if let Some(source) = source {
                let holds = explicit.still_holds(source, lpa);
                prop_assert_eq!(implicit.still_holds(source, lpa), holds);
            }
        }
        assert_equal(&implicit, &explicit, pages);
    }
}

#[test]
fn a_page_that_goes_and_is_trimmed_has_changed_once() {
    let precondition = Precondition::new(GEOMETRY, &testing::config());
    let mut mapping = ImplicitMapping::new(GEOMETRY, precondition);
    let erased = GEOMETRY.unit_on(BlockAddr::new(15), 0);
    assert_eq!(mapping.changed_page_count(), 0);
    mapping.update(Lpa::new(3), Some(erased));
    mapping.update(Lpa::new(3), None);
    assert_eq!(mapping.changed_page_count(), 1);
    assert_eq!(mapping.lookup(Lpa::new(3)), None);
    assert_eq!(mapping.reverse(erased), None);
}

#[test]
#[should_panic(expected = "while another page is mapped to it")]
fn two_pages_never_share_a_place() {
    let precondition = Precondition::new(GEOMETRY, &testing::config());
    let mut mapping = ImplicitMapping::new(GEOMETRY, precondition);
    let erased = GEOMETRY.unit_on(BlockAddr::new(15), 0);
    mapping.update(Lpa::new(3), Some(erased));
    mapping.update(Lpa::new(4), Some(erased));
}
