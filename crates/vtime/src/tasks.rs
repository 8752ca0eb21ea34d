//! Tasks, and which of them can run.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// A task, by the order in which tasks were spawned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TaskId(pub(crate) u32);

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task {}", self.0)
    }
}

/// What a task is polled as.
pub(crate) type Body = Pin<Box<dyn Future<Output = ()>>>;

/// Tasks that can run, in the order in which they were woken.
type Ready = Arc<Mutex<Vec<u32>>>;

/// Wakes one task.
struct TaskWaker {
    task: u32,
    is_ready: AtomicBool,
    ready: Ready,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::AcqRel) {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            ready.push(self.task);
        }
    }
}

struct Task {
    name: String,
    /// None when it is over, or while it is polled.
    body: Option<Body>,
    is_over: bool,
    waker: Waker,
    state: Arc<TaskWaker>,
}

/// All tasks.
#[derive(Default)]
pub(crate) struct Tasks {
    all: Vec<Task>,
    ready: Ready,
    running: usize,
}

impl Tasks {
    /// Adds a task, which can run.
    pub fn add(&mut self, name: String, body: Body) -> TaskId {
        let task = u32::try_from(self.all.len()).expect("fewer tasks than 2^32");
        let state = Arc::new(TaskWaker {
            task,
            is_ready: AtomicBool::new(false),
            ready: Arc::clone(&self.ready),
        });
        state.wake_by_ref();
        self.all.push(Task {
            name,
            body: Some(body),
            is_over: false,
            waker: Waker::from(Arc::clone(&state)),
            state,
        });
        self.running += 1;
        TaskId(task)
    }

    /// Adds the tasks that can run to `to`, each once, in the order of their numbers.
    pub fn take_ready(&mut self, to: &mut Vec<TaskId>) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        to.extend(ready.drain(..).map(TaskId));
        drop(ready);
        to.sort_unstable();
        for task in to.iter() {
            let state = &self.all[task.0 as usize].state;
            state.is_ready.store(false, Ordering::Release);
        }
    }

    /// The task's future and its waker, to be polled.
    pub fn lend(&mut self, task: TaskId) -> Option<(Body, Waker)> {
        let task = &mut self.all[task.0 as usize];
        Some((task.body.take()?, task.waker.clone()))
    }

    /// It waits.
    pub fn give_back(&mut self, task: TaskId, body: Body) {
        self.all[task.0 as usize].body = Some(body);
    }

    /// It is over.
    pub fn end(&mut self, task: TaskId) {
        self.all[task.0 as usize].is_over = true;
        self.running -= 1;
    }

    /// Tasks that are not over.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Those that are not over, with their names.
    pub fn waiting(&self) -> impl Iterator<Item = (TaskId, &str)> {
        let all = self.all.iter().enumerate();
        let waiting = all.filter(|(_, task)| !task.is_over);
        waiting.map(|(number, task)| (TaskId(number as u32), task.name.as_str()))
    }
}
