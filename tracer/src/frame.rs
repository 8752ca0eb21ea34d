//! The frame of a signal, as QEMU 7.2 tells its plugins of it.
//!
//! A block that is left by a helper (with a `ret`, an indirect jump or call, or at a page's end)
//! leaves QEMU listening with the mark of its last instruction. If a signal comes then, what is
//! done in the kernel's place is told with that mark, behind all that the block did itself: the
//! processor's state is stored as `xsave` stores it, which also loads and updates the header, then
//! the segments' descriptors are loaded. Each of these may be an access that the instruction can
//! make, so the frame is known by how it begins.

use trace::AccessKind::Store;
use trace::dictionary::Access;

/// How many of a block's accesses come before a signal's frame: these it made itself. `saves`
/// tells whether an instruction saves the processor's state, and hence begins as a frame does.
pub fn own(accesses: &[Access], addresses: &[u64], saves: impl Fn(u16) -> bool) -> usize {
    let begins = |at: &usize| {
        let inst = accesses[*at].inst;
        let is_first = *at == 0 || accesses[*at - 1].inst != inst;
        begins_state(&accesses[*at..], &addresses[*at..]) && !(is_first && saves(inst))
    };
    (0..accesses.len()).find(begins).unwrap_or(accesses.len())
}

/// How a save of the processor's state begins: control, status and tag word, and the address of
/// the last instruction, whose store may be joined with the next. Each one's place and bytes.
const BEGIN: [(u64, u8); 4] = [(0, 2), (2, 2), (4, 2), (8, 8)];

/// Whether these accesses begin with a save of the processor's state.
fn begins_state(accesses: &[Access], addresses: &[u64]) -> bool {
    let is_begin = |(n, (place, bytes)): (usize, (u64, u8))| {
        let Access { inst, kind, .. } = accesses[n];
        (inst, kind) == (accesses[0].inst, Store)
            && addresses[n].wrapping_sub(addresses[0]) == place
            && accesses[n].bytes.min(8) == bytes
    };
    accesses.len() >= BEGIN.len() && BEGIN.into_iter().enumerate().all(is_begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::AccessKind::{self, Load, Update};

    /// What QEMU 7.2 told of a signal that came after instruction 2: its first stores, the header
    /// that it updates, and a descriptor.
    const FRAME: [(u16, AccessKind, u8, u64); 10] = [
        (2, Store, 2, 0x3c0),
        (2, Store, 2, 0x3c2),
        (2, Store, 2, 0x3c4),
        (2, Store, 16, 0x3c8),
        (2, Store, 8, 0x3e0),
        (2, Store, 2, 0x3e8),
        (2, Store, 4, 0x3d8),
        (2, Update, 8, 0x5c0),
        (2, Load, 4, 0x28),
        (2, Load, 4, 0x2c),
    ];

    /// How many of these accesses and of those of two frames behind them are left.
    fn left(made: &[(u16, AccessKind, u8, u64)], saves: bool) -> usize {
        let all = [made, &FRAME, &FRAME].concat();
        let access = |&(inst, kind, bytes, _): &_| Access { inst, kind, bytes };
        let accesses: Vec<_> = all.iter().map(access).collect();
        let addresses: Vec<_> = all.iter().map(|access| access.3).collect();
        own(&accesses, &addresses, |inst| inst == 2 && saves)
    }

    #[test]
    fn a_frame_is_left_out_whatever_its_instruction_did() {
        let before = (1, Load, 8, 0xee8);
        let call = [before, (2, Load, 8, 0xcf8), (2, Store, 8, 0xed8)];
        let push = [before, (2, Store, 8, 0xed8)];
        let add = [before, (2, Update, 8, 0xd00)];
        let made: [&[_]; 4] = [&call, &push, &add, &[before]];
        for made in made {
            assert_eq!(left(made, false), made.len(), "{made:?}");
        }
        assert_eq!(left(&[], false), 0);
    }

    #[test]
    fn what_an_instruction_saves_itself_is_no_frame() {
        let own = &FRAME[..8];
        assert_eq!(left(own, true), own.len());
        assert_eq!(left(own, false), 0);
        // Without the first part, which `xsavec` leaves out when there is nothing in it.
        let rest = [(2, Store, 4, 0xd8), (2, Update, 8, 0x2c0)];
        assert_eq!(left(&rest, true), rest.len());
    }

    #[test]
    fn stores_of_words_are_no_frame() {
        let words = [0x100, 0x102, 0x104, 0x106, 0x108].map(|addr| (2, Store, 2, addr));
        assert_eq!(left(&words, false), words.len());
        let apart = [0x100, 0x104, 0x108].map(|addr| (2, Store, 2, addr));
        let mut apart = apart.to_vec();
        apart.push((2, Store, 16, 0x110));
        assert_eq!(left(&apart, false), apart.len());
        let others = [
            (0, Store, 2, 0x100),
            (0, Store, 2, 0x102),
            (1, Store, 2, 0x104),
            (1, Store, 16, 0x108),
        ];
        assert_eq!(left(&others, false), others.len());
    }
}
