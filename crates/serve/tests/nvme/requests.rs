//! A server and its hosts.

use crate::probe::{BLOCK, FATAL, LOST, Pace, Serving, WORN, status};
use serve::nvme::client::{Client, Command, Manner};
use serve::nvme::{Digests, Status};

const READ: u8 = 2;
const DATASET: u8 = 9;
const WRITE_ZEROES: u8 = 8;
const COMPARE: u8 = 5;
const GET_LOG_PAGE: u8 = 2;
const IDENTIFY: u8 = 6;
const SET_FEATURES: u8 = 9;
const GET_FEATURES: u8 = 10;
const ASYNC_EVENT: u8 = 12;

pub fn pattern(seed: u8, size: usize) -> Vec<u8> {
    (0..size)
        .map(|index| seed ^ index as u8 ^ (index >> 8) as u8)
        .collect()
}

/// Ways to frame, each of them in use.
pub fn manners() -> impl Iterator<Item = Manner> {
    let of = |index: u8| Manner {
        digests: Digests {
            header: index & 1 != 0,
            data: index & 2 != 0,
        },
        alignment: (index * 8) & 31,
        counts_heads: index.is_multiple_of(3),
        keep_alive: 0,
    };
    (0..5).map(of)
}

#[test]
fn what_is_written_is_read_in_every_framing() {
    let serving = Serving::new(Pace::default());
    for (index, manner) in manners().enumerate() {
        let mut client = Client::connect(serving.place, manner).expect("connects");
        assert_eq!((client.block, client.blocks), (4096, (64 << 20) / BLOCK));
        // In the capsule, in one PDU, in several, and as much as there may be.
        for (first, blocks) in [(0, 1), (2, 4), (9, 5), (64, 100), (512, 256)] {
            let bytes = pattern(index as u8, blocks * 4096);
            client.write(first, &bytes, false).expect("written");
            assert!(
                client.read(first, blocks as u32).expect("read") == bytes,
                "{blocks} {manner:?}"
            );
        }
        client.flush().expect("flushed");
    }
    let served = serving.end().served;
    // A discovery controller and one of the device for each.
    assert_eq!((served.controllers, served.errors), (10, 0));
    assert_eq!(served.requests, 5 * 11);
}

#[test]
fn force_unit_access_flush_zeroes_and_deallocation_reach_the_device() {
    let serving = Serving::new(Pace::default());
    let mut client = serving.client();
    client.write(0, &[1; 4096], false).expect("written");
    client.write(1, &[2; 8192], true).expect("written");
    client.flush().expect("flushed");
    let mut zero = |first, count, flags| {
        let mut command = Command::new(WRITE_ZEROES).blocks(first, count);
        command.0[51] = flags;
        client.io.ask(command, Vec::new()).expect("zeroed");
    };
    zero(0, 1, 0b10);
    zero(1, 1, 0b100_0000);
    let ranges = |ranges: &[(u32, u64)]| {
        let mut bytes = Vec::new();
        for (count, first) in ranges {
            bytes.extend([0; 4]);
            bytes.extend(count.to_le_bytes());
            bytes.extend(first.to_le_bytes());
        }
        bytes
    };
    // None of them, one that is in another, two that meet: each block once.
    let many = [(2, 40), (0, 7), (8, 20), (1, 23), (0, 0), (2, 28), (4, 24)];
    let command = Command::new(DATASET).with(10, 6).with(11, 4);
    client.io.ask(command, ranges(&many)).expect("deallocated");
    let nothing = Command::new(DATASET).with(10, 0).with(11, 4);
    client.io.ask(nothing, ranges(&[(0, 9)])).expect("done");
    let mut ranges = ranges(&[(1, 2), (2, 8)]);
    let command = Command::new(DATASET).with(10, 1).with(11, 4);
    client.io.ask(command, ranges.clone()).expect("deallocated");
    // Room for more ranges than there are, as Linux sends it.
    ranges.resize(4096, 0xff);
    client.io.ask(command, ranges.clone()).expect("deallocated");
    // Hints change nothing.
    let hint = Command::new(DATASET).with(10, 1).with(11, 1);
    client.io.ask(hint, ranges).expect("taken");
    assert!(client.read(0, 4).expect("read") == vec![0; 16384]);
    let log = serving.end().log;
    let expected = [
        "write 0+4096 Accepted",
        "write 4096+8192 Durable",
        "flush",
        "trim 0+4096",
        "write 4096+4096 Accepted",
        "flush",
        "trim 81920+40960",
        "trim 163840+8192",
        "trim 8192+4096",
        "trim 32768+8192",
        "trim 8192+4096",
        "trim 32768+8192",
        "read 0+16384",
        "flush",
    ];
    assert_eq!(log, expected);
}

