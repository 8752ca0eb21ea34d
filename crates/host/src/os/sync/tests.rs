use super::*;
use proptest::prelude::*;
use trace::FutexId;

const COST: Picos = Picos::from_nanos(200);
const GO_ON: Action = Action::Continue { cost: COST };

fn thread(index: u32) -> ThreadId {
    ThreadId::new(index)
}
fn wake(count: u32) -> SyncEvent {
    let futex = FutexId::new(0);
    SyncEvent::FutexWake { futex, count }
}
fn wait(by: u32, count: u32) -> SyncEvent {
    let woken_by = Some(Wake {
        thread: thread(by),
        count,
    });
    SyncEvent::FutexWait {
        futex: FutexId::new(0),
        woken_by,
    }
}
fn join(child: u32) -> SyncEvent {
    let child = thread(child);
    SyncEvent::Join { child }
}
fn create(child: u32) -> SyncEvent {
    let child = thread(child);
    SyncEvent::ThreadCreate { child }
}

/// The engine, and the threads it resumed by the last call.
struct Rig {
    engine: SyncEngine,
    resumed: Vec<ThreadId>,
}

impl Rig {
    fn new(origins: &[ThreadOrigin]) -> Self {
        let mut rig = Self {
            engine: SyncEngine::new(origins, COST),
            resumed: Vec::new(),
        };
        rig.engine.start(&mut rig.resumed);
        rig
    }
    /// All threads run from the beginning.
    fn of_first(count: usize) -> Self {
        Self::new(&vec![ThreadOrigin::First; count])
    }
    fn event(&mut self, actor: u32, event: SyncEvent) -> Action {
        self.resumed.clear();
        let action = self
            .engine
            .on_event(thread(actor), event, &mut self.resumed);
        self.engine.audit();
        action
    }
    fn resumed(&self) -> Vec<u32> {
        self.resumed.iter().map(|thread| thread.get()).collect()
    }
}

#[test]
fn a_wait_lasts_until_its_wake_has_been_made() {
    let mut rig = Rig::of_first(2);
    assert_eq!(rig.event(1, wait(0, 2)), Action::Block);
    assert_eq!(rig.event(0, wake(1)), GO_ON);
    assert!(rig.resumed().is_empty());
    rig.event(0, wake(2));
    assert_eq!(rig.resumed(), [1]);
    assert!(!rig.engine.is_waiting(thread(1)));
}

#[test]
fn a_wait_whose_wake_is_past_goes_on() {
    let mut rig = Rig::of_first(2);
    rig.event(0, wake(1));
    rig.event(0, wake(2));
    assert_eq!(rig.event(1, wait(0, 1)), GO_ON);
    assert_eq!(rig.event(1, wait(0, 3)), Action::Block);
}

#[test]
fn a_wake_counts_as_its_number_in_the_capture_says() {
    let mut rig = Rig::of_first(2);
    assert_eq!(rig.event(1, wait(0, 5)), Action::Block);
    rig.event(0, wake(5));
    assert_eq!(rig.resumed(), [1]);
}

#[test]
fn one_wake_resumes_all_it_was_recorded_for_in_order_of_arrival() {
    let mut rig = Rig::of_first(5);
    for (waiter, count) in [(4, 1), (2, 2), (3, 1), (1, 1)] {
        assert_eq!(rig.event(waiter, wait(0, count)), Action::Block);
    }
    rig.event(0, wake(1));
    assert_eq!(rig.resumed(), [4, 3, 1]);
    rig.event(0, wake(2));
    assert_eq!(rig.resumed(), [2]);
}

#[test]
fn a_join_lasts_until_the_child_ends() {
    let mut rig = Rig::of_first(2);
    assert_eq!(rig.event(0, join(1)), Action::Block);
    assert_eq!(rig.event(1, SyncEvent::ThreadExit), Action::End);
    assert_eq!(rig.resumed(), [0]);
    assert_eq!(rig.event(0, join(1)), GO_ON);
}

#[test]
fn a_thread_starts_when_it_is_created_and_only_once() {
    let created = ThreadOrigin::CreatedBy(thread(0));
    let mut rig = Rig::new(&[ThreadOrigin::First, created]);
    assert_eq!(rig.resumed(), [0]);
    assert_eq!(rig.event(0, create(1)), GO_ON);
    assert_eq!(rig.resumed(), [1]);
    rig.event(0, create(1));
    assert!(rig.resumed().is_empty());
}

#[test]
fn a_thread_whose_creator_is_not_in_the_run_starts_at_the_beginning() {
    let rig = Rig::new(&[
        ThreadOrigin::Absent,
        ThreadOrigin::CreatedBy(thread(0)),
        ThreadOrigin::CreatedBy(thread(9)),
    ]);
    assert_eq!(rig.resumed(), [1, 2]);
}

#[test]
fn nobody_waits_for_a_thread_that_is_not_in_the_run() {
    let mut rig = Rig::new(&[ThreadOrigin::First, ThreadOrigin::Absent]);
    for event in [wait(1, 7), join(1), wait(8, 1), join(8), create(1)] {
        assert_eq!(rig.event(0, event), GO_ON);
        assert!(rig.resumed().is_empty());
    }
}

#[test]
fn the_end_of_a_stream_frees_whoever_depends_on_it() {
    let created = ThreadOrigin::CreatedBy(thread(0));
    let mut rig = Rig::new(&[ThreadOrigin::First, ThreadOrigin::First, created]);
    rig.event(1, wait(0, 3));
    rig.resumed.clear();
    rig.engine.on_end(thread(0), &mut rig.resumed);
    assert_eq!(rig.resumed(), [1, 2]);
    rig.engine.on_end(thread(0), &mut rig.resumed);
    assert_eq!(rig.resumed(), [1, 2], "a second end does nothing");
    assert!(!rig.engine.is_done());
}

