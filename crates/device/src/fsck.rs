//! Checks everything that an image says of itself against itself; changes nothing.

use crate::counters::Counters;
use crate::data::{LINE, astray, poison_of};
use crate::error::DeviceFileError;
use crate::failing::faults_of;
use crate::image::{Image, Purpose};
use crate::media::PageFault;
use crate::recovery;
use crate::unbegun::{self, Unbegun};
use firmware::Durable;
use nand::Faults;
use std::collections::BTreeSet;
use std::path::Path;
use units::{LineMask, Lpa, Ppa, TxId};

/// Problems that are written out; the others are counted.
const WRITTEN_OUT: usize = 100;
/// Pages between two calls of the observer.
const PAGES_AT_A_TIME: u64 = 4096;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The first problems, one sentence each.
    pub problems: Vec<String>,
    /// All of them.
    pub problem_count: u64,
    /// The first pages that flash has lost, one sentence each. The device knows it and answers with
    /// an error, so the image is sound all the same.
    pub lost: Vec<String>,
    /// All of them.
    pub lost_pages: u64,
    /// Pages on flash whose bytes were checked.
    pub mapped_pages: u64,
    /// Lines in the log that count.
    pub logged_lines: u64,
    /// Of these, lines of transactions that are not committed.
    pub uncommitted_lines: u64,
    /// Pages in buffers that count.
    pub buffered_pages: u64,
    /// Pages in frames of the data cache that count, as they do where frames survive.
    pub framed_pages: u64,
    /// Of these, pages of which only the lines that were written count: their rest had not come
    /// from flash.
    pub partly_framed_pages: u64,
    /// Transactions in the TxLog.
    pub committed_transactions: u64,
    /// Blocks that were ever programmed or erased.
    pub used_blocks: u64,
    /// Blocks that are never used again.
    pub retired_blocks: u64,
    /// Blocks in which a program has failed, to be emptied and retired.
    pub condemned_blocks: u64,
    /// Erases of the most worn block.
    pub most_wear: u32,
    /// Whether the last process was killed.
    pub was_cut_off: bool,
}

impl Findings {
    fn complain(&mut self, problem: impl FnOnce() -> String) {
        if self.problems.len() < WRITTEN_OUT {
            self.problems.push(problem());
        }
        self.problem_count += 1;
    }

    fn lose(&mut self, loss: impl FnOnce() -> String) {
        if self.lost.len() < WRITTEN_OUT {
            self.lost.push(loss());
        }
        self.lost_pages += 1;
    }
}

/// Checks an image that no process has open. `observe` is told from time to time how many pages
/// have been looked at, and says whether to go on; what was found until then is given.
///
/// # Errors
/// What cannot be opened cannot be checked.
pub fn check(
    path: &Path,
    observe: &mut dyn FnMut(u64) -> bool,
) -> Result<Findings, DeviceFileError> {
    let image = Image::open_for(path, Purpose::Check)?;
    let mut findings = Findings {
        was_cut_off: image.was_cut_off,
        ..Findings::default()
    };
    let unbegun = check_unbegun(&image, &mut findings, observe);
    check_tables(&image, &mut findings);
    count(&image, &mut findings);
    if let Some(pages) = unbegun {
        check_pages(&image, &mut findings, &mut |more| observe(pages + more));
    }
    Ok(findings)
}

/// Everything for which opening would refuse the tables, as opening sees it.
fn check_tables(image: &Image, findings: &mut Findings) {
    let parts = image.config.controller();
    firmware::check_tables(&parts, &image.tables, &mut |unsound| {
        findings.complain(|| unsound.to_string());
    });
    if let Some(fault) = recovery::incoming_fault(&image.tables, image.was_cut_off) {
        findings.complain(|| fault);
    }
    for (buffer, lpa, ppa, wrong) in astray(&image.tables, &image.media) {
        if let Some(wrong) = wrong {
            findings.complain(|| wrong.sentence(buffer, lpa, ppa));
        }
    }
}

