//! Tasks over a device in memory: times, order, and what ends in an error.

use crate::common::{Notes, device, often};
use device::DeviceEngine;
use port::{Acknowledge, Clock, Command, Conflict, Device, Engine, TxOptions};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use units::{ByteAddr, Bytes, Picos, Stream, Time, TxId};
use vtime::Machine;

#[test]
fn processors_are_shared_first_come_first_served() {
    let mut machine = Machine::new(device(), 2);
    let begin = machine.now();
    let notes: Notes<(u32, Picos)> = Rc::default();
    for task in 0..4 {
        let (clock, notes) = (machine.clock(), Rc::clone(&notes));
        machine.spawn("worker", async move {
            clock.spend(Picos::from_nanos(100)).await;
            notes.borrow_mut().push((task, clock.now() - begin));
            clock.sleep_until(begin + Picos::from_nanos(50)).await;
            notes.borrow_mut().push((task, clock.now() - begin));
        });
    }
    let end = machine.run().unwrap();
    assert_eq!(end - begin, Picos::from_nanos(200));
    let ns = Picos::from_nanos;
    let expected = [
        (0, ns(100)),
        (1, ns(100)),
        (0, ns(100)),
        (1, ns(100)),
        (2, ns(200)),
        (3, ns(200)),
        (2, ns(200)),
        (3, ns(200)),
    ];
    assert_eq!(*notes.borrow(), expected);
}

#[test]
fn who_waits_for_what_is_said_when_nothing_is_to_come() {
    let mut machine = Machine::new(device(), 1);
    let (device, other) = (machine.device(), machine.device());
    machine.spawn("holder", async move {
        let tx = device.begin(TxOptions::default()).await.unwrap();
        device
            .write(ByteAddr::new(128), &[1; 64], tx)
            .await
            .unwrap();
        // Never ends it.
        std::future::pending::<()>().await;
    });
    let clock = machine.clock();
    machine.spawn("waiter", async move {
        clock.sleep_until(clock.now() + Picos::from_micros(5)).await;
        let written = other.write(ByteAddr::new(130), &[2; 4], TxId::NONE);
        written.await.unwrap();
    });
    let blocked = machine.run().unwrap_err().to_string();
    let holder = "holder (task 0) waits for another task";
    let waiter = "waiter (task 1) waits for a write of 4B at byte 130";
    assert!(
        blocked.contains(holder) && blocked.contains(waiter),
        "{blocked}"
    );
}

/// Tasks that read, write, commit and compute, each from a stream of its own. With `spurious`, each
/// polls its futures more often than it must.
fn busy_tasks(machine: &mut Machine<DeviceEngine>, spurious: bool, notes: &Notes<(usize, Time)>) {
    let capacity = machine.engine().shape().capacity.get();
    for task in 0..6 {
        let (device, clock, notes) = (machine.device(), machine.clock(), Rc::clone(notes));
        machine.spawn(format!("task {task}"), async move {
            let mut stream = Stream::new(task as u64, "busy tasks");
            for _ in 0..60 {
                let at = ByteAddr::new(64 * stream.below(capacity / 64));
                let page = ByteAddr::new(4096 * stream.below(capacity / 4096));
                match stream.below(6) {
                    0 => {
                        let mut into = [0; 64];
                        often(spurious, device.read(at, &mut into)).await.unwrap();
                    }
                    1 => {
                        often(spurious, device.write(at, &[7; 64], TxId::NONE))
                            .await
                            .unwrap();
                    }
                    2 => {
                        let bytes = [3; 4096];
                        let write = device.write_blocks(page, &bytes, Acknowledge::Accepted);
                        often(spurious, write).await.unwrap();
                    }
                    3 => {
                        let mut into = [0; 4096];
                        often(spurious, device.read_blocks(page, &mut into))
                            .await
                            .unwrap();
                    }
                    4 => often(spurious, clock.spend(Picos::from_nanos(stream.below(900)))).await,
                    _ => {
                        let tx = device.begin(TxOptions::default()).await.unwrap();
                        often(spurious, device.write(at, &[9; 64], tx))
                            .await
                            .unwrap();
                        often(spurious, device.commit(tx)).await.unwrap();
                    }
                }
                notes.borrow_mut().push((task, clock.now()));
            }
        });
    }
}

#[test]
fn polls_that_nobody_needs_change_no_time() {
    let times = |spurious| {
        let mut machine = Machine::new(device(), 2);
        let notes: Notes<(usize, Time)> = Rc::default();
        busy_tasks(&mut machine, spurious, &notes);
        let end = machine.run().unwrap();
        machine.engine().audit();
        let mut notes = notes.borrow().clone();
        // Of one instant, tasks may be polled in another order.
        notes.sort();
        (end, notes, machine.polls())
    };
    let (end, notes, polls) = times(false);
    let (spurious_end, spurious_notes, spurious_polls) = times(true);
    assert!(
        spurious_polls > 2 * polls,
        "{spurious_polls} polls, {polls} without"
    );
    assert_eq!((end, notes), (spurious_end, spurious_notes));
}

/// A task of one machine and a plain loop over the engine see the same times.
#[test]
fn a_depth_sweep_through_tasks_is_that_of_a_plain_loop() {
    for depth in [1usize, 4, 16] {
        let mut machine = Machine::new(device(), 1);
        let capacity = machine.engine().shape().capacity.get();
        for slot in 0..depth {
            let device = machine.device();
            machine.spawn("reader", async move {
                let mut stream = Stream::new(slot as u64, "sweep");
                for _ in 0..100 {
                    let at = ByteAddr::new(64 * stream.below(capacity / 64));
                    let mut into = [0; 64];
                    match stream.below(3) {
                        0 => device.write(at, &into, TxId::NONE).await.unwrap(),
                        _ => device.read(at, &mut into).await.unwrap(),
                    };
                }
            });
        }
        let by_tasks = machine.run().unwrap();
        assert_eq!(by_tasks, plain_loop(depth, capacity), "depth {depth}");
    }
}

