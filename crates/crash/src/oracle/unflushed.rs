//! What a device may lose that nothing protects when its power goes: what was not flushed.
//!
//! Of every line the oracle then knows what it held at the last flush, and what was written since.
//! After a cut it holds one of these, never anything older. A page that was written as a whole only
//! is whole: all of its lines are of one of the writes, or none is new.

use super::Lines;
use crate::token::{Digest, Token};
use units::RequestId;

/// A write since the last flush.
#[derive(Clone, Debug)]
struct Write {
    request: RequestId,
    asked: u64,
    /// When it was answered, if it was.
    answered: Option<u64>,
    lines: Lines,
    is_whole: bool,
}

/// Writes that are perhaps not on flash, in the order in which they were asked.
#[derive(Clone, Debug, Default)]
pub struct Unflushed {
    writes: Vec<Write>,
    /// By flush that is asked for: when it was.
    flushes: Vec<(RequestId, u64)>,
    now: u64,
    /// When flash has lost the line, so that it may be poison after a cut.
    lost: Vec<Option<u64>>,
    /// Lines that were written as such, and may be in a log.
    logged: Vec<bool>,
}

impl Unflushed {
    /// Of a device that was never written.
    pub fn new(line_count: usize) -> Self {
        Self {
            lost: vec![None; line_count],
            logged: vec![false; line_count],
            ..Self::default()
        }
    }

    /// The host asks to write.
    pub fn ask(&mut self, request: RequestId, lines: Lines, is_whole: bool) {
        self.now += 1;
        if !is_whole {
            self.note_logged(&lines);
        }
        self.writes.push(Write {
            request,
            asked: self.now,
            answered: None,
            lines,
            is_whole,
        });
    }

    /// The host asks for a flush.
    pub fn ask_flush(&mut self, request: RequestId) {
        self.now += 1;
        self.flushes.push((request, self.now));
    }

    /// A write is answered. If it was written through, it and nothing older is there from now on.
    pub fn done(&mut self, request: RequestId, is_through: bool, safe: &mut [Token]) {
        self.now += 1;
        let mut open = self.writes.iter();
        let is_it = |write: &Write| write.request == request && write.answered.is_none();
        let Some(at) = open.position(is_it) else {
            return;
        };
        self.writes[at].answered = Some(self.now);
        if is_through {
            let lines = self.writes[at].lines.clone();
            self.settle(&lines, at, safe);
        }
    }

    /// A write is refused: it may be there or not, for good.
    pub fn refused(&mut self, request: RequestId) {
        self.now += 1;
        let is_it = |write: &&mut Write| write.request == request && write.answered.is_none();
        if let Some(write) = self.writes.iter_mut().find(is_it) {
            write.answered = Some(u64::MAX);
        }
    }

    /// A write is refused, and nothing of it is there.
    pub fn withdraw(&mut self, request: RequestId) {
        self.writes
            .retain(|write| write.request != request || write.answered.is_some());
    }

    /// These lines are written by themselves: a page around them need not be whole any more.
    pub fn note_logged(&mut self, lines: &Lines) {
        lines.iter().for_each(|(line, _)| self.logged[*line] = true);
    }

    /// What was written to the line before is nowhere any more.
    pub fn forget(&mut self, line: usize) {
        self.lost[line] = None;
        for write in &mut self.writes {
            write.lines.retain(|(written, _)| *written != line);
        }
    }

    /// What was written to the line last, of what is not flushed.
    pub fn newest(&self, line: usize) -> Option<Token> {
        let is_done = |write: &&Write| write.answered.is_some_and(|at| at < u64::MAX);
        let done = self.writes.iter().rev().filter(is_done);
        let mut of_line = done.flat_map(|write| &write.lines);
        let newest = of_line.find(|(written, _)| *written == line);
        newest.map(|(_, token)| *token)
    }

    /// Whether a line may hold this after a cut because of a write that was not flushed, or lost.
    pub fn may_hold(&self, line: usize, found: Token) -> bool {
        self.lost[line].is_some() && found == Token::POISON
            || self.tokens(line).any(|it| it == found)
    }

