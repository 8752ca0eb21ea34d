//! What a client of the NBD server says, byte by byte: handshake and requests
//! (`crates/serve/tests/nbd/`).
#![no_main]

use device::Ram;
use forge::Choices;
use libfuzzer_sys::fuzz_target;
use port::Device;
use serve::nbd::{Command, Event, Export, Session};
use units::Bytes;

const SIZE: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// What a client says: options and requests with fields that are nearly right, or noise.
fn conversation(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut said = vec![0, 0, 0, choices.byte() % 4];
    while !choices.is_over() {
        match choices.byte() % 4 {
            0 => {
                said.extend(b"IHAVEOPT");
                said.extend(u32::from(choices.byte() % 12).to_be_bytes());
                let size = choices.byte() % 40;
                said.extend(u32::from(size).to_be_bytes());
                said.extend((0..size).map(|_| choices.byte()));
            }
            1 => said.extend((0..choices.byte() % 32).map(|_| choices.byte())),
            _ => {
                let (kind, blocks) = (choices.byte() % 8, choices.instead_of(1));
                said.extend(0x2560_9513_u32.to_be_bytes());
                said.extend([0, choices.byte() % 16, 0, kind]);
                said.extend(choices.word().to_be_bytes());
                said.extend(choices.instead_of(SIZE - BLOCK).to_be_bytes());
                let size = blocks.wrapping_mul(BLOCK) as u32;
                said.extend(size.to_be_bytes());
                if kind == 1 && size < 1 << 16 {
                    said.extend((0..size).map(|byte| byte as u8));
                }
            }
        }
    }
    said
}

fuzz_target!(|bytes: &[u8]| {
    let ram = Ram::new(Bytes::new(SIZE), Bytes::new(BLOCK));
    let export = Export::new("disk", ram.shape()).expect("an export");
    let (mut session, _) = Session::new(export);
    let said = conversation(&mut Choices::new(bytes));
    let mut input = &said[..];
    loop {
        let (taken, event) = session.step(input, &mut Vec::new());
        input = &input[taken..];
        match event {
            Event::More | Event::End(_) => break,
            Event::Went | Event::Refused(_) => {}
            Event::Request(request) => {
                let (at, size) = match request.command {
                    Command::Flush => continue,
                    Command::Write { at, bytes, .. } => (at, bytes.len() as u64),
                    Command::Read { at, size }
                    | Command::Trim { at, size, .. }
                    | Command::Zero { at, size, .. } => (at, size.get()),
                };
                assert!(size > 0 && at.get() % BLOCK == 0 && size % BLOCK == 0);
                assert!(at.get() + size <= SIZE);
            }
        }
    }
    assert!(session.kept() <= 2 * said.len());
});
