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
    Command, Conflict, Device, DeviceError, DeviceStats, Drive, Outcome, Payload, Shape, Turned,
    TxOptions,
};
use serve::shm::serve;
use serve::{Address, Control, Listener};
use shm::Connect;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use units::{ByteAddr, TxId};

/// Transactions of the client.
const LEFT_OPEN: u64 = 1500;
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
    type Pending<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

    fn shape(&self) -> Shape {
        self.device.shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Self::Pending<'a> {
        Box::pin(async move {
            let is_abort = u64::from(matches!(command, Command::Abort(_)));
            self.under_way.set(self.under_way.get() + is_abort);
            let most = self.most_under_way.get().max(self.under_way.get());
            self.most_under_way.set(most);
            let done = self.device.request(command, at, payload, conflict).await;
            self.under_way.set(self.under_way.get() - is_abort);
            done
        })
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.device.open(may_split)
    }

    fn abandon(&self, tx: TxId) {
        self.device.abandon(tx);
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
            let tx = client.wait(client.begin(TxOptions::default())).unwrap();
            let at = ByteAddr::new(nth * 64);
            client.wait(client.write(at, &[1; 64], tx)).unwrap();
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
