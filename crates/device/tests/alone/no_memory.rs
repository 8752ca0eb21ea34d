//! An image whose data cache finds no memory is as it was.
//!
//! Alone in its file: a process that starts others beside threads that open images would hand them
//! the images' locks for a moment.

#[path = "../common/mod.rs"]
mod common;

use common::{Place, made, small};
use device::{DeviceEngine, Pace};
use std::fs;
use std::path::Path;
use std::process::Command;

const IMAGE: &str = "ENTRESOL_TEST_IMAGE";
const NAME: &str = "a_device_without_a_battery_that_finds_no_memory_keeps_its_bytes";

#[test]
fn a_device_without_a_battery_that_finds_no_memory_keeps_its_bytes() {
    if let Some(image) = std::env::var_os(IMAGE) {
        return refused_for_memory(Path::new(&image));
    }
    let place = Place::new("no-memory");
    let config = small("consumer-tlc", &["ssd.dram=2GiB"]);
    drop(made(&place, &config));
    let limited = Command::new("sh")
        .args(["-c", "ulimit -v 1048576 && exec \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(NAME)
        .env(IMAGE, place.path("image"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&limited.stdout);
    assert!(limited.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

/// In a process that has less memory than the cache is large.
fn refused_for_memory(image: &Path) {
    let bytes = || ["media.bin", "dram.bin"].map(|file| fs::read(image.join(file)).unwrap());
    let before = bytes();
    let opened = DeviceEngine::open(image, Pace::None);
    let error = opened.err().expect("it is opened").to_string();
    assert!(error.contains("smaller ssd.dram"), "{error}");
    assert!(before == bytes(), "the image is changed: {error}");
}
