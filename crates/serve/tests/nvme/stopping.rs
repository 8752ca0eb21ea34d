//! How a server ends.

use crate::probe::{Pace, Serving, status};
use serve::nvme::Status;
use serve::nvme::client::{ClientError, Command};

#[test]
fn a_server_that_stops_ends_what_it_has_and_flushes() {
    let serving = Serving::new(Pace {
        read_turns: 0,
        write_turns: 200,
    });
    let mut client = serving.client();
    for block in 0..20 {
        client
            .io
            .send(Command::new(1).blocks(block, 1), vec![1; 4096]);
    }
    client.io.flush().expect("sent");
    // It has them when it answers what came behind them.
    client.io.send(client.reading(50, 1), Vec::new());
    client.io.receive().expect("an answer");
    serving.stop();
    let mut done = 0;
    loop {
        match client.io.receive() {
            Ok(answer) => {
                assert_eq!(answer.completion.status, Status::SUCCESS);
                done += 1;
            }
            Err(ClientError::Io(_)) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(done, 20);
    let ended = serving.end();
    assert_eq!(ended.served.requests, 21);
    assert_eq!(ended.log.last().map(String::as_str), Some("flush"));
}

/// A host may ask for more zeroes and deallocations than are done in hours.
#[test]
fn long_commands_end_at_their_next_piece() {
    let serving = Serving::new(Pace {
        read_turns: 0,
        write_turns: 40_000,
    });
    let mut client = serving.client();
    let mut everything = vec![0; 4];
    everything.extend((client.blocks as u32).to_le_bytes());
    everything.extend([0; 8]);
    let deallocate = Command::new(9).with(10, 0).with(11, 4);
    client.io.send(deallocate, everything.clone());
    client.io.send(Command::new(8).blocks(0, 16384), Vec::new());
    client.io.send(deallocate, everything);
    client.io.flush().expect("sent");
    // The server has them when it answers another queue.
    let alive = Command::new(0x18).of(0);
    client.admin.ask(alive, Vec::new()).expect("alive");
    serving.stop();
    for _ in 0..3 {
        let answer = client.io.receive().expect("an answer").completion;
        assert_eq!(answer.status, Status(0x08));
    }
    assert!(matches!(client.io.receive(), Err(ClientError::Io(_))));
    let ended = serving.end();
    assert_eq!(ended.served.errors, 3);
    let pieces = ended.log.iter().filter(|line| *line != "flush").count();
    assert!(pieces < 256, "{pieces}");
}

#[test]
fn a_host_that_takes_its_leave_is_told_when_all_is_flushed() {
    let serving = Serving::new(Pace {
        read_turns: 0,
        write_turns: 20,
    });
    let mut client = serving.client();
    client.write(0, &[1; 4096], false).expect("written");
    // CC: a normal shutdown.
    let shutdown = Command::new(0x7f)
        .of(0)
        .with(11, 0x14)
        .with(12, 0x0046_4001);
    client.admin.ask(shutdown, Vec::new()).expect("taken");
    let property = Command::new(0x7f).of(4).with(11, 0x1c);
    let mut told = || {
        client
            .admin
            .ask(property, Vec::new())
            .expect("told")
            .completion
            .value
    };
    // CSTS: ready and shutting down, then shut down.
    let last = std::iter::repeat_with(&mut told).find(|value| *value != 0b101);
    assert_eq!(last, Some(0b1001));
    assert_eq!(status(client.read(0, 1)), Status(0x400c));
    let log = serving.end().log;
    assert_eq!(log, ["write 0+4096 Accepted", "flush", "flush"]);
}

/// A host that asks for more than is kept and then takes its leave.
#[test]
fn what_waits_for_room_when_a_host_takes_its_leave_is_not_done() {
    let serving = Serving::new(Pace::default());
    let mut client = serving.client();
    for _ in 0..40 {
        client.io.send(client.reading(0, 256), Vec::new());
    }
    let write = Command::new(1).blocks(0, 1);
    let late = client.io.send(write, vec![1; 4096]);
    client.io.flush().expect("sent");
    // The server has them when it answers what came behind them.
    serving.client().read(0, 1).expect("read");
    let shutdown = Command::new(0x7f)
        .of(0)
        .with(11, 0x14)
        .with(12, 0x0046_4001);
    client.admin.ask(shutdown, Vec::new()).expect("taken");
    let refused = (0..41).filter(|_| {
        let done = client.io.receive().expect("an answer").completion;
        let is_refused = done.status == Status(0x08);
        assert!(is_refused || done.status == Status::SUCCESS && done.command != late);
        is_refused
    });
    assert!(refused.count() > 1);
    let log = serving.end().log;
    assert!(!log.iter().any(|line| line.starts_with("write")), "{log:?}");
}