    /// A flush is answered: what was answered before it was asked is there.
    pub fn flushed(&mut self, request: RequestId, safe: &mut [Token]) {
        let is_it = |(flush, _): &(RequestId, u64)| *flush == request;
        let Some(at) = self.flushes.iter().position(is_it) else {
            return;
        };
        let (_, asked) = self.flushes.remove(at);
        for nth in 0..self.writes.len() {
            if self.writes[nth].answered.is_some_and(|at| at < asked) {
                let lines = self.writes[nth].lines.clone();
                self.settle(&lines, nth, safe);
            }
        }
        self.writes.retain(|write| !write.lines.is_empty());
    }

    /// Lines of the write at this place are there; what was written before is nowhere any more.
    fn settle(&mut self, lines: &Lines, at: usize, safe: &mut [Token]) {
        let asked = self.writes[at].asked;
        for (line, token) in lines {
            safe[*line] = *token;
            // Flash may have had it already, and lost it.
            self.lost[*line] = self.lost[*line].filter(|at| *at > asked);
        }
        for write in &mut self.writes[..=at] {
            let is_open = |(line, _): &(usize, Token)| !lines.iter().any(|(new, _)| new == line);
            write.lines.retain(is_open);
        }
    }

    /// Flash has lost the line.
    pub fn lose(&mut self, line: usize) {
        self.now += 1;
        self.lost[line] = Some(self.now);
    }

    /// Power is back: nothing is unflushed. The lines that may be poison.
    pub fn settle_on(&mut self) -> Vec<bool> {
        self.writes.clear();
        self.flushes.clear();
        self.lost.iter().map(Option::is_some).collect()
    }

    /// Whether `reading` may be what is there after a cut now, on a device of such pages.
    ///
    /// # Errors
    /// A sentence with the first line that may not hold what it does.
    pub fn judge(
        &self,
        reading: &[Token],
        safe: &[Token],
        page_lines: usize,
    ) -> Result<(), String> {
        for (line, found) in reading.iter().enumerate() {
            let is_poison = self.lost[line].is_some() && *found == Token::POISON;
            if !is_poison && *found != safe[line] && !self.tokens(line).any(|it| it == *found) {
                let safe = safe[line];
                return Err(format!(
                    "line {line} holds {found}; at the last flush it held {safe}, and {found} was \
                     not written since"
                ));
            }
        }
        self.judge_pages(reading, safe, page_lines)
    }

    /// Whether pages are whole that were only written as a whole.
    ///
    /// # Errors
    /// A sentence with the first line of one that is not.
    pub fn judge_pages(
        &self,
        reading: &[Token],
        safe: &[Token],
        page_lines: usize,
    ) -> Result<(), String> {
        let pages = (0..reading.len()).step_by(page_lines.max(1));
        let mut torn = pages.filter(|first| {
            let page = *first..*first + page_lines;
            !page.clone().any(|line| self.logged[line]) && !self.is_whole(reading, safe, page)
        });
        torn.next().map_or(Ok(()), |first| {
            Err(format!(
                "the page of line {first} is of no one of the writes of the whole page"
            ))
        })
    }

    /// What was written to the line.
    fn tokens(&self, line: usize) -> impl Iterator<Item = Token> {
        let lines = self.writes.iter().flat_map(|write| &write.lines);
        let of_line = lines.filter(move |(written, _)| *written == line);
        of_line.map(|(_, token)| *token)
    }

    /// Whether a page that was only written as a whole is of one write.
    fn is_whole(&self, reading: &[Token], safe: &[Token], page: core::ops::Range<usize>) -> bool {
        let touches = |write: &&Write| write.lines.iter().any(|(line, _)| page.contains(line));
        let writes: Vec<&Write> = self.writes.iter().filter(touches).collect();
        if writes.iter().any(|write| !write.is_whole) {
            return true;
        }
        let may_be = |line: usize, token: Token| {
            reading[line] == token || self.lost[line].is_some() && reading[line] == Token::POISON
        };
        page.clone().all(|line| may_be(line, safe[line]))
            || writes.iter().any(|write| {
                let mut lines = write.lines.iter();
                lines.all(|(line, token)| may_be(*line, *token))
            })
    }

