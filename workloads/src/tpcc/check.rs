//! Consistency conditions 1 to 4 (clause 3.3.2), and that what was done is what was asked for.

use super::input::Input;
use super::schema::{
    self, CUSTOMERS, DISTRICTS, FIRST_NEW_ORDER, ORDERS, Of, Warehouse, customer, district, order,
    stock, warehouse,
};
use super::terminal::Done;
use crate::db::{Database, Slot};
use crate::{Digest, Failure};

const ONLY: Slot = Slot::new(0);

/// What tables say of what was done, summed over warehouses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    taken_in: i64,
    orders: u64,
    new_orders: u64,
    quantity: u64,
    payments: u64,
    deliveries: u64,
}

impl Totals {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            taken_in: self.taken_in + other.taken_in,
            orders: self.orders + other.orders,
            new_orders: self.new_orders + other.new_orders,
            quantity: self.quantity + other.quantity,
            payments: self.payments + other.payments,
            deliveries: self.deliveries + other.deliveries,
        }
    }
}

fn broken(condition: u32, place: &str, said: &str) -> Failure {
    Failure::wrong(format!(
        "tpcc: consistency condition {condition} does not hold in {place}: {said}."
    ))
}

/// Goes through a warehouse.
pub(super) fn warehouse(database: &Database, place: Warehouse) -> Result<Totals, Failure> {
    let taken_in = warehouse::YTD.get(database.read(place.row()).row(ONLY));
    let mut totals = Totals {
        taken_in,
        ..Totals::default()
    };
    let mut districts = 0;
    for index in 0..DISTRICTS {
        let part = place.district(index);
        districts += district::YTD.get(database.read(part.part(Of::District)).row(ONLY));
        totals = totals.plus(district(database, part)?);
    }
    if districts != taken_in {
        let said = format!("W_YTD is {taken_in}, its districts' D_YTD are {districts}");
        return Err(broken(1, &format!("warehouse {}", place.0), &said));
    }
    for item in (1..=schema::ITEMS).step_by(schema::STRIPE as usize) {
        let stocks = database.read(place.stock(item));
        totals.quantity += stocks
            .scan()
            .map(|row| u64::from(stock::YTD.get(row)))
            .sum::<u64>();
    }
    Ok(totals)
}

fn district(database: &Database, part: schema::District) -> Result<Totals, Failure> {
    let place = format!("warehouse {} district {}", part.warehouse.0, part.index);
    let next = district::NEXT_ORDER.get(database.read(part.part(Of::District)).row(ONLY));
    let orders = database.read(part.part(Of::Order));
    let last = orders.ordered().map(|row| order::ID.get(row)).max();
    let new = database.read(part.part(Of::NewOrder));
    let ends = (
        new.tree().range(0, u128::MAX).next(),
        new.tree().last_to(u128::MAX),
    );
    let last_new = ends.1.map(|(key, _)| key as u32);
    if last != Some(next - 1) || last_new.is_some_and(|last| last != next - 1) {
        let said = format!("D_NEXT_O_ID is {next}, the last orders are {last:?} and {last_new:?}");
        return Err(broken(2, &place, &said));
    }
    if let (Some((first, _)), Some((last, _))) = ends
        && last - first + 1 != new.rows() as u128
    {
        let said = format!("{} new orders from {first} to {last}", new.rows());
        return Err(broken(3, &place, &said));
    }
    let lines: usize = orders
        .ordered()
        .map(|row| usize::from(order::LINES.get(row)))
        .sum();
    let found = database.read(part.part(Of::OrderLine)).rows();
    if lines != found {
        let said = format!("the orders' O_OL_CNT are {lines}, there are {found} order lines");
        return Err(broken(4, &place, &said));
    }
    let customers = database.read(part.part(Of::Customer));
    let sum = |count: fn(&[u8]) -> u16| customers.scan().map(|row| u64::from(count(row))).sum();
    Ok(Totals {
        orders: orders.rows() as u64,
        new_orders: new.rows() as u64,
        payments: sum(|row| customer::PAYMENTS.get(row)),
        deliveries: sum(|row| customer::DELIVERIES.get(row)),
        ..Totals::default()
    })
}

/// What the terminals counted against what was asked for.
pub(super) fn counts(done: &Done, inputs: &[Input]) -> Result<(), Failure> {
    let count = |is: fn(&Input) -> bool| inputs.iter().filter(|input| is(input)).count() as u64;
    let invalid = count(Input::is_invalid);
    let pairs = [
        ("rolled back", done.rolled_back, invalid),
        (
            "New-Order",
            done.new_orders,
            count(|input| matches!(input, Input::NewOrder { .. })) - invalid,
        ),
        (
            "Payment",
            done.payments,
            count(|input| matches!(input, Input::Payment { .. })),
        ),
        (
            "Order-Status",
            done.statuses,
            count(|input| matches!(input, Input::OrderStatus { .. })),
        ),
        (
            "Delivery",
            done.deliveries,
            count(|input| matches!(input, Input::Delivery { .. })),
        ),
        (
            "Stock-Level",
            done.stock_levels,
            count(|input| matches!(input, Input::StockLevel { .. })),
        ),
    ];
    match pairs.into_iter().find(|(_, done, asked)| done != asked) {
        Some((name, done, asked)) => Err(Failure::wrong(format!(
            "tpcc: {name}: {done} transactions where {asked} were asked for."
        ))),
        None => Ok(()),
    }
}

/// What the tables say against what the terminals counted.
pub(super) fn totals(found: &Totals, done: &Done, warehouses: u32) -> Result<Digest, Failure> {
    let districts = u64::from(warehouses * DISTRICTS);
    let new_at_start = u64::from(ORDERS - FIRST_NEW_ORDER + 1);
    let expected = Totals {
        taken_in: i64::from(warehouses) * 300_000_00 + done.paid,
        orders: districts * u64::from(ORDERS) + done.new_orders,
        new_orders: districts * new_at_start + done.new_orders - done.delivered,
        quantity: done.quantity,
        payments: districts * u64::from(CUSTOMERS) + done.payments,
        deliveries: done.delivered,
    };
    if *found != expected {
        return Err(Failure::wrong(format!(
            "tpcc: the tables say {found:?} where transactions make it {expected:?}."
        )));
    }
    let numbers = [
        found.taken_in.unsigned_abs(),
        found.orders,
        found.quantity,
        found.payments,
        done.lines,
        done.rolled_back,
    ];
    Ok(Digest::of(numbers))
}
