//! Transactions and everything beside them against a plain array of bytes that knows who has
//! written what, on devices so small that logs fill, lines move and commits wait.

use crate::common::{Place, made, small};
use device::{DeviceConfig, DeviceEngine};
use port::Command;
use port::{Acknowledge, Atomicity, Conflict, DeviceError};
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::{ByteAddr, Bytes, TxId};

const BLOCK: usize = 4096;
const LINE: usize = 64;
/// Transactions that are open together at most.
const OPEN: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    /// Under one of the transactions, or under none.
    Write(Option<usize>, usize, usize, u8),
    Commit(usize),
    Abort(usize),
    Read(usize, usize),
    WriteBlocks(usize, usize, u8),
    Trim(usize, usize),
}

fn steps(blocks: usize) -> impl Strategy<Value = Vec<Step>> {
    let bytes = blocks * BLOCK;
    let small = prop_oneof![1..200usize, 1..10_000usize];
    let range = (0..bytes, small).prop_map(move |(at, size)| (at, size.min(bytes - at)));
    let whole = (0..blocks, 0..4usize).prop_map(move |(at, count)| (at, count.min(blocks - at)));
    let step = prop_oneof![
        20 => (0..OPEN, range.clone(), any::<u8>())
            .prop_map(|(tx, (at, size), seed)| Step::Write(Some(tx), at, size, seed)),
        5 => (range.clone(), any::<u8>())
            .prop_map(|((at, size), seed)| Step::Write(None, at, size, seed)),
        4 => (0..OPEN).prop_map(Step::Commit),
        2 => (0..OPEN).prop_map(Step::Abort),
        4 => range.prop_map(|(at, size)| Step::Read(at, size)),
        2 => (whole.clone(), any::<u8>())
            .prop_map(|((at, count), seed)| Step::WriteBlocks(at, count, seed)),
        1 => whole.prop_map(|(at, count)| Step::Trim(at, count)),
    ];
    proptest::collection::vec(step, 1..250)
}

/// A transaction as the host of the model knows it.
#[derive(Default)]
struct Open {
    tx: TxId,
    /// What its lines were before it.
    before: BTreeMap<usize, Vec<u8>>,
    /// Something was written since the last part was committed.
    has_written: bool,
    parts: u32,
}

impl Open {
    fn atomicity(&self) -> Atomicity {
        match self.parts + u32::from(self.has_written) {
            0 | 1 => Atomicity::Whole,
            count => Atomicity::Parts { count },
        }
    }
}

/// What the host expects.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
    open: [Option<Open>; OPEN],
    /// Lines that may be open.
    most: usize,
}

impl Model {
    /// The transaction that holds the line, but for this one.
    fn is_locked(&self, line: usize, against: Option<usize>) -> bool {
        let mut open = self.open.iter().enumerate();
        open.any(|(nth, open)| {
            Some(nth) != against
                && open
                    .as_ref()
                    .is_some_and(|open| open.before.contains_key(&line))
        })
    }

    /// A write, a run of lines of one page after the other.
    fn write(&mut self, by: Option<usize>, at: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        let (mut line, end) = (at / LINE, (at + bytes.len()).div_ceil(LINE));
        // Lines that are written in part are read first, and so nothing is written if one is held.
        let cut = [(at, line), (at + bytes.len(), end.saturating_sub(1))];
        for (byte, line) in cut {
            if !bytes.is_empty() && byte % LINE != 0 && self.is_locked(line, by) {
                let at = ByteAddr::new((line * LINE) as u64);
                return Err(DeviceError::Locked { at });
            }
        }
        while line < end {
            let page_end = (line / (BLOCK / LINE) + 1) * (BLOCK / LINE);
            let run = line..end.min(page_end);
            if run.clone().any(|line| self.is_locked(line, by)) {
                let at = ByteAddr::new((line * LINE) as u64);
                return Err(DeviceError::Locked { at });
            }
            if let Some(by) = by {
                self.take(by, run.clone())?;
            }
            let from = at.max(run.start * LINE);
            let to = (at + bytes.len()).min(run.end * LINE);
            self.bytes[from..to].copy_from_slice(&bytes[from - at..to - at]);
            line = run.end;
        }
        Ok(())
    }

