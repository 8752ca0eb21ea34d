//! Bytes that wait to go to a client, and buffers that are used again.

use crate::stream::Stream;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

/// Answers that are sent with one call.
const GATHER: usize = 64;
/// A buffer larger than this is not kept for the next request.
const MOST_KEPT: usize = 1 << 20;
const MOST_BUFFERS: usize = 256;
/// Small answers go into one piece up to about so many bytes: it is freed when all of it was sent.
const MOST_SMALL: usize = 64 << 10;

/// Buffers of requests that are over.
#[derive(Default)]
pub(crate) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// One of them, or a new one.
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps one, if it is worth it.
    pub fn give(&mut self, buffer: Vec<u8>) {
        if (1..=MOST_KEPT).contains(&buffer.capacity()) && self.0.len() < MOST_BUFFERS {
            self.0.push(buffer);
        }
    }
}

/// Bytes in one piece.
struct Segment {
    bytes: Vec<u8>,
    sent: usize,
    /// Whether small answers may be added to it.
    is_open: bool,
}

/// Answers, in the order in which they go.
#[derive(Default)]
pub(crate) struct Output {
    segments: VecDeque<Segment>,
    unsent: usize,
}

impl Output {
    /// Bytes that the client has not taken.
    pub fn unsent(&self) -> usize {
        self.unsent
    }

    /// Adds a buffer as it is, from `start` on.
    pub fn push(&mut self, bytes: Vec<u8>, start: usize) {
        self.unsent += bytes.len() - start;
        self.segments.push_back(Segment {
            bytes,
            sent: start,
            is_open: false,
        });
    }

    /// Adds a few bytes behind others.
    pub fn small(&mut self, add: impl FnOnce(&mut Vec<u8>)) {
        let has_room = |last: &Segment| last.is_open && last.bytes.len() < MOST_SMALL;
        if !self.segments.back().is_some_and(has_room) {
            self.segments.push_back(Segment {
                bytes: Vec::new(),
                sent: 0,
                is_open: true,
            });
        }
        let segment = self.segments.back_mut().expect("there is one");
        let before = segment.bytes.len();
        add(&mut segment.bytes);
        self.unsent += segment.bytes.len() - before;
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    /// The client has gone.
    pub fn send(&mut self, stream: &mut Stream, buffers: &mut Buffers) -> io::Result<()> {
        while self.unsent > 0 {
            let mut slices = [IoSlice::new(&[]); GATHER];
            let count = self.segments.len().min(GATHER);
            for (slice, segment) in slices.iter_mut().zip(&self.segments) {
                *slice = IoSlice::new(&segment.bytes[segment.sent..]);
            }
            match stream.write_vectored(&slices[..count]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => self.was_sent(sent, buffers),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn was_sent(&mut self, mut count: usize, buffers: &mut Buffers) {
        self.unsent -= count;
        while let Some(segment) = self.segments.front_mut() {
            let left = segment.bytes.len() - segment.sent;
            if count < left {
                segment.sent += count;
                return;
            }
            count -= left;
            if let Some(segment) = self.segments.pop_front() {
                buffers.give(segment.bytes);
            }
        }
    }
}

/// Whether a socket's error goes by itself.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that is always behind, and never stands still.
    #[test]
    fn what_was_sent_is_not_kept_for_who_is_always_behind() {
        const ANSWER: usize = 24;
        let (mut output, mut buffers) = (Output::default(), Buffers::default());
        let add = |output: &mut Output| output.small(|out| out.extend([7; ANSWER]));
        add(&mut output);
        for _ in 0..20_000 {
            add(&mut output);
            output.was_sent(ANSWER, &mut buffers);
            assert_eq!(output.unsent(), ANSWER);
            let kept: usize = output.segments.iter().map(|one| one.bytes.len()).sum();
            assert!(kept < MOST_SMALL + 2 * ANSWER, "{kept}");
        }
        output.was_sent(ANSWER, &mut buffers);
        assert!(output.segments.is_empty());
    }
}
