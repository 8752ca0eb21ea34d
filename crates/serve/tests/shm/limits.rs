//! Limits, and what is said when they are reached.

use crate::serving::Serving;
use port::{Device, Drive};
use serve::shm::MOST_CLIENTS;
use shm::{Connect, ENTRIES};
use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use units::{ByteAddr, Bytes};

#[test]
fn one_client_too_many_is_refused_until_another_goes() {
    let serving = Serving::new("shm-many");
    let mut clients: Vec<_> = (0..MOST_CLIENTS).map(|_| serving.connect()).collect();
    let error = Connect::default()
        .to(&serving.path())
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with(
            "the server refuses: 32 clients are connected, as many as the server takes; \
             let one of them go first"
        ),
        "{error}"
    );
    clients.pop();
    let client = loop {
        // The server notices soon.
        if let Ok(client) = Connect::default().to(&serving.path()) {
            break client;
        }
    };
    client.wait(client.persist()).unwrap();
    for client in &clients {
        client.wait(client.persist()).unwrap();
    }
    let (served, _) = serving.end();
    assert_eq!(served.clients, MOST_CLIENTS as u64 + 1);
    assert!(served.refused >= 1);
}

#[test]
fn a_data_area_has_a_least_and_a_most_size() {
    let serving = Serving::new("shm-data");
    for (size, is_taken) in [
        (Bytes::from_kib(255), false),
        (Bytes::from_kib(256), true),
        (Bytes::new((1 << 20) + 1), true),
        (Bytes::from_mib(16), true),
        (Bytes::from_mib(17), false),
    ] {
        let connect = Connect {
            data: size,
            ..Connect::default()
        };
        match connect.to(&serving.path()) {
            Ok(client) => {
                assert!(is_taken, "{size}");
                client
                    .wait(client.read(ByteAddr::new(0), &mut [0; 300_000]))
                    .unwrap();
            }
            Err(error) => {
                assert!(!is_taken, "{size}");
                let text = error.to_string();
                assert!(text.contains("is not between 256KiB and 16MiB"), "{text}");
            }
        }
    }
    serving.end();
}

#[test]
fn more_requests_than_the_ring_has_wait_for_room() {
    let serving = Serving::new("shm-ring");
    let client = serving.connect();
    let mut buffers = vec![[0_u8; 64]; 3 * ENTRIES];
    let mut context = core::task::Context::from_waker(core::task::Waker::noop());
    let mut reads: Vec<_> = buffers
        .iter_mut()
        .map(|buffer| Box::pin(client.read(ByteAddr::new(0), buffer)))
        .collect();
    while !reads.is_empty() {
        client.turn();
        reads.retain_mut(|read| read.as_mut().poll(&mut context).is_pending());
    }
    drop(reads);
    let (served, _) = serving.end();
    assert_eq!(served.requests, 3 * ENTRIES as u64);
}

#[test]
fn who_is_no_server_is_told_from_one() {
    let nowhere = std::env::temp_dir().join("entresol-nowhere");
    let error = Connect::default().to(&nowhere).unwrap_err().to_string();
    assert!(error.contains("no device can be reached there"), "{error}");
    assert!(error.ends_with("start one with `serve --shm`"), "{error}");
    let path = std::env::temp_dir().join(format!("entresol-foreign-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let stranger = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 24]).unwrap();
        std::io::Write::write_all(&mut stream, &[b'?'; 18]).unwrap();
    });
    let error = Connect::default().to(&path).unwrap_err().to_string();
    assert!(error.contains("no shared-memory port"), "{error}");
    stranger.join().unwrap();
    std::fs::remove_file(path).unwrap();
}

#[test]
fn who_says_something_else_is_answered_and_nobody_else_notices() {
    let serving = Serving::new("shm-strangers");
    let client = serving.connect();
    let mut stranger = UnixStream::connect(serving.path()).unwrap();
    std::io::Write::write_all(&mut stranger, b"GET / HTTP/1.1\r\nHost: here\r\n").unwrap();
    let mut said = Vec::new();
    // The rest of what it sent was not read, which the system calls a reset.
    let _ = stranger.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("connect with its client library"), "{said}");
    let silent = UnixStream::connect(serving.path()).unwrap();
    client.wait(client.persist()).unwrap();
    drop(silent);
    client.wait(client.persist()).unwrap();
    let (served, _) = serving.end();
    assert_eq!((served.clients, served.breaches), (1, 0));
}
