//! Reservations, conflicts and vectored writes, in C.

mod common;

use common::{built, compile, folder, image, run, serving};
use device::{Pace, RealDevice};
use std::process::Command;

#[test]
fn transactions_wait_reserve_and_are_told_why_not() {
    let folder = folder("c-transactions");
    let program = compile("tests/transactions.c", &folder);
    let device = RealDevice::open(&image(&folder), Pace::None).unwrap();
    let socket = std::env::temp_dir().join(format!("entresol-tx-{}", std::process::id()));
    let output = serving(&device, &socket, || {
        let mut command = Command::new(&program);
        run(command.arg(&socket).env("LD_LIBRARY_PATH", built()))
    });
    let expected = "lines of 64, 108 open at most, survive 1 1, pmem 0, costs 1\n\
        seen while it is open: 1\n\
        not waiting: 3 byte 0 was written by a transaction that is still open; commit or abort it \
        first\n\
        beyond: 13 transaction 1 has reserved 2 lines and writes more; abort it and reserve more\n\
        committed in 1 part, then written: 91\n\
        too large: 12\n\
        no room: 7\n\
        unknown flags: 101\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    device.close().unwrap();
}
