//! Random commands against a plain simulation that keeps every queue, the buses' too, as a list
//! and searches it.

use crate::common::{Driven, at, block_of, page, small};
use nand::{Kind, NandConfig, Operation, Parallelism, Scheduling};
use proptest::prelude::*;
use std::collections::VecDeque;
use units::{Bytes, BytesPerSec, PageSize, Picos, Ratio, Time};

#[derive(Clone, Copy)]
struct Job {
    tag: u32,
    operation: Operation,
    /// Must not start before an earlier command that waits on the same die.
    is_bound: bool,
}

#[derive(Clone, Copy)]
enum Doing {
    Cells(Job),
    Bus(Job),
    Suspending,
}

#[derive(Default)]
struct ModelDie {
    waiting: Vec<Job>,
    doing: Option<(Doing, Time)>,
    /// Number of the entry in `due` that ends `doing`.
    due_number: u64,
    suspended: Option<(Job, Picos)>,
}

#[derive(Default)]
struct ModelBus {
    /// Dies that wait for the bus, with the number each has drawn; the first has the bus.
    queue: VecDeque<(usize, u64)>,
}

struct Model<'a> {
    config: &'a NandConfig,
    dies: Vec<ModelDie>,
    buses: Vec<ModelBus>,
    /// (end of a phase, number drawn when it was asked for, die).
    due: Vec<(Time, u64, usize)>,
    drawn: u64,
    finished: Vec<(u32, Time)>,
}

impl Model<'_> {
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    fn submit(&mut self, now: Time, tag: u32, operation: Operation) {
        self.run_before(now);
        let geometry = self.config.geometry(self.config.page_size);
        let block = operation.block(&geometry);
        let die = match self.config.parallelism {
            Parallelism::Die => geometry.die_of(block).index(),
            Parallelism::Channel => geometry.channel_of(geometry.die_of(block)).index(),
        };
        let is_free = operation.kind() == Kind::Read
            && self.config.scheduling == Scheduling::ReadPriority
            && !self
                .incomplete(die)
                .any(|job| match (job.operation, operation) {
                    (Operation::Program(changed), Operation::Read(page)) => changed == page,
                    (Operation::Erase(erased), _) => erased == block,
                    _ => false,
                });
        let state = &mut self.dies[die];
        state.waiting.push(Job {
            tag,
            operation,
            is_bound: !is_free,
        });
        match state.doing {
            None => self.start(now, die),
            Some((Doing::Cells(job), end))
                if is_free
                    && self.config.suspend
                    && job.operation.kind() != Kind::Read
                    && end - now > self.config.t_suspend =>
            {
                let number = state.due_number;
                state.suspended = Some((job, end - now));
                self.due.retain(|(_, other, _)| *other != number);
                self.occupy(now, die, Doing::Suspending, self.config.t_suspend);
            }
            Some(_) => {}
        }
    }

    fn incomplete(&self, die: usize) -> impl Iterator<Item = &Job> {
        let state = &self.dies[die];
        let doing = match &state.doing {
            Some((Doing::Cells(job) | Doing::Bus(job), _)) => Some(job),
            _ => None,
        };
        let suspended = state.suspended.as_ref().map(|(job, _)| job);
        state.waiting.iter().chain(doing).chain(suspended)
    }

    fn start(&mut self, now: Time, die: usize) {
        let state = &mut self.dies[die];
        let free = state.waiting.iter().position(|job| !job.is_bound);
        if free.is_none()
            && let Some((job, remaining)) = state.suspended.take()
        {
            return self.occupy(now, die, Doing::Cells(job), remaining);
        }
        if state.waiting.is_empty() {
            return;
        }
        let job = state.waiting.remove(free.unwrap_or(0));
        match job.operation.kind() {
            Kind::Read => self.occupy(now, die, Doing::Cells(job), self.config.t_r),
            Kind::Program => self.ask_for_bus(now, die, job),
            Kind::Erase => self.occupy(now, die, Doing::Cells(job), self.config.erase_time()),
        }
    }

    fn occupy(&mut self, now: Time, die: usize, doing: Doing, span: Picos) {
        let number = self.draw();
        self.dies[die].doing = Some((doing, now + span));
        self.dies[die].due_number = number;
        self.due.push((now + span, number, die));
    }

    fn ask_for_bus(&mut self, now: Time, die: usize, job: Job) {
        let number = self.draw();
        // The end is not known to the model until the bus is granted.
        self.dies[die].doing = Some((Doing::Bus(job), Time::MAX));
        let channel = die % self.buses.len();
        self.buses[channel].queue.push_back((die, number));
        if self.buses[channel].queue.len() == 1 {
            self.grant(now, channel);
        }
    }

    fn grant(&mut self, now: Time, channel: usize) {
        if let Some((die, number)) = self.buses[channel].queue.front() {
            self.due
                .push((now + self.config.transfer_time(), *number, *die));
        }
    }

    fn run_before(&mut self, limit: Time) {
        while let Some(first) = self.due.iter().copied().min()
            && first.0 < limit
        {
            self.due.retain(|other| *other != first);
            self.end_phase(first.0, first.2);
        }
    }

    fn end_phase(&mut self, now: Time, die: usize) {
        let (doing, _) = self.dies[die]
            .doing
            .take()
            .expect("a due die does something");
        match doing {
            Doing::Suspending => self.start(now, die),
            Doing::Cells(job) if job.operation.kind() == Kind::Read => {
                self.ask_for_bus(now, die, job);
            }
            Doing::Cells(job) => self.finish(now, die, job),
            Doing::Bus(job) => {
                let channel = die % self.buses.len();
                self.buses[channel].queue.pop_front();
                self.grant(now, channel);
                if job.operation.kind() == Kind::Read {
                    return self.finish(now, die, job);
                }
                let state = &mut self.dies[die];
                let has_urgent = state.waiting.iter().any(|waiting| !waiting.is_bound);
                if self.config.suspend && has_urgent {
                    state.suspended = Some((job, self.config.t_prog));
                    return self.start(now, die);
                }
                self.occupy(now, die, Doing::Cells(job), self.config.t_prog);
            }
        }
    }

    fn finish(&mut self, now: Time, die: usize, job: Job) {
        self.finished.push((job.tag, now));
        self.start(now, die);
    }
}

