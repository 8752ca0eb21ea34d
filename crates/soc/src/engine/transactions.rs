//! Transactions as the host names them, and as the firmware knows them.
//!
//! The host numbers its transactions (ByteFS §4.3: 4 B, ascending). A transaction that does not fit
//! into the log goes on under another number once the part before is committed (D21), so the name
//! that the firmware knows may differ from the host's.

use port::DeviceError;
use std::collections::BTreeMap;
use units::TxId;

/// A transaction that is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// What the firmware calls it now.
    pub name: TxId,
    /// Parts that have been committed.
    pub parts: u32,
    /// A write under the name was sent to the device, or room is reserved: the firmware may know
    /// of it.
    pub is_known: bool,
    /// A write under the name was done.
    pub has_written: bool,
    /// It may be committed in parts if the log has no room for more of it.
    pub may_split: bool,
    /// Lines for which it has reserved room.
    pub reserved: u32,
    /// The host has asked for its end.
    pub is_closing: bool,
    /// That end is an abort: its writes wait for nothing any more.
    pub is_aborting: bool,
    /// Writes of it that are not done, and its reservation.
    pub writes: u32,
    /// Requests of these that are with the device.
    pub in_flight: u32,
    /// Writes of it that wait for another transaction, or for room.
    pub waiting: u32,
    /// The write that has a part of it committed, because there is no room for more.
    pub splitter: Option<u32>,
    /// The command that ends it and waits until its writes are done.
    pub closer: Option<u32>,
}

/// All that are open.
#[derive(Clone, Debug)]
pub struct Transactions {
    open: BTreeMap<TxId, Open>,
    /// Names that the firmware has for them where these are not the host's, with the host's.
    others: BTreeMap<TxId, TxId>,
    next: u32,
    most: u32,
    /// Why there are none, if that is so.
    refusal: Option<DeviceError>,
}

impl Transactions {
    /// None; the first name is `next`. At most `most` are open at a time, and none at all if there
    /// is a reason to refuse them.
    pub fn new(next: u32, most: u32, refusal: Option<DeviceError>) -> Self {
        Self {
            open: BTreeMap::new(),
            others: BTreeMap::new(),
            next,
            most,
            refusal,
        }
    }

    /// Opens one, which may be committed in parts or not.
    ///
    /// # Errors
    /// No transactions, or too many.
    pub fn begin(&mut self, may_split: bool) -> Result<TxId, DeviceError> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let open = u32::try_from(self.open.len()).expect("bounded by most");
        if open >= self.most {
            return Err(DeviceError::TooManyTransactions { open });
        }
        let name = self.fresh_name();
        let opened = Open {
            name,
            parts: 0,
            is_known: false,
            has_written: false,
            may_split,
            reserved: 0,
            is_closing: false,
            is_aborting: false,
            writes: 0,
            in_flight: 0,
            waiting: 0,
            splitter: None,
            closer: None,
        };
        self.open.insert(name, opened);
        Ok(name)
    }

    /// How many are open.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// What is known of a transaction that the host may go on with.
    ///
    /// # Errors
    /// It is not open, or its end was asked for.
    pub fn get(&self, tx: TxId) -> Result<&Open, DeviceError> {
        self.open
            .get(&tx)
            .filter(|open| !open.is_closing)
            .ok_or(DeviceError::UnknownTransaction { tx })
    }

    /// The same, also when its end was asked for.
    pub fn get_any(&self, tx: TxId) -> &Open {
        let open = self.open.get(&tx);
        open.expect("a transaction is open until its end is known")
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, tx: TxId) -> &mut Open {
        let open = self.open.get_mut(&tx);
        open.expect("a transaction is open until its end is known")
    }

    /// The name of a transaction with the firmware.
    pub fn name(&self, tx: TxId) -> TxId {
        self.open.get(&tx).map_or(TxId::NONE, |open| open.name)
    }

    /// The open transaction that the firmware knows by this name.
    pub fn of_name(&self, name: TxId) -> Option<TxId> {
        if let Some(tx) = self.others.get(&name) {
            return Some(*tx);
        }
        let open = self.open.get(&name)?;
        (open.name == name).then_some(name)
    }

    /// Whether one of those that hold room gets on by itself: a request or a part of it is under
    /// way (the first one too, before whose answer nothing counts as written), or none of its
    /// writes waits, so that its host can end it.
    pub fn any_gets_on(&self) -> bool {
        self.open.values().any(|open| {
            let holds_room = open.has_written || open.reserved > 0;
            open.in_flight > 0 || open.splitter.is_some() || holds_room && open.waiting == 0
        })
    }

    /// Forgets a transaction.
    pub fn close(&mut self, tx: TxId) -> Open {
        let open = self.open.remove(&tx);
        let open = open.expect("a transaction is open until its end is known");
        self.others.remove(&open.name);
        open
    }

    /// Gives a transaction another name with the firmware, under which nothing was written.
    pub fn rename(&mut self, tx: TxId) {
        let name = self.fresh_name();
        let open = self.get_mut(tx);
        let before = std::mem::replace(&mut open.name, name);
        open.has_written = false;
        open.is_known = false;
        self.others.remove(&before);
        self.others.insert(name, tx);
    }

    /// A number that no open transaction has with host or firmware.
    fn fresh_name(&mut self) -> TxId {
        loop {
            let name = TxId::new(self.next);
            self.next = self.next.wrapping_add(1).max(1);
            let is_taken = self.open.contains_key(&name) || self.others.contains_key(&name);
            if name != TxId::NONE && !is_taken {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_round_and_pass_over_what_is_open_and_none() {
        let mut transactions = Transactions::new(u32::MAX, 3, None);
        let first = transactions.begin(true).unwrap();
        assert_eq!(first, TxId::new(u32::MAX));
        let second = transactions.begin(true).unwrap();
        assert_eq!(second, TxId::new(1));
        transactions.next = u32::MAX;
        transactions.rename(first);
        assert_eq!(transactions.name(first), TxId::new(2));
        assert_eq!(transactions.of_name(TxId::new(2)), Some(first));
        assert_eq!(transactions.of_name(first), None);
        assert_eq!(transactions.begin(true), Ok(TxId::new(3)));
        let full = DeviceError::TooManyTransactions { open: 3 };
        assert_eq!(transactions.begin(true), Err(full));
    }

    #[test]
    fn what_is_closed_or_closing_is_unknown() {
        let mut transactions = Transactions::new(1, 3, None);
        let tx = transactions.begin(true).unwrap();
        transactions.get_mut(tx).is_closing = true;
        assert!(transactions.get(tx).is_err());
        transactions.close(tx);
        assert_eq!(transactions.name(tx), TxId::NONE);
        let refusal = DeviceError::NoTransactions { has_log: true };
        let none = Transactions::new(1, 3, Some(refusal.clone())).begin(true);
        assert_eq!(none, Err(refusal));
    }
}
