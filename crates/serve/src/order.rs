//! Order of commands that take several of the device's.
//!
//! The device keeps the order of its commands where they overlap. A command that is done in pieces
//! reaches it piece by piece, so that others have their turn in between; those that overlap what of
//! it is not done yet wait here, and so does who overlaps one that waits.

use std::collections::VecDeque;
use std::rc::Rc;
use units::{ByteAddr, Bytes};

/// Ranges with gaps between them, in the order of their addresses.
pub(crate) type Ranges = Rc<[(ByteAddr, Bytes)]>;

/// What a command is about, and of one that is under way what is left of that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// What its parts have below this is done.
    begin: u64,
    end: u64,
    /// What of it; if nothing is said, all.
    parts: Option<Ranges>,
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
            // Of shared memory it may be beyond any device: that is told when it is done.
            end: at.get().saturating_add(size.get()),
            parts: None,
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

    /// Of a write of several ranges, one after the other; nothing if there is none.
    pub fn of_ranges(ranges: &Ranges, piece: Bytes) -> Option<Self> {
        let ((first, _), (last, size)) = (ranges.first()?, ranges.last()?);
        let size = Bytes::new(last.get() + size.get() - first.get());
        let has_gaps = ranges.len() > 1;
        let pieces = size.get().div_ceil(piece.get());
        Some(Self {
            parts: has_gaps.then(|| Rc::clone(ranges)),
            is_in_pieces: has_gaps || pieces > 1,
            ..Self::write(*first, size, pieces)
        })
    }

    fn excludes(&self, other: &Self) -> bool {
        (self.writes || other.writes)
            && self.begin < other.end
            && other.begin < self.end
            && match (&self.parts, &other.parts) {
                (None, None) => true,
                (Some(parts), None) => meets(parts, other.begin.max(self.begin), other.end),
                (None, Some(parts)) => meets(parts, self.begin.max(other.begin), self.end),
                (Some(parts), Some(others)) => {
                    let begin = self.begin.max(other.begin);
                    let meets = |(at, size): &(ByteAddr, Bytes)| {
                        meets(parts, at.get().max(begin), at.get() + size.get())
                    };
                    others.iter().any(meets)
                }
            }
    }
}

/// Whether one of the ranges has bytes from `begin` to `end`.
fn meets(ranges: &[(ByteAddr, Bytes)], begin: u64, end: u64) -> bool {
    let next = ranges.partition_point(|(at, size)| at.get() + size.get() <= begin);
    begin < end && ranges.get(next).is_some_and(|(at, _)| at.get() < end)
}

/// Commands in pieces that are with the device, and who waits for them.
pub(crate) struct Order<J> {
    in_pieces: Vec<(usize, Extent)>,
    /// Tasks whose commands are in pieces and wait in the device: these stand before nobody.
    aside: Vec<usize>,
    waiting: VecDeque<(J, Extent)>,
    /// So many of those who wait have been looked at since one in pieces got on, and wait on:
    /// nobody behind them changes that.
    looked_at: usize,
}

impl<J> Default for Order<J> {
    fn default() -> Self {
        Self {
            in_pieces: Vec::new(),
            aside: Vec::new(),
            waiting: VecDeque::new(),
            looked_at: 0,
        }
    }
}

impl<J: crate::tasks::Job> Order<J> {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Gives a job back that may start, with what it is about; keeps it otherwise.
    pub fn admit(&mut self, job: J) -> Option<(J, Option<Extent>)> {
        let Some(extent) = job.extent() else {
            return Some((job, None));
        };
        if self.in_pieces.is_empty() || !self.is_excluded(&extent, self.waiting.len()) {
            return Some((job, Some(extent)));
        }
        self.looked_at += usize::from(self.looked_at == self.waiting.len());
        self.waiting.push_back((job, extent));
        None
    }

    /// Whether a job that is in pieces, or one of the first `before` who wait, stands before it.
    fn is_excluded(&self, extent: &Extent, before: usize) -> bool {
        let is_here = |(task, _): &&(usize, Extent)| !self.aside.contains(task);
        let under_way = self
            .in_pieces
            .iter()
            .filter(is_here)
            .map(|(_, other)| other);
        let waiting = self.waiting.iter().take(before).map(|(_, other)| other);
        under_way.chain(waiting).any(|other| other.excludes(extent))
    }

