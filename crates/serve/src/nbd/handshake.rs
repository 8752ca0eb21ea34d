//! What client and server agree on before the first request.

use super::export::Export;
use super::wire::{
    FIXED_NEWSTYLE, GREETING, MOST_PAYLOAD, NO_ZEROES, OPTION_REPLY_MAGIC, PADDING, Reader, answer,
    info, option,
};

/// What is told of every export.
const DESCRIPTION: &[u8] = b"Entresol memory-semantic SSD";

/// What has been agreed on so far.
#[derive(Clone, Default, Debug)]
pub(super) struct Handshake {
    has_no_zeroes: bool,
    pub is_structured: bool,
}

/// What follows an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    Options,
    Requests,
    /// The client went, or named what is not there where there is no answer for that.
    End,
}

/// What a server says first.
pub(super) fn greeting() -> Vec<u8> {
    let mut out = GREETING.to_vec();
    out.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    out
}

/// Answers an option.
pub(super) fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

impl Handshake {
    /// The flags with which a client answers the greeting. False if it wants what is not offered,
    /// or speaks the protocol from before options had answers.
    pub fn client_flags(&mut self, flags: u32) -> bool {
        self.has_no_zeroes = flags & u32::from(NO_ZEROES) != 0;
        let known = u32::from(FIXED_NEWSTYLE | NO_ZEROES);
        flags & !known == 0 && flags & u32::from(FIXED_NEWSTYLE) != 0
    }

    /// One option with all its data.
    pub fn option(&mut self, export: &Export, code: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        match code {
            option::EXPORT_NAME => return self.export_name(export, data, out),
            option::ABORT => {
                reply(out, code, answer::ACK, b"");
                return Next::End;
            }
            option::GO | option::INFO => return self.go(export, code, data, out),
            option::LIST | option::STRUCTURED_REPLY if !data.is_empty() => {
                reply(out, code, answer::INVALID, b"this option has no data");
            }
            option::LIST => {
                let mut server = (export.name().len() as u32).to_be_bytes().to_vec();
                server.extend(export.name().bytes());
                reply(out, code, answer::SERVER, &server);
                reply(out, code, answer::ACK, b"");
            }
            option::STRUCTURED_REPLY => {
                self.is_structured = true;
                reply(out, code, answer::ACK, b"");
            }
            _ => reply(out, code, answer::UNSUPPORTED, b"not offered"),
        }
        Next::Options
    }

    /// The old way to start: without an answer for names that are not there, and without sizes of
    /// blocks.
    fn export_name(&self, export: &Export, name: &[u8], out: &mut Vec<u8>) -> Next {
        if !export.is_called(name) {
            return Next::End;
        }
        out.extend(export.size().get().to_be_bytes());
        out.extend(export.flags(self.is_structured).to_be_bytes());
        if !self.has_no_zeroes {
            out.extend([0; PADDING]);
        }
        Next::Requests
    }

    fn go(&self, export: &Export, code: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        let Some((name, wanted)) = go_data(data) else {
            reply(out, code, answer::INVALID, b"lengths do not add up");
            return Next::Options;
        };
        if !export.is_called(name) {
            let message = format!("no such export; there is {}", export.name());
            reply(out, code, answer::UNKNOWN, message.as_bytes());
            return Next::Options;
        }
        if code == option::GO && !wanted.contains(&info::BLOCK_SIZE) && export.block().get() > 1 {
            let message = b"requests must be whole blocks; ask for their size";
            reply(out, code, answer::BLOCK_SIZE_REQUIRED, message);
            return Next::Options;
        }
        self.describe(export, code, &wanted, out);
        reply(out, code, answer::ACK, b"");
        if code == option::GO {
            Next::Requests
        } else {
            Next::Options
        }
    }

    /// Size and flags always, block sizes too; name and description to those who ask.
    fn describe(&self, export: &Export, code: u32, wanted: &[u16], out: &mut Vec<u8>) {
        let mut tell = |kind: u16, parts: &[&[u8]]| {
            let data = [&[&kind.to_be_bytes()[..]], parts].concat().concat();
            reply(out, code, answer::INFO, &data);
        };
        let flags = export.flags(self.is_structured).to_be_bytes();
        tell(info::EXPORT, &[&export.size().get().to_be_bytes(), &flags]);
        // At most 64 KiB, so it fits.
        let block = (export.block().get() as u32).to_be_bytes();
        tell(
            info::BLOCK_SIZE,
            &[&block, &block, &MOST_PAYLOAD.to_be_bytes()],
        );
        if wanted.contains(&info::NAME) {
            tell(info::NAME, &[export.name().as_bytes()]);
        }
        if wanted.contains(&info::DESCRIPTION) {
            tell(info::DESCRIPTION, &[DESCRIPTION]);
        }
    }
}

/// Name and wanted information of an option that asks for an export.
fn go_data(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let mut from = Reader(data);
    let length = from.u32()? as usize;
    let name = from.bytes(length)?;
    let count = from.u16()?;
    if from.0.len() != 2 * usize::from(count) {
        return None;
    }
    let mut wanted = Vec::new();
    while let Some(kind) = from.u16() {
        wanted.push(kind);
    }
    Some((name, wanted))
}
