//! Who runs a device: the trait, and the events that come back through it.

use firmware::{NandTag, Response, Timer};
use nand::{Completion, NandEvent};
use units::{Lpa, Time};

/// Something of the device's own that ends or starts at a known time; whoever runs the device
/// brings it back to [`crate::Soc::on_event`] then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceEvent {
    /// A phase of the flash's work ends.
    Nand(NandEvent),
    /// A NAND command whose start lay in the future starts.
    NandStart(NandTag),
    /// A NAND command is done, whose end was known when it was submitted.
    NandDone(NandTag),
    /// A timer of the firmware rings.
    Timer(Timer),
}

/// Whoever runs a device: an event queue, and the host that asks and is answered.
pub trait Harness {
    /// The time of the event being handled.
    fn now(&self) -> Time;
    /// Keeps an event of the device until its time. Events of one time come back in the order in
    /// which they were handed over.
    fn schedule(&mut self, at: Time, event: DeviceEvent);
    /// Takes an answer, which leaves the device at `response.at`.
    fn respond(&mut self, response: Response);
    /// Takes the offer of a page, which reaches the host at `at`.
    fn offer_page(&mut self, at: Time, lpa: Lpa);
    /// Takes the notice, which reaches the host at `at`, that a page is in device DRAM of which a
    /// read was answered by SkyByte-Delay. Only a host with `os.wake = on_data` is told.
    fn page_arrived(&mut self, at: Time, lpa: Lpa) {
        let _ = (at, lpa);
    }
    /// Sees that an operation of the flash has ended; for recorders.
    #[inline]
    fn observe(&mut self, completion: &Completion) {
        let _ = completion;
    }
}