/// (gap to the command before in units of 10 ns, kind, die, block, page).
type Step = (u64, Kind, u32, u32, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        5 => Just(Kind::Read),
        3 => Just(Kind::Program),
        1 => Just(Kind::Erase)
    ];
    // Often no gap, so that ends coincide and commands meet.
    let gap = prop_oneof![2 => Just(0u64), 3 => 0u64..30];
    proptest::collection::vec((gap, kind, 0u32..4, 0u32..2, 0u32..3), 1..80)
}

/// Times that are small multiples of each other, so that ends coincide: 20 ns a transfer.
fn coinciding() -> NandConfig {
    NandConfig {
        dies_per_chip: 1,
        page_size: PageSize::new(Bytes::new(64)).expect("a line is a page size"),
        t_r: Picos::from_nanos(30),
        t_prog: Picos::from_nanos(100),
        // An erase of 300 ns.
        t_bers: Picos::from_nanos(600),
        erase_share: Ratio::new(1, 2),
        channel_bandwidth: BytesPerSec::new(3_200_000_000),
        t_suspend: Picos::from_nanos(10),
        ..small()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn completions_are_those_of_a_plain_simulation(
        steps in steps(),
        by_channel: bool,
        read_priority: bool,
        suspend: bool,
    ) {
        let mut config = coinciding();
        if by_channel {
            config.parallelism = Parallelism::Channel;
        }
        if read_priority {
            config.scheduling = Scheduling::ReadPriority;
            config.suspend = suspend;
        }
        let mut driven = Driven::new(&config);
        let mut model = Model {
            config: &config,
            dies: (0..4).map(|_| ModelDie::default()).collect(),
            buses: (0..2).map(|_| ModelBus::default()).collect(),
            due: Vec::new(),
            drawn: 0,
            finished: Vec::new(),
        };
        let mut now = 0;
        for (tag, (gap, kind, die, block, page_index)) in (0..).zip(steps) {
            now += gap * 10;
            let page = page(&config, die, block, page_index);
            let operation = match kind {
                Kind::Read => Operation::Read(page),
                Kind::Program => Operation::Program(page),
                Kind::Erase => Operation::Erase(block_of(&config, die, block)),
            };
            driven.submit(at(now), tag, operation);
            model.submit(at(now), tag, operation);
            driven.nand.audit();
        }
        driven.finish();
        model.run_before(Time::MAX);
        let finished: Vec<_> =
            driven.completed.iter().map(|ended| (ended.tag, ended.finished)).collect();
        prop_assert_eq!(finished, model.finished);
    }
}
