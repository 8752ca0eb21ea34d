//! Every parameter at the ends of its range and of its type, in every preset: a sentence or a
//! device that takes a few requests, and opens again.

use crate::common::Place;
use device::config::{Layer, PRESETS, SECTIONS};
use device::{DeviceConfig, Image, Pace, RealDevice};
use forge::extremes;
use port::{Acknowledge, Device, DeviceError};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use units::{ByteAddr, Bytes, TxId};

/// A device so small that some requests are all that it can take.
const SMALL: [&str; 11] = [
    "nand.channels=2",
    "nand.chips_per_channel=1",
    "nand.dies_per_chip=1",
    "nand.planes_per_die=1",
    "nand.blocks_per_plane=24",
    "nand.pages_per_block=8",
    "ftl.over_provisioning=40%",
    "ssd.buffers=8",
    "ssd.log.size=32KiB",
    "ssd.log.tx_log=4KiB",
    "ssd.dram=100KiB",
];
/// Images beyond this are validated and not made.
const MOST: Bytes = Bytes::from_mib(64);

/// What is set, as `section.key=value`: each parameter to each of its extremes.
fn settings(config: &DeviceConfig) -> Vec<String> {
    let mut all = Vec::new();
    for ((section, parameters), (known, texts)) in SECTIONS.iter().zip(config.texts()) {
        assert_eq!(*section, known);
        for (parameter, (name, text)) in parameters.iter().zip(texts) {
            assert_eq!(parameter.name(), name);
            let values = extremes(parameter.kind, parameter.range, &text);
            all.extend(
                values
                    .iter()
                    .map(|value| format!("{}={value}", parameter.key)),
            );
        }
    }
    all
}

fn config(preset: &str, sets: &[&str]) -> Result<DeviceConfig, String> {
    let layer = |set: &&str| Layer::assignment(set).map_err(|problems| problems.to_string());
    let layers: Vec<Layer> = sets.iter().map(layer).collect::<Result<_, _>>()?;
    DeviceConfig::of_preset(preset, &layers).map_err(|error| error.to_string())
}

/// What became of it without a panic: done, or a sentence.
fn outcome<T>(work: impl FnOnce() -> Result<T, String>) -> Result<Option<T>, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(Some(value)),
        Ok(Err(said)) if said.trim().is_empty() => Err("an error says nothing".to_owned()),
        Ok(Err(_)) => Ok(None),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(said.unwrap_or_default())
        }
    }
}

/// Remembers what is tried, in `target/tmp`, for a value that brings the whole process down.
struct Tried(File);

impl Tried {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{}-{test}", env!("CARGO_PKG_NAME")));
        Self(File::create(path).expect("the directory of tests can be written"))
    }
    fn note(&self, setting: &str) {
        let line = format!("{setting:<120}\n");
        self.0
            .write_all_at(line.as_bytes(), 0)
            .expect("it can be written");
    }
}

#[test]
fn every_preset_answers_every_extreme_with_a_sentence_or_takes_it() {
    let tried = Tried::new("device-extremes-taken");
    let mut wrong = Vec::new();
    for preset in PRESETS {
        for setting in settings(&config(preset.name, &[]).unwrap()) {
            tried.note(&setting);
            if let Err(said) = outcome(|| config(preset.name, &[&setting])) {
                wrong.push(format!("{} --set {setting}: {said}", preset.name));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} panics:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Makes a device, asks it for a few things, and opens it again.
fn try_device(place: &Path, config: &DeviceConfig) -> Result<(), String> {
    let _ = std::fs::remove_dir_all(place);
    Image::create(place, config).map_err(|error| error.to_string())?;
    for turn in 0..2 {
        let device = RealDevice::open(place, Pace::None).map_err(|error| error.to_string())?;
        requests(&device, turn).map_err(|error| error.to_string())?;
        device.close().map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn requests(device: &RealDevice, turn: u8) -> Result<(), DeviceError> {
    let block = vec![turn + 1; device.shape().block.get() as usize];
    let end = device.shape().capacity.get();
    for at in (0..end).step_by(block.len()).take(4) {
        let written = device.write_blocks(ByteAddr::new(at), &block, Acknowledge::Durable);
        device.block_on(written)?;
    }
    for line in 0..20 {
        let at = ByteAddr::new(line * 192 % end);
        device.block_on(device.write(at, &[turn + 3; 64], TxId::NONE))?;
    }
    device.block_on(device.persist())?;
    device.block_on(device.flush())?;
    let mut found = [0];
    device.block_on(device.read(ByteAddr::new(0), &mut found))?;
    assert_eq!(found, [turn + 3]);
    Ok(())
}

#[test]
fn every_extreme_that_is_taken_makes_a_device() {
    let place = Place::new("extremes");
    let tried = Tried::new("device-extremes-run");
    let mut wrong = Vec::new();
    let mut made = 0;
    for preset in ["bytefs"] {
        for setting in settings(&config(preset, &SMALL).unwrap()) {
            tried.note(&setting);
            let sets = [&SMALL[..], &[&setting]].concat();
            let done = outcome(|| {
                let config = config(preset, &sets)?;
                match config.nand.capacity() <= MOST {
                    true => try_device(&place.path("image"), &config),
                    false => Err("too large for a test".to_owned()),
                }
            });
            match done {
                Ok(done) => made += u32::from(done.is_some()),
                Err(said) => wrong.push(format!("{preset} --set {setting}: {said}")),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} panics:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(made > 100, "{made} devices");
}
