//! What an honest client can do.

use crate::serving::{BLOCK, Serving};
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Waker};
use device::RealDevice;
use port::{
    Acknowledge, Atomicity, Command, Conflict, Device, DeviceError, Drive, Outcome, Payload,
    SharedBlock, Transaction, TxOptions,
};
use shm::Client;
use std::sync::Arc;
use units::{ByteAddr, Bytes, Stream, TxId};

fn at(byte: usize) -> ByteAddr {
    ByteAddr::new(byte as u64)
}

/// A client beside the bytes that it should find.
struct Pair {
    client: Client,
    model: Vec<u8>,
}

impl Pair {
    fn new(client: Client) -> Self {
        let model = vec![0; client.shape().capacity.get() as usize];
        Self { client, model }
    }

    fn step(&mut self, stream: &mut Stream) {
        let client = &self.client;
        let kind = stream.below(6);
        let is_block = kind < 3;
        let unit = if is_block { BLOCK } else { 1 };
        let most = if is_block { 40 } else { 20_000 };
        let size = stream.below(most) as usize * unit;
        let place = stream.below(((self.model.len() - size) / unit) as u64) as usize * unit;
        let range = place..place + size;
        let mut bytes = vec![stream.below(255) as u8 + 1; size];
        let shared: Vec<SharedBlock>;
        match kind {
            0 => {
                let when = [Acknowledge::Accepted, Acknowledge::Durable];
                let when = when[stream.below(2) as usize];
                let write = match stream.below(2) {
                    0 => client.write_blocks(at(place), &bytes, when),
                    _ => {
                        let blocks = bytes.chunks_exact(BLOCK);
                        shared = blocks
                            .map(|block| Arc::new(block.try_into().unwrap()))
                            .collect();
                        client.write_shared(at(place), &shared, when)
                    }
                };
                client.wait(write).unwrap();
                self.model[range].copy_from_slice(&bytes);
            }
            1 => {
                client
                    .wait(client.read_blocks(at(place), &mut bytes))
                    .unwrap();
                assert!(bytes == self.model[range]);
            }
            2 => {
                let size = Bytes::new(size as u64);
                client.wait(client.trim(at(place), size)).unwrap();
                self.model[range].fill(0);
            }
            3 => {
                client
                    .wait(client.write(at(place), &bytes, TxId::NONE))
                    .unwrap();
                client.wait(client.persist()).unwrap();
                self.model[range].copy_from_slice(&bytes);
            }
            _ => {
                client.wait(client.read(at(place), &mut bytes)).unwrap();
                assert!(bytes == self.model[range]);
            }
        }
    }
}

#[test]
fn bytes_and_blocks_are_those_that_were_written() {
    let serving = Serving::new("shm-model");
    let mut stream = Stream::new(5, "shm/model");
    let mut pair = Pair::new(serving.connect_small());
    for _ in 0..600 {
        pair.step(&mut stream);
    }
    pair.client.wait(pair.client.flush()).unwrap();
    let Pair { client, model } = pair;
    drop(client);
    let (served, place) = serving.end();
    assert_eq!((served.clients, served.errors, served.breaches), (1, 0, 0));
    let again = Serving::of(place);
    let client = again.connect();
    let mut bytes = vec![0; model.len()];
    client.wait(client.read(at(0), &mut bytes)).unwrap();
    assert!(bytes == model);
    again.end();
}

#[test]
fn errors_are_those_of_a_device_of_this_process() {
    let serving = Serving::new("shm-errors");
    let client = serving.connect();
    let shape = client.shape();
    let (capacity, block) = (shape.capacity, shape.block);
    let end = ByteAddr::new(capacity.get());
    let size = Bytes::new(1);
    let mut byte = [0];
    assert_eq!(
        client.wait(client.read(end, &mut byte)),
        Err(DeviceError::OutOfRange {
            at: end,
            size,
            capacity
        })
    );
    assert_eq!(
        client.wait(client.trim(at(1), size)),
        Err(DeviceError::NotBlocks {
            at: at(1),
            size,
            block
        })
    );
    let tx = TxId::new(99);
    let unknown = DeviceError::UnknownTransaction { tx };
    assert_eq!(
        client.wait(client.write(at(0), b"x", tx)),
        Err(unknown.clone())
    );
    assert_eq!(client.wait(client.commit(tx)), Err(unknown));
    let nothing = client.wait(client.read(end, &mut [])).unwrap();
    assert!(nothing.submitted <= nothing.finished);
    serving.end();
}

