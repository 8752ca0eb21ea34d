use super::config::tests::config;
use super::*;
use proptest::prelude::*;
use units::Bytes;

mod moving;

const LINES: u16 = 4;

fn small_page() -> PageSize {
    PageSize::new(Bytes::new(256)).expect("four lines are a page")
}
fn placement(host_pages: u64, plb: u32, pages: u64) -> Placement {
    let mut config = config(1);
    config.promoted = small_page().bytes() * host_pages;
    config.plb = plb;
    Placement::new(&config, small_page(), pages)
}
/// As `placement`, for an operating system that locks pages on their way.
fn locking(host_pages: u64, migrations: u32, pages: u64) -> Placement {
    let mut config = config(1);
    config.promoted = small_page().bytes() * host_pages;
    let mut tpp = super::tpp::tests::config();
    tpp.migrations = migrations;
    Placement::locking(&config, &tpp, small_page(), pages)
}
/// As `placement`, in sets.
fn in_sets(host_pages: u64, ways: u32, pages: u64) -> Placement {
    let mut config = config(1);
    config.promoted = small_page().bytes() * host_pages;
    Placement::in_sets(&config, ways, small_page(), pages)
}
fn lines() -> impl Iterator<Item = LineInPage> {
    (0..LINES).map(LineInPage::new)
}
/// Copies what is left of a page, without interference.
fn copy_all(placement: &mut Placement, lpa: Lpa) {
    while let Some(line) = placement.next_line(lpa) {
        placement.line_copied(lpa, line);
    }
}
fn promote(placement: &mut Placement, lpa: Lpa, was_dirty: bool) -> HostPage {
    placement.begin_promotion(lpa).expect("there is room");
    copy_all(placement, lpa);
    placement.finish_promotion(lpa, was_dirty)
}

#[test]
fn a_page_starts_on_the_device_and_is_in_host_dram_after_promotion() {
    let mut placement = placement(2, 2, 8);
    let lpa = Lpa::new(5);
    assert_eq!(placement.locate(lpa), Location::Device);
    let page = promote(&mut placement, lpa, false);
    assert_eq!(placement.locate(lpa), Location::Host(page));
    assert!(lines().all(|line| placement.read(lpa, line) == Target::Host(page)));
    assert_eq!(placement.resident_count(), 1);
}

#[test]
fn promotions_are_refused_with_their_reason() {
    let mut placement = placement(3, 2, 8);
    promote(&mut placement, Lpa::new(0), false);
    let begin = |placement: &mut Placement, lpa| placement.begin_promotion(Lpa::new(lpa));
    assert_eq!(begin(&mut placement, 0), Err(Refusal::NotOnDevice));
    assert!(begin(&mut placement, 1).is_ok());
    assert_eq!(begin(&mut placement, 1), Err(Refusal::NotOnDevice));
    assert!(begin(&mut placement, 2).is_ok());
    assert_eq!(begin(&mut placement, 3), Err(Refusal::PlbFull));
    copy_all(&mut placement, Lpa::new(1));
    placement.finish_promotion(Lpa::new(1), false);
    assert_eq!(begin(&mut placement, 3), Err(Refusal::NoHostPage));
    assert_eq!(placement.stats().refusals, 4);
}

#[test]
fn in_sets_a_page_takes_the_ways_of_its_set_only() {
    let mut placement = in_sets(4, 2, 8);
    let [even, other, third, odd] = [0, 2, 4, 1].map(Lpa::new);
    promote(&mut placement, even, false);
    promote(&mut placement, other, true);
    assert!(!placement.wants_reclaim(odd) && placement.wants_reclaim(third));
    assert_eq!(placement.begin_promotion(third), Err(Refusal::NoHostPage));
    placement.read(even, LineInPage::new(0));
    assert_eq!(placement.reclaim(third), Reclaimed::Copying(other));
    assert!(!placement.wants_reclaim(third), "one is coming");
    copy_all(&mut placement, other);
    placement.finish_demotion(other);
    assert!(placement.begin_promotion(third).is_ok());
    placement.audit();
}

#[test]
fn without_host_pages_nothing_is_promoted_and_nothing_wanted() {
    let mut placement = placement(0, 64, 8);
    assert_eq!(
        placement.begin_promotion(Lpa::new(0)),
        Err(Refusal::NoHostPage)
    );
    assert!(!placement.wants_reclaim(Lpa::new(0)));
    assert_eq!(placement.reclaim(Lpa::new(0)), Reclaimed::Nothing);
}

