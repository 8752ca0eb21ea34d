//! Flash that refuses what real flash refuses, and what a power cut does to it.
//!
//! A flash page is programmed once between two erases, in the order of its block, in which pages
//! may be left out for good. Of its units those are read that were filled. A cut in the middle of a
//! program leaves a page whose content is undefined; in the middle of an erase, a block that must
//! be erased again. Pages programmed before are not harmed.

use crate::token::{Digest, Token};
use units::{BlockAddr, FlashGeometry, Lpa, Ppa};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Erased,
    /// With the page that its spare area names.
    Programmed(Lpa),
    /// Its flash page was programmed without it.
    Empty,
    /// A program or an erase of it was cut short.
    Torn,
}

/// What a program puts into a unit of its flash page: where, whose, and its lines.
pub type Unit = (Ppa, Lpa, Vec<Token>);

/// The pages of the device.
#[derive(Clone, Debug)]
pub struct Flash {
    geometry: FlashGeometry,
    states: Vec<State>,
    tokens: Vec<Token>,
    /// Pages that every read fails at until they are erased.
    lost: Vec<bool>,
    /// By block: the flash page to be programmed next; none if it must be erased first.
    next_pages: Vec<Option<u32>>,
}

impl Flash {
    /// Erased flash.
    pub fn new(geometry: FlashGeometry) -> Self {
        let pages = usize::try_from(geometry.unit_count()).expect("a small device");
        let lines = usize::from(geometry.unit_size.line_count());
        Self {
            geometry,
            states: vec![State::Erased; pages],
            tokens: vec![Token::ZERO; pages * lines],
            lost: vec![false; pages],
            next_pages: vec![Some(0); geometry.block_count() as usize],
        }
    }

    fn index(&self, ppa: Ppa) -> usize {
        usize::try_from(ppa.get()).expect("a small device")
    }

    fn tokens_mut(&mut self, ppa: Ppa) -> &mut [Token] {
        let lines = usize::from(self.geometry.unit_size.line_count());
        let first = self.index(ppa) * lines;
        &mut self.tokens[first..first + lines]
    }

    /// What the page holds, whatever its state: a torn page holds [`Token::GARBAGE`].
    pub fn tokens(&self, ppa: Ppa) -> &[Token] {
        let lines = usize::from(self.geometry.unit_size.line_count());
        let first = self.index(ppa) * lines;
        &self.tokens[first..first + lines]
    }

    /// The page that the spare area names, if the page was programmed to its end.
    pub fn spare(&self, ppa: Ppa) -> Option<Lpa> {
        match self.states[self.index(ppa)] {
            State::Programmed(lpa) => Some(lpa),
            State::Erased | State::Empty | State::Torn => None,
        }
    }

    /// Whether the firmware may read the page.
    ///
    /// # Errors
    /// A sentence, if nothing was programmed there since the last erase.
    pub fn may_read(&self, ppa: Ppa) -> Result<(), String> {
        match self.states[self.index(ppa)] {
            State::Erased => Err(format!("{ppa} is read while erased")),
            State::Empty => Err(format!("{ppa} is read, which nothing was put into")),
            State::Programmed(_) | State::Torn => Ok(()),
        }
    }

    /// Programs the flash page that begins with `first`, with these units in it.
    ///
    /// # Errors
    /// A sentence, if flash would refuse it, or a unit is of another page.
    pub fn program(&mut self, first: Ppa, units: &[Unit]) -> Result<(), String> {
        self.begin_page(first, State::Empty)?;
        for (ppa, lpa, tokens) in units {
            if self.geometry.page_of(*ppa) != self.geometry.page_of(first) {
                return Err(format!(
                    "{ppa} is programmed with the flash page of {first}"
                ));
            }
            let index = self.index(*ppa);
            self.states[index] = State::Programmed(*lpa);
            self.tokens_mut(*ppa).copy_from_slice(tokens);
        }
        Ok(())
    }

    /// Begins to program the flash page that begins with `first`, and loses power.
    ///
    /// # Errors
    /// A sentence, if flash would refuse it.
    pub fn tear_program(&mut self, first: Ppa) -> Result<(), String> {
        self.begin_page(first, State::Torn)
    }

    /// Leaves all units of a flash page in this state, with garbage in them.
    fn begin_page(&mut self, first: Ppa, state: State) -> Result<(), String> {
        self.take_turn(first)?;
        for unit in self.geometry.units_of_page(first) {
            let index = self.index(unit);
            self.states[index] = state;
            self.tokens_mut(unit).fill(Token::GARBAGE);
        }
        Ok(())
    }

