//! Pages that programs ask to have in persistent memory, as the attribute of a file says it.

use crate::FsError;
use crate::layout::BLOCK;
use core::ops::Range;
use units::Bytes;

const PAGE: u64 = BLOCK as u64;

/// The extended attribute with which a program asks for pages in persistent memory.
pub const DAX_ATTRIBUTE: &[u8] = b"user.entresol.dax";

const WRONG: &str = "user.entresol.dax is `all`, or ranges of bytes as in `0B-2MiB,8MiB-10MiB`";

/// All pages that a file can have.
pub(crate) fn whole_file() -> Vec<Range<u64>> {
    core::iter::once(0..u64::MAX).collect()
}

/// The pages that a value of it asks for: `all`, or ranges of bytes.
///
/// # Errors
/// It is neither.
pub(crate) fn wanted_pages(value: &[u8]) -> Result<Vec<Range<u64>>, FsError> {
    let wrong = FsError::Invalid(WRONG);
    let text = core::str::from_utf8(value).map_err(|_| wrong.clone())?;
    if text.trim() == "all" {
        return Ok(whole_file());
    }
    let range = |text: &str| {
        let (from, to) = text.split_once('-')?;
        let number = |text: &str| match text.trim() {
            "0" => Some(0),
            text => text.parse().ok().map(Bytes::get),
        };
        let (from, to) = (number(from)?, number(to)?);
        (from < to).then(|| from / PAGE..to.div_ceil(PAGE))
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    ranges.ok_or(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_says_which_pages() {
        let pages = |text: &str| {
            let wanted = wanted_pages(text.as_bytes()).ok()?.into_iter();
            Some(
                wanted
                    .map(|pages| (pages.start, pages.end))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(pages("all"), Some(vec![(0, u64::MAX)]));
        assert_eq!(pages("0-8KiB"), Some(vec![(0, 2)]));
        let two = Some(vec![(0, 2), (256, 512)]);
        assert_eq!(pages("1B-4097B, 1MiB-2MiB"), two);
        for wrong in [
            "", "on", "0", "5-4", "0-0", "0-", "-4KiB", "0-4KiB,", "4KiB",
        ] {
            assert_eq!(pages(wrong), None, "{wrong}");
        }
        assert!(wanted_pages(&[255]).is_err());
    }
}