#[test]
fn a_line_goes_to_the_destination_once_it_is_copied() {
    let mut placement = placement(1, 1, 8);
    let lpa = Lpa::new(3);
    let page = placement.begin_promotion(lpa).expect("there is room");
    let first = placement.next_line(lpa).expect("no line is copied");
    assert_eq!(first, LineInPage::new(0));
    assert_eq!(placement.read(lpa, first), Target::Device);
    assert_eq!(placement.line_copied(lpa, first), Copied::Done);
    assert_eq!(placement.read(lpa, first), Target::Host(page));
    assert_eq!(placement.write(lpa, first), Target::Host(page));
    assert_eq!(placement.write(lpa, LineInPage::new(1)), Target::Device);
}

#[test]
fn a_line_written_while_it_is_copied_is_copied_again() {
    let mut placement = placement(1, 1, 8);
    let lpa = Lpa::new(3);
    placement.begin_promotion(lpa).expect("there is room");
    let line = placement.next_line(lpa).expect("no line is copied");
    assert_eq!(placement.write(lpa, line), Target::Device);
    assert_eq!(placement.line_copied(lpa, line), Copied::Again);
    assert_eq!(placement.next_line(lpa), Some(line));
    assert_eq!(placement.line_copied(lpa, line), Copied::Done);
    assert_eq!(placement.stats().lines_repeated, 1);
}

#[test]
fn warm_up_promotes_without_copying_line_by_line() {
    let mut placement = placement(1, 1, 8);
    let lpa = Lpa::new(2);
    placement.begin_promotion(lpa).expect("there is room");
    placement.copy_at_once(lpa);
    assert_eq!(placement.next_line(lpa), None);
    let page = placement.finish_promotion(lpa, true);
    assert_eq!(placement.locate(lpa), Location::Host(page));
    assert_eq!(placement.reclaim(Lpa::new(0)), Reclaimed::Copying(lpa));
}

#[test]
fn clean_pages_are_dropped_and_dirty_ones_copied_back() {
    let mut placement = placement(3, 2, 8);
    promote(&mut placement, Lpa::new(0), false);
    promote(&mut placement, Lpa::new(1), true);
    promote(&mut placement, Lpa::new(2), false);
    placement.write(Lpa::new(2), LineInPage::new(1));
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Dropped(Lpa::new(0))
    );
    assert_eq!(placement.locate(Lpa::new(0)), Location::Device);
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Copying(Lpa::new(1))
    );
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Copying(Lpa::new(2))
    );
    placement.audit();
    copy_all(&mut placement, Lpa::new(1));
    placement.finish_demotion(Lpa::new(1));
    assert_eq!(placement.locate(Lpa::new(1)), Location::Device);
    assert_eq!(placement.reclaim(Lpa::new(0)), Reclaimed::Nothing);
    let stats = placement.stats();
    assert_eq!((stats.drops, stats.demotions), (1, 1));
}

#[test]
fn a_full_look_aside_buffer_delays_the_demotion_of_a_dirty_page() {
    let mut placement = placement(2, 1, 8);
    promote(&mut placement, Lpa::new(0), true);
    placement
        .begin_promotion(Lpa::new(1))
        .expect("there is room");
    assert_eq!(placement.reclaim(Lpa::new(0)), Reclaimed::PlbFull);
    copy_all(&mut placement, Lpa::new(1));
    placement.finish_promotion(Lpa::new(1), false);
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Copying(Lpa::new(0))
    );
}

#[test]
fn reclaim_is_wanted_below_the_reserve_counting_what_is_on_its_way() {
    let mut small = config(1);
    small.promoted = small_page().bytes() * 4;
    small.reserve = 2;
    let mut placement = Placement::new(&small, small_page(), 8);
    promote(&mut placement, Lpa::new(0), true);
    promote(&mut placement, Lpa::new(1), true);
    assert!(!placement.wants_reclaim(Lpa::new(0)), "two pages are free");
    promote(&mut placement, Lpa::new(2), true);
    assert!(placement.wants_reclaim(Lpa::new(0)));
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Copying(Lpa::new(0))
    );
    assert!(
        !placement.wants_reclaim(Lpa::new(0)),
        "one is free and one coming"
    );
}

#[test]
fn dram_only_keeps_every_page_in_host_dram() {
    let mut placement = Placement::dram_only(PageSize::KIB_4, 100);
    for lpa in [0, 99].map(Lpa::new) {
        let page = HostPage::new(lpa.get() as u32);
        assert_eq!(
            placement.write(lpa, LineInPage::new(63)),
            Target::Host(page)
        );
        assert_eq!(placement.begin_promotion(lpa), Err(Refusal::NotOnDevice));
    }
    assert_eq!(placement.reclaim(Lpa::new(0)), Reclaimed::Nothing);
    placement.audit();
}

#[test]
#[should_panic(expected = "all lines of L0 are copied")]
fn a_promotion_does_not_end_before_its_last_line() {
    let mut placement = placement(1, 1, 8);
    placement
        .begin_promotion(Lpa::new(0))
        .expect("there is room");
    placement.next_line(Lpa::new(0));
    placement.finish_promotion(Lpa::new(0), false);
}

