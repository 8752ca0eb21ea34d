//! What the firmware's work takes, with the cycle counter.

use crate::cycles::cycles;
use crate::processor::Processor;
use firmware::Work;
use soc::Timed;
use std::collections::VecDeque;
use units::Picos;

/// Runs of an empty timer from which its own cost is taken.
const CALIBRATIONS: usize = 2_001;

/// The times of one kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkTimes {
    /// How often it was charged.
    pub count: u64,
    /// What that took.
    pub sum: Picos,
}

/// Where times come from.
#[derive(Clone, Debug)]
enum Source {
    /// The counter.
    Counter(Processor),
    /// A recording; what is charged next is the first.
    Recorded(VecDeque<(Work, Picos)>),
}

/// A stopwatch with an account for each kind of work.
#[derive(Clone, Debug)]
pub struct Meter {
    source: Source,
    /// Cycles of work that is not charged yet.
    open: [u64; Work::KINDS],
    /// The work that is done now, and since when.
    running: Option<(Work, u64)>,
    /// What starting and stopping costs.
    empty: u64,
    /// What was charged since somebody asked, in order.
    charged: Vec<(Work, Picos)>,
    total: [WorkTimes; Work::KINDS],
    failure: Option<String>,
}

impl Meter {
    /// With the counter, as times of a processor. Takes the cost of an empty timer first.
    pub fn new(processor: Processor) -> Self {
        let mut meter = Self::with(Source::Counter(processor));
        let mut costs = [0; CALIBRATIONS];
        for cost in &mut costs {
            let before = cycles();
            *cost = cycles() - before;
        }
        costs.sort_unstable();
        meter.empty = costs[CALIBRATIONS / 2];
        meter
    }

    /// With times that were recorded.
    pub fn recorded(times: impl IntoIterator<Item = (Work, Picos)>) -> Self {
        Self::with(Source::Recorded(times.into_iter().collect()))
    }

    fn with(source: Source) -> Self {
        Self {
            source,
            open: [0; Work::KINDS],
            running: None,
            empty: 0,
            charged: Vec::new(),
            total: [WorkTimes::default(); Work::KINDS],
            failure: None,
        }
    }

    /// What an empty timer costs, in cycles.
    pub fn empty_cost(&self) -> u64 {
        self.empty
    }

    /// What each kind of work took, by its number.
    pub fn total(&self) -> &[WorkTimes; Work::KINDS] {
        &self.total
    }

    /// What was charged since the last time this was asked.
    pub fn take_charged(&mut self, into: &mut Vec<(Timed, Picos)>) {
        let charged = self.charged.drain(..);
        into.extend(charged.map(|(work, time)| (Timed::Work(work), time)));
    }

    /// Why the recorded times are not of this firmware, if they are not.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Work begins. What was done before goes on afterwards.
    #[inline(always)]
    pub(crate) fn start(&mut self, work: Work) -> Option<Work> {
        let before = self.pause();
        self.running = Some((work, cycles()));
        before
    }

    /// Work ends; what it interrupted goes on.
    #[inline(always)]
    pub(crate) fn stop(&mut self, before: Option<Work>) {
        self.pause();
        self.resume(before);
    }

    /// Something begins that is none of the firmware's work. Says what it was at.
    #[inline(always)]
    pub(crate) fn pause(&mut self) -> Option<Work> {
        let (work, since) = self.running?;
        let took = cycles().saturating_sub(since).saturating_sub(self.empty);
        self.open[usize::from(work.code())] += took;
        self.running = None;
        Some(work)
    }

    /// The firmware goes on with that work.
    #[inline(always)]
    pub(crate) fn resume(&mut self, work: Option<Work>) {
        self.running = work.map(|work| (work, cycles()));
    }

    /// The work is charged: what it took.
    #[inline]
    pub(crate) fn charge(&mut self, work: Work) -> Picos {
        let index = usize::from(work.code());
        let cycles = std::mem::take(&mut self.open[index]);
        let time = match &mut self.source {
            Source::Counter(processor) => processor.time_of(cycles),
            Source::Recorded(times) => match times.pop_front() {
                Some((found, time)) if found.code() == work.code() => time,
                other => {
                    self.failure.get_or_insert_with(|| {
                        let found = other.map_or("the end", |(found, _)| found.name());
                        let due = work.name();
                        format!("the recording has {found} where the firmware does {due}")
                    });
                    Picos::ZERO
                }
            },
        };
        self.charged.push((work, time));
        self.total[index].count += 1;
        self.total[index].sum = self.total[index].sum.saturating_add(time);
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> Meter {
        let text = "[processor]\nclock = \"1GHz\"\ncycles = \"1/1\"";
        Meter::new(Processor::of_text(text).unwrap())
    }

    #[test]
    fn work_is_timed_and_what_interrupts_it_is_not() {
        let spin = |rounds: u64| {
            for round in 0..rounds {
                std::hint::black_box(round);
            }
        };
        let mut meter = meter();
        let shortest = |meter: &mut Meter, pauses: bool| {
            let mut least = Picos::MAX;
            for _ in 0..200 {
                let before = meter.start(Work::LogAppend);
                spin(100);
                let work = if pauses { meter.pause() } else { None };
                if pauses {
                    spin(20_000);
                    meter.resume(work);
                }
                spin(100);
                meter.stop(before);
                least = least.min(meter.charge(Work::LogAppend));
            }
            least
        };
        let (alone, paused) = (shortest(&mut meter, false), shortest(&mut meter, true));
        assert!(alone > Picos::ZERO);
        // 20,000 rounds are a hundred times what is timed.
        assert!(paused < alone * 20, "{paused} and {alone}");
    }

    #[test]
    fn an_empty_piece_of_work_costs_next_to_nothing() {
        let mut meter = meter();
        let mut times: Vec<Picos> = (0..1_001)
            .map(|_| {
                let before = meter.start(Work::CacheLookup { is_write: false });
                meter.stop(before);
                meter.charge(Work::CacheLookup { is_write: false })
            })
            .collect();
        times.sort_unstable();
        // Of one cycle each; the empty timer itself takes several tens.
        assert!(times[500] <= Picos::from_nanos(meter.empty_cost() / 2 + 10));
    }

    #[test]
    fn a_recording_is_given_back_and_its_end_is_told() {
        let some = [
            (Work::LogAppend, Picos::new(5)),
            (Work::CacheInsert, Picos::new(6)),
        ];
        let mut meter = Meter::recorded(some);
        assert_eq!(meter.charge(Work::LogAppend), Picos::new(5));
        assert_eq!(meter.charge(Work::CacheInsert), Picos::new(6));
        assert_eq!(meter.failure(), None);
        meter.charge(Work::CacheInsert);
        assert!(meter.failure().unwrap().contains("the end"));
        let mut charged = Vec::new();
        meter.take_charged(&mut charged);
        let some = some.map(|(work, time)| (Timed::Work(work), time));
        assert_eq!(charged[..2], some);
    }
}