fn plain_loop(depth: usize, capacity: u64) -> Time {
    let mut engine = device();
    let mut streams: Vec<Stream> = (0..depth)
        .map(|slot| Stream::new(slot as u64, "sweep"))
        .collect();
    let mut left = vec![100; depth];
    let mut tickets = vec![None; depth];
    let mut finished = Vec::new();
    loop {
        for slot in 0..depth {
            if tickets[slot].is_none() && left[slot] > 0 {
                left[slot] -= 1;
                let at = ByteAddr::new(64 * streams[slot].below(capacity / 64));
                let range = (at, Bytes::new(64));
                let now = engine.now();
                let ticket = match streams[slot].below(3) {
                    0 => {
                        let command = Command::Write(TxId::NONE);
                        Engine::submit(&mut engine, now, command, range, Conflict::Wait, &[0; 64])
                    }
                    _ => {
                        Engine::submit(&mut engine, now, Command::Read, range, Conflict::Wait, &[])
                    }
                };
                tickets[slot] = Some(ticket.unwrap());
            }
        }
        if tickets.iter().all(Option::is_none) {
            return engine.now();
        }
        let next = Engine::next_deadline(&mut engine).unwrap();
        Engine::advance(&mut engine, next, &mut finished);
        finished.clear();
        for ticket in &mut tickets {
            if ticket.is_some_and(|ticket| engine.take(ticket, &mut []).is_some()) {
                *ticket = None;
            }
        }
    }
}

#[test]
fn a_write_waits_for_the_transaction_that_has_its_line() {
    let mut machine = Machine::new(device(), 1);
    let notes: Notes<&'static str> = Rc::default();
    let (first, second) = (machine.device(), machine.device());
    let (clock, log) = (machine.clock(), Rc::clone(&notes));
    machine.spawn("first", async move {
        let tx = first.begin(TxOptions::default()).await.unwrap();
        first.write(ByteAddr::new(0), &[1; 64], tx).await.unwrap();
        clock
            .sleep_until(clock.now() + Picos::from_micros(50))
            .await;
        log.borrow_mut().push("first commits");
        first.commit(tx).await.unwrap();
    });
    let (clock, log) = (machine.clock(), Rc::clone(&notes));
    machine.spawn("second", async move {
        clock
            .sleep_until(clock.now() + Picos::from_micros(10))
            .await;
        let tx = second.begin(TxOptions::default()).await.unwrap();
        second.write(ByteAddr::new(32), &[2; 4], tx).await.unwrap();
        log.borrow_mut().push("second has written");
        second.commit(tx).await.unwrap();
        let mut line = [0; 64];
        second.read(ByteAddr::new(0), &mut line).await.unwrap();
        let mut expected = [1; 64];
        expected[32..36].fill(2);
        assert_eq!(line, expected, "the rest of the line is the first one's");
    });
    machine.run().unwrap();
    assert_eq!(*notes.borrow(), ["first commits", "second has written"]);
}

#[test]
fn transactions_that_would_wait_for_each_other_are_told_so() {
    let mut machine = Machine::new(device(), 1);
    let outcomes: Notes<Result<(), String>> = Rc::default();
    for (mine, others) in [(0, 64), (64, 0)] {
        let (device, clock) = (machine.device(), machine.clock());
        let outcomes = Rc::clone(&outcomes);
        machine.spawn("transaction", async move {
            let tx = device.begin(TxOptions::default()).await.unwrap();
            device
                .write(ByteAddr::new(mine), &[1; 64], tx)
                .await
                .unwrap();
            clock
                .sleep_until(clock.now() + Picos::from_micros(20))
                .await;
            let second = device.write(ByteAddr::new(others), &[2; 64], tx).await;
            match second {
                Ok(_) => device.commit(tx).await.map(drop).unwrap(),
                Err(_) => device.abort(tx).await.map(drop).unwrap(),
            }
            outcomes
                .borrow_mut()
                .push(second.map(drop).map_err(|error| error.to_string()));
        });
    }
    machine.run().unwrap();
    let outcomes = outcomes.borrow();
    let refused: Vec<&String> = outcomes
        .iter()
        .filter_map(|outcome| outcome.as_ref().err())
        .collect();
    assert!(
        refused.len() == 1 && refused[0].contains("waits for this one"),
        "{outcomes:?}"
    );
}

/// Reads that are polled together of one task.
#[test]
fn a_future_that_is_dropped_gives_its_ticket_up() {
    let mut machine = Machine::new(device(), 1);
    let device = machine.device();
    machine.spawn("impatient", async move {
        for round in 0..50u64 {
            let mut into = [0; 64];
            let mut read = pin!(device.read(ByteAddr::new(64 * round), &mut into));
            let first = poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await;
            assert!(first.is_pending());
            // The read is dropped here, before the machine saw it.
        }
        let mut into = [0; 64];
        device.read(ByteAddr::new(0), &mut into).await.unwrap();
    });
    machine.run().unwrap();
    machine.settle();
    assert_eq!(
        machine.engine().counters().standing[0],
        0,
        "nothing is under way"
    );
}
