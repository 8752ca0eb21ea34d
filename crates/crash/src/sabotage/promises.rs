//! Bugs of a device without a battery: it promises what it cannot keep.

use super::{Action, Bug, Sabotage};
use crate::powered_device::Setup;
use firmware::{ControllerConfig, Platform, PowerLossProtection, Record, Request, RequestOp};

impl<P: Platform> Sabotage<P> {
    /// The firmware is about to be given a request.
    pub fn note(&mut self, request: &Request) {
        let is_early = match self.bug {
            Some(Bug::FlushAnsweredEarly) => request.op == RequestOp::Flush,
            Some(Bug::ThroughAnsweredEarly) => request.op == RequestOp::WritePageThrough,
            _ => false,
        };
        match is_early {
            true => self.early.insert(request.id),
            false => self.early.remove(&request.id),
        };
    }

    /// Maps a page when it does the next thing, or, if that is an early answer, after it.
    pub(super) fn spoil_promises(&mut self, bug: Bug, action: Action) {
        if let Action::Respond(response) = action
            && self.early.contains(&response.request)
        {
            self.pass(action);
            return self.release();
        }
        self.release();
        match (bug, action) {
            (Bug::BatteryAssumed, _) => self.pass(action),
            (_, Action::Record(Record::Mapped(..))) => self.held.push(action),
            _ => self.pass(action),
        }
    }
}

/// What a firmware with the bug believes of its device.
pub fn belief(setup: &Setup, bug: Option<Bug>) -> ControllerConfig {
    let mut config = setup.config.clone();
    if bug == Some(Bug::BatteryAssumed) {
        config.ssd.power_loss_protection = PowerLossProtection::Battery;
    }
    config
}
