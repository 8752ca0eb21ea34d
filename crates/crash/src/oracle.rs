//! What the host may find after a power cut.
//!
//! Of every line the oracle knows what a read returns now, and what is there after a cut. A write
//! that was answered is there. One that was not is there or not, line by line; of a page write,
//! the page as a whole. Lines of a transaction are there once its commit was answered; before the
//! commit was asked for, none of them is; in between, all or none. Nothing else is ever there.

mod asked;
mod room;
mod unflushed;

use crate::token::{Digest, Token};
use firmware::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use unflushed::Unflushed;
use units::{RequestId, TxId};

pub use asked::{Asked, Lines};

/// The oracle.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// What a read returns.
    seen: Vec<Token>,
    /// What is there after a cut, but for what was asked and not answered.
    safe: Vec<Token>,
    /// When flash has lost the line, so that it may be poison instead.
    lost: Vec<Option<u64>>,
    /// When what is asked was.
    asked_at: BTreeMap<RequestId, u64>,
    /// Losses and requests so far.
    clock: u64,
    asked: BTreeMap<RequestId, Asked>,
    /// Transactions that have begun, and what was written under them.
    open: BTreeMap<TxId, BTreeMap<usize, Token>>,
    /// A program or erase has failed, or power cuts have used up room: the device may refuse
    /// writes.
    has_failed: bool,
    /// Of runs that were refused while they waited for room: what their lines may be instead.
    maybe: BTreeMap<usize, Vec<Token>>,
    /// Transactions of which such a run was: perhaps they have begun with it.
    in_doubt: BTreeSet<TxId>,
    /// Of a device without protection against power loss; with the lines of a page.
    unflushed: Option<(Unflushed, usize)>,
    /// Of such a device: lines that were answered are there, and pages alone may be lost.
    keeps_lines: bool,
    /// Those that were committed at some time, or may have been.
    committed: BTreeSet<TxId>,
    /// Lines that transactions have reserved room for.
    reserved: BTreeMap<TxId, usize>,
    /// Lines that may be open at a time; none: the device has no transactions.
    most_open: Option<usize>,
}

impl Oracle {
    /// A device that was never written, which lets at most `most_open` lines be open at a time;
    /// none: it has no transactions.
    pub fn new(line_count: usize, most_open: Option<usize>) -> Self {
        Self {
            seen: vec![Token::ZERO; line_count],
            safe: vec![Token::ZERO; line_count],
            lost: vec![None; line_count],
            asked_at: BTreeMap::new(),
            clock: 0,
            asked: BTreeMap::new(),
            open: BTreeMap::new(),
            has_failed: false,
            maybe: BTreeMap::new(),
            in_doubt: BTreeSet::new(),
            unflushed: None,
            keeps_lines: false,
            committed: BTreeSet::new(),
            reserved: BTreeMap::new(),
            most_open,
        }
    }

    /// Of a device that loses what is not flushed, with that many lines to a page.
    pub fn unprotected(self, page_lines: usize) -> Self {
        let unflushed = Unflushed::new(self.seen.len());
        Self {
            unflushed: Some((unflushed, page_lines)),
            ..self
        }
    }

    /// Of a device that loses pages that are not flushed and keeps lines, with that many lines to a
    /// page.
    pub fn with_safe_log(self, page_lines: usize) -> Self {
        let keeps_lines = true;
        Self {
            keeps_lines,
            ..self.unprotected(page_lines)
        }
    }

    /// What a read of every line returns.
    pub fn seen(&self) -> &[Token] {
        &self.seen
    }

    /// Whether a read of a line may return this.
    pub fn may_read(&self, line: usize, found: Token) -> bool {
        found == self.seen[line] || self.is_instead(line, found)
    }

    /// Whether a line that nobody is writing may hold this after a cut.
    fn may_hold(&self, line: usize, found: Token) -> bool {
        let unflushed = self.unflushed.as_ref();
        let is_unflushed = unflushed.is_some_and(|(unflushed, _)| unflushed.may_hold(line, found));
        found == self.safe[line] || is_unflushed || self.is_instead(line, found)
    }

    fn is_instead(&self, line: usize, found: Token) -> bool {
        let maybe = self.maybe.get(&line);
        self.lost[line].is_some() && found == Token::POISON
            || maybe.is_some_and(|tokens| tokens.contains(&found))
    }

