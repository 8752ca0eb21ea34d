//! Room in the log for lines of open transactions, and what is reserved of it.

use super::{Asked, Oracle};
use firmware::Refusal;
use std::collections::BTreeSet;
use units::TxId;

impl Oracle {
    /// The lines that are open, or will be with `asked` and what is under way; of one transaction
    /// or of all.
    pub(super) fn lines_with(&self, asked: Option<&Asked>, of: Option<TxId>) -> BTreeSet<usize> {
        let is_of = |tx: TxId| of.is_none_or(|of| of == tx);
        let open = self.open.iter().filter(|(tx, _)| is_of(**tx));
        let open = open.flat_map(|(_, lines)| lines.keys().copied());
        let all = self.asked.values().chain(asked);
        let under_way = all.filter_map(|asked| match asked {
            Asked::WriteUnder(tx, lines) if is_of(*tx) => Some(lines),
            _ => None,
        });
        let under_way = under_way.flatten().map(|(line, _)| *line);
        open.chain(under_way).collect()
    }

    /// Lines that are taken: of transactions that have reserved room as many as that is, of others
    /// what is open or will be.
    pub(super) fn taken(&self, asked: Option<&Asked>) -> usize {
        let lines = self.lines_with(asked, None).len();
        let reserved = self.reserved.iter();
        reserved.fold(lines, |lines, (tx, reserved)| {
            lines + reserved - self.lines_with(asked, Some(*tx)).len().min(*reserved)
        })
    }

    pub(super) fn has_reserved(&self, tx: Option<TxId>) -> bool {
        tx.is_some_and(|tx| self.reserved.contains_key(&tx))
    }

    /// Whether the host may reserve room: nothing of the transaction is under way.
    pub fn may_reserve(&self, tx: TxId) -> bool {
        tx != TxId::NONE && self.asked.values().all(|asked| asked.tx() != Some(tx))
    }

    /// Whether there is room for a reservation.
    pub fn has_room_for(&self, tx: TxId, lines: u32) -> bool {
        let is_new = !self.open.contains_key(&tx) && !self.reserved.contains_key(&tx);
        let with = self.taken(None) + lines as usize;
        is_new && self.most_open.is_some_and(|most| with <= most)
    }

    /// What became of a reservation.
    ///
    /// # Errors
    /// A sentence, if it must not be so.
    pub fn reserve(
        &mut self,
        tx: TxId,
        lines: u32,
        answer: Result<(), Refusal>,
    ) -> Result<(), String> {
        let has_begun = self.open.contains_key(&tx)
            || self.reserved.contains_key(&tx)
            || self.in_doubt.contains(&tx);
        let has_room = self.has_room_for(tx, lines);
        let is_right = match answer {
            Ok(()) => has_room,
            Err(Refusal::Unsupported) => self.most_open.is_none(),
            Err(Refusal::NameInUse) => has_begun || self.committed.contains(&tx),
            Err(Refusal::TooLarge) => self.most_open < Some(lines as usize),
            // At a standstill lines of refused runs may be open that the host does not count.
            Err(Refusal::NoRoom) => !has_room || !self.in_doubt.is_empty(),
            Err(_) => false,
        };
        if !is_right {
            let taken = self.taken(None);
            return Err(format!(
                "room for {lines} lines of {tx} is answered with {answer:?}; {taken} are taken"
            ));
        }
        if answer.is_ok() {
            self.reserved.insert(tx, lines as usize);
        }
        Ok(())
    }
}
