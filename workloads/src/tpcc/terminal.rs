//! A terminal: a session with the database and the text of its last answer.

use super::input::{Input, Who};
use super::schema::{self, District, Of, customer};
use crate::db::{Partition, Session, Slot};
use crate::text::digits;

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) new_orders: u64,
    pub(super) rolled_back: u64,
    pub(super) payments: u64,
    pub(super) statuses: u64,
    pub(super) deliveries: u64,
    pub(super) stock_levels: u64,
    /// Orders that deliveries found and delivered.
    pub(super) delivered: u64,
    /// Lines of committed new orders, items in them, and cents paid.
    pub(super) lines: u64,
    pub(super) quantity: u64,
    pub(super) paid: i64,
    /// Length of all answers.
    pub(super) answered: u64,
}

impl Done {
    pub(super) fn add(&mut self, other: &Self) {
        self.new_orders += other.new_orders;
        self.rolled_back += other.rolled_back;
        self.payments += other.payments;
        self.statuses += other.statuses;
        self.deliveries += other.deliveries;
        self.stock_levels += other.stock_levels;
        self.delivered += other.delivered;
        self.lines += other.lines;
        self.quantity += other.quantity;
        self.paid += other.paid;
        self.answered += other.answered;
    }
}

/// What a terminal works with.
pub(super) struct Terminal<'db> {
    pub(super) session: Session<'db>,
    pub(super) items: &'db Partition,
    pub(super) answer: Answer,
    pub(super) done: Done,
    /// Slots that a transaction found, to be gone through afterwards.
    pub(super) found: Vec<Slot>,
    /// Items likewise.
    pub(super) wanted: Vec<u32>,
}

impl<'db> Terminal<'db> {
    pub(super) fn new(session: Session<'db>, items: &'db Partition) -> Self {
        Self {
            session,
            items,
            answer: Answer(Vec::with_capacity(4096)),
            done: Done::default(),
            found: Vec::with_capacity(64),
            wanted: Vec::with_capacity(512),
        }
    }

    /// Runs a transaction; `date` is its number.
    pub(super) fn serve(&mut self, input: &Input, date: u64) {
        self.answer.0.clear();
        match input {
            Input::NewOrder {
                district,
                customer,
                wanted,
            } => self.new_order(*district, *customer, wanted, date),
            Input::Payment {
                district,
                of,
                who,
                amount,
            } => self.payment(*district, (*of, who), *amount, date),
            Input::OrderStatus { district, who } => self.order_status(*district, who),
            Input::Delivery { warehouse, carrier } => self.delivery(*warehouse, *carrier, date),
            Input::StockLevel {
                district,
                threshold,
            } => self.stock_level(*district, *threshold),
        }
        self.done.answered += self.answer.0.len() as u64;
    }

    /// The customer meant, in a latched part; of several with the name the middle one by first name
    /// (clause 2.5.2.2).
    pub(super) fn customer(&mut self, district: District, who: &Who) -> Slot {
        let customers = self.session.partition(district.part(Of::Customer));
        let name = match who {
            Who::Number(id) => return customers.find((*id).into()).expect("customers stay"),
            Who::Name(name) => name,
        };
        let first = schema::name_key(name, b"", 0);
        self.found.clear();
        let range = customers.tree().range(first, first | ((1 << 48) - 1));
        self.found.extend(range.map(|(_, slot)| slot));
        self.found[(self.found.len() - 1) / 2]
    }

    /// Answers who the customer is.
    pub(super) fn answer_customer(&mut self, district: District, slot: Slot) {
        let row = self
            .session
            .partition(district.part(Of::Customer))
            .row(slot);
        self.answer.number(customer::ID.get(row).into());
        self.answer.text(customer::FIRST.get(row));
        self.answer.text(customer::LAST.get(row));
        self.answer.text(customer::CREDIT.get(row));
        self.answer.money(customer::BALANCE.get(row));
    }
}

/// An answer's text: fields between bars.
#[derive(Debug)]
pub(super) struct Answer(Vec<u8>);

impl Answer {
    pub(super) fn text(&mut self, text: &[u8]) {
        let letters = text.iter().take_while(|letter| **letter != 0);
        self.0.extend(letters);
        self.0.push(b'|');
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(digits(number, &mut [0; 20]));
        self.0.push(b'|');
    }

    /// Cents as `-12.05`.
    pub(super) fn money(&mut self, cents: i64) {
        if cents < 0 {
            self.0.push(b'-');
        }
        let cents = cents.unsigned_abs();
        self.0.extend_from_slice(digits(cents / 100, &mut [0; 20]));
        let rest = cents % 100;
        self.0.extend([
            b'.',
            b'0' + (rest / 10) as u8,
            b'0' + (rest % 10) as u8,
            b'|',
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_fields_between_bars() {
        let mut answer = Answer(Vec::new());
        answer.text(b"BAROUGHT\0\0");
        answer.number(3_000);
        answer.money(-12_05);
        answer.money(7);
        assert_eq!(answer.0, b"BAROUGHT|3000|-12.05|0.07|");
    }
}
