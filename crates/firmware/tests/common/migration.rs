//! The stay of a page in host DRAM: promotion line by line, and the way home.

use super::{HOST_PAGES, HostPage, Lab, Stage};
use firmware::RequestOp;
use firmware::log_index::LogIndex;
use units::Lpa;

impl<I: LogIndex> Lab<I> {
    pub(super) fn start_promotion(&mut self, lpa: u64) {
        let count = usize::from(self.page.line_count());
        let page = HostPage {
            stage: Stage::Promoting(0),
            lines: vec![0; count],
            is_copied: vec![false; count],
            is_dirty: false,
        };
        self.host_pages.insert(lpa, page);
    }

    /// Starts, carries on or ends the stay of a page in host DRAM.
    pub(super) fn migrate(&mut self) -> bool {
        let count = self.host_pages.len() as u64;
        if count < HOST_PAGES as u64 && self.random.below(40) == 0 {
            let line = self.pick_line();
            let (lpa, _) = self.split(line);
            let is_new = !self.is_at_host(lpa);
            if is_new {
                self.start_promotion(lpa);
            }
            return is_new;
        }
        if count == 0 {
            return false;
        }
        let nth = self.random.below(count) as usize;
        let lpa = *self
            .host_pages
            .keys()
            .nth(nth)
            .expect("there are that many");
        let goes_home = self.random.below(16) == 0;
        self.advance_page(lpa, goes_home)
    }

    /// The next step of the stay of a page; says whether it could be done.
    pub(super) fn advance_page(&mut self, lpa: u64, goes_home: bool) -> bool {
        let line_count = self.page.line_count();
        let first_line = lpa * u64::from(line_count);
        let page = &self.host_pages[&lpa];
        match page.stage {
            Stage::Promoting(next) if next < line_count => {
                let line = first_line + u64::from(next);
                let is_sent = self.send(line, RequestOp::PromotionRead, 0);
                self.set_stage(lpa, Stage::Promoting(next + u16::from(is_sent)));
                is_sent
            }
            Stage::Promoting(_) => self.finish_promotion(lpa, first_line),
            Stage::Here if !goes_home => false,
            Stage::Here if page.is_dirty => {
                self.set_stage(lpa, Stage::Demoting(0));
                true
            }
            Stage::Here => {
                self.clean_demotions += 1;
                self.host_pages.remove(&lpa);
                true
            }
            Stage::Demoting(next) if next < line_count => {
                let token = page.lines[usize::from(next)];
                let is_sent = self.send(first_line + u64::from(next), RequestOp::Write, token);
                self.set_stage(lpa, Stage::Demoting(next + u16::from(is_sent)));
                is_sent
            }
            Stage::Demoting(_) if self.is_busy(first_line) => false,
            Stage::Demoting(_) => {
                self.host_pages.remove(&lpa);
                true
            }
        }
    }

    fn set_stage(&mut self, lpa: u64, stage: Stage) {
        self.host_pages
            .get_mut(&lpa)
            .expect("it is at the host")
            .stage = stage;
    }

    /// Whether a request for a line of the page is outstanding.
    fn is_busy(&self, first_line: u64) -> bool {
        let lines = first_line as usize..first_line as usize + usize::from(self.page.line_count());
        lines
            .into_iter()
            .any(|line| self.has_writer[line] || self.readers[line] > 0)
    }

    fn finish_promotion(&mut self, lpa: u64, first_line: u64) -> bool {
        if self.is_busy(first_line) {
            return false;
        }
        let page = Lpa::new(lpa);
        let differs = self
            .controller
            .on_promotion_done(self.now, page, &mut self.bench);
        let page = self
            .host_pages
            .get_mut(&lpa)
            .expect("it is under promotion");
        page.is_dirty |= differs;
        page.stage = Stage::Here;
        self.take_answers();
        true
    }
}
