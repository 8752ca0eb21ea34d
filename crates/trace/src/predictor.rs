//! What writer and reader both expect to come next, so that only surprises are stored.
//!
//! Flow: the variant that followed the last two variants the last time, in a hashed table without
//! tags. Addresses: each access of a variant continues by its last stride. Both start empty with
//! every chunk, so a chunk is read without its predecessors.

/// Entries of the flow table.
const FLOW_BITS: u32 = 13;
const ENTRIES: usize = 1 << FLOW_BITS;

/// The variants that came, as far as they tell the next one: where the table is looked at.
#[derive(Clone, Copy, Default)]
pub(crate) struct Path {
    history: u32,
    slot: u32,
}

impl Path {
    /// Another variant has come.
    #[inline]
    pub(crate) fn take(&mut self, variant: u32) {
        let mixed = variant.wrapping_mul(0x9e37_79b1);
        let key = mixed ^ self.history;
        self.history = mixed.rotate_left(15).wrapping_mul(0x85eb_ca6b);
        self.slot = key.wrapping_mul(0xc2b2_ae35) >> (32 - FLOW_BITS);
    }
}

/// The next variant, from the last two.
#[derive(Clone)]
pub(crate) struct FlowPredictor {
    table: Box<[u32; ENTRIES]>,
    path: Path,
}

impl FlowPredictor {
    pub(crate) fn new() -> Self {
        Self {
            table: Box::new([0; ENTRIES]),
            path: Path::default(),
        }
    }
    pub(crate) fn reset(&mut self) {
        self.table.fill(0);
        self.path = Path::default();
    }
    /// The variant expected next.
    #[inline]
    pub(crate) fn expected(&self) -> u32 {
        self.expected_on(self.path)
    }
    /// Learns that `variant` came.
    #[inline]
    pub(crate) fn learn(&mut self, variant: u32) {
        self.table[self.path.slot as usize % ENTRIES] = variant;
        self.path.take(variant);
    }
    /// What has come so far, for somebody who follows it apart until [`FlowPredictor::go_on`].
    #[inline]
    pub(crate) fn path(&self) -> Path {
        self.path
    }
    /// As [`FlowPredictor::expected`], after `path`.
    #[inline]
    pub(crate) fn expected_on(&self, path: Path) -> u32 {
        self.table[path.slot as usize % ENTRIES]
    }
    /// So much has come by now, all of it as expected.
    #[inline]
    pub(crate) fn go_on(&mut self, path: Path) {
        self.path = path;
    }
}

#[derive(Clone, Copy, Default)]
struct Slot {
    last: u64,
    stride: u64,
}

/// The next address of each access of each variant.
#[derive(Clone)]
pub(crate) struct AddressPredictor {
    slots: Vec<Slot>,
    /// The address before, whichever access made it: what a new slot starts from.
    recent: u64,
    /// Slots that are not empty: what is to be forgotten. A chunk uses few of a capture's.
    used: Vec<usize>,
}

impl AddressPredictor {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            recent: 0,
            used: Vec::new(),
        }
    }
    /// Forgets everything; slots below `count` exist afterwards.
    pub(crate) fn reset(&mut self, count: usize) {
        for slot in self.used.drain(..) {
            self.slots[slot] = Slot::default();
        }
        self.slots.resize(count, Slot::default());
        self.recent = 0;
    }
    /// Makes slots below `count` exist.
    pub(crate) fn grow(&mut self, count: usize) {
        if count > self.slots.len() {
            self.slots.resize(count, Slot::default());
        }
    }
    /// The difference of `addr` from what was expected of `slot`; learns `addr`.
    #[inline]
    pub(crate) fn residual(&mut self, slot: usize, addr: u64) -> i64 {
        let expected = self.expected(slot);
        self.learn(slot, addr);
        addr.wrapping_sub(expected) as i64
    }
    /// The address whose difference from what was expected of `slot` is `residual`; learns it.
    #[inline]
    pub(crate) fn address(&mut self, slot: usize, residual: i64) -> u64 {
        let known = &mut self.slots[slot];
        if known.last == 0 {
            return self.first_address(slot, residual);
        }
        // As `expected` and `learn`, in one look.
        known.stride = known.stride.wrapping_add(residual as u64);
        known.last = known.last.wrapping_add(known.stride);
        self.recent = known.last;
        self.recent
    }
    /// As [`AddressPredictor::address`], of a slot that is empty.
    fn first_address(&mut self, slot: usize, residual: i64) -> u64 {
        let addr = self.expected(slot).wrapping_add(residual as u64);
        self.learn(slot, addr);
        addr
    }
    #[inline]
    fn expected(&self, slot: usize) -> u64 {
        let slot = &self.slots[slot];
        if slot.last == 0 {
            self.recent
        } else {
            slot.last.wrapping_add(slot.stride)
        }
    }
    #[inline]
    fn learn(&mut self, slot: usize, addr: u64) {
        let (number, slot) = (slot, &mut self.slots[slot]);
        slot.stride = if slot.last == 0 {
            self.used.push(number);
            0
        } else {
            addr.wrapping_sub(slot.last)
        };
        slot.last = addr;
        self.recent = addr;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_loop_is_foreseen_after_one_turn() {
        let mut flow = FlowPredictor::new();
        let turn = [3, 7, 7, 9];
        let misses: Vec<usize> = (0..5)
            .map(|_| {
                let missed = turn.iter().filter(|v| {
                    let miss = flow.expected() != **v;
                    flow.learn(**v);
                    miss
                });
                missed.count()
            })
            .collect();
        assert_eq!(misses[2..], [0, 0, 0]);
        assert!(misses[0] > 0);
    }

    #[test]
    fn a_strided_access_is_foreseen_from_the_third_on() {
        let mut addresses = AddressPredictor::new();
        addresses.reset(1);
        let residuals: Vec<i64> = (0..5)
            .map(|n| addresses.residual(0, 0x5000 + n * 24))
            .collect();
        assert_eq!(residuals, [0x5000, 24, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn the_reader_finds_the_writers_addresses(
            trail in prop::collection::vec((0_usize..4, any::<u64>()), 0..200)
        ) {
            let (mut writer, mut reader) = (AddressPredictor::new(), AddressPredictor::new());
            writer.reset(4);
            reader.reset(4);
            for (slot, addr) in trail {
                let residual = writer.residual(slot, addr);
                prop_assert_eq!(reader.address(slot, residual), addr);
            }
        }
    }
}
