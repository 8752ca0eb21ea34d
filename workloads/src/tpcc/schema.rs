//! The nine tables (TPC-C 5.11, clause 1.3) and their keys. Money is in cents, taxes and discounts
//! in ten-thousandths, dates are numbers of transactions.

use crate::db::{Column, Index, Keys, PartitionId, Shape, Text};

/// Districts of a warehouse.
pub(super) const DISTRICTS: u32 = 10;
/// Customers of a district.
pub(super) const CUSTOMERS: u32 = 3_000;
/// Orders of a district at the start, one for each customer.
pub(super) const ORDERS: u32 = 3_000;
/// The first of these that is not delivered at the start.
pub(super) const FIRST_NEW_ORDER: u32 = 2_101;
/// Items, and stock rows of a warehouse.
pub(super) const ITEMS: u32 = 100_000;
/// Stock rows under one latch.
pub(super) const STRIPE: u32 = 1_000;
const STRIPES: u32 = ITEMS / STRIPE;

macro_rules! row {
    ($name:ident { $($columns:tt)* }) => {
        pub(super) mod $name {
            use super::*;
            row!(@ 0; $($columns)*);
        }
    };
    (@ $at:expr; $column:ident: [$bytes:expr] $(, $($rest:tt)*)?) => {
        pub(in super::super) const $column: Text = Text::at($at, $bytes);
        row!(@ $column.end(); $($($rest)*)?);
    };
    (@ $at:expr; $column:ident: $number:ty $(, $($rest:tt)*)?) => {
        pub(in super::super) const $column: Column<$number> = Column::at($at);
        row!(@ $column.end(); $($($rest)*)?);
    };
    (@ $at:expr;) => {
        pub(in super::super) const BYTES: usize = $at;
    };
}

row!(warehouse {
    ID: u32,
    NAME: [10],
    ADDRESS: [60],
    STATE: [2],
    ZIP: [9],
    TAX: i32,
    YTD: i64,
});
row!(district {
    ID: u32,
    NAME: [10],
    ADDRESS: [60],
    STATE: [2],
    ZIP: [9],
    TAX: i32,
    YTD: i64,
    NEXT_ORDER: u32,
});
row!(customer {
    ID: u32,
    FIRST: [16],
    MIDDLE: [2],
    LAST: [16],
    ADDRESS: [60],
    STATE: [2],
    ZIP: [9],
    PHONE: [16],
    SINCE: u64,
    CREDIT: [2],
    CREDIT_LIMIT: i64,
    DISCOUNT: i32,
    BALANCE: i64,
    YTD_PAYMENT: i64,
    PAYMENTS: u16,
    DELIVERIES: u16,
    DATA: [500],
});
row!(history {
    CUSTOMER: u32,
    CUSTOMER_DISTRICT: u8,
    CUSTOMER_WAREHOUSE: u32,
    DISTRICT: u8,
    WAREHOUSE: u32,
    DATE: u64,
    AMOUNT: i32,
    DATA: [24],
});
row!(order {
    ID: u32,
    CUSTOMER: u32,
    ENTRY: u64,
    CARRIER: u8,
    LINES: u8,
    ALL_LOCAL: u8,
});
row!(new_order { ID: u32 });
row!(order_line {
    ORDER: u32,
    NUMBER: u8,
    ITEM: u32,
    SUPPLIER: u32,
    DELIVERY: u64,
    QUANTITY: u8,
    AMOUNT: i32,
    DISTRICT_INFO: [24],
});
row!(stock {
    ITEM: u32,
    QUANTITY: i16,
    YTD: u32,
    ORDERS: u16,
    REMOTE: u16,
    DISTRICT_INFO: [240],
    DATA: [50],
});
row!(item {
    ID: u32,
    IMAGE: u32,
    NAME: [24],
    PRICE: i32,
    DATA: [50],
});

/// Tables in the order in which their latches are taken. Items are never changed and stand apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Warehouse,
    District,
    Customer,
    NewOrder,
    Order,
    OrderLine,
    Stock,
    History,
}

const fn shape(
    name: &'static str,
    row_bytes: usize,
    rows: usize,
    chunk_rows: usize,
    index: Index,
) -> Shape {
    Shape {
        name,
        row_bytes,
        rows,
        chunk_rows,
        index,
    }
}

/// The tables' shapes, in the order of [`Of`].
pub(super) const SHAPES: [Shape; 8] = [
    shape("warehouse", warehouse::BYTES, 1, 1, Index::None),
    shape("district", district::BYTES, 1, 1, Index::None),
    shape("customer", customer::BYTES, 3_000, 256, Index::HashAndTree),
    shape("new_order", new_order::BYTES, 900, 1_024, Index::Tree),
    shape("order", order::BYTES, 4_000, 1_024, Index::HashAndTree),
    shape("order_line", order_line::BYTES, 30_000, 4_096, Index::Tree),
    shape("stock", stock::BYTES, STRIPE as usize, 128, Index::Hash),
    shape("history", history::BYTES, 3_000, 1_024, Index::None),
];

