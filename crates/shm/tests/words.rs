//! What is read from shared memory, whatever stands there.

use port::{Atomicity, Completion, DeviceError, PersistenceDomain, PortCosts, Shape, TxLimits};
use proptest::prelude::*;
use shm::answer::{decode, encode};
use shm::handshake::memory;
use shm::{Breach, DataRange, Layout, MOST_DATA, MOST_REQUEST, Note, Region, Request, Submission};
use units::{ByteAddr, Bytes, Picos, Time, TxId};

fn layout() -> Layout {
    let shape = Shape {
        byte_domain: PersistenceDomain::Device,
        transactions: Some(TxLimits {
            open: 1_000,
            lines: 77,
        }),
        costs: PortCosts {
            line_read: Picos::from_nanos(900),
            line_reads: 3,
            ..PortCosts::DIRECT
        },
        ..Shape::plain(Bytes::from_mib(64), Bytes::from_kib(4))
    };
    Layout::new(shape, Bytes::from_kib(256)).unwrap()
}

fn region() -> Region {
    memory(layout().bytes()).unwrap().1
}

/// Words that are often nearly right.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..16_u64,
        (0..16_u64).prop_map(|code| code << 32),
        (0..40_000_u64).prop_map(|place| place * 8),
        Just(u64::MAX),
        Just(1 << 32),
    ]
}

proptest! {
    #[test]
    fn any_entry_is_a_request_within_bounds_or_a_breach(words in prop::array::uniform8(word())) {
        let layout = layout();
        if let Ok(submission) = Submission::decode(&words, &layout) {
            let piece = submission.request.range();
            prop_assert!(piece.size as u64 <= MOST_REQUEST.get());
            prop_assert!((piece.place + piece.size) as u64 <= layout.data().get());
            prop_assert!(piece.place.is_multiple_of(8));
            let again = Submission::decode(&submission.encode(), &layout);
            prop_assert_eq!(again, Ok(submission));
        }
    }

    #[test]
    fn any_answer_is_one(words in prop::array::uniform8(word()), text in any::<[u8; 64]>()) {
        let region = region();
        region.write(1024, &text);
        let _ = decode(&words, &region);
        prop_assert!(Note::Stopped.find(&region).is_none_or(|text| text.len() <= 3 * 1024));
    }

    #[test]
    fn any_header_is_read_or_refused(words in prop::array::uniform8(word()), right in any::<u8>()) {
        let region = region();
        layout().write(&region);
        for (index, word) in words.iter().enumerate().filter(|(index, _)| right >> index & 1 == 0) {
            region.write(index * 8, &word.to_le_bytes());
        }
        if let Ok(found) = Layout::read(&region) {
            prop_assert_eq!(found.bytes(), region.len());
        }
    }
}

#[test]
fn a_header_comes_back_and_says_what_is_wrong_with_it() {
    let region = region();
    let read = || Layout::read(&region).map_err(|error| error.to_string());
    assert!(read().unwrap_err().contains("no region of Entresol"));
    layout().write(&region);
    assert_eq!(read(), Ok(layout()));
    for (at, value, told) in [
        (8, 1, "the region has version 1 and this program knows 2"),
        (24, 0, "the region's block is 0, which cannot be"),
        (24, 1 << 40, "block"),
        (32, 8, "word of flags"),
        (384, 0, "line"),
        (392, 1 << 32, "number of open transactions"),
        (40, 128, "number of entries"),
        (48, 64 << 10, "data area"),
        (56, 1, "largest request"),
    ] {
        layout().write(&region);
        region.write(at, &u64::to_le_bytes(value));
        assert!(read().unwrap_err().contains(told), "{told}");
    }
    let shape = layout().shape();
    let large = Bytes::new(MOST_DATA.get() + 1);
    for size in [Bytes::from_kib(255), large] {
        assert!(Layout::new(shape, size).is_err());
    }
}

