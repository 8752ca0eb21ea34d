//! Hosts that mean no good, or die.

use crate::probe::{Pace, Serving};
use crate::requests::pattern;
use crate::wire::{capsule, hello};
use core::cell::RefCell;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serve::nvme::client::{Client, ClientError, Command, Manner};
use serve::nvme::{Framing, Pdu, Status};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn a_host_that_goes_in_the_middle_of_a_write_has_written_nothing() {
    let serving = Serving::new(Pace::default());
    let mut honest = serving.client();
    let before = pattern(1, 65536);
    honest.write(0, &before, false).expect("written");
    for blocks in [1, 16] {
        let mut dying = serving.client();
        // Of few blocks the data would be in the capsule; of more they are asked for and not sent.
        let size = blocks * 4096;
        let command = Command::new(1).blocks(0, blocks).giving(size);
        dying.io.send(command, Vec::new());
        dying.io.flush().expect("sent");
        drop(dying);
        assert!(honest.read(0, 16).expect("read") == before);
    }
    serving.end();
}

#[test]
fn hosts_that_go_while_the_device_works_harm_nobody() {
    let serving = Serving::new(Pace {
        read_turns: 50,
        write_turns: 50,
    });
    let mut honest = serving.client();
    for round in 0..10_u8 {
        let mut dying = serving.client();
        for block in 0..16 {
            let write = Command::new(1).blocks(block, 1);
            dying.io.send(write, vec![round; 4096]);
            dying.io.send(dying.reading(block, 1), Vec::new());
        }
        dying.io.flush().expect("sent");
        drop(dying);
        let block = honest.read(1, 1).expect("read");
        assert!(block.iter().all(|byte| *byte == block[0] && *byte <= round));
    }
    serving.end();
}

/// Asks for more than the server keeps and takes nothing.
#[test]
fn a_host_that_does_not_listen_is_not_listened_to() {
    let serving = Serving::new(Pace::default());
    let mut deaf = serving.client();
    for round in 0..100 {
        deaf.io.send(deaf.reading(round % 8, 256), Vec::new());
    }
    deaf.io.flush().expect("sent");
    let mut honest = serving.client();
    honest.write(0, &[5; 4096], false).expect("written");
    assert!(honest.read(0, 1).expect("read") == [5; 4096]);
    // It has what it asked for once it listens.
    for _ in 0..100 {
        assert_eq!(deaf.io.receive().expect("read").data.len(), 1 << 20);
    }
    drop(deaf);
    serving.end();
}

/// More is asked for than is kept, and all but the first write's data are kept back.
#[test]
fn a_write_whose_data_have_come_waits_for_no_other_ones() {
    let serving = Serving::new(Pace::default());
    let mut slow = serving.client();
    let written = pattern(7, 1 << 20);
    let first = slow
        .io
        .send(Command::new(1).blocks(0, 256), written.clone());
    for place in 1..40 {
        let write = Command::new(1).blocks(place * 256, 256).giving(1 << 20);
        slow.io.send(write, Vec::new());
    }
    let done = slow.io.receive().expect("answered").completion;
    assert_eq!((done.command, done.status), (first, Status(0)));
    let mut honest = serving.client();
    assert!(honest.read(0, 256).expect("read") == written);
    drop(slow);
    serving.end();
}

#[test]
fn who_asks_for_more_than_a_queue_has_entries_is_hung_up_on() {
    let serving = Serving::new(Pace {
        read_turns: 5000,
        write_turns: 0,
    });
    let mut greedy = serving.client();
    for _ in 0..129 {
        greedy.io.send(greedy.reading(0, 1), Vec::new());
    }
    let ended = (0..129).find_map(|_| greedy.io.receive().err());
    // A sequence error.
    let ended = ended.expect("hung up on");
    assert!(
        matches!(ended, ClientError::Ended { status: 2, .. }),
        "{ended}"
    );
    let mut full = serving.client();
    for _ in 0..128 {
        full.io.send(full.reading(0, 1), Vec::new());
    }
    for _ in 0..128 {
        full.io.receive().expect("as many as there are entries");
    }
    serving.end();
}

/// Command Identifier Conflict (03h): the second one is answered with it and not done, the first
/// goes on, and so does the connection.
#[test]
fn a_second_command_of_one_name_is_refused_and_the_first_goes_on() {
    let serving = Serving::new(Pace {
        read_turns: 200,
        write_turns: 200,
    });
    let mut host = serving.client();
    host.write(0, &pattern(1, 4096), false).expect("written");
    let (before, written) = (pattern(1, 4096), pattern(2, 4096));
    // With data in the capsule, with data that would be asked for, and without data.
    let refused = [
        (Command::new(1).blocks(0, 1), written.clone()),
        (Command::new(1).blocks(0, 16), pattern(3, 65_536)),
        (Command::new(0).of(1), Vec::new()),
    ];
    for (command, data) in refused {
        let reading = host.reading(0, 1);
        host.io.send_as(900, reading, Vec::new());
        // What the client keeps of data to be asked for is of the command that came last.
        host.io.send_as(900, command, data);
        let conflict = host.io.receive().expect("answered").completion;
        assert_eq!((conflict.command.0, conflict.status), (900, Status(0x03)));
        let first = host.io.receive().expect("the first goes on");
        assert_eq!(first.completion.status, Status(0));
        assert!(first.data == before, "nothing was written meanwhile");
    }
    // The name is free again, and all of the queue's entries are.
    host.io
        .send_as(900, Command::new(1).blocks(0, 1), written.clone());
    let done = host.io.receive().expect("answered").completion;
    assert_eq!((done.command.0, done.status), (900, Status(0)));
    for _ in 0..128 {
        host.io.send(host.reading(0, 1), Vec::new());
    }
    for _ in 0..128 {
        assert!(host.io.receive().expect("read").data == written);
    }
    assert_eq!(serving.end().served.errors, 3);
}

