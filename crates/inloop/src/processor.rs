//! The processor that the firmware is to have, whose times are made from those of this one.

use serde::{Deserialize, Serialize};
use settings::{Known, Layer, Problems};
use units::{Hertz, Picos, Ratio};

units::parameters! {
    /// The controller's processor, in the loop.
    pub struct Processor: "processor" {
        /// Its clock.
        clock: Hertz, "1MHz to 100GHz", "AMD Zynq UltraScale+ data sheet DS925 (Cortex-A53, speed grade -1: 1.2GHz)";
        /// Its cycles for one of the processor on which the firmware runs; 0 makes a firmware that
        /// takes no time. A dual-issue, in-order core with small caches takes more than one.
        cycles: Ratio, "0/1 to 1000/1", "our assumption (3/1): no measurement of the same code on both";
    }
}

/// A processor's parameters.
pub const KNOWN: Known = settings::known! { "processor": Processor };

/// Processors by name, with their parameters.
pub const PROCESSORS: [(&str, &str); 3] = [
    (
        "cortex-a53",
        include_str!("../../../configs/processors/cortex-a53.toml"),
    ),
    (
        "host",
        include_str!("../../../configs/processors/host.toml"),
    ),
    (
        "instant",
        include_str!("../../../configs/processors/instant.toml"),
    ),
];

impl Processor {
    /// That of a name, or of a text.
    ///
    /// # Errors
    /// There is none of that name, or the text is wrong.
    pub fn of_text(text: &str) -> Result<Self, Problems> {
        let named = PROCESSORS.iter().find(|(name, _)| *name == text);
        if named.is_none() && !text.contains('=') {
            let names = PROCESSORS.map(|(name, _)| name).join(", ");
            return Err(Problems(vec![format!(
                "unknown processor {text}; choose from {names}"
            )]));
        }
        let layer = Layer::new("the processor", named.map_or(text, |(_, text)| text));
        let configuration: Configuration = KNOWN.configuration(&[layer])?;
        let processor = configuration.processor;
        let mut problems = Vec::new();
        if !(1_000_000..=100_000_000_000).contains(&processor.clock.get()) {
            problems.push(format!(
                "processor.clock is {}; it must be 1MHz to 100GHz",
                processor.clock
            ));
        }
        if processor.cycles.of(1_000) > 1_000_000 {
            problems.push(format!(
                "processor.cycles is {}; it must be 0/1 to 1000/1",
                processor.cycles
            ));
        }
        match problems.is_empty() {
            true => Ok(processor),
            false => Err(Problems(problems)),
        }
    }

    /// As TOML.
    pub fn to_toml(&self) -> String {
        settings::to_toml(&Configuration {
            processor: self.clone(),
        })
    }

    /// What so many cycles of the counter would take there.
    pub fn time_of(&self, cycles: u64) -> Picos {
        let (top, bottom) = (self.cycles.numerator(), self.cycles.denominator());
        let picos = u128::from(cycles) * u128::from(top) * 1_000_000_000_000
            / (u128::from(bottom) * u128::from(self.clock.get()));
        Picos::new(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    processor: Processor,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_become_times_by_clock_and_ratio() {
        let of = |text| Processor::of_text(text).unwrap();
        assert_eq!(of("cortex-a53").time_of(120), Picos::from_nanos(300));
        assert_eq!(of("instant").time_of(u64::MAX), Picos::ZERO);
        let own = of("[processor]\nclock = \"2GHz\"\ncycles = \"1/2\"");
        assert_eq!(own.time_of(8), Picos::from_nanos(2));
        assert_eq!(Processor::of_text(&own.to_toml()).unwrap(), own);
    }

    #[test]
    fn what_is_no_processor_is_a_sentence() {
        let error = |text| Processor::of_text(text).unwrap_err().to_string();
        assert!(error("cortex-a54").contains("choose from cortex-a53, host, instant"));
        assert!(error("[processor]\nclock = \"1Hz\"\ncycles = \"1/1\"").contains("1MHz"));
        assert!(error("[processor]\nclock = \"1GHz\"\ncycles = \"2000/1\"").contains("1000/1"));
    }
}