#[test]
fn the_operating_system_locks_a_page_on_its_way_and_always_copies_it_back() {
    let mut placement = locking(1, 1, 8);
    let lpa = Lpa::new(3);
    placement.begin_promotion(lpa).expect("there is room");
    assert_eq!(placement.read(lpa, LineInPage::new(0)), Target::Locked);
    assert_eq!(placement.write(lpa, LineInPage::new(0)), Target::Locked);
    copy_all(&mut placement, lpa);
    assert_eq!(placement.read(lpa, LineInPage::new(0)), Target::Locked);
    placement.finish_promotion(lpa, false);
    assert_eq!(
        placement.reclaim(Lpa::new(0)),
        Reclaimed::Copying(lpa),
        "though clean"
    );
}

#[test]
fn the_watermark_is_what_is_kept_free() {
    let mut config = config(1);
    config.promoted = small_page().bytes() * 100;
    let tpp = super::tpp::tests::config();
    let mut placement = Placement::locking(&config, &tpp, small_page(), 100);
    for page in 0..98 {
        assert!(
            !placement.wants_reclaim(Lpa::new(0)),
            "2% of 100 pages are free"
        );
        placement
            .begin_promotion(Lpa::new(page))
            .expect("there is room");
        copy_all(&mut placement, Lpa::new(page));
        placement.finish_promotion(Lpa::new(page), true);
    }
    promote(&mut placement, Lpa::new(98), true);
    assert!(placement.wants_reclaim(Lpa::new(0)));
}

const PAGES: usize = 6;
type Page = [u32; LINES as usize];

/// The bytes themselves, as version numbers: of flash, of the device's DRAM over it, of host
/// DRAM, and of every copy that is under way.
struct World {
    placement: Placement,
    /// Whether the operating system moves pages, and the device does not know.
    is_locking: bool,
    newest: [Page; PAGES],
    device: [Page; PAGES],
    flash: [Page; PAGES],
    host: Vec<Page>,
    /// Copies under way: page, line, version read at the source.
    copies: Vec<(Lpa, LineInPage, u32)>,
    versions: u32,
}

/// Who moves pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mover {
    Lookaside,
    Locking,
    Sets,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u64, u16),
    Read(u64, u16),
    Promote(u64),
    StartCopy(u64),
    EndCopy(usize),
    Finish(u64),
    Move(u64, u32),
    Reclaim(u64),
    Flush(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let page = 0..PAGES as u64;
    prop_oneof![
        4 => (page.clone(), 0..LINES).prop_map(|(page, line)| Step::Write(page, line)),
        2 => (page.clone(), 0..LINES).prop_map(|(page, line)| Step::Read(page, line)),
        2 => page.clone().prop_map(Step::Promote),
        8 => page.clone().prop_map(Step::StartCopy),
        8 => (0usize..8).prop_map(Step::EndCopy),
        4 => page.clone().prop_map(Step::Finish),
        2 => (page.clone(), 0..2u32).prop_map(|(page, node)| Step::Move(page, node)),
        1 => page.clone().prop_map(Step::Reclaim),
        1 => (0..PAGES).prop_map(Step::Flush),
    ]
}

