//! Stores a line on an NVMe device and loads it again, through both of the kernel's doors: what the
//! guest of `make e2e` asks of our NVMe/TCP target.
//!
//! Usage: `nvme_line DEVICE ADDRESS [DEVICE_FOR_IO_URING]`
#![forbid(unsafe_code)]

use inloop::nvme::{Accessed, Dialect, Door, LineDevice, Nvme, NvmeError};
use std::path::Path;
use std::process::ExitCode;
use units::LineAddr;
use units::address::LINE_BYTES;

fn through(door: Door, path: &str, at: LineAddr, mark: u8) -> Result<[Accessed; 2], NvmeError> {
    let mut device = Nvme::open(Path::new(path), Dialect::Entresol, door)?;
    let mut line = [mark; 64];
    let store = device.access(at, true, &mut line)?;
    let mut found = [0; 64];
    let load = device.access(at, false, &mut found)?;
    assert_eq!(found, line, "what is loaded is what was stored");
    Ok([store, load])
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (path, at, ring) = match &words[..] {
        [path, at] => (path, at, path),
        [path, at, ring] => (path, at, ring),
        _ => {
            eprintln!("usage: nvme_line DEVICE ADDRESS [DEVICE_FOR_IO_URING]");
            return ExitCode::from(2);
        }
    };
    let Ok(at) = at.parse::<u64>() else {
        eprintln!("nvme_line: {at}: is no address; give a number of bytes");
        return ExitCode::from(2);
    };
    let at = LineAddr::new(at / LINE_BYTES.get());
    for (door, path, mark) in [(Door::Ioctl, path, 0x5a), (Door::Uring, ring, 0xa5)] {
        match through(door, path, at, mark) {
            Ok([store, load]) => {
                println!("{door:?}: store {}, load {}", store.took, load.took);
            }
            Err(error) => {
                eprintln!("nvme_line: {door:?}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
