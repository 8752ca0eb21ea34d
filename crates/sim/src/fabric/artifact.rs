//! What SkyByte's artifact does between L2 and the device, where parameters ask for it.

use super::Fabric;
use crate::event::Event;
use crate::in_loop::InLoop;
use crate::request::MissRef;
use firmware::RequestOp;
use host::placement::Location;
use host::{HostLine, MissKind};
use units::{Lpa, Time};

impl Fabric {
    /// Whether what a run leaves in the log is drained at its start (`run.drain_log`).
    pub fn drains_log(&self) -> bool {
        self.drains_log
    }

    /// What is in the log goes to flash from now on; of pages `at_hand` nothing is read for that.
    pub fn drain_log(&mut self, at_hand: Vec<Lpa>) {
        let now = self.queue.now();
        let what = |_: &mut InLoop| unreachable!("run.drain_log is refused in the loop");
        self.on_device("only a device has a log", now, what, |device, host| {
            device.with(host, |controller, platform| {
                controller.drain_log_at_hand(now, at_hand, platform);
            });
        });
    }

    /// What a miss asks of the device.
    pub(super) fn miss_op(&self, kind: MissKind) -> RequestOp {
        let is_store = kind == MissKind::Ownership;
        let may_delay = kind == MissKind::Load || is_store && self.stores_switch;
        self.op_of(kind, self.may_switch && may_delay)
    }

    /// What a miss asks of the device that must not be answered by SkyByte-Delay.
    pub(crate) fn patient_op(&self, kind: MissKind) -> RequestOp {
        self.op_of(kind, false)
    }

    fn op_of(&self, kind: MissKind, delay_allowed: bool) -> RequestOp {
        if kind == MissKind::Ownership && self.owns_by_write {
            RequestOp::Own { delay_allowed }
        } else {
            RequestOp::Read { delay_allowed }
        }
    }

    /// Whether dirty lines that leave L2 are lost (`cpu.l2_victims`).
    #[inline]
    pub(crate) fn loses_l2_victims(&self) -> bool {
        self.loses_l2_victims
    }

    /// A line has been found in L3. If dirty victims of L2 are lost, a line is dirty in L3 because
    /// a store found it there.
    #[inline]
    pub(crate) fn note_store(&mut self, line: HostLine, kind: MissKind) {
        if self.loses_l2_victims && kind == MissKind::Ownership && line.is_data() {
            self.llc.make_dirty(line);
        }
    }

    /// The answer to a written line puts it into L3 again (`link.write_echo`). Where that drives
    /// another dirty line out, it does so again. An answer that has come takes its turn at L3; one
    /// that is to come, from host DRAM, must not take it from those before.
    ///
    /// Echoes that drive each other out are as many as there are dirty lines beyond L3. The
    /// artifact has no write credits; here an echo that would find none left is let go, or reads
    /// would wait for ever for those that the others return.
    pub(super) fn echo(&mut self, at: Time, line: HostLine) {
        if self.write_echo && self.writes_outstanding < self.write_credits {
            let has_come = at <= self.queue.now();
            let at = if has_come { self.l3_turn(at) } else { at };
            self.queue.push(at, Event::L3WriteBack(line));
        }
    }

    /// The line that an L3 miss is for.
    pub(crate) fn missed_line(&self, miss: MissRef) -> HostLine {
        self.llc.line(miss.slot)
    }

    /// When a page is expected in device DRAM; nothing if it is there, or not on the device.
    pub(crate) fn page_expected(&self, lpa: Lpa) -> Option<Time> {
        let is_on_device = self.placement.locate(lpa) == Location::Device;
        if let Some(device) = self.in_loop.believed() {
            return device.expected(lpa).filter(|_| is_on_device);
        }
        let device = self.device.as_ref().filter(|_| is_on_device)?;
        device.controller.page_expected(lpa)
    }
}