    fn take_turn(&mut self, ppa: Ppa) -> Result<(), String> {
        let (block, page) = (
            self.geometry.block_of(ppa).index(),
            self.geometry.page_in_block(ppa),
        );
        if self.geometry.units_of_page(ppa).next() != Some(ppa) {
            return Err(format!(
                "{ppa} is programmed, which is not the first unit of its page"
            ));
        }
        match self.next_pages[block] {
            Some(next) if next <= page => {
                self.next_pages[block] = Some(page + 1);
                Ok(())
            }
            Some(_) => Err(format!("{ppa} is programmed twice or out of order")),
            None => Err(format!(
                "{ppa} is programmed after an erase that was cut short"
            )),
        }
    }

    /// The page has lost its bytes, for good.
    pub fn lose(&mut self, ppa: Ppa) {
        self.tokens_mut(ppa).fill(Token::POISON);
        let index = self.index(ppa);
        self.lost[index] = true;
    }

    /// Whether the page has lost its bytes.
    pub fn is_lost(&self, ppa: Ppa) -> bool {
        self.lost[self.index(ppa)]
    }

    /// Erases a block.
    pub fn erase(&mut self, block: BlockAddr) {
        self.fill(block, State::Erased, Token::ZERO);
        self.next_pages[block.index()] = Some(0);
    }

    /// Begins to erase a block and loses power.
    pub fn tear_erase(&mut self, block: BlockAddr) {
        self.fill(block, State::Torn, Token::GARBAGE);
        self.next_pages[block.index()] = None;
    }

    fn fill(&mut self, block: BlockAddr, state: State, token: Token) {
        for page in 0..self.geometry.units_per_block {
            let ppa = self.geometry.unit_on(block, page);
            let index = self.index(ppa);
            self.states[index] = state;
            self.lost[index] = false;
            self.tokens_mut(ppa).fill(token);
        }
    }

    /// Adds everything to a digest.
    pub fn digest(&self, digest: &mut Digest) {
        for state in &self.states {
            digest.add(match state {
                State::Erased => 0,
                State::Torn => 1,
                State::Empty => 2,
                State::Programmed(lpa) => 3 + lpa.get(),
            });
        }
        digest.add_tokens(&self.tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn flash_takes_a_page_once_and_in_order_and_is_not_read_while_erased() {
        let geometry = Device::default().config().geometry;
        let mut flash = Flash::new(geometry);
        let block = BlockAddr::new(1);
        let page = |nth| geometry.unit_on(block, nth);
        let tokens = vec![Token::new(7); usize::from(geometry.unit_size.line_count())];
        let lpa = Lpa::new(3);
        assert!(flash.may_read(page(0)).is_err());
        assert_eq!(
            flash.program(page(0), &[(page(0), lpa, tokens.clone())]),
            Ok(())
        );
        assert!(
            flash
                .program(page(0), &[(page(0), lpa, tokens.clone())])
                .is_err()
        );
        assert_eq!(flash.spare(page(0)), Some(lpa));
        assert_eq!(flash.tear_program(page(2)), Ok(()));
        assert_eq!(flash.tokens(page(2))[0], Token::GARBAGE);
        assert!(
            flash
                .program(page(1), &[(page(1), lpa, tokens.clone())])
                .is_err()
        );
        flash.tear_erase(block);
        assert!(
            flash
                .program(page(0), &[(page(0), lpa, tokens.clone())])
                .is_err()
        );
        flash.erase(block);
        assert_eq!(
            flash.program(page(0), &[(page(0), lpa, tokens.clone())]),
            Ok(())
        );
    }

    #[test]
    fn a_flash_page_is_programmed_whole_and_torn_whole() {
        let device = Device {
            page_units: 4,
            ..Device::default()
        };
        let geometry = device.config().geometry;
        let mut flash = Flash::new(geometry);
        let unit = |nth| geometry.unit_on(BlockAddr::new(0), nth);
        let tokens = vec![Token::new(7); usize::from(geometry.unit_size.line_count())];
        let of = |nth| (unit(nth), Lpa::new(u64::from(nth)), tokens.clone());
        assert!(flash.program(unit(1), &[of(1)]).is_err());
        assert!(flash.program(unit(0), &[of(0), of(4)]).is_err());
        flash.erase(BlockAddr::new(0));
        assert_eq!(flash.program(unit(0), &[of(0), of(2)]), Ok(()));
        assert!(flash.may_read(unit(2)).is_ok() && flash.may_read(unit(1)).is_err());
        assert_eq!(
            (flash.spare(unit(2)), flash.spare(unit(3))),
            (Some(Lpa::new(2)), None)
        );
        assert_eq!(flash.tear_program(unit(4)), Ok(()));
        assert_eq!(flash.tokens(unit(7))[0], Token::GARBAGE);
        assert_eq!(flash.program(unit(8), &[of(8)]), Ok(()));
    }
}
