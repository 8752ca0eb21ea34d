//! What a core counts.

/// What a core has done since `reset_stats`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreStats {
    /// Instructions retired.
    pub instructions: u64,
    /// Of these, over all cores, instructions that had retired before, or will again.
    pub replayed: u64,
    /// Pieces retired (µops of instructions with several accesses).
    pub pieces: u64,
    /// Loads retired.
    pub loads: u64,
    /// Stores retired.
    pub stores: u64,
    /// Cache line write-backs retired (`clwb`); they are neither loads nor stores.
    pub write_backs: u64,
    /// Pieces thrown away by squashes; they are executed again.
    pub squashed: u64,
    /// Squashes.
    pub squashes: u64,
    /// Conditional and indirect branches dispatched.
    pub branches: u64,
    /// Those whose direction or target was predicted wrong.
    pub mispredicts: u64,
    /// Lines of code fetched from L1I.
    pub l1i_hits: u64,
    /// Lines of code that L1I did not have.
    pub l1i_misses: u64,
    /// Accesses of loads and stores that L1D had.
    pub l1d_hits: u64,
    /// Accesses of loads and stores that L1D did not have, merged ones included.
    pub l1d_misses: u64,
    /// Accesses that L2 had.
    pub l2_hits: u64,
    /// Lines that L2 asked the uncore for.
    pub l2_misses: u64,
    /// Accesses to a line that L2 was already waiting for.
    pub l2_merged: u64,
    /// Dirty lines L1D wrote to L2.
    pub l1d_write_backs: u64,
    /// Dirty lines L2 wrote to the uncore.
    pub l2_write_backs: u64,
    /// Loads whose data came from an older store in flight.
    pub forwarded: u64,
    /// Translations that the first-level TLB did not have.
    pub l1_tlb_misses: u64,
    /// Page walks.
    pub walks: u64,
    /// Accesses that found every MSHR taken and waited.
    pub mshr_waits: u64,
    /// Fills that came after their MSHR was freed.
    pub late_fills: u64,
    /// Cycles in which a thread was on the core.
    pub active_cycles: u64,
    /// Of these, cycles bounded by memory (SkyByte §II-C; defined in docs/host.md).
    pub memory_bound_cycles: u64,
}

impl CoreStats {
    /// Instructions that the threads of all cores have executed, each once. Only the sum over cores
    /// is known: what has retired on one may be repeated on another.
    pub fn executed(&self) -> u64 {
        self.instructions.saturating_sub(self.replayed)
    }
    /// Adds what another core has done.
    pub fn add(&mut self, other: &Self) {
        let Self {
            instructions,
            replayed,
            pieces,
            loads,
            stores,
            write_backs,
            squashed,
            squashes,
            branches,
            mispredicts,
            l1i_hits,
            l1i_misses,
            l1d_hits,
            l1d_misses,
            l2_hits,
            l2_misses,
            l2_merged,
            l1d_write_backs,
            l2_write_backs,
            forwarded,
            l1_tlb_misses,
            walks,
            mshr_waits,
            late_fills,
            active_cycles,
            memory_bound_cycles,
        } = other;
        self.instructions += instructions;
        self.replayed += replayed;
        self.pieces += pieces;
        self.loads += loads;
        self.stores += stores;
        self.write_backs += write_backs;
        self.squashed += squashed;
        self.squashes += squashes;
        self.branches += branches;
        self.mispredicts += mispredicts;
        self.l1i_hits += l1i_hits;
        self.l1i_misses += l1i_misses;
        self.l1d_hits += l1d_hits;
        self.l1d_misses += l1d_misses;
        self.l2_hits += l2_hits;
        self.l2_misses += l2_misses;
        self.l2_merged += l2_merged;
        self.l1d_write_backs += l1d_write_backs;
        self.l2_write_backs += l2_write_backs;
        self.forwarded += forwarded;
        self.l1_tlb_misses += l1_tlb_misses;
        self.walks += walks;
        self.mshr_waits += mshr_waits;
        self.late_fills += late_fills;
        self.active_cycles += active_cycles;
        self.memory_bound_cycles += memory_bound_cycles;
    }
}