#[test]
fn who_does_not_speak_the_protocol_is_told_and_hung_up_on() {
    let serving = Serving::new(Pace::default());
    let mut web = TcpStream::connect(serving.place).expect("listens");
    web.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("sent");
    let mut heard = Vec::new();
    let _ = web.read_to_end(&mut heard);
    // C2HTermReq: a wrong field, the first, and what it was.
    assert_eq!(heard[..4], [3, 0, 24, 0]);
    assert_eq!(&heard[8..12], [1, 0, 0, 0]);
    assert!(heard[24..].starts_with(b"GET / HT"), "{heard:?}");
    serving.end();
}

/// Random bytes to a living server, from the start or after a hello, with commands in between.
#[test]
fn noise_does_not_reach_the_device() {
    let serving = Serving::new(Pace::default());
    let honest = RefCell::new(serving.client());
    let kept = pattern(3, 65536);
    honest.borrow_mut().write(0, &kept, false).expect("written");
    let noise = prop::collection::vec(any::<u8>(), 0..400);
    let mut runner = TestRunner::new(Config::with_cases(100));
    let entry = prop::collection::vec(any::<u8>(), 64);
    let told = (any::<bool>(), prop::collection::vec(entry, 0..4), noise);
    let result = runner.run(&told, |(greets, entries, noise)| {
        let mut socket = TcpStream::connect(serving.place).expect("listens");
        let mut bytes = if greets { hello(0, 0) } else { Vec::new() };
        for entry in entries {
            let entry: [u8; 64] = entry.try_into().expect("64 bytes");
            Pdu::Command(entry).write(Framing::default(), &noise, &mut bytes);
        }
        bytes.extend(noise);
        // The server may hang up before it has taken everything.
        let _ = socket.write_all(&bytes);
        drop(socket);
        prop_assert!(honest.borrow_mut().read(0, 16).expect("read") == kept);
        Ok(())
    });
    result.expect("harmless");
    serving.end();
}

/// Random commands of a host that is connected: each has an answer, and the device is asked for
/// nothing that is not there.
#[test]
fn random_commands_are_answered_with_a_status() {
    let serving = Serving::new(Pace::default());
    let mut runner = TestRunner::new(Config::with_cases(200));
    let fields = prop::collection::vec((10..16_usize, any::<u32>()), 0..6);
    let told = (
        any::<bool>(),
        any::<u8>(),
        fields,
        0..9000_usize,
        any::<bool>(),
    );
    let client = RefCell::new(serving.client());
    let result = runner.run(&told, |(is_admin, opcode, fields, size, is_near)| {
        // Event requests wait; connects and disconnects end the connection; a shutdown ends all.
        prop_assume!(opcode != 0x0c && opcode != 0x7f);
        let mut client = client.borrow_mut();
        let mut command = Command::new(opcode).giving(4096);
        for (dword, value) in fields {
            let value = if is_near { value % 64 } else { value };
            command = command.with(dword, value);
        }
        let queue = if is_admin {
            &mut client.admin
        } else {
            &mut client.io
        };
        let data = if opcode & 3 == 1 {
            vec![7; size]
        } else {
            Vec::new()
        };
        match queue.ask(command, data) {
            Ok(_) | Err(ClientError::Failed(_)) => {}
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
        Ok(())
    });
    result.expect("answered");
    drop(client);
    serving.end();
}

/// A connect command without its data, again and again: each would be one more to look through for
/// all that follow.
#[test]
fn who_has_not_connected_has_one_command_under_way() {
    let serving = Serving::new(Pace::default());
    let mut flood = TcpStream::connect(serving.place).expect("listens");
    flood.write_all(&hello(0, 0)).expect("sent");
    flood.read_exact(&mut [0; 128]).expect("welcome");
    let mut entry = [0; 64];
    entry[0] = 0x7f;
    entry[4] = 1;
    // A byte, to be asked for.
    entry[32] = 1;
    entry[39] = 0x5a;
    for name in 0..2 {
        entry[2] = name;
        flood.write_all(&capsule(&entry, &[])).expect("sent");
    }
    let timeout = Some(Duration::from_secs(20));
    flood.set_read_timeout(timeout).expect("set");
    let mut said = Vec::new();
    flood.read_to_end(&mut said).expect("hung up on");
    // The first is asked for (9), then it ends (3) for a sequence error (2).
    assert_eq!((said[0], said[24], said[32]), (9, 3, 2), "{said:?}");
    // And the header of what broke it off.
    assert_eq!(said[48..], capsule(&entry, &[]));
    serving.end();
}

#[test]
fn a_stalled_host_keeps_nobody_waiting() {
    let serving = Serving::new(Pace::default());
    // Half of a header, and half of a capsule's data.
    let mut half = TcpStream::connect(serving.place).expect("listens");
    half.write_all(&hello(0, 0)[..5]).expect("sent");
    let mut stalled = serving.client();
    stalled
        .io
        .send(Command::new(1).blocks(0, 16).giving(65536), Vec::new());
    stalled.io.flush().expect("sent");
    let mut honest = Client::connect(serving.place, Manner::default()).expect("connects");
    for first in 0..50 {
        honest.write(first, &[9; 4096], true).expect("written");
    }
    half.set_read_timeout(Some(Duration::from_millis(10)))
        .expect("set");
    assert!(half.read(&mut [0; 8]).is_err(), "it is waited for");
    serving.end();
}