impl World {
    fn new(mover: Mover) -> Self {
        let placement = match mover {
            Mover::Lookaside => placement(4, 2, PAGES as u64),
            Mover::Locking => locking(4, 2, PAGES as u64),
            Mover::Sets => in_sets(4, 2, PAGES as u64),
        };
        let is_locking = mover == Mover::Locking;
        Self {
            placement: placement.on_nodes(2, NodeId::new(0)),
            is_locking,
            newest: [[0; 4]; PAGES],
            device: [[0; 4]; PAGES],
            flash: [[0; 4]; PAGES],
            host: vec![[0; 4]; 4],
            copies: Vec::new(),
            versions: 0,
        }
    }
    fn cell(&mut self, target: Target, lpa: Lpa, line: LineInPage) -> &mut u32 {
        match target {
            Target::Device => &mut self.device[lpa.get() as usize][line.index()],
            Target::Host(page) => &mut self.host[page.index()][line.index()],
            Target::Locked => panic!("an access to a locked page waits"),
        }
    }
    fn is_migrating(&self, lpa: Lpa) -> Option<PlbIndex> {
        match self.placement.locate(lpa) {
            Location::Migrating(entry) => Some(entry),
            _ => None,
        }
    }
    fn check_read(&mut self, lpa: Lpa, line: LineInPage) -> Result<(), TestCaseError> {
        let target = self.placement.read(lpa, line);
        if target == Target::Locked {
            return Ok(());
        }
        let found = *self.cell(target, lpa, line);
        prop_assert_eq!(found, self.newest[lpa.get() as usize][line.index()]);
        Ok(())
    }
    fn direction(&self, lpa: Lpa) -> (Direction, HostPage) {
        let entries = self.placement.plb.live();
        let entry = entries.into_iter().find(|entry| entry.lpa == lpa);
        let entry = entry.expect("a page on its way has an entry");
        (entry.direction, entry.host_page)
    }
    fn write(&mut self, lpa: Lpa, line: LineInPage) {
        let target = self.placement.write(lpa, line);
        if target == Target::Locked {
            return;
        }
        self.versions += 1;
        let version = self.versions;
        *self.cell(target, lpa, line) = version;
        self.newest[lpa.get() as usize][line.index()] = version;
    }
    fn start_copy(&mut self, lpa: Lpa) {
        let Some(line) = self
            .is_migrating(lpa)
            .and_then(|_| self.placement.next_line(lpa))
        else {
            return;
        };
        let source = match self.direction(lpa) {
            (Direction::Promotion, _) => Target::Device,
            (Direction::Demotion, page) => Target::Host(page),
        };
        let version = *self.cell(source, lpa, line);
        self.copies.push((lpa, line, version));
    }
    fn end_copy(&mut self, chosen: usize) {
        if self.copies.is_empty() {
            return;
        }
        let (lpa, line, version) = self.copies.remove(chosen % self.copies.len());
        let destination = match self.direction(lpa) {
            (Direction::Promotion, page) => Target::Host(page),
            (Direction::Demotion, _) => Target::Device,
        };
        *self.cell(destination, lpa, line) = version;
        self.placement.line_copied(lpa, line);
    }
    /// Copies what is missing, then ends the migration as the integrator would.
    fn finish(&mut self, lpa: Lpa) {
        self.end_move(lpa);
        if self.is_migrating(lpa).is_none() {
            return;
        }
        while let Some(chosen) = self.copies.iter().position(|copy| copy.0 == lpa) {
            self.end_copy(chosen);
        }
        loop {
            self.start_copy(lpa);
            let Some(chosen) = self.copies.iter().position(|copy| copy.0 == lpa) else {
                break;
            };
            self.end_copy(chosen);
        }
        let page = lpa.get() as usize;
        match self.direction(lpa).0 {
            Direction::Promotion if self.is_locking => {
                self.placement.finish_promotion(lpa, true);
            }
            Direction::Promotion => {
                let was_dirty = self.device[page] != self.flash[page];
                self.placement.finish_promotion(lpa, was_dirty);
                // The device drops frame and log lines; flash keeps what it had.
                self.device[page] = self.flash[page];
            }
            Direction::Demotion => self.placement.finish_demotion(lpa),
        }
    }
    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Write(lpa, line) => self.write(Lpa::new(lpa), LineInPage::new(line)),
            Step::Read(lpa, line) => self.check_read(Lpa::new(lpa), LineInPage::new(line))?,
            Step::Promote(lpa) => {
                self.placement.begin_promotion(Lpa::new(lpa)).ok();
            }
            Step::StartCopy(lpa) => self.start_copy(Lpa::new(lpa)),
            Step::EndCopy(chosen) => self.end_copy(chosen),
            Step::Finish(lpa) => self.finish(Lpa::new(lpa)),
            Step::Move(lpa, node) => self.begin_move(Lpa::new(lpa), node),
            Step::Reclaim(newcomer) => {
                self.placement.reclaim(Lpa::new(newcomer));
            }
            Step::Flush(page) => self.flash[page] = self.device[page],
        }
        self.placement.audit();
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_last_write_is_read_wherever_the_page_is_on_its_way(
        steps in proptest::collection::vec(step(), 1..250),
        mover in prop_oneof![Just(Mover::Lookaside), Just(Mover::Locking), Just(Mover::Sets)],
    ) {
        let mut world = World::new(mover);
        for step in steps {
            world.take(step)?;
        }
        for lpa in (0..PAGES as u64).map(Lpa::new) {
            world.finish(lpa);
            for line in lines() {
                world.check_read(lpa, line)?;
            }
        }
    }
}

#[test]
fn a_pinned_page_is_never_promoted_and_its_neighbours_are() {
    let mut placement = placement(4, 2, 8).pinning(Lpa::new(2)..Lpa::new(4));
    for pinned in [2, 3] {
        let begun = placement.begin_promotion(Lpa::new(pinned));
        assert_eq!(begun, Err(Refusal::Pinned));
    }
    promote(&mut placement, Lpa::new(1), false);
    promote(&mut placement, Lpa::new(4), false);
    placement.audit();
    let stats = placement.stats();
    assert_eq!((stats.refusals_pinned, stats.promotions), (2, 2));
    assert_eq!(placement.pinned_count(), 2);
}
