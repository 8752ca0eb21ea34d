//! Lines and transactions, with the firmware and real bytes.

use crate::probe::{Ended, Serving, served, status};
use device::config::Layer;
use device::{DeviceConfig, Image, Pace, RealDevice};
use port::{Acknowledge, Device};
use serve::nvme::client::{Client, Command};
use serve::nvme::{Limits, Status};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;
use units::ByteAddr;

const STORE: u8 = 0xc1;
const LOAD: u8 = 0xc2;
const PERSIST: u8 = 0xc4;
const BEGIN: u8 = 0xc8;
const COMMIT: u8 = 0xcc;
const ABORT: u8 = 0xd0;
const RECOVER: u8 = 0xd4;
const DATASET: u8 = 0x09;
const WRITE_ZEROES: u8 = 0x08;
/// Another transaction has written there, for now.
const LOCKED: Status = Status(0x7c0);

fn image(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{}-{name}", env!("CARGO_PKG_NAME")));
    let _ = std::fs::remove_dir_all(&folder);
    let small = [
        "nand.channels=2",
        "nand.chips_per_channel=2",
        "nand.dies_per_chip=1",
        "nand.blocks_per_plane=64",
        "nand.pages_per_block=16",
        "ftl.over_provisioning=25%",
        "ssd.dram=4MiB",
        "ssd.log.size=512KiB",
    ];
    let settings = small.map(|set| Layer::assignment(set).expect("a setting"));
    let config = DeviceConfig::of_preset("bytefs", &settings).expect("a device");
    Image::create(&folder, &config).expect("an image");
    folder
}

fn serving(name: &str) -> Serving {
    let limits = Limits {
        transactions: 3,
        ..Limits::default()
    };
    let folder = image(name);
    Serving::of(limits, move |listener, told| {
        let device = RealDevice::open(&folder, Pace::None).expect("opens");
        let served = served(&device, listener, limits, told)?;
        Ok(Ended {
            served,
            log: Vec::new(),
            most_under_way: 0,
        })
    })
}

fn value(client: &mut Client, command: Command, data: &[u8]) -> u64 {
    let answer = client.io.ask(command, data.to_vec());
    answer.expect("done").completion.value
}

fn load(client: &mut Client, at: u64, size: u32) -> Vec<u8> {
    let command = Command::new(LOAD).bytes(at, size).giving(size);
    let answer = client.io.ask(command, Vec::new()).expect("loaded");
    assert!(answer.completion.value > 0, "a load takes device time");
    answer.data
}

/// Begins a transaction that reserves so many lines.
fn begin(client: &mut Client, lines: u32) -> u32 {
    value(client, Command::new(BEGIN).with(12, lines), &[]) as u32
}

fn store(at: u64, tx: u32) -> Command {
    Command::new(STORE).bytes(at, 64).with(13, tx)
}

/// Stores a line as soon as it may.
fn store_soon(client: &mut Client, at: u64, byte: u8) {
    while let Err(error) = client.io.ask(store(at, 0), vec![byte; 64]) {
        assert_eq!(status::<()>(Err(error)), LOCKED);
    }
}

#[test]
fn lines_are_stored_and_loaded_and_seen_by_the_block_port() {
    let serving = serving("nvme-lines");
    let mut client = serving.client();
    let line: Vec<u8> = (0..64).collect();
    let took = value(
        &mut client,
        Command::new(STORE).bytes(4096 + 128, 64),
        &line,
    );
    assert!(took > 0 && took < 1_000_000_000, "{took} ps");
    assert!(value(&mut client, Command::new(PERSIST), &[]) > 0);
    assert!(load(&mut client, 4096 + 128, 64) == line);
    assert!(load(&mut client, 4096 + 130, 4) == line[2..6]);
    let block = client.read(1, 1).expect("read");
    assert!(block[128..192] == line && block[..128] == [0; 128]);
    value(&mut client, Command::new(RECOVER), &[]);
    assert!(load(&mut client, 4096 + 128, 64) == line);
    serving.end();
}

#[test]
fn transactions_are_their_hosts_own_and_end_with_it() {
    let serving = serving("nvme-transactions");
    let mut client = serving.client();
    let mut other = serving.client();
    let tx = begin(&mut client, 4);
    value(&mut client, store(0, tx), &[1; 64]);
    value(&mut client, store(640, tx), &[2; 64]);
    // Not another host's.
    assert_eq!(
        status(other.io.ask(store(0, tx), vec![9; 64])),
        Status(0x47c2)
    );
    let commit = |tx| Command::new(COMMIT).with(13, tx);
    assert_eq!(status(other.io.ask(commit(tx), Vec::new())), Status(0x47c2));
    let done = value(&mut client, commit(tx), &[]);
    assert_eq!(done >> 48, 1, "whole");
    assert_eq!(
        status(client.io.ask(commit(tx), Vec::new())),
        Status(0x47c2)
    );
    let tx = begin(&mut client, 4);
    value(&mut client, store(0, tx), &[3; 64]);
    value(&mut client, Command::new(ABORT).with(13, tx), &[]);
    assert!(load(&mut client, 0, 64) == [1; 64]);
    // More than it has reserved.
    let tx = begin(&mut client, 4);
    for line in 0..4 {
        value(&mut client, store(line * 64, tx), &[4; 64]);
    }
    assert_eq!(
        status(client.io.ask(store(256, tx), vec![4; 64])),
        Status(0x47c5)
    );
    drop(client);
    // What it left open is taken back, soon after the server knows that it has gone.
    store_soon(&mut other, 64, 5);
    assert!(load(&mut other, 0, 128) == [[1; 64], [5; 64]].concat());
    serving.end();
}

