//! The clock that asynchronous code above a device sees (architecture B11).

use core::future::Future;
use units::{Picos, Time};

/// A clock, virtual or on the wall; and the processors of the host.
pub trait Clock {
    /// The time it is.
    fn now(&self) -> Time;

    /// Waits until then; not at all if that has passed.
    fn sleep_until(&self, at: Time) -> impl Future<Output = ()>;

    /// Keeps one of the host's processors busy for a time, behind those who asked before.
    fn spend(&self, span: Picos) -> impl Future<Output = ()>;
}