    /// The lines are the transaction's from now on. What is too large is committed as far as it is.
    fn take(&mut self, by: usize, run: core::ops::Range<usize>) -> Result<(), DeviceError> {
        let all: usize = self
            .open
            .iter()
            .flatten()
            .map(|open| open.before.len())
            .sum();
        let open = self.open[by].as_mut().expect("it is open");
        let new = |open: &Open| {
            let lines = run.clone();
            lines.filter(|line| !open.before.contains_key(line)).count()
        };
        let mut others = all - open.before.len();
        if open.before.len() + new(open) > self.most && open.has_written {
            open.before.clear();
            open.has_written = false;
            open.parts += 1;
        }
        if open.before.len() + new(open) > self.most {
            // The run alone.
            let most = self.most as u32;
            return Err(DeviceError::TooLarge { most });
        }
        others += open.before.len();
        if others + new(open) > self.most {
            return Err(DeviceError::LogFull);
        }
        for line in run {
            let bytes = &self.bytes[line * LINE..(line + 1) * LINE];
            open.before.entry(line).or_insert_with(|| bytes.to_vec());
        }
        open.has_written = true;
        Ok(())
    }

    /// Whole blocks, each of which is written unless somebody holds a line of it.
    fn fill(&mut self, block: usize, bytes: &[u8]) -> bool {
        let mut is_done = true;
        for (nth, bytes) in bytes.chunks(BLOCK).enumerate() {
            let first = (block + nth) * BLOCK;
            let mut lines = first / LINE..(first + BLOCK) / LINE;
            if lines.any(|line| self.is_locked(line, None)) {
                is_done = false;
            } else {
                self.bytes[first..first + BLOCK].copy_from_slice(bytes);
            }
        }
        is_done
    }
}

fn pattern(size: usize, seed: u8) -> Vec<u8> {
    (0..size)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed))
        .collect()
}

type Outcome = Result<Atomicity, DeviceError>;

fn ask(engine: &mut DeviceEngine, command: Command, at: usize, size: usize) -> Outcome {
    let range = (ByteAddr::new(at as u64), Bytes::new(size as u64));
    let ticket = engine.submit_any(command, range, Conflict::Refuse, &[])?;
    Ok(engine.finish(ticket, &mut [])?.1)
}

fn write(engine: &mut DeviceEngine, command: Command, at: usize, bytes: &[u8]) -> Outcome {
    let range = (ByteAddr::new(at as u64), Bytes::new(bytes.len() as u64));
    let ticket = engine.submit_any(command, range, Conflict::Refuse, bytes)?;
    Ok(engine.finish(ticket, &mut [])?.1)
}

fn check_bytes(engine: &mut DeviceEngine, model: &Model, at: usize, size: usize) {
    let mut found = vec![0; size];
    let (from, bytes) = (ByteAddr::new(at as u64), Bytes::new(size as u64));
    let ticket = engine.submit(Command::Read, from, bytes).unwrap();
    engine.finish(ticket, &mut found).unwrap();
    let model = &model.bytes[at..at + size];
    let wrong = found
        .iter()
        .zip(model)
        .position(|(one, other)| one != other);
    assert_eq!(wrong.map(|wrong| at + wrong), None, "the first wrong byte");
}

fn end(engine: &mut DeviceEngine, model: &mut Model, nth: usize, is_commit: bool) {
    let Some(open) = model.open[nth].take() else {
        return;
    };
    let how = match is_commit {
        true => Command::Commit(open.tx),
        false => Command::Abort(open.tx),
    };
    assert_eq!(ask(engine, how, 0, 0), Ok(open.atomicity()), "{how:?}");
    let unknown = Err(DeviceError::UnknownTransaction { tx: open.tx });
    assert_eq!(ask(engine, how, 0, 0), unknown);
    if !is_commit {
        for (line, bytes) in open.before {
            model.bytes[line * LINE..(line + 1) * LINE].copy_from_slice(&bytes);
        }
    }
}

fn apply(engine: &mut DeviceEngine, model: &mut Model, step: &Step) {
    match *step {
        Step::Write(by, at, size, seed) => {
            let tx = by.map_or(TxId::NONE, |by| {
                let open = model.open[by].get_or_insert_with(|| Open {
                    tx: engine.begin(true).unwrap(),
                    ..Open::default()
                });
                open.tx
            });
            let bytes = pattern(size, seed);
            let expected = model.write(by, at, &bytes).map(|()| Atomicity::Whole);
            let found = write(engine, Command::Write(tx), at, &bytes);
            assert_eq!(found, expected, "{step:?}");
        }
        Step::Commit(nth) => end(engine, model, nth, true),
        Step::Abort(nth) => end(engine, model, nth, false),
        Step::Read(at, size) => check_bytes(engine, model, at, size),
        Step::WriteBlocks(block, count, seed) => {
            let bytes = pattern(count * BLOCK, seed);
            let is_done = model.fill(block, &bytes);
            let how = Command::WriteBlocks(Acknowledge::Accepted);
            check_locked(write(engine, how, block * BLOCK, &bytes), is_done, step);
        }
        Step::Trim(block, count) => {
            let is_done = model.fill(block, &vec![0; count * BLOCK]);
            let found = ask(engine, Command::Trim, block * BLOCK, count * BLOCK);
            check_locked(found, is_done, step);
        }
    }
}

