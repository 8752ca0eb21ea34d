//! The devices of loads: presets, divided by the scale together with what is on them.

use super::error::LoadError;
use device::DeviceConfig;
use device::config::Layer;
use units::Bytes;

/// Blocks of a plane that GC needs at the presets' over-provisioning of 1/9.
const FEWEST_BLOCKS: u64 = 72;

/// By how much a run is smaller than the paper's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale(u64);

impl Scale {
    /// The largest.
    pub const MOST: u64 = 4096;

    /// One in `divisor`, a power of two: files, rounds, keys, pages of the host and of the device,
    /// log and capacity are divided by it; sizes of files, dies, bandwidths and times are not. A
    /// block of flash has 4 pages at least, so beyond 512 the flash stays as large.
    ///
    /// # Errors
    /// It is no power of two, or too large.
    pub fn new(divisor: u64) -> Result<Self, LoadError> {
        match divisor.is_power_of_two() && divisor <= Self::MOST {
            true => Ok(Self(divisor)),
            false => Err(LoadError::Setting(format!(
                "--scale is {divisor}; it must be a power of two from 1, the paper's size, to {}",
                Self::MOST
            ))),
        }
    }

    /// By how much.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// A number, divided; at least `least`, unless it was less.
    pub fn of(self, number: u64, least: u64) -> u64 {
        (number / self.0).max(least.min(number))
    }

    /// A size, divided; likewise.
    pub fn of_bytes(self, size: Bytes, least: Bytes) -> Bytes {
        Bytes::new(self.of(size.get(), least.get()))
    }
}

/// The configuration of a preset at a scale, with the user's layers over it.
///
/// # Errors
/// As [`DeviceConfig::of_preset`].
pub fn scaled(preset: &str, scale: Scale, layers: &[Layer]) -> Result<DeviceConfig, LoadError> {
    let whole = DeviceConfig::of_preset(preset, layers)?;
    let text = |key: &str, value: String| Layer::assignment(&format!("{key}={value}"));
    let blocks = scale.of(whole.nand.blocks_per_plane.into(), FEWEST_BLOCKS);
    // What blocks are not divided by, their pages are.
    let rest = scale.get() * blocks / u64::from(whole.nand.blocks_per_plane);
    let pages = (u64::from(whole.nand.pages_per_block) / rest.max(1)).max(4);
    let log = scale.of_bytes(whole.ssd.log.size, Bytes::from_kib(64));
    let tx_log = scale.of_bytes(whole.ssd.log.tx_log, Bytes::from_kib(64));
    let beside = whole.ssd.dram.get() - whole.ssd.log.size.get() - whole.ssd.log.tx_log.get();
    // Beside a log they are what reads under way need, as dies are; without one they are a cache.
    let frames = match whole.ssd.log.size.is_zero() {
        true => scale.of_bytes(Bytes::new(beside), Bytes::from_kib(512)),
        false => Bytes::new(beside),
    };
    let dram = Bytes::new(log.get() + tx_log.get() + frames.get());
    let assignments = [
        text("nand.blocks_per_plane", blocks.to_string()),
        text("nand.pages_per_block", pages.to_string()),
        text("ssd.log.size", log.to_string()),
        text("ssd.log.tx_log", tx_log.to_string()),
        text("ssd.dram", dram.to_string()),
    ];
    let mut all = layers.to_vec();
    for assignment in assignments {
        all.push(assignment.map_err(|problems| LoadError::Setting(problems.to_string()))?);
    }
    Ok(DeviceConfig::of_preset(preset, &all)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_shrink_with_the_scale() {
        for preset in ["bytefs", "bytefs-cache", "cxl"] {
            let whole = scaled(preset, Scale(1), &[]).unwrap();
            assert_eq!(
                whole,
                DeviceConfig::of_preset(preset, &[]).unwrap(),
                "{preset}"
            );
            for divisor in [16, 64, 256] {
                let small = scaled(preset, Scale(divisor), &[]).unwrap();
                assert_eq!(small.capacity().get() * divisor, whole.capacity().get());
                assert_eq!(small.ssd.log.size.get() * divisor, whole.ssd.log.size.get());
                assert_eq!(small.nand.channels, whole.nand.channels);
                let frames = |config: &DeviceConfig| config.ssd.frame_count(config.page().bytes());
                if small.ssd.log.size.is_zero() {
                    assert_eq!(frames(&small) * divisor, frames(&whole));
                } else {
                    // Fewer would let fewer dies read at a time.
                    assert_eq!(frames(&small), frames(&whole));
                }
            }
        }
        let refused = Scale::new(48).unwrap_err().to_string();
        assert!(refused.contains("--scale is 48; it must be a power of two"));
    }

    #[test]
    fn baselines_have_the_memory_of_the_log_as_page_cache() {
        let config = DeviceConfig::of_preset("bytefs-cache", &[]).unwrap();
        assert!(config.ssd.log.size.is_zero());
        assert_eq!(
            config.ssd.frame_count(config.page().bytes()) * 4096,
            256 << 20
        );
    }
}
