//! An end that the host knows when it submits is told then, and not behind what happens next.

use crate::bare::host;
use crate::common::small_log;
use port::{Command, Conflict, Ticket};
use soc::{Engine, NoBytes, Resources};
use units::{ByteAddr, Bytes, Time};

fn engine() -> Engine<NoBytes> {
    let config = small_log();
    let resources = Resources::new(config.resources(None, Time::ZERO), NoBytes);
    Engine::new(&config.controller(), resources, host(&config))
}

fn submit(engine: &mut Engine<NoBytes>, command: Command, size: u64) -> Ticket {
    let range = (ByteAddr::new(0), Bytes::new(size));
    let now = engine.now();
    engine
        .submit(now, command, range, Conflict::Refuse, &[])
        .unwrap()
}

#[test]
fn an_end_known_at_submission_is_given_before_anything_happens() {
    let commands: [fn(&mut Engine<NoBytes>) -> Command; 4] = [
        |engine| Command::Commit(engine.begin(true).unwrap()),
        |engine| Command::Abort(engine.begin(true).unwrap()),
        |_| Command::Read,
        |_| Command::WriteBlocks(port::Acknowledge::Durable),
    ];
    for command in commands {
        let mut engine = engine();
        let mut finished = Vec::new();
        let page = submit(&mut engine, Command::ReadBlocks, 4096);
        // In the middle of the read: its arrival is over, its flash is not.
        let arrival = engine.next_deadline().unwrap();
        engine.advance(arrival, &mut finished);
        assert!(finished.is_empty() && engine.next_deadline().is_some());
        let command = command(&mut engine);
        let known = submit(&mut engine, command, 0);
        let submitted = engine.now();
        engine.advance_to_end(Time::MAX, &mut finished);
        let tickets: Vec<Ticket> = finished.iter().map(|done| done.ticket).collect();
        assert_eq!(tickets, [known], "{command:?}");
        assert_eq!(engine.now(), submitted, "{command:?}");
        assert_eq!(finished[0].completion.finished, submitted, "{command:?}");
        finished.clear();
        engine.advance_to_end(Time::MAX, &mut finished);
        assert_eq!(finished[0].ticket, page, "{command:?}");
        assert!(engine.now() > submitted);
    }
}
