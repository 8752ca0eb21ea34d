//! NBD, NVMe/TCP and shared memory beside each other on one device, told to stop under load: each
//! ends, no client hangs, and what was acknowledged is there.
#![expect(
    clippy::disallowed_methods,
    reason = "load is what comes in some time; clients that hang are given up by the wall clock"
)]

#[path = "../nbd/client.rs"]
#[allow(dead_code, reason = "the tests of NBD have the rest")]
mod client;

use client::{TRIM, ZEROES, request, write};
use device::config::Layer;
use device::{DeviceConfig, Image, Pace, RealDevice};
use port::{Device, TxOptions};
use serve::nbd::{self, Export};
use serve::nvme::client::{Client, ClientError, Command, Manner};
use serve::nvme::{self, Subsystem};
use serve::{Address, Control, Listener, shm};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use units::ByteAddr;

/// Blocks of each client.
const BLOCKS: u64 = 64;
const BLOCK: u64 = 4096;
/// Where the clients' blocks begin.
const OF_NBD: u64 = 0;
const OF_NVME: u64 = BLOCKS;
const OF_SHM: u64 = 2 * BLOCKS;
/// What is trimmed and zeroed all the time.
const LONG: u64 = 1024;
/// The line of a transaction that stays open, and where NBD wants to write.
const LOCKED: u64 = 4 * BLOCKS;
/// Requests of each client before the servers are told to stop.
const ENOUGH: u32 = 60;
/// A client that has waited so long hangs.
const HANGS: Duration = Duration::from_secs(300);

