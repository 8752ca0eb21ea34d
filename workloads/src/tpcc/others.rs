//! Order-Status, Delivery and Stock-Level (clauses 2.6 to 2.8).

use super::input::Who;
use super::schema::{
    self, District, Of, Warehouse, customer, district, new_order, order, order_line, stock,
};
use super::terminal::Terminal;
use crate::db::{Latch, Slot};

const ONLY: Slot = Slot::new(0);

/// Stock-Level looks at the items of so many last orders.
const LAST_ORDERS: u32 = 20;

impl Terminal<'_> {
    pub(super) fn order_status(&mut self, place: District, who: &Who) {
        for table in [Of::Customer, Of::Order, Of::OrderLine] {
            self.session.latch(place.part(table), Latch::Shared);
        }
        let slot = self.customer(place, who);
        self.answer_customer(place, slot);
        let customers = self.session.partition(place.part(Of::Customer));
        let customer = customer::ID.get(customers.row(slot));
        let orders = self.session.partition(place.part(Of::Order));
        let last = orders
            .tree()
            .last_to(schema::customer_order_key(customer, u32::MAX));
        let row = orders.row(last.expect("every customer has an order").1);
        let id = order::ID.get(row);
        self.answer.number(id.into());
        self.answer.number(order::ENTRY.get(row));
        self.answer.number(order::CARRIER.get(row).into());
        let lines = self.session.partition(place.part(Of::OrderLine));
        let range = schema::line_key(id, 0)..=schema::line_key(id, u8::MAX);
        for (_, slot) in lines.tree().range(*range.start(), *range.end()) {
            let row = lines.row(slot);
            self.answer.number(order_line::ITEM.get(row).into());
            self.answer.number(order_line::SUPPLIER.get(row).into());
            self.answer.number(order_line::QUANTITY.get(row).into());
            self.answer.money(order_line::AMOUNT.get(row).into());
            self.answer.number(order_line::DELIVERY.get(row));
        }
        self.session.commit();
        self.done.statuses += 1;
    }

    /// Delivers the oldest new order of each district, each in a transaction of its own (clause
    /// 2.7.4.2 leaves that to the implementation).
    pub(super) fn delivery(&mut self, warehouse: Warehouse, carrier: u8, date: u64) {
        for index in 0..schema::DISTRICTS {
            let place = warehouse.district(index);
            for table in [Of::Customer, Of::NewOrder, Of::Order, Of::OrderLine] {
                self.session.latch(place.part(table), Latch::Exclusive);
            }
            if let Some(id) = self.take_oldest(place) {
                self.deliver(place, id, carrier, date);
                self.answer.number(id.into());
                self.done.delivered += 1;
            }
            self.session.commit();
        }
        self.done.deliveries += 1;
    }

    fn take_oldest(&mut self, place: District) -> Option<u32> {
        let part = place.part(Of::NewOrder);
        let orders = self.session.partition(part);
        let (_, slot) = orders.tree().range(0, u128::MAX).next()?;
        let id = new_order::ID.get(orders.row(slot));
        self.session.remove(part, slot, schema::new_order_keys(id));
        Some(id)
    }

    fn deliver(&mut self, place: District, id: u32, carrier: u8, date: u64) {
        let part = place.part(Of::Order);
        let slot = self
            .session
            .partition(part)
            .find(id.into())
            .expect("a new order is an order");
        let mut customer = 0;
        self.session.update(part, slot, |row| {
            customer = order::CUSTOMER.get(row);
            order::CARRIER.set(row, carrier);
        });
        let part = place.part(Of::OrderLine);
        let lines = self.session.partition(part).tree();
        let range = lines.range(schema::line_key(id, 0), schema::line_key(id, u8::MAX));
        self.found.clear();
        self.found.extend(range.map(|(_, slot)| slot));
        let mut total = 0;
        for slot in &self.found {
            self.session.update(part, *slot, |row| {
                order_line::DELIVERY.set(row, date);
                total += i64::from(order_line::AMOUNT.get(row));
            });
        }
        let part = place.part(Of::Customer);
        let slot = self
            .session
            .partition(part)
            .find(customer.into())
            .expect("customers stay");
        self.session.update(part, slot, |row| {
            customer::BALANCE.set(row, customer::BALANCE.get(row) + total);
            customer::DELIVERIES.set(row, customer::DELIVERIES.get(row).wrapping_add(1));
        });
    }

    pub(super) fn stock_level(&mut self, place: District, threshold: i16) {
        self.session.latch(place.part(Of::District), Latch::Shared);
        self.session.latch(place.part(Of::OrderLine), Latch::Shared);
        let row = self.session.partition(place.part(Of::District)).row(ONLY);
        let next = district::NEXT_ORDER.get(row);
        let lines = self.session.partition(place.part(Of::OrderLine));
        let first = schema::line_key(next - LAST_ORDERS, 0);
        let range = lines.tree().range(first, schema::line_key(next, 0));
        self.wanted.clear();
        self.wanted
            .extend(range.map(|(_, slot)| order_line::ITEM.get(lines.row(slot))));
        self.wanted.sort_unstable();
        self.wanted.dedup();
        let (mut latched, mut low) = (None, 0);
        for item in &self.wanted {
            let part = place.warehouse.stock(*item);
            if latched != Some(part) {
                self.session.latch(part, Latch::Shared);
                latched = Some(part);
            }
            let stocks = self.session.partition(part);
            let slot = stocks.find((*item).into()).expect("every item has stock");
            low += u64::from(stock::QUANTITY.get(stocks.row(slot)) < threshold);
        }
        self.answer.number(low);
        self.session.commit();
        self.done.stock_levels += 1;
    }
}