/// One range to deallocate, of blocks.
fn range(first: u64, count: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(count.to_le_bytes());
    bytes.extend(first.to_le_bytes());
    bytes
}

/// Nobody waits for a host that may never end its transaction, nor for one that waits for a command
/// behind that which waits for it.
#[test]
fn what_an_open_transaction_stands_against_is_refused() {
    let serving = serving("nvme-refusals");
    let mut client = serving.client();
    let mut other = serving.client();
    let tx = begin(&mut client, 0);
    value(&mut client, store(64, tx), &[1; 64]);
    let all = Command::new(DATASET).with(10, 0).with(11, 4);
    let zeroes = Command::new(WRITE_ZEROES).blocks(0, 200);
    let recovered = Command::new(RECOVER);
    for (what, command, data) in [
        ("a store", store(100, 0), vec![2; 64]),
        ("a block", Command::new(1).blocks(0, 1), vec![2; 4096]),
        ("a deallocation in pieces", all, range(0, 200)),
        ("zeroes in pieces", zeroes, Vec::new()),
    ] {
        other.io.send(command, data);
        other.io.flush().expect("sent");
        // Its host goes on, there and elsewhere in what the other one asks for.
        value(&mut client, store(192, tx), &[1; 64]);
        value(&mut client, store(8192, 0), &[3; 64]);
        load(&mut client, 8192, 64);
        let answer = other.io.receive().expect("an answer").completion;
        assert_eq!(answer.status, LOCKED, "{what}");
    }
    value(&mut other, recovered, &[]);
    // All the room there is, for one.
    let most = (1..32).map(|shift| 1 << shift).take_while(|lines| {
        let begun = other
            .io
            .ask(Command::new(BEGIN).with(12, *lines), Vec::new());
        begun.is_ok_and(|answer| {
            let tx = answer.completion.value as u32;
            value(&mut other, Command::new(ABORT).with(13, tx), &[]);
            true
        })
    });
    let most: u32 = most.last().expect("there is room");
    let great = begin(&mut other, most);
    let refused = client
        .io
        .ask(Command::new(BEGIN).with(12, most), Vec::new());
    assert_eq!(status(refused), Status(0x7c5));
    value(&mut other, Command::new(ABORT).with(13, great), &[]);
    value(&mut client, Command::new(COMMIT).with(13, tx), &[]);
    value(&mut other, store(64, 0), &[2; 64]);
    assert!(load(&mut client, 64, 192) == [[2; 64], [0; 64], [1; 64]].concat());
    serving.end();
}

#[test]
fn a_host_has_so_many_transactions_open_and_others_have_theirs() {
    let serving = serving("nvme-many-transactions");
    let mut client = serving.client();
    let open = [(); 3].map(|()| begin(&mut client, 0));
    // With others under way beside it.
    let more = Command::new(BEGIN);
    for _ in 0..8 {
        client.io.send(more, Vec::new());
    }
    for _ in 0..8 {
        let refused = client.io.receive().expect("an answer").completion;
        assert_eq!(refused.status, Status(0x47c3));
    }
    begin(&mut serving.client(), 0);
    value(&mut client, Command::new(ABORT).with(13, open[1]), &[]);
    let tx = begin(&mut client, 0);
    value(&mut client, store(0, tx), &[1; 64]);
    // CC: off. What was refused is not open either, and what was open is taken back.
    let off = Command::new(0x7f).of(0).with(11, 0x14);
    client.admin.ask(off, Vec::new()).expect("off");
    let mut other = serving.client();
    store_soon(&mut other, 0, 2);
    for _ in 0..3 {
        begin(&mut other, 0);
    }
    serving.end();
}

/// Who waits for a transaction, a client of another protocol here, need not wait until each host
/// has taken its answers: one that waits for it may be among them.
#[test]
fn a_server_that_stops_aborts_at_once_what_is_open() {
    let folder = image("nvme-stopping");
    let limits = Limits {
        drain: Duration::from_secs(100),
        ..Limits::default()
    };
    let (go, may_go) = mpsc::channel::<()>();
    let (written, is_written) = mpsc::channel();
    let serving = Serving::of(limits, move |listener, told| {
        let device = &RealDevice::open(&folder, Pace::None).expect("opens");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                may_go.recv().expect("it goes on");
                let write =
                    device.write_blocks(ByteAddr::new(0), &[7; 4096], Acknowledge::Accepted);
                let _ = written.send(port::block_on(device, write).is_ok());
            });
            let served = served(device, listener, limits, told)?;
            Ok(Ended {
                served,
                log: Vec::new(),
                most_under_way: 0,
            })
        })
    });
    let mut client = serving.client();
    let tx = begin(&mut client, 0);
    value(&mut client, store(64, tx), &[1; 64]);
    // More than sockets hold, and not taken.
    let mut deaf = serving.client();
    for _ in 0..16 {
        deaf.io.send(deaf.reading(0, 256), Vec::new());
    }
    deaf.io.flush().expect("sent");
    load(&mut client, 64, 64);
    go.send(()).expect("it listens");
    load(&mut client, 64, 64);
    serving.stop();
    assert_eq!(is_written.recv_timeout(Duration::from_secs(20)), Ok(true));
    drop((deaf, client));
    serving.end();
}
