//! What is served under which name.

use super::request::{Cookie, Refusal};
use super::wire::{Errno, MOST_PAYLOAD, can};
use port::Shape;
use thiserror::Error;
use units::{ByteAddr, Bytes};

/// Longest name of an export, in bytes: what every client can ask for.
const MOST_NAME: usize = 256;

/// A device that cannot be served as it is.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ExportError {
    /// NBD has no such block.
    #[error(
        "blocks of {block} cannot be served by NBD, which has powers of two from 1 B to 64KiB; \
         make a device with such pages"
    )]
    Block {
        /// The device's.
        block: Bytes,
    },
    /// Clients could not ask for it.
    #[error("an export's name of {length} bytes is too long; choose one of 1 to 256")]
    Name {
        /// Bytes of the name.
        length: usize,
    },
}

/// A device as clients see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    name: String,
    size: Bytes,
    block: Bytes,
}

/// Whether a range is read, or given up, or takes bytes: one beyond the end has another number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Out,
    In,
}

impl Export {
    /// A device of this shape under a name. Clients that ask for no name get it too.
    ///
    /// # Errors
    /// A size of block that the protocol does not have; a name without letters or with too many.
    pub fn new(name: &str, shape: Shape) -> Result<Self, ExportError> {
        let block = shape.block;
        if !block.get().is_power_of_two() || block > Bytes::from_kib(64) {
            return Err(ExportError::Block { block });
        }
        if name.is_empty() || name.len() > MOST_NAME {
            let length = name.len();
            return Err(ExportError::Name { length });
        }
        Ok(Self {
            name: name.to_string(),
            size: Bytes::new(shape.capacity.get() / block.get() * block.get()),
            block,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that can be asked for: whole blocks.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// What requests are multiples of.
    pub fn block(&self) -> Bytes {
        self.block
    }

    /// Whether a client means this one.
    pub(super) fn is_called(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }

    /// What it can do, as the protocol's flags.
    pub(super) fn flags(&self, is_structured: bool) -> u16 {
        let always = can::FLAGS | can::FLUSH | can::FUA | can::TRIM | can::WRITE_ZEROES;
        let whole = if is_structured { can::DF } else { 0 };
        always | can::MULTI_CONN | can::FAST_ZERO | whole
    }

    /// The range of a request, if it is one of this export.
    pub(super) fn range(
        &self,
        cookie: Cookie,
        at: u64,
        size: u32,
        way: Way,
    ) -> Result<(ByteAddr, Bytes), Refusal> {
        let refuse = |errno, message| Refusal {
            cookie,
            errno,
            message,
        };
        let (first, bytes) = (ByteAddr::new(at), Bytes::new(u64::from(size)));
        let block = self.block.get();
        if size == 0 || !at.is_multiple_of(block) || !bytes.get().is_multiple_of(block) {
            let message = format!(
                "{size} bytes at {at} are not whole blocks of {block} bytes; align the request"
            );
            return Err(refuse(Errno::Invalid, message));
        }
        let end = first.checked_add(bytes).map(ByteAddr::get);
        if end.is_none_or(|end| end > self.size.get()) {
            let errno = if way == Way::In {
                Errno::NoSpace
            } else {
                Errno::Invalid
            };
            let all = self.size.get();
            let message = format!("{size} bytes at {at} reach beyond the export's {all}");
            return Err(refuse(errno, message));
        }
        Ok((first, bytes))
    }

    /// The payload of a request, if it may have so much.
    pub(super) fn payload(&self, cookie: Cookie, size: u32) -> Result<(), Refusal> {
        if size <= MOST_PAYLOAD {
            return Ok(());
        }
        Err(Refusal {
            cookie,
            errno: Errno::Invalid,
            message: format!(
                "{size} bytes are more than the {MOST_PAYLOAD} of one request; split it"
            ),
        })
    }
}
