//! What becomes of the transactions of a client that has gone.
#![expect(
    clippy::disallowed_methods,
    reason = "a test that waits gives up after a minute of the real clock"
)]

use crate::common::{Place, small};
use crate::serving::Serving;
use core::cell::Cell;
use device::{Image, Pace, RealDevice};
use port::{
    Acknowledge, Atomicity, Completion, Device, DeviceError, DeviceStats, Drive, Shape, Turned,
};
use serve::shm::serve;
use serve::{Address, Control, Listener};
use shm::Connect;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use units::{ByteAddr, Bytes, TxId};

/// Transactions of the client.
const LEFT_OPEN: u64 = 3000;
/// Of them the device has so many at a time, at most.
const AT_A_TIME: u64 = 32;

/// A device that counts the aborts that it has at a time.
struct Counting {
    device: RealDevice,
    under_way: Cell<u64>,
    most_under_way: Cell<u64>,
}

impl Drive for Counting {
    fn turn(&self) -> Turned {
        self.device.turn()
    }
}

impl Device for Counting {
    fn shape(&self) -> Shape {
        self.device.shape()
    }

    async fn read(&self, at: ByteAddr, into: &mut [u8]) -> Result<Completion, DeviceError> {
        self.device.read(at, into).await
    }

    async fn write(&self, at: ByteAddr, bytes: &[u8], tx: TxId) -> Result<Completion, DeviceError> {
        self.device.write(at, bytes, tx).await
    }

    async fn persist(&self) -> Result<Completion, DeviceError> {
        self.device.persist().await
    }

    async fn read_blocks(&self, at: ByteAddr, into: &mut [u8]) -> Result<Completion, DeviceError> {
        self.device.read_blocks(at, into).await
    }

    async fn write_blocks(
        &self,
        at: ByteAddr,
        bytes: &[u8],
        when: Acknowledge,
    ) -> Result<Completion, DeviceError> {
        self.device.write_blocks(at, bytes, when).await
    }

    async fn trim(&self, at: ByteAddr, size: Bytes) -> Result<Completion, DeviceError> {
        self.device.trim(at, size).await
    }

    async fn flush(&self) -> Result<Completion, DeviceError> {
        self.device.flush().await
    }

    fn begin(&self) -> Result<TxId, DeviceError> {
        self.device.begin()
    }

    async fn commit(&self, tx: TxId) -> Result<(Completion, Atomicity), DeviceError> {
        self.device.commit(tx).await
    }

    async fn abort(&self, tx: TxId) -> Result<(Completion, Atomicity), DeviceError> {
        self.under_way.set(self.under_way.get() + 1);
        let most = self.most_under_way.get().max(self.under_way.get());
        self.most_under_way.set(most);
        let ended = self.device.abort(tx).await;
        self.under_way.set(self.under_way.get() - 1);
        ended
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}

/// The device looks through all that it has for each that it takes or ends: were it given all
/// aborts at once, others would wait for the square of them.
#[test]
fn transactions_of_who_has_gone_are_aborted_a_few_at_a_time() {
    let place = Place::new("shm-abandoned");
    let config = small("cxl", &["ssd.log.size=512KiB", "ssd.dram=4MiB"]);
    Image::create(&place.path("image"), &config).unwrap();
    let path = Serving::socket(&place);
    let address = Address::parse_unix(&format!("unix:{}", path.display())).unwrap();
    let listener = Listener::bind(&address).unwrap();
    let stop = AtomicBool::new(false);
    let image = place.path("image");
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let counting = Counting {
                device: RealDevice::open(&image, Pace::None).unwrap(),
                under_way: Cell::new(0),
                most_under_way: Cell::new(0),
            };
            let turn = || match stop.load(Ordering::Relaxed) {
                true => Control::Stop,
                false => Control::Continue,
            };
            serve(&counting, &listener, turn).unwrap();
            counting.device.engine().audit();
            (counting.most_under_way.get(), counting.stats().aborts)
        });
        let other = Connect::default().to(&path).unwrap();
        let client = Connect::default().to(&path).unwrap();
        for nth in 0..LEFT_OPEN {
            let tx = client.begin().unwrap();
            if nth.is_multiple_of(100) {
                let at = ByteAddr::new(nth / 100 * 64);
                client.wait(client.write(at, &[1; 64], tx)).unwrap();
            }
        }
        drop(client);
        let begin = Instant::now();
        while other.stats().aborts < LEFT_OPEN / 2 {
            if begin.elapsed() > Duration::from_secs(60) {
                let aborts = other.stats().aborts;
                // Otherwise the scope waits for a server that nobody stops.
                stop.store(true, Ordering::Relaxed);
                panic!("of {LEFT_OPEN} transactions that were left {aborts} are aborted in 60 s");
            }
            other.wait(other.read(ByteAddr::new(0), &mut [0])).unwrap();
        }
        // The rest is aborted by a server that stops.
        stop.store(true, Ordering::Relaxed);
        let (most_under_way, aborts) = server.join().expect("does not panic");
        assert_eq!(aborts, LEFT_OPEN);
        assert!(most_under_way <= AT_A_TIME, "{most_under_way} at a time");
    });
}
