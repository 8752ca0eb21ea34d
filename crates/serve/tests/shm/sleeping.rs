//! Server and client that sleep are woken.
#![allow(
    clippy::disallowed_methods,
    reason = "a bell that nobody hears shows in the time that a round takes, and only there"
)]

use crate::serving::Serving;
use port::Device;
use shm::Connect;
use std::time::{Duration, Instant};
use units::{ByteAddr, TxId};

const ROUNDS: u32 = 60;
/// A sleeper that is not woken looks for himself after 100 ms (client) or 250 ms (server).
const LONGEST: Duration = Duration::from_millis(40);

#[test]
fn both_sides_sleep_and_are_woken() {
    let serving = Serving::new("shm-sleep");
    let connect = Connect {
        spin: Duration::ZERO,
        ..Connect::default()
    };
    let client = connect.to(&serving.path()).unwrap();
    let begun = Instant::now();
    for number in 0..ROUNDS {
        // Longer than the server spins.
        std::thread::sleep(Duration::from_millis(2));
        let bytes = number.to_le_bytes();
        client
            .wait(client.write(ByteAddr::new(8), &bytes, TxId::NONE))
            .unwrap();
        let mut found = [0; 4];
        client
            .wait(client.read(ByteAddr::new(8), &mut found))
            .unwrap();
        assert_eq!(found, bytes);
    }
    assert!(begun.elapsed() < ROUNDS * LONGEST, "{:?}", begun.elapsed());
    serving.end();
}

#[test]
fn threads_that_sleep_on_one_client_are_all_woken() {
    let serving = Serving::new("shm-sleepers");
    let connect = Connect {
        spin: Duration::ZERO,
        data: units::Bytes::from_kib(256),
    };
    let client = connect.to(&serving.path()).unwrap();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let client = &client;
            scope.spawn(move || {
                let mut bytes = vec![0; 150_000];
                for round in 0..ROUNDS {
                    let size = if round % 4 == 0 { bytes.len() } else { 8 };
                    let at = ByteAddr::new(thread * 200_000);
                    client.wait(client.read(at, &mut bytes[..size])).unwrap();
                }
            });
        }
    });
    assert!(begun.elapsed() < ROUNDS * LONGEST, "{:?}", begun.elapsed());
    serving.end();
}

#[test]
fn who_waits_can_be_interrupted() {
    let serving = Serving::new("shm-interrupted");
    let client = serving.connect();
    let never = client.wait_unless(core::future::pending::<()>(), || true);
    assert_eq!(never, None);
    client.wait(client.persist()).unwrap();
    serving.end();
}