    /// Adds everything that [`Unflushed::judge`] looks at to a digest.
    pub fn digest(&self, digest: &mut Digest) {
        for write in &self.writes {
            digest.add(u64::from(write.is_whole));
            for (line, token) in &write.lines {
                digest.add(*line as u64);
                digest.add(token.get().into());
            }
        }
        for (line, _) in self
            .lost
            .iter()
            .enumerate()
            .filter(|(_, lost)| lost.is_some())
        {
            digest.add(line as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: RequestId = RequestId::new(0);
    const OTHER: RequestId = RequestId::new(1);
    const FLUSH: RequestId = RequestId::new(2);

    struct PlatformStack {
        unflushed: Unflushed,
        safe: Vec<Token>,
    }

    impl PlatformStack {
        fn new() -> Self {
            Self {
                unflushed: Unflushed::new(4),
                safe: vec![Token::ZERO; 4],
            }
        }
        fn ask(&mut self, id: RequestId, lines: &[(usize, u32)]) {
            let tokens = lines
                .iter()
                .map(|(line, token)| (*line, Token::new(*token)));
            let lines: Lines = tokens.collect();
            let is_whole = lines.len() == 2;
            self.unflushed.ask(id, lines, is_whole);
        }
        fn done(&mut self, id: RequestId, is_through: bool) {
            self.unflushed.done(id, is_through, &mut self.safe);
        }
        fn flush(&mut self) {
            self.unflushed.flushed(FLUSH, &mut self.safe);
        }
        /// Pages have two lines.
        fn may_be(&self, reading: [u32; 4]) -> bool {
            let reading = reading.map(Token::new);
            self.unflushed.judge(&reading, &self.safe, 2).is_ok()
        }
    }

    #[test]
    fn what_was_not_flushed_may_be_gone_and_what_was_may_not() {
        let mut platform = PlatformStack::new();
        platform.ask(WRITE, &[(0, 5), (1, 6)]);
        platform.done(WRITE, false);
        assert!(platform.may_be([0; 4]) && platform.may_be([5, 6, 0, 0]));
        assert!(!platform.may_be([5, 0, 0, 0]), "half of a page");
        assert!(!platform.may_be([7, 6, 0, 0]), "what was never written");
        platform.unflushed.ask_flush(FLUSH);
        platform.ask(OTHER, &[(0, 7), (1, 8)]);
        platform.done(OTHER, false);
        platform.flush();
        assert!(platform.may_be([5, 6, 0, 0]) && platform.may_be([7, 8, 0, 0]));
        assert!(!platform.may_be([0; 4]), "older than the flush");
        platform.unflushed.ask_flush(FLUSH);
        platform.flush();
        assert!(
            !platform.may_be([5, 6, 0, 0]),
            "older than the second flush"
        );
    }

    #[test]
    fn what_is_written_through_is_there_and_nothing_older() {
        let mut platform = PlatformStack::new();
        platform.ask(WRITE, &[(0, 5), (1, 6)]);
        platform.done(WRITE, false);
        platform.ask(OTHER, &[(0, 7), (1, 8)]);
        assert!(platform.may_be([5, 6, 0, 0]));
        platform.done(OTHER, true);
        assert!(platform.may_be([7, 8, 0, 0]));
        assert!(!platform.may_be([5, 6, 0, 0]) && !platform.may_be([0; 4]));
    }

    #[test]
    fn lines_are_old_or_new_each_for_itself() {
        let mut platform = PlatformStack::new();
        platform.ask(WRITE, &[(2, 5)]);
        platform.ask(OTHER, &[(3, 6)]);
        for reading in [[0, 0, 5, 0], [0, 0, 0, 6], [0, 0, 5, 6]] {
            assert!(platform.may_be(reading), "{reading:?}");
        }
        platform.unflushed.ask_flush(FLUSH);
        platform.done(WRITE, false);
        platform.flush();
        assert!(
            platform.may_be([0; 4]),
            "it was not answered when the flush was asked for"
        );
    }

    #[test]
    fn a_lost_line_may_be_poison_until_something_newer_is_flushed() {
        let mut platform = PlatformStack::new();
        let poison = [Token::POISON, Token::ZERO, Token::ZERO, Token::ZERO];
        let judge =
            |platform: &PlatformStack| platform.unflushed.judge(&poison, &platform.safe, 2).is_ok();
        assert!(!judge(&platform));
        platform.unflushed.lose(0);
        platform.ask(WRITE, &[(0, 5)]);
        platform.done(WRITE, false);
        assert!(judge(&platform));
        platform.unflushed.ask_flush(FLUSH);
        platform.flush();
        assert!(!judge(&platform));
    }
}
