//! The loop, with a device that counts its turns and a protocol that follows a script.

use super::*;
use crate::testing::Turning;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use units::ByteAddr;

/// A read of so many turns.
struct Read(usize);

impl Job for Read {
    type Done = usize;
    type Memory = ();

    async fn perform<D: Device>(self, device: &D, (): &mut ()) -> usize {
        let mut buffer = vec![0; self.0];
        device
            .read(ByteAddr::new(0), &mut buffer)
            .await
            .expect("read");
        self.0
    }
}

/// What one server is told and does. Requests come by turns of the device.
struct Script<'t> {
    device: &'t Turning,
    rhythm: Rhythm,
    /// After so many turns such a read comes.
    coming: VecDeque<(u64, usize)>,
    answered: &'t RefCell<Vec<(u64, usize)>>,
    steps: &'t RefCell<Vec<&'static str>>,
    at_end: Option<usize>,
    socket: Option<&'t UnixStream>,
    looks: &'t Cell<u32>,
}

impl Protocol<Turning> for Script<'_> {
    type Job = Read;

    fn rhythm(&self) -> Rhythm {
        self.rhythm
    }

    fn take(&mut self, tasks: &mut Tasks<'_, Turning, Read>) -> bool {
        let mut has_taken = false;
        while let Some((at, turns)) = self.coming.front().copied()
            && at <= self.device.turns.get()
        {
            self.coming.pop_front();
            tasks.submit(Read(turns));
            has_taken = true;
        }
        has_taken
    }

    fn sockets<'a>(&'a self, sockets: &mut Sockets<'a>) {
        self.looks.set(self.looks.get() + 1);
        if let Some(socket) = self.socket {
            sockets.add(7, socket, PollFlags::POLLIN);
        }
    }

    fn on_ready(&mut self, socket: usize, _: PollFlags, tasks: &mut Tasks<'_, Turning, Read>) {
        assert_eq!(socket, 7);
        self.socket = None;
        tasks.submit(Read(3));
    }

    fn answer(&mut self, done: usize, _: &mut Tasks<'_, Turning, Read>) {
        let now = self.device.turns.get();
        self.answered.borrow_mut().push((now, done));
    }

    fn settle(&mut self, _: &mut Tasks<'_, Turning, Read>) {}

    fn stop(&mut self, _: &mut Tasks<'_, Turning, Read>) {
        self.steps.borrow_mut().push("stop");
        self.coming.clear();
    }

    fn end(&mut self, tasks: &mut Tasks<'_, Turning, Read>) {
        assert!(tasks.is_empty(), "what the device had is done");
        self.steps.borrow_mut().push("end");
        self.at_end
            .take()
            .into_iter()
            .for_each(|turns| tasks.submit(Read(turns)));
    }
}

const RHYTHM: Rhythm = Rhythm {
    turns: 1,
    look: 4,
    spin: Duration::ZERO,
    drain: Duration::ZERO,
};

#[derive(Default)]
struct Trace {
    answered: RefCell<Vec<(u64, usize)>>,
    steps: RefCell<Vec<&'static str>>,
    looks: Cell<u32>,
}

impl Trace {
    fn run<'t>(
        &'t self,
        device: &'t Turning,
        coming: &[(u64, usize)],
        set: impl FnOnce(&mut Script<'t>),
        control: impl FnMut() -> Control,
    ) {
        let mut script = Script {
            device,
            rhythm: RHYTHM,
            coming: coming.iter().copied().collect(),
            answered: &self.answered,
            steps: &self.steps,
            at_end: None,
            socket: None,
            looks: &self.looks,
        };
        set(&mut script);
        let bell = Arc::new(Bell::new().expect("a file"));
        run(device, bell, script, control).expect("ends well");
    }
}

#[test]
fn what_comes_is_seen_after_the_next_turn_and_answered_at_its_own_time() {
    let (device, trace) = (Turning::default(), Trace::default());
    trace.run(
        &device,
        &[(0, 10), (3, 2), (4, 5)],
        |_| {},
        || Control::Stop,
    );
    assert_eq!(trace.answered.take(), [(5, 2), (9, 5), (10, 10)]);
}

#[test]
fn a_server_that_stops_ends_what_it_has_and_then_says_good_bye_and_flushes() {
    let (device, trace) = (Turning::default(), Trace::default());
    let mut asked = 0;
    let control = || {
        asked += 1;
        Control::Stop
    };
    trace.run(
        &device,
        &[(0, 1)],
        |script| script.at_end = Some(4),
        control,
    );
    assert_eq!(asked, 1);
    assert_eq!(trace.steps.take(), ["stop", "end"]);
    assert_eq!(trace.answered.take(), [(1, 1), (5, 4)]);
    assert_eq!(device.flushes.get(), 1);
}

#[test]
fn sockets_are_looked_at_once_in_some_rounds_and_wake_who_sleeps() {
    let (near, far) = UnixStream::pair().expect("a pair");
    let (device, trace) = (Turning::default(), Trace::default());
    std::io::Write::write_all(&mut &far, b"x").expect("sent");
    trace.run(
        &device,
        &[(0, 20)],
        |script| script.socket = Some(&near),
        || Control::Stop,
    );
    // Four rounds, then a look, and three turns for what it brought.
    assert_eq!(trace.answered.take(), [(7, 3), (20, 20)]);
    assert!((5..9).contains(&trace.looks.get()), "{}", trace.looks.get());
}

#[test]
fn a_server_waits_for_a_device_that_is_early_and_turns_it_again() {
    let (device, trace) = (Turning::default(), Trace::default());
    device.early.set(5);
    let begun = now();
    trace.run(&device, &[(0, 2)], |_| {}, || Control::Stop);
    assert_eq!(trace.answered.take(), [(2, 2)]);
    assert_eq!(device.early.get(), 0);
    // It sleeps for a part of each of the five times 200 µs.
    assert!(begun.elapsed() >= Duration::from_micros(5 * 140));
}