/// One that covers the device holds up only what of it is not done yet.
#[test]
fn others_are_served_beside_a_deallocation_of_everything() {
    let serving = Serving::new(Pace {
        read_turns: 1,
        write_turns: 1,
    });
    let mut client = serving.client();
    let mut everything = vec![0; 4];
    everything.extend((client.blocks as u32).to_le_bytes());
    everything.extend([0; 8]);
    let command = Command::new(DATASET).with(10, 0).with(11, 4);
    let deallocated = client.io.send(command, everything);
    let last = client.blocks - 1;
    let [early, late] = [0, last].map(|block| client.io.send(client.reading(block, 1), Vec::new()));
    let order: Vec<_> = (0..3)
        .map(|_| client.io.receive().expect("an answer").completion.command)
        .collect();
    assert_eq!(order, [early, deallocated, late]);
    let log = serving.end().log;
    let place = |what: &str| log.iter().position(|line| line == what).expect(what);
    // 64 pieces; who waits is let go each 16 MiB.
    assert_eq!(place("read 0+4096"), 64);
    assert!(place("read 67104768+4096") > 255);
}

#[test]
fn a_compare_says_whether_it_is_so() {
    let serving = Serving::new(Pace::default());
    let mut client = serving.client();
    let mut bytes = pattern(3, 8192);
    client.write(4, &bytes, false).expect("written");
    let command = Command::new(COMPARE).blocks(4, 2);
    client.io.ask(command, bytes.clone()).expect("so it is");
    bytes[8191] ^= 1;
    assert_eq!(status(client.io.ask(command, bytes)), Status(0x4285));
    serving.end();
}

#[test]
fn commands_are_with_the_device_together_and_answered_as_they_are_done() {
    let serving = Serving::new(Pace {
        read_turns: 40,
        write_turns: 2,
    });
    let mut client = serving.client();
    let mut slow = Vec::new();
    for first in 0..32 {
        slow.push(client.io.send(client.reading(first, 1), Vec::new()));
    }
    let quick = client.io.send(Command::new(1).blocks(99, 1), vec![1; 4096]);
    let mut order = Vec::new();
    for _ in 0..33 {
        order.push(client.io.receive().expect("an answer").completion.command);
    }
    assert_eq!(order[0], quick);
    assert_eq!(order[1..], slow);
    assert!(serving.end().most_under_way >= 32);
}

#[test]
fn what_is_wrong_has_its_status_and_the_next_command_is_served() {
    let serving = Serving::new(Pace::default());
    let mut client = serving.client();
    let last = client.blocks - 1;
    let reading = |first, count| Command::new(READ).blocks(first, count).giving(count * 4096);
    for (what, command, expected) in [
        ("no such command", Command::new(0x44), 0x4001),
        ("beyond the end", reading(last, 2), 0x4080),
        ("far beyond", reading(u64::MAX, 2), 0x4080),
        ("another namespace", reading(0, 1).of(2), 0x400b),
        ("all of them", reading(0, 1).of(u32::MAX), 0x400b),
        ("less room than blocks", reading(0, 2).giving(4096), 0x400f),
        ("more than a command moves", reading(0, 257), 0x4002),
        (
            "bytes beyond the end",
            Command::new(0xc2).bytes(64 << 20, 64).giving(64),
            0x4080,
        ),
        ("no bytes", Command::new(0xc2).bytes(0, 0), 0x4002),
        ("no transactions", Command::new(0xc8), 0x47c4),
        (
            "a transaction of nobody",
            Command::new(0xcc).with(13, 5),
            0x47c4,
        ),
    ] {
        let found = status(client.io.ask(command, Vec::new()));
        assert_eq!(found, Status(expected), "{what}");
    }
    for (what, command, size, expected) in [
        (
            "a write that is not asked for",
            Command::new(1).blocks(last, 16),
            65536,
            0x4080,
        ),
        (
            "of other bytes than blocks",
            Command::new(1).blocks(0, 2),
            4096,
            0x400f,
        ),
        (
            "ranges that are not there",
            Command::new(DATASET).with(10, 1).with(11, 4),
            16,
            0x400f,
        ),
        (
            "more than all ranges that there may be",
            Command::new(DATASET).with(10, 1).with(11, 4),
            4097,
            0x400f,
        ),
        (
            "ranges beyond the end",
            Command::new(DATASET).with(11, 4),
            16,
            0x4080,
        ),
    ] {
        let found = status(client.io.ask(command, vec![0xff; size]));
        assert_eq!(found, Status(expected), "{what}");
    }
    assert_eq!(status(client.read(LOST / BLOCK, 1)), Status(0x4281));
    assert_eq!(
        status(client.write(LOST / BLOCK, &[1; 4096], false)),
        Status(0x4280)
    );
    client.write(5, &[5; 4096], false).expect("written");
    assert!(client.read(5, 1).expect("read") == [5; 4096]);
    // The newest first: number, queue, status.
    let page = Command::new(GET_LOG_PAGE)
        .of(0)
        .with(10, 1 | 31 << 16)
        .giving(128);
    let page = client.admin.ask(page, Vec::new()).expect("a page").data;
    assert_eq!(page[..8], 18_u64.to_le_bytes());
    assert_eq!((page[8], page[12..14].to_vec()), (1, vec![0, 0x85]));
    assert_eq!(page[64 + 12..64 + 14], [2, 0x85]);
    // Of all hosts: a block that was lost, and one that was not taken.
    let health = Command::new(GET_LOG_PAGE)
        .of(u32::MAX)
        .with(10, 2 | 127 << 16)
        .giving(512);
    let mut late = serving.client();
    let page = late.admin.ask(health, Vec::new()).expect("a page").data;
    assert_eq!((page[0], page[160]), (0, 2));
    assert_eq!(serving.end().served.errors, 18);
}

