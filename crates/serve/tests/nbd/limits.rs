//! What a server has room and patience for.
#![allow(
    clippy::disallowed_methods,
    reason = "patience is measured by the wall clock"
)]

use crate::client::{Client, FLAGS, READ, option, request};
use crate::probe::{Manner, Serving};
use serve::nbd::Limits;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Long enough for any machine, so that a limit that is none is found and not waited for.
const FOR_EVER: Duration = Duration::from_secs(60);

fn greeting(socket: &mut UnixStream, patience: Duration) -> Result<(), ErrorKind> {
    socket.set_read_timeout(Some(patience)).expect("set");
    let mut greeting = [0; 18];
    socket
        .read_exact(&mut greeting)
        .map_err(|error| error.kind())
}

#[test]
fn what_a_server_has_room_and_patience_for_unless_told_otherwise() {
    let limits = Limits::default();
    assert_eq!(limits.connections, 32);
    assert_eq!(limits.handshake, Duration::from_secs(10));
    assert_eq!(limits.drain, Duration::from_secs(5));
    assert_eq!(limits.patience, Duration::from_secs(5));
}

#[test]
fn a_client_too_many_waits_until_another_goes() {
    let serving = Serving::new(Manner::default());
    let mut clients: Vec<_> = (0..Limits::default().connections)
        .map(|_| Client::new(&serving.path, true))
        .collect();
    let mut waiting = UnixStream::connect(&serving.path).expect("knocks");
    let soon = Duration::from_millis(500);
    assert_eq!(greeting(&mut waiting, soon), Err(ErrorKind::WouldBlock));
    for client in &mut clients {
        assert_eq!(
            client.ask(0, READ, 0, 4096).error,
            0,
            "the others are served"
        );
    }
    clients.pop();
    assert_eq!(greeting(&mut waiting, FOR_EVER), Ok(()));
    assert_eq!(serving.end().served.connections, 33);
}

#[test]
fn who_does_not_end_the_handshake_in_time_is_hung_up_on() {
    let handshake = Duration::from_millis(600);
    let serving = Serving::within(
        Manner::default(),
        Limits {
            handshake,
            ..Limits::default()
        },
    );
    let mut honest = Client::new(&serving.path, true);
    let mut slow = UnixStream::connect(&serving.path).expect("knocks");
    let since = Instant::now();
    assert_eq!(greeting(&mut slow, FOR_EVER), Ok(()));
    slow.write_all(&FLAGS).expect("sent");
    slow.set_read_timeout(Some(Duration::from_millis(50)))
        .expect("set");
    // A byte of an option now and then does not keep the server.
    let mut drops = option(3, &[0; 4096]).into_iter();
    let mut byte = [0];
    let end = loop {
        assert!(since.elapsed() < FOR_EVER, "still there");
        let _ = slow.write_all(&[drops.next().expect("enough of them")]);
        match slow.read(&mut byte) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            end => break end,
        }
    };
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    assert!(since.elapsed() >= handshake);
    assert_eq!(honest.ask(0, READ, 0, 4096).error, 0, "no limit afterwards");
    serving.end();
}

/// Takes none of its answers. The server that stops waits for it, and not for long.
#[test]
fn a_server_that_stops_does_not_wait_for_ever_for_who_does_not_listen() {
    let drain = Duration::from_millis(700);
    let serving = Serving::within(
        Manner::default(),
        Limits {
            drain,
            ..Limits::default()
        },
    );
    let mut deaf = Client::new(&serving.path, true);
    deaf.send(&request(0, READ, 1, 0, 8 << 20));
    let mut honest = Client::new(&serving.path, true);
    assert_eq!(honest.ask(0, READ, 0, 4096).error, 0);
    let since = Instant::now();
    let served = serving.end().served;
    let took = since.elapsed();
    assert!(took >= drain && took < FOR_EVER, "{took:?}");
    assert_eq!((served.requests, served.errors), (2, 0));
    assert!(honest.is_over());
}