#[test]
fn requests_beyond_the_data_area_are_breaches() {
    let layout = layout();
    let all = layout.data().get();
    let entry = |code: u64, size: u64, place: u64| [code << 32, 9, 0, size, place, 0, 0, 0];
    let decode = |words| Submission::decode(&words, &layout).map(|found| found.request);
    let whole = DataRange {
        place: 0,
        size: all as usize,
    };
    assert_eq!(
        decode(entry(1, all, 0)),
        Ok(Request::Read(ByteAddr::new(0), whole))
    );
    for (size, place) in [(all, 8), (8, all), (8, 4), (1, u64::MAX), (64, all - 56)] {
        let data = layout.data();
        assert_eq!(
            decode(entry(2, size, place)),
            Err(Breach::DataRange { place, size, data })
        );
    }
    let (size, most) = (MOST_REQUEST.get() + 1, MOST_REQUEST);
    assert_eq!(decode(entry(4, size, 0)), Err(Breach::Large { size, most }));
    assert_eq!(decode(entry(14, 0, 0)), Err(Breach::Operation { code: 14 }));
    assert_eq!(decode(entry(0, 0, 0)), Err(Breach::Operation { code: 0 }));
    assert!(matches!(
        decode(entry(12, 8, 0)),
        Err(Breach::DataRange { .. })
    ));
    let mut words = entry(10, 0, 0);
    words[5] = 1 << 32;
    assert_eq!(decode(words), Err(Breach::Bits { word: 5 }));
    words[6] = 4;
    assert_eq!(decode(words), Err(Breach::Bits { word: 6 }));
    words[6] = 0;
    words[7] = 1;
    assert_eq!(decode(words), Err(Breach::Bits { word: 7 }));
}

#[test]
fn every_outcome_comes_back() {
    let region = region();
    let (at, size) = (ByteAddr::new(12_345), Bytes::new(678));
    let tx = TxId::new(u32::MAX);
    let completion = Completion {
        submitted: Time::from_picos(5),
        finished: Time::from_picos(u64::MAX),
    };
    let reason = "it is worn, alas — “so be it”".to_owned();
    let outcomes = [
        Ok((completion, Atomicity::Parts { count: 3 })),
        Ok((completion, Atomicity::Whole)),
        Err(DeviceError::OutOfRange {
            at,
            size,
            capacity: Bytes::new(9),
        }),
        Err(DeviceError::NotBlocks {
            at,
            size,
            block: Bytes::new(9),
        }),
        Err(DeviceError::Locked { at }),
        Err(DeviceError::UnknownTransaction { tx }),
        Err(DeviceError::TooManyTransactions { open: 77 }),
        Err(DeviceError::NoTransactions { has_log: false }),
        Err(DeviceError::NoTransactions { has_log: true }),
        Err(DeviceError::LogFull),
        Err(DeviceError::Deadlock { at }),
        Err(DeviceError::TooLarge { most: 12 }),
        Err(DeviceError::BeyondReservation { tx, lines: 7 }),
        Err(DeviceError::LateReservation { tx }),
        Err(DeviceError::ReadOnly),
        Err(DeviceError::Lost { at }),
        Err(DeviceError::Stopped { reason }),
    ];
    for outcome in outcomes {
        let words = encode(u64::MAX, &outcome, &region);
        assert_eq!(words[1], u64::MAX);
        assert_eq!(decode(&words, &region), outcome);
    }
    let unknown = decode(&[99 << 32, 0, 0, 0, 0, 0, 0, 0], &region);
    assert!(unknown.unwrap_err().to_string().contains("outcome 99"));
}

#[test]
fn a_long_reason_is_cut_off_at_a_letter() {
    let region = region();
    Note::Ended.leave(&region, &"ü".repeat(1_000));
    let found = Note::Ended.find(&region).unwrap();
    assert_eq!(found, "ü".repeat(508));
    assert_eq!(Note::Stopped.find(&region), None);
}
