//! The initial database (clause 4.3.3.1).

use super::draw::{Constants, Draws, write_name};
use super::schema::{
    self, CUSTOMERS, DISTRICTS, FIRST_NEW_ORDER, ITEM, ITEMS, ORDERS, Of, SHAPES, STRIPE, customer,
    district, history, item, new_order, order, order_line, stock, warehouse,
};
use crate::db::{Database, Keys, Partition, Table};
use crate::{team, text};

/// Every customer has paid this, in cents, when the run begins.
const PAID: i32 = 10_00;
/// What a warehouse and each of its districts have taken in.
const WAREHOUSE_YTD: i64 = 300_000_00;
const DISTRICT_YTD: i64 = 30_000_00;
/// The date of all that was there before the run.
const BEFORE: u64 = 1;

/// Partitions of all tables, in the order of [`Of`].
type Parts = [Vec<Partition>; SHAPES.len()];

fn empty(table: Of) -> Partition {
    Partition::new(&SHAPES[table as usize])
}

/// One item in ten is marked as original somewhere in its data.
fn write_data(data: &mut [u8], draws: &mut Draws) {
    text::fill(data, draws.bits());
    if draws.percent(10) {
        let at = draws.between(0, data.len() as u32 - 8) as usize;
        data[at..at + 8].copy_from_slice(b"ORIGINAL");
    }
}

/// The table of items.
pub(super) fn items(seed: u64) -> Partition {
    let mut items = Partition::new(&ITEM);
    let mut draws = Draws::new(seed, 1);
    for id in 1..=ITEMS {
        items.insert(schema::item_keys(id), |row| {
            item::ID.set(row, id);
            item::IMAGE.set(row, draws.between(1, 10_000));
            text::fill(item::NAME.get_mut(row), draws.bits());
            item::PRICE.set(row, draws.between(1_00, 100_00) as i32);
            write_data(item::DATA.get_mut(row), &mut draws);
        });
    }
    items
}

fn load_warehouse(parts: &mut Parts, id: u32, draws: &mut Draws) {
    let mut partition = empty(Of::Warehouse);
    partition.insert(Keys::default(), |row| {
        text::fill(row, draws.bits());
        warehouse::ID.set(row, id);
        warehouse::ZIP.get_mut(row)[4..].copy_from_slice(b"11111");
        warehouse::TAX.set(row, draws.between(0, 2_000) as i32);
        warehouse::YTD.set(row, WAREHOUSE_YTD);
    });
    parts[Of::Warehouse as usize].push(partition);
    for first in (1..=ITEMS).step_by(STRIPE as usize) {
        let mut partition = empty(Of::Stock);
        for id in first..first + STRIPE {
            partition.insert(schema::item_keys(id), |row| {
                stock::ITEM.set(row, id);
                stock::QUANTITY.set(row, draws.between(10, 100) as i16);
                text::fill(stock::DISTRICT_INFO.get_mut(row), draws.bits());
                write_data(stock::DATA.get_mut(row), draws);
            });
        }
        parts[Of::Stock as usize].push(partition);
    }
}

fn load_district(parts: &mut Parts, id: u32, draws: &mut Draws) {
    let mut partition = empty(Of::District);
    partition.insert(Keys::default(), |row| {
        text::fill(row, draws.bits());
        district::ID.set(row, id);
        district::ZIP.get_mut(row)[4..].copy_from_slice(b"11111");
        district::TAX.set(row, draws.between(0, 2_000) as i32);
        district::YTD.set(row, DISTRICT_YTD);
        district::NEXT_ORDER.set(row, ORDERS + 1);
    });
    parts[Of::District as usize].push(partition);
}

fn write_customer(row: &mut [u8], id: u32, name: u32, draws: &mut Draws) {
    text::fill(row, draws.bits());
    customer::ID.set(row, id);
    customer::MIDDLE.get_mut(row).copy_from_slice(b"OE");
    write_name(customer::LAST.get_mut(row), name);
    customer::ZIP.get_mut(row)[4..].copy_from_slice(b"11111");
    customer::SINCE.set(row, BEFORE);
    let credit = if draws.percent(10) { b"BC" } else { b"GC" };
    customer::CREDIT.get_mut(row).copy_from_slice(credit);
    customer::CREDIT_LIMIT.set(row, 50_000_00);
    customer::DISCOUNT.set(row, draws.between(0, 5_000) as i32);
    customer::BALANCE.set(row, -i64::from(PAID));
    customer::YTD_PAYMENT.set(row, PAID.into());
    customer::PAYMENTS.set(row, 1);
    customer::DELIVERIES.set(row, 0);
}

fn load_customers(
    parts: &mut Parts,
    (warehouse, district): (u32, u32),
    constants: &Constants,
    draws: &mut Draws,
) {
    let (mut customers, mut payments) = (empty(Of::Customer), empty(Of::History));
    let mut image = vec![0; customer::BYTES];
    for id in 1..=CUSTOMERS {
        let name = match id {
            1..=1_000 => id - 1,
            _ => draws.loaded_name(constants),
        };
        write_customer(&mut image, id, name, draws);
        let keys = schema::customer_keys(id, &image);
        customers.insert(keys, |row| row.copy_from_slice(&image));
        payments.insert(Keys::default(), |row| {
            text::fill(row, draws.bits());
            history::CUSTOMER.set(row, id);
            history::CUSTOMER_DISTRICT.set(row, district as u8);
            history::CUSTOMER_WAREHOUSE.set(row, warehouse);
            history::DISTRICT.set(row, district as u8);
            history::WAREHOUSE.set(row, warehouse);
            history::DATE.set(row, BEFORE);
            history::AMOUNT.set(row, PAID);
        });
    }
    parts[Of::Customer as usize].push(customers);
    parts[Of::History as usize].push(payments);
}

