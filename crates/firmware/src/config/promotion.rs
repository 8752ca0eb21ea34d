//! When a page is offered to the host: section `ssd.promotion`.

use super::check;
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// Which uses of a cached page make it hot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromotionCounts {
    /// Every read and write of the page while it is cached, or that waits for it.
    Uses,
    /// Only what the data cache serves at once: reads that hit it, and writes if there is no log.
    CacheHits,
}

units::parameters! {
    /// Which pages are hot and offered to the host.
    pub struct PromotionConfig: "ssd.promotion" {
        /// Which uses of a cached page count towards ssd.promotion.threshold.
        counts: PromotionCounts, "uses or cache_hits", "ours (uses); SkyByte's artifact: cache_hits";
        /// Accesses to a cached page beyond which it is offered to the host.
        threshold: u32, "1 to 1000000", "ours; the paper gives none (D20)";
        /// Uses that a fetch of the page from flash counts as, if the host has asked for it, beside
        /// the use itself.
        fetch_uses: u32, "0 to 1000000", "ours (0): SkyByte III-C counts accesses";
        /// Whether the uses of a page that left the data cache count on when the host asks for it
        /// again. A page that is fetched ahead, declined or promoted starts anew.
        remembers: bool, "true or false", "ours (false): SkyByte III-C counts in the data cache";
    }
}

impl PromotionConfig {
    /// A parameter that is out of range, as a sentence.
    pub(super) fn validate(&self) -> Option<String> {
        let threshold = check::number("ssd.promotion.threshold", self.threshold, 1, 1_000_000);
        let fetch_uses = || {
            let key = "ssd.promotion.fetch_uses";
            check::number(key, self.fetch_uses, 0, 1_000_000)
        };
        threshold.or_else(fetch_uses)
    }
}
