//! Addresses, and how a server ends.

use crate::client::{Client, ESHUTDOWN, READ, TRIM, ZEROES, request, write};
use crate::probe::{Manner, Serving};
use serve::{Address, Listener};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

#[test]
fn a_server_that_stops_ends_what_it_has_flushes_and_removes_its_socket() {
    let serving = Serving::new(Manner {
        read_turns: 0,
        write_turns: 2000,
    });
    let path = serving.path.clone();
    let mut client = Client::new(&path, true);
    client.send(&[write(0, 1, 0, &[1; 4096]), request(0, READ, 2, 0, 4096)].concat());
    serving.stop();
    assert_eq!(client.reply(4096).cookie, 2);
    let last = client.reply(0);
    assert_eq!((last.cookie, last.error), (1, 0));
    let log = serving.end().log;
    assert_eq!(log.last().map(String::as_str), Some("flush"));
    assert!(client.is_over());
    assert!(!PathBuf::from(path).exists());
}

/// A client asks without end until the server hangs up: each request that was read is done, or
/// refused as too late.
#[test]
fn requests_that_come_too_late_are_told_so() {
    let serving = Serving::new(Manner {
        read_turns: 20,
        write_turns: 0,
    });
    let mut client = Client::new(&serving.path, true);
    let mut other = client.socket.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || {
        let bytes = request(0, READ, 1, 0, 4096).repeat(1000);
        while other.write_all(&bytes).is_ok() {}
    });
    serving.stop();
    let (mut done, mut late) = (0, 0);
    while let Some(reply) = client.reply_or_end(4096) {
        assert!(reply.error == 0 || reply.error == ESHUTDOWN, "{reply:?}");
        done += u64::from(reply.error == 0);
        late += u64::from(reply.error == ESHUTDOWN);
    }
    sender.join().expect("sent");
    let served = serving.end().served;
    assert_eq!((served.requests, served.errors), (done, late));
    assert!(late > 0);
}

/// A client may ask for more trims and zeroes than are done in hours.
#[test]
fn long_requests_end_at_their_next_piece() {
    let serving = Serving::new(Manner {
        read_turns: 0,
        write_turns: 40_000,
    });
    let mut client = Client::new(&serving.path, true);
    let all = 64 << 20;
    // In pieces; none begins before the one before it has ended.
    for (cookie, kind) in [(0, TRIM), (1, ZEROES), (2, TRIM)] {
        client.send(&request(0, kind, cookie, 0, all));
    }
    client.send(&request(0, READ, 9, 0, 4096));
    serving.stop();
    for _ in 0..4 {
        let reply = client.reply_or_end(4096).expect("an answer");
        assert!(reply.cookie == 9 || reply.error == ESHUTDOWN, "{reply:?}");
    }
    assert!(client.is_over());
    let log = serving.end().log;
    let trims = log.iter().filter(|line| line.starts_with("trim")).count();
    assert!(trims < 256, "{trims} pieces");
    assert_eq!(log.last().map(String::as_str), Some("flush"));
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("entresol-{name}-{}", std::process::id()))
}

fn refusal(address: &Address) -> String {
    Listener::bind(address)
        .map(drop)
        .expect_err("refused")
        .to_string()
}

#[test]
fn addresses_are_read_and_only_this_machine_is_listened_to() {
    for local in [
        "127.0.0.1:10809",
        "[::1]:0",
        "localhost:10809",
        "127.9.9.9:1",
    ] {
        assert!(
            matches!(Address::parse(local, false), Ok(Address::Tcp(_))),
            "{local}"
        );
    }
    for remote in ["0.0.0.0:10809", "[::]:10809", "192.0.2.7:10809"] {
        let refused = Address::parse(remote, false)
            .expect_err("refused")
            .to_string();
        assert!(refused.contains("--allow-remote"), "{refused}");
        assert!(Address::parse(remote, true).is_ok());
    }
    let port = Address::parse("127.0.0.1:99999", true);
    assert_eq!(
        port.expect_err("refused").to_string(),
        "127.0.0.1:99999: there is no port 99999; a port is a number from 0 to 65535"
    );
    for wrong in ["", "unix:", "10809", "127.0.0.1", "127.0.0.1:", "/tmp/x"] {
        let refused = Address::parse(wrong, true)
            .expect_err("refused")
            .to_string();
        assert!(
            refused.starts_with(&format!("{wrong}: is no address;")),
            "{refused}"
        );
    }
    let unknown = format!("{}:10809", "x".repeat(300));
    let refused = Address::parse(&unknown, true).expect_err("no host has such a name");
    let wanted = format!("{unknown}: no address belongs to that name (");
    assert!(refused.to_string().starts_with(&wanted), "{refused}");
    let long = Address::parse(&format!("unix:/{}", "x".repeat(107)), false);
    assert!(
        long.expect_err("refused")
            .to_string()
            .contains("longer than the 107 bytes")
    );
}

#[test]
fn a_port_that_the_system_chooses_is_told() {
    let address = Address::parse("127.0.0.1:0", false).expect("an address");
    let listener = Listener::bind(&address).expect("listens");
    assert!(listener.place().starts_with("127.0.0.1:") && !listener.place().ends_with(":0"));
    assert_eq!(listener.audience(), "all programs on this machine");
}

#[test]
fn a_socket_left_behind_is_replaced_and_a_living_one_is_not() {
    let path = temporary("stale");
    let address = Address::Unix(path.clone());
    drop(UnixListener::bind(&path).expect("listens"));
    assert!(path.exists(), "left behind");
    let listener = Listener::bind(&address).expect("replaces it");
    let mode = std::fs::metadata(&path)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(refusal(&address).contains("another server listens there"));
    drop(listener);
    assert!(!path.exists());
    std::fs::write(&path, "a file").expect("written");
    assert!(refusal(&address).contains("no socket"));
    assert_eq!(std::fs::read(&path).expect("there"), b"a file");
    std::fs::remove_file(&path).expect("removed");
}