fn load_orders(parts: &mut Parts, warehouse: u32, draws: &mut Draws) {
    let (mut orders, mut new, mut lines) =
        (empty(Of::Order), empty(Of::NewOrder), empty(Of::OrderLine));
    for (id, customer) in (1..=ORDERS).zip(draws.permutation(CUSTOMERS)) {
        let count = draws.between(5, 15) as u8;
        let is_new = id >= FIRST_NEW_ORDER;
        orders.insert(schema::order_keys(id, customer), |row| {
            order::ID.set(row, id);
            order::CUSTOMER.set(row, customer);
            order::ENTRY.set(row, BEFORE);
            order::CARRIER.set(
                row,
                if is_new {
                    0
                } else {
                    draws.between(1, 10) as u8
                },
            );
            order::LINES.set(row, count);
            order::ALL_LOCAL.set(row, 1);
        });
        if is_new {
            new.insert(schema::new_order_keys(id), |row| new_order::ID.set(row, id));
        }
        for number in 1..=count {
            lines.insert(schema::line_keys(id, number), |row| {
                order_line::ORDER.set(row, id);
                order_line::NUMBER.set(row, number);
                order_line::ITEM.set(row, draws.between(1, ITEMS));
                order_line::SUPPLIER.set(row, warehouse);
                order_line::DELIVERY.set(row, if is_new { 0 } else { BEFORE });
                order_line::QUANTITY.set(row, 5);
                let amount = if is_new {
                    draws.between(1, 9_999_99)
                } else {
                    0
                };
                order_line::AMOUNT.set(row, amount as i32);
                text::fill(order_line::DISTRICT_INFO.get_mut(row), draws.bits());
            });
        }
    }
    parts[Of::Order as usize].push(orders);
    parts[Of::NewOrder as usize].push(new);
    parts[Of::OrderLine as usize].push(lines);
}

fn load(warehouse: u32, seed: u64, constants: &Constants) -> Parts {
    let mut parts = Parts::default();
    load_warehouse(
        &mut parts,
        warehouse,
        &mut Draws::new(seed, u64::from(warehouse) << 8),
    );
    for district in 0..DISTRICTS {
        let sequence = u64::from(warehouse) << 8 | u64::from(district + 1);
        let draws = &mut Draws::new(seed, sequence);
        load_district(&mut parts, district, draws);
        load_customers(&mut parts, (warehouse, district), constants, draws);
        load_orders(&mut parts, warehouse, draws);
    }
    parts
}

/// All tables but that of items, with so many warehouses.
pub(super) fn database(warehouses: u32, seed: u64, constants: &Constants) -> Database {
    let parts = team::combine(
        warehouses as usize,
        |part| {
            let loaded = part.map(|index| load(index as u32, seed, constants));
            loaded.reduce(join).unwrap_or_default()
        },
        join,
    );
    let tables = SHAPES
        .into_iter()
        .zip(parts)
        .map(|(shape, parts)| Table::new(shape, parts));
    Database {
        tables: tables.collect(),
    }
}

fn join(mut before: Parts, after: Parts) -> Parts {
    for (before, mut after) in before.iter_mut().zip(after) {
        before.append(&mut after);
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Slot;

    #[test]
    fn a_warehouse_holds_what_the_specification_says() {
        let database = database(1, 7, &Constants::new(7));
        let rows = |table: Of| -> usize {
            let table = &database.tables[table as usize];
            (0..table.partitions())
                .map(|index| table.read(index).rows())
                .sum()
        };
        assert_eq!((rows(Of::Warehouse), rows(Of::District)), (1, 10));
        assert_eq!((rows(Of::Customer), rows(Of::History)), (30_000, 30_000));
        assert_eq!((rows(Of::Order), rows(Of::NewOrder)), (30_000, 9_000));
        assert_eq!(rows(Of::Stock), 100_000);
        assert!((298_000..302_000).contains(&rows(Of::OrderLine)));
    }

    #[test]
    fn every_item_and_its_stock_can_be_found() {
        let (items, mut parts) = (items(3), Parts::default());
        load_warehouse(&mut parts, 0, &mut Draws::new(3, 4));
        for id in 1..=ITEMS {
            let slot = items.find(id.into()).unwrap();
            assert_eq!(item::ID.get(items.row(slot)), id);
            let place = schema::Warehouse(0).stock(id).index as usize;
            let partition = &parts[Of::Stock as usize][place];
            let slot = partition.find(id.into()).unwrap();
            assert_eq!(stock::ITEM.get(partition.row(slot)), id);
        }
        assert_eq!(items.find(u64::from(ITEMS) + 1), None);
        assert_eq!(
            warehouse::YTD.get(parts[0][0].row(Slot::new(0))),
            300_000_00
        );
    }
}