#[test]
fn a_device_that_stops_is_told_of() {
    let serving = Serving::new(Pace::default());
    let mut client = serving.client();
    let mut other = serving.client();
    // Events of health, of the reliability.
    let wanted = Command::new(SET_FEATURES).of(0).with(10, 11).with(11, 0xff);
    client.admin.ask(wanted, Vec::new()).expect("set");
    let event = client
        .admin
        .send(Command::new(ASYNC_EVENT).of(0), Vec::new());
    client.admin.flush().expect("sent");
    assert_eq!(status(client.read(FATAL / BLOCK, 1)), Status(0x4006));
    assert_eq!(status(other.write(0, &[1; 4096], false)), Status(0x4006));
    let told = client.admin.receive().expect("an event").completion;
    assert_eq!((told.command, told.value), (event, 0x2_0001));
    let health = Command::new(GET_LOG_PAGE)
        .of(u32::MAX)
        .with(10, 2 | 127 << 16)
        .giving(512);
    let page = client.admin.ask(health, Vec::new()).expect("a page").data;
    assert_eq!(page[0], 0b100);
    // CSTS: ready, and a fatal status.
    let property = Command::new(0x7f).of(4).with(11, 0x1c);
    let told = |client: &mut Client| {
        let told = client.admin.ask(property, Vec::new()).expect("told");
        told.completion.value
    };
    assert_eq!(told(&mut client), 0b11);
    // Who resets it, or comes now, is told so too: CC off and on.
    for configuration in [0, 0x0046_0001] {
        let set = Command::new(0x7f).of(0).with(11, 0x14);
        let set = set.with(12, configuration);
        client.admin.ask(set, Vec::new()).expect("set");
    }
    assert_eq!(told(&mut client), 0b11);
    let mut late = serving.client();
    assert_eq!(told(&mut late), 0b11);
    let page = late.admin.ask(health, Vec::new()).expect("a page").data;
    assert_eq!(page[0], 0b100);
    assert!(serving.end_or_fail().is_err(), "the last flush fails");
}

#[test]
fn a_worn_out_flash_is_told_of_to_who_comes_later_too() {
    let serving = Serving::new(Pace::default());
    let mut client = serving.client();
    let namespace = Command::new(IDENTIFY).giving(4096);
    let health = Command::new(GET_LOG_PAGE)
        .of(u32::MAX)
        .with(10, 2 | 127 << 16)
        .giving(512);
    let told = |client: &mut Client| {
        let mut ask = |command| client.admin.ask(command, Vec::new()).expect("told").data;
        (ask(namespace)[99], ask(health)[0])
    };
    assert_eq!(told(&mut client), (0, 0));
    let written = client.write(WORN / BLOCK, &[1; 4096], false);
    assert_eq!(status(written), Status(0x4020));
    assert_eq!(told(&mut client), (1, 0b1000));
    assert_eq!(told(&mut serving.client()), (1, 0b1000));
    serving.end();
}

