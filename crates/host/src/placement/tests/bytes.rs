//! The last write is read, at every moment of every move: against the bytes themselves.

use super::*;
use proptest::prelude::*;

const PAGES: usize = 8;
type Page = [u32; LINES as usize];

/// The bytes themselves, as version numbers: of flash, of the device's DRAM over it, of host
/// DRAM, and of every copy that is under way.
pub(super) struct Model {
    pub(super) placement: Placement,
    mover: Mover,
    newest: [Page; PAGES],
    device: [Page; PAGES],
    flash: [Page; PAGES],
    pub(super) host: Vec<Page>,
    /// Copies under way: page, line, version read at the source.
    copies: Vec<(Lpa, LineInPage, u32)>,
    versions: u32,
}

/// Who moves pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mover {
    Lookaside,
    /// The operating system, and the device does not know.
    Locking,
    Sets,
    Huge,
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

impl Model {
    fn new(mover: Mover) -> Self {
        let placement = match mover {
            Mover::Lookaside => placement(4, 2, PAGES as u64),
            Mover::Locking => locking(4, 2, PAGES as u64),
            Mover::Sets => in_sets(4, 2, PAGES as u64),
            Mover::Huge => huge(2, 2, PAGES as u64),
        };
        Self {
            placement: match mover {
                // Nodes are not simulated with huge pages.
                Mover::Huge => placement,
                _ => placement.on_nodes(2, NodeId::new(0)),
            },
            mover,
            newest: [[0; LINES as usize]; PAGES],
            device: [[0; LINES as usize]; PAGES],
            flash: [[0; LINES as usize]; PAGES],
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
        (self.placement.direction(lpa), self.placement.host_page(lpa))
    }
    /// A copy under way of a page's line.
    fn copy_of(&self, lpa: Lpa) -> Option<usize> {
        let chunks: Vec<Lpa> = self.placement.chunks(lpa).collect();
        self.copies.iter().position(|copy| chunks.contains(&copy.0))
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
        let Some((lpa, line)) = self
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
        while let Some(chosen) = self.copy_of(lpa) {
            self.end_copy(chosen);
        }
        loop {
            self.start_copy(lpa);
            let Some(chosen) = self.copy_of(lpa) else {
                break;
            };
            self.end_copy(chosen);
        }
        let pages = self.placement.chunks(lpa).map(|chunk| chunk.get() as usize);
        match self.direction(lpa).0 {
            Direction::Promotion if self.mover == Mover::Locking => {
                self.placement.finish_promotion(lpa, true);
            }
            Direction::Promotion => {
                let mut was_dirty = false;
                for page in pages {
                    was_dirty |= self.device[page] != self.flash[page];
                    // The device drops frame and log lines; flash keeps what it had.
                    self.device[page] = self.flash[page];
                }
                self.placement.finish_promotion(lpa, was_dirty);
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
            Step::Move(lpa, node) if self.mover != Mover::Huge => {
                self.begin_move(Lpa::new(lpa), node);
            }
            Step::Move(..) => {}
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
        mover in prop::sample::select(vec![
            Mover::Lookaside,
            Mover::Locking,
            Mover::Sets,
            Mover::Huge,
        ]),
    ) {
        let mut model = Model::new(mover);
        for step in steps {
            model.take(step)?;
        }
        for lpa in (0..PAGES as u64).map(Lpa::new) {
            model.finish(lpa);
            for line in lines() {
                model.check_read(lpa, line)?;
            }
        }
    }
}
