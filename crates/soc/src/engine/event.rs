//! What happens in a device with a host, and how the queue keeps it.

use crate::harness::DeviceEvent;
use firmware::{NandTag, Timer};
use nand::NandEvent;
use units::RequestId;

/// Something that happens at a known time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Something of the device's own.
    Device(DeviceEvent),
    /// A request reaches the device.
    Arrive(RequestId),
    /// The answer to a request leaves the device.
    Answer(RequestId),
    /// The host knows the answer.
    Known(RequestId),
    /// The host knows the end of a command that has no request under way.
    Finish(u32),
    /// A command that has waited goes on.
    Resume(u32),
}

/// Which event a [`Word`] stands for.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
enum Kind {
    Nand,
    NandStart,
    NandDone,
    Timer,
    Arrive,
    Answer,
    Known,
    Finish,
    Resume,
}

/// An event as two numbers, which stay in registers on their way into the queue. An enum whose
/// fields have several widths goes through memory, and reading it back as a whole waits for its
/// stores.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    kind: Kind,
    number: u64,
}

impl Word {
    /// The word of an event.
    #[inline(always)]
    pub fn of(event: Event) -> Self {
        let (kind, number) = match event {
            Event::Device(DeviceEvent::Nand(phase)) => (Kind::Nand, phase.to_bits()),
            Event::Device(DeviceEvent::NandStart(tag)) => (Kind::NandStart, tag.get().into()),
            Event::Device(DeviceEvent::NandDone(tag)) => (Kind::NandDone, tag.get().into()),
            Event::Device(DeviceEvent::Timer(timer)) => (Kind::Timer, timer.get().into()),
            Event::Arrive(request) => (Kind::Arrive, request.get().into()),
            Event::Answer(request) => (Kind::Answer, request.get().into()),
            Event::Known(request) => (Kind::Known, request.get().into()),
            Event::Finish(command) => (Kind::Finish, command.into()),
            Event::Resume(command) => (Kind::Resume, command.into()),
        };
        Self { kind, number }
    }

    /// The event that it was made of.
    #[inline(always)]
    pub fn event(self) -> Event {
        let id = self.number as u32;
        match self.kind {
            Kind::Nand => Event::Device(DeviceEvent::Nand(NandEvent::from_bits(self.number))),
            Kind::NandStart => Event::Device(DeviceEvent::NandStart(NandTag::new(id))),
            Kind::NandDone => Event::Device(DeviceEvent::NandDone(NandTag::new(id))),
            Kind::Timer => Event::Device(DeviceEvent::Timer(Timer::new(id))),
            Kind::Arrive => Event::Arrive(RequestId::new(id)),
            Kind::Answer => Event::Answer(RequestId::new(id)),
            Kind::Known => Event::Known(RequestId::new(id)),
            Kind::Finish => Event::Finish(id),
            Kind::Resume => Event::Resume(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_gives_its_event_back() {
        let device = [
            DeviceEvent::Nand(NandEvent::from_bits(u64::MAX - 6)),
            DeviceEvent::NandStart(NandTag::new(u32::MAX)),
            DeviceEvent::NandDone(NandTag::new(8)),
            DeviceEvent::Timer(Timer::new(9)),
        ];
        let request = RequestId::new(u32::MAX);
        let others = [
            Event::Arrive(request),
            Event::Answer(request),
            Event::Known(request),
            Event::Finish(7),
            Event::Resume(8),
        ];
        for event in device.map(Event::Device).into_iter().chain(others) {
            assert_eq!(Word::of(event).event(), event);
        }
    }
}
