//! Commands of a connected host, and bytes between them, on a server with sockets and a device:
//! what lies behind [`serve::nvme::Session`], which the target `nvme` tries alone.
#![no_main]

#[path = "../../crates/serve/tests/common/probe.rs"]
#[allow(dead_code, reason = "the tests have the rest")]
mod device;
#[path = "../../crates/serve/tests/nvme/probe.rs"]
#[allow(dead_code, unused_imports, reason = "the tests have the rest")]
mod probe;

use forge::Choices;
use libfuzzer_sys::fuzz_target;
use probe::{Pace, Serving};
use serve::nvme::client::{Client, ClientError, Command};
use std::cell::RefCell;
use std::io::Write;
use std::net::TcpStream;
use std::sync::LazyLock;

static SERVING: LazyLock<Serving> = LazyLock::new(|| Serving::new(Pace::default()));

/// Opcodes with something behind them, of both kinds of queues and of vendors.
const KNOWN: [u8; 28] = [
    0x00, 0x01, 0x02, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18, 0x7f, 0xc0, 0xc1, 0xc2, 0xc4, 0xc5,
    0xc8, 0xc9, 0xcc, 0xcd, 0xd0, 0xd1, 0xd4, 0xd5, 0x04, 0x0d, 0x19, 0x80,
];

/// Property get and property set, and connect.
const FABRICS: u8 = 0x7f;

thread_local! {
    static CLIENT: RefCell<Option<Client>> = const { RefCell::new(None) };
}

/// A command whose fields are small, or anything.
fn command(choices: &mut Choices<'_>) -> (Command, Vec<u8>) {
    let any = choices.byte();
    let opcode = match any & 3 {
        0 => choices.byte(),
        _ => KNOWN[usize::from(choices.byte()) % KNOWN.len()],
    };
    let mut command = Command::new(opcode).giving(u32::from(choices.byte()) << 5);
    // Of a connect the server would wait for the data.
    if opcode == FABRICS {
        command = command.of(u32::from(choices.byte() & 4));
    } else if any & 4 != 0 {
        command = command.of(u32::from(choices.byte()));
    }
    for _ in 0..choices.byte() % 6 {
        let dword = 10 + usize::from(choices.byte()) % 6;
        let small = u64::from(choices.byte() % 64);
        let value = choices.instead_of(small) as u32;
        command = command.with(dword, value);
    }
    // Data go to the controller, deallocated ranges among them.
    let data = match opcode & 3 {
        1 => (0..8 + usize::from(choices.byte()) * 8)
            .map(|place| if place % 16 < 8 { 0 } else { choices.byte() })
            .collect(),
        _ => Vec::new(),
    };
    (command, data)
}

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    CLIENT.with_borrow_mut(|kept| {
        while !choices.is_over() {
            if choices.byte() == 0 {
                // Somebody who knows no protocol, beside.
                let mut socket = TcpStream::connect(SERVING.place).expect("it lives");
                let noise: Vec<u8> = (0..choices.byte()).map(|_| choices.byte()).collect();
                let _ = socket.write_all(&noise);
            }
            let client = kept.get_or_insert_with(|| SERVING.client());
            let (command, data) = command(&mut choices);
            let queue = match choices.byte() & 1 {
                0 => &mut client.admin,
                _ => &mut client.io,
            };
            // Requests for events wait for one, and connections end with a disconnect.
            let opcode = command.0[0];
            if opcode == 0x0c {
                continue;
            }
            match queue.ask(command, data) {
                Ok(_) | Err(ClientError::Failed(_)) => {}
                Err(_) => *kept = None,
            }
        }
        // Whatever was said, it serves an honest host.
        let client = kept.get_or_insert_with(|| SERVING.client());
        if client.read(0, 1).is_err() {
            *kept = None;
            SERVING.client().read(0, 1).expect("it serves");
        }
    });
});
