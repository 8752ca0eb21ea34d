//! Ranges of single parameters: a sentence about a value that is out of one.

use alloc::format;
use alloc::string::String;
use units::{BytesPerSec, Picos, Ratio};

pub(super) fn number(key: &str, value: u32, least: u32, most: u32) -> Option<String> {
    let is_in = (least..=most).contains(&value);
    (!is_in).then(|| format!("{key} is {value}; it must be {least} to {most}"))
}

pub(super) fn span(key: &str, span: Picos, longest: Picos) -> Option<String> {
    (span > longest).then(|| format!("{key} is {span}; it must be at most {longest}"))
}

/// What some work takes: at most 1 ms.
pub(super) fn work(key: &str, cost: Picos) -> Option<String> {
    span(key, cost, Picos::from_micros(1_000))
}

pub(super) fn rate(key: &str, rate: BytesPerSec) -> Option<String> {
    let is_finite = (1_000_000..=1_000_000_000_000).contains(&rate.get());
    let is_in = is_finite || rate == BytesPerSec::UNLIMITED;
    (!is_in).then(|| format!("{key} is {rate}; it must be 1MB/s to 1000GB/s, or unlimited"))
}

pub(super) fn share(key: &str, share: Ratio) -> Option<String> {
    let is_in = share.numerator() != 0 && share.is_at_most_one();
    (!is_in).then(|| format!("{key} is {share}; it must be above 0%, at most 100%"))
}
