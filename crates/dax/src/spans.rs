//! Which pages of a file are in persistent memory, and because of whom: explicit mappings and
//! upgraded ranges in one structure of intervals (thesis §2.4, §5.2.3).

use alloc::vec::Vec;
use core::ops::Range;

/// Why pages are in persistent memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// A program has asked for it.
    Request,
    /// The policy has decided it.
    Policy,
}

/// Pages that are in persistent memory for the same reasons.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Which.
    pub pages: Range<u64>,
    /// A program has asked for it.
    pub is_requested: bool,
    /// The policy has decided it.
    pub is_upgraded: bool,
}

impl Span {
    fn reason(&mut self, by: By) -> &mut bool {
        match by {
            By::Request => &mut self.is_requested,
            By::Policy => &mut self.is_upgraded,
        }
    }

    fn reasons(&self) -> (bool, bool) {
        (self.is_requested, self.is_upgraded)
    }
}

/// The spans of a file: ascending, disjoint, each as long as it can be.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Spans(Vec<Span>);

impl Spans {
    /// The spans.
    pub fn iter(&self) -> impl Iterator<Item = &Span> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The span that a page is in.
    pub fn find(&self, page: u64) -> Option<&Span> {
        let at = self.0.partition_point(|span| span.pages.end <= page);
        self.0.get(at).filter(|span| span.pages.start <= page)
    }

    /// Whether all these pages are there because of somebody.
    pub fn has_all(&self, pages: Range<u64>, by: By) -> bool {
        let mut next = pages.start;
        for span in &self.0 {
            let is_reason = match by {
                By::Request => span.is_requested,
                By::Policy => span.is_upgraded,
            };
            if is_reason && span.pages.start <= next && span.pages.end > next {
                next = span.pages.end;
            }
        }
        next >= pages.end
    }

    /// Adds a reason, and gives the pages that had none.
    pub fn add(&mut self, pages: Range<u64>, by: By) -> Vec<Range<u64>> {
        let mut new = Vec::new();
        let mut next = pages.start;
        for span in &self.0 {
            let end = span.pages.start.min(pages.end);
            if next < end {
                new.push(next..end);
            }
            next = next.max(span.pages.end);
        }
        if next < pages.end {
            new.push(next..pages.end);
        }
        for gap in &new {
            self.0.push(Span {
                pages: gap.clone(),
                is_requested: false,
                is_upgraded: false,
            });
        }
        self.0.sort_unstable_by_key(|span| span.pages.start);
        self.set(pages, by, true);
        new
    }

    /// Takes a reason away, and gives the pages that have none then.
    pub fn remove(&mut self, pages: Range<u64>, by: By) -> Vec<Range<u64>> {
        self.set(pages, by, false)
    }

    /// Sets a reason of pages that are there, and gives those that have none any more.
    fn set(&mut self, pages: Range<u64>, by: By, is_set: bool) -> Vec<Range<u64>> {
        let mut gone = Vec::new();
        let mut spans: Vec<Span> = Vec::with_capacity(self.0.len() + 2);
        for span in self.0.drain(..) {
            let from = pages.start.clamp(span.pages.start, span.pages.end);
            let to = pages.end.clamp(from, span.pages.end);
            let parts = [
                (span.pages.start..from, false),
                (from..to, true),
                (to..span.pages.end, false),
            ];
            for (part, is_within) in parts {
                let mut part = Span {
                    pages: part,
                    ..span.clone()
                };
                if part.pages.is_empty() {
                    continue;
                }
                if is_within {
                    *part.reason(by) = is_set;
                }
                match spans.last_mut() {
                    _ if part.reasons() == (false, false) => gone.push(part.pages),
                    Some(before)
                        if before.pages.end == part.pages.start
                            && before.reasons() == part.reasons() =>
                    {
                        before.pages.end = part.pages.end;
                    }
                    _ => spans.push(part),
                }
            }
        }
        self.0 = spans;
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Stream;

    const PAGES: usize = 64;

    #[test]
    fn it_is_as_two_bits_for_each_page() {
        for seed in 0..300 {
            let mut stream = Stream::new(seed, "spans");
            let mut spans = Spans::default();
            let mut model = [(false, false); PAGES];
            for _ in 0..60 {
                let start = stream.below(PAGES as u64);
                let end = start + stream.below(PAGES as u64 + 1 - start);
                let by = [By::Request, By::Policy][stream.below(2) as usize];
                let is_add = stream.below(2) == 0;
                let before = model;
                for (requested, upgraded) in &mut model[start as usize..end as usize] {
                    *(if by == By::Request {
                        requested
                    } else {
                        upgraded
                    }) = is_add;
                }
                let changed = match is_add {
                    true => spans.add(start..end, by),
                    false => spans.remove(start..end, by),
                };
                for page in 0..PAGES {
                    let is_there = |reasons: (bool, bool)| reasons != (false, false);
                    let differs = is_there(before[page]) != is_there(model[page]);
                    let said = changed.iter().any(|part| part.contains(&(page as u64)));
                    assert_eq!(said, differs, "page {page}, seed {seed}");
                    let found = spans.find(page as u64).map(Span::reasons);
                    let expected = Some(model[page]).filter(|reasons| is_there(*reasons));
                    assert_eq!(found, expected, "page {page}, seed {seed}");
                }
                let has_all = model[start as usize..end as usize]
                    .iter()
                    .all(|(is, _)| *is);
                assert_eq!(spans.has_all(start..end, By::Request), has_all);
                for pair in spans.0.windows(2) {
                    let touch = pair[0].pages.end == pair[1].pages.start;
                    assert!(pair[0].pages.end <= pair[1].pages.start);
                    assert!(!touch || pair[0].reasons() != pair[1].reasons());
                }
            }
        }
    }
}
