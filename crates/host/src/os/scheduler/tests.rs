use super::*;
use crate::os::SchedulerPolicy;
use crate::os::tests::config;
use proptest::prelude::*;
use std::collections::VecDeque;

const SWITCH: Picos = Picos::from_micros(2);
const SLICE: Picos = Picos::from_micros(3_000);

fn micros(micros: u64) -> Time {
    Time::ZERO + Picos::from_micros(micros)
}
fn core(index: u32) -> CoreId {
    CoreId::new(index)
}
fn thread(index: u32) -> ThreadId {
    ThreadId::new(index)
}
/// All threads ready at time zero.
fn scheduler(policy: SchedulerPolicy, cores: u32, threads: u32) -> Scheduler {
    let mut scheduler = Scheduler::new(&config(policy), cores, threads, 1);
    for index in 0..threads {
        scheduler.ready(thread(index), Time::ZERO);
    }
    scheduler
}
fn pick(scheduler: &mut Scheduler, now: Time) -> u32 {
    let dispatch = scheduler.pick(core(0), now).expect("a thread is runnable");
    dispatch.thread.get()
}

#[test]
fn the_first_thread_of_a_core_starts_at_once_and_later_ones_after_a_switch() {
    let mut scheduler = scheduler(SchedulerPolicy::RoundRobin, 2, 3);
    for index in 0..2 {
        let dispatch = scheduler.pick(core(index), micros(5)).expect("three wait");
        assert_eq!(
            (dispatch.thread, dispatch.starts),
            (thread(index), micros(5))
        );
    }
    scheduler.yield_for_data(thread(0), micros(9));
    let dispatch = scheduler.pick(core(0), micros(9)).expect("two wait");
    assert_eq!((dispatch.thread, dispatch.starts), (thread(2), micros(11)));
    assert_eq!(scheduler.stats().switches, 1);
}

#[test]
fn a_lone_thread_that_yields_pays_the_switch_to_itself() {
    let mut scheduler = scheduler(SchedulerPolicy::Cfs, 1, 1);
    pick(&mut scheduler, Time::ZERO);
    scheduler.yield_for_data(thread(0), micros(1));
    let dispatch = scheduler.pick(core(0), micros(1)).expect("it is runnable");
    assert_eq!(dispatch.starts, micros(1) + SWITCH);
}

