//! The New-Order transaction (clause 2.4).

use super::input::Wanted;
use super::schema::{
    self, District, Of, customer, district, item, new_order, order, order_line, stock, warehouse,
};
use super::terminal::Terminal;
use crate::db::{Latch, PartitionId, Slot};

/// A warehouse's and a district's partition hold one row.
const ONLY: Slot = Slot::new(0);

/// Ten-thousandths of a whole.
const WHOLE: i64 = 10_000;

struct Order {
    district: District,
    id: u32,
    date: u64,
}

fn contains_original(data: &[u8]) -> bool {
    data.windows(8).any(|part| part == b"ORIGINAL")
}

impl Terminal<'_> {
    pub(super) fn new_order(
        &mut self,
        district: District,
        customer: u32,
        wanted: &[Wanted],
        date: u64,
    ) {
        self.latch_order(district, wanted);
        let order = self.begin_order(district, customer, wanted, date);
        let mut total = 0;
        for (wanted, number) in wanted.iter().zip(1..) {
            let Some(amount) = self.order_line(&order, wanted, number) else {
                self.answer.text(b"Item number is not valid");
                self.session.abort();
                self.done.rolled_back += 1;
                return;
            };
            total += amount;
        }
        self.answer_total(district, customer, total);
        self.session.commit();
        self.done.new_orders += 1;
        self.done.lines += wanted.len() as u64;
        self.done.quantity += wanted
            .iter()
            .map(|line| u64::from(line.quantity))
            .sum::<u64>();
    }

    fn latch_order(&mut self, district: District, wanted: &[Wanted]) {
        self.session.latch(district.warehouse.row(), Latch::Shared);
        self.session
            .latch(district.part(Of::District), Latch::Exclusive);
        self.session
            .latch(district.part(Of::Customer), Latch::Shared);
        for table in [Of::NewOrder, Of::Order, Of::OrderLine] {
            self.session.latch(district.part(table), Latch::Exclusive);
        }
        let mut stocks = [None::<PartitionId>; 15];
        for (place, wanted) in stocks.iter_mut().zip(wanted) {
            *place = Some(wanted.supplier.stock(wanted.item));
        }
        stocks.sort_unstable();
        let mut last = None;
        for id in stocks.into_iter().flatten() {
            if last != Some(id) {
                self.session.latch(id, Latch::Exclusive);
            }
            last = Some(id);
        }
    }

    fn begin_order(
        &mut self,
        place: District,
        customer: u32,
        wanted: &[Wanted],
        date: u64,
    ) -> Order {
        let mut id = 0;
        self.session.update(place.part(Of::District), ONLY, |row| {
            id = district::NEXT_ORDER.get(row);
            district::NEXT_ORDER.set(row, id + 1);
        });
        let is_local = wanted.iter().all(|line| line.supplier == place.warehouse);
        self.session.insert(
            place.part(Of::NewOrder),
            schema::new_order_keys(id),
            |row| {
                new_order::ID.set(row, id);
            },
        );
        self.session.insert(
            place.part(Of::Order),
            schema::order_keys(id, customer),
            |row| {
                order::ID.set(row, id);
                order::CUSTOMER.set(row, customer);
                order::ENTRY.set(row, date);
                order::CARRIER.set(row, 0);
                order::LINES.set(row, wanted.len() as u8);
                order::ALL_LOCAL.set(row, u8::from(is_local));
            },
        );
        self.answer.number(id.into());
        self.answer.number(date);
        Order {
            district: place,
            id,
            date,
        }
    }

    /// Orders one item; its amount, or nothing if there is no such item.
    fn order_line(&mut self, order: &Order, wanted: &Wanted, number: u8) -> Option<i64> {
        let item = self.items.row(self.items.find(wanted.item.into())?);
        let amount = item::PRICE.get(item) * i32::from(wanted.quantity);
        let place = wanted.supplier.stock(wanted.item);
        let slot = self.session.partition(place).find(wanted.item.into());
        let slot = slot.expect("every item has stock");
        let is_remote = wanted.supplier != order.district.warehouse;
        let (mut info, mut left, mut is_original) =
            ([0; 24], 0, contains_original(item::DATA.get(item)));
        self.session.update(place, slot, |row| {
            let quantity = i16::from(wanted.quantity);
            left = stock::QUANTITY.get(row) - quantity;
            left += if left < 10 { 91 } else { 0 };
            stock::QUANTITY.set(row, left);
            stock::YTD.set(row, stock::YTD.get(row) + u32::from(wanted.quantity));
            stock::ORDERS.set(row, stock::ORDERS.get(row).wrapping_add(1));
            stock::REMOTE.set(row, stock::REMOTE.get(row).wrapping_add(is_remote.into()));
            let at = order.district.index as usize * 24;
            info.copy_from_slice(&stock::DISTRICT_INFO.get(row)[at..at + 24]);
            is_original &= contains_original(stock::DATA.get(row));
        });
        let lines = order.district.part(Of::OrderLine);
        self.session
            .insert(lines, schema::line_keys(order.id, number), |row| {
                order_line::ORDER.set(row, order.id);
                order_line::NUMBER.set(row, number);
                order_line::ITEM.set(row, wanted.item);
                order_line::SUPPLIER.set(row, wanted.supplier.0);
                order_line::DELIVERY.set(row, 0);
                order_line::QUANTITY.set(row, wanted.quantity);
                order_line::AMOUNT.set(row, amount);
                order_line::DISTRICT_INFO
                    .get_mut(row)
                    .copy_from_slice(&info);
            });
        self.answer.text(item::NAME.get(item));
        self.answer.number(left.unsigned_abs().into());
        self.answer.text(if is_original { b"B" } else { b"G" });
        self.answer.money(item::PRICE.get(item).into());
        self.answer.money(amount.into());
        debug_assert!(order.date > 0);
        Some(amount.into())
    }

    fn answer_total(&mut self, place: District, customer: u32, total: i64) {
        let part = self.session.partition(place.part(Of::Customer));
        let slot = part.find(customer.into()).expect("customers stay");
        let discount = i64::from(customer::DISCOUNT.get(part.row(slot)));
        let home = self.session.partition(place.warehouse.row()).row(ONLY);
        let tax = i64::from(warehouse::TAX.get(home));
        let row = self.session.partition(place.part(Of::District)).row(ONLY);
        let tax = tax + i64::from(district::TAX.get(row));
        self.answer_customer(place, slot);
        self.answer
            .money(total * (WHOLE - discount) / WHOLE * (WHOLE + tax) / WHOLE);
    }
}