    /// Flash has lost the line: it may be poison until it is written.
    pub fn lose(&mut self, line: usize) {
        self.clock += 1;
        self.lost[line] = Some(self.clock);
        if let Some((unflushed, _)) = &mut self.unflushed {
            unflushed.lose(line);
        }
    }

    /// A program or an erase has failed, or flash has no room left after power cuts.
    pub fn fail(&mut self) {
        self.has_failed = true;
    }

    /// Whether [`Oracle::fail`] was called.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether nothing is asked for.
    pub fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// The open transaction that has written the line last, if one has.
    pub fn holder_of(&self, line: usize) -> Option<TxId> {
        let mut open = self.open.iter();
        let held = open.find(|(_, lines)| lines.contains_key(&line));
        held.map(|(tx, _)| *tx)
    }

    /// The open transaction that keeps the host from writing this, if one does.
    fn holder_against(&self, asked: &Asked) -> Option<TxId> {
        let mut lines = asked.written().iter();
        lines.find_map(|(line, _)| {
            let holder = self.holder_of(*line);
            holder.filter(|holder| Some(*holder) != asked.tx())
        })
    }

    /// Whether the host may ask now: never for a line that is being written, or to write one that
    /// is being read; nothing under a transaction while its end is asked for.
    pub fn may_ask(&self, asked: &Asked) -> bool {
        self.asked.values().all(|before| {
            let same_tx = asked.tx().is_some() && asked.tx() == before.tx();
            let ends = matches!(before, Asked::Commit(_) | Asked::Abort(_))
                || matches!(asked, Asked::Commit(_) | Asked::Abort(_));
            let collides = match asked {
                Asked::Read { first, count } => {
                    let written = before.written().iter();
                    written
                        .into_iter()
                        .any(|(line, _)| (*first..first + count).contains(line))
                }
                _ => asked
                    .written()
                    .iter()
                    .any(|(line, _)| before.touches(*line)),
            };
            !(collides || same_tx && ends)
        })
    }

    /// The host asks.
    pub fn ask(&mut self, id: RequestId, asked: Asked) {
        self.clock += 1;
        self.asked_at.insert(id, self.clock);
        if let Some((unflushed, _)) = &mut self.unflushed {
            match &asked {
                Asked::Write {
                    lines, is_whole, ..
                } => unflushed.ask(id, lines.clone(), *is_whole),
                Asked::WriteUnder(_, lines) => unflushed.note_logged(lines),
                Asked::Flush => unflushed.ask_flush(id),
                _ => {}
            }
        }
        let before = self.asked.insert(id, asked);
        assert!(before.is_none(), "{id} is asked once");
    }

    /// What was asked is answered and done.
    ///
    /// # Errors
    /// A sentence, if it was not asked or should have been refused.
    pub fn done(&mut self, id: RequestId) -> Result<Asked, String> {
        let asked = self.take(id)?;
        if asked.tx().is_some() && self.most_open.is_none() {
            return Err(format!("{id} is done on a device without transactions"));
        }
        if let Some(holder) = self.holder_against(&asked) {
            return Err(format!(
                "{id} writes lines that {holder} holds, which is open, and is not refused"
            ));
        }
        let asked_at = self.asked_at.remove(&id).unwrap_or(0);
        match &asked {
            Asked::Read { .. } => {}
            Asked::Flush => {
                if let Some((unflushed, _)) = &mut self.unflushed {
                    unflushed.flushed(id, &mut self.safe);
                }
            }
            Asked::Write {
                lines,
                is_through,
                is_whole,
            } => {
                for (line, token) in lines {
                    self.seen[*line] = *token;
                    // Flash may have had it already, and lost it.
                    self.lost[*line] = self.lost[*line].filter(|at| *at > asked_at);
                    self.maybe.remove(line);
                }
                match &mut self.unflushed {
                    Some((unflushed, _)) => {
                        let is_safe = *is_through || self.keeps_lines && !is_whole;
                        unflushed.done(id, is_safe, &mut self.safe);
                    }
                    None => lines
                        .iter()
                        .for_each(|(line, token)| self.safe[*line] = *token),
                }
            }
            Asked::WriteUnder(tx, lines) => {
                for (line, token) in lines {
                    self.seen[*line] = *token;
                }
                let written = self.open.entry(*tx).or_default();
                written.extend(lines.iter().copied());
                let open = self.taken(None);
                if self.most_open < Some(open) {
                    return Err(format!("{id} makes {open} lines open and is not refused"));
                }
                let of_tx = self.open[tx].len();
                if self.reserved.get(tx).is_some_and(|lines| *lines < of_tx) {
                    return Err(format!(
                        "{id} is line {of_tx} of {tx}, which has reserved fewer"
                    ));
                }
            }
            Asked::Commit(tx) => {
                self.committed.insert(*tx);
                for (line, token) in self.end(id, *tx)? {
                    self.safe[line] = token;
                    self.lost[line] = None;
                    if let Some((unflushed, _)) = &mut self.unflushed {
                        unflushed.forget(line);
                    }
                }
            }
            Asked::Abort(tx) => {
                for (line, _) in self.end(id, *tx)? {
                    let unflushed = self.unflushed.as_ref();
                    let newest = unflushed.and_then(|(unflushed, _)| unflushed.newest(line));
                    self.seen[line] = newest.unwrap_or(self.safe[line]);
                }
            }
        }
        Ok(asked)
    }

