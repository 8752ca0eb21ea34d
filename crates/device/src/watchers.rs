//! Who is to be woken when a command is done.

use std::task::Waker;

/// Wakers by the place of their command. Each is kept for the next command at its place, which
/// mostly has the same one: then nothing is counted up and down.
#[derive(Default)]
pub(crate) struct Watchers(Vec<Watcher>);

#[derive(Clone)]
struct Watcher {
    waker: Waker,
    /// The command is not done.
    is_waiting: bool,
}

impl Watchers {
    /// Someone is to be woken when a command is done.
    pub fn watch(&mut self, command: usize, waker: &Waker) {
        if self.0.len() <= command {
            let nobody = Watcher {
                waker: Waker::noop().clone(),
                is_waiting: false,
            };
            self.0.resize(command + 1, nobody);
        }
        let watcher = &mut self.0[command];
        watcher.waker.clone_from(waker);
        watcher.is_waiting = true;
    }

    /// Nobody waits for a command any more.
    pub fn forget(&mut self, command: usize) {
        if let Some(watcher) = self.0.get_mut(command) {
            watcher.waker = Waker::noop().clone();
            watcher.is_waiting = false;
        }
    }

    /// A command is done: wakes who waits for it.
    pub fn done(&mut self, command: usize) {
        if let Some(watcher) = self.0.get_mut(command)
            && std::mem::take(&mut watcher.is_waiting)
        {
            watcher.waker.wake_by_ref();
        }
    }
}
