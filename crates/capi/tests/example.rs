//! The example in C, compiled with the system's compiler against the header and the library.

use device::config::Layer;
use device::{DeviceConfig, Image, Pace, RealDevice};
use port::Device;
use serve::shm::serve;
use serve::{Address, Listener, Turn};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use units::ByteAddr;

/// Every warning is an error, in C and, for the header, in C++.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// The directory in which the library was built for this test.
fn built() -> PathBuf {
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

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

fn compile(folder: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("account");
    run(Command::new("cc")
        .args(STRICT)
        .arg("-std=c99")
        .arg(here.join("examples/account.c"))
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

fn image(folder: &Path) -> PathBuf {
    let sets = [
        "nand.channels=2",
        "nand.blocks_per_plane=24",
        "nand.pages_per_block=8",
        "ftl.over_provisioning=40%",
        "ssd.write_log=32KiB",
        "ssd.dram=96KiB",
        "ssd.tx_log=4KiB",
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

#[test]
fn the_example_in_c_does_what_it_says() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-example");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let program = compile(&folder);
    let device = RealDevice::open(&image(&folder), Pace::None).unwrap();
    let socket = std::env::temp_dir().join(format!("entresol-c-{}", std::process::id()));
    // The path alone, and as a server prints it.
    let account = |before: &str| {
        let mut command = Command::new(&program);
        let place = format!("{before}{}", socket.display());
        command.arg(place).env("LD_LIBRARY_PATH", built());
        command
    };

    let refused = account("").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("no device can be reached there"), "{said}");

    let address = Address::parse_unix(&format!("unix:{}", socket.display())).unwrap();
    let listener = Listener::bind(&address).unwrap();
    let stop = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        let turn = || match stop.load(Ordering::Relaxed) {
            true => Turn::Stop,
            false => Turn::On,
        };
        let (device, listener) = (&device, &listener);
        scope.spawn(move || serve(device, listener, turn).unwrap());
        let output = account("unix:").output().unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    });
    let expected = "blocks of 4096 B, transactions: 1\n\
        the device's clock goes on: 1\n\
        before: 100 and 20\n\
        committed in 1 part\n\
        after: 70 and 50\n\
        unchanged: 70 and 50\n\
        refused: transaction 2 is not open; it was never begun, or is committed or aborted already\n\
        blocks: 0 7\n\
        refused: beyond the end\n\
        refused: the device is null; connect first\n\
        commits 1, aborts 1, block port 8192 B\n";
    assert_eq!(said, expected);
    // What it says of the device is what the device says.
    for (account, money) in [(0, 70_u64), (4096, 50)] {
        let mut found = [0; 8];
        let read = device.read(ByteAddr::new(account), &mut found);
        device.block_on(read).unwrap();
        assert_eq!(u64::from_ne_bytes(found), money);
    }
    let stats = device.stats();
    assert_eq!((stats.commits, stats.aborts), (1, 1));
    device.close().unwrap();
}
