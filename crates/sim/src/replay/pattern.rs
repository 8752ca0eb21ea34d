//! Synthetic patterns: which address comes next, and whether it is written.

use super::workload::{Synthetic, WorkingSet};
use super::zipf::Zipf;
use crate::error::SimError;
use settings::distance;
use std::str::FromStr;
use units::{Bytes, PageSize, Ratio, Stream};

/// Which requests a pattern consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Reads anywhere.
    RandRead,
    /// Writes anywhere.
    RandWrite,
    /// Reads one after the other, from the start again at the end.
    SeqRead,
    /// Writes one after the other, likewise.
    SeqWrite,
    /// Reads and writes anywhere.
    RandRw,
}

impl Pattern {
    /// All patterns with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("randread", Self::RandRead),
        ("randwrite", Self::RandWrite),
        ("seqread", Self::SeqRead),
        ("seqwrite", Self::SeqWrite),
        ("randrw", Self::RandRw),
    ];
}

impl FromStr for Pattern {
    type Err = SimError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((_, pattern)) = Self::ALL.iter().find(|(name, _)| *name == text) {
            return Ok(*pattern);
        }
        let nearest = Self::ALL
            .iter()
            .min_by_key(|(name, _)| distance(name, text));
        let (nearest, _) = nearest.expect("there are patterns");
        Err(SimError::Mismatch(format!(
            "unknown pattern {text}; did you mean {nearest}?"
        )))
    }
}

/// How the next address is found.
enum Addresses {
    Sequential {
        next: u64,
    },
    Uniform,
    /// Ranks of granules by popularity, and what spreads them over the working set.
    Zipf {
        zipf: Zipf,
        step: u64,
    },
}

/// A pattern that runs for ever.
pub struct Generator {
    block: Bytes,
    /// Blocks of the working set.
    block_count: u64,
    /// Blocks that share one popularity: those of a page, or one.
    blocks_per_granule: u64,
    addresses: Addresses,
    read_share: Ratio,
    address_stream: Stream,
    mix_stream: Stream,
}

impl Generator {
    /// A pattern on a device that exports `capacity`.
    ///
    /// # Errors
    /// The pattern does not fit the device or itself.
    pub fn new(
        synthetic: &Synthetic,
        capacity: Bytes,
        page: PageSize,
        seed: u64,
    ) -> Result<Self, SimError> {
        let working_set = synthetic.working_set.on(capacity);
        check(synthetic, working_set, capacity)?;
        let block_count = working_set / synthetic.block;
        let blocks_per_granule = (page.bytes() / synthetic.block).clamp(1, block_count);
        let read_share = match synthetic.pattern {
            Pattern::RandRead | Pattern::SeqRead => Ratio::percent(100),
            Pattern::RandWrite | Pattern::SeqWrite => Ratio::percent(0),
            Pattern::RandRw => synthetic.read_share,
        };
        let addresses = match synthetic.pattern {
            Pattern::SeqRead | Pattern::SeqWrite => Addresses::Sequential { next: 0 },
            _ if synthetic.zipf_milli == 0 => Addresses::Uniform,
            _ => {
                let granules = block_count / blocks_per_granule;
                Addresses::Zipf {
                    zipf: Zipf::new(granules, synthetic.zipf_milli),
                    step: spread(granules),
                }
            }
        };
        Ok(Self {
            block: synthetic.block,
            block_count,
            blocks_per_granule,
            addresses,
            read_share,
            address_stream: Stream::new(seed, "replay/address"),
            mix_stream: Stream::new(seed, "replay/mix"),
        })
    }

    /// The next request: its first byte and whether it writes.
    #[inline]
    pub fn next(&mut self) -> (Bytes, bool) {
        let block = self.next_block();
        let is_read = match self.read_share.numerator() {
            0 => false,
            share if share == self.read_share.denominator() => true,
            _ => self.mix_stream.chance(self.read_share),
        };
        (self.block * block, !is_read)
    }

    #[inline]
    fn next_block(&mut self) -> u64 {
        match &mut self.addresses {
            Addresses::Sequential { next } => {
                let block = *next;
                *next = (block + 1) % self.block_count;
                block
            }
            Addresses::Uniform => self.address_stream.below(self.block_count),
            Addresses::Zipf { zipf, step } => {
                let rank = zipf.draw(&mut self.address_stream);
                let granule = rank * *step % zipf.count();
                let within = match self.blocks_per_granule {
                    1 => 0,
                    blocks => self.address_stream.below(blocks),
                };
                granule * self.blocks_per_granule + within
            }
        }
    }
}

