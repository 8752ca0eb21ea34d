//! Which of the requests in flight happened: what is tried at a cut.

use crate::crash::image::Image;
use crate::crash::lab::Options;
use crate::crash::power::Power;
use units::Stream;

/// One of them.
#[derive(Clone, Debug)]
pub enum Try {
    /// Of the units in flight those that have a bit; the 64th has that of the first again.
    Whole(u64),
    /// Of each unit some of its lines or blocks, by chance: the number of the sample.
    Torn(u32, Stream),
}

/// Every subset of so many units, or samples of them; and some that tear units apart.
pub fn tries(units: u32, options: &Options, stream: &mut Stream) -> Vec<Try> {
    let mut all = Vec::new();
    if units <= options.every_subset_of {
        all.extend((0..1_u64 << units).map(Try::Whole));
    } else {
        all.extend((0..options.samples).map(|sample| {
            // None, all, each of the first alone and each of the first left out; then chance.
            Try::Whole(match sample {
                0 => 0,
                1 => u64::MAX,
                2..18 if sample.is_multiple_of(2) => 1 << (sample / 2 - 1),
                2..18 => !(1 << (sample / 2 - 1)),
                _ => stream.bits(),
            })
        }));
    }
    let torn = if units == 0 { 0 } else { options.torn };
    all.extend((0..torn).map(|sample| {
        let own = stream.clone();
        stream.bits();
        Try::Torn(sample, own)
    }));
    all
}

impl Try {
    /// The bytes that it leaves.
    pub fn image(&self, power: &Power) -> Image {
        match self {
            Self::Whole(subset) => power.image_with(|unit, _| subset >> (unit % 64) & 1 == 1),
            Self::Torn(_, stream) => {
                let mut stream = stream.clone();
                power.image_with(|_, _| stream.below(2) == 1)
            }
        }
    }

    /// Which it is, of so many units.
    pub fn told(&self, units: u32) -> String {
        match self {
            Self::Whole(subset) => format!("of {units} units those of {subset:#b}"),
            Self::Torn(sample, _) => format!("torn, sample {sample}"),
        }
    }
}
