//! What a read finds in the page cache, and what of a file it wants from the device.

use crate::layout::BLOCK;
use crate::state::State;
use crate::{BlockNo, Ino};

/// Pages of one read of the device.
const READ_PAGES: u64 = 256;
/// Reads of the device that are under way at a time for one read of a program.
const READ_RUNS: usize = 16;
/// Pages that are read ahead of a program that reads in order.
const AHEAD_PAGES: u64 = 32;

const PAGE: u64 = BLOCK as u64;

/// What a read still needs.
pub(super) enum Need {
    /// Nothing: it is all there.
    Nothing,
    /// Where its pages lie: an operation that was taken back has forgotten it.
    Extents,
    /// These pages.
    Pages { runs: Vec<Run>, epoch: u64 },
}

/// Pages that lie behind each other on the device.
pub(super) struct Run {
    pub first: u64,
    pub block: BlockNo,
    pub count: u32,
}

/// Copies what is cached, and says what is missing.
pub(super) fn copy_out(
    state: &mut State,
    ino: Ino,
    at: u64,
    copied: &mut u64,
    out: &mut [u8],
    reads_ahead: bool,
) -> Need {
    let Some(node) = state.nodes.get_mut(&ino) else {
        return Need::Nothing;
    };
    // Without them every page would be a hole.
    if node.extents.is_none() {
        return Need::Extents;
    }
    let end = at + out.len() as u64;
    let mut here = *copied;
    let mut runs: Vec<Run> = Vec::new();
    while here < end && runs.len() < READ_RUNS {
        let page = here / PAGE;
        let begin = (here % PAGE) as usize;
        let count = (BLOCK - begin).min((end - here) as usize);
        let target = &mut out[(here - at) as usize..][..count];
        match node.pages.get_mut(&page) {
            Some(cached) => {
                cached.is_referenced = true;
                target.copy_from_slice(&cached.data[begin..begin + count]);
            }
            None => {
                let extent = node.extents.as_ref().and_then(|extents| extents.find(page));
                match extent.filter(|extent| extent.is_written) {
                    None => target.fill(0),
                    Some(extent) => {
                        let is_sequential = node.read_end == at && at > 0;
                        let ahead = if is_sequential && reads_ahead {
                            AHEAD_PAGES
                        } else {
                            0
                        };
                        let last = end.div_ceil(PAGE) + ahead;
                        let last = last.min(extent.end()).min(node.size.div_ceil(PAGE));
                        let last = last.min(page + READ_PAGES).max(page + 1);
                        let cached = node.pages.range(page..last).next();
                        let last = cached.map_or(last, |(next, _)| *next);
                        runs.push(Run {
                            first: page,
                            block: extent.block_of(page),
                            count: (last - page) as u32,
                        });
                        here = last * PAGE;
                        continue;
                    }
                }
            }
        }
        here += count as u64;
        if runs.is_empty() {
            *copied = here;
        }
    }
    if !runs.is_empty() {
        let epoch = node.epoch.now();
        return Need::Pages { runs, epoch };
    }
    node.read_end = end;
    Need::Nothing
}
