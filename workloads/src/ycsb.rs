//! YCSB's workload B (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010): 95
//! % of the requests read a record, all ten fields of 100 bytes, 5 % write one field anew. Keys are
//! drawn from the scrambled Zipf distribution, exponent 0.99.
//!
//! Requests come from outside: they are drawn before the region and dealt to the threads in equal
//! parts. A request latches its record's partition, finds the record by the hash index, and looks
//! at or changes it. A record's 64-bit words add up to 0, which every reader checks on all of it: a
//! torn or misplaced record is noticed at once.

use crate::db::{Column, Index, Keys, Partition, Shape, Slot, Table, Text};
use crate::program::{Checked, Failure, Program, Workload, execute};
use crate::random::{hash, key};
use crate::zipf::Zipf;
use crate::{Digest, Member, Setting, team, text, wide};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use units::Bytes;

/// Its entry in the list.
pub const PROGRAM: Program = Program {
    name: "ycsb",
    suite: "WHISPER",
    what: "95 % reads and 5 % updates of 1 KiB records by Zipf's law (YCSB workload B)",
    check: "every record whole, every update counted in its record's version",
    work_unit: "requests",
    footprint: Bytes::new(9_610_000_000),
    small_work: 480_000,
    paper_work: 240_000,
    run: execute::<Ycsb>,
};

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
const ROW_BYTES: usize = 1024;
const KEY: Column<u64> = Column::at(0);
const VERSION: Column<u64> = Column::at(8);
const FIRST_FIELD: usize = 16;
const BALANCE: Column<u64> = Column::at(ROW_BYTES - 8);

/// Records under one latch.
const PARTITION: u64 = 1024;
const SHAPE: Shape = Shape {
    name: "records",
    row_bytes: ROW_BYTES,
    rows: PARTITION as usize,
    chunk_rows: PARTITION as usize,
    index: Index::Hash,
};
/// Record, its share of the hash index (2,048 entries of 16 bytes for 1,024 records) and, rounded
/// up, of the partition's own data.
const BYTES_PER_RECORD: u64 = ROW_BYTES as u64 + 33;

/// Of a hundred requests, so many are updates.
const UPDATES: u64 = 5;

/// What a client asks for: a key, and in the top bit whether to write.
#[derive(Clone, Copy, Debug)]
struct Request(u32);

const UPDATE: u32 = 1 << 31;
const REQUEST_BYTES: u64 = size_of::<Request>() as u64;

impl Request {
    fn draw(zipf: &Zipf, records: u64, sequence: u64, index: u64) -> Self {
        let item = zipf.item(hash(sequence, 2 * index), records);
        let is_update = hash(sequence, 2 * index + 1) % 100 < UPDATES;
        let item = u32::try_from(item).expect("at most 2^31 records");
        Self(item | if is_update { UPDATE } else { 0 })
    }
    fn key(self) -> u64 {
        u64::from(self.0 & !UPDATE)
    }
    fn is_update(self) -> bool {
        self.0 & UPDATE != 0
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    reads: u64,
    updates: u64,
    /// Records that a reader found missing, misplaced or torn.
    bad: u64,
}

/// Records and requests.
#[derive(Debug)]
pub struct Ycsb {
    table: Table,
    records: u64,
    requests: Vec<Request>,
    done: Mutex<Done>,
}

fn field(index: usize) -> Text {
    Text::at(FIRST_FIELD + index * FIELD_BYTES, FIELD_BYTES)
}

/// Sum of a record's words.
#[inline(always)]
fn sum(row: &[u8]) -> u64 {
    let words = row.chunks_exact(8);
    let numbers = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    numbers.fold(0, u64::wrapping_add)
}

/// Makes the words add up to 0 again.
fn balance(row: &mut [u8]) {
    let rest = sum(row).wrapping_sub(BALANCE.get(row));
    BALANCE.set(row, rest.wrapping_neg());
}

fn load(partition: u64, records: u64, sequence: u64) -> Partition {
    let mut loaded = Partition::new(&SHAPE);
    let first = partition * PARTITION;
    for record in first..(first + PARTITION).min(records) {
        let keys = Keys {
            hash: Some(record),
            tree: None,
        };
        loaded.insert(keys, |row| {
            KEY.set(row, record);
            let fields = FIRST_FIELD..FIRST_FIELD + FIELDS * FIELD_BYTES;
            text::fill(&mut row[fields], hash(sequence, record));
            balance(row);
        });
    }
    loaded
}

impl Ycsb {
    #[inline(always)]
    fn read(&self, request: Request) -> bool {
        let partition = self.table.read((request.key() / PARTITION) as usize);
        let Some(slot) = partition.find(request.key()) else {
            return false;
        };
        let row = partition.row(slot);
        sum(row) == 0 && KEY.get(row) == request.key()
    }

    fn update(&self, request: Request, sequence: u64) -> bool {
        let mut partition = self.table.write((request.key() / PARTITION) as usize);
        let Some(slot) = partition.find(request.key()) else {
            return false;
        };
        let row = partition.row_mut(slot);
        let is_whole = sum(row) == 0 && KEY.get(row) == request.key();
        VERSION.set(row, VERSION.get(row) + 1);
        text::fill(
            field((sequence % FIELDS as u64) as usize).get_mut(row),
            sequence,
        );
        balance(row);
        is_whole
    }

