//! Requests in flight between host and device.

use firmware::{RequestOp, Response};
use host::HostLine;
use host::llc::L3Slot;
use units::{CoreId, LineAddr, RequestId, Time};

/// An L3 miss: its MSHR, and how often that had been freed before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissRef {
    /// The MSHR.
    pub slot: L3Slot,
    /// Its uses before this one.
    pub epoch: u32,
}

/// On whose behalf a request travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// An L3 miss: its MSHR and line.
    Miss(MissRef, HostLine),
    /// A dirty line that left L3.
    WriteBack,
    /// A line that a core writes back and will wait for.
    Persist(CoreId),
    /// A line of a page under promotion.
    Promotion,
    /// A line of a page under demotion.
    Demotion,
    /// A page for the page cache in host DRAM.
    PageFill,
    /// A dirty page that left it.
    PageWriteBack,
}

/// A request from the moment the host wants to send it until its answer is back.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// On whose behalf it travels.
    pub purpose: Purpose,
    /// What is asked.
    pub op: RequestOp,
    /// Of which line.
    pub line: LineAddr,
    /// On behalf of which core, if of one.
    pub source: Option<CoreId>,
    /// Whether the page misses L3 for the first time: a compulsory miss.
    pub is_first_touch: bool,
    /// When the L3 miss was found (before any queue).
    pub issued: Time,
    /// When it was handed to the link.
    pub sent: Time,
    /// When it arrived at the device.
    pub arrived: Time,
    /// The device's answer, once given.
    pub response: Option<Response>,
}

/// All requests in flight.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    slots: Vec<Option<Pending>>,
    free: Vec<u32>,
    opened: u64,
    closed: u64,
}

impl Requests {
    /// Opens a request.
    pub fn open(&mut self, pending: Pending) -> RequestId {
        self.opened += 1;
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(pending);
                RequestId::new(index)
            }
            None => {
                self.slots.push(Some(pending));
                RequestId::from_index(self.slots.len() - 1)
            }
        }
    }

    /// The request, which is open.
    #[inline]
    pub fn get(&mut self, id: RequestId) -> &mut Pending {
        self.slots[id.index()]
            .as_mut()
            .expect("a request is open until its answer is back")
    }

    /// Records the device's answer; each request gets one (B6).
    pub fn answer(&mut self, response: Response) {
        let pending = self.get(response.request);
        assert!(pending.response.is_none(), "a request is answered once");
        pending.response = Some(response);
    }

    /// Closes a request that the device need not answer.
    pub fn withdraw(&mut self, id: RequestId) -> Pending {
        let pending = self.slots[id.index()]
            .take()
            .expect("a request is closed once");
        self.free.push(id.get());
        self.closed += 1;
        pending
    }

    /// Closes a request whose answer is back.
    pub fn close(&mut self, id: RequestId) -> (Pending, Response) {
        let pending = self.withdraw(id);
        let response = pending
            .response
            .expect("an answer comes back after it was given");
        (pending, response)
    }

    /// Requests opened and closed so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.opened, self.closed)
    }

    /// Requests that are open.
    pub fn open_count(&self) -> u64 {
        self.opened - self.closed
    }

    /// Checks that opened = closed + open.
    pub fn audit(&self) {
        let open = self.slots.iter().flatten().count() as u64;
        assert_eq!(
            self.opened,
            self.closed + open,
            "every request is open or answered"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firmware::{Answer, Breakdown, Served};

    fn pending() -> Pending {
        Pending {
            purpose: Purpose::WriteBack,
            op: RequestOp::Write,
            line: LineAddr::new(1),
            source: None,
            is_first_touch: false,
            issued: Time::ZERO,
            sent: Time::ZERO,
            arrived: Time::ZERO,
            response: None,
        }
    }

    fn response(request: RequestId) -> Response {
        Response {
            request,
            answer: Answer::Written,
            at: Time::ZERO,
            served: Served::Write,
            breakdown: Breakdown::default(),
        }
    }

    #[test]
    fn a_request_is_opened_answered_and_closed_and_its_name_used_again() {
        let mut requests = Requests::default();
        let first = requests.open(pending());
        let second = requests.open(pending());
        assert_ne!(first, second);
        requests.answer(response(first));
        requests.close(first);
        requests.audit();
        assert_eq!(requests.open(pending()), first);
        assert_eq!(requests.open_count(), 2);
    }

    #[test]
    #[should_panic(expected = "answered once")]
    fn a_second_answer_is_a_bug() {
        let mut requests = Requests::default();
        let id = requests.open(pending());
        requests.answer(response(id));
        requests.answer(response(id));
    }
}
