//! What is fetched ahead: section `ssd.prefetch`.

use super::check;
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// Which pages are fetched ahead of the host's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrefetcherKind {
    /// None.
    None,
    /// Those after the page that was asked for.
    NextN,
    /// Those at the distance at which a core's last pages followed each other.
    Stride,
    /// Those at the one distance that would have brought most pages in time (HPCA'16).
    BestOffset,
    /// Those of the region that were asked for last time.
    Spatial,
}

/// Whether fetching ahead depends on what comes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Throttle {
    /// It does not.
    Off,
    /// Fewer pages are fetched ahead while few of them are asked for.
    ByUse,
}

units::parameters! {
    /// Which pages are fetched ahead, when and how many.
    pub struct PrefetchConfig: "ssd.prefetch" {
        /// Which pages are fetched ahead.
        kind: PrefetcherKind, "none, next_n, stride, best_offset or spatial",
            "SkyByte VI-A says only that there is one (D7)";
        /// Pages fetched ahead at one trigger.
        pages: u32, "0 to 64", "SkyByte VI-A, Base-CSSD's prefetcher; depth ours (D7)";
        /// Whether the first use of a page fetched ahead fetches ahead too, as a miss does.
        on_first_use: bool, "true or false", "ours: off, next-N on misses only";
        /// Whether pages are fetched ahead whatever comes of it (`off`), or only one trigger in 16
        /// is followed while fewer than a quarter of the last 256 such pages were asked for
        /// (`by_use`).
        throttle: Throttle, "off or by_use", "ours: off";
        /// MSHRs that are left to demand misses: a page is fetched ahead if more are free.
        reserve: u32, "0 to 65535", "ours: 1";
        /// Streams of each core that the stride prefetcher tells apart.
        streams: u32, "1 to 64", "ours: 8";
        /// Regions of 64 pages that the spatial prefetcher remembers, 24 B each.
        regions: u32, "1 to 1048576", "ours: 4096, 1 GiB of pages";
    }
}

impl PrefetchConfig {
    /// Every parameter that is out of range, as a sentence.
    pub(super) fn validate(&self) -> impl Iterator<Item = String> {
        [
            check::number("ssd.prefetch.pages", self.pages, 0, 64),
            check::number("ssd.prefetch.reserve", self.reserve, 0, 65_535),
            check::number("ssd.prefetch.streams", self.streams, 1, 64),
            check::number("ssd.prefetch.regions", self.regions, 1, 1 << 20),
        ]
        .into_iter()
        .flatten()
    }
}
