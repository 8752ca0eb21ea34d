//! The machine: tasks, a device, processors, and the time.

use crate::requests::{Ask, Phase, Request, RequestKey, Requests};
use crate::tasks::{TaskId, Tasks};
use crate::virtual_clock::VirtualClock;
use crate::virtual_device::VirtualDevice;
use port::{Command, Conflict, Engine, Finished, Ticket};
use std::cell::{Ref, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use thiserror::Error;
use units::{ByteAddr, Bytes, Time, TxId};

/// Every task waits, and nothing is to come that would let one go on.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("at {at} every task waits and nothing is to come: {}", .who.join("; "))]
pub struct Blocked {
    /// When.
    pub at: Time,
    /// Who waits for what, one sentence for each task.
    pub who: Vec<String>,
}

/// What tasks share.
pub(crate) struct Shared<E> {
    pub engine: E,
    pub now: Time,
    pub requests: Requests,
    /// The task that is polled.
    current: Option<TaskId>,
    /// By task: requests so far.
    sequences: Vec<u64>,
    /// When each processor is free.
    processors: Vec<Time>,
    /// What ends at a known time: (time, order of creation).
    timers: BinaryHeap<Reverse<(Time, u64, RequestKey)>>,
    next_timer: u64,
    /// Of requests that nobody waited for when they were submitted. Their ends may be known and not
    /// told yet: until then their tickets must not be others'.
    abandoned: Vec<Ticket>,
}

impl<E: Engine> Shared<E> {
    /// The task that is polled asks for something.
    pub fn ask(&mut self, ask: Ask, waker: &Waker) -> RequestKey {
        let task = self
            .current
            .expect("only tasks of this machine ask its device and clock");
        let sequence = &mut self.sequences[task.0 as usize];
        *sequence += 1;
        let sequence = *sequence;
        self.requests.open(Request {
            task,
            sequence,
            ask,
            phase: Phase::Asked,
            waker: Some(waker.clone()),
            is_abandoned: false,
        })
    }

    /// Nobody waits for a request any more.
    pub fn abandon(&mut self, key: RequestKey) {
        let request = self.requests.get(key);
        match request.phase {
            Phase::Submitted(ticket) => {
                self.engine.abandon(ticket);
                self.requests.take_ticket(ticket);
                self.requests.close(key);
            }
            Phase::Opened(tx) => {
                self.requests.close(key);
                self.abandon_transaction(tx);
            }
            Phase::Refused(_) | Phase::Over => {
                self.requests.close(key);
            }
            // It goes to the device all the same, as if it had been dropped a little later.
            Phase::Asked | Phase::Timed => request.is_abandoned = true,
        }
    }

    /// Aborts a transaction that nobody will wait for: in its task's turn, as if the task had asked
    /// and dropped the future; at once if the task itself is dropped.
    pub fn abandon_transaction(&mut self, tx: TxId) {
        let command = Command::Abort(tx);
        let range = (ByteAddr::new(0), Bytes::ZERO);
        let conflict = Conflict::Wait;
        if self.current.is_none() {
            // One that is not open is none.
            let done = self.engine.submit(self.now, command, range, conflict, &[]);
            self.abandoned.extend(done.ok());
            return;
        }
        let bytes = Vec::new();
        let ask = Ask::Device {
            command,
            range,
            conflict,
            bytes,
        };
        let key = self.ask(ask, Waker::noop());
        self.abandon(key);
    }

    /// Hands what was asked at this instant to device and processors. If there are
    /// transactions to be opened, that is all, and their tasks go on first: to begin one takes no
    /// time, so what is asked under it stands in one order with what others ask.
    fn submit(&mut self, asked: &mut Vec<RequestKey>) {
        self.requests.take_asked(asked);
        for key in asked.drain(..) {
            let now = self.now;
            let request = self.requests.get(key);
            match &mut request.ask {
                Ask::Open { .. } if request.is_abandoned => {
                    self.requests.close(key);
                }
                Ask::Open { may_split } => {
                    request.phase = match self.engine.begin(*may_split) {
                        Ok(tx) => Phase::Opened(tx),
                        Err(error) => Phase::Refused(error),
                    };
                    request.waker.take().into_iter().for_each(Waker::wake);
                }
                Ask::Sleep(at) => {
                    let at = (*at).max(now);
                    self.wait_until(key, at);
                }
                Ask::Spend(span) => {
                    let span = *span;
                    let free = self.processors.iter_mut().min();
                    let free = free.expect("a machine has a processor");
                    *free = now.max(*free) + span;
                    let at = *free;
                    self.wait_until(key, at);
                }
                Ask::Device {
                    command,
                    range,
                    conflict,
                    bytes,
                } => {
                    let bytes = std::mem::take(bytes);
                    let (command, range, conflict) = (*command, *range, *conflict);
                    let done = self.engine.submit(now, command, range, conflict, &bytes);
                    self.note(key, done);
                }
            }
        }
    }

    fn note(&mut self, key: RequestKey, done: Result<Ticket, port::DeviceError>) {
        let is_abandoned = self.requests.get(key).is_abandoned;
        match done {
            Ok(ticket) if is_abandoned => {
                self.abandoned.push(ticket);
                self.requests.close(key);
            }
            Ok(ticket) => {
                self.requests.get(key).phase = Phase::Submitted(ticket);
                self.requests.note_ticket(ticket, key);
            }
            Err(_) if is_abandoned => {
                self.requests.close(key);
            }
            Err(error) => {
                let request = self.requests.get(key);
                request.phase = Phase::Refused(error);
                request.waker.take().into_iter().for_each(Waker::wake);
            }
        }
    }

    fn wait_until(&mut self, key: RequestKey, at: Time) {
        self.requests.get(key).phase = Phase::Timed;
        self.next_timer += 1;
        self.timers.push(Reverse((at, self.next_timer, key)));
    }

    fn next_deadline(&mut self) -> Option<Time> {
        let timer = self.timers.peek().map(|Reverse((at, _, _))| *at);
        self.engine.next_deadline().into_iter().chain(timer).min()
    }

    /// Lets everything happen up to `to`, and wakes those whose requests are done.
    fn advance(&mut self, to: Time, finished: &mut Vec<Finished>) {
        self.now = to;
        self.engine.advance(to, finished);
        for done in finished.drain(..) {
            // A ticket that was given up may be another request's by now.
            if !done.is_abandoned
                && let Some(key) = self.requests.take_ticket(done.ticket)
            {
                let waker = self.requests.get(key).waker.take();
                waker.into_iter().for_each(Waker::wake);
            }
        }
        for ticket in self.abandoned.drain(..) {
            self.engine.abandon(ticket);
        }
        while let Some(Reverse((at, _, key))) = self.timers.peek().copied()
            && at <= to
        {
            self.timers.pop();
            let request = self.requests.get(key);
            request.phase = Phase::Over;
            let waker = request.waker.take();
            if request.is_abandoned {
                self.requests.close(key);
            }
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// Simulated threads over a device, in virtual time.
pub struct Machine<E> {
    shared: Rc<RefCell<Shared<E>>>,
    tasks: Tasks,
    ready: Vec<TaskId>,
    asked: Vec<RequestKey>,
    finished: Vec<Finished>,
    /// How often tasks were polled.
    polls: u64,
}

impl<E: Engine> Machine<E> {
    /// A machine with so many processors and no task, at the device's time.
    ///
    /// # Panics
    /// Without a processor.
    pub fn new(engine: E, processors: usize) -> Self {
        assert!(processors > 0, "a machine has a processor");
        let now = engine.now();
        let shared = Shared {
            engine,
            now,
            requests: Requests::default(),
            current: None,
            sequences: Vec::new(),
            processors: vec![now; processors],
            timers: BinaryHeap::new(),
            next_timer: 0,
            abandoned: Vec::new(),
        };
        Self {
            shared: Rc::new(RefCell::new(shared)),
            tasks: Tasks::default(),
            ready: Vec::new(),
            asked: Vec::new(),
            finished: Vec::new(),
            polls: 0,
        }
    }

    /// The device, for tasks of this machine.
    pub fn device(&self) -> VirtualDevice<E> {
        VirtualDevice::new(Rc::clone(&self.shared))
    }

    /// The clock, for tasks of this machine.
    pub fn clock(&self) -> VirtualClock<E> {
        VirtualClock::new(Rc::clone(&self.shared))
    }

    /// The device, to be looked at.
    pub fn engine(&self) -> Ref<'_, E> {
        Ref::map(self.shared.borrow(), |shared| &shared.engine)
    }

    /// The time it is.
    pub fn now(&self) -> Time {
        self.shared.borrow().now
    }

    /// How often tasks were polled so far.
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// Adds a task, which begins when the machine runs. Its name is for messages.
    pub fn spawn(
        &mut self,
        name: impl Into<String>,
        body: impl Future<Output = ()> + 'static,
    ) -> TaskId {
        self.shared.borrow_mut().sequences.push(0);
        self.tasks.add(name.into(), Box::pin(body))
    }

    /// Runs until all tasks are over. Gives the time of the last end.
    ///
    /// # Errors
    /// Tasks wait for what will not come.
    pub fn run(&mut self) -> Result<Time, Blocked> {
        loop {
            self.run_instant();
            if self.tasks.running() == 0 {
                return Ok(self.now());
            }
            let deadline = self.shared.borrow_mut().next_deadline();
            let Some(deadline) = deadline else {
                return Err(self.blocked());
            };
            let mut finished = std::mem::take(&mut self.finished);
            self.shared.borrow_mut().advance(deadline, &mut finished);
            self.finished = finished;
        }
    }

    /// Lets the device come to rest behind its tasks: compaction, garbage collection.
    pub fn settle(&mut self) {
        loop {
            let deadline = self.shared.borrow_mut().engine.next_deadline();
            let Some(deadline) = deadline else { return };
            let mut finished = std::mem::take(&mut self.finished);
            self.shared.borrow_mut().advance(deadline, &mut finished);
            self.finished = finished;
        }
    }

    /// Everything that happens at one instant: tasks run until none can, then their transactions
    /// are opened and they run on, then what they have asked for goes to device and processors;
    /// what is answered at once lets tasks run again.
    fn run_instant(&mut self) {
        loop {
            self.tasks.take_ready(&mut self.ready);
            if !self.ready.is_empty() {
                let mut ready = std::mem::take(&mut self.ready);
                for task in ready.drain(..) {
                    self.poll(task);
                }
                self.ready = ready;
                continue;
            }
            let mut asked = std::mem::take(&mut self.asked);
            let mut shared = self.shared.borrow_mut();
            shared.submit(&mut asked);
            // What takes no time is over at once.
            let now = shared.now;
            let mut finished = std::mem::take(&mut self.finished);
            shared.advance(now, &mut finished);
            self.finished = finished;
            let is_over = !shared.requests.has_asked();
            drop(shared);
            self.asked = asked;
            self.tasks.take_ready(&mut self.ready);
            if self.ready.is_empty() && is_over {
                return;
            }
        }
    }

    fn poll(&mut self, task: TaskId) {
        let Some((mut body, waker)) = self.tasks.lend(task) else {
            return;
        };
        self.polls += 1;
        self.shared.borrow_mut().current = Some(task);
        let poll = body.as_mut().poll(&mut Context::from_waker(&waker));
        self.shared.borrow_mut().current = None;
        match poll {
            Poll::Pending => self.tasks.give_back(task, body),
            Poll::Ready(()) => {
                // Outside of any borrow: what the task holds may abandon requests.
                drop(body);
                self.tasks.end(task);
            }
        }
    }

    #[cold]
    fn blocked(&self) -> Blocked {
        let shared = self.shared.borrow();
        let open = shared.requests.open_ones();
        let who = self.tasks.waiting().map(|(task, name)| {
            let asks: Vec<String> = open
                .iter()
                .filter(|request| request.task == task)
                .map(|request| request.ask.to_string())
                .collect();
            match asks.is_empty() {
                true => format!("{name} ({task}) waits for another task"),
                false => format!("{name} ({task}) waits for {}", asks.join(" and ")),
            }
        });
        Blocked {
            at: shared.now,
            who: who.collect(),
        }
    }
}
