//! Which pages the program keeps on the device, where they survive a loss of power (SkyByte §IV).

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use units::{Bytes, Lpa, PageSize, ParseQuantityError, Ratio};

const EXPECTED: &str =
    "none, all, or the first or last part of the pages, such as \"first 25%\" or \"last 64MiB\"";

/// How much of the program's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// A share of them.
    Share(Ratio),
    /// So many bytes of them.
    Size(Bytes),
}

/// Pages pinned to the device, of the canonical page list, which is in order of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Pinned {
    /// No page.
    None,
    /// Every page.
    All,
    /// Those with the lowest addresses.
    First(Extent),
    /// Those with the highest addresses.
    Last(Extent),
}

impl Extent {
    /// So much of `count` pages, parts of a page as a whole one.
    fn pages(self, page: PageSize, count: u64) -> u64 {
        let pages = match self {
            Self::Share(share) => count - share.rest().of(count),
            Self::Size(size) => size.get().div_ceil(page.bytes().get()),
        };
        pages.min(count)
    }
}

impl Pinned {
    /// The pages, of `count`.
    pub fn pages(self, page: PageSize, count: u64) -> Range<Lpa> {
        let (first, end) = match self {
            Self::None => (0, 0),
            Self::All => (0, count),
            Self::First(extent) => (0, extent.pages(page, count)),
            Self::Last(extent) => (count - extent.pages(page, count), count),
        };
        Lpa::new(first)..Lpa::new(end)
    }
}

impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::All => f.write_str("all"),
            Self::First(extent) => write!(f, "first {extent}"),
            Self::Last(extent) => write!(f, "last {extent}"),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => share.fmt(f),
            Self::Size(size) => size.fmt(f),
        }
    }
}

impl FromStr for Pinned {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseQuantityError::new(text, EXPECTED);
        match text.trim() {
            "none" => return Ok(Self::None),
            "all" => return Ok(Self::All),
            _ => {}
        }
        let (end, extent) = text.trim().split_once(' ').ok_or_else(fail)?;
        let share = extent
            .parse()
            .ok()
            .filter(|share: &Ratio| share.is_at_most_one());
        let extent = match (share, extent.parse()) {
            (Some(share), _) => Extent::Share(share),
            (None, Ok(size)) => Extent::Size(size),
            (None, Err(_)) => return Err(fail()),
        };
        match end {
            "first" => Ok(Self::First(extent)),
            "last" => Ok(Self::Last(extent)),
            _ => Err(fail()),
        }
    }
}

impl TryFrom<String> for Pinned {
    type Error = ParseQuantityError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Pinned> for String {
    fn from(pinned: Pinned) -> Self {
        pinned.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(text: &str, count: u64) -> Range<u64> {
        let pinned: Pinned = text.parse().expect("the text names pages");
        assert_eq!(pinned.to_string(), text, "it is printed as it is read");
        let pages = pinned.pages(PageSize::KIB_4, count);
        pages.start.get()..pages.end.get()
    }

    #[test]
    fn a_share_or_a_size_is_taken_from_either_end_in_whole_pages() {
        assert_eq!(pages("none", 10), 0..0);
        assert_eq!(pages("all", 10), 0..10);
        assert_eq!(pages("first 25%", 8), 0..2);
        // A part of a page is pinned with the page.
        assert_eq!(pages("first 25%", 10), 0..3);
        assert_eq!(pages("last 1/8", 16), 14..16);
        assert_eq!(pages("last 8KiB", 10), 8..10);
        assert_eq!(pages("first 4097B", 10), 0..2);
        assert_eq!(pages("first 1GiB", 10), 0..10);
        assert_eq!(pages("last 100%", 10), 0..10);
        assert_eq!(pages("last 0%", 10), 10..10);
    }

    #[test]
    fn what_names_no_pages_is_refused_with_what_would() {
        for text in [
            "",
            "some",
            "25%",
            "first",
            "first 101%",
            "middle 25%",
            "last 12",
        ] {
            let error = text.parse::<Pinned>().expect_err(text).to_string();
            assert!(error.contains("first 25%"), "{error}");
        }
    }
}
