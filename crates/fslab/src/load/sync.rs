//! What tasks of one machine wait for beside its device: each other.
//!
//! Those who wait are let on in the order in which they came.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};

/// Tasks that wait until something has changed.
#[derive(Default)]
pub(crate) struct Changes {
    waiting: RefCell<Vec<Waker>>,
}

impl Changes {
    /// Something has changed: everybody looks again.
    pub fn tell(&self) {
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Waits until `look` finds something; it looks at once and after each change.
    pub async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match look() {
            Some(found) => Poll::Ready(found),
            None => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

/// Filebench's pair of semaphores: posts that one thread waits for, and room for so many of them.
pub(crate) struct Semaphore {
    posts: Cell<u64>,
    room: Cell<u64>,
    is_over: Cell<bool>,
    changes: Changes,
    /// Posters that wait for room, by the order in which they came.
    queue: RefCell<VecDeque<u64>>,
    next: Cell<u64>,
}

impl Semaphore {
    /// With room for so many posts beyond those that are waited for.
    pub fn new(room: u64) -> Self {
        Self {
            posts: Cell::new(0),
            room: Cell::new(room),
            is_over: Cell::new(false),
            changes: Changes::default(),
            queue: RefCell::default(),
            next: Cell::new(0),
        }
    }

    /// Makes room for so many posts and waits until they have come. False if none will come.
    pub async fn wait(&self, posts: u64) -> bool {
        self.room.set(self.room.get() + posts);
        self.changes.tell();
        let enough = || match self.posts.get().checked_sub(posts) {
            Some(rest) => {
                self.posts.set(rest);
                Some(true)
            }
            None => self.is_over.get().then_some(false),
        };
        self.changes.until(enough).await
    }

    /// Posts once, and waits for room first.
    pub async fn post(&self) {
        let turn = self.next.get();
        self.next.set(turn + 1);
        self.queue.borrow_mut().push_back(turn);
        let mine = || {
            let is_first = self.queue.borrow().front() == Some(&turn);
            let may = is_first && self.room.get() > 0 || self.is_over.get();
            may.then_some(())
        };
        self.changes.until(mine).await;
        self.queue.borrow_mut().retain(|other| *other != turn);
        self.room.set(self.room.get().saturating_sub(1));
        self.posts.set(self.posts.get() + 1);
        self.changes.tell();
    }

    /// A new phase begins, with the posts of before.
    pub fn begin(&self) {
        self.is_over.set(false);
    }

    /// Nobody will post or wait any more.
    pub fn end(&self) {
        self.is_over.set(true);
        self.changes.tell();
    }
}

/// One task at a time, first come first served.
#[derive(Default)]
pub(crate) struct Lock {
    is_held: Cell<bool>,
    queue: RefCell<VecDeque<u64>>,
    next: Cell<u64>,
    changes: Changes,
}

impl Lock {
    /// Waits for its turn; the guard ends it.
    pub async fn hold(&self) -> Guard<'_> {
        let turn = self.next.get();
        self.next.set(turn + 1);
        self.queue.borrow_mut().push_back(turn);
        let mine = || {
            let is_first = self.queue.borrow().front() == Some(&turn);
            (is_first && !self.is_held.get()).then_some(())
        };
        self.changes.until(mine).await;
        self.queue.borrow_mut().pop_front();
        self.is_held.set(true);
        Guard(self)
    }
}

/// A lock that is held.
pub(crate) struct Guard<'a>(&'a Lock);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.is_held.set(false);
        self.0.changes.tell();
    }
}

/// Waits for one of two; the other is dropped.
pub(crate) async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        let is_over = one.as_mut().poll(context).is_ready();
        match is_over || other.as_mut().poll(context).is_ready() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

/// Waits for all, which go on beside each other; gives what came of them in order.
pub(crate) async fn all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(|one| Some(Box::pin(one))).collect();
    let mut found: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, found) in futures.iter_mut().zip(&mut found) {
            if let Some(one) = future
                && let Poll::Ready(value) = one.as_mut().poll(context)
            {
                *found = Some(value);
                *future = None;
            }
        }
        match futures.iter().all(Option::is_none) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    found.into_iter().flatten().collect()
}
