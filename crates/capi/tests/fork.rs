//! Both sides of a fork, in C: each call of the child is refused, and the parent goes on.

mod common;

use common::{built, compile, folder, image, run, serving};
use device::{Pace, RealDevice};
use std::process::Command;

#[test]
fn a_fork_is_told_that_the_connection_is_the_other_process_own() {
    let folder = folder("c-fork");
    let program = compile("tests/fork.c", &folder);
    let device = RealDevice::open(&image(&folder), Pace::None).unwrap();
    let socket = std::env::temp_dir().join(format!("entresol-fork-{}", std::process::id()));
    let output = serving(&device, &socket, || {
        let mut command = Command::new(&program);
        run(command.arg(&socket).env("LD_LIBRARY_PATH", built()))
    });
    let sentence = "the connection to the device was made before this process was forked, and is \
        the other process' alone; connect anew in this one";
    let expected = format!(
        "child: 102 {sentence}\nchild, committing: 102 {sentence}\nchild, connected anew: 7\n\
         parent: 7 in 10000 reads\n"
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    device.close().unwrap();
}
