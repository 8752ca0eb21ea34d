//! Threads that work together: who does which part, and where they wait for each other.

use crate::setting::Threads;
use std::ops::Range;
use std::sync::Barrier;

/// One thread of a team.
#[derive(Debug)]
pub struct Member<'team> {
    index: usize,
    threads: usize,
    barrier: &'team Barrier,
}

impl Member<'_> {
    /// Its number, from 0; 0 is the main thread.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }
    /// How many there are.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }
    /// Waits until all members have come here.
    pub fn barrier(&self) {
        self.barrier.wait();
    }
    /// This member's part of `0..count`: contiguous, of equal size up to one.
    #[must_use]
    pub fn part(&self, count: usize) -> Range<usize> {
        part(self.index, self.threads, count)
    }
    /// The main thread does something while all others wait.
    pub fn alone_between_barriers(&self, action: impl FnOnce()) {
        self.barrier();
        if self.index == 0 {
            action();
        }
        self.barrier();
    }
}

/// Part `index` of `parts` of `0..count`.
#[must_use]
pub fn part(index: usize, parts: usize, count: usize) -> Range<usize> {
    let place = |index: usize| {
        let place = count as u128 * index as u128 / parts as u128;
        usize::try_from(place).expect("at most the count")
    };
    place(index)..place(index + 1)
}

/// Runs `body` on `threads` threads at once, the calling one as the first; when it returns, the
/// others are gone.
pub fn run(threads: Threads, body: impl Fn(&Member<'_>) + Sync) {
    let barrier = Barrier::new(threads.get());
    let member = |index| Member {
        index,
        threads: threads.get(),
        barrier: &barrier,
    };
    std::thread::scope(|scope| {
        let spawn = |index| {
            let (member, body) = (member(index), &body);
            scope.spawn(move || body(&member))
        };
        let others: Vec<_> = (1..threads.get()).map(spawn).collect();
        body(&member(0));
        // Unlike the end of the scope, this waits for the threads themselves.
        for other in others {
            other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// Threads that build and check data: what the machine has, as the result does not depend on it.
#[must_use]
pub fn builders() -> Threads {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    Threads::new(available.min(16)).expect("at least one")
}

/// Calls `body` with contiguous parts of `0..count` on all [`builders`]; for set-up and checks.
pub fn in_parts(count: usize, body: impl Fn(Range<usize>) + Sync) {
    run(builders(), |member| body(member.part(count)));
}

/// As [`in_parts`], and combines what the parts give in their order.
pub fn combine<T: Send>(
    count: usize,
    body: impl Fn(Range<usize>) -> T + Sync,
    join: impl Fn(T, T) -> T,
) -> T {
    let parts = builders().get();
    let results = std::thread::scope(|scope| {
        let body = &body;
        let running: Vec<_> = (0..parts)
            .map(|index| scope.spawn(move || body(part(index, parts, count))))
            .collect();
        let ended = running.into_iter().map(|thread| thread.join());
        ended
            .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    results.into_iter().reduce(join).expect("at least one part")
}

/// Fills rows of `width` elements, each by its number, on all [`builders`].
pub fn fill_rows<T: Send>(rows: &mut [T], width: usize, fill: impl Fn(usize, &mut [T]) + Sync) {
    let count = rows.len() / width;
    std::thread::scope(|scope| {
        let (fill, mut rest) = (&fill, rows);
        for index in 0..builders().get() {
            let numbers = part(index, builders().get(), count);
            let (own, others) = rest.split_at_mut(numbers.len() * width);
            rest = others;
            scope.spawn(move || {
                for (number, row) in numbers.zip(own.chunks_exact_mut(width)) {
                    fill(number, row);
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn parts_cover_everything_once_in_order() {
        for parts in [1, 3, 8, 24] {
            let all: Vec<_> = (0..parts)
                .flat_map(|index| part(index, parts, 100))
                .collect();
            assert_eq!(all, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_member_passes_a_barrier_before_all_came() {
        let came = AtomicUsize::new(0);
        run(Threads::new(5).unwrap(), |member| {
            came.fetch_add(1, Ordering::Relaxed);
            member.barrier();
            assert_eq!(came.load(Ordering::Relaxed), 5);
        });
    }

    #[test]
    fn every_row_is_filled_by_its_number() {
        let mut rows = vec![0; 21];
        fill_rows(&mut rows, 3, |number, row| row.fill(number + 1));
        assert!(
            rows.iter()
                .enumerate()
                .all(|(place, value)| *value == place / 3 + 1)
        );
    }

    #[test]
    fn parts_are_combined_in_order() {
        let all = combine(10, |part| part.collect::<Vec<_>>(), |a, b| [a, b].concat());
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }
}
