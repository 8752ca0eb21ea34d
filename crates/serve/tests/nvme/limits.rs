//! What a server has room and patience for.

use crate::probe::{Pace, Serving, status};
use serve::nvme::client::{Client, ClientError, Command, Manner, Queue};
use serve::nvme::{Limits, Status};
use std::time::Duration;

const NAME: &str = "nqn.2026-11.local.entresol:a-probe";

fn connect(serving: &Serving, name: &str, ids: (u16, u16)) -> Result<(Queue, u16), ClientError> {
    let mut queue = Queue::open(serving.place, Manner::default())?;
    let id = queue.connect(name, Manner::default(), ids)?;
    Ok((queue, id))
}

#[test]
fn connects_that_cannot_be_are_refused_with_their_reason() {
    let serving = Serving::new(Pace::default());
    let client = serving.client();
    let own = client.controller;
    for (what, name, ids, expected) in [
        (
            "another subsystem",
            "nqn.2026-11.local.entresol:other",
            (0xffff, 0),
            0x4182,
        ),
        ("a controller of its choice", NAME, (7, 0), 0x4182),
        ("a queue of no controller", NAME, (own + 1, 1), 0x4182),
        ("a queue that is there", NAME, (own, 1), 0x4182),
        (
            "a queue above those that were asked for",
            NAME,
            (own, 2),
            0x4182,
        ),
    ] {
        let refused = connect(&serving, name, ids).map(|(_, id)| id);
        assert_eq!(status(refused), Status(expected), "{what}");
    }
    // Before it is connected, and before it is enabled.
    let mut queue = Queue::open(serving.place, Manner::default()).expect("opens");
    let identify = Command::new(6).of(0).with(10, 1).giving(4096);
    assert_eq!(status(queue.ask(identify, Vec::new())), Status(0x400c));
    let (mut admin, id) = connect(&serving, NAME, (0xffff, 0)).expect("connects");
    assert_eq!(status(admin.ask(identify, Vec::new())), Status(0x400c));
    assert_eq!(
        status(connect(&serving, NAME, (id, 1)).map(|(_, id)| id)),
        Status(0x400c)
    );
    serving.end();
}

#[test]
fn controllers_beyond_the_limit_are_busy_until_one_goes() {
    let limits = Limits {
        controllers: 1,
        ..Limits::default()
    };
    let serving = Serving::within(Pace::default(), limits);
    let (admin, _) = connect(&serving, NAME, (0xffff, 0)).expect("connects");
    let refused = connect(&serving, NAME, (0xffff, 0)).map(|(_, id)| id);
    assert_eq!(status(refused), Status(0x181));
    drop(admin);
    let again = (0..200).find_map(|_| connect(&serving, NAME, (0xffff, 0)).ok());
    assert!(again.is_some());
    serving.end();
}

#[test]
fn who_connects_and_says_nothing_goes() {
    let limits = Limits {
        handshake: Duration::from_millis(50),
        ..Limits::default()
    };
    let serving = Serving::within(Pace::default(), limits);
    let mut client = serving.client();
    let mut silent = Queue::open(serving.place, Manner::default()).expect("opens");
    assert!(matches!(silent.receive(), Err(ClientError::Io(_))));
    assert!(client.read(0, 1).is_ok(), "who has connected stays");
    serving.end();
}

#[test]
fn a_host_that_is_silent_for_longer_than_it_said_has_gone() {
    let serving = Serving::new(Pace::default());
    let manner = Manner {
        keep_alive: 300,
        ..Manner::default()
    };
    let mut silent = Client::connect(serving.place, manner).expect("connects");
    let mut patient = serving.client();
    for _ in 0..3 {
        // Traffic of any queue keeps it alive.
        silent.read(0, 1).expect("read");
    }
    assert!(matches!(silent.admin.receive(), Err(ClientError::Io(_))));
    assert!(matches!(silent.read(0, 1), Err(ClientError::Io(_))));
    patient.read(0, 1).expect("read");
    serving.end();
}

#[test]
fn a_controller_that_is_reset_is_as_it_was_before() {
    let serving = Serving::new(Pace::default());
    let mut client = serving.client();
    let events: Vec<_> = (0..4)
        .map(|_| client.admin.send(Command::new(0x0c).of(0), Vec::new()))
        .collect();
    // No write cache.
    let no_cache = Command::new(0x09).of(0).with(10, 6);
    client.admin.send(no_cache, Vec::new());
    let set = client.admin.receive().expect("an answer").completion;
    assert_eq!(set.status, Status::SUCCESS);
    // One more than are kept, then CC: off and on.
    let more = client.admin.ask(Command::new(0x0c).of(0), Vec::new());
    assert_eq!(status(more), Status(0x4105));
    let configure = |value| Command::new(0x7f).of(0).with(11, 0x14).with(12, value);
    let off = client.admin.send(configure(0), Vec::new());
    for expected in events {
        let found = client.admin.receive().expect("an answer").completion;
        assert_eq!((found.command, found.status), (expected, Status(8)));
    }
    let found = client.admin.receive().expect("an answer").completion;
    assert_eq!((found.command, found.status), (off, Status::SUCCESS));
    assert!(matches!(client.read(0, 1), Err(ClientError::Io(_))));
    assert_eq!(
        status(connect(&serving, NAME, (client.controller, 1)).map(|(_, id)| id)),
        Status(0x400c)
    );
    let on = configure(0x0046_0001);
    client.admin.ask(on, Vec::new()).expect("on again");
    let of_cache = Command::new(0x0a).of(0).with(10, 6);
    let cache = client.admin.ask(of_cache, Vec::new()).expect("told");
    assert_eq!(cache.completion.value, 1);
    let queue = connect(&serving, NAME, (client.controller, 1));
    client.io = queue.expect("the queue is free").0;
    client.read(0, 1).expect("read");
    serving.end();
}

#[test]
fn a_controller_ends_with_its_admin_queue_and_not_with_another() {
    let serving = Serving::new(Pace::default());
    let mut client = serving.client();
    // Disconnect of the I/O queue.
    let mut leave = Command::new(0x7f).of(0);
    leave.0[4] = 8;
    client.io.ask(leave, Vec::new()).expect("left");
    assert!(matches!(client.io.receive(), Err(ClientError::Io(_))));
    let alive = Command::new(0x18).of(0);
    client.admin.ask(alive, Vec::new()).expect("alive");
    let mut io = (0..200)
        .find_map(|_| connect(&serving, NAME, (client.controller, 1)).ok())
        .expect("the queue is free again")
        .0;
    io.ask(client.reading(0, 1), Vec::new()).expect("read");
    drop(client);
    assert!(matches!(io.receive(), Err(ClientError::Io(_))));
    serving.end();
}
