//! The example in C, compiled with the system's compiler against the header and the library.

mod common;

use common::{built, compile, folder, image, serving};
use device::{Pace, RealDevice};
use port::Device;
use std::process::Command;
use units::ByteAddr;

#[test]
fn the_example_in_c_does_what_it_says() {
    let folder = folder("c-example");
    let program = compile("../../examples/c/account.c", &folder);
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

    let output = serving(&device, &socket, || account("unix:").output().unwrap());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let said = String::from_utf8(output.stdout).unwrap();
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
