//! What survives a power cut, and how it reads to somebody who knows nothing of firmware.

use crate::flash::Flash;
use crate::tables::Tables;
use crate::token::{Digest, Token};
use firmware::{BufferedPage, Durable, LoggedLine, PowerLossProtection, WriteOrder};
use units::{Lpa, PageSize};

/// Flash, battery-backed bytes and the tables that give them their meaning.
#[derive(Clone, Debug)]
pub struct Media {
    /// The pages of the device.
    pub flash: Flash,
    /// The slots of the log.
    pub log: Vec<Token>,
    /// The page buffers, one after the other.
    pub buffers: Vec<Token>,
    /// The frames of the data cache, one after the other.
    pub frames: Vec<Token>,
    /// What was recorded.
    pub tables: Tables,
    page: PageSize,
}

impl Media {
    /// A device that was never used: pages as in `tables`.
    pub fn new(
        flash: Flash,
        (slots, buffers, frames): (usize, usize, usize),
        tables: Tables,
        page: PageSize,
    ) -> Self {
        let lines = usize::from(page.line_count());
        Self {
            flash,
            log: vec![Token::ZERO; slots],
            buffers: vec![Token::ZERO; buffers * lines],
            frames: vec![Token::GARBAGE; frames * lines],
            tables,
            page,
        }
    }

    /// Every line of `pages` pages, as the tables say: the newest of its committed copies in the
    /// log, in buffers and in frames that are kept, or else what is mapped, or else zeroes.
    ///
    /// # Errors
    /// A sentence, if a page is mapped to where it is not.
    pub fn reading(&self, pages: usize) -> Result<Vec<Token>, String> {
        let lines = usize::from(self.page.line_count());
        let mut reading = vec![Token::ZERO; pages * lines];
        for (lpa, ppa) in self.tables.mapped() {
            let spare = self.flash.spare(ppa);
            if spare != Some(lpa) {
                return Err(format!(
                    "{lpa} is mapped to {ppa}, where {} is",
                    spare.map_or_else(|| "nothing".into(), |other| other.to_string())
                ));
            }
            reading[span(lpa, lines)].copy_from_slice(self.flash.tokens(ppa));
        }
        let mut newest = vec![None; pages * lines];
        self.read_buffers(&mut reading, &mut newest);
        self.read_frames(&mut reading, &mut newest);
        self.read_log(&mut reading, &mut newest);
        Ok(reading)
    }

    fn read_buffers(&self, reading: &mut [Token], newest: &mut [Option<WriteOrder>]) {
        let lines = usize::from(self.page.line_count());
        for (buffer, BufferedPage { lpa, order }) in self.tables.buffered() {
            let page = span(lpa, lines);
            if newest[page.start] < Some(order) {
                newest[page.clone()].fill(Some(order));
                let first = buffer.index() * lines;
                reading[page].copy_from_slice(&self.buffers[first..first + lines]);
            }
        }
    }

    fn read_frames(&self, reading: &mut [Token], newest: &mut [Option<WriteOrder>]) {
        let lines = usize::from(self.page.line_count());
        for (frame, kept) in self.tables.framed() {
            let page = span(kept.lpa, lines);
            for line in kept.lines.iter() {
                let index = page.start + line.index();
                if newest[index] < Some(kept.order) {
                    newest[index] = Some(kept.order);
                    reading[index] = self.frames[frame.index() * lines + line.index()];
                }
            }
        }
    }

    fn read_log(&self, reading: &mut [Token], newest: &mut [Option<WriteOrder>]) {
        let lines = usize::from(self.page.line_count());
        for (slot, logged) in self.tables.logged() {
            let LoggedLine {
                lpa, line, order, ..
            } = logged;
            let index = lpa.get() as usize * lines + line.index();
            if self.tables.is_committed(logged.tx) && newest[index] < Some(order) {
                newest[index] = Some(order);
                reading[index] = self.log[slot.index()];
            }
        }
    }

    /// What a device loses with its power.
    pub fn lose(&mut self, protection: PowerLossProtection) {
        self.tables.lose(protection);
        if !protection.keeps_frames() {
            self.frames.fill(Token::GARBAGE);
        }
        if !protection.keeps_buffers() {
            self.buffers.fill(Token::GARBAGE);
        }
        if !protection.keeps_log() {
            self.log.fill(Token::GARBAGE);
        }
    }

