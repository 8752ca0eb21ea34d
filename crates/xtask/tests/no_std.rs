//! The firmware's home is an SSD controller: it builds without `std`.
//!
//! Proof on the host, without another target: a static library with its own panic handler and
//! allocator. If any dependency pulled in `std`, there would be two panic handlers and the compiler
//! would refuse with E0152.

use std::fs;
use std::path::Path;
use std::process::Command;
use xtask::root;

const MANIFEST: &str = r#"
[package]
name = "controller-image"
version = "0.0.0"
edition = "2024"

[lib]
crate-type = ["staticlib"]

[dependencies]
firmware = { package = "entresol-firmware", path = "ROOT/crates/firmware" }
units = { package = "entresol-units", path = "ROOT/crates/units" }

[profile.dev]
panic = "abort"
debug = false

[workspace]
"#;

const IMAGE: &str = r#"
#![no_std]
extern crate alloc;
extern crate firmware;
extern crate units;
CONTROL
use core::alloc::{GlobalAlloc, Layout};

struct Nothing;

unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Nothing = Nothing;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"#;

/// Builds the image with an extra line; returns what the compiler says when it refuses.
fn build(place: &Path, control: &str) -> Result<(), String> {
    fs::create_dir_all(place.join("src")).expect("the test's own directory can be written");
    let manifest = MANIFEST.replace("ROOT", &root().display().to_string());
    fs::write(place.join("Cargo.toml"), manifest).expect("as above");
    fs::write(place.join("src/lib.rs"), IMAGE.replace("CONTROL", control)).expect("as above");
    // The same versions as the workspace, which are already here.
    fs::copy(root().join("Cargo.lock"), place.join("Cargo.lock")).expect("as above");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline"])
        .current_dir(place)
        .env("CARGO_TARGET_DIR", place.join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        Ok(())
    } else {
        Err(said)
    }
}

#[test]
fn the_firmware_builds_without_std_and_the_proof_notices_std() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("controller-image");
    if let Err(said) = build(&place, "") {
        panic!("the firmware or one of its dependencies needs std:\n{said}");
    }
    let refused = build(&place, "extern crate std;").expect_err("std has a panic handler too");
    assert!(
        refused.contains("E0152"),
        "refused for another reason:\n{refused}"
    );
}
