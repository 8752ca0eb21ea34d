//! The Payment transaction (clause 2.5).

use super::input::Who;
use super::schema::{District, Of, customer, district, history, warehouse};
use super::terminal::Terminal;
use crate::db::{Keys, Latch, Slot};
use crate::text::digits;

const ONLY: Slot = Slot::new(0);

/// A customer with bad credit has each payment written before what is known of them already.
fn write_remark(data: &mut [u8], numbers: [u32; 6]) {
    let mut remark = [b' '; 6 * 11];
    let mut end = 0;
    for number in numbers {
        let mut buffer = [0; 20];
        let digits = digits(number.into(), &mut buffer);
        remark[end..end + digits.len()].copy_from_slice(digits);
        end += digits.len() + 1;
    }
    data.copy_within(..data.len() - end, end);
    data[..end].copy_from_slice(&remark[..end]);
}

impl Terminal<'_> {
    pub(super) fn payment(
        &mut self,
        place: District,
        (of, who): (District, &Who),
        amount: i32,
        date: u64,
    ) {
        self.session.latch(place.warehouse.row(), Latch::Exclusive);
        self.session
            .latch(place.part(Of::District), Latch::Exclusive);
        self.session.latch(of.part(Of::Customer), Latch::Exclusive);
        self.session
            .latch(place.part(Of::History), Latch::Exclusive);
        let names = self.take_in(place, amount);
        let slot = self.customer(of, who);
        let id = self.pay(place, of, slot, amount);
        self.session
            .insert(place.part(Of::History), Keys::default(), |row| {
                history::CUSTOMER.set(row, id);
                history::CUSTOMER_DISTRICT.set(row, of.index as u8);
                history::CUSTOMER_WAREHOUSE.set(row, of.warehouse.0);
                history::DISTRICT.set(row, place.index as u8);
                history::WAREHOUSE.set(row, place.warehouse.0);
                history::DATE.set(row, date);
                history::AMOUNT.set(row, amount);
                history::DATA.get_mut(row).copy_from_slice(&names);
            });
        self.answer_customer(of, slot);
        self.answer.money(amount.into());
        self.answer.number(date);
        self.session.commit();
        self.done.payments += 1;
        self.done.paid += i64::from(amount);
    }

    /// Adds to what warehouse and district took in; their names, four spaces between.
    fn take_in(&mut self, place: District, amount: i32) -> [u8; 24] {
        let mut names = [b' '; 24];
        self.session.update(place.warehouse.row(), ONLY, |row| {
            warehouse::YTD.set(row, warehouse::YTD.get(row) + i64::from(amount));
            names[..10].copy_from_slice(warehouse::NAME.get(row));
        });
        self.session.update(place.part(Of::District), ONLY, |row| {
            district::YTD.set(row, district::YTD.get(row) + i64::from(amount));
            names[14..].copy_from_slice(district::NAME.get(row));
        });
        let home = self.session.partition(place.warehouse.row()).row(ONLY);
        self.answer.text(warehouse::ADDRESS.get(home));
        let row = self.session.partition(place.part(Of::District)).row(ONLY);
        self.answer.text(district::ADDRESS.get(row));
        names
    }

    fn pay(&mut self, place: District, of: District, slot: Slot, amount: i32) -> u32 {
        let mut id = 0;
        self.session.update(of.part(Of::Customer), slot, |row| {
            id = customer::ID.get(row);
            customer::BALANCE.set(row, customer::BALANCE.get(row) - i64::from(amount));
            customer::YTD_PAYMENT.set(row, customer::YTD_PAYMENT.get(row) + i64::from(amount));
            customer::PAYMENTS.set(row, customer::PAYMENTS.get(row).wrapping_add(1));
            if customer::CREDIT.get(row) == b"BC" {
                let numbers = [
                    id,
                    of.index,
                    of.warehouse.0,
                    place.index,
                    place.warehouse.0,
                    amount.unsigned_abs(),
                ];
                write_remark(customer::DATA.get_mut(row), numbers);
            }
        });
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_moves_what_was_there_to_the_right() {
        let mut data = *b"abcdefghijklmnopqrstuvwxyz";
        write_remark(&mut data, [12, 3, 4, 5, 6, 789]);
        assert_eq!(&data, b"12 3 4 5 6 789 abcdefghijk");
    }
}