/// Tells the servers to stop, whatever has happened: a scope waits for its threads in a panic too.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until `is_so`, as long as the clients are at work and none of them hangs.
fn wait_until(clients: &[&ScopedJoinHandle<'_, Written>], is_so: impl Fn() -> bool) {
    let hangs = Instant::now() + HANGS;
    while !is_so() {
        assert!(Instant::now() < hangs, "a client hangs");
        let is_at_work = clients.iter().all(|client| !client.is_finished());
        assert!(is_at_work, "a client has ended early");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn image() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("serve-together");
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

/// A block that says which write it is of.
fn block(version: u32) -> Vec<u8> {
    version.to_le_bytes().repeat(BLOCK as usize / 4)
}

/// Of each block the newest write that was answered, and the newest that was sent.
type Written = Vec<(u32, u32)>;

/// The name of long requests over NBD, and how many there are at a time.
const IS_LONG: u64 = u64::MAX - 1;
const AT_A_TIME: u64 = 50;

/// Writes one block after the other, and has long trims and zeroes under way beside. The first
/// write of all is of a block where another host has a transaction.
fn over_nbd(path: &Path, done: &AtomicU32) -> Written {
    let mut client = client::Client::new(path.to_str().expect("text"), true);
    client.socket.set_read_timeout(Some(HANGS)).expect("set");
    client.send(&write(0, u64::MAX, LOCKED * BLOCK, &block(9)));
    let mut long = [(0, TRIM), (1 << 1, ZEROES)].into_iter().cycle();
    let mut long = || {
        let (flags, kind) = long.next().expect("no end");
        request(flags, kind, IS_LONG, LONG * BLOCK, 2048 * BLOCK as u32)
    };
    for _ in 0..AT_A_TIME {
        client.send(&long());
    }
    let mut written = vec![(0, 0); BLOCKS as usize];
    for version in 1.. {
        let at = u64::from(version) % BLOCKS;
        written[at as usize].1 = version;
        let sent = std::io::Write::write_all(
            &mut client.socket,
            &write(0, at, (OF_NBD + at) * BLOCK, &block(version)),
        );
        if sent.is_err() {
            break;
        }
        let answer = loop {
            match client.reply_or_end(0) {
                Some(reply) if reply.cookie < BLOCKS => break Some(reply.error),
                Some(reply) if reply.cookie == IS_LONG && reply.error == 0 => {
                    // What is sent to a server that stops may come too late.
                    let _ = std::io::Write::write_all(&mut client.socket, &long());
                }
                Some(_) => {}
                None => break None,
            }
        };
        match answer {
            Some(0) => written[at as usize].0 = version,
            Some(error) => assert_eq!(error, client::ESHUTDOWN),
            None => break,
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    written
}

fn over_nvme(place: SocketAddr, done: &AtomicU32) -> Written {
    let mut client = Client::connect(place, Manner::default()).expect("a controller");
    let begun = client.io.ask(Command::new(0xc8), Vec::new());
    let tx = begun.expect("begun").completion.value as u32;
    let store = Command::new(0xc1).bytes(LOCKED * BLOCK, 64).with(13, tx);
    client.io.ask(store, vec![5; 64]).expect("stored");
    let mut written = vec![(0, 0); BLOCKS as usize];
    for version in 1.. {
        let at = u64::from(version) % BLOCKS;
        written[at as usize].1 = version;
        match client.write(OF_NVME + at, &block(version), false) {
            Ok(()) => written[at as usize].0 = version,
            Err(ClientError::Failed(status)) => assert_eq!(status.0, 0x08),
            Err(_) => break,
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    written
}

fn over_shm(path: &Path, done: &AtomicU32) -> Written {
    let device = ::shm::Connect::default().to(path).expect("connects");
    let mut written = vec![(0, 0); BLOCKS as usize];
    for version in 1.. {
        let at = u64::from(version) % BLOCKS;
        written[at as usize].1 = version;
        // The bytes of a transaction survive when its commit is answered.
        let outcome = port::block_on(&device, async {
            let tx = device.begin(TxOptions::default()).await?;
            let to = ByteAddr::new((OF_SHM + at) * BLOCK);
            device.write(to, &block(version), tx).await?;
            device.commit(tx).await
        });
        if outcome.is_err() {
            break;
        }
        written[at as usize].0 = version;
        done.fetch_add(1, Ordering::Relaxed);
    }
    written
}

fn listen(path: &Path) -> Listener {
    let address = Address::parse_unix(&format!("unix:{}", path.display())).expect("an address");
    Listener::bind(&address).expect("listens")
}

#[test]
fn servers_that_are_told_to_stop_under_load_end_and_keep_what_they_acknowledged() {
    let folder = image();
    let [nbd_path, shm_path] = ["nbd", "shm"].map(|name| {
        std::env::temp_dir().join(format!("entresol-together-{name}-{}", std::process::id()))
    });
    let tcp = Address::parse("127.0.0.1:0", false).expect("an address");
    let (of_nbd, of_shm) = (listen(&nbd_path), listen(&shm_path));
    let of_nvme = Listener::bind(&tcp).expect("listens");
    let place: SocketAddr = of_nvme.place().parse().expect("a place");
    let stop = AtomicBool::new(false);
    let told = || match stop.load(Ordering::Relaxed) {
        true => Control::Stop,
        false => Control::Continue,
    };
    let device = RealDevice::open(&folder, Pace::None).expect("opens");
    let done: [AtomicU32; 3] = Default::default();
    let written = std::thread::scope(|scope| {
        let (device, done, told) = (&device, &done, &told);
        let stopping = Stopping(&stop);
        let nvme_server = scope.spawn(move || {
            let subsystem = Subsystem::new("a", [1; 16], device.shape()).expect("a subsystem");
            nvme::serve(device, of_nvme, subsystem, nvme::Limits::default(), told)
        });
        let on_nvme = scope.spawn(move || over_nvme(place, &done[1]));
        wait_until(&[&on_nvme], || done[1].load(Ordering::Relaxed) > 0);
        let nbd_server = scope.spawn(move || {
            let export = Export::new("a", device.shape()).expect("an export");
            // It waits for the transaction until all stop.
            let limits = nbd::Limits {
                patience: HANGS,
                ..nbd::Limits::default()
            };
            nbd::serve(device, of_nbd, export, limits, told)
        });
        let shm_server = scope.spawn(move || shm::serve(device, &of_shm, told));
        let on_nbd = scope.spawn(|| over_nbd(&nbd_path, &done[0]));
        let on_shm = scope.spawn(|| over_shm(&shm_path, &done[2]));
        let is_enough = |count: &AtomicU32| count.load(Ordering::Relaxed) >= ENOUGH;
        wait_until(&[&on_nbd, &on_nvme, &on_shm], || done.iter().all(is_enough));
        drop(stopping);
        let served = nbd_server.join().expect("NBD ends").expect("ends well");
        // One was done, maybe, while the server was told.
        let is_early = served.errors >= AT_A_TIME / 2;
        assert!(is_early, "zeroes and trims end early: {served:?}");
        nvme_server.join().expect("NVMe ends").expect("ends well");
        shm_server.join().expect("shm ends").expect("ends well");
        [on_nbd, on_nvme, on_shm].map(|client| client.join().expect("no client hangs"))
    });
    device.close().expect("closes");
    // A power cut would leave no less.
    let device = RealDevice::open(&folder, Pace::None).expect("opens again");
    let mut bytes = vec![0; BLOCK as usize];
    for (first, written) in [OF_NBD, OF_NVME, OF_SHM].into_iter().zip(written) {
        for (at, (answered, sent)) in (0..).zip(written) {
            let read = device.read_blocks(ByteAddr::new((first + at) * BLOCK), &mut bytes);
            device.block_on(read).expect("read");
            let found = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            assert!(bytes == block(found), "block {first} + {at} is torn");
            let may_be = found == answered || found == sent;
            assert!(
                may_be,
                "block {first} + {at}: {found} instead of {answered} or {sent}"
            );
        }
    }
    // NBD's write went on when NVMe's transaction was aborted.
    let read = device.read_blocks(ByteAddr::new(LOCKED * BLOCK), &mut bytes);
    device.block_on(read).expect("read");
    assert!(bytes == block(9));
}
