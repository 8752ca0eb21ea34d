//! A server of a device that notes what it is asked.

pub use crate::device::{BLOCK, FATAL, LOST, Manner as Pace, WORN};

use crate::device::Probe;
use port::{Device, Drive};
use serve::nvme::client::{Client, ClientError, Manner};
use serve::nvme::{Limits, Served, Status, Subsystem, serve};
use serve::{Address, Control, Listener};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What is left of a server.
pub struct Ended {
    pub served: Served,
    pub log: Vec<String>,
    pub most_under_way: u32,
}

/// A server in a thread of its own, at a port of its own.
pub struct Serving {
    pub place: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Ended, String>>,
}

impl Serving {
    pub fn new(pace: Pace) -> Self {
        Self::within(pace, Limits::default())
    }

    pub fn within(pace: Pace, limits: Limits) -> Self {
        Self::of(limits, move |listener, told| {
            let probe = Probe::new(pace);
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
        _: Limits,
        run: impl FnOnce(Listener, &AtomicBool) -> Result<Ended, String> + Send + 'static,
    ) -> Self {
        let address = Address::parse("127.0.0.1:0", false).expect("an address");
        let listener = Listener::bind(&address).expect("listens");
        let place = listener.place().parse().expect("a place");
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || run(listener, &told));
        Self {
            place,
            stop,
            thread,
        }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.place, Manner::default()).expect("a controller")
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
    let subsystem = Subsystem::new("a probe", *b"0123456789abcdef", device.shape());
    let subsystem = subsystem.expect("a subsystem");
    serve(device, listener, subsystem, limits, || {
        match told.load(Ordering::Relaxed) {
            true => Control::Stop,
            false => Control::Continue,
        }
    })
    .map_err(|error| error.to_string())
}

/// The status of what failed.
pub fn status<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> Status {
    match outcome {
        Err(ClientError::Failed(status)) => status,
        other => panic!("should have failed with a status: {other:?}"),
    }
}
