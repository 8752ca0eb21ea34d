//! When a read is answered with SkyByte-Delay instead of data (SkyByte §III-A, Algorithm 1;
//! `ftl.estimator`, `os.switch_threshold`, `ssd.delay_answer_cost`).

use crate::config::ControllerConfig;
use crate::ftl::{Estimate, EstimatorKind};
use crate::platform::{NandTag, Platform, RequestOp};
use units::{Picos, Time};

/// GC "typically lasts for milliseconds" (SkyByte §III-A), so a read behind it is delayed at once;
/// only a threshold beyond every GC, which stands for no switching at all, keeps it waiting.
const GC_WAIT: Picos = Picos::from_micros(1_000_000);

/// When the host had better switch threads.
#[derive(Clone)]
pub(crate) struct DelayPolicy {
    /// None: SkyByte-Delay is not used.
    threshold: Option<Picos>,
    /// The flash is asked when a page will come; its own estimate is made all the same, for flash
    /// that cannot know.
    asks_flash: bool,
    /// What remains is too long if it is longer than the threshold less this.
    margin: Picos,
    answer_cost: Picos,
}

impl DelayPolicy {
    pub(crate) fn new(config: &ControllerConfig) -> Self {
        let is_exact = config.ftl.estimator == EstimatorKind::Exact;
        Self {
            threshold: config.delay_enabled.then_some(config.switch_threshold),
            asks_flash: config.delay_enabled && is_exact,
            margin: match is_exact {
                true => Picos::new(1),
                false => Picos::ZERO,
            },
            answer_cost: config.ssd.delay_answer_cost,
        }
    }

    /// Whether anybody wants to know when a page will come.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.threshold.is_some()
    }

    /// When flash says that the operation will end, if it is asked and knows; as an estimate from
    /// that instant on.
    #[inline]
    pub(crate) fn ask_flash<P: Platform>(
        &self,
        tag: NandTag,
        platform: &P,
    ) -> Option<(Time, Estimate)> {
        if !self.asks_flash {
            return None;
        }
        let end = platform.expected_end(tag)?;
        let nothing = Estimate {
            latency: Picos::ZERO,
            gc_in_progress: false,
        };
        Some((end, nothing))
    }

    /// Whether a request that would go on at `at` is delayed for a page that is expected then, with
    /// GC before it or not.
    #[inline]
    pub(crate) fn delays(
        &self,
        at: Time,
        op: RequestOp,
        (expected, is_behind_gc): (Time, bool),
    ) -> bool {
        let may_delay = match op {
            RequestOp::Read { delay_allowed } | RequestOp::Own { delay_allowed } => delay_allowed,
            _ => false,
        };
        match self.threshold {
            Some(threshold) if may_delay => {
                let remains = expected.saturating_since(at);
                remains + self.margin > threshold || is_behind_gc && GC_WAIT > threshold
            }
            _ => false,
        }
    }

    /// Until which instant such a request is delayed; None: SkyByte-Delay is not used.
    pub(crate) fn delays_until(&self, (expected, is_behind_gc): (Time, bool)) -> Option<Time> {
        let threshold = self.threshold?;
        if is_behind_gc && GC_WAIT > threshold {
            return Some(Time::MAX);
        }
        let until = expected.as_picos().saturating_sub(threshold.get());
        Some(Time::from_picos(until) + self.margin)
    }

    /// What the answer takes.
    pub(crate) fn answer_cost(&self) -> Picos {
        self.answer_cost
    }
}
