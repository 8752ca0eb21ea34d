//! Requests, as bytes.

use crate::client::{
    DISC, EINVAL, ENOSPC, FLUSH, FUA, READ, TRIM, WRITE, ZEROES, hello, request, write,
};
use device::Ram;
use port::{Acknowledge, Device};
use proptest::prelude::*;
use serve::nbd::{Command, End, Event, Export, MOST_PAYLOAD, Session};
use units::{ByteAddr, Bytes};

const SIZE: u64 = 1 << 20;
const BLOCK: u64 = 4096;

fn session(is_structured: bool) -> Session {
    let ram = Ram::new(Bytes::new(SIZE), Bytes::new(BLOCK));
    let export = Export::new("disk", ram.shape()).expect("an export");
    let (mut session, _) = Session::new(export);
    let events = events(&mut session, &hello(is_structured), usize::MAX);
    assert!(events.is_empty() && session.is_past_handshake());
    session
}

/// Everything that bytes amount to when they come in pieces of some size.
fn events(session: &mut Session, bytes: &[u8], piece: usize) -> Vec<Event> {
    let mut found = Vec::new();
    let mut input = Vec::new();
    for part in bytes.chunks(piece.min(bytes.len().max(1))) {
        input.extend_from_slice(part);
        loop {
            let (taken, event) = session.step(&input, &mut Vec::new());
            input.drain(..taken);
            match event {
                Event::More => break,
                Event::Went => {}
                Event::End(_) => {
                    found.push(event);
                    return found;
                }
                Event::Request(_) | Event::Refused(_) => found.push(event),
            }
        }
    }
    found
}