    /// What was asked is refused: nothing of it is done.
    ///
    /// # Errors
    /// A sentence, if it was not asked or there is no such reason.
    pub fn refused(&mut self, id: RequestId, why: Refusal) -> Result<Asked, String> {
        let asked = self.take(id)?;
        let tx = asked.tx();
        let is_right = match why {
            Refusal::Conflict { with } => self.holder_against(&asked) == Some(with),
            Refusal::UnknownTransaction => tx
                .is_some_and(|tx| !self.open.contains_key(&tx) && !self.reserved.contains_key(&tx)),
            Refusal::NameInUse => tx.is_some_and(|tx| self.committed.contains(&tx)),
            Refusal::TooLarge => {
                !self.has_reserved(tx)
                    && self.most_open < Some(self.lines_with(Some(&asked), tx).len())
            }
            Refusal::NoRoom => {
                !self.has_reserved(tx) && self.most_open < Some(self.taken(Some(&asked)))
            }
            Refusal::BeyondReservation => tx.is_some_and(|tx| {
                let with = self.lines_with(Some(&asked), Some(tx)).len();
                let is_beyond = self.reserved.get(&tx).is_some_and(|lines| *lines < with);
                is_beyond || self.in_doubt.contains(&tx)
            }),
            Refusal::Unsupported => tx.is_some() && self.most_open.is_none(),
            Refusal::ReadOnly => {
                let changes = matches!(asked, Asked::Commit(_) | Asked::Flush);
                self.doubt(id, &asked);
                self.has_failed && (changes || !asked.written().is_empty())
            }
            _ => false,
        };
        if why != Refusal::ReadOnly
            && let Some((unflushed, _)) = &mut self.unflushed
        {
            unflushed.withdraw(id);
        }
        match is_right {
            true => Ok(asked),
            false => Err(format!(
                "{id} is refused: {why:?}, and {asked:?} is no reason"
            )),
        }
    }

    /// A write was refused by a device that only reads, perhaps while it waited for room: of a run
    /// some lines may be there; and a page that was to be on flash, if nothing protects buffers.
    fn doubt(&mut self, id: RequestId, asked: &Asked) {
        if let Some((unflushed, _)) = &mut self.unflushed {
            unflushed.refused(id);
        }
        let is_whole = matches!(asked, Asked::Write { is_whole: true, .. });
        let may_be_there = !is_whole || self.unflushed.is_some();
        let lines = asked.written();
        if may_be_there && lines.len() > 1 {
            if let Asked::WriteUnder(tx, _) = asked {
                self.in_doubt.insert(*tx);
            }
            for (line, token) in lines {
                self.maybe.entry(*line).or_default().push(*token);
            }
        }
    }

    fn take(&mut self, id: RequestId) -> Result<Asked, String> {
        let asked = self.asked.remove(&id);
        asked.ok_or_else(|| format!("{id} is answered although nothing is asked by that name"))
    }

    fn end(&mut self, id: RequestId, tx: TxId) -> Result<BTreeMap<usize, Token>, String> {
        let is_in_doubt = self.in_doubt.remove(&tx);
        let lines = self.open.remove(&tx);
        let has_reserved = self.reserved.remove(&tx).is_some();
        let has_begun = is_in_doubt || has_reserved;
        let lines = lines.or_else(|| has_begun.then(BTreeMap::new));
        lines.ok_or_else(|| format!("{id} ends {tx}, which is not open, and is not refused"))
    }