    #[inline(always)]
    fn serve(&self, requests: Range<usize>) -> Done {
        let mut done = Done::default();
        for (request, sequence) in self.requests[requests.clone()].iter().zip(requests.start..) {
            let is_whole = if request.is_update() {
                done.updates += 1;
                self.update(*request, hash(0, sequence as u64))
            } else {
                done.reads += 1;
                self.read(*request)
            };
            done.bad += u64::from(!is_whole);
        }
        done
    }

    /// How often each record was to be updated, by key.
    fn ordered(&self) -> Vec<u64> {
        let updates = self.requests.iter().filter(|request| request.is_update());
        let mut keys: Vec<_> = updates.map(|request| request.key()).collect();
        keys.sort_unstable();
        keys
    }

    /// Looks at all records of a partition; says which updates they count.
    fn versions(&self, partition: usize) -> Result<Vec<u64>, Failure> {
        let mut counted = Vec::new();
        for (row, record) in self
            .table
            .read(partition)
            .scan()
            .zip(partition as u64 * PARTITION..)
        {
            if sum(row) != 0 || KEY.get(row) != record {
                return Err(Failure::wrong(format!("ycsb: record {record} is torn.")));
            }
            counted.extend((0..VERSION.get(row)).map(|_| record));
        }
        Ok(counted)
    }

    fn all_versions(&self) -> Result<Vec<u64>, Failure> {
        team::combine(
            self.table.partitions(),
            |mut part| {
                part.try_fold(Vec::new(), |mut all, partition| {
                    all.append(&mut self.versions(partition)?);
                    Ok(all)
                })
            },
            |before, after| Ok([before?, after?].concat()),
        )
    }
}

/// A member's requests.
struct Part<'a>(&'a Ycsb, Range<usize>);

impl wide::Work for Part<'_> {
    type Output = Done;
    #[inline(always)]
    fn run(self) -> Done {
        self.0.serve(self.1)
    }
}

impl Workload for Ycsb {
    fn prepare(setting: &Setting) -> Result<Self, Failure> {
        let requests = setting.work.get();
        let rest = setting
            .footprint
            .get()
            .saturating_sub(requests.saturating_mul(REQUEST_BYTES));
        let records = rest / BYTES_PER_RECORD;
        if !(1..u64::from(UPDATE)).contains(&records) {
            return Err(Failure::refused(format!(
                "ycsb: {} hold {requests} requests and {records} records; give a --footprint for 1 to \
                 {} records of {BYTES_PER_RECORD} bytes.",
                setting.footprint,
                UPDATE - 1,
            )));
        }
        let (texts, draws) = (key(setting.seed, "records"), key(setting.seed, "requests"));
        let zipf = Zipf::scrambled();
        let join = |before, after| [before, after].concat();
        let partitions = team::combine(
            records.div_ceil(PARTITION) as usize,
            |part| {
                part.map(|index| load(index as u64, records, texts))
                    .collect()
            },
            |mut before: Vec<_>, mut after| {
                before.append(&mut after);
                before
            },
        );
        Ok(Self {
            table: Table::new(SHAPE, partitions),
            records,
            requests: team::combine(
                requests as usize,
                |part| {
                    part.map(|index| Request::draw(&zipf, records, draws, index as u64))
                        .collect()
                },
                join,
            ),
            done: Mutex::default(),
        })
    }

    fn region(&self, member: &Member<'_>) {
        let part = wide::run(Part(self, member.part(self.requests.len())));
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.reads += part.reads;
        done.updates += part.updates;
        done.bad += part.bad;
    }

    fn spoil(&mut self) {
        let mut partition = self.table.write((self.records / 2 / PARTITION) as usize);
        partition.row_mut(Slot::new(0))[500] ^= 1;
    }

    fn check(self, _setting: &Setting) -> Result<Checked, Failure> {
        let done = *self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if done.bad > 0 {
            return Err(Failure::wrong(format!(
                "ycsb: {} requests found a torn record.",
                done.bad
            )));
        }
        let (ordered, counted) = (self.ordered(), self.all_versions()?);
        if ordered != counted || done.updates != ordered.len() as u64 {
            return Err(Failure::wrong(format!(
                "ycsb: {} updates were asked for, {} done, and records count {}.",
                ordered.len(),
                done.updates,
                counted.len()
            )));
        }
        Ok(Checked {
            said: format!(
                "{} reads found records whole, {} updates are in the versions of {} records",
                done.reads, done.updates, self.records
            ),
            digest: Digest::of([self.records, done.reads]).with(Digest::of(counted).get()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_in_twenty_is_an_update() {
        let zipf = Zipf::scrambled();
        let requests = (0..20_000).map(|index| Request::draw(&zipf, 1_000, 1, index));
        let updates = requests.filter(|request| request.is_update()).count();
        assert!((900..1_100).contains(&updates), "{updates}");
    }

    #[test]
    fn a_record_is_whole_until_a_byte_changes() {
        let partition = load(0, 10, 3);
        for row in partition.scan() {
            assert_eq!(sum(row), 0);
            assert!(
                row[FIRST_FIELD..ROW_BYTES - 8]
                    .iter()
                    .all(u8::is_ascii_lowercase)
            );
            let mut row = row.to_vec();
            row[300] ^= 4;
            assert_ne!(sum(&row), 0);
            balance(&mut row);
            assert_eq!(sum(&row), 0);
        }
    }
}