fn count(image: &Image, findings: &mut Findings) {
    let tables = &image.tables;
    let committed: BTreeSet<_> = tables.committed().map(|(_, tx)| tx).collect();
    findings.committed_transactions = committed.len() as u64;
    for (_, line) in tables.logged() {
        findings.logged_lines += 1;
        let is_committed = line.tx == TxId::NONE || committed.contains(&line.tx);
        findings.uncommitted_lines += u64::from(!is_committed);
    }
    findings.buffered_pages = tables.buffered().count() as u64;
    let all = LineMask::full(image.config.page());
    for (_, kept) in tables.framed() {
        findings.framed_pages += 1;
        findings.partly_framed_pages += u64::from(kept.lines != all);
    }
    for (_, record) in tables.blocks() {
        findings.used_blocks += 1;
        findings.retired_blocks += u64::from(record.is_retired);
        let is_condemned = record.is_condemned && !record.is_retired;
        findings.condemned_blocks += u64::from(is_condemned);
        findings.most_wear = findings.most_wear.max(record.wear);
    }
}

/// Pages that have not begun, as opening sees them. How many there are, unless the observer has
/// ended it.
fn check_unbegun(
    image: &Image,
    findings: &mut Findings,
    observe: &mut dyn FnMut(u64) -> bool,
) -> Option<u64> {
    let unbegun = Unbegun::of(&image.tables, &image.media, image.layout);
    let mut pages = 0;
    for block in unbegun.blocks() {
        for ppa in unbegun.programmed(block) {
            findings.complain(|| unbegun::sentence(ppa));
        }
        let of_block = unbegun.pages(block);
        pages += of_block.end - of_block.start;
        if !observe(pages) {
            return None;
        }
    }
    Some(pages)
}

/// Each page that is mapped to a place that exists, against the flash.
fn check_pages(image: &Image, findings: &mut Findings, observe: &mut dyn FnMut(u64) -> bool) {
    let losses = Losses::of(image);
    for (lpa, ppa) in image.tables.mapped() {
        findings.mapped_pages += 1;
        if findings.mapped_pages.is_multiple_of(PAGES_AT_A_TIME) && !observe(findings.mapped_pages)
        {
            return;
        }
        if !image.layout.has_place(ppa) {
            continue;
        }
        match image.media.check(ppa, lpa) {
            Err(fault) => findings.complain(|| describe(fault, lpa, ppa)),
            Ok(()) => losses.look_at(image.media.page(ppa), (lpa, ppa), findings),
        }
    }
    observe(findings.mapped_pages);
}

/// What flash may have lost of a page whose bytes are those that were programmed.
struct Losses {
    faults: Option<Faults>,
    poison: [u8; LINE],
    page_bytes: u64,
}

impl Losses {
    fn of(image: &Image) -> Self {
        let done = Counters::read(image.tables.map());
        let faults = faults_of(&image.config, &image.tables, &done);
        Self {
            faults: faults.map(|(faults, _)| faults),
            poison: poison_of(image.id),
            page_bytes: image.layout.page as u64,
        }
    }

    fn look_at(&self, page: &[u8], (lpa, ppa): (Lpa, Ppa), findings: &mut Findings) {
        let at = lpa.get() * self.page_bytes;
        let faults = self.faults.as_ref();
        if faults.is_some_and(|faults| !faults.read(ppa).is_corrected) {
            findings.lose(|| {
                format!("the block at byte {at} is lost: {ppa} has too many bit errors to correct")
            });
            return;
        }
        let lines = page.chunks_exact(LINE);
        let lost = lines.filter(|line| *line == self.poison).count();
        if lost > 0 {
            let of = page.len() / LINE;
            findings.lose(|| format!("the block at byte {at} has lost {lost} of its {of} lines"));
        }
    }
}

fn describe(fault: PageFault, lpa: Lpa, ppa: Ppa) -> String {
    match fault {
        PageFault::Erased => format!("{lpa} is mapped to {ppa}, which is erased"),
        PageFault::Damaged => format!("{lpa} at {ppa}: the bytes are not those programmed"),
        PageFault::Misplaced => format!("{lpa} is mapped to {ppa}, where another page is"),
    }
}
