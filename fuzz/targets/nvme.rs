//! What a host of the NVMe/TCP target says, byte by byte (`crates/serve/tests/nvme/`).
#![no_main]

use forge::Choices;
use libfuzzer_sys::fuzz_target;
use serve::nvme::{
    CommandId, Digests, ENTRY_BYTES, Event, Framing, MOST_DATA, Pdu, Session, TransferTag,
};

/// What a host says: PDUs with fields that are nearly right, or noise.
fn conversation(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut said = Vec::new();
    let digests = Digests {
        header: choices.byte() % 2 == 1,
        data: choices.byte() % 2 == 1,
    };
    let framing = Framing {
        digests,
        alignment: choices.byte() % 32,
    };
    let hello = Pdu::InitializeRequest {
        version: choices.instead_of(0) as u16,
        alignment: choices.instead_of(0) as u8,
        digests,
        most_ready: 0,
    };
    hello.write(Framing::default(), &[], &mut said);
    while !choices.is_over() {
        let start = said.len();
        match choices.byte() % 5 {
            0 => said.extend((0..choices.byte() % 64).map(|_| choices.byte())),
            1 => {
                let size = u32::from(choices.byte());
                let data = Pdu::HostData {
                    command: CommandId(choices.instead_of(0) as u16),
                    tag: TransferTag(choices.instead_of(0) as u16),
                    offset: choices.instead_of(0) as u32,
                    size: choices.instead_of(u64::from(size)) as u32,
                    is_last: choices.byte() % 2 == 1,
                };
                data.write(framing, &vec![7; size as usize], &mut said);
            }
            _ => {
                let mut entry = [0; ENTRY_BYTES];
                entry[0] = choices.byte();
                entry[39] = choices.byte();
                let size = usize::from(choices.byte());
                Pdu::Command(entry).write(framing, &vec![9; size], &mut said);
            }
        }
        // A byte of it is another one.
        if choices.byte() % 4 == 0 && said.len() > start {
            let at = start + usize::from(choices.byte()) % (said.len() - start);
            said[at] ^= choices.byte();
        }
    }
    said
}

fuzz_target!(|bytes: &[u8]| {
    let said = conversation(&mut Choices::new(bytes));
    let mut session = Session::default();
    let (mut input, mut out) = (&said[..], Vec::new());
    let mut has_asked = false;
    loop {
        let (taken, event) = session.step(input, &mut out);
        input = &input[taken..];
        match event {
            Event::More | Event::End(_) => break,
            Event::Went => {}
            Event::Command(capsule) => {
                assert!(capsule.data.len() <= MOST_DATA as usize);
                assert!(!capsule.was_asked_for || has_asked);
                // The first command's data are asked for.
                if !has_asked {
                    session.ask(capsule.entry, 300, &mut out);
                    has_asked = true;
                }
            }
        }
        assert!(session.kept() <= 2 * said.len());
    }
});
