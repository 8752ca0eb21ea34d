//! Many tasks with transactions by chance, against a plain model.

use super::{Dev, Notes, Wall, at, config, line_of, lines, sleep};
use device::{DeviceEngine, Pace};
use port::{Atomicity, Conflict, Device, DeviceError, Transaction, TxOptions};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Stream, Time, TxId};
use vtime::Machine;

/// What a transaction or a write has left.
struct Ended {
    /// When its end was asked for, at which it has its lines; of a write under none, when that was
    /// done. The device lets others write before the host knows that a commit is done.
    at: Time,
    /// A write under none: what it waited for has ended before it.
    is_plain: bool,
    lines: BTreeMap<u64, u8>,
    /// Others may have written meanwhile where a part was committed, or it was aborted then.
    is_doubtful: bool,
}

/// What the host knows of all of them.
#[derive(Default)]
struct Model {
    ended: Vec<Ended>,
    /// How transactions ended: whole, in parts, aborted because they would wait for ever, aborted
    /// for want of room.
    ends: [u32; 4],
}

impl Model {
    /// What each line that was written may hold: the first, or another one.
    fn lines(&mut self) -> BTreeMap<u64, Vec<u8>> {
        self.ended.sort_by_key(|ended| (ended.at, ended.is_plain));
        let mut lines: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for ended in &self.ended {
            for (line, value) in &ended.lines {
                let may_be = lines.entry(*line).or_insert_with(|| vec![0]);
                if !ended.is_doubtful {
                    may_be.clear();
                }
                may_be.push(*value);
            }
        }
        lines
    }
}

/// A transaction by chance; says whether it was done.
async fn attempt(device: &Dev, clock: &Wall, stream: &mut Stream, model: &RefCell<Model>) -> bool {
    let value = 1 + stream.below(255) as u8;
    let count = match stream.below(6) {
        0 => 1 + stream.below(150),
        _ => 1 + stream.below(12),
    };
    let first = stream.below(240);
    let step = 1 + stream.below(3);
    let mut places: Vec<u64> = (0..count).map(|nth| first + nth * step).collect();
    if stream.below(3) == 0 {
        places.reverse();
    }
    let is_reserved = stream.below(2) == 0 && count <= 108;
    let may_split = stream.below(2) == 0;
    let options = TxOptions {
        lines: if is_reserved { count as u32 } else { 0 },
        may_split,
        conflict: Conflict::Wait,
    };
    let tx = Transaction::begin(device, options).await.unwrap();
    let mut written = BTreeMap::new();
    let mut refused = None;
    for line in places {
        if let Err(error) = tx.write(at(line), &lines(1, value)).await {
            refused = Some(error);
            break;
        }
        written.insert(line, value);
        if stream.below(20) == 0 {
            sleep(clock, stream.below(8)).await;
        }
    }
    let gives_up = stream.below(8) == 0;
    let is_whole = is_reserved || !may_split;
    if refused.is_none() && !gives_up {
        let (done, atomicity) = tx.commit().await.unwrap();
        assert!(
            !is_whole || atomicity == Atomicity::Whole,
            "{options:?}: {atomicity:?}"
        );
        let mut model = model.borrow_mut();
        model.ended.push(Ended {
            at: done.submitted,
            is_plain: false,
            lines: written,
            is_doubtful: atomicity != Atomicity::Whole,
        });
        model.ends[usize::from(atomicity != Atomicity::Whole)] += 1;
        return true;
    }
    let (done, atomicity) = tx.abort().await.unwrap();
    let mut model = model.borrow_mut();
    if atomicity != Atomicity::Whole {
        assert!(!is_whole);
        model.ended.push(Ended {
            at: done.submitted,
            is_plain: false,
            lines: written,
            is_doubtful: true,
        });
    }
    match refused {
        None => true,
        Some(DeviceError::Deadlock { .. }) => {
            model.ends[2] += 1;
            false
        }
        Some(DeviceError::LogFull | DeviceError::TooLarge { .. }) => {
            assert!(!may_split && !is_reserved, "{options:?} is refused");
            model.ends[3] += 1;
            false
        }
        Some(error) => panic!("{options:?}: {error}"),
    }
}

/// Many tasks; how their transactions ended.
fn busy(seed: u64, commits: u32) -> [u32; 4] {
    let engine = DeviceEngine::in_memory(&config(commits), Pace::None).unwrap();
    let mut machine = Machine::new(engine, 2);
    let model: Rc<RefCell<Model>> = Rc::default();
    for task in 0..6 {
        let (device, clock) = (machine.device(), machine.clock());
        let model = Rc::clone(&model);
        machine.spawn(format!("task {task}"), async move {
            let mut stream = Stream::new(seed * 100 + task, "busy transactions");
            for _ in 0..25 {
                if stream.below(4) == 0 {
                    let line = stream.below(600);
                    let bytes = lines(1, 200);
                    let write = device.write(at(line), &bytes, TxId::NONE);
                    let done = write.await.unwrap();
                    model.borrow_mut().ended.push(Ended {
                        at: done.finished,
                        is_plain: true,
                        lines: BTreeMap::from([(line, 200)]),
                        is_doubtful: false,
                    });
                }
                attempt(&device, &clock, &mut stream, &model).await;
            }
        });
    }
    machine
        .run()
        .unwrap_or_else(|blocked| panic!("seed {seed}: {blocked}"));
    machine.settle();
    machine.engine().audit();
    assert_eq!(machine.engine().counters().standing[0], 0, "seed {seed}");
    // Nothing is locked, no room is lost, and every line is what it was last committed as.
    let device = machine.device();
    let found: Notes<(u64, u8)> = Rc::default();
    let log = Rc::clone(&found);
    machine.spawn("checker", async move {
        let all = Transaction::begin(&device, TxOptions::reserving(108))
            .await
            .unwrap();
        all.commit().await.unwrap();
        for line in 0..700 {
            let value = line_of(&device, line).await;
            log.borrow_mut().push((line, value));
        }
    });
    machine.run().unwrap();
    let mut model = model.borrow_mut();
    let lines = model.lines();
    for (line, value) in found.take() {
        let may_be = lines.get(&line).map_or(&[0][..], |values| values);
        assert!(
            may_be.contains(&value),
            "seed {seed}: line {line} holds {value}; it may hold {may_be:?}"
        );
    }
    model.ends
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn transactions_of_many_tasks_are_whole_and_lose_nothing(
        seed in 0..u64::from(u32::MAX),
        commits in prop_oneof![Just(1u32), Just(3), Just(1_000)],
    ) {
        busy(seed, commits);
    }
}

#[test]
fn the_tasks_by_chance_meet_everything() {
    let mut ends = [0; 4];
    for seed in 0..12 {
        for (sum, count) in ends.iter_mut().zip(busy(seed, 3)) {
            *sum += count;
        }
    }
    let [whole, parts, deadlocks, refused] = ends;
    assert!(
        whole > 500 && parts > 5 && deadlocks > 5 && refused > 5,
        "{ends:?}"
    );
}
