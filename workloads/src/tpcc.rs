//! TPC-C (revision 5.11): the orders of a company with warehouses, its five transactions in the
//! standard mix 45 : 43 : 4 : 4 : 4.
//!
//! Terminals of eight home warehouses are active, as in the paper's captures, which touch a small
//! part of their 15.77 GB; the other warehouses are there for the one line in a hundred and the 15
//! payments in a hundred that are remote. The database is durable as clause 3.5 wants of it, to the
//! journal in memory: each change is written down as text with a CRC, which is most of what a
//! transaction executes. Left out: terminals' screens, keying and thinking times, and clause 1.4's
//! choice of physical layout, which is the engine's.
//!
//! Threads meet at the rows of their warehouse and districts; who comes first decides which order
//! gets which number. What is checked and the digest do not depend on it.
#![allow(
    clippy::inconsistent_digit_grouping,
    reason = "in amounts of money the cents stand apart"
)]

mod schema;

mod draw;

mod load;

mod input;

mod terminal;

mod new_order;

mod payment;

mod others;

mod check;

use crate::db::{Database, Journal, Partition, Session};
use crate::program::{Checked, Failure, Program, Workload, execute};
use crate::random::key;
use crate::{Member, Setting, team};
use draw::Constants;
use input::{Input, Source};
use schema::Warehouse;
use std::sync::{Mutex, PoisonError};
use terminal::{Done, Terminal};
use units::Bytes;

/// Its entry in the list.
pub const PROGRAM: Program = Program {
    name: "tpcc",
    suite: "WHISPER",
    what: "orders, payments and deliveries of a company with warehouses (TPC-C)",
    check: "consistency conditions 1 to 4, every transaction's effect in the tables, journals whole",
    work_unit: "transactions",
    footprint: Bytes::new(15_770_000_000),
    small_work: 1_024,
    paper_work: 1_024,
    run: execute::<Tpcc>,
};

/// Bytes of a warehouse with its indexes, rounded up.
const BYTES_PER_WAREHOUSE: u64 = 86_000_000;
/// The table of items, and some for inputs and journals.
const BYTES_OF_ITEMS: u64 = 16_000_000;
const BYTES_PER_INPUT: u64 = 256;

/// A thread's journal: what a log buffer holds before it goes to storage.
const JOURNAL_BYTES: usize = 64 << 10;

/// The first transaction's date.
const FIRST_DATE: u64 = 2;

#[derive(Debug, Default)]
struct Outcome {
    done: Done,
    journals: Vec<Journal>,
}

/// The database and the transactions to be run on it.
#[derive(Debug)]
pub struct Tpcc {
    database: Database,
    items: Partition,
    warehouses: u32,
    inputs: Vec<Input>,
    outcome: Mutex<Outcome>,
}

impl Workload for Tpcc {
    fn prepare(setting: &Setting) -> Result<Self, Failure> {
        let count = setting.work.get();
        let others = BYTES_OF_ITEMS.saturating_add(count.saturating_mul(BYTES_PER_INPUT));
        let rest = setting.footprint.get().saturating_sub(others);
        let warehouses = rest / BYTES_PER_WAREHOUSE;
        if !(1..=1 << 16).contains(&warehouses) {
            return Err(Failure::refused(format!(
                "tpcc: {} hold {warehouses} warehouses of {} beside {} for items and inputs; give a \
                 --footprint for 1 to 65536.",
                setting.footprint,
                Bytes::new(BYTES_PER_WAREHOUSE),
                Bytes::new(others),
            )));
        }
        let warehouses = warehouses as u32;
        let constants = Constants::new(key(setting.seed, "constants"));
        let source = Source {
            seed: key(setting.seed, "inputs"),
            constants,
            warehouses,
            count,
        };
        Ok(Self {
            database: load::database(warehouses, key(setting.seed, "load"), &constants),
            items: load::items(key(setting.seed, "items")),
            warehouses,
            inputs: (0..count).map(|index| source.input(index)).collect(),
            outcome: Mutex::default(),
        })
    }

    fn region(&self, member: &Member<'_>) {
        let session = Session::new(&self.database, Some(Journal::new(JOURNAL_BYTES)));
        let mut terminal = Terminal::new(session, &self.items);
        for index in member.part(self.inputs.len()) {
            terminal.serve(&self.inputs[index], FIRST_DATE + index as u64);
        }
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.done.add(&terminal.done);
        outcome.journals.extend(terminal.session.close());
    }

    fn spoil(&mut self) {
        let place = Warehouse(self.warehouses - 1).row();
        let mut home = self.database.write(place);
        let row = home.row_mut(crate::db::Slot::new(0));
        schema::warehouse::YTD.set(row, schema::warehouse::YTD.get(row) + 1);
    }

    fn check(self, _setting: &Setting) -> Result<Checked, Failure> {
        let Outcome { done, journals } = self
            .outcome
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for journal in &journals {
            journal
                .read()
                .map_err(|said| Failure::wrong(format!("tpcc: {said}")))?;
        }
        check::counts(&done, &self.inputs)?;
        let found = team::combine(
            self.warehouses as usize,
            |mut part| {
                part.try_fold(check::Totals::default(), |sum, index| {
                    Ok(sum.plus(check::warehouse(&self.database, Warehouse(index as u32))?))
                })
            },
            |before, after| Ok(before?.plus(after?)),
        )?;
        let digest = check::totals(&found, &done, self.warehouses)?;
        Ok(Checked {
            said: format!(
                "{} warehouses, {} transactions, {} of {} new orders rolled back; conditions 1 to 4 hold",
                self.warehouses,
                self.inputs.len(),
                done.rolled_back,
                done.new_orders + done.rolled_back,
            ),
            digest,
        })
    }
}