    /// Of everything.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::new();
        self.flash.digest(&mut digest);
        self.tables.digest(&mut digest);
        digest.add_tokens(&self.log);
        digest.add_tokens(&self.buffers);
        digest.add_tokens(&self.frames);
        digest.get()
    }

    /// The lines of a page buffer.
    pub fn buffer_mut(&mut self, buffer: usize) -> &mut [Token] {
        let lines = usize::from(self.page.line_count());
        &mut self.buffers[buffer * lines..(buffer + 1) * lines]
    }

    /// The lines of a frame.
    pub fn frame_mut(&mut self, frame: usize) -> &mut [Token] {
        let lines = usize::from(self.page.line_count());
        &mut self.frames[frame * lines..(frame + 1) * lines]
    }
}

/// The lines of a page among all lines.
pub(crate) fn span(lpa: Lpa, lines: usize) -> core::ops::Range<usize> {
    let first = lpa.get() as usize * lines;
    first..first + lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use firmware::{BufferId, Record};
    use units::{LineInPage, LogSlot, TxId};

    fn logged(line: u16, tx: u32, order: u64) -> LoggedLine {
        LoggedLine {
            lpa: Lpa::new(2),
            line: LineInPage::new(line),
            tx: TxId::new(tx),
            order: WriteOrder::new(order),
        }
    }

    /// Lines of page 2, and what they hold: 0 flash, 1 an older log line under a newer buffer, 2
    /// a newer log line, 3 one of a transaction that is committed later.
    #[test]
    fn the_newest_committed_copy_is_read() {
        let device = Device::default();
        let mut media = device.new_media();
        let geometry = device.config().geometry;
        let ppa = geometry.unit_on(units::BlockAddr::new(0), 0);
        let lpa = Lpa::new(2);
        let page = [1, 2, 3, 4].map(Token::new);
        media
            .flash
            .program(ppa, &[(ppa, lpa, page.to_vec())])
            .expect("erased");
        media
            .buffer_mut(1)
            .copy_from_slice(&[11, 12, 13, 14].map(Token::new));
        for slot in 0..3u32 {
            media.log[slot as usize] = Token::new(21 + slot);
        }
        let record = |media: &mut Media, record| {
            assert_eq!(media.tables.apply(record), Ok(()));
            media.reading(4).expect("well mapped")[8..12].to_vec()
        };
        assert_eq!(record(&mut media, Record::Mapped(lpa, ppa)), page);
        let slot = LogSlot::new;
        record(&mut media, Record::Logged(slot(0), logged(1, 0, 5)));
        record(&mut media, Record::Logged(slot(1), logged(2, 0, 7)));
        let before = record(&mut media, Record::Logged(slot(2), logged(3, 9, 8)));
        assert_eq!(before, [1, 21, 22, 4].map(Token::new));
        let order = WriteOrder::new(6);
        let buffered = Record::Buffered(BufferId::new(1), BufferedPage { lpa, order });
        let after = record(&mut media, buffered);
        assert_eq!(after, [11, 12, 22, 14].map(Token::new));
        let tx = TxId::new(9);
        let committed = record(&mut media, Record::Committed { at: 3, tx });
        assert_eq!(committed, [11, 12, 22, 23].map(Token::new));
        let mut other = media.clone();
        assert_eq!(other.digest(), media.digest());
        record(&mut other, Record::Forgotten { at: 3 });
        assert_ne!(other.digest(), media.digest());
        other.lose(PowerLossProtection::None);
        assert_eq!(other.reading(4).expect("well mapped")[8..12], page);
    }

    #[test]
    fn a_page_that_is_mapped_to_where_it_is_not_is_said() {
        let mut media = Device::default().new_media();
        let mapped = Record::Mapped(Lpa::new(1), units::Ppa::new(0));
        assert_eq!(media.tables.apply(mapped), Ok(()));
        let wrong = media.reading(2).expect_err("nothing is there");
        assert!(wrong.contains("where nothing is"), "{wrong}");
    }
}
