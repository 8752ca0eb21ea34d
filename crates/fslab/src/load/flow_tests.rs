//! Flows on plain files.

use super::*;
use crate::load::hardware::{Scale, scaled};
use crate::load::plain::Plain;
use crate::load::shipped;
use crate::load::vfs::caller;
use device::{DeviceEngine, Pace};
use std::future::poll_fn;
use std::pin::pin;
use units::Time;
use vtime::Machine;

fn machine() -> Machine<DeviceEngine> {
    let config = scaled("bytefs", Scale::new(256).unwrap(), &[]).unwrap();
    Machine::new(DeviceEngine::in_memory(&config, Pace::None).unwrap(), 4)
}

/// Wakes the task again after each poll, a few times: polls that nobody needs.
async fn often<T>(is_spurious: bool, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut wakes = if is_spurious { 5 } else { 0 };
    poll_fn(|context| {
        let poll = future.as_mut().poll(context);
        if poll.is_pending() && wakes > 0 {
            wakes -= 1;
            context.waker().wake_by_ref();
        }
        poll
    })
    .await
}

/// A flow, and its threads by group.
type Made = (Flow, Vec<Vec<u32>>);

/// Runs a load on plain files; gives what was measured, as text, and the operations of each kind.
fn run(name: &str, scale: u64, seed: u64, is_spurious: bool) -> (String, BTreeMap<String, u64>) {
    let load = shipped(name).unwrap().load().unwrap();
    let mut machine = machine();
    let clock = machine.clock();
    let files = Rc::new(Plain::new(machine.clock()));
    let made: Rc<RefCell<Option<Made>>> = Rc::default();
    let (result, of_task, spec) = (Rc::clone(&made), Rc::clone(&files), load.clone());
    machine.spawn("make", async move {
        let mut sets = Vec::new();
        for files in &spec.files {
            let entries = (files.entries / scale).max(files.least.min(files.entries));
            let mut set = FileSet::new(files, entries, seed);
            set.make_directories(&*of_task, &caller(0, Time::ZERO))
                .await
                .unwrap();
            sets.push(set);
        }
        let drawn = sets
            .iter()
            .zip(&spec.files)
            .map(|(set, spec)| set.draw_existing(spec.existing.of(set.most()), seed));
        let drawn = drawn.collect();
        *result.borrow_mut() = Some((Flow::new(&spec, sets, seed, 4), drawn));
    });
    machine.run().unwrap();
    let (flow, drawn) = made.take().unwrap();
    let (flow, drawn) = (Rc::new(flow), Rc::new(drawn));
    let before = Rc::new(Stage::new(Rc::clone(&files), clock.clone(), 4, 0));
    for lane in 0..4 {
        let (flow, drawn, stage) = (Rc::clone(&flow), Rc::clone(&drawn), Rc::clone(&before));
        machine.spawn("populate", async move {
            flow.populate(&stage, &drawn, (lane, 4)).await.unwrap();
        });
    }
    machine.run().unwrap();
    let threads = flow.threads();
    let counted = threads.iter().filter(|(_, counted)| *counted).count() as u32;
    let stage = Rc::new(Stage::new(files, clock, 4, counted));
    flow.begin(load.rounds.map(|rounds| rounds / scale));
    let ended = Rc::clone(&flow);
    stage.when_over(move || ended.end());
    for (number, (name, _)) in threads.iter().enumerate() {
        let (flow, stage) = (Rc::clone(&flow), Rc::clone(&stage));
        machine.spawn(name.clone(), async move {
            often(is_spurious, flow.run(&stage, number)).await;
        });
    }
    machine.run().unwrap();
    let took = stage.outcome().unwrap();
    let latencies = stage.recorder.latencies();
    let text = format!("{took} {:?} {latencies:?}", stage.recorder.bytes());
    let counts = latencies
        .into_iter()
        .map(|(kind, of)| (kind, of.operations));
    (text, counts.collect())
}

#[test]
fn the_same_load_gives_the_same_bytes_whatever_is_polled_in_vain() {
    for name in ["varmail", "oltp", "webserver"] {
        let scale = if name == "oltp" { 400 } else { 5_000 };
        let (once, _) = run(name, scale, 7, false);
        assert_eq!(run(name, scale, 7, false).0, once);
        assert_eq!(run(name, scale, 7, true).0, once, "{name}: polls in vain");
        // Where sizes are drawn, files in memory tell seeds apart.
        let other = run(name, scale, 8, false).0;
        assert_eq!(other == once, name == "oltp", "{name}: another seed");
    }
}

#[test]
fn loads_do_what_their_personalities_say() {
    let of = |name, scale| run(name, scale, 1, false).1;
    let kinds = |counts: &BTreeMap<String, u64>, of: &[(&str, u64)]| {
        for (kind, expected) in of {
            assert_eq!(counts.get(*kind), Some(expected), "{kind}: {counts:?}");
        }
        assert_eq!(counts.len(), of.len(), "{counts:?}");
    };
    // 500 of 1,000 exist.
    let create = [
        ("create", 500),
        ("write", 500),
        ("fsync", 500),
        ("close", 500),
    ];
    kinds(&of("create", 1_000), &create);
    kinds(&of("delete", 1_000), &[("delete", 1_000)]);
    kinds(&of("mkdir", 1_000), &[("mkdir", 1_000)]);
    kinds(&of("rmdir", 1_000), &[("rmdir", 1_000)]);
    let varmail = of("varmail", 1_000);
    let round = [
        ("create", 1),
        ("append", 2),
        ("fsync", 2),
        ("open", 2),
        ("read", 2),
        ("close", 3),
    ];
    for (kind, times) in round {
        assert_eq!(varmail[kind], times * 100, "{kind}");
    }
    let webserver = of("webserver", 1_000);
    assert_eq!((webserver["read"], webserver["append"]), (600, 60));
    let oltp = of("oltp", 100);
    // A write for each read, and one of the log for 3,200, but for what is under way at the end.
    assert_eq!(oltp["read"], 4_000);
    assert!(
        (4_000..=8_100).contains(&oltp["write"]),
        "{}",
        oltp["write"]
    );
}
