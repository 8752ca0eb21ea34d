//! A server of a small device in a thread of its own.

use crate::common::{Place, small};
use device::{Image, Pace, RealDevice};
use nix::time::{ClockId, clock_gettime};
use serve::shm::{Served, serve};
use serve::{Address, Control, Listener};
use shm::{Client, Connect};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use units::Bytes;

pub const BLOCK: usize = 4096;

pub struct Serving {
    pub place: Place,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Served, Duration)>,
}

impl Serving {
    /// Of a device with a log of 256 KiB and 1.5 MiB of room.
    pub fn new(name: &str) -> Self {
        let place = Place::new(name);
        let config = small(
            "bytefs",
            &[
                "ssd.log.size=256KiB",
                "ssd.log.tx_log=4KiB",
                "ssd.dram=512KiB",
                "nand.blocks_per_plane=48",
            ],
        );
        Image::create(&place.path("image"), &config).unwrap();
        Self::of(place)
    }

    /// Of the image that is there.
    pub fn of(place: Place) -> Self {
        Self::paced(place, Pace::None)
    }

    /// Of the image that is there; whether its clients wait for the device's time.
    pub fn paced(place: Place, pace: Pace) -> Self {
        let device = RealDevice::open(&place.path("image"), pace).unwrap();
        let path = Self::socket(&place);
        let text = format!("unix:{}", path.display());
        let listener = Listener::bind(&Address::parse_unix(&text).unwrap()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let turn = move || match told.load(Ordering::Relaxed) {
            true => Control::Stop,
            false => Control::Continue,
        };
        let thread = std::thread::spawn(move || {
            let served = serve(&device, &listener, turn).unwrap();
            device.engine().audit();
            device.close().unwrap();
            let busy = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
            (served, busy.into())
        });
        Self {
            place,
            stop,
            thread,
        }
    }

    /// The path of a unix socket has at most 107 bytes.
    pub fn socket(place: &Place) -> PathBuf {
        let image = place.path("image");
        let name = image.parent().unwrap().file_name().unwrap();
        let name = format!("entresol-{}-{}", std::process::id(), name.display());
        std::env::temp_dir().join(name)
    }

    pub fn path(&self) -> PathBuf {
        Self::socket(&self.place)
    }

    pub fn connect(&self) -> Client {
        Connect::default().to(&self.path()).unwrap()
    }

    /// A client with the smallest data area.
    pub fn connect_small(&self) -> Client {
        let connect = Connect {
            data: Bytes::from_kib(256),
            ..Connect::default()
        };
        connect.to(&self.path()).unwrap()
    }

    /// Stops it; what it did, and its image.
    pub fn end(self) -> (Served, Place) {
        self.stop.store(true, Ordering::Relaxed);
        let (served, _) = self.thread.join().expect("does not panic");
        (served, self.place)
    }

    /// Stops it; how long its thread had a core.
    pub fn end_busy(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("does not panic").1
    }
}
