//! The engine against a plain model, with aborts, from its journal, and with many threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use workloads::db::journal::{Deed, Journal, Line};
use workloads::db::{
    Column, Database, Index, Keys, Latch, Partition, PartitionId, Session, Shape, Slot, Table,
};
use workloads::random::hash;

const SHAPE: Shape = Shape {
    name: "things",
    row_bytes: 16,
    rows: 8,
    chunk_rows: 4,
    index: Index::HashAndTree,
};
const KEY: Column<u64> = Column::at(0);
const VALUE: Column<u64> = Column::at(8);

type Model = BTreeMap<u64, u64>;

fn database(partitions: usize) -> Database {
    let partitions = (0..partitions).map(|_| Partition::new(&SHAPE)).collect();
    Database {
        tables: vec![Table::new(SHAPE, partitions)],
    }
}

fn partition(index: usize) -> PartitionId {
    let index = u32::try_from(index).unwrap();
    PartitionId { table: 0, index }
}

fn keys(key: u64) -> Keys {
    Keys {
        hash: Some(key),
        tree: Some(u128::from(key) << 64),
    }
}

fn step(session: &mut Session<'_>, model: &mut Model, index: usize, bits: u64) {
    let (id, key) = (partition(index), bits % 40);
    match session.partition(id).find(key) {
        Some(slot) if bits >> 40 & 1 == 0 => {
            session.remove(id, slot, keys(key));
            model.remove(&key);
        }
        Some(slot) => {
            session.update(id, slot, |row| VALUE.set(row, bits));
            model.insert(key, bits);
        }
        None => {
            session.insert(id, keys(key), |row| {
                KEY.set(row, key);
                VALUE.set(row, bits);
            });
            model.insert(key, bits);
        }
    }
}

fn compare(partition: &Partition, model: &Model, when: u64) {
    assert_eq!(partition.rows(), model.len(), "after transaction {when}");
    let found = partition.tree().range(0, u128::MAX).map(|(key, slot)| {
        assert_eq!(partition.find((key >> 64) as u64), Some(slot));
        let row = partition.row(slot);
        assert_eq!(u128::from(KEY.get(row)) << 64, key);
        (KEY.get(row), VALUE.get(row))
    });
    assert!(
        found.eq(model.iter().map(|(k, v)| (*k, *v))),
        "after transaction {when}"
    );
}

/// Random transactions over two partitions, a third of them aborted.
fn churn(
    database: &Database,
    journal: Option<Journal>,
    transactions: u64,
) -> ([Model; 2], Option<Journal>) {
    let mut models = [Model::new(), Model::new()];
    let mut session = Session::new(database, journal);
    for transaction in 0..transactions {
        let before = models.clone();
        for index in [0, 1] {
            session.latch(partition(index), Latch::Exclusive);
        }
        for change in 0..hash(1, transaction) % 12 {
            let bits = hash(2, transaction * 16 + change);
            let index = (bits >> 50 & 1) as usize;
            step(&mut session, &mut models[index], index, bits);
        }
        if hash(3, transaction).is_multiple_of(3) {
            session.abort();
            models = before;
        } else {
            session.commit();
        }
        for (index, model) in models.iter().enumerate() {
            compare(&database.tables[0].read(index), model, transaction);
        }
    }
    (models, session.close())
}

#[test]
fn committed_changes_stay_and_aborted_ones_leave_nothing() {
    let (models, _) = churn(&database(2), None, 3_000);
    assert!(models.iter().all(|model| !model.is_empty()));
}

/// What the journal's committed transactions make of empty tables, by slot.
fn redo(lines: &[Line]) -> BTreeMap<(PartitionId, Slot), Vec<u8>> {
    let (mut rows, mut open) = (BTreeMap::new(), Vec::new());
    for line in lines {
        match (line.deed, line.place) {
            (Deed::Commit, _) => {
                for (place, after) in open.drain(..) {
                    rows.insert(place, after);
                }
                rows.retain(|_, after: &mut Vec<u8>| !after.is_empty());
            }
            (Deed::Abort, _) => open.clear(),
            (_, place) => open.push((place.expect("a change has a place"), line.after.clone())),
        }
    }
    rows
}

#[test]
fn committed_transactions_can_be_made_again_from_the_journal() {
    let (models, journal) = churn(&database(2), Some(Journal::new(1 << 20)), 500);
    let journal = journal.unwrap();
    let lines = journal.read().unwrap();
    assert_eq!(
        lines.len() as u64,
        journal.lines(),
        "the ring holds all of it"
    );
    let mut redone = [Model::new(), Model::new()];
    for ((id, _), row) in redo(&lines) {
        redone[id.index as usize].insert(KEY.get(&row), VALUE.get(&row));
    }
    assert_eq!(redone, models);
}

#[test]
fn money_moved_by_many_threads_is_neither_made_nor_lost() {
    const ACCOUNTS: u64 = 64;
    let database = database(8);
    for account in 0..ACCOUNTS {
        let mut partition = database.tables[0].write((account % 8) as usize);
        partition.insert(keys(account), |row| {
            KEY.set(row, account);
            VALUE.set(row, 1_000);
        });
    }
    let aborted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (database, aborted) = (&database, &aborted);
            scope.spawn(move || {
                let mut session = Session::new(database, Some(Journal::new(4096)));
                for round in 0..2_000 {
                    transfer(
                        &mut session,
                        hash(thread, round) % ACCOUNTS,
                        hash(thread, !round) % ACCOUNTS,
                        aborted,
                    );
                }
                session.close().unwrap().read().unwrap();
            });
        }
    });
    let total: u64 = (0..8)
        .map(|index| {
            database.tables[0]
                .read(index)
                .scan()
                .map(|row| VALUE.get(row))
                .sum::<u64>()
        })
        .sum();
    assert_eq!(total, ACCOUNTS * 1_000);
    assert!(
        aborted.load(Ordering::Relaxed) > 0,
        "some accounts run empty"
    );
}

/// Moves 700 from one account to another, first taking, then finding out whether it may.
fn transfer(session: &mut Session<'_>, source: u64, target: u64, aborted: &AtomicU64) {
    if source == target {
        return;
    }
    let ids = [source, target].map(|account| partition((account % 8) as usize));
    let (low, high) = (ids[0].min(ids[1]), ids[0].max(ids[1]));
    session.latch(low, Latch::Exclusive);
    if low != high {
        session.latch(high, Latch::Exclusive);
    }
    let slots = [0, 1].map(|side| {
        session
            .partition(ids[side])
            .find([source, target][side])
            .unwrap()
    });
    let rest = VALUE
        .get(session.partition(ids[0]).row(slots[0]))
        .checked_sub(700);
    session.update(ids[1], slots[1], |row| VALUE.set(row, VALUE.get(row) + 700));
    match rest {
        Some(rest) => {
            session.update(ids[0], slots[0], |row| VALUE.set(row, rest));
            session.commit();
        }
        None => {
            session.abort();
            aborted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
#[should_panic(expected = "latches are taken in ascending order")]
fn latches_out_of_order_are_refused() {
    let database = database(2);
    let mut session = Session::new(&database, None);
    session.latch(partition(1), Latch::Shared);
    session.latch(partition(0), Latch::Shared);
}

#[test]
#[should_panic(expected = "a change needs an exclusive latch")]
fn a_shared_latch_allows_no_change() {
    let database = database(1);
    let mut session = Session::new(&database, None);
    session.latch(partition(0), Latch::Shared);
    session.insert(partition(0), keys(1), |_| {});
}
