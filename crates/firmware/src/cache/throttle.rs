//! Whether fetching ahead pays: of the pages that were fetched ahead lately, how many were asked
//! for (`ssd.prefetch.throttle`).

use crate::config::Throttle;

/// Pages after which it is judged anew.
const WINDOW: u32 = 256;
/// Triggers of which one is followed while fetching ahead does not pay, so that it is seen when it
/// does again.
const SAMPLE: u32 = 16;

/// What has become of the pages fetched ahead.
#[derive(Clone)]
pub(super) struct UseOfAhead {
    throttle: Throttle,
    /// Of the pages of this window: how many there were, and were asked for.
    judged: u32,
    used: u32,
    /// Fewer than a quarter of those of the window before were.
    is_low: bool,
    /// Triggers since it is low.
    triggers: u32,
}

impl UseOfAhead {
    pub(super) fn new(throttle: Throttle) -> Self {
        Self {
            throttle,
            judged: 0,
            used: 0,
            is_low: false,
            triggers: 0,
        }
    }

    /// A page that was fetched ahead has been asked for, or has left without.
    pub(super) fn judge(&mut self, was_used: bool) {
        self.judged += 1;
        self.used += u32::from(was_used);
        if self.judged == WINDOW {
            self.is_low = self.used < WINDOW / 4;
            (self.judged, self.used) = (0, 0);
        }
    }

    /// Whether what a miss triggers is fetched.
    pub(super) fn is_followed(&mut self) -> bool {
        if self.throttle == Throttle::Off || !self.is_low {
            return true;
        }
        self.triggers = self.triggers.wrapping_add(1);
        self.triggers.is_multiple_of(SAMPLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(throttle: Throttle, used: u32) -> UseOfAhead {
        let mut of_ahead = UseOfAhead::new(throttle);
        for page in 0..WINDOW {
            of_ahead.judge(page < used);
        }
        of_ahead
    }

    #[test]
    fn what_is_seldom_used_is_seldom_fetched() {
        let followed = |mut it: UseOfAhead| (0..160).filter(|_| it.is_followed()).count();
        assert_eq!(followed(judged(Throttle::ByUse, 64)), 160);
        assert_eq!(followed(judged(Throttle::ByUse, 63)), 10);
        assert_eq!(followed(judged(Throttle::Off, 0)), 160);
    }

    #[test]
    fn use_that_comes_back_is_seen() {
        let mut of_ahead = judged(Throttle::ByUse, 0);
        assert!(!of_ahead.is_followed());
        for _ in 0..WINDOW {
            of_ahead.judge(true);
        }
        assert!(of_ahead.is_followed());
    }
}
