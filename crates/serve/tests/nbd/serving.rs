//! A server and its clients.

use crate::client::{Client, EIO, ESHUTDOWN, FLUSH, FUA, READ, TRIM, ZEROES, request, write};
use crate::probe::{BLOCK, FATAL, LOST, Manner, Serving};

fn pattern(seed: u8, size: usize) -> Vec<u8> {
    (0..size)
        .map(|index| seed ^ index as u8 ^ (index >> 8) as u8)
        .collect()
}

#[test]
fn what_is_written_is_read_in_both_styles() {
    let serving = Serving::new(Manner::default());
    for is_structured in [false, true] {
        let mut client = Client::new(&serving.path, is_structured);
        for (at, size) in [(0, 4096), (8192, 65536), (1 << 20, 33 << 20 >> 1)] {
            let bytes = pattern(at as u8 ^ u8::from(is_structured), size / 4096 * 4096);
            client.write(0, at, &bytes);
            assert!(client.read(at, bytes.len() as u32) == bytes, "{at} {size}");
        }
        assert_eq!(client.ask(0, TRIM, 0, 4096).error, 0);
        assert_eq!(client.read(0, 4096), [0; 4096]);
        assert_eq!(client.ask(2, ZEROES, 8192, 65536).error, 0);
        assert_eq!(client.read(8192, 65536), [0; 65536]);
    }
    assert_eq!(serving.end().served.connections, 2);
}

#[test]
fn force_unit_access_and_flush_reach_the_device() {
    let serving = Serving::new(Manner::default());
    let mut client = Client::new(&serving.path, true);
    client.write(0, 0, &[1; 4096]);
    client.write(FUA, 4096, &[2; 8192]);
    assert_eq!(client.ask(0, FLUSH, 0, 0).error, 0);
    assert_eq!(client.ask(FUA, TRIM, 0, 4096).error, 0);
    assert_eq!(client.ask(FUA | 2, ZEROES, 4096, 4096).error, 0);
    let log = serving.end().log;
    let expected = [
        "write 0+4096 Accepted",
        "write 4096+8192 Durable",
        "flush",
        "trim 0+4096",
        "flush",
        "write 4096+4096 Accepted",
        "flush",
        "flush",
    ];
    assert_eq!(log, expected, "the last one is the server's own");
}

#[test]
fn requests_that_have_come_are_with_the_device_together() {
    const COUNT: u64 = 32;
    let serving = Serving::new(Manner {
        read_turns: 3,
        write_turns: 9,
    });
    let mut client = Client::new(&serving.path, true);
    let mut bytes = write(0, 1000, 0, &[1; 4096]);
    for cookie in 1..COUNT {
        bytes.extend(request(0, READ, cookie, cookie * BLOCK, BLOCK as u32));
    }
    client.send(&bytes);
    let read: Vec<_> = (1..COUNT).map(|_| client.reply(4096).cookie).collect();
    assert_eq!(read, (1..COUNT).collect::<Vec<_>>());
    assert_eq!(
        client.reply(0).cookie,
        1000,
        "a slow write is answered after the reads behind it"
    );
    assert_eq!(serving.end().most_under_way as u64, COUNT);
}

#[test]
fn long_ranges_are_done_in_pieces_and_let_others_by() {
    let serving = Serving::new(Manner::default());
    let mut client = Client::new(&serving.path, true);
    client.send(&request(0, TRIM, 1, 0, 48 << 20));
    client.send(&request(0, READ, 2, 50 << 20, 4096));
    assert_eq!(client.reply(4096).cookie, 2);
    assert_eq!(client.reply(0).cookie, 1);
    let log = serving.end().log;
    assert_eq!(
        log.iter().filter(|note| note.starts_with("trim")).count(),
        48 * 4
    );
}

#[test]
fn commands_that_overlap_a_long_one_do_not_slip_between_its_pieces() {
    const SIZE: u32 = 1 << 20;
    const NO_HOLE: u16 = 2;
    let at = u64::from(SIZE) - BLOCK;
    for (flags, kind) in [(NO_HOLE, ZEROES), (0, ZEROES), (0, TRIM)] {
        let serving = Serving::new(Manner {
            read_turns: 2,
            write_turns: 5,
        });
        let mut client = Client::new(&serving.path, true);
        client.write(0, at, &[1; BLOCK as usize]);
        let bytes = [
            request(flags, kind, 1, 0, SIZE),
            write(0, 2, at, &[2; BLOCK as usize]),
            request(0, READ, 3, u64::from(SIZE), BLOCK as u32),
        ];
        client.send(&bytes.concat());
        let elsewhere = client.reply(BLOCK as usize).cookie;
        let cookies = [elsewhere, client.reply(0).cookie, client.reply(0).cookie];
        assert_eq!(cookies, [3, 1, 2], "in order where they overlap");
        assert_eq!(client.read(at, BLOCK as u32), [2; BLOCK as usize]);
        serving.end();
    }
}

#[test]
fn what_the_device_cannot_do_is_an_error_with_its_reason() {
    let serving = Serving::new(Manner::default());
    let mut client = Client::new(&serving.path, true);
    let lost = client.ask(0, READ, LOST, 4096);
    assert_eq!(lost.error, EIO);
    let reason = String::from_utf8(lost.bytes).expect("text");
    assert!(
        reason.starts_with("the flash has lost the block at byte 409600"),
        "{reason}"
    );
    assert_eq!(client.ask(0, READ, 0, 4096).error, 0, "the next is served");
    assert_eq!(client.ask(0, READ, FATAL, 4096).error, ESHUTDOWN);
    assert_eq!(client.ask(0, READ, 0, 4096).error, ESHUTDOWN);
    let failed = serving
        .end_or_fail()
        .map(|ended| ended.served)
        .expect_err("stopped");
    assert_eq!(
        failed,
        "the last flush failed: the device has stopped: told to"
    );
}

#[test]
fn many_clients_see_one_device() {
    const BASE: u64 = 2 << 20;
    let serving = Serving::new(Manner {
        read_turns: 1,
        write_turns: 2,
    });
    let mut clients: Vec<_> = (0..8)
        .map(|turn| Client::new(&serving.path, turn % 2 == 0))
        .collect();
    for round in 0..20_u64 {
        for (index, client) in clients.iter_mut().enumerate() {
            let at = BASE + (round * 8 + index as u64) * BLOCK;
            client.send(&write(
                0,
                at,
                at,
                &pattern((at >> 12) as u8, BLOCK as usize),
            ));
        }
        for client in &mut clients {
            assert_eq!(client.reply(0).error, 0);
        }
    }
    let all = clients[0].read(BASE, 160 * BLOCK as u32);
    for (index, block) in all.chunks(BLOCK as usize).enumerate() {
        let seed = (BASE >> 12) as u8 + index as u8;
        assert_eq!(block, pattern(seed, BLOCK as usize));
    }
    assert_eq!(serving.end().served.requests, 161);
}