fn only(is_structured: bool, bytes: &[u8]) -> Event {
    let mut found = events(&mut session(is_structured), bytes, usize::MAX);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn command(bytes: &[u8]) -> Command {
    match only(true, bytes) {
        Event::Request(request) => request.command,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_are_understood() {
    let (at, size) = (ByteAddr::new(8192), Bytes::new(4096));
    let accepted = Acknowledge::Accepted;
    let durable = Acknowledge::Durable;
    assert_eq!(
        command(&request(0, READ, 1, 8192, 4096)),
        Command::Read { at, size }
    );
    assert_eq!(
        command(&request(4, READ, 1, 8192, 4096)),
        Command::Read { at, size }
    );
    let bytes = vec![7; 4096];
    let written = command(&write(FUA, 1, 8192, &bytes));
    assert_eq!(
        written,
        Command::Write {
            at,
            bytes,
            when: durable
        }
    );
    assert_eq!(command(&request(0, FLUSH, 1, 0, 0)), Command::Flush);
    let trim = Command::Trim {
        at,
        size,
        when: accepted,
    };
    assert_eq!(command(&request(0, TRIM, 1, 8192, 4096)), trim);
    assert_eq!(command(&request(16, ZEROES, 1, 8192, 4096)), trim);
    let zero = Command::Zero {
        at,
        size,
        when: durable,
    };
    assert_eq!(command(&request(FUA | 2, ZEROES, 1, 8192, 4096)), zero);
    assert_eq!(
        only(true, &request(0, DISC, 1, 5, 5)),
        Event::End(End::Finished)
    );
}

#[test]
fn what_is_wrong_with_a_request_has_its_number() {
    let large = MOST_PAYLOAD + 4096;
    let table = [
        (0, READ, SIZE, 4096, EINVAL),
        (0, READ, SIZE - 4096, 8192, EINVAL),
        (0, READ, u64::MAX - 4095, 4096, EINVAL),
        (0, READ, 1, 4096, EINVAL),
        (0, READ, 0, 4095, EINVAL),
        (0, READ, 0, 0, EINVAL),
        (0, READ, 0, large, EINVAL),
        (2, READ, 0, 4096, EINVAL),
        (0, TRIM, SIZE, 4096, EINVAL),
        (0, TRIM, 0, 512, EINVAL),
        (0, ZEROES, SIZE, 4096, ENOSPC),
        (0, ZEROES, 0, u32::MAX - 4095, ENOSPC),
        (18, ZEROES, 0, 4096, 95),
        (0, FLUSH, 0, 4096, EINVAL),
        (0, 5, 0, 4096, EINVAL),
        (0, 7, 0, 4096, EINVAL),
        (0, 999, 0, 4096, EINVAL),
    ];
    for (flags, kind, at, size, errno) in table {
        match only(true, &request(flags, kind, 9, at, size)) {
            Event::Refused(refusal) => {
                let found = refusal.errno as u32;
                assert_eq!(
                    found, errno,
                    "{flags} {kind} {at} {size}: {}",
                    refusal.message
                );
            }
            other => panic!("{flags} {kind} {at} {size}: {other:?}"),
        }
    }
    let Event::Refused(refusal) = only(false, &request(4, READ, 9, 0, 4096)) else {
        panic!("a read in one piece was not offered");
    };
    assert_eq!(refusal.errno as u32, EINVAL);
}

#[test]
fn a_refused_write_is_read_over() {
    for (flags, at, size, errno) in [
        (0, SIZE, 4096, ENOSPC),
        (0, 512, 4096, EINVAL),
        (0, 0, 1000, EINVAL),
        (2, 0, 4096, EINVAL),
        (0, 0, MOST_PAYLOAD as usize + 4096, EINVAL),
    ] {
        let mut session = session(true);
        let bytes = [
            write(flags, 1, at, &vec![0x25; size]),
            request(0, FLUSH, 2, 0, 0),
        ]
        .concat();
        let found = events(&mut session, &bytes, 1 << 16);
        assert!(
            matches!(&found[..], [Event::Refused(refusal), Event::Request(_)]
                if refusal.errno as u32 == errno),
            "{at} {size}: {found:?}"
        );
        assert_eq!(session.kept(), 0, "a refused payload is not kept");
    }
}

#[test]
fn a_claim_costs_no_memory() {
    let mut session = session(true);
    events(
        &mut session,
        &request(0, WRITE, 1, 0, SIZE as u32),
        usize::MAX,
    );
    assert_eq!(session.kept(), 0);
    events(&mut session, &[0; 1000], usize::MAX);
    assert!(session.kept() <= 2000, "{}", session.kept());
}

#[test]
fn what_is_no_request_ends_the_connection() {
    let found = events(&mut session(true), &[0; 28], usize::MAX);
    assert!(matches!(found[..], [Event::End(End::Broken(_))]));
    let bytes = [request(0, DISC, 1, 0, 0), request(0, FLUSH, 2, 0, 0)].concat();
    let found = events(&mut session(true), &bytes, usize::MAX);
    assert_eq!(
        found,
        [Event::End(End::Finished)],
        "nothing is heard after a disconnect"
    );
}

/// Heads with fields near the borders, writes with their bytes, and noise.
fn conversation() -> impl Strategy<Value = Vec<u8>> {
    let at = prop_oneof![
        (0..SIZE / BLOCK + 2).prop_map(|block| block * BLOCK),
        any::<u64>(),
        Just(SIZE),
    ];
    let size = prop_oneof![
        (0..4_u32).prop_map(|blocks| blocks * BLOCK as u32),
        any::<u32>(),
        Just(MOST_PAYLOAD),
    ];
    let head = (0..20_u16, 0..9_u16, any::<u64>(), at, size);
    let part = prop_oneof![
        8 => head.prop_map(|(flags, kind, cookie, at, size)| {
            let mut bytes = request(flags, kind, cookie, at, size);
            if kind == WRITE && size < 1 << 16 {
                bytes.resize(bytes.len() + size as usize, 0x5a);
            }
            bytes
        }),
        1 => prop::collection::vec(any::<u8>(), 0..60),
    ];
    prop::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    /// Whatever comes: no panic, and the device is asked for whole blocks of its own only.
    #[test]
    fn only_requests_that_can_be_done_come_through(bytes in conversation(), piece in 1..500_usize) {
        let mut session = session(true);
        for event in events(&mut session, &bytes, piece) {
            let Event::Request(request) = event else { continue };
            let (at, size) = match request.command {
                Command::Flush => continue,
                Command::Write { at, bytes, .. } => (at, bytes.len() as u64),
                Command::Read { at, size } => {
                    prop_assert!(size.get() <= u64::from(MOST_PAYLOAD));
                    (at, size.get())
                }
                Command::Trim { at, size, .. } | Command::Zero { at, size, .. } => (at, size.get()),
            };
            prop_assert!(size > 0 && at.get() % BLOCK == 0 && size % BLOCK == 0);
            prop_assert!(at.get() + size <= SIZE);
        }
        prop_assert!(session.kept() <= 2 * bytes.len());
    }

    /// How bytes are cut into pieces on their way changes nothing.
    #[test]
    fn pieces_mean_what_the_whole_means(bytes in conversation(), piece in 1..500_usize) {
        let whole = events(&mut session(true), &bytes, usize::MAX);
        prop_assert_eq!(events(&mut session(true), &bytes, piece), whole);
    }
}
