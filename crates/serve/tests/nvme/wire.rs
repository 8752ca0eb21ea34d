//! PDUs as bytes.

use proptest::prelude::*;
use serve::nvme::{
    Breach, COMMON_BYTES, CommandId, Completion, Digests, End, Event, Fatal, Framing, Head, Pdu,
    Session, Status, TransferTag,
};

/// A header as the standard draws it: kind, flags, header length, data offset, length, fields.
fn written(pdu: Pdu, framing: Framing, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    pdu.write(framing, data, &mut out);
    out
}

fn digests(header: bool, data: bool) -> Digests {
    Digests { header, data }
}

/// What a host says first.
pub fn hello(alignment: u8, digests: u8) -> Vec<u8> {
    let mut out = vec![0; 128];
    out[2] = 128;
    out[4] = 128;
    out[10] = alignment;
    out[11] = digests;
    out
}

/// A command of an entry that begins so.
pub fn capsule(entry: &[u8], data: &[u8]) -> Vec<u8> {
    let mut out = vec![4, 0, 72, if data.is_empty() { 0 } else { 72 }];
    out.extend((72 + data.len() as u32).to_le_bytes());
    out.extend(entry);
    out.resize(72, 0);
    out.extend(data);
    out
}

#[test]
fn headers_are_as_the_standard_draws_them() {
    let plain = Framing::default();
    let ready = Pdu::Ready {
        command: CommandId(0x1234),
        tag: TransferTag(0x5678),
        offset: 0x9abc_def0,
        size: 0x1020_3040,
    };
    let expected = [
        9, 0, 24, 0, 24, 0, 0, 0, 0x34, 0x12, 0x78, 0x56, 0xf0, 0xde, 0xbc, 0x9a, 0x40, 0x30, 0x20,
        0x10, 0, 0, 0, 0,
    ];
    assert_eq!(written(ready, plain, &[]), expected);
    let data = Pdu::ControllerData {
        command: CommandId(7),
        offset: 0,
        size: 3,
        is_last: true,
        is_success: true,
    };
    let expected = [
        7, 0b1100, 24, 24, 27, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3,
    ];
    assert_eq!(written(data, plain, &[1, 2, 3]), expected);
    // A digest of 4 bytes behind the header, padding up to 32, data, a digest of those.
    let framing = Framing {
        digests: digests(true, true),
        alignment: 7,
    };
    let whole = written(data, framing, &[1, 2, 3]);
    assert_eq!(whole[..8], [7, 0b1111, 24, 32, 39, 0, 0, 0]);
    assert_eq!(whole[24..28], checksum::crc32c(&whole[..24]).to_le_bytes());
    assert_eq!(whole[28..35], [0, 0, 0, 0, 1, 2, 3]);
    // CRC-32C of 01 02 03, as the polynomial 0x1EDC6F41 gives it.
    assert_eq!(whole[35..], 0xf130_f21e_u32.to_le_bytes());
    let completion = Completion {
        command: CommandId(0x0102),
        status: Status(0x4181),
        value: 0x0807_0605_0403_0201,
        head: 0x1112,
        queue: 0x2122,
    };
    let expected = [
        1, 2, 3, 4, 5, 6, 7, 8, 0x12, 0x11, 0x22, 0x21, 2, 1, 2, 0x83,
    ];
    assert_eq!(completion.to_bytes(), expected);
    assert_eq!(Completion::from_bytes(&expected), completion);
}

#[test]
fn a_connection_begins_with_what_both_agree_on() {
    let (mut session, mut out) = (Session::default(), Vec::new());
    let (taken, event) = session.step(&hello(3, 0b11), &mut out);
    assert_eq!((taken, event), (128, Event::Went));
    assert_eq!(out.len(), 128);
    // ICResp, no alignment, both digests, 256 KiB of data at a time.
    assert_eq!(
        out[..16],
        [1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 0b11, 0, 0, 4, 0]
    );
    let framing = session.framing();
    assert_eq!(
        (framing.digests, framing.alignment),
        (digests(true, true), 3)
    );
}

/// What a session makes of bytes after its start, and what it says.
fn after_start(bytes: &[u8]) -> (Event, Vec<u8>) {
    let (mut session, mut out) = (Session::default(), Vec::new());
    session.step(&hello(0, 0), &mut out);
    out.clear();
    let mut input = bytes;
    loop {
        let (taken, event) = session.step(input, &mut out);
        input = &input[taken..];
        if event != Event::Went {
            return (event, out);
        }
    }
}

fn broken(bytes: &[u8]) -> (Fatal, u32, Vec<u8>) {
    match after_start(bytes) {
        (Event::End(End::Broken(Breach { status, field, .. })), out) => (status, field, out),
        other => panic!("should be broken: {other:?}"),
    }
}

