//! Where the bytes of requests are.

use super::SHARED;
use port::SharedBlock;
use units::RequestId;

/// Bytes of requests: each has its place in the buffer of a command.
#[derive(Clone, Debug, Default)]
pub(super) struct Payloads {
    /// By command.
    pub buffers: Vec<Vec<u8>>,
    /// By command: its bytes instead, if it has brought them so.
    pub shared: Vec<Vec<SharedBlock>>,
    /// By request.
    pub places: Vec<Place>,
}

/// Where the payload of a request is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// In the buffer of this command,
    pub command: usize,
    /// from this byte on,
    pub at: usize,
    /// so many lines.
    pub lines: usize,
}

impl Payloads {
    /// Whether a request is of a command that has brought its bytes shared.
    #[inline]
    pub fn is_shared(&self, id: RequestId) -> bool {
        let shared = self.shared.get(self.places[id.index()].command);
        shared.is_some_and(|blocks| !blocks.is_empty())
    }
    #[inline]
    pub fn bytes(&self, id: RequestId, at: usize, size: usize) -> &[u8] {
        let place = self.places[id.index()];
        if let Some(blocks) = self.shared.get(place.command)
            && !blocks.is_empty()
        {
            let begin = place.at + at;
            let block = &blocks[begin / SHARED][..];
            return &block[begin % SHARED..][..size];
        }
        &self.buffers[place.command][place.at + at..place.at + at + size]
    }
    #[inline]
    pub fn bytes_mut(&mut self, id: RequestId, at: usize, size: usize) -> &mut [u8] {
        let place = self.places[id.index()];
        &mut self.buffers[place.command][place.at + at..place.at + at + size]
    }
}