#[test]
fn other_system_calls_and_unmatched_waits_only_cost_time() {
    let mut rig = Rig::of_first(1);
    let unmatched = SyncEvent::FutexWait {
        futex: FutexId::new(3),
        woken_by: None,
    };
    let syscall = SyncEvent::Syscall {
        number: 1,
        duration: trace::DurationClass::from_log2(20),
    };
    for event in [unmatched, syscall, wait(0, 5)] {
        assert_eq!(rig.event(0, event), GO_ON);
    }
}

#[test]
fn a_deadlock_is_explained_thread_by_thread() {
    let created = ThreadOrigin::CreatedBy(thread(1));
    let mut rig = Rig::new(&[ThreadOrigin::First, ThreadOrigin::First, created]);
    rig.event(1, wake(1));
    rig.event(0, wait(1, 2));
    rig.event(1, join(0));
    assert_eq!(
        rig.engine.explain_deadlock(),
        "thread 0 waits for wake 2 of thread 1, which has made 1.\n\
         thread 1 waits for the end of thread 0.\n\
         thread 2 has not been created by thread 1.\n"
    );
}

const THREADS: usize = 5;

/// A capture: events in the order in which they happened, so that every edge points back.
fn captured(choices: &[(u8, usize, usize)]) -> Vec<Vec<SyncEvent>> {
    let mut streams = vec![Vec::new(); THREADS];
    let mut wakes = [0u32; THREADS];
    let mut ended = [false; THREADS];
    for &(kind, actor, other) in choices {
        if ended[actor] {
            continue;
        }
        match kind {
            0..=3 => {
                wakes[actor] += 1;
                streams[actor].push(wake(wakes[actor]));
            }
            4..=8 if wakes[other] > 0 => streams[actor].push(wait(other as u32, wakes[other])),
            9 if ended[other] => streams[actor].push(join(other as u32)),
            10 => {
                ended[actor] = true;
                streams[actor].push(SyncEvent::ThreadExit);
            }
            _ => {}
        }
    }
    streams
}

/// Replays `streams` of the threads in the run, always advancing one drawn from those that can;
/// says in which order events ran, as (thread, index).
fn replay(
    streams: &[Vec<SyncEvent>],
    origins: &[ThreadOrigin],
    draws: &[usize],
) -> Result<Vec<(usize, usize)>, TestCaseError> {
    let mut rig = Rig::new(origins);
    let mut can_run: Vec<usize> = rig.resumed.iter().map(|thread| thread.index()).collect();
    let mut positions = [0; THREADS];
    let mut order = Vec::new();
    for turn in 0.. {
        if can_run.is_empty() {
            break;
        }
        let place = draws[turn % draws.len()] % can_run.len();
        let actor = can_run[place];
        let Some(&event) = streams[actor].get(positions[actor]) else {
            rig.resumed.clear();
            rig.engine.on_end(thread(actor as u32), &mut rig.resumed);
            can_run.swap_remove(place);
            can_run.extend(rig.resumed.iter().map(|thread| thread.index()));
            continue;
        };
        order.push((actor, positions[actor]));
        positions[actor] += 1;
        if rig.event(actor as u32, event) != GO_ON {
            can_run.swap_remove(place);
        }
        for resumed in &rig.resumed {
            prop_assert!(!can_run.contains(&resumed.index()), "resumed once");
            can_run.push(resumed.index());
        }
    }
    prop_assert!(rig.engine.is_done(), "{}", rig.engine.explain_deadlock());
    Ok(order)
}

/// Whether what `event` waits for is among the events of `order`.
fn edge_is_kept(
    event: SyncEvent,
    streams: &[Vec<SyncEvent>],
    order: &[(usize, usize)],
    absent: Option<usize>,
) -> bool {
    let has_run = |actor: ThreadId, wanted: &dyn Fn(SyncEvent) -> bool| {
        let by_actor = order.iter().filter(|at| at.0 == actor.index());
        let mut events = by_actor.map(|&(actor, index)| streams[actor][index]);
        absent == Some(actor.index()) || events.any(wanted)
    };
    match event {
        SyncEvent::FutexWait {
            woken_by: Some(edge),
            ..
        } => has_run(
            edge.thread,
            &|event| matches!(event, SyncEvent::FutexWake { count, .. } if count == edge.count),
        ),
        SyncEvent::Join { child } => has_run(child, &|event| event == SyncEvent::ThreadExit),
        _ => true,
    }
}

proptest! {
    /// Any interleaving runs every event of every thread in the run; after a wait or join the
    /// thread executes nothing before what it waited for has happened.
    #[test]
    fn a_replay_keeps_the_edges_and_never_deadlocks(
        choices in proptest::collection::vec((0u8..11, 0..THREADS, 0..THREADS), 0..120),
        draws in proptest::collection::vec(0usize..60, 1..40),
        absent in proptest::option::of(0..THREADS),
    ) {
        let streams = captured(&choices);
        let mut origins = [ThreadOrigin::First; THREADS];
        if let Some(absent) = absent {
            origins[absent] = ThreadOrigin::Absent;
        }
        let order = replay(&streams, &origins, &draws)?;
        let in_run = (0..THREADS).filter(|index| Some(*index) != absent);
        let total: usize = in_run.map(|index| streams[index].len()).sum();
        prop_assert_eq!(order.len(), total);
        for (place, &(actor, index)) in order.iter().enumerate().filter(|(_, at)| at.1 > 0) {
            let before = streams[actor][index - 1];
            prop_assert!(
                edge_is_kept(before, &streams, &order[..place], absent),
                "event {} of thread {} came too early", index, actor
            );
        }
    }
}