#[test]
fn what_is_wrong_ends_the_connection_with_its_number_and_field() {
    let read = capsule(&[2], &[]);
    let changed = |at: usize, to: u8| {
        let mut bytes = read.clone();
        bytes[at] = to;
        bytes
    };
    let host_data = |tag: u8, size: u8| {
        let mut bytes = vec![
            6,
            4,
            24,
            24,
            24 + size,
            0,
            0,
            0,
            0,
            0,
            tag,
            0,
            0,
            0,
            0,
            0,
            size,
        ];
        bytes.resize(24 + usize::from(size), 0);
        bytes
    };
    for (what, bytes, status, field) in [
        ("unknown kind", changed(0, 8), Fatal::Field, 0),
        ("a response from a host", changed(0, 5), Fatal::Field, 2),
        ("digest not agreed on", changed(1, 1), Fatal::Field, 1),
        ("length of header", changed(2, 71), Fatal::Field, 2),
        ("shorter than its header", changed(4, 71), Fatal::Field, 4),
        ("data in the header", changed(4, 80), Fatal::Field, 3),
        ("a second hello", hello(0, 0), Fatal::Sequence, 0),
        ("data of no transfer", host_data(0, 8), Fatal::Field, 10),
        (
            "too much in a capsule",
            capsule(&[1], &[0; 16388]),
            Fatal::Limit,
            4,
        ),
    ] {
        let (found, at, said) = broken(&bytes);
        assert_eq!((found, at), (status, field), "{what}");
        // C2HTermReq: status, field, and the header that is wrong.
        assert_eq!(said[..4], [3, 0, 24, 0], "{what}");
        assert_eq!(said[8..10], (status as u16).to_le_bytes(), "{what}");
        assert_eq!(said[10..14], field.to_le_bytes(), "{what}");
        assert_eq!(usize::from(said[4]), said.len(), "{what}");
        assert!(bytes.starts_with(&said[24..]) && said.len() > 24, "{what}");
    }
    let (ended, said) = after_start(&[
        2, 0, 24, 0, 24, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    assert_eq!(
        (ended, said.len()),
        (Event::End(End::Host { status: 5 }), 0)
    );
}

#[test]
fn data_that_were_asked_for_come_in_order_and_no_further() {
    let ask = || {
        let (mut session, mut out) = (Session::default(), Vec::new());
        session.step(&hello(0, 0), &mut out);
        out.clear();
        let mut entry = [0; 64];
        entry[..4].copy_from_slice(&[1, 0, 9, 0]);
        session.ask(entry, 8, &mut out);
        assert_eq!(out[8..20], [9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0]);
        session
    };
    let part = |offset: u8, size: u8, is_last: bool, command: u8| {
        let mut bytes = vec![
            6,
            u8::from(is_last) << 2,
            24,
            24,
            24 + size,
            0,
            0,
            0,
            command,
            0,
            0,
            0,
        ];
        bytes.extend([offset, 0, 0, 0, size, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(offset..offset + size);
        bytes
    };
    let mut session = ask();
    let bytes = [part(0, 5, false, 9), part(5, 3, true, 9)].concat();
    let (mut input, mut events) = (&bytes[..], Vec::new());
    while !input.is_empty() {
        let (taken, event) = session.step(input, &mut Vec::new());
        input = &input[taken..];
        events.push(event);
    }
    let Some(Event::Command(capsule)) = events.pop() else {
        panic!("should be whole: {events:?}")
    };
    assert_eq!(
        (capsule.data, capsule.was_asked_for),
        ((0..8).collect(), true)
    );
    for (what, wrong) in [
        ("not the next", part(1, 5, false, 9)),
        ("too many", part(0, 9, true, 9)),
        ("last too early", part(0, 5, true, 9)),
        ("not last at the end", part(0, 8, false, 9)),
        ("of another command", part(0, 8, true, 8)),
    ] {
        let (_, event) = ask().step(&wrong, &mut Vec::new());
        assert!(
            matches!(event, Event::End(End::Broken(_))),
            "{what}: {event:?}"
        );
    }
}

#[test]
fn a_wrong_digest_of_a_header_ends_it_and_one_of_data_damages_the_command() {
    let framing = Framing {
        digests: digests(true, true),
        alignment: 0,
    };
    let mut entry = [0; 64];
    entry[0] = 1;
    let whole = written(Pdu::Command(entry), framing, &[7; 12]);
    for (at, is_header) in [(40, true), (73, true), (80, false), (91, false)] {
        let (mut session, mut out) = (Session::default(), Vec::new());
        session.step(&hello(0, 0b11), &mut out);
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let mut input = &bytes[..];
        let event = loop {
            let (taken, event) = session.step(input, &mut out);
            input = &input[taken..];
            if event != Event::Went {
                break event;
            }
        };
        match event {
            Event::End(End::Broken(breach)) => {
                assert!(is_header && breach.status == Fatal::HeaderDigest, "{at}");
            }
            Event::Command(capsule) => assert!(!is_header && capsule.is_damaged, "{at}"),
            other => panic!("{at}: {other:?}"),
        }
    }
}

fn pdus() -> impl Strategy<Value = Pdu> {
    let ids = (
        any::<u16>(),
        any::<u16>(),
        any::<u32>(),
        any::<bool>(),
        any::<bool>(),
    );
    let entry = prop::collection::vec(any::<u8>(), 64);
    (0..9, ids, 1..2000_u32, entry).prop_map(|(which, (a, b, c, d, e), size, entry)| {
        let (command, tag) = (CommandId(a), TransferTag(b));
        let digests = digests(d, e);
        let alignment = b as u8;
        match which {
            0 => Pdu::InitializeRequest {
                version: a,
                alignment,
                digests,
                most_ready: c,
            },
            1 => Pdu::InitializeResponse {
                version: a,
                alignment,
                digests,
                most_data: c,
            },
            2 => Pdu::HostEnds {
                status: a,
                field: c,
            },
            3 => Pdu::ControllerEnds {
                status: a,
                field: c,
            },
            4 => Pdu::Command(entry.try_into().expect("64 bytes")),
            5 => Pdu::Response(entry[..16].try_into().expect("16 bytes")),
            6 => Pdu::HostData {
                command,
                tag,
                offset: c,
                size,
                is_last: d,
            },
            7 => Pdu::ControllerData {
                command,
                offset: c,
                size,
                is_last: d,
                is_success: e,
            },
            _ => Pdu::Ready {
                command,
                tag,
                offset: c,
                size,
            },
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_written_is_read(
        pdu in pdus(),
        header in any::<bool>(),
        data in any::<bool>(),
        alignment in 0..32_u8,
        size in 0..3000_usize,
    ) {
        let carries = matches!(
            pdu,
            Pdu::Command(_) | Pdu::HostData { .. } | Pdu::ControllerData { .. }
        );
        let bytes: Vec<u8> = (0..if carries { size } else { 0 }).map(|byte| byte as u8).collect();
        let framing = Framing { digests: digests(header, data), alignment };
        let whole = written(pdu, framing, &bytes);
        let common = whole.first_chunk::<COMMON_BYTES>().expect("a head");
        let layout = Head::read(common).layout(framing.digests).expect("a layout");
        let start = layout.front() + layout.padding;
        prop_assert_eq!(Pdu::read(&whole[..layout.header]).expect("a PDU"), pdu);
        prop_assert_eq!(&whole[start..start + layout.data], &bytes[..]);
        prop_assert!(bytes.is_empty() || start.is_multiple_of((usize::from(alignment) + 1) * 4));
        let tail = if layout.has_data_digest { 4 } else { 0 };
        prop_assert_eq!(whole.len(), start + layout.data + tail);
    }

    /// Any bytes, in any pieces, are events and nothing else, and claims take no memory.
    #[test]
    fn noise_is_events(
        greets in any::<bool>(),
        digests in 0..4_u8,
        parts in prop::collection::vec(
            (0..10_u8, 0..16_u8, prop::collection::vec(any::<u8>(), 0..90)), 0..8
        ),
        piece in 1..200_usize,
    ) {
        let mut said = if greets { hello(0, digests) } else { Vec::new() };
        for (kind, flags, rest) in parts {
            let size = match kind { 4 => 72, 0 | 1 => 128, _ => 24 };
            said.extend([kind, flags, size, size]);
            said.extend((u32::from(size) + (rest.len() as u32 & !3)).to_le_bytes());
            said.extend(rest);
        }
        let mut session = Session::default();
        let mut out = Vec::new();
        if greets {
            session.ask([0; 64], 1 << 20, &mut out);
        }
        let (mut start, mut end) = (0, 0);
        while end < said.len() {
            end = (end + piece).min(said.len());
            loop {
                let (taken, event) = session.step(&said[start..end], &mut out);
                start += taken;
                prop_assert!(start <= end);
                prop_assert!(session.kept() <= 2 * said.len());
                match event {
                    Event::More => break,
                    Event::End(_) => return Ok(()),
                    Event::Went | Event::Command(_) => {}
                }
            }
        }
    }
}