fn check(synthetic: &Synthetic, working_set: Bytes, capacity: Bytes) -> Result<(), SimError> {
    let mismatch = |text: String| Err(SimError::Mismatch(text));
    let block = synthetic.block;
    if block.is_zero() || !block.get().is_multiple_of(64) {
        return mismatch(format!("--bs {block}: must be a multiple of 64B"));
    }
    if !synthetic.read_share.is_at_most_one() {
        let share = synthetic.read_share;
        return mismatch(format!("--rwmix {share}: must be 0% to 100%"));
    }
    if synthetic.zipf_milli > 2_000 {
        return mismatch("--zipf: must be 0 to 2".to_string());
    }
    let said = match synthetic.working_set {
        WorkingSet::Share(share) => share.to_string(),
        WorkingSet::Size(size) => size.to_string(),
    };
    if working_set > capacity {
        return mismatch(format!(
            "--working-set {said}: is larger than the device, which exports {capacity}"
        ));
    }
    if working_set < block {
        return mismatch(format!(
            "--working-set {said}: has no room for a request of {block}"
        ));
    }
    Ok(())
}

/// A factor without a common divisor with `count`, near its golden section but small enough for
/// products to fit in 64 bits.
fn spread(count: u64) -> u64 {
    let mut step = (count / 1000 * 618).clamp(1, (1 << 30) - 1) | 1;
    while gcd(step, count) != 1 {
        step += 2;
    }
    step
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synthetic(pattern: Pattern) -> Synthetic {
        Synthetic {
            pattern,
            block: Bytes::from_kib(4),
            read_share: Ratio::percent(70),
            working_set: WorkingSet::Size(Bytes::from_kib(64)),
            zipf_milli: 0,
        }
    }

    fn generator(synthetic: &Synthetic) -> Generator {
        let capacity = Bytes::from_mib(1);
        Generator::new(synthetic, capacity, PageSize::KIB_4, 1).expect("it is right")
    }

    #[test]
    fn a_sequence_starts_again_at_the_end_of_the_working_set() {
        let mut generator = generator(&synthetic(Pattern::SeqWrite));
        for turn in 0..40 {
            assert_eq!(generator.next(), (Bytes::from_kib(4 * (turn % 16)), true));
        }
    }

    #[test]
    fn random_addresses_cover_the_working_set_and_reads_have_their_share() {
        let mut generator = generator(&synthetic(Pattern::RandRw));
        let mut seen = [0; 16];
        let mut writes = 0;
        for _ in 0..16_000 {
            let (offset, is_write) = generator.next();
            seen[(offset / Bytes::from_kib(4)) as usize] += 1;
            writes += u32::from(is_write);
        }
        assert!(
            seen.iter().all(|count| (850..1150).contains(count)),
            "{seen:?}"
        );
        assert!((4_500..5_100).contains(&writes), "{writes}");
    }

    #[test]
    fn popular_pages_are_spread_and_their_lines_equally_likely() {
        let lines = Synthetic {
            block: Bytes::new(64),
            zipf_milli: 1000,
            ..synthetic(Pattern::RandRead)
        };
        let mut generator = generator(&lines);
        let mut pages = [0u32; 16];
        let mut in_page = [0u32; 64];
        for _ in 0..64_000 {
            let line = generator.next().0 / Bytes::new(64);
            pages[(line / 64) as usize] += 1;
            in_page[(line % 64) as usize] += 1;
        }
        // 1 ÷ (1 + 1/2 + … + 1/16) = 0.296 of all go to the most popular page.
        pages.sort_unstable();
        assert!((18_000..20_000).contains(&pages[15]), "{pages:?}");
        assert!(pages[0] > 0, "each page is reached");
        assert!(in_page.iter().all(|count| (850..1150).contains(count)));
    }

    #[test]
    fn a_pattern_that_does_not_fit_says_so() {
        let complaint = |synthetic: Synthetic| {
            let made = Generator::new(&synthetic, Bytes::from_mib(1), PageSize::KIB_4, 1);
            made.err().expect("it is wrong").to_string()
        };
        let base = synthetic(Pattern::RandRead);
        let block = |bytes| Synthetic {
            block: Bytes::new(bytes),
            ..base
        };
        let set = |set| Synthetic {
            working_set: set,
            ..base
        };
        assert_eq!(
            complaint(block(100)),
            "--bs 100B: must be a multiple of 64B"
        );
        let large = complaint(set(WorkingSet::Size(Bytes::from_mib(2))));
        assert_eq!(
            large,
            "--working-set 2MiB: is larger than the device, which exports 1MiB"
        );
        let small = complaint(set(WorkingSet::Share(Ratio::percent(0))));
        assert_eq!(small, "--working-set 0%: has no room for a request of 4KiB");
        let unknown = "randred"
            .parse::<Pattern>()
            .expect_err("there is none")
            .to_string();
        assert_eq!(unknown, "unknown pattern randred; did you mean randread?");
    }
}
