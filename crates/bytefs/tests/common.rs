//! What several tests need.

use port::Clock;
use units::{Picos, Time};

/// Time that stands still. One for all tests, so that they share the code of a file system on it.
#[derive(Clone)]
pub struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Time {
        Time::ZERO
    }

    async fn sleep_until(&self, _: Time) {}

    async fn spend(&self, _: Picos) {}
}
