//! What several tests need: one type of file system for all of them, since compiling one takes
//! longer than running its tests.

use device::{DeviceEngine, Ram};
pub use port::AnyClock;
use port::AnyDevice;
use units::Bytes;
use vtime::Machine;

/// A file system on whatever device and clock a test has.
pub type Fs = bytefs::FileSystem<AnyDevice, AnyClock>;

/// The device and the clock of a machine.
pub fn of(machine: &Machine<DeviceEngine>) -> (AnyDevice, AnyClock) {
    (
        AnyDevice::new(machine.device()),
        AnyClock::new(machine.clock()),
    )
}

/// Memory of so many bytes.
pub fn ram(size: Bytes) -> AnyDevice {
    AnyDevice::new(Ram::new(size, Bytes::from_kib(4)))
}
