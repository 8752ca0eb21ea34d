//! Requests of pages, of runs and without an address: what the block port and the byte port send.

use super::Lab;
use crate::common::Token;
use firmware::log_index::LogIndex;
use firmware::{PagePlace, RequestOp, Response};
use units::TxId;

impl<I: LogIndex> Lab<I> {
    /// Tokens for the lines of a page.
    pub(super) fn tokens(&mut self) -> Token {
        let first = self.next_token;
        self.next_token += u64::from(self.page.line_count());
        first
    }

    /// A read, write or trim of a whole page; a written page has a token and those after it.
    pub(super) fn access_page(&mut self) -> bool {
        let line = self.pick_line();
        let (lpa, in_page) = self.split(line);
        if self.is_at_host(lpa) {
            return false;
        }
        let token = self.tokens();
        let op = match self.random.below(16) {
            0..8 => RequestOp::ReadPage,
            8..12 => RequestOp::WritePage,
            12..15 => RequestOp::WritePageThrough,
            _ => RequestOp::Trim,
        };
        self.send(line - in_page as u64, op, token)
    }

    /// A read or write of a run, of any length; or a flush.
    pub(super) fn access_run(&mut self) -> bool {
        let line = self.pick_line();
        let (lpa, in_page) = self.split(line);
        if self.is_at_host(lpa) {
            return false;
        }
        let token = self.tokens();
        let most = u64::from(self.page.line_count()) - in_page as u64;
        let count = (1 + self.random.below(most)) as u16;
        let op = match self.random.below(16) {
            0..7 => RequestOp::ReadRun { count },
            7..15 => RequestOp::WriteRun {
                count,
                tx: TxId::NONE,
            },
            _ => RequestOp::Flush,
        };
        self.send(line, op, token)
    }

    /// Lines that were written, or given up, are so from now on.
    pub(super) fn take_written(&mut self, line: u64, op: RequestOp, token: Token) {
        for (nth, index) in self.lines_of(line, op).enumerate() {
            if op.transaction() != TxId::NONE {
                self.note_write(op.transaction(), index);
            }
            self.model[index] = match op {
                RequestOp::Trim => 0,
                _ => token + nth as u64,
            };
            self.has_writer[index] = false;
            self.doubts[index].clear();
        }
        self.take_end(op);
    }

    /// A write was refused for good. Lines of a run may be there.
    pub(super) fn take_read_only(&mut self, line: u64, op: RequestOp, token: Token) {
        self.refused_writes += 1;
        for (nth, index) in self.lines_of(line, op).enumerate() {
            self.has_writer[index] = false;
            if let RequestOp::WriteRun { tx, .. } = op {
                self.doubts[index].insert(token + nth as u64);
                if tx != TxId::NONE {
                    self.note_write(tx, index);
                }
            }
        }
        self.end_refused(op);
    }

    /// The payload of a page or run is what was written last.
    pub(super) fn check_lines(&mut self, line: u64, op: RequestOp, response: Response) {
        match op {
            RequestOp::ReadPage => self.checked_page_reads += 1,
            _ => self.checked_run_reads += 1,
        }
        let lines = self.lines_of(line, op);
        let got = self.bench.page(PagePlace::Host(response.request)).clone();
        for (index, got) in lines.zip(got) {
            let expected = self.model[index];
            assert!(
                self.is_right(index, got),
                "line {index} is {got} and not {expected}, which was written last: {response:?}"
            );
        }
    }
}
