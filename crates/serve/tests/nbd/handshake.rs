//! Options and their answers.

use crate::client::{FLAGS, go_data, option};
use device::Ram;
use port::Device;
use proptest::prelude::*;
use serve::nbd::{End, Event, Export, ExportError, Session};
use units::Bytes;

fn export() -> Export {
    let ram = Ram::new(Bytes::from_mib(1), Bytes::from_kib(4));
    Export::new("disk", ram.shape()).expect("an export")
}

/// Feeds all bytes; gives what is answered and the last event.
fn feed(session: &mut Session, mut input: &[u8]) -> (Vec<u8>, Event) {
    let mut out = Vec::new();
    loop {
        let (taken, event) = session.step(input, &mut out);
        input = &input[taken..];
        match event {
            Event::Went => {}
            other => return (out, other),
        }
    }
}

/// Options and kinds of all answers in some bytes, with their data.
fn answers(mut bytes: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().expect("four"));
    while !bytes.is_empty() {
        assert_eq!(bytes[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
        let size = number(&bytes[16..]) as usize;
        let data = bytes[20..20 + size].to_vec();
        found.push((number(&bytes[8..]), number(&bytes[12..]), data));
        bytes = &bytes[20 + size..];
    }
    found
}

fn negotiate(options: &[Vec<u8>]) -> (Vec<(u32, u32)>, Event, Session) {
    let (mut session, _) = Session::new(export());
    let input = [&FLAGS[..], &options.concat()].concat();
    let (out, event) = feed(&mut session, &input);
    let kinds = answers(&out)
        .into_iter()
        .map(|(option, kind, _)| (option, kind));
    (kinds.collect(), event, session)
}

const ERROR: u32 = 1 << 31;

/// Options and the kinds of their answers.
type Kinds = [(u32, u32)];

#[test]
fn a_server_greets_as_fixed_newstyle() {
    let (_, greeting) = Session::new(export());
    assert_eq!(greeting, b"NBDMAGICIHAVEOPT\x00\x03");
}

#[test]
fn each_option_has_its_answer() {
    let table: [(Vec<u8>, &Kinds); 12] = [
        (option(8, b""), &[(8, 1)]),
        (option(8, b"x"), &[(8, ERROR + 3)]),
        (option(3, b""), &[(3, 2), (3, 1)]),
        (option(3, b"x"), &[(3, ERROR + 3)]),
        (option(6, &go_data("disk", &[])), &[(6, 3), (6, 3), (6, 1)]),
        (
            option(6, &go_data("", &[1, 2, 9])),
            &[(6, 3), (6, 3), (6, 3), (6, 3), (6, 1)],
        ),
        (option(7, &go_data("tape", &[3])), &[(7, ERROR + 6)]),
        (option(7, &go_data("disk", &[])), &[(7, ERROR + 8)]),
        (option(7, &go_data("disk", &[3])[..8]), &[(7, ERROR + 3)]),
        (option(7, &[255; 20]), &[(7, ERROR + 3)]),
        (option(5, b""), &[(5, ERROR + 1)]),
        (option(0x1234, &[0; 9000]), &[(0x1234, ERROR + 9)]),
    ];
    for (bytes, expected) in table {
        let (found, event, session) = negotiate(core::slice::from_ref(&bytes));
        assert_eq!(found, expected, "{:?}", &bytes[8..bytes.len().min(40)]);
        assert_eq!(event, Event::More);
        assert!(!session.is_past_handshake());
    }
}

#[test]
fn after_a_refusal_the_client_may_ask_again() {
    let long = option(2000, &vec![0; 100_000]);
    let wrong = option(7, &go_data("tape", &[3]));
    let right = option(7, &go_data("disk", &[3]));
    let (found, event, session) = negotiate(&[long, wrong, right]);
    assert_eq!(found[..2], [(2000, ERROR + 9), (7, ERROR + 6)]);
    assert_eq!(found[2..], [(7, 3), (7, 3), (7, 1)]);
    assert_eq!(event, Event::More);
    assert!(session.is_past_handshake());
}

#[test]
fn an_export_says_its_size_flags_and_blocks() {
    let (mut session, _) = Session::new(export());
    let input = [&FLAGS[..], &option(8, b""), &option(6, &go_data("", &[3]))].concat();
    let (out, _) = feed(&mut session, &input);
    let answers = answers(&out);
    let whole = [
        &[0, 0][..],
        &(1_u64 << 20).to_be_bytes(),
        &0x09ed_u16.to_be_bytes(),
    ]
    .concat();
    assert_eq!(answers[1].2, whole);
    let blocks = [0, 3, 0, 0, 0x10, 0, 0, 0, 0x10, 0, 2, 0, 0, 0];
    assert_eq!(answers[2].2, blocks);
}

#[test]
fn the_old_way_to_start_ends_in_zeroes_unless_both_leave_them_out() {
    for (flags, length) in [(1_u8, 134), (3, 10)] {
        let (mut session, _) = Session::new(export());
        let (out, event) = feed(
            &mut session,
            &[&[0, 0, 0, flags][..], &option(1, b"disk")].concat(),
        );
        assert_eq!(out.len(), length);
        assert_eq!(out[..8], (1_u64 << 20).to_be_bytes());
        assert_eq!(event, Event::More);
        assert!(session.is_past_handshake());
    }
    let (found, event, _) = negotiate(&[option(1, b"tape")]);
    assert_eq!((found, event), (Vec::new(), Event::End(End::Finished)));
}

#[test]
fn who_aborts_is_answered_and_let_go() {
    let (found, event, _) = negotiate(&[option(2, b"")]);
    assert_eq!((found, event), (vec![(2, 1)], Event::End(End::Finished)));
}

#[test]
fn who_does_not_speak_the_protocol_is_let_go() {
    for flags in [[0, 0, 0, 0], [0, 0, 0, 2], [0, 0, 1, 3], [255; 4]] {
        let (mut session, _) = Session::new(export());
        let (out, event) = feed(&mut session, &flags);
        assert!(out.is_empty() && matches!(event, Event::End(End::Broken(_))));
        let again = feed(&mut session, &option(3, b""));
        assert!(again.0.is_empty() && matches!(again.1, Event::End(End::Broken(_))));
    }
    let (_, event, _) = negotiate(&[b"GET / HTTP/1.1\r\n".to_vec()]);
    assert!(matches!(event, Event::End(End::Broken(_))));
}

#[test]
fn what_the_protocol_cannot_serve_is_refused() {
    let shape = |block| Ram::new(Bytes::from_mib(1), Bytes::new(block)).shape();
    for block in [3000, 128 << 10] {
        let refused = Export::new("disk", shape(block)).map(drop);
        assert_eq!(
            refused,
            Err(ExportError::Block {
                block: Bytes::new(block)
            })
        );
    }
    for length in [0, 257] {
        let refused = Export::new(&"n".repeat(length), shape(4096)).map(drop);
        assert_eq!(refused, Err(ExportError::Name { length }));
    }
}

proptest! {
    /// Whatever comes, in whatever pieces: no panic, an end, and no more memory than came.
    #[test]
    fn no_bytes_of_a_handshake_do_harm(
        greets in any::<bool>(),
        pieces in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            (0_u32..12, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(c, d)| option(c, &d)),
            (any::<u32>(), any::<u32>()).prop_map(|(code, size)| {
                [&b"IHAVEOPT"[..], &code.to_be_bytes(), &size.to_be_bytes()].concat()
            }),
            prop::collection::vec(any::<u16>(), 0..4).prop_map(|w| option(7, &go_data("disk", &w))),
        ], 0..20),
    ) {
        let (mut session, _) = Session::new(export());
        let mut input = if greets { FLAGS.to_vec() } else { Vec::new() };
        let mut came = 0;
        for piece in pieces {
            came += piece.len();
            input.extend(piece);
            let mut out = Vec::new();
            loop {
                let (taken, event) = session.step(&input, &mut out);
                input.drain(..taken);
                match event {
                    Event::More | Event::End(_) => break,
                    Event::Went | Event::Request(_) | Event::Refused(_) => {
                        prop_assert!(taken > 0, "goes on without bytes");
                    }
                }
            }
            prop_assert!(session.kept() <= 2 * came);
        }
    }
}