/// A write that is not to wait.
fn try_write(client: &Client, at: ByteAddr, bytes: &[u8]) -> Outcome {
    let command = Command::Write(TxId::NONE);
    client.wait(client.request(command, at, Payload::Out(bytes), Conflict::Refuse))
}

#[test]
fn transactions_are_of_one_client_and_end_with_it() {
    let serving = Serving::new("shm-tx");
    let (one, other) = (serving.connect(), serving.connect());
    let kept = one.wait(one.begin(TxOptions::default())).unwrap();
    one.wait(one.write(at(0), b"kept", kept)).unwrap();
    let unknown = DeviceError::UnknownTransaction { tx: kept };
    assert_eq!(other.wait(other.commit(kept)), Err(unknown.clone()));
    assert_eq!(other.wait(other.abort(kept)), Err(unknown.clone()));
    assert_eq!(other.wait(other.write(at(64), b"x", kept)), Err(unknown));
    assert_eq!(
        try_write(&other, at(0), b"late"),
        Err(DeviceError::Locked { at: at(0) })
    );
    let (_, atomicity) = one.wait(one.commit(kept)).unwrap();
    assert_eq!(atomicity, Atomicity::Whole);
    let lost = one.wait(one.begin(TxOptions::default())).unwrap();
    one.wait(one.write(at(4096), b"lost", lost)).unwrap();
    drop(one);
    let mut found = [0; 4];
    // The server notices soon.
    other
        .wait(other.write(at(4096), b"more", TxId::NONE))
        .unwrap();
    other.wait(other.read(at(0), &mut found)).unwrap();
    assert_eq!(&found, b"kept");
    let stats = other.stats();
    assert_eq!((stats.commits, stats.aborts), (1, 1));
    assert_eq!(stats, other.statistics().unwrap());
    serving.end();
}

#[test]
fn a_transaction_begins_without_the_server_and_reserves_with_it() {
    let serving = Serving::new("shm-reserve");
    let (one, other) = (serving.connect(), serving.connect());
    let limits = one.shape().transactions.unwrap();
    // Numbers are each connection's own.
    let begin = |client: &Client| client.wait(client.begin(TxOptions::default())).unwrap();
    assert_eq!((begin(&one), begin(&other)), (TxId::new(1), TxId::new(1)));
    let late = TxId::new(1);
    one.wait(one.write(at(0), b"one", late)).unwrap();
    let reserve = one.reserve(late, 1, Conflict::Wait);
    let error = Err(DeviceError::LateReservation { tx: late });
    assert_eq!(
        one.wait(reserve),
        error,
        "the client's number, not the device's"
    );
    let all = TxOptions {
        conflict: Conflict::Refuse,
        ..TxOptions::reserving(limits.lines)
    };
    assert_eq!(other.wait(other.begin(all)), Err(DeviceError::LogFull));
    let large = TxOptions::reserving(limits.lines + 1);
    let error = DeviceError::TooLarge { most: limits.lines };
    assert_eq!(other.wait(other.begin(large)), Err(error));
    // Dropped, and aborted without a wait: all of the log is free.
    let dropped = one
        .wait(Transaction::begin(&one, TxOptions::default()))
        .unwrap();
    one.wait(dropped.write(at(64), b"x")).unwrap();
    drop(dropped);
    one.wait(one.abort(late)).unwrap();
    let options = TxOptions::reserving(limits.lines);
    let tx = other.wait(Transaction::begin(&other, options)).unwrap();
    let lines = vec![7; 64 * limits.lines as usize];
    other.wait(tx.write(at(0), &lines)).unwrap();
    let beyond = DeviceError::BeyondReservation {
        tx: tx.id(),
        lines: limits.lines,
    };
    assert_eq!(other.wait(tx.write(at(lines.len()), b"x")), Err(beyond));
    let (_, atomicity) = other.wait(tx.commit()).unwrap();
    assert_eq!(atomicity, Atomicity::Whole);
    other.wait(other.drain()).unwrap();
    let mut found = vec![0; lines.len()];
    one.wait(one.read(at(0), &mut found)).unwrap();
    assert!(found == lines);
    serving.end();
}

