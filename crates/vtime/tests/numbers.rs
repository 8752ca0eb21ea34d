//! Numbers of transactions, which open lines migrate in the order of, hang on time, task and
//! sequence: not on the order of polls, and not on polls that nobody needs.

use crate::common::{Notes, device, device_with, often};
use device::DeviceEngine;
use device::activity::ACTIVITY;
use port::{Clock, Device, DeviceError, Transaction, TxOptions};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use units::{ByteAddr, Picos, Stream, Time, TxId};
use vtime::{Machine, VirtualClock};

const TASKS: usize = 6;

/// What a task waits for until another one lets it go on, in no time.
#[derive(Default)]
struct Gate {
    /// How often it was opened.
    opened: Cell<u64>,
    wakers: RefCell<Vec<Waker>>,
}

impl Gate {
    fn open(&self) {
        self.opened.set(self.opened.get() + 1);
        self.wakers.borrow_mut().drain(..).for_each(Waker::wake);
    }

    async fn passes(&self, times: u64) {
        poll_fn(|context| {
            if self.opened.get() >= times {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Waits for `future`; with a time, the task is also polled then, which it has no need of.
async fn looked_at<T>(
    when: Option<Time>,
    clock: &VirtualClock<DeviceEngine>,
    future: impl Future<Output = T>,
) -> T {
    let Some(when) = when else {
        return future.await;
    };
    let (mut future, mut wake) = (pin!(future), pin!(clock.sleep_until(when)));
    let mut is_woken = false;
    poll_fn(|context| {
        is_woken = is_woken || wake.as_mut().poll(context).is_ready();
        future.as_mut().poll(context)
    })
    .await
}

/// Tasks 0, 1 and 2 wake up at one instant, and task 1 waits for task 0 then: what each gets when
/// it begins a transaction.
fn at_one_instant(spurious: bool, engine: DeviceEngine) -> Vec<(u32, Result<TxId, DeviceError>)> {
    let mut machine = Machine::new(engine, 1);
    let notes: Notes<(u32, Result<TxId, DeviceError>)> = Rc::default();
    let gate: Rc<Gate> = Rc::default();
    let then = machine.now() + Picos::from_micros(1);
    for task in 0..3 {
        let (device, clock) = (machine.device(), machine.clock());
        let (notes, gate) = (Rc::clone(&notes), Rc::clone(&gate));
        machine.spawn(format!("task {task}"), async move {
            match task {
                1 => looked_at(spurious.then_some(then), &clock, gate.passes(1)).await,
                _ => clock.sleep_until(then).await,
            }
            if task == 0 {
                gate.open();
            }
            let begun = often(spurious, device.begin(TxOptions::default())).await;
            notes.borrow_mut().push((task, begun));
            assert_eq!(clock.now(), then, "it takes no time");
        });
    }
    machine.run().unwrap();
    let mut notes = notes.take();
    notes.sort_by_key(|(task, _)| *task);
    notes
}

#[test]
fn a_poll_too_many_gives_no_transaction_another_number() {
    for spurious in [false, true] {
        let begun = at_one_instant(spurious, device());
        let numbers: Vec<TxId> = begun.into_iter().map(|(_, tx)| tx.unwrap()).collect();
        let expected = [1, 2, 3].map(TxId::new);
        assert_eq!(numbers, expected, "spurious polls: {spurious}");
    }
}

#[test]
fn a_poll_too_many_changes_nothing_about_who_is_one_too_many() {
    for spurious in [false, true] {
        let begun = at_one_instant(spurious, device_with(&["device.transactions=2"]));
        let refused: Vec<u32> = begun
            .into_iter()
            .filter_map(|(task, begun)| begun.is_err().then_some(task))
            .collect();
        assert_eq!(refused, [2], "spurious polls: {spurious}");
    }
}

/// Begins that nobody waits for any more, before their turn and behind it, leave no transaction and
/// keep nothing of the instant back.
#[test]
fn a_begin_that_is_dropped_leaves_none() {
    let mut machine = Machine::new(device_with(&["device.transactions=1"]), 1);
    let (device, clock) = (machine.device(), machine.clock());
    machine.spawn("impatient", async move {
        for behind in [false, true] {
            {
                let mut begin = pin!(device.begin(TxOptions::default()));
                let first = poll_fn(|context| Poll::Ready(begin.as_mut().poll(context))).await;
                assert!(first.is_pending());
                if behind {
                    clock.sleep_until(clock.now() + Picos::from_nanos(1)).await;
                }
            }
            let at = ByteAddr::new(0);
            device.write(at, &[1; 64], TxId::NONE).await.unwrap();
            let tx = Transaction::begin(&device, TxOptions::reserving(1)).await;
            tx.unwrap().commit().await.unwrap();
        }
    });
    machine.run().unwrap();
    machine.settle();
    assert_eq!(machine.engine().counters().standing[0], 0);
}

/// Tasks that let each other go on, begin transactions at the same instants and keep them open
/// while the log is compacted: when each began and ended them, with their numbers; lines that
/// migrated.
fn by_chance(seed: u64, spurious: bool) -> (Vec<(usize, Time, TxId)>, u64) {
    let engine = device_with(&["ssd_dram.mapping=rows"]);
    let mut machine = Machine::new(engine, 2);
    // Transactions have the first half, a column of lines each: none waits for another.
    let half = machine.engine().shape().capacity.get() / 128;
    let notes: Notes<(usize, Time, TxId)> = Rc::default();
    let gates: Vec<Rc<Gate>> = (0..TASKS).map(|_| Rc::default()).collect();
    let begin = machine.now();
    for task in 0..TASKS {
        let (device, clock) = (machine.device(), machine.clock());
        let (notes, gates) = (Rc::clone(&notes), gates.clone());
        machine.spawn(format!("task {task}"), async move {
            let mut stream = Stream::new(100 * seed + task as u64, "numbers");
            for round in 1..=20 {
                let instant = begin + Picos::from_micros(2_000 * round);
                // Each waits for one before it, or for the clock.
                match stream.below(task as u64 + 1) as usize {
                    other if other < task => {
                        let passes = gates[other].passes(round);
                        looked_at(spurious.then_some(instant), &clock, passes).await;
                    }
                    _ => often(spurious, clock.sleep_until(instant)).await,
                }
                gates[task].open();
                let options = match stream.below(3) {
                    0 => TxOptions::reserving(12),
                    _ => TxOptions::default(),
                };
                let asked = clock.now();
                let tx = often(spurious, Transaction::begin(&device, options)).await;
                let tx = tx.unwrap();
                notes.borrow_mut().push((task, asked, tx.id()));
                for _ in 0..1 + stream.below(12) {
                    let line = stream.below(half / TASKS as u64) * TASKS as u64 + task as u64;
                    let write = tx.write(ByteAddr::new(64 * line), &[1; 64]);
                    often(spurious, write).await.unwrap();
                }
                for _ in 0..60 {
                    let line = half + stream.below(half);
                    let write = device.write(ByteAddr::new(64 * line), &[2; 64], TxId::NONE);
                    often(spurious, write).await.unwrap();
                }
                often(spurious, tx.commit()).await.unwrap();
                notes.borrow_mut().push((task, clock.now(), TxId::NONE));
            }
        });
    }
    machine.run().unwrap();
    machine.engine().audit();
    let counters = machine.engine().counters();
    let migrated = ACTIVITY.iter().zip(counters.activity);
    let migrated = migrated.filter(|((name, _), _)| *name == "migrated_lines");
    let mut notes = notes.take();
    notes.sort_by_key(|(task, at, _)| (*at, *task));
    (notes, migrated.map(|(_, count)| count).sum())
}

#[test]
fn polls_that_nobody_needs_change_neither_numbers_nor_times_of_transactions() {
    for seed in 0..4 {
        let (notes, migrated) = by_chance(seed, false);
        assert!(migrated > 100, "{migrated} open lines have migrated");
        let (spurious_notes, _) = by_chance(seed, true);
        let differs = notes.iter().zip(&spurious_notes).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        let mut last = (Time::ZERO, 0, TxId::NONE);
        for (task, at, tx) in notes.into_iter().filter(|(.., tx)| *tx != TxId::NONE) {
            let is_later = (at, task) > (last.0, last.1) && tx > last.2;
            assert!(
                is_later,
                "seed {seed}: {tx} of task {task} at {at} is behind {last:?}"
            );
            last = (at, task, tx);
        }
    }
}