#[test]
fn round_robin_gives_every_thread_its_turn() {
    let mut scheduler = scheduler(SchedulerPolicy::RoundRobin, 1, 3);
    let mut order = Vec::new();
    for turn in 0..7u64 {
        let now = micros(turn * turn * 10);
        order.push(pick(&mut scheduler, now));
        scheduler.yield_for_data(thread(order[turn as usize]), now + SWITCH);
    }
    assert_eq!(order, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn cfs_takes_the_thread_that_received_least() {
    let mut scheduler = scheduler(SchedulerPolicy::Cfs, 1, 3);
    let mut now = Time::ZERO;
    for (expected, run) in [(0, 30), (1, 10), (2, 20), (1, 5), (1, 50), (2, 1)] {
        assert_eq!(pick(&mut scheduler, now), expected);
        now = now + SWITCH + Picos::from_micros(run);
        scheduler.yield_for_data(thread(expected), now);
        scheduler.audit(now);
    }
    // 30 + 2; three turns of 10, 5 and 50, a switch each; 20 and 1 with two switches.
    let received = |index| scheduler.received(thread(index), now);
    assert_eq!(received(0), Picos::from_micros(32));
    assert_eq!(received(1), Picos::from_micros(71));
    assert_eq!(received(2), Picos::from_micros(25));
}

#[test]
fn a_thread_that_wakes_is_counted_as_the_least_served_one_not_less() {
    let mut scheduler = Scheduler::new(&config(SchedulerPolicy::Cfs), 1, 3, 1);
    scheduler.ready(thread(0), Time::ZERO);
    scheduler.ready(thread(1), Time::ZERO);
    assert_eq!(pick(&mut scheduler, Time::ZERO), 0);
    scheduler.preempt(thread(0), micros(100));
    assert_eq!(pick(&mut scheduler, micros(100)), 1);
    // Thread 2 is new when 0 has received 100 and 1 has received 150: it starts at 100.
    scheduler.ready(thread(2), micros(250));
    scheduler.preempt(thread(1), micros(250));
    assert_eq!(pick(&mut scheduler, micros(250)), 0, "a tie goes to 0");
    scheduler.preempt(thread(0), micros(260));
    assert_eq!(pick(&mut scheduler, micros(260)), 2);
    scheduler.preempt(thread(2), micros(320));
    assert_eq!(pick(&mut scheduler, micros(320)), 0, "2 is at 160 now");
}

#[test]
fn a_thread_gives_way_only_after_its_slice_and_to_one_that_received_less() {
    let mut scheduler = scheduler(SchedulerPolicy::Cfs, 1, 2);
    pick(&mut scheduler, Time::ZERO);
    let end = scheduler.slice_end(core(0)).expect("a thread runs");
    assert_eq!(end, Time::ZERO + SLICE);
    assert!(!scheduler.should_preempt(core(0), micros(2_999)));
    assert!(scheduler.should_preempt(core(0), end));
    scheduler.preempt(thread(0), end);
    assert_eq!(pick(&mut scheduler, end), 1);
    scheduler.block(thread(1), end + SWITCH);
    pick(&mut scheduler, end + SWITCH);
    let later = micros(20_000);
    assert!(!scheduler.should_preempt(core(0), later), "nobody waits");
    assert_eq!(
        scheduler.slice_end(core(0)),
        Some(later + SLICE),
        "a new slice"
    );
}

#[test]
fn a_thread_that_received_less_than_all_that_wait_keeps_its_core() {
    let mut scheduler = scheduler(SchedulerPolicy::Cfs, 1, 2);
    pick(&mut scheduler, Time::ZERO);
    scheduler.preempt(thread(0), micros(9_000));
    assert_eq!(pick(&mut scheduler, micros(9_000)), 1);
    assert!(!scheduler.should_preempt(core(0), micros(12_002)));
    assert!(scheduler.should_preempt(core(0), micros(19_000)));
}

#[test]
fn a_yielded_thread_is_runnable_at_once_or_when_its_data_is_there() {
    for (wake, state) in [
        (WakePolicy::Requeue, ThreadState::Runnable),
        (WakePolicy::OnData, ThreadState::Blocked),
    ] {
        let mut os = config(SchedulerPolicy::Cfs);
        os.wake = wake;
        let mut scheduler = Scheduler::new(&os, 1, 1, 1);
        scheduler.ready(thread(0), Time::ZERO);
        pick(&mut scheduler, Time::ZERO);
        assert_eq!(scheduler.yield_for_data(thread(0), micros(1)), wake);
        assert_eq!(scheduler.state(thread(0)), state);
        if state == ThreadState::Blocked {
            assert_eq!(scheduler.pick(core(0), micros(1)), None);
            scheduler.ready(thread(0), micros(4));
        }
        assert!(scheduler.pick(core(0), micros(4)).is_some());
    }
}

#[test]
fn a_thread_prefers_the_core_it_ran_on() {
    let mut scheduler = scheduler(SchedulerPolicy::RoundRobin, 3, 3);
    for index in 0..3 {
        scheduler.pick(core(index), Time::ZERO);
    }
    scheduler.block(thread(2), micros(1));
    scheduler.block(thread(1), micros(1));
    assert_eq!(scheduler.free_core_for(thread(2)), Some(core(2)));
    assert_eq!(scheduler.free_core_for(thread(0)), Some(core(1)));
}

#[test]
fn a_core_left_in_the_future_is_free_from_then_on() {
    let mut scheduler = scheduler(SchedulerPolicy::Cfs, 1, 2);
    pick(&mut scheduler, Time::ZERO);
    scheduler.finish(thread(0), micros(10));
    let dispatch = scheduler.pick(core(0), micros(8)).expect("one waits");
    assert_eq!(dispatch.starts, micros(12));
}

/// With n busy threads on c cores, preempted at each slice, everybody is served alike: no two
/// threads differ by more than a turn, and the cores are never idle.
#[test]
fn busy_threads_share_the_cores_evenly() {
    let (cores, threads, turns) = (2u32, 6u32, 300u64);
    for policy in [SchedulerPolicy::Cfs, SchedulerPolicy::RoundRobin] {
        let mut scheduler = scheduler(policy, cores, threads);
        for index in 0..cores {
            scheduler.pick(core(index), Time::ZERO);
        }
        let mut now = Time::ZERO;
        for _ in 0..turns {
            now = now + SLICE + SWITCH;
            for index in 0..cores {
                assert!(scheduler.should_preempt(core(index), now));
                let running = scheduler.running(core(index)).expect("it is busy");
                scheduler.preempt(running, now);
                scheduler.pick(core(index), now);
            }
        }
        scheduler.audit(now);
        let turn = SLICE + SWITCH;
        let fair = turn * (turns * u64::from(cores) / u64::from(threads));
        for index in 0..threads {
            let received = scheduler.received(thread(index), now);
            assert!(
                received.saturating_sub(fair) <= turn,
                "{received} for {fair}"
            );
            assert!(
                fair.saturating_sub(received) <= turn,
                "{received} for {fair}"
            );
        }
        let times = scheduler.core_times(core(0), now);
        assert_eq!(times.idle, Picos::ZERO);
        assert_eq!(times.switching, SWITCH * (turns - 1));
    }
}

/// The policies over plain data: states, and a queue that is searched.
struct Model {
    states: Vec<ThreadState>,
    counted: Vec<u64>,
    since: Vec<Time>,
    queue: VecDeque<ThreadId>,
    floor: u64,
}

impl Model {
    fn new(threads: usize) -> Self {
        Self {
            states: vec![ThreadState::NotStarted; threads],
            counted: vec![0; threads],
            since: vec![Time::ZERO; threads],
            queue: VecDeque::new(),
            floor: 0,
        }
    }
    fn counted_at(&self, index: usize, now: Time) -> u64 {
        match self.states[index] {
            ThreadState::Running { .. } => self.counted[index] + (now - self.since[index]).get(),
            _ => self.counted[index],
        }
    }
    fn ready(&mut self, thread: ThreadId, now: Time) {
        use ThreadState::{Runnable, Running};
        let active = (0..self.states.len())
            .filter(|&index| matches!(self.states[index], Runnable | Running { .. }));
        let least = active.map(|index| self.counted_at(index, now)).min();
        self.floor = self.floor.max(least.unwrap_or(0));
        let counted = &mut self.counted[thread.index()];
        *counted = (*counted).max(self.floor);
        self.requeue(thread);
    }
    fn requeue(&mut self, thread: ThreadId) {
        self.states[thread.index()] = ThreadState::Runnable;
        self.queue.push_back(thread);
    }
    fn leave(&mut self, thread: ThreadId, now: Time, state: ThreadState) {
        self.counted[thread.index()] = self.counted_at(thread.index(), now);
        self.states[thread.index()] = state;
        if state == ThreadState::Runnable {
            self.queue.push_back(thread);
        }
    }
    /// Where in the queue the thread is that may come next, if `picked` came.
    fn expects(&self, policy: SchedulerPolicy, picked: ThreadId) -> Option<usize> {
        let key = |thread: &ThreadId| (self.counted[thread.index()], *thread);
        let expected = match policy {
            SchedulerPolicy::RoundRobin => self.queue.front().copied(),
            SchedulerPolicy::Random => Some(picked),
            SchedulerPolicy::Cfs => self.queue.iter().copied().min_by_key(key),
        };
        let place = self.queue.iter().position(|thread| *thread == picked);
        place.filter(|_| expected == Some(picked))
    }
}

/// The scheduler and its model, side by side.
struct Pair {
    policy: SchedulerPolicy,
    scheduler: Scheduler,
    model: Model,
    now: Time,
}

impl Pair {
    fn step(&mut self, kind: u8, index: u32, gap: u64) -> Result<(), TestCaseError> {
        use ThreadState::{Blocked, Finished, NotStarted, Runnable, Running};
        self.now += SWITCH + Picos::new(gap);
        let (chosen, now) = (thread(index), self.now);
        let state = self.scheduler.state(chosen);
        prop_assert_eq!(state, self.model.states[chosen.index()]);
        match (kind, state) {
            (0, NotStarted | Blocked) => {
                self.scheduler.ready(chosen, now);
                self.model.ready(chosen, now);
            }
            (1 | 2, _) => self.pick(core(index % 2))?,
            (3, Running { .. }) => {
                self.scheduler.yield_for_data(chosen, now);
                self.model.leave(chosen, now, Runnable);
            }
            (4, Running { .. }) => {
                self.scheduler.block(chosen, now);
                self.model.leave(chosen, now, Blocked);
            }
            (5, Running { .. }) if index == 5 => {
                self.scheduler.finish(chosen, now);
                self.model.leave(chosen, now, Finished);
            }
            (5, _) if index == 0 && gap < 5 => self.scheduler.reset_stats(now),
            _ => {}
        }
        self.scheduler.audit(now);
        Ok(())
    }

    fn pick(&mut self, free: CoreId) -> Result<(), TestCaseError> {
        if self.scheduler.running(free).is_some() {
            return Ok(());
        }
        let Some(dispatch) = self.scheduler.pick(free, self.now) else {
            prop_assert!(self.model.queue.is_empty());
            return Ok(());
        };
        let place = self.model.expects(self.policy, dispatch.thread);
        prop_assert!(
            place.is_some(),
            "the model would not pick {}",
            dispatch.thread
        );
        self.model.queue.remove(place.unwrap_or_default());
        self.model.states[dispatch.thread.index()] = ThreadState::Running { core: free };
        self.model.since[dispatch.thread.index()] = self.now;
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_scheduler_does_what_the_plain_model_does(
        policy in prop_oneof![
            Just(SchedulerPolicy::RoundRobin),
            Just(SchedulerPolicy::Random),
            Just(SchedulerPolicy::Cfs),
        ],
        steps in proptest::collection::vec((0u8..6, 0u32..6, 0u64..50), 1..200),
    ) {
        let scheduler = Scheduler::new(&config(policy), 2, 6, 3);
        let model = Model::new(6);
        let mut pair = Pair { policy, scheduler, model, now: Time::ZERO };
        for (kind, index, gap) in steps {
            pair.step(kind, index, gap)?;
        }
    }

    #[test]
    fn random_repeats_with_its_seed(seed: u64) {
        let draw = || {
            let mut scheduler = Scheduler::new(&config(SchedulerPolicy::Random), 1, 8, seed);
            (0..8).for_each(|index| scheduler.ready(thread(index), Time::ZERO));
            (0..50u64)
                .map(|turn| {
                    let picked = pick(&mut scheduler, micros(turn * 10));
                    scheduler.preempt(thread(picked), micros(turn * 10 + 5));
                    picked
                })
                .collect::<Vec<_>>()
        };
        prop_assert_eq!(draw(), draw());
    }
}
