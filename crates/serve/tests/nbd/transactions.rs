//! Transactions of other protocols' clients, which the clients of this one neither have nor see.

use crate::client::{Client, EIO, READ, TRIM, ZEROES, request, write};
use crate::probe::{Ended, Serving, served};
use device::config::Layer;
use device::{DeviceConfig, Image, Pace, RealDevice};
use port::{Device, TxOptions};
use serve::nbd::Limits;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use units::{ByteAddr, Bytes, TxId};

/// No hole.
const NO_HOLE: u16 = 1 << 1;

fn image() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("serve-nbd-transactions");
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

/// Another protocol's client: writes a line of block 0 under a transaction, and ends it when told.
/// Says what the block port was sent meanwhile.
fn other(device: &RealDevice, begins: &Receiver<()>, ends: &Receiver<()>, sent: &Sender<Bytes>) {
    while begins.recv().is_ok() {
        let tx: TxId = device
            .block_on(device.begin(TxOptions::default()))
            .expect("begun");
        let write = device.write(ByteAddr::new(64), &[7; 64], tx);
        device.block_on(write).expect("written");
        let before = device.stats().block_port.to_device;
        let _ = ends.recv();
        let _ = sent.send(device.stats().block_port.to_device - before);
        device.block_on(device.commit(tx)).expect("committed");
    }
}

/// A change that meets a transaction waits for it, and not for longer than it may; it is not done
/// afterwards. Others are served meanwhile.
#[test]
fn who_meets_a_transaction_is_not_its_hostage() {
    let folder = image();
    let limits = Limits {
        patience: Duration::from_millis(300),
        ..Limits::default()
    };
    let ((begin, begins), (end, ends)) = (channel(), channel());
    let (send, sent) = channel();
    let serving = Serving::of(move |listener, told| {
        let device = &RealDevice::open(&folder, Pace::None).expect("opens");
        std::thread::scope(|scope| {
            scope.spawn(move || other(device, &begins, &ends, &send));
            let served = served(device, listener, limits, told)?;
            Ok(Ended {
                served,
                log: Vec::new(),
                most_under_way: 0,
            })
        })
    });
    let mut client = Client::new(&serving.path, true);
    let patience = Some(Duration::from_secs(20));
    client.socket.set_read_timeout(patience).expect("set");
    let mut second = Client::new(&serving.path, true);
    second.socket.set_read_timeout(patience).expect("set");
    // 200 blocks: in pieces.
    let size = 200 * 4096;
    for (what, change) in [
        ("a block", write(0, 1, 0, &[2; 4096])),
        ("blocks", write(0, 1, 0, &[2; 20 * 4096])),
        ("a trim in pieces", request(0, TRIM, 1, 0, size)),
        ("zeroes in pieces", request(NO_HOLE, ZEROES, 1, 0, size)),
    ] {
        begin.send(()).expect("it listens");
        // The line is there when it is seen.
        while second.read(0, 4096)[64..128] != [7; 64] {}
        client.send(&change);
        assert_eq!(second.ask(0, READ, 1 << 20, 4096).error, 0, "{what}");
        let refused = client.reply(0);
        assert_eq!(refused.error, EIO, "{what}: {refused:?}");
        let sentence = String::from_utf8(refused.bytes).expect("a sentence");
        assert!(
            sentence.contains("transaction that is still open"),
            "{sentence}"
        );
        assert!(second.read(0, 4096)[64..128] == [7; 64]);
        // One that ends soon is waited for.
        client.send(&change);
        assert_eq!(second.ask(0, READ, 1 << 20, 4096).error, 0, "{what}");
        end.send(()).expect("it listens");
        assert_eq!(client.reply(0).error, 0, "{what}");
        // However often the block is asked for: the others are sent once or twice each time.
        let sent = sent.recv().expect("it says so");
        assert!(sent <= Bytes::new(4 * u64::from(size)), "{what}: {sent}");
        assert!(second.read(0, 4096)[64..128] != [7; 64]);
    }
    drop((begin, end));
    serving.end();
}
