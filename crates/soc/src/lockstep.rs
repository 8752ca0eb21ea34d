//! Who does the same as a device, in lockstep with it.

use crate::work_times::GivenTimes;
use firmware::{Request, Response};
use units::Time;

/// A partner that is told of each read, write and event that reaches a device, before the device
/// acts and when it has: firmware in another process, which does the same and whose measured times
/// the device is given. `()` is nobody.
pub trait Lockstep {
    /// Whether there is somebody.
    fn is_there(&self) -> bool;
    /// A request arrives; `times` are where the device takes its own from, if it is given any.
    fn request(&mut self, now: Time, request: Request, times: Option<&mut GivenTimes>);
    /// An event of the device is due.
    fn event(&mut self, now: Time, times: Option<&mut GivenTimes>);
    /// The device answers a request.
    fn answered(&mut self, response: Response);
    /// The device has done what it does about the request or the event.
    fn acted(&mut self, now: Time);
}

impl Lockstep for () {
    #[inline(always)]
    fn is_there(&self) -> bool {
        false
    }
    #[inline(always)]
    fn request(&mut self, _now: Time, _request: Request, _times: Option<&mut GivenTimes>) {}
    #[inline(always)]
    fn event(&mut self, _now: Time, _times: Option<&mut GivenTimes>) {}
    #[inline(always)]
    fn answered(&mut self, _response: Response) {}
    #[inline(always)]
    fn acted(&mut self, _now: Time) {}
}