    /// Whether `reading` may be what is there after a cut now.
    ///
    /// # Errors
    /// A sentence with the first line that may not hold what it does.
    pub fn judge(&self, reading: &[Token]) -> Result<(), String> {
        if let Some((unflushed, page_lines)) = &self.unflushed
            && !self.keeps_lines
        {
            return unflushed.judge(reading, &self.safe, *page_lines);
        }
        let mut is_free = vec![false; reading.len()];
        for asked in self.asked.values() {
            match asked {
                Asked::Write {
                    lines, is_whole, ..
                } => {
                    // Its lines in the log leave it one after the other, when it is on flash.
                    let is_whole = *is_whole && !self.keeps_lines;
                    self.judge_lines(reading, lines.iter().copied(), is_whole)?;
                    lines.iter().for_each(|(line, _)| is_free[*line] = true);
                }
                Asked::Commit(tx) => {
                    let lines = self.open.get(tx).into_iter().flatten();
                    let lines = lines.map(|(line, token)| (*line, *token));
                    self.judge_lines(reading, lines.clone(), true)
                        .map_err(|what| format!("of the transaction {}, {what}", tx.get()))?;
                    lines.for_each(|(line, _)| is_free[line] = true);
                }
                _ => {}
            }
        }
        let wrong = (0..reading.len())
            .find(|line| !is_free[*line] && !self.may_hold(*line, reading[*line]));
        if let Some(line) = wrong {
            let (found, safe) = (reading[line], self.safe[line]);
            return Err(format!("line {line} holds {found}; it must hold {safe}"));
        }
        match &self.unflushed {
            Some((unflushed, page_lines)) => {
                unflushed.judge_pages(reading, &self.safe, *page_lines)
            }
            None => Ok(()),
        }
    }

    fn judge_lines(
        &self,
        reading: &[Token],
        lines: impl Iterator<Item = (usize, Token)>,
        is_whole: bool,
    ) -> Result<(), String> {
        let (mut new, mut old) = (None, None);
        for (line, token) in lines {
            let (found, safe) = (reading[line], self.safe[line]);
            if found != token && !self.may_hold(line, found) {
                return Err(format!(
                    "line {line} holds {found}; it may hold {safe} or {token}"
                ));
            }
            // A line that holds the same before and after says nothing.
            if token != safe {
                *(if found == token { &mut new } else { &mut old }) = Some(line);
            }
        }
        match (new, old) {
            (Some(new), Some(old)) if is_whole => Err(format!(
                "line {new} is new and line {old} is old; all or none may be new"
            )),
            _ => Ok(()),
        }
    }

    /// Power is back: what was found is what is there, and nothing is asked or open.
    pub fn settle_on(&mut self, reading: &[Token]) {
        self.seen.copy_from_slice(reading);
        self.safe.copy_from_slice(reading);
        let ended = std::mem::take(&mut self.asked).into_values();
        self.committed.extend(ended.filter_map(|asked| match asked {
            Asked::Commit(tx) => Some(tx),
            _ => None,
        }));
        self.open.clear();
        self.reserved.clear();
        self.maybe.clear();
        if let Some((unflushed, _)) = &mut self.unflushed {
            let lost = unflushed.settle_on();
            let now = self.clock;
            self.lost = lost.iter().map(|lost| lost.then_some(now)).collect();
        }
    }

    /// Adds everything that [`Oracle::judge`] looks at to a digest.
    pub fn digest(&self, digest: &mut Digest) {
        digest.add_tokens(&self.safe);
        if let Some((unflushed, _)) = &self.unflushed {
            unflushed.digest(digest);
        }
        for (line, _) in self
            .lost
            .iter()
            .enumerate()
            .filter(|(_, lost)| lost.is_some())
        {
            digest.add(line as u64);
        }
        for (line, tokens) in &self.maybe {
            digest.add(*line as u64);
            digest.add_tokens(tokens);
        }
        for asked in self.asked.values() {
            let (kind, lines): (u64, Lines) = match asked {
                Asked::Write {
                    lines, is_whole, ..
                } => (u64::from(*is_whole), lines.clone()),
                Asked::Commit(tx) => {
                    let lines = self.open.get(tx).into_iter().flatten();
                    (2, lines.map(|(line, token)| (*line, *token)).collect())
                }
                _ => continue,
            };
            digest.add(kind);
            for (line, token) in lines {
                digest.add(line as u64);
                digest.add(token.get().into());
            }
        }
    }
}

#[cfg(test)]
mod tests;
