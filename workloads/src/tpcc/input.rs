//! What the terminals ask for (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1, 5.2.3).

use super::draw::{Constants, Draws, write_name};
use super::schema::{DISTRICTS, District, ITEMS, Warehouse};

/// Home warehouses of the region's terminals: each of eight threads has one to itself, of more
/// threads several share one.
const HOMES: u32 = 8;

/// Which customer.
#[derive(Clone, Debug)]
pub(super) enum Who {
    Number(u32),
    Name([u8; 16]),
}

/// An item to be ordered.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) item: u32,
    pub(super) supplier: Warehouse,
    pub(super) quantity: u8,
}

/// A transaction's input.
#[derive(Clone, Debug)]
pub(super) enum Input {
    NewOrder {
        district: District,
        customer: u32,
        wanted: Vec<Wanted>,
    },
    Payment {
        district: District,
        of: District,
        who: Who,
        amount: i32,
    },
    OrderStatus {
        district: District,
        who: Who,
    },
    Delivery {
        warehouse: Warehouse,
        carrier: u8,
    },
    StockLevel {
        district: District,
        threshold: i16,
    },
}

/// What inputs are drawn from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) seed: u64,
    pub(super) constants: Constants,
    pub(super) warehouses: u32,
    pub(super) count: u64,
}

impl Source {
    /// Input `index` of the run. Each home warehouse has an equal part of all inputs, one after the
    /// other, as threads have.
    pub(super) fn input(&self, index: u64) -> Input {
        let mut draws = Draws::new(self.seed, index);
        let homes = u64::from(self.warehouses.min(HOMES));
        let home =
            Warehouse((u128::from(index) * u128::from(homes) / u128::from(self.count)) as u32);
        let district = home.district(draws.between(0, DISTRICTS - 1));
        match draws.between(1, 100) {
            1..=45 => self.new_order(district, &mut draws),
            46..=88 => self.payment(district, &mut draws),
            89..=92 => Input::OrderStatus {
                district,
                who: self.who(&mut draws),
            },
            93..=96 => Input::Delivery {
                warehouse: home,
                carrier: draws.between(1, 10) as u8,
            },
            _ => Input::StockLevel {
                district,
                threshold: draws.between(10, 20) as i16,
            },
        }
    }

    fn new_order(&self, district: District, draws: &mut Draws) -> Input {
        let count = draws.between(5, 15);
        let mut wanted: Vec<_> = (0..count)
            .map(|_| Wanted {
                item: draws.item(&self.constants),
                supplier: self.supplier(district.warehouse, draws),
                quantity: draws.between(1, 10) as u8,
            })
            .collect();
        if draws.percent(1) {
            wanted.last_mut().expect("five at least").item = ITEMS + 1;
        }
        Input::NewOrder {
            district,
            customer: draws.customer(&self.constants),
            wanted,
        }
    }

    fn supplier(&self, home: Warehouse, draws: &mut Draws) -> Warehouse {
        if draws.percent(1) {
            self.another(home, draws)
        } else {
            home
        }
    }

    fn another(&self, home: Warehouse, draws: &mut Draws) -> Warehouse {
        if self.warehouses == 1 {
            return home;
        }
        let other = draws.between(0, self.warehouses - 2);
        Warehouse(other + u32::from(other >= home.0))
    }

    fn payment(&self, district: District, draws: &mut Draws) -> Input {
        let of = if draws.percent(85) {
            district
        } else {
            let other = self.another(district.warehouse, draws);
            other.district(draws.between(0, DISTRICTS - 1))
        };
        Input::Payment {
            district,
            of,
            who: self.who(draws),
            amount: draws.between(1_00, 5_000_00) as i32,
        }
    }

    fn who(&self, draws: &mut Draws) -> Who {
        if draws.percent(60) {
            let mut name = [0; 16];
            write_name(&mut name, draws.name(&self.constants));
            Who::Name(name)
        } else {
            Who::Number(draws.customer(&self.constants))
        }
    }
}

impl Input {
    /// Whether it must be rolled back.
    pub(super) fn is_invalid(&self) -> bool {
        matches!(self, Self::NewOrder { wanted, .. } if wanted.iter().any(|line| line.item > ITEMS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_come_in_the_standard_mix() {
        let source = Source {
            seed: 1,
            constants: Constants::new(1),
            warehouses: 20,
            count: 20_000,
        };
        let inputs: Vec<_> = (0..20_000).map(|index| source.input(index)).collect();
        let share = |is: fn(&Input) -> bool| inputs.iter().filter(|input| is(input)).count();
        assert!((8_800..9_200).contains(&share(|input| matches!(input, Input::NewOrder { .. }))));
        assert!((8_400..8_800).contains(&share(|input| matches!(input, Input::Payment { .. }))));
        assert!((700..900).contains(&share(|input| matches!(input, Input::Delivery { .. }))));
        assert!((60..120).contains(&share(Input::is_invalid)));
        let remote =
            |input: &Input| matches!(input, Input::Payment { district, of, .. } if district != of);
        assert!((1_150..1_450).contains(&share(remote)));
    }

    #[test]
    fn each_home_has_an_equal_part() {
        let source = Source {
            seed: 1,
            constants: Constants::new(1),
            warehouses: 20,
            count: 800,
        };
        for index in 0..800 {
            let home = match source.input(index) {
                Input::Delivery { warehouse, .. } => warehouse,
                Input::NewOrder { district, .. }
                | Input::Payment { district, .. }
                | Input::OrderStatus { district, .. }
                | Input::StockLevel { district, .. } => district.warehouse,
            };
            assert_eq!(u64::from(home.0), index / 100);
        }
    }
}
