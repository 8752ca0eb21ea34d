//! Programs in C beside a server of a small device.

use device::config::Layer;
use device::{DeviceConfig, Image, RealDevice};
use serve::shm::serve;
use serve::{Address, Control, Listener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

/// Every warning is an error, in C and, for the header, in C++.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// The directory in which the library was built for this test.
pub fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let places = [deps, deps.parent().unwrap()];
    let found = places
        .iter()
        .find(|place| place.join("libentresol_shm.so").exists());
    found
        .expect("cargo builds the library before its test")
        .to_path_buf()
}

pub fn run(command: &mut Command) -> Output {
    let output = command.output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

/// Compiles a program in C against the header and the library.
pub fn compile(source: &str, folder: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("program");
    run(Command::new("cc")
        .args(STRICT)
        .arg("-std=c99")
        .arg(here.join(source))
        .arg("-I")
        .arg(here.join("include"))
        .arg("-L")
        .arg(built())
        .arg("-lentresol_shm")
        .arg("-o")
        .arg(&program));
    run(Command::new("cc")
        .args(STRICT)
        .args(["-x", "c++", "-fsyntax-only"])
        .arg(here.join("include/entresol.h")));
    program
}

/// A small device.
pub fn image(folder: &Path) -> PathBuf {
    let sets = [
        "nand.channels=2",
        "nand.blocks_per_plane=24",
        "nand.pages_per_block=8",
        "ftl.over_provisioning=40%",
        "ssd.log.size=32KiB",
        "ssd.dram=96KiB",
        "ssd.log.tx_log=4KiB",
    ];
    let layers: Vec<Layer> = sets
        .iter()
        .map(|set| Layer::assignment(set).unwrap())
        .collect();
    let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
    let path = folder.join("image");
    Image::create(&path, &config).unwrap();
    path
}

/// A directory for a test, empty.
pub fn folder(name: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", env!("CARGO_PKG_NAME")));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Serves a device at a socket for as long as something takes.
pub fn serving<T>(device: &RealDevice, socket: &Path, work: impl FnOnce() -> T) -> T {
    let address = Address::parse_unix(&format!("unix:{}", socket.display())).unwrap();
    let listener = Listener::bind(&address).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let turn = || match stop.load(Ordering::Relaxed) {
            true => Control::Stop,
            false => Control::Continue,
        };
        let listener = &listener;
        scope.spawn(move || serve(device, listener, turn).unwrap());
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    })
}
