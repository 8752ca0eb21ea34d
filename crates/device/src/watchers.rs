//! Who is to be woken when a command is done.

use std::collections::VecDeque;
use std::task::Waker;

/// Wakers by the place of their command.
#[derive(Default)]
pub(crate) struct Watchers {
    by_command: Vec<Option<Waker>>,
    /// Of commands that are done.
    to_wake: VecDeque<Waker>,
}

impl Watchers {
    /// Someone is to be woken when a command is done.
    pub fn watch(&mut self, command: usize, waker: &Waker) {
        if self.by_command.len() <= command {
            self.by_command.resize(command + 1, None);
        }
        match &mut self.by_command[command] {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Nobody waits for a command any more.
    pub fn forget(&mut self, command: usize) {
        self.by_command.get_mut(command).and_then(Option::take);
    }

    /// A command is done.
    pub fn done(&mut self, command: usize) {
        let waker = self.by_command.get_mut(command).and_then(Option::take);
        self.to_wake.extend(waker);
    }

    /// The next one to be woken.
    pub fn next_to_wake(&mut self) -> Option<Waker> {
        self.to_wake.pop_front()
    }
}
