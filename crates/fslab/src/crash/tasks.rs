//! The tasks of a sequence in virtual time, and what their operations gave.

use crate::crash::ace::Sequence;
use crate::crash::driver::{Driver, Locks, walk};
use crate::crash::journal::{Event, SharedJournal};
use crate::crash::judge::Files;
use crate::crash::model::errno;
use crate::crash::op::Op;
use crate::crash::oracle::{Done, OpSet};
use crate::crash::tree::Tree;
use port::Clock;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::Picos;
use vtime::Machine;

/// Runs a future of a machine to its end.
pub(super) fn run_one<E: port::Engine + 'static, T: 'static>(
    machine: &mut Machine<E>,
    name: &str,
    body: impl Future<Output = T> + 'static,
) -> Result<T, String> {
    let ended: Rc<RefCell<Option<T>>> = Rc::default();
    let result = Rc::clone(&ended);
    machine.spawn(name, async move {
        *result.borrow_mut() = Some(body.await);
    });
    machine.run().map_err(|error| error.to_string())?;
    let done = ended.borrow_mut().take();
    done.ok_or_else(|| format!("{name} did not end"))
}

/// The tasks of a sequence, and what their operations gave.
pub(super) struct Tasks {
    /// Of each task: how long behind the first it begins, and its operations with their numbers.
    tasks: Vec<(Picos, Vec<(usize, Op)>)>,
    log: Rc<Log>,
}

/// What operations gave, by their numbers.
struct Log {
    journal: SharedJournal,
    answered: Cell<OpSet>,
    done: RefCell<Vec<Option<Done>>>,
    /// Why a task has ended before its last operation.
    failure: RefCell<Option<String>>,
    may_lack_room: bool,
    /// Operations that were refused for want of room.
    refused: Cell<u64>,
}

impl Tasks {
    /// Of a sequence, whose events go into a journal.
    ///
    /// # Errors
    /// It has too many operations.
    pub fn of(
        sequence: &Sequence,
        journal: &SharedJournal,
        may_lack_room: bool,
    ) -> Result<Self, String> {
        let mut lists = vec![(Picos::ZERO, sequence.ops.clone())];
        lists.extend(
            sequence
                .beside
                .iter()
                .map(|beside| (beside.behind, beside.ops.clone())),
        );
        let mut number = 0;
        let tasks: Vec<(Picos, Vec<(usize, Op)>)> = lists
            .into_iter()
            .map(|(behind, ops)| {
                let first = number;
                number += ops.len();
                (behind, (first..).zip(ops).collect())
            })
            .collect();
        // The last one is a sync of everything.
        if number >= OpSet::MOST {
            let most = OpSet::MOST - 1;
            return Err(format!(
                "a sequence has {number} operations, {most} at most"
            ));
        }
        let log = Log {
            journal: journal.clone(),
            answered: Cell::default(),
            done: RefCell::new(vec![None; number + 1]),
            failure: RefCell::default(),
            may_lack_room,
            refused: Cell::default(),
        };
        Ok(Self {
            tasks,
            log: Rc::new(log),
        })
    }

    /// Runs them all to their ends.
    ///
    /// # Errors
    /// What the file system fails with.
    pub fn run<E: port::Engine + 'static>(
        &self,
        machine: &mut Machine<E>,
        fs: &Rc<Files>,
    ) -> Result<(), String> {
        let (start, locks) = (machine.now(), Locks::default());
        for (core, (behind, ops)) in (0..).zip(self.tasks.clone()) {
            let (fs, log, clock) = (Rc::clone(fs), Rc::clone(&self.log), machine.clock());
            let mut driver = Driver::on_core(core, &locks);
            machine.spawn(format!("task {core}"), async move {
                if !behind.is_zero() {
                    clock.sleep_until(start + behind).await;
                }
                for (number, op) in ops {
                    if let Err(how) = log.note(&mut driver, &fs, number, op).await {
                        log.failure.borrow_mut().get_or_insert(how);
                        return;
                    }
                }
            });
        }
        machine.run().map_err(|error| error.to_string())?;
        match self.log.failure.borrow_mut().take() {
            Some(how) => Err(how),
            None => Ok(()),
        }
    }

    /// Operations that were refused for want of room.
    pub fn refused(&self) -> u64 {
        self.log.refused.get()
    }

    /// Syncs everything, and looks at it.
    pub fn end(&self, fs: Rc<Files>) -> impl Future<Output = Result<Tree, String>> + use<> {
        let log = Rc::clone(&self.log);
        async move {
            let last = log.done.borrow().len() - 1;
            let mut driver = Driver::default();
            log.note(&mut driver, &fs, last, Op::Sync).await?;
            walk(&fs).await
        }
    }

    /// All operations in the order of their numbers, and what came of each.
    ///
    /// # Errors
    /// One did not end.
    pub fn into_done(self) -> Result<(Vec<Op>, Vec<Done>), String> {
        let done = self.log.done.take().into_iter();
        let done: Option<Vec<Done>> = done.collect();
        let done = done.ok_or("an operation did not end")?;
        Ok((done.iter().map(|done| done.op.clone()).collect(), done))
    }
}

impl Log {
    /// Does an operation, and notes when it was asked and what it gave.
    async fn note(
        &self,
        driver: &mut Driver,
        fs: &Files,
        number: usize,
        op: Op,
    ) -> Result<(), String> {
        let before = self.answered.get();
        let event = |event| self.journal.lock().events.push(event);
        event(Event::Began(number));
        let answer = driver.apply(fs, &op).await?;
        let (op, answer) = match answer {
            Err(errno::ENOSPC) if self.may_lack_room && takes_room(&op) => {
                self.refused.set(self.refused.get() + 1);
                (what_was_done(op, driver.wrote()), Ok(Vec::new()))
            }
            answer => (op, answer),
        };
        event(Event::Ended(number));
        self.answered.set(self.answered.get().with(number));
        self.done.borrow_mut()[number] = Some(Done { op, answer, before });
        Ok(())
    }
}

/// Whether an operation needs blocks or an inode.
fn takes_room(op: &Op) -> bool {
    matches!(
        op,
        Op::Create(_)
            | Op::Mkdir(_)
            | Op::Mkfifo(_)
            | Op::Symlink { .. }
            | Op::Link { .. }
            | Op::Rename { .. }
            | Op::Write { .. }
            | Op::Fallocate { .. }
            | Op::SetXattr { .. }
    )
}

/// What an operation has done that was refused for want of room.
fn what_was_done(op: Op, wrote: u32) -> Op {
    match op {
        Op::Write {
            file,
            at,
            mark,
            direct,
            sync,
            ..
        } if wrote > 0 => Op::Write {
            file,
            at,
            size: wrote,
            mark,
            direct,
            sync,
        },
        _ => Op::Tick,
    }
}
