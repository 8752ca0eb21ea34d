//! Conservation checks of the placement (architecture B6).

use super::{Entry, HostPage, Location, Placement};
use units::Lpa;

/// What a host page holds, as far as one place says.
type Holder = Option<Lpa>;

impl Placement {
    /// Checks the invariants P1 to P4 and P7 of `docs/placement.md`; panics at the first that does
    /// not hold. Walks all pages: for tests and `--audit`.
    pub fn audit(&self) {
        self.plb.audit();
        self.lists.audit();
        let holders = self.holders();
        if self.lists.capacity() == 0 {
            return;
        }
        for (index, &entry) in self.entries.iter().enumerate() {
            let lpa = Lpa::new((index as u64) << self.chunking.bits);
            assert!(
                !self.is_pinned(lpa) || entry == Entry::DEVICE,
                "{lpa} is pinned and stays on the device"
            );
            match entry.location() {
                Location::Device => {}
                Location::Host(page) => {
                    assert_eq!(holders[page.index()], Some(lpa), "{page} holds {lpa}");
                }
                Location::Moving => {
                    let (from, to) = self.moving(lpa).expect("a move is listed");
                    let held = [from, to].map(|page| holders[page.index()]);
                    assert_eq!(held, [Some(lpa); 2], "{from} and {to} are {lpa}'s");
                }
                Location::Migrating(entry) => {
                    let page = self.plb.host_page(entry, lpa);
                    assert_eq!(holders[page.index()], Some(lpa), "{page} is set aside");
                }
            }
        }
        let placed = self.entries.iter().filter(|entry| **entry != Entry::DEVICE);
        assert_eq!(
            placed.count(),
            holders.iter().flatten().count() - self.moves.len(),
            "every host page in use belongs to a page that knows of it"
        );
    }

    /// What each host page holds: in the lists, in the look-aside buffer, on a move, or nothing
    /// when free; exactly one of them.
    fn holders(&self) -> Vec<Holder> {
        let mut holders: Vec<Option<Holder>> = vec![None; self.lists.capacity()];
        let mut claim = |page: HostPage, holder: Holder| {
            let before = holders[page.index()].replace(holder);
            assert_eq!(before, None, "{page} is in one place");
        };
        self.free
            .pages()
            .into_iter()
            .for_each(|page| claim(page, None));
        let listed = self.lists.pages();
        listed.for_each(|(page, lpa)| claim(page, Some(lpa)));
        let moving = self.plb.live();
        moving.for_each(|entry| claim(entry.host_page, Some(entry.lpa)));
        for page in &self.moves {
            claim(page.from, Some(page.lpa));
            claim(page.to, Some(page.lpa));
        }
        let whole = holders.into_iter().enumerate().map(|(index, holder)| {
            holder.unwrap_or_else(|| panic!("{} is somewhere", HostPage::from_index(index)))
        });
        whole.collect()
    }
}
