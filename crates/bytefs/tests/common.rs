//! What several tests need: one type of file system for all of them, since compiling one takes
//! longer than running its tests.

use device::{DeviceEngine, Ram};
use port::{AnyDevice, Clock};
use units::{Bytes, Picos, Time};
use vtime::{Machine, VirtualClock};

/// A file system on whatever device and clock a test has.
pub type Fs = bytefs::FileSystem<AnyDevice, AnyClock>;

/// The clock of a machine, or one that stands still.
#[derive(Clone)]
pub enum AnyClock {
    Still,
    Virtual(VirtualClock<DeviceEngine>),
}

impl Clock for AnyClock {
    fn now(&self) -> Time {
        match self {
            Self::Still => Time::ZERO,
            Self::Virtual(clock) => clock.now(),
        }
    }

    async fn sleep_until(&self, at: Time) {
        if let Self::Virtual(clock) = self {
            clock.sleep_until(at).await;
        }
    }

    async fn spend(&self, span: Picos) {
        if let Self::Virtual(clock) = self {
            clock.spend(span).await;
        }
    }
}

/// The device and the clock of a machine.
pub fn of(machine: &Machine<DeviceEngine>) -> (AnyDevice, AnyClock) {
    (
        AnyDevice::new(machine.device()),
        AnyClock::Virtual(machine.clock()),
    )
}

/// Memory of so many bytes.
pub fn ram(size: Bytes) -> AnyDevice {
    AnyDevice::new(Ram::new(size, Bytes::from_kib(4)))
}
