//! The firmware process of a device without a host.

use super::InLoop;
use crate::error::SimError;
use ::firmware::{Request, Response};
use inloop::{Tape, What};
use soc::{GivenTimes, Lockstep};
use units::Time;

/// The firmware process, if the device alone does not answer.
#[derive(Debug)]
pub(crate) struct Partner(pub(super) Option<Box<InLoop>>);

impl Lockstep for Partner {
    #[inline(always)]
    fn is_there(&self) -> bool {
        self.0.is_some()
    }

    #[cold]
    fn request(&mut self, now: Time, request: Request, times: Option<&mut GivenTimes>) {
        if let Some(in_loop) = &mut self.0 {
            in_loop.precede(now, |in_loop| in_loop.request(request), times);
        }
    }

    #[cold]
    fn event(&mut self, now: Time, times: Option<&mut GivenTimes>) {
        if let Some(in_loop) = &mut self.0 {
            in_loop.precede(now, |_| What::Event, times);
        }
    }

    #[cold]
    #[inline(never)]
    fn answered(&mut self, response: Response) {
        if let Some(in_loop) = &mut self.0 {
            in_loop.note_response(&response);
        }
    }

    #[cold]
    fn acted(&mut self, now: Time) {
        if let Some(in_loop) = &mut self.0 {
            in_loop.compare(now);
        }
    }
}

impl Partner {
    /// Why there is no going on, if so; `times` are those of the device.
    pub(crate) fn failure(&self, times: Option<&mut GivenTimes>) -> Option<SimError> {
        match &self.0 {
            Some(in_loop) => in_loop.failure().or_else(|| super::not_as_given(times)),
            None => super::not_of_this_run(times),
        }
    }

    /// The run is over: the times of the process's work, if there is one.
    ///
    /// # Errors
    /// Why they are worth nothing.
    pub(crate) fn end(
        &mut self,
        times: Option<&mut GivenTimes>,
        config_digest: [u8; 16],
    ) -> Result<Option<Tape>, SimError> {
        match &mut self.0 {
            Some(in_loop) => {
                super::all_done(times)?;
                in_loop.end(config_digest).map(Some)
            }
            None => super::all_taken(times).map(|()| None),
        }
    }
}
