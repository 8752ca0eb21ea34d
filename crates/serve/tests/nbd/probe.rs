//! A server of a device that notes what it is asked.

pub use crate::device::{BLOCK, FATAL, LOST, Manner};

use crate::device::Probe;
use port::{Device, Drive};
use serve::nbd::{Export, Limits, Served, serve};
use serve::{Address, Control, Listener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

/// What is left of a server.
pub struct Ended {
    pub served: Served,
    pub log: Vec<String>,
    pub most_under_way: u32,
}

/// A server in a thread of its own, at a socket of its own.
pub struct Serving {
    pub path: String,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Ended, String>>,
}

impl Serving {
    pub fn new(manner: Manner) -> Self {
        Self::within(manner, Limits::default())
    }

    pub fn within(manner: Manner, limits: Limits) -> Self {
        Self::of(move |listener, told| {
            let probe = Probe::new(manner);
            let served = served(&probe, listener, limits, told)?;
            let (log, most_under_way) = probe.told();
            Ok(Ended {
                served,
                log,
                most_under_way,
            })
        })
    }

    /// Of something that serves.
    pub fn of(
        run: impl FnOnce(Listener, &AtomicBool) -> Result<Ended, String> + Send + 'static,
    ) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("entresol-nbd-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name).display().to_string();
        let address = Address::parse(&format!("unix:{path}"), false).expect("an address");
        let listener = Listener::bind(&address).expect("listens");
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || run(listener, &told));
        Self { path, stop, thread }
    }

    /// Tells it to stop, as a signal would.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stops it and says what it did.
    pub fn end(self) -> Ended {
        self.end_or_fail().expect("ends well")
    }

    pub fn end_or_fail(self) -> Result<Ended, String> {
        self.stop();
        self.thread.join().expect("does not panic")
    }
}

/// Serves until told to stop.
pub fn served(
    device: &(impl Device + Drive),
    listener: Listener,
    limits: Limits,
    told: &AtomicBool,
) -> Result<Served, String> {
    let export = Export::new("probe", device.shape()).expect("an export");
    serve(device, listener, export, limits, || {
        match told.load(Ordering::Relaxed) {
            true => Control::Stop,
            false => Control::Continue,
        }
    })
    .map_err(|error| error.to_string())
}
