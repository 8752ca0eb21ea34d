//! Clients that mean no good, or die.

use crate::client::{Client, DISC, READ, WRITE, hello, request, write};
use crate::probe::{BLOCK, Manner, Serving};
use core::cell::RefCell;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[test]
fn a_client_that_goes_in_the_middle_of_a_write_has_written_nothing() {
    let serving = Serving::new(Manner::default());
    let mut honest = Client::new(&serving.path, true);
    honest.write(0, 0, &[1; 8192]);
    let whole = write(0, 5, 0, &[2; 8192]);
    for cut in [1, 27, 28, 29, 28 + 4096, 28 + 8191] {
        let mut dying = Client::new(&serving.path, true);
        dying.send(&whole[..cut]);
        drop(dying);
        assert!(honest.read(0, 8192) == [1; 8192], "cut after {cut}");
    }
    assert_eq!(serving.end().served.errors, 0);
}

#[test]
fn a_client_that_goes_while_the_device_works_harms_nobody() {
    let serving = Serving::new(Manner {
        read_turns: 50,
        write_turns: 50,
    });
    let mut honest = Client::new(&serving.path, true);
    for round in 0..20_u8 {
        let mut dying = Client::new(&serving.path, round % 2 == 0);
        let mut bytes = Vec::new();
        for cookie in 0..16 {
            bytes.extend(write(0, cookie, cookie * BLOCK, &[round; 4096]));
            bytes.extend(request(0, READ, cookie, cookie * BLOCK, 4096));
        }
        dying.send(&bytes);
        drop(dying);
        let block = honest.read(BLOCK, 4096);
        assert!(block.iter().all(|byte| *byte == block[0] && *byte <= round));
    }
    honest.write(0, 0, &[99; 4096]);
    assert_eq!(honest.read(0, 4096), [99; 4096]);
    serving.end();
}

#[test]
fn a_client_that_takes_its_leave_gets_its_answers_first() {
    let serving = Serving::new(Manner {
        read_turns: 9,
        write_turns: 0,
    });
    let mut client = Client::new(&serving.path, false);
    client.send(&[request(0, READ, 1, 0, 4096), request(0, DISC, 2, 0, 0)].concat());
    assert_eq!(client.reply(4096).cookie, 1);
    assert!(client.is_over());
    serving.end();
}

/// Asks for 8 GiB and takes nothing. The server must neither keep it all nor leave others waiting.
#[test]
fn a_client_that_does_not_listen_is_not_listened_to() {
    let serving = Serving::new(Manner::default());
    let mut deaf = Client::new(&serving.path, true);
    let asked = request(0, READ, 1, 0, 16 << 20);
    deaf.socket
        .set_write_timeout(Some(Duration::from_millis(300)))
        .expect("set");
    let mut requests = 0;
    while requests < 20_000 && deaf.socket.write_all(&asked).is_ok() {
        requests += 1;
    }
    let mut honest = Client::new(&serving.path, true);
    honest.write(0, 0, &[5; 4096]);
    assert_eq!(honest.read(0, 4096), [5; 4096]);
    drop(deaf);
    let served = serving.end().served;
    assert!(served.requests < 10, "{served:?} of {requests}");
}

#[test]
fn who_does_not_speak_the_protocol_is_hung_up_on() {
    let serving = Serving::new(Manner::default());
    let mut client = Client::new(&serving.path, true);
    client.send(&[0xff; 64]);
    assert!(client.is_over());
    let mut web = UnixStream::connect(&serving.path).expect("listens");
    web.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("sent");
    let mut heard = Vec::new();
    let _ = web.read_to_end(&mut heard);
    assert_eq!(heard, b"NBDMAGICIHAVEOPT\x00\x03");
    assert_eq!(serving.end().served.requests, 0);
}

/// Random bytes to a living server, from the start or after a handshake, with writes cut short.
#[test]
fn noise_does_not_reach_the_device() {
    let serving = Serving::new(Manner::default());
    let honest = RefCell::new(Client::new(&serving.path, true));
    honest.borrow_mut().write(0, 0, &[3; 65536]);
    let noise = prop::collection::vec(any::<u8>(), 0..2000);
    let mut runner = TestRunner::new(Config::with_cases(100));
    let told = (any::<bool>(), any::<bool>(), noise);
    let result = runner.run(&told, |(greets, writes, noise)| {
        let mut socket = UnixStream::connect(&serving.path).expect("listens");
        let mut bytes = if greets { hello(true) } else { Vec::new() };
        if writes {
            bytes.extend(request(0, WRITE, 1, 0, 65536));
        }
        bytes.extend(noise);
        // The server may hang up before it has taken everything.
        let _ = socket.write_all(&bytes);
        drop(socket);
        prop_assert!(honest.borrow_mut().read(0, 65536) == [3; 65536]);
        Ok(())
    });
    result.expect("harmless");
    serving.end();
}
