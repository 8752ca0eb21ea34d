//! By which number a page chooses its set, where that is not its place in the run.
//!
//! A run's pages are numbered without holes ([`Lpa`]); a simulator that translates no addresses has
//! the program's own page numbers, and other pages meet in a set (`cpu.page_numbers = virtual`).
//! First-level caches are left out: a way of theirs is a page, so its number chooses no set.

use crate::port::HostLine;
use std::sync::Arc;
use units::Lpa;

/// By page of the run, the number that its sets are chosen by: in caches of lines, in the device's
/// data cache, among host pages in sets.
#[derive(Clone, Debug)]
pub struct PageNumbers(Arc<[u64]>);

impl PageNumbers {
    /// The numbers of pages 0, 1, 2, ….
    pub fn new(numbers: Vec<u64>) -> Self {
        Self(numbers.into())
    }
    /// That of a page; of one beyond the list, as host pages and prefetched ones may be, its own.
    #[inline]
    pub fn of(&self, lpa: Lpa) -> u64 {
        let listed = usize::try_from(lpa.get()).ok();
        let listed = listed.and_then(|index| self.0.get(index));
        listed.copied().unwrap_or(lpa.get())
    }
    /// Those of pages 0, 1, 2, ….
    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }
    /// The line whose set a line goes to: the same one of the page that the number names. Code and
    /// page tables stay.
    pub(crate) fn line(&self, line: HostLine) -> u32 {
        if !line.is_data() {
            return line.get();
        }
        let number = self.of(Lpa::new(u64::from(line.chunk()))) as u32;
        number << 6 | line.get() & 63
    }
}

/// Which number of a page chooses its set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageNumbering {
    /// Its place among the pages that the program touches, in ascending order.
    Canonical,
    /// Its virtual page number.
    Virtual,
}
