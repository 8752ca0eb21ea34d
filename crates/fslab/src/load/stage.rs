//! What all threads of a run share: clock, file system, what is measured, and when it is over.

use super::error::LoadError;
use super::measure::Recorder;
use super::sync::{Changes, first};
use super::vfs::{Vfs, caller, timestamp};
use bytefs::{Caller, Timestamp};
use port::Clock;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{Picos, Time};

/// Threads of a phase of a run.
pub(crate) struct Stage<V, C> {
    pub files: Rc<V>,
    pub clock: C,
    /// Processors, among which threads are dealt in turn.
    pub cores: u32,
    pub recorder: Recorder,
    begun: Time,
    ended: Cell<Time>,
    /// Counted threads that go on.
    counted: Cell<u32>,
    failure: RefCell<Option<LoadError>>,
    /// Told when the counted threads are over.
    at_end: RefCell<Vec<Box<dyn FnOnce()>>>,
    over: Changes,
}

impl<V: Vfs, C: Clock> Stage<V, C> {
    pub fn new(files: Rc<V>, clock: C, cores: u32, counted: u32) -> Self {
        let begun = clock.now();
        Self {
            files,
            clock,
            cores,
            recorder: Recorder::default(),
            begun,
            ended: Cell::new(begun),
            counted: Cell::new(counted),
            failure: RefCell::default(),
            at_end: RefCell::default(),
            over: Changes::default(),
        }
    }

    /// A program on a core, now.
    pub fn caller(&self, core: u32) -> Caller {
        caller(core, self.clock.now())
    }

    /// Does an operation and notes how long it took.
    pub async fn timed<T>(
        &self,
        kind: &'static str,
        operation: impl Future<Output = Result<T, bytefs::FsError>>,
    ) -> Result<T, LoadError> {
        let begun = self.clock.now();
        let done = operation.await;
        self.recorder.record(kind, self.clock.now() - begun);
        done.map_err(|error| LoadError::of(kind, error))
    }

    /// Whether the counted threads are over.
    pub fn is_over(&self) -> bool {
        self.counted.get() == 0 || self.failure.borrow().is_some()
    }

    /// Something is to be done when the counted threads are over.
    pub fn when_over(&self, then: impl FnOnce() + 'static) {
        self.at_end.borrow_mut().push(Box::new(then));
    }

    /// A counted thread is over.
    pub fn end_one(&self) {
        self.counted.set(self.counted.get() - 1);
        self.ended.set(self.ended.get().max(self.clock.now()));
        if self.counted.get() == 0 {
            self.tell();
        }
    }

    /// A thread cannot go on; the first reason counts, and everybody stops.
    pub fn fail(&self, why: LoadError) {
        self.failure.borrow_mut().get_or_insert(why);
        self.tell();
    }

    fn tell(&self) {
        for then in self.at_end.take() {
            then();
        }
        self.over.tell();
    }

    /// From the beginning to the end of the last counted thread; what went wrong.
    pub fn outcome(&self) -> Result<Picos, LoadError> {
        match self.failure.take() {
            Some(why) => Err(why),
            None => Ok(self.ended.get() - self.begun),
        }
    }

    /// Writes back in the background: at each `period` what was dirtied more than `age` ago.
    pub async fn write_back(&self, period: Picos, age: Picos) {
        loop {
            let next = self.clock.sleep_until(self.clock.now() + period);
            let over = self.over.until(|| self.is_over().then_some(()));
            first(next, over).await;
            if self.is_over() {
                return;
            }
            let Timestamp(now) = timestamp(self.clock.now());
            let before = Timestamp(now - (age.get() / 1000) as i64);
            if let Err(error) = self.files.flush_old(before).await {
                return self.fail(LoadError::of("writing back", error));
            }
        }
    }
}