#[test]
fn hosts_are_told_what_there_is() {
    let serving = Serving::new(Pace::default());
    let mut client = serving.client();
    let mut identify = |structure: u32, namespace| {
        let command = Command::new(IDENTIFY)
            .of(namespace)
            .with(10, structure)
            .giving(4096);
        client
            .admin
            .ask(command, Vec::new())
            .map(|answer| answer.data)
    };
    let controller = identify(1, 0).expect("told");
    assert_eq!(&controller[4..24], b"30313233343536373839");
    assert_eq!(
        &controller[768..803],
        b"nqn.2026-11.local.entresol:a-probe\0"
    );
    // 1 MiB at a time; entries of 64 and 16; compare, deallocate, zeroes; a volatile cache.
    assert_eq!(
        (controller[77], &controller[512..514]),
        (8, &[0x66, 0x44][..])
    );
    assert_eq!((controller[520], controller[525]), (0b1101, 0b111));
    // Capsules of 64 B and 16 KiB, in units of 16 B.
    assert_eq!(controller[1792..1796], 1028_u32.to_le_bytes());
    let namespace = identify(0, 1).expect("told");
    assert_eq!(namespace[..8], (16384_u64).to_le_bytes());
    assert_eq!(namespace[128..132], [0, 0, 12, 0]);
    assert_eq!(identify(2, 0).expect("told")[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(identify(2, 1).expect("told")[..4], [0; 4]);
    // Deallocate at most 255 ranges, a gibibyte of which the device has a sixteenth.
    let limits = identify(6, 0).expect("told");
    assert_eq!(limits[..4], [0, 0, 0, 255]);
    assert_eq!(limits[4..8], 16384_u32.to_le_bytes());
    assert_eq!(limits[8..16], 16384_u64.to_le_bytes());
    assert!(limits[16..].iter().all(|byte| *byte == 0));
    let descriptors = identify(3, 1).expect("told");
    assert_eq!(&descriptors[..20], b"\x02\x10\x00\x000123456789abcdef");
    assert_eq!(descriptors[20..22], [3, 16]);
    assert_eq!(status(identify(0, 2)), Status(0x400b));
    assert_eq!(status(identify(0x99, 0)), Status(0x4002));
    // As many queues as are asked for, and no more than there are.
    for (wanted, given) in [(3, 0x3_0003), (0xfffe, 0xf_000f)] {
        let queues = Command::new(SET_FEATURES)
            .of(0)
            .with(10, 7)
            .with(11, wanted * 0x1_0001);
        assert_eq!(
            client
                .admin
                .ask(queues, Vec::new())
                .expect("set")
                .completion
                .value,
            given
        );
    }
    let feature = |which| Command::new(GET_FEATURES).of(0).with(10, which);
    let cache = client.admin.ask(feature(6), Vec::new()).expect("told");
    assert_eq!(cache.completion.value, 1);
    assert_eq!(
        status(client.admin.ask(feature(0x42), Vec::new())),
        Status(0x4002)
    );
    // CAP: 128 entries, 10 s, the NVM command set.
    let property = Command::new(0x7f).of(4).with(10, 1).with(11, 0);
    let value = client
        .admin
        .ask(property, Vec::new())
        .expect("told")
        .completion
        .value;
    assert_eq!(value, 0x20_1401_007f);
    serving.end();
}

#[test]
fn without_a_write_cache_every_write_is_durable() {
    let serving = Serving::new(Pace::default());
    let mut client = serving.client();
    let off = Command::new(SET_FEATURES).of(0).with(10, 6).with(11, 0);
    client.admin.ask(off, Vec::new()).expect("set");
    client.write(0, &[1; 4096], false).expect("written");
    assert_eq!(serving.end().log[0], "write 0+4096 Durable");
}

#[test]
fn heads_of_queues_are_counted_for_who_counts_on_them() {
    let serving = Serving::new(Pace::default());
    let manner = Manner {
        counts_heads: true,
        ..Manner::default()
    };
    let mut client = Client::connect(serving.place, manner).expect("connects");
    // The connect was the first command of the queue of 128 entries.
    for round in 2..300_u32 {
        let answer = client
            .io
            .ask(client.reading(0, 1), Vec::new())
            .expect("read");
        assert_eq!(u32::from(answer.completion.head), round % 128);
        assert_eq!((answer.completion.queue, answer.data.len()), (1, 4096));
    }
    let mut other = serving.client();
    let answer = other.io.ask(Command::new(0), Vec::new()).expect("flushed");
    assert_eq!(answer.completion.head, 0xffff);
    serving.end();
}
