//! Pages of host DRAM that hold nothing, and which of them a page may take: any, or those of its
//! set.

use super::HostPage;
use units::Lpa;

/// The free pages.
#[derive(Clone, Debug)]
pub(super) enum FreePages {
    /// Any page takes any; the one freed last is taken first.
    Any(Vec<HostPage>),
    /// Page `p` takes one of the ways of set `p` modulo their number, the lowest first.
    Sets { ways: u32, is_free: Vec<bool> },
}

impl FreePages {
    /// `count` free pages, in sets if `ways` says how many are in one.
    pub fn new(count: u32, ways: Option<u32>) -> Self {
        match ways {
            None => Self::Any((0..count).rev().map(HostPage::new).collect()),
            Some(ways) => Self::Sets {
                ways,
                is_free: vec![true; count as usize],
            },
        }
    }

    /// The host pages that a page may take, if not any.
    pub fn set_of(&self, lpa: Lpa) -> Option<std::ops::Range<usize>> {
        let Self::Sets { ways, is_free } = self else {
            return None;
        };
        let set_count = (is_free.len() as u64 / u64::from(*ways)).max(1);
        let first = (lpa.get() % set_count) as usize * *ways as usize;
        Some(first..(first + *ways as usize).min(is_free.len()))
    }

    /// Takes a free page for `lpa`.
    pub fn take(&mut self, lpa: Lpa) -> Option<HostPage> {
        let set = self.set_of(lpa);
        match self {
            Self::Any(pages) => pages.pop(),
            Self::Sets { is_free, .. } => {
                let index = set?.find(|index| is_free[*index])?;
                is_free[index] = false;
                Some(HostPage::from_index(index))
            }
        }
    }

    /// A page holds nothing any more.
    pub fn give_back(&mut self, page: HostPage) {
        match self {
            Self::Any(pages) => pages.push(page),
            Self::Sets { is_free, .. } => is_free[page.index()] = true,
        }
    }

    /// How many there are for `lpa`.
    pub fn count_for(&self, lpa: Lpa) -> usize {
        match self {
            Self::Any(pages) => pages.len(),
            Self::Sets { is_free, .. } => {
                let set = self.set_of(lpa).into_iter().flatten();
                set.filter(|index| is_free[*index]).count()
            }
        }
    }

    /// All of them.
    pub fn pages(&self) -> Vec<HostPage> {
        match self {
            Self::Any(pages) => pages.clone(),
            Self::Sets { is_free, .. } => {
                let free = (0..is_free.len()).filter(|index| is_free[*index]);
                free.map(HostPage::from_index).collect()
            }
        }
    }
}
