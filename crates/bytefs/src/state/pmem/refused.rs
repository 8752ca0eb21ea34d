//! What was asked for and is not done, and why: who asks is told a number.

use crate::Ino;
use core::ops::Range;
use std::collections::VecDeque;
use units::Time;

/// Of more than these the oldest is forgotten.
const KEPT: usize = 16;
/// Characters that are kept of what was asked.
const SHOWN: usize = 64;

/// Something that was asked for and is not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// When, the last time.
    pub at: Time,
    /// Of which file; None: a setting of the mount.
    pub ino: Option<Ino>,
    /// Of which pages of it; None: it names none.
    pub pages: Option<Range<u64>>,
    /// What: a value of the attribute, a setting, or a move of a range.
    pub asked: String,
    /// Why it is not done: one sentence.
    pub why: String,
    /// So often one after the other.
    pub times: u64,
}

/// The last of them, the newest at the end.
#[derive(Default)]
pub(crate) struct Refusals(VecDeque<Refused>);

impl Refusals {
    /// Keeps one. What was refused before for the same reason, as a move that is tried again, is
    /// counted and not kept twice.
    pub fn keep(&mut self, mut refused: Refused) {
        if let Some((at, _)) = refused.asked.char_indices().nth(SHOWN) {
            refused.asked.truncate(at);
            refused.asked.push('…');
        }
        let is_same = |old: &Refused| {
            (old.ino, &old.pages, &old.asked, &old.why)
                == (refused.ino, &refused.pages, &refused.asked, &refused.why)
        };
        if let Some(old) = self.0.iter().position(is_same) {
            let old = self.0.remove(old);
            refused.times += old.map_or(0, |old| old.times);
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(refused);
    }

    /// All that are kept.
    pub fn all(&self) -> impl Iterator<Item = &Refused> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(at: u64, asked: &str) -> Refused {
        Refused {
            at: Time::from_picos(at),
            ino: Some(Ino(7)),
            pages: None,
            asked: asked.to_owned(),
            why: "it is wrong".to_owned(),
            times: 1,
        }
    }

    #[test]
    fn what_is_refused_again_is_counted_and_the_oldest_is_forgotten() {
        let mut refusals = Refusals::default();
        for at in 0..3 {
            refusals.keep(refused(at, "a"));
            refusals.keep(refused(at, "b"));
        }
        let seen = |refusals: &Refusals| {
            let seen = refusals.all();
            seen.map(|of| (of.asked.clone(), of.times, of.at.as_picos()))
                .collect::<Vec<_>>()
        };
        assert_eq!(seen(&refusals), [("a".into(), 3, 2), ("b".into(), 3, 2)]);
        (0..KEPT).for_each(|nth| refusals.keep(refused(9, &nth.to_string())));
        assert_eq!(refusals.all().count(), KEPT);
        assert!(refusals.all().all(|of| of.times == 1), "a and b are gone");
    }

    #[test]
    fn little_is_kept_of_what_is_long() {
        let mut refusals = Refusals::default();
        refusals.keep(refused(0, &"ä".repeat(60_000)));
        let kept = refusals.all().next().expect("it is kept");
        assert_eq!(kept.asked, format!("{}…", "ä".repeat(SHOWN)));
    }
}