/// The table of items.
pub(super) const ITEM: Shape = shape("item", item::BYTES, ITEMS as usize, 1_024, Index::Hash);

/// A warehouse, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Warehouse(pub(super) u32);

/// A district of a warehouse, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct District {
    pub(super) warehouse: Warehouse,
    pub(super) index: u32,
}

const fn partition(table: Of, index: u32) -> PartitionId {
    PartitionId {
        table: table as u32,
        index,
    }
}

impl Warehouse {
    /// Where its row is.
    pub(super) const fn row(self) -> PartitionId {
        partition(Of::Warehouse, self.0)
    }
    /// Where the stock of an item is.
    pub(super) const fn stock(self, item: u32) -> PartitionId {
        // An item that does not exist has no stock: what would hold it is never asked for.
        partition(Of::Stock, self.0 * STRIPES + (item - 1) / STRIPE % STRIPES)
    }
    /// Its district of this index.
    pub(super) const fn district(self, index: u32) -> District {
        District {
            warehouse: self,
            index,
        }
    }
}

impl District {
    /// Where its part of a table is that has a partition for each district.
    pub(super) const fn part(self, table: Of) -> PartitionId {
        partition(table, self.warehouse.0 * DISTRICTS + self.index)
    }
}

const fn hashed(key: u32) -> Keys {
    Keys {
        hash: Some(key as u64),
        tree: None,
    }
}

const fn ordered(key: u128) -> Keys {
    Keys {
        hash: None,
        tree: Some(key),
    }
}

/// A text's first letters in 5 bits each, the first one on top: numbers order as texts do.
fn packed(text: &[u8], letters: usize) -> u128 {
    let codes = text.iter().map(|letter| u128::from(letter & 31));
    let all = codes.chain(std::iter::repeat(0)).take(letters);
    all.fold(0, |packed, code| packed << 5 | code)
}

/// Names of a district's customers order by last name, first name's first seven letters, number.
pub(super) fn name_key(last: &[u8], first: &[u8], id: u32) -> u128 {
    packed(last, 16) << 48 | packed(first, 7) << 13 | u128::from(id)
}

/// A customer's keys.
pub(super) fn customer_keys(id: u32, row: &[u8]) -> Keys {
    let (last, first) = (customer::LAST.get(row), customer::FIRST.get(row));
    Keys {
        hash: Some(id.into()),
        tree: Some(name_key(last, first, id)),
    }
}

/// An order's keys: by number, and by customer and number.
pub(super) fn order_keys(id: u32, customer: u32) -> Keys {
    Keys {
        hash: Some(id.into()),
        tree: Some(customer_order_key(customer, id)),
    }
}

/// Orders of a customer stand together in the tree, by number.
pub(super) fn customer_order_key(customer: u32, order: u32) -> u128 {
    u128::from(customer) << 32 | u128::from(order)
}

/// A new order's key.
pub(super) fn new_order_keys(id: u32) -> Keys {
    ordered(id.into())
}

/// An order line's place in the tree.
pub(super) fn line_key(order: u32, number: u8) -> u128 {
    u128::from(order) << 8 | u128::from(number)
}

/// An order line's keys.
pub(super) fn line_keys(order: u32, number: u8) -> Keys {
    ordered(line_key(order, number))
}

/// Keys of a stock row or an item.
pub(super) fn item_keys(item: u32) -> Keys {
    hashed(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_about_as_long_as_clause_1_2_1_says() {
        let said = [89, 95, 655, 8, 24, 54, 306, 46];
        for (shape, said) in SHAPES.iter().zip(said) {
            assert!(
                shape.row_bytes.abs_diff(said) <= 25,
                "{}: {}",
                shape.name,
                shape.row_bytes
            );
        }
        assert!(item::BYTES.abs_diff(82) <= 5);
    }

    #[test]
    fn names_order_by_last_first_and_number() {
        let keys = [
            name_key(b"BARBARBAR\0\0\0\0\0\0\0", b"zzzz", 9),
            name_key(b"BARBAROUGHT\0\0\0\0\0", b"aaaa", 2),
            name_key(b"BARBAROUGHT\0\0\0\0\0", b"aaab", 1),
            name_key(b"BARBAROUGHT\0\0\0\0\0", b"aaab", 3_000),
            name_key(b"EING\0\0\0\0\0\0\0\0\0\0\0\0", b"a", 1),
        ];
        assert!(keys.is_sorted());
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_stripe_holds_a_thousand_items_of_one_warehouse() {
        assert_eq!(Warehouse(0).stock(1), Warehouse(0).stock(1_000));
        assert_ne!(Warehouse(0).stock(1_000), Warehouse(0).stock(1_001));
        assert!(Warehouse(0).stock(ITEMS) < Warehouse(1).stock(1));
    }
}
