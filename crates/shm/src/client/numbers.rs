//! Numbers of transactions: a connection has all of them for itself.
//!
//! So a transaction begins without the server, which hears of it with its first write or
//! reservation. The server knows those that it has heard of; which have begun and not ended is
//! known here.

use port::{DeviceError, TxLimits};
use std::collections::BTreeMap;
use units::TxId;

/// A transaction that has begun.
#[derive(Clone, Copy, Debug)]
struct Begun {
    may_split: bool,
    /// Its end was asked for, and may not have been submitted.
    is_closing: bool,
}

/// Those that have begun and whose end was not submitted.
#[derive(Debug)]
pub struct Numbers {
    begun: BTreeMap<TxId, Begun>,
    next: u32,
}

impl Numbers {
    pub fn new() -> Self {
        Self {
            begun: BTreeMap::new(),
            next: 1,
        }
    }

    /// A transaction begins.
    ///
    /// # Errors
    /// As many are open as the device takes.
    pub fn open(&mut self, may_split: bool, limits: TxLimits) -> Result<TxId, DeviceError> {
        let open = self.begun.len();
        if open >= limits.open as usize {
            return Err(DeviceError::TooManyTransactions { open: limits.open });
        }
        loop {
            let tx = TxId::new(self.next);
            self.next = self.next.wrapping_add(1);
            if tx != TxId::NONE && !self.begun.contains_key(&tx) {
                let begun = Begun {
                    may_split,
                    is_closing: false,
                };
                self.begun.insert(tx, begun);
                return Ok(tx);
            }
        }
    }

    /// A request of a transaction is made; `ends` says whether it ends it.
    ///
    /// # Errors
    /// It is not open, or its end was asked for.
    pub fn ask(&mut self, tx: TxId, ends: bool) -> Result<(), DeviceError> {
        let begun = self.begun.get_mut(&tx);
        let begun = begun.filter(|begun| !begun.is_closing);
        let begun = begun.ok_or(DeviceError::UnknownTransaction { tx })?;
        begun.is_closing = ends;
        Ok(())
    }

    /// A request of a transaction is submitted; says whether the transaction may be split.
    ///
    /// # Errors
    /// It was abandoned meanwhile.
    pub fn submit(&mut self, tx: TxId, ends: bool) -> Result<bool, DeviceError> {
        let begun = match ends {
            true => self.begun.remove(&tx),
            false => self.begun.get(&tx).copied(),
        };
        let begun = begun.ok_or(DeviceError::UnknownTransaction { tx })?;
        Ok(begun.may_split)
    }

    /// Nobody goes on with a transaction; says whether there was one whose end was not asked for.
    pub fn abandon(&mut self, tx: TxId) -> bool {
        let is_open = self.begun.get(&tx).is_some_and(|begun| !begun.is_closing);
        is_open && self.forget(tx)
    }

    /// The end of a transaction was asked for and will not be submitted; says whether there was
    /// such a one.
    pub fn forget(&mut self, tx: TxId) -> bool {
        self.begun.remove(&tx).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TxLimits = TxLimits { open: 2, lines: 9 };

    #[test]
    fn numbers_go_round_past_none_and_what_is_open() {
        let mut numbers = Numbers::new();
        let first = numbers.open(true, LIMITS).unwrap();
        numbers.next = u32::MAX;
        let second = numbers.open(true, LIMITS).unwrap();
        let full = DeviceError::TooManyTransactions { open: 2 };
        assert_eq!(numbers.open(true, LIMITS), Err(full));
        assert!(numbers.abandon(second) && !numbers.abandon(second));
        assert_eq!((first, second), (TxId::new(1), TxId::new(u32::MAX)));
        assert_eq!(numbers.open(true, LIMITS), Ok(TxId::new(2)));
    }

    #[test]
    fn what_is_ended_takes_no_requests_but_those_asked_before() {
        let mut numbers = Numbers::new();
        let tx = numbers.open(false, LIMITS).unwrap();
        let unknown = Err(DeviceError::UnknownTransaction { tx });
        numbers.ask(tx, false).unwrap();
        numbers.ask(tx, true).unwrap();
        assert_eq!(numbers.ask(tx, false), unknown);
        assert_eq!(numbers.submit(tx, false), Ok(false));
        assert_eq!(numbers.submit(tx, true), Ok(false));
        assert!(numbers.submit(tx, false).is_err());
    }
}