    /// A task has begun a job.
    pub fn started(&mut self, task: usize, extent: Option<Extent>) {
        let extent = extent.filter(|extent| extent.is_in_pieces);
        self.in_pieces.extend(extent.map(|extent| (task, extent)));
    }

    /// What a task's job in pieces has below `end` is done.
    pub fn reached(&mut self, task: usize, end: u64) {
        let mut under_way = self.in_pieces.iter_mut();
        if let Some((_, extent)) = under_way.find(|(other, _)| *other == task) {
            extent.begin = extent.begin.max(end);
            self.looked_at = 0;
        }
    }

    /// A task's job in pieces waits in the device, where it has no place in the order of requests;
    /// or goes on.
    pub fn stands_aside(&mut self, task: usize, is_aside: bool) {
        self.aside.retain(|other| *other != task);
        if is_aside {
            self.aside.push(task);
            self.looked_at = 0;
        }
    }

    /// A task has ended its job.
    pub fn ended(&mut self, task: usize) {
        self.aside.retain(|other| *other != task);
        let before = self.in_pieces.len();
        self.in_pieces.retain(|(other, _)| *other != task);
        if self.in_pieces.len() != before {
            self.looked_at = 0;
        }
    }

    /// The next one of those who wait that may start.
    pub fn next(&mut self) -> Option<(J, Option<Extent>)> {
        while let Some((_, extent)) = self.waiting.get(self.looked_at) {
            if !self.is_excluded(extent, self.looked_at) {
                let (job, extent) = self.waiting.remove(self.looked_at)?;
                return Some((job, Some(extent)));
            }
            self.looked_at += 1;
        }
        None
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
            self.1.clone()
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
            Some((job, extent)) => {
                order.started(job.0 as usize, extent);
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
            let (next, extent) = order.next().expect("it may start");
            assert_eq!(next.0, due);
            order.started(due as usize, extent);
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
        let (_, extent) = order.next().expect("the second one");
        order.started(1, extent);
        assert_eq!(order.next(), None, "the read waits for it");
        order.ended(1);
        assert_eq!(order.next().map(|(job, _)| job.0), Some(2));
    }

    #[test]
    fn one_in_pieces_that_waits_in_the_device_holds_up_nobody_meanwhile() {
        let mut order = Order::default();
        assert!(starts(&mut order, write(0, 0, 100, 4)));
        assert!(!starts(&mut order, read(1, 50, 1)));
        order.stands_aside(0, true);
        assert_eq!(order.next().map(|(job, _)| job.0), Some(1));
        assert!(starts(&mut order, read(2, 50, 1)));
        order.stands_aside(0, false);
        assert!(!starts(&mut order, read(3, 50, 1)));
        order.stands_aside(0, true);
        order.ended(0);
        assert_eq!(order.next().map(|(job, _)| job.0), Some(3));
        assert!(
            starts(&mut order, write(0, 0, 100, 4)),
            "the task's next job"
        );
        assert!(!starts(&mut order, read(4, 50, 1)));
    }

    #[test]
    fn commands_of_one_piece_hold_up_nobody() {
        let mut order = Order::default();
        assert!(starts(&mut order, write(0, 0, 100, 1)));
        assert!(starts(&mut order, write(1, 0, 100, 1)));
        assert!(starts(&mut order, write(2, 0, 100, 2)));
        assert!(!starts(&mut order, read(3, 0, 1)));
    }

    #[test]
    fn who_is_between_the_ranges_of_a_command_does_not_wait() {
        let ranges = |ranges: &[(u64, u64)]| {
            let of = |(at, size): &(u64, u64)| (ByteAddr::new(*at), Bytes::new(*size));
            let ranges: Ranges = ranges.iter().map(of).collect();
            Extent::of_ranges(&ranges, Bytes::new(100))
        };
        let mut order = Order::default();
        let some = Command(0, ranges(&[(0, 10), (50, 10), (90, 10)]));
        assert!(starts(&mut order, some));
        for at in [10, 40, 60, 80, 100] {
            assert!(starts(&mut order, write(1, at, 10, 1)), "{at}");
        }
        let between = Command(2, ranges(&[(20, 10), (70, 20)]));
        assert!(starts(&mut order, between));
        for (at, size) in [(9, 1), (0, 100), (45, 6), (59, 2), (85, 6), (99, 9)] {
            assert!(!starts(&mut order, read(3, at, size)), "{at}");
        }
        let behind = Command(4, ranges(&[(12, 2), (95, 1)]));
        assert!(!starts(&mut order, behind));
        assert_eq!(ranges(&[]), None);
        assert_eq!(
            ranges(&[(0, 300)]),
            write(0, 0, 300, 3).1,
            "one is a range like others"
        );
    }

    #[test]
    fn who_overlaps_only_what_is_done_does_not_wait() {
        let mut order = Order::default();
        assert!(starts(&mut order, write(0, 100, 100, 4)));
        assert!(!starts(&mut order, read(1, 90, 20)));
        assert!(!starts(&mut order, read(2, 140, 20)));
        assert!(!starts(&mut order, write(3, 145, 10, 1)));
        order.reached(0, 110);
        assert_eq!(order.next().map(|(job, _)| job.0), Some(1));
        assert_eq!(order.next(), None);
        assert!(starts(&mut order, read(4, 100, 10)));
        order.reached(0, 159);
        assert_eq!(order.next(), None, "a byte of it is left");
        order.reached(0, 160);
        assert_eq!(order.next().map(|(job, _)| job.0), Some(2));
        assert_eq!(order.next().map(|(job, _)| job.0), Some(3));
        // Of one with gaps, what lies below is done, whatever it is compared with.
        let parts = [(300, 10), (330, 10), (360, 10)];
        let parts = parts.map(|(at, size)| (ByteAddr::new(at), Bytes::new(size)));
        let parts = || Extent::of_ranges(&Ranges::from(parts), Bytes::new(100));
        assert!(starts(&mut order, Command(5, parts())));
        assert!(!starts(&mut order, Command(6, parts())));
        order.reached(5, 335);
        assert_eq!(order.next(), None);
        assert!(
            !starts(&mut order, read(7, 300, 10)),
            "behind one that waits"
        );
        order.reached(5, 370);
        assert_eq!(order.next().map(|(job, _)| job.0), Some(6));
    }

    /// Any number of commands, against the rule written out.
    #[test]
    fn who_may_start_is_who_overlaps_nobody_before_him() {
        const STEPS: u64 = 3000;
        let mut order = Order::default();
        let (mut running, mut waiting) = (Vec::new(), Vec::new());
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let stands_before = |one: &(u32, u64, u64, u64), other: &(u32, u64, u64, u64)| {
            one.1 < other.1 + other.2 && other.1 < one.1 + one.2
        };
        for number in 0..STEPS as u32 {
            let one = (number, draw(60), 1 + draw(12), 1 + draw(2));
            let before = running.iter().chain(&waiting);
            let may = !before
                .filter(|(number, _, _, pieces)| {
                    *pieces > 1 || waiting.iter().any(|it| it.0 == *number)
                })
                .any(|other| stands_before(other, &one));
            assert_eq!(starts(&mut order, write(one.0, one.1, one.2, one.3)), may);
            match may {
                true => running.push(one),
                false => waiting.push(one),
            }
            if running.len() + waiting.len() < 20 {
                continue;
            }
            let ended = running.remove(draw(running.len() as u64) as usize);
            order.ended(ended.0 as usize);
            // Each that may start, in order; those behind see it as started.
            let mut place = 0;
            while place < waiting.len() {
                let one: (u32, u64, u64, u64) = waiting[place];
                let in_pieces = running.iter().filter(|it: &&(u32, u64, u64, u64)| it.3 > 1);
                let mut before = in_pieces.chain(&waiting[..place]);
                if before.any(|other| stands_before(other, &one)) {
                    place += 1;
                    continue;
                }
                let (job, extent) = order.next().expect("one may start");
                assert_eq!(job.0, one.0);
                order.started(one.0 as usize, extent);
                running.push(waiting.remove(place));
            }
            assert_eq!(order.next(), None);
        }
    }
}