#[test]
fn a_server_that_stops_lets_nobody_wait_for_what_is_open() {
    let serving = Serving::new("shm-stop-tx");
    let (one, other) = (serving.connect(), serving.connect());
    let tx = one.wait(one.begin(TxOptions::default())).unwrap();
    one.wait(one.write(at(0), b"open", tx)).unwrap();
    let mut late = pin!(other.write(at(0), b"late", TxId::NONE));
    let mut context = Context::from_waker(Waker::noop());
    assert!(late.as_mut().poll(&mut context).is_pending());
    // It goes through the same ring, so the server has both.
    let mut found = [0; 4];
    other.wait(other.read(at(64), &mut found)).unwrap();
    assert!(late.as_mut().poll(&mut context).is_pending());
    let (_, place) = serving.end();
    other.wait(late).unwrap();
    let again = Serving::of(place);
    let client = again.connect();
    client.wait(client.read(at(0), &mut found)).unwrap();
    assert_eq!(&found, b"late");
    again.end();
}

/// A long range is trimmed in pieces: what overlaps it and came later is done later, others have
/// their turn meanwhile, and a transaction is waited for.
#[test]
fn a_long_trim_is_done_in_pieces_and_in_order() {
    let serving = Serving::new("shm-trim");
    let (one, other) = (serving.connect(), serving.connect());
    let (blocks, locked, behind) = (300, 200 * BLOCK, 310 * BLOCK);
    let size = Bytes::new((blocks * BLOCK) as u64);
    let full = vec![9; blocks * BLOCK];
    one.wait(one.write_blocks(at(0), &full, Acknowledge::Accepted))
        .unwrap();
    let tx = other.wait(other.begin(TxOptions::default())).unwrap();
    other.wait(other.write(at(locked), b"open", tx)).unwrap();
    let refused = one.request(Command::Trim, at(0), Payload::None(size), Conflict::Refuse);
    let stands = DeviceError::Locked { at: at(locked) };
    assert_eq!(one.wait(refused), Err(stands));
    let mut context = Context::from_waker(Waker::noop());
    let mut trim = pin!(one.trim(at(0), size));
    let mut write = pin!(one.write(at(64), b"later", TxId::NONE));
    assert!(trim.as_mut().poll(&mut context).is_pending());
    assert!(write.as_mut().poll(&mut context).is_pending());
    // Neither who is elsewhere waits for it, nor the transaction, nor its client, who may read
    // there.
    one.wait(one.write(at(behind), b"else", TxId::NONE))
        .unwrap();
    other
        .wait(other.write(at(locked + 64), b"more", tx))
        .unwrap();
    let mut open = [0; 4];
    other.wait(other.read(at(locked), &mut open)).unwrap();
    assert_eq!(&open, b"open");
    assert!(trim.as_mut().poll(&mut context).is_pending());
    other.wait(other.commit(tx)).unwrap();
    one.wait(trim).unwrap();
    one.wait(write).unwrap();
    let mut found = vec![1; blocks * BLOCK];
    other.wait(other.read(at(0), &mut found)).unwrap();
    assert_eq!(&found[64..69], b"later");
    found[64..69].fill(0);
    assert!(found.iter().all(|byte| *byte == 0));
    let (served, _) = serving.end();
    assert_eq!(served.errors, 1);
}