fn check_locked(found: Outcome, is_done: bool, step: &Step) {
    let is_locked = matches!(found, Err(DeviceError::Locked { .. }));
    let is_right = if is_done { found.is_ok() } else { is_locked };
    assert!(is_right, "{step:?} ends with {found:?}");
}

fn most_open(config: &DeviceConfig) -> usize {
    config.ssd.log.seal_slot_count() as usize / 2
}

fn check(name: &str, config: &DeviceConfig, steps: &[Step]) {
    let place = Place::new(name);
    let mut engine = made(&place, config);
    let mut model = Model {
        bytes: vec![0; config.capacity().get() as usize],
        most: most_open(config),
        ..Model::default()
    };
    for step in steps {
        apply(&mut engine, &mut model, step);
        engine.audit();
    }
    for nth in 0..OPEN {
        end(&mut engine, &mut model, nth, nth % 2 == 0);
    }
    engine.settle();
    engine.audit();
    check_bytes(&mut engine, &model, 0, model.bytes.len());
}

/// A TxLog of four commits; 108 lines may be open.
fn of_bytefs() -> DeviceConfig {
    let sets = [
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=16B",
        "ssd.dram=100KiB",
    ];
    small("bytefs", &sets)
}

/// A hashed log and a cache; 54 lines may be open, less than a page has.
fn hashed() -> DeviceConfig {
    let sets = [
        "ssd.log.size=16KiB",
        "ssd.log.tx_log=4B",
        "ssd.dram=100KiB",
        "ssd.log.seal_at=85%",
    ];
    small("skybyte", &sets)
}

#[test]
fn the_small_devices_have_as_much_room_as_the_model_believes() {
    assert_eq!((most_open(&of_bytefs()), most_open(&hashed())), (108, 54));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn transactions_on_a_few_pages_are_as_their_host_expects(steps in steps(5)) {
        check("transactions-few", &of_bytefs(), &steps);
    }

    #[test]
    fn transactions_on_many_pages_are_as_their_host_expects(steps in steps(100)) {
        check("transactions-many", &of_bytefs(), &steps);
    }

    #[test]
    fn transactions_beside_a_cache_are_as_their_host_expects(steps in steps(5)) {
        check("transactions-cache", &hashed(), &steps);
    }
}

/// Writes of one transaction that are under way together, more than the log has room for: all of
/// them are committed in the end, and nothing stays locked.
#[test]
fn a_large_transaction_may_have_many_writes_under_way() {
    let place = Place::new("transactions-together");
    let mut engine = made(&place, &of_bytefs());
    for round in 0..40u8 {
        let tx = engine.begin(true).unwrap();
        let writes: Vec<_> = (0..20usize)
            .map(|nth| {
                let at = (nth * 1_000) as u64;
                let bytes = pattern(640, round.wrapping_mul(20).wrapping_add(nth as u8));
                let at = ByteAddr::new(at / 64 * 64 + u64::from(round) * 7 * 64);
                let ticket = engine.submit_write(Command::Write(tx), at, &bytes).unwrap();
                (ticket, at, bytes)
            })
            .collect();
        for (ticket, ..) in writes.iter().rev() {
            let done = engine.finish(*ticket, &mut []);
            assert_eq!(done.map(|(_, how)| how), Ok(Atomicity::Whole));
        }
        let parts = ask(&mut engine, Command::Commit(tx), 0, 0);
        assert!(matches!(parts, Ok(Atomicity::Parts { .. })), "{parts:?}");
        engine.audit();
        for (_, at, bytes) in &writes {
            let found = write(
                &mut engine,
                Command::Write(TxId::NONE),
                at.get() as usize,
                bytes,
            );
            assert_eq!(found, Ok(Atomicity::Whole), "nobody holds it any more");
        }
    }
}
