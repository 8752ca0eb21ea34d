//! Clients that keep no promise.

use crate::common::{Place, small};
use crate::serving::{BLOCK, Serving};
use device::Image;
use port::Device;
use proptest::prelude::*;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use shm::{Client, ENTRIES, Layout, Note, Region, handshake};
use std::cell::RefCell;
use std::fs::File;
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;
use units::{ByteAddr, Bytes, TxId};

/// Where the submission ring begins, as the format has it.
const SUBMISSIONS: usize = 4096;

/// First words of requests, but for the turn.
const WRITE: u64 = 2 << 32;
const RESERVE: u64 = 9 << 32;
const COMMIT: u64 = 10 << 32;
const ABORT: u64 = 11 << 32;

/// A server that has not hung up by then does not.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client without manners.
struct Raw {
    socket: UnixStream,
    file: File,
    region: Region,
}

impl Raw {
    fn new(serving: &Serving) -> Self {
        let mut socket = UnixStream::connect(serving.path()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
            .write_all(&handshake::hello(Bytes::from_mib(1)))
            .unwrap();
        let mut bytes = [0; 16];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(&socket, &mut parts, &mut control, RecvFlags::empty()).unwrap();
        let message = control.drain().next();
        let Some(RecvAncillaryMessage::ScmRights(mut files)) = message else {
            panic!("no memory came: {}", String::from_utf8_lossy(&bytes));
        };
        let file = File::from(files.next().unwrap());
        let region = Region::new(&file, file.metadata().unwrap().len() as usize).unwrap();
        Layout::read(&region).expect("a region");
        Self {
            socket,
            file,
            region,
        }
    }

    /// Writes an entry whose turn is right unless its first word says otherwise.
    fn put(&self, index: usize, words: [u64; 8]) {
        let place = SUBMISSIONS + index % ENTRIES * 64;
        for (word, value) in words.iter().enumerate().skip(1) {
            self.region
                .word(place + word * 8)
                .store(*value, Ordering::Relaxed);
        }
        let first = if words[0] as u32 == 0 {
            words[0] | 1
        } else {
            words[0]
        };
        self.region.word(place).store(first, Ordering::SeqCst);
        let _ = self.socket.send_bell();
    }

    /// Waits until the server hangs up; what it left as the reason.
    fn reason(mut self) -> String {
        let mut rest = Vec::new();
        let _ = self.socket.read_to_end(&mut rest);
        Note::Ended.find(&self.region).expect("a reason")
    }
}

trait Bell {
    fn send_bell(&self) -> std::io::Result<usize>;
}

impl Bell for UnixStream {
    fn send_bell(&self) -> std::io::Result<usize> {
        let mut socket = self;
        socket.write(&[1])
    }
}

#[test]
fn each_breach_has_its_reason_and_others_go_on() {
    let serving = Serving::new("shm-breach");
    let honest = serving.connect();
    let data = 1 << 20;
    let cases = [
        (
            [(99 << 32), 0, 0, 0, 0, 0, 0, 0],
            "there is no operation 99",
        ),
        (
            [(1 << 32) | 7, 0, 0, 0, 0, 0, 0, 0],
            "says turn 7 where 1 or the turn before is due",
        ),
        (
            [1 << 32, 0, 0, 64, data, 0, 0, 0],
            "the request's 64 B at 1048576 are not within",
        ),
        ([2 << 32, 0, 0, 64, 12, 0, 0, 0], "at a multiple of 8 B"),
        (
            [2 << 32, 0, 0, u64::MAX, 8, 0, 0, 0],
            "split it into requests of at most 256KiB",
        ),
        ([3 << 32, 0, 0, 0, 0, 0, 4, 0], "word 6 of the request"),
        (
            [10 << 32, 0, 0, 0, 0, u64::MAX, 0, 0],
            "word 5 of the request",
        ),
    ];
    let count = cases.len() as u64;
    for (words, told) in cases {
        let raw = Raw::new(&serving);
        raw.put(0, words);
        let reason = raw.reason();
        assert!(
            reason.starts_with("the client has broken the protocol: "),
            "{reason}"
        );
        assert!(reason.contains(told), "{reason}");
        honest.wait(honest.persist()).unwrap();
    }
    let (served, _) = serving.end();
    assert_eq!(served.breaches, count);
}

#[test]
fn pieces_that_overlap_are_a_breach() {
    let serving = Serving::new("shm-overlap");
    let raw = Raw::new(&serving);
    // One after the other while the server sleeps: it takes them together.
    let largest = 256 << 10;
    for index in (0..6).rev() {
        let place = SUBMISSIONS + index * 64;
        let words = [(4 << 32) | 1, 0, 0, largest, 0, 0, 0, 0];
        for (word, value) in words.iter().enumerate().rev() {
            raw.region
                .word(place + word * 8)
                .store(*value, Ordering::SeqCst);
        }
    }
    let _ = raw.socket.send_bell();
    let reason = raw.reason();
    assert!(
        reason.contains("more bytes than the data area's 1MiB"),
        "{reason}"
    );
    serving.end();
}

#[test]
fn a_breach_aborts_what_was_open_and_ends_what_was_under_way() {
    let serving = Serving::new("shm-breach-tx");
    let honest = serving.connect();
    let raw = Raw::new(&serving);
    raw.region
        .write(SUBMISSIONS + 2 * ENTRIES * 64, b"doubtful");
    // The first that is heard of a transaction is its first write.
    let tx = 77;
    raw.put(0, [2 << 32, 6, 128, 8, 0, tx, 0, 0]);
    raw.put(1, [77 << 32, 7, 0, 0, 0, 0, 0, 0]);
    assert!(raw.reason().contains("operation 77"));
    // It waits for the abort.
    let write = honest.write(ByteAddr::new(128), b"honest", TxId::NONE);
    honest.wait(write).unwrap();
    let mut found = [0; 8];
    honest
        .wait(honest.read(ByteAddr::new(128), &mut found))
        .unwrap();
    assert_eq!(&found, b"honest\0\0");
    let stats = honest.stats();
    assert_eq!((stats.commits, stats.aborts), (0, 1));
    serving.end();
}

/// The TxLog has room for one commit, so that all but the first wait in the firmware.
#[test]
fn a_transaction_is_ended_once_however_often_a_client_asks() {
    let place = Place::new("shm-ends");
    let sets = ["ssd.log.size=32KiB", "ssd.log.tx_log=4B", "ssd.dram=100KiB"];
    Image::create(&place.path("image"), &small("bytefs", &sets)).unwrap();
    let serving = Serving::of(place);
    let raw = Raw::new(&serving);
    let answer = |nth: usize| {
        let place = SUBMISSIONS + (ENTRIES + nth) * 64;
        let word = |nth: usize| raw.region.word(place + nth * 8);
        // Many seconds, in case the server is no more.
        let is_there = (0..200_000_000).any(|_| {
            std::hint::spin_loop();
            word(0).load(Ordering::Acquire) != 0
        });
        assert!(is_there, "no answer {nth}");
        let [cookie, first] = [1, 0].map(|nth| word(nth).load(Ordering::Relaxed));
        [cookie, first >> 32]
    };
    for turn in 0..4 {
        let (first, tx) = (turn * 5, turn as u64 + 1);
        raw.put(first, [RESERVE, 0, 0, 64, 0, tx, 0, 0]);
        assert_eq!(answer(first), [0, 0]);
        let at = turn as u64 * 64;
        // The last one first: the server takes them together, and the ends wait for the write.
        raw.put(first + 4, [ABORT, 4, 0, 0, 0, tx, 0, 0]);
        raw.put(first + 3, [COMMIT, 3, 0, 0, 0, tx, 0, 0]);
        raw.put(first + 2, [COMMIT, 2, 0, 0, 0, tx, 0, 0]);
        raw.put(first + 1, [WRITE, 1, at, 64, 0, tx, 0, 0]);
        let mut told = [1, 2, 3, 4].map(|nth| answer(first + nth));
        told.sort_unstable();
        // Of a transaction that the device does not know there is nothing to end.
        assert_eq!(told, [[1, 0], [2, 0], [3, 0], [4, 0]]);
    }
    let honest = serving.connect();
    honest.wait(honest.persist()).unwrap();
    let stats = honest.stats();
    assert_eq!((stats.commits, stats.aborts), (4, 0));
    serving.end();
}

#[test]
fn memory_can_be_made_neither_shorter_nor_longer() {
    let serving = Serving::new("shm-sealed");
    let raw = Raw::new(&serving);
    assert!(raw.file.set_len(4096).is_err());
    assert!(raw.file.set_len(1 << 30).is_err());
    let honest = serving.connect();
    honest.wait(honest.persist()).unwrap();
    serving.end();
}

fn check_honest(client: &Client, round: u8) {
    let at = ByteAddr::new(8 * BLOCK as u64);
    let mut found = [0; 4096];
    client
        .wait(client.write(at, &[round; 4096], TxId::NONE))
        .unwrap();
    client.wait(client.read(at, &mut found)).unwrap();
    assert_eq!(found, [round; 4096]);
}

/// An entry as a client might write it that means harm, or does not know better. It never writes to
/// the honest client's block.
fn entry() -> impl Strategy<Value = [u64; 8]> {
    let code = prop_oneof![60 => 1..12_u64, 1 => any::<u32>().prop_map(u64::from)];
    let turn = prop_oneof![60 => Just(1_u64), 1 => any::<u32>().prop_map(u64::from)];
    let at = prop_oneof![
        8 => 0..7 * BLOCK as u64,
        2 => Just(0),
        1 => Just(u64::MAX),
        1 => (1_u64 << 40)..(1 << 41)
    ];
    let size = prop_oneof![
        20 => Just(BLOCK as u64),
        20 => 0..64_u64,
        5 => 0..65_536_u64,
        1 => Just(168),
        1 => any::<u64>()
    ];
    let place = prop_oneof![
        60 => (0..16_384_u64).prop_map(|place| place * 8),
        1 => any::<u64>()
    ];
    let tx = prop_oneof![30 => 0..8_u64, 1 => any::<u64>()];
    (code, turn, at, size, place, tx).prop_map(|(code, turn, at, size, place, tx)| {
        let is_write = matches!(code, 2 | 5 | 6 | 7);
        let reaches = at.saturating_add(size) > 8 * BLOCK as u64;
        let size = if is_write && reaches { 0 } else { size };
        [code << 32 | turn, 0, at, size, place, tx, 0, 0]
    })
}

#[test]
fn any_contents_of_the_region_hurt_nobody_else() {
    let serving = Serving::new("shm-random");
    let honest = serving.connect();
    let round = RefCell::new(0_u8);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(96));
    let entries = proptest::collection::vec(entry(), 1..40);
    let noise = proptest::collection::vec(any::<u64>(), 0..64);
    let result = runner.run(&(entries, noise), |(entries, noise)| {
        let raw = Raw::new(&serving);
        for (index, words) in entries.iter().enumerate() {
            raw.put(index, *words);
        }
        // Header, bells and answers too: the server believes none of it.
        for (index, word) in noise.iter().enumerate() {
            raw.region.word(index * 8).store(*word, Ordering::Relaxed);
        }
        let mut round = round.borrow_mut();
        *round = round.wrapping_add(1);
        check_honest(&honest, *round);
        Ok(())
    });
    result.unwrap();
    drop(honest);
    let (served, place) = serving.end();
    assert!(served.breaches > 0 && served.requests > 500, "{served:?}");
    let found = device::fsck::check(&place.path("image"), &mut |_| true).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
}