#[test]
fn threads_share_a_client() {
    let serving = Serving::new("shm-threads");
    let client = serving.connect_small();
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let client = &client;
            scope.spawn(move || {
                let base = thread * 32 * BLOCK;
                for turn in 0..60_u8 {
                    let size = if turn % 10 == 0 { 31 * BLOCK } else { 64 };
                    let bytes = vec![turn ^ (thread as u8) << 6; size];
                    let mut found = vec![0; size];
                    client
                        .wait(client.write(at(base + 64), &bytes, TxId::NONE))
                        .unwrap();
                    client.wait(client.read(at(base + 64), &mut found)).unwrap();
                    assert!(found == bytes);
                }
            });
        }
    });
    let (served, _) = serving.end();
    assert_eq!(served.errors, 0);
}

#[test]
fn commands_are_served_in_the_order_of_first_polls_also_if_there_is_no_room() {
    let serving = Serving::new("shm-order");
    let client = serving.connect_small();
    let size = 200 * BLOCK;
    let mut context = Context::from_waker(Waker::noop());
    for round in 0..5 {
        let (large, small) = (vec![round; size], [round + 100; 64]);
        let mut found = [0; 64];
        {
            let mut first = pin!(client.write(at(0), &large, TxId::NONE));
            let mut second = pin!(client.write(at(size - 64), &small, TxId::NONE));
            let mut third = pin!(client.read(at(size - 64), &mut found));
            assert!(first.as_mut().poll(&mut context).is_pending());
            assert!(second.as_mut().poll(&mut context).is_pending());
            assert!(third.as_mut().poll(&mut context).is_pending());
            let mut is_done = [false; 3];
            while is_done != [true; 3] {
                client.turn();
                // The later ones are asked first: that changes nothing.
                is_done[2] = is_done[2] || third.as_mut().poll(&mut context).is_ready();
                is_done[1] = is_done[1] || second.as_mut().poll(&mut context).is_ready();
                is_done[0] = is_done[0] || first.as_mut().poll(&mut context).is_ready();
            }
        }
        assert_eq!(found, small);
    }
    serving.end();
}

#[test]
fn a_dropped_future_leaves_its_request_and_gives_its_room_back() {
    let serving = Serving::new("shm-dropped");
    let client = serving.connect_small();
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..50 {
        let bytes = vec![7; 60 * BLOCK];
        let mut future = Box::pin(client.write(at(0), &bytes, TxId::NONE));
        assert!(future.as_mut().poll(&mut context).is_pending());
        let mut line = [0; 64];
        let mut waits = Box::pin(client.read(at(0), &mut line));
        let _ = waits.as_mut().poll(&mut context);
    }
    let mut found = vec![0; 60 * BLOCK];
    client.wait(client.read(at(0), &mut found)).unwrap();
    assert!(found == vec![7; 60 * BLOCK]);
    serving.end();
}

#[test]
fn a_server_that_stops_says_so() {
    let serving = Serving::new("shm-stopped");
    let client = serving.connect();
    client
        .wait(client.write(at(0), b"kept", TxId::NONE))
        .unwrap();
    let (_, place) = serving.end();
    let error = client.wait(client.persist()).unwrap_err();
    let stopped = "the device has stopped: its server has ended the connection: the server has \
                   stopped; what it acknowledged is in the image";
    assert_eq!(error.to_string(), stopped);
    assert_eq!(client.wait(client.flush()), Err(error.clone()));
    assert_eq!(client.open(true), Err(error.clone()));
    assert_eq!(client.statistics(), Err(error));
    let again = Serving::of(place);
    let client = again.connect();
    let mut found = [0; 4];
    client.wait(client.read(at(0), &mut found)).unwrap();
    assert_eq!(&found, b"kept");
    again.end();
}

#[test]
fn what_the_port_says_is_what_the_device_says() {
    let serving = Serving::new("shm-same");
    let client = serving.connect();
    let size = client
        .wait(client.write(at(0), &[1; 640], TxId::NONE))
        .unwrap();
    assert!(size.took().get() > 0);
    let through = client.stats();
    drop(client);
    let (_, place) = serving.end();
    let device = RealDevice::open(&place.path("image"), device::Pace::None).unwrap();
    let direct = device.stats();
    assert_eq!(direct.byte_port, through.byte_port);
    assert_eq!(direct.byte_port.to_device, Bytes::new(640));
}
