//! A host that does nothing but ask one line after the other: what the loop itself costs.

use super::{DeviceSource, InLoop, attach_to};
use crate::config::Config;
use crate::device::{self, Device};
use crate::error::SimError;
use ::firmware::{Request, RequestOp, Response};
use inloop::What;
use soc::{DeviceEvent, EventQueue, Harness};
use units::{LineAddr, Lpa, RequestId, Time};

/// A device in the loop with one request at a time.
pub struct Driver {
    device: Device,
    side: Side,
    next: u32,
    /// Commands that the firmware process was sent.
    pub commands: u64,
}

struct Side {
    queue: EventQueue<DeviceEvent>,
    in_loop: Option<Box<InLoop>>,
    response: Option<Response>,
}

impl Harness for Side {
    fn now(&self) -> Time {
        self.queue.now()
    }
    fn schedule(&mut self, at: Time, event: DeviceEvent) {
        self.queue.push(at, event);
    }
    fn respond(&mut self, response: Response) {
        if let Some(in_loop) = &mut self.in_loop {
            in_loop.note_response(&response);
        }
        self.response = Some(response);
    }
    fn offer_page(&mut self, at: Time, lpa: Lpa) {
        if let Some(in_loop) = &mut self.in_loop {
            in_loop.seen.offered.push((lpa, at));
        }
    }
    fn page_arrived(&mut self, at: Time, lpa: Lpa) {
        if let Some(in_loop) = &mut self.in_loop {
            in_loop.seen.arrived.push((lpa, at));
        }
    }
}

impl Driver {
    /// An idle device of a configuration, for so many pages.
    ///
    /// # Errors
    /// There is no such device.
    pub fn new(config: &Config, pages: u64, source: &DeviceSource) -> Result<Self, SimError> {
        let mut device = device::for_pages(config, pages);
        let mut in_loop = attach_to(&mut device, config, pages, &[], source)?;
        if let Some(in_loop) = &mut in_loop {
            in_loop.post(Time::ZERO, What::Begin);
        }
        Ok(Self {
            device,
            side: Side {
                queue: EventQueue::new(),
                in_loop,
                response: None,
            },
            next: 0,
            commands: 0,
        })
    }

    /// Reads or writes a line, as soon as the one before is answered; gives when it is answered.
    ///
    /// # Errors
    /// There is no going on with the firmware process.
    pub fn access(&mut self, line: LineAddr, is_write: bool) -> Result<Time, SimError> {
        let request = Request {
            id: RequestId::new(self.next % 256),
            op: match is_write {
                true => RequestOp::Write,
                false => RequestOp::Read {
                    delay_allowed: false,
                },
            },
            line,
            source: None,
        };
        self.next = self.next.wrapping_add(1);
        let now = self.side.queue.now();
        self.commands += 1;
        self.precede(now, |in_loop| in_loop.request(request));
        self.device.on_request(now, request, &mut self.side);
        self.follow(now);
        let response = loop {
            if let Some(response) = self.side.response.take() {
                break response;
            }
            let (now, event) = self
                .side
                .queue
                .pop()
                .expect("what is not answered yet waits for an event");
            self.event(now, event);
        };
        while self
            .side
            .queue
            .next_time()
            .is_some_and(|due| due <= response.at)
        {
            let (now, event) = self.side.queue.pop().expect("it was looked at");
            self.event(now, event);
        }
        self.side.queue.advance_to(response.at);
        if let Some(failure) = self.side.in_loop.as_ref().and_then(|it| it.failure()) {
            return Err(failure);
        }
        let given = self.device.resources.given_times();
        match given.and_then(|given| given.failure()) {
            Some(failure) => Err(SimError::Loop(failure.to_owned())),
            None => Ok(response.at),
        }
    }

    fn event(&mut self, now: Time, event: DeviceEvent) {
        self.commands += 1;
        self.precede(now, |_| What::Event);
        self.device.on_event(now, event, &mut self.side);
        self.follow(now);
    }

    fn precede(&mut self, now: Time, what: impl FnOnce(&mut InLoop) -> What) {
        if let Some(in_loop) = &mut self.side.in_loop {
            in_loop.precede(now, what, &mut self.device);
        }
    }

    fn follow(&mut self, now: Time) {
        if let Some(in_loop) = &mut self.side.in_loop {
            in_loop.compare(now);
        }
    }

    /// The run is over.
    ///
    /// # Errors
    /// There is no going on with the firmware process.
    pub fn end(&mut self) -> Result<(), SimError> {
        match &mut self.side.in_loop {
            Some(in_loop) => in_loop.end(),
            None => Ok(()),
        }
    }
}
