//! Order of commands that take several of the device's.
//!
//! The device keeps the order of its commands where they overlap. A command that is done in pieces
//! reaches it piece by piece, so that others have their turn in between; those that overlap it wait
//! here until its last piece is done, and so does who overlaps one that waits.

use std::collections::VecDeque;
use units::{ByteAddr, Bytes};

/// What a command is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    begin: u64,
    end: u64,
    /// It changes what is there.
    writes: bool,
    /// It takes several commands of the device, one after the other.
    is_in_pieces: bool,
}

impl Extent {
    /// Of a read.
    pub fn read(at: ByteAddr, size: Bytes) -> Self {
        Self {
            begin: at.get(),
            end: at.get() + size.get(),
            writes: false,
            is_in_pieces: false,
        }
    }

    /// Of a write, in so many pieces.
    pub fn write(at: ByteAddr, size: Bytes, pieces: u64) -> Self {
        Self {
            writes: true,
            is_in_pieces: pieces > 1,
            ..Self::read(at, size)
        }
    }

    fn excludes(&self, other: &Self) -> bool {
        (self.writes || other.writes) && self.begin < other.end && other.begin < self.end
    }
}

/// Commands in pieces that are with the device, and who waits for them.
pub(crate) struct Order<J> {
    in_pieces: Vec<(usize, Extent)>,
    waiting: VecDeque<J>,
    /// One of those in pieces has ended since those who wait were last looked at.
    is_stale: bool,
}

impl<J> Default for Order<J> {
    fn default() -> Self {
        Self {
            in_pieces: Vec::new(),
            waiting: VecDeque::new(),
            is_stale: false,
        }
    }
}

impl<J: crate::tasks::Job> Order<J> {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Gives a job back that may start; keeps it otherwise.
    pub fn admit(&mut self, job: J) -> Option<J> {
        if self.in_pieces.is_empty() || !self.is_excluded(&job, self.waiting.len()) {
            return Some(job);
        }
        self.waiting.push_back(job);
        None
    }

    /// Whether a job that is in pieces, or one of the first `before` who wait, stands before it.
    fn is_excluded(&self, job: &J, before: usize) -> bool {
        let Some(extent) = job.extent() else {
            return false;
        };
        let under_way = self.in_pieces.iter().map(|(_, extent)| *extent);
        let waiting = self.waiting.iter().take(before).filter_map(J::extent);
        under_way
            .chain(waiting)
            .any(|other| other.excludes(&extent))
    }

    /// A task has begun a job.
    pub fn started(&mut self, task: usize, job: &J) {
        let extent = job.extent().filter(|extent| extent.is_in_pieces);
        self.in_pieces.extend(extent.map(|extent| (task, extent)));
    }

    /// A task has ended its job.
    pub fn ended(&mut self, task: usize) {
        let before = self.in_pieces.len();
        self.in_pieces.retain(|(other, _)| *other != task);
        self.is_stale |= self.in_pieces.len() != before;
    }

    /// The next one of those who wait that may start.
    pub fn next(&mut self) -> Option<J> {
        if !self.is_stale {
            return None;
        }
        let is_free = |nth: &usize| !self.is_excluded(&self.waiting[*nth], *nth);
        let free = (0..self.waiting.len()).find(is_free);
        self.is_stale = free.is_some();
        self.waiting.remove(free?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Device;

    /// A number, and what it is about.
    #[derive(PartialEq, Debug)]
    struct Command(u32, Option<Extent>);

    impl crate::tasks::Job for Command {
        type Done = ();
        type Memory = ();

        async fn perform<D: Device>(self, _: &D, (): &mut ()) {}

        fn extent(&self) -> Option<Extent> {
            self.1
        }
    }

    fn write(number: u32, at: u64, size: u64, pieces: u64) -> Command {
        let extent = Extent::write(ByteAddr::new(at), Bytes::new(size), pieces);
        Command(number, Some(extent))
    }

    fn read(number: u32, at: u64, size: u64) -> Command {
        let extent = Extent::read(ByteAddr::new(at), Bytes::new(size));
        Command(number, Some(extent))
    }

    /// Admits a command; whether it started, as the task of its number.
    fn starts(order: &mut Order<Command>, command: Command) -> bool {
        match order.admit(command) {
            Some(job) => {
                order.started(job.0 as usize, &job);
                true
            }
            None => false,
        }
    }

    #[test]
    fn who_overlaps_a_command_in_pieces_waits_and_so_does_who_overlaps_him() {
        let mut order = Order::default();
        assert!(starts(&mut order, write(0, 0, 100, 4)));
        assert!(!starts(&mut order, write(1, 90, 20, 1)));
        assert!(!starts(&mut order, read(2, 105, 10)), "behind the write");
        assert!(starts(&mut order, read(3, 110, 10)), "behind nobody");
        assert!(starts(&mut order, Command(4, None)), "about no range");
        assert_eq!(order.next(), None);
        order.ended(3);
        assert_eq!(order.next(), None);
        order.ended(0);
        // The device keeps the order of these two.
        for due in [1, 2] {
            let next = order.next().expect("it may start");
            assert_eq!(next.0, due);
            order.started(due as usize, &next);
        }
        assert!(order.is_empty() && order.next().is_none());
    }

    #[test]
    fn one_in_pieces_that_waited_holds_up_others_when_it_starts() {
        let mut order = Order::default();
        assert!(starts(&mut order, write(0, 0, 100, 4)));
        assert!(!starts(&mut order, write(1, 50, 100, 4)));
        assert!(!starts(&mut order, read(2, 120, 1)));
        order.ended(0);
        let next = order.next().expect("the second one");
        order.started(1, &next);
        assert_eq!(order.next(), None, "the read waits for it");
        order.ended(1);
        assert_eq!(order.next().map(|job| job.0), Some(2));
    }

    #[test]
    fn commands_of_one_piece_hold_up_nobody() {
        let mut order = Order::default();
        assert!(starts(&mut order, write(0, 0, 100, 1)));
        assert!(starts(&mut order, write(1, 0, 100, 1)));
        assert!(starts(&mut order, write(2, 0, 100, 2)));
        assert!(!starts(&mut order, read(3, 0, 1)));
    }
}
