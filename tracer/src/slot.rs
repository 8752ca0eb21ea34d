//! Where the callbacks write: one buffer per virtual processor.
//!
//! Only the processor's own host thread appends, and only it takes words out of the front, under
//! the slot's lock. Another thread (at the end, or at a region marker) may read the words before
//! `next` under that lock: they do not change, since moving them needs the lock.

#![allow(unsafe_code)]

use crate::recorder;
use crate::stream::Stream;
use crate::sync::Call;
use crate::word;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// Words of a buffer: small enough to stay in the second-level cache.
const WORDS: usize = 1 << 13;
const WORD_BYTES: usize = 8;
/// Most virtual processors at a time.
const SLOTS: usize = 4096;

/// The thread that a virtual processor runs at present.
pub struct Running {
    /// Its stream.
    pub stream: Stream,
    /// Words at the front of the buffer that are encoded already.
    pub consumed: usize,
    /// The system call in progress and when it began.
    pub call: Option<(Call, Instant)>,
}

/// A virtual processor's buffer. Addresses are kept as integers; zero: no buffer yet.
#[repr(align(128))]
pub struct Slot {
    next: AtomicUsize,
    end: AtomicUsize,
    base: AtomicUsize,
    /// Number of the block that runs.
    block: AtomicU32,
    running: Mutex<Option<Running>>,
}

static ALL: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

/// The slot of virtual processor `vcpu`.
#[inline]
pub fn of(vcpu: u32) -> &'static Slot {
    &ALL[vcpu as usize]
}

/// Every slot that ever had a buffer.
pub fn used() -> impl Iterator<Item = &'static Slot> {
    ALL.iter()
        .filter(|slot| slot.base.load(Ordering::Acquire) != 0)
}

impl Slot {
    const fn new() -> Self {
        Self {
            next: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            base: AtomicUsize::new(0),
            block: AtomicU32::new(0),
            running: Mutex::new(None),
        }
    }
    /// Appends the word of a block that begins. Only from the processor's own host thread.
    #[inline(always)]
    pub fn push_block(&self, word: u64) {
        self.block
            .store(word::block_number(word), Ordering::Relaxed);
        self.push(word, true);
    }
    /// Appends the word of an access by the instruction at `origin`, unless another block runs:
    /// QEMU 7.2 does not end its listening to the helpers of an instruction that leaves its block
    /// by one, as `ret`, every indirect jump or call and what ends a page, and would tell us with
    /// that origin of what it does in the kernel's place later, as writing a signal's frame. If no
    /// other block ran, [`crate::frame`] finds it.
    /// Only from the processor's own host thread.
    #[inline(always)]
    pub fn push_access(&self, info: u32, addr: u64, origin: u64) {
        if word::block_number(origin) == self.block.load(Ordering::Relaxed) {
            self.push(word::access(info, addr, origin), false);
        }
    }
    /// Appends a word; `starts_block` tells that the block before it is complete.
    #[inline(always)]
    fn push(&self, word: u64, starts_block: bool) {
        let mut next = self.next.load(Ordering::Relaxed);
        if next == self.end.load(Ordering::Relaxed) {
            next = self.make_room(starts_block);
        }
        // SAFETY: `next` is below `end`, hence in the buffer, and only this thread writes there.
        unsafe { (next as *mut u64).write(word) };
        self.next.store(next + WORD_BYTES, Ordering::Release);
    }
    /// The thread that runs here, if any.
    pub fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().expect("no thread panicked")
    }
    /// The words appended and not yet taken out, encoded ones included; the slot is locked.
    pub fn words(&self, _locked: &Running) -> &[u64] {
        let base = self.base.load(Ordering::Acquire);
        let words = (self.next.load(Ordering::Acquire) - base) / WORD_BYTES;
        if base == 0 {
            return &[];
        }
        // SAFETY: words before `next` are initialised and do not change while the slot is locked.
        unsafe { std::slice::from_raw_parts(base as *const u64, words) }
    }
    /// Begins a new thread here with an empty buffer.
    pub fn begin(&self, stream: Stream) -> Option<Running> {
        let mut running = self.lock();
        if self.base.load(Ordering::Relaxed) == 0 {
            self.allocate();
        }
        self.restart();
        running.replace(Running {
            stream,
            consumed: 0,
            call: None,
        })
    }
    /// Empties the buffer.
    pub fn restart(&self) {
        let base = self.base.load(Ordering::Relaxed);
        self.next.store(base, Ordering::Release);
        self.end.store(base + WORDS * WORD_BYTES, Ordering::Relaxed);
    }

    fn allocate(&self) {
        let buffer = Box::leak(vec![0_u64; WORDS].into_boxed_slice());
        self.base
            .store(buffer.as_mut_ptr() as usize, Ordering::Release);
    }

    /// Encodes what is complete and moves the rest to the front; the place of the next word.
    #[cold]
    #[inline(never)]
    fn make_room(&self, starts_block: bool) -> usize {
        if recorder::is_detached() {
            // After a fork the locks may be held by threads that are gone.
            if self.base.load(Ordering::Relaxed) == 0 {
                self.allocate();
            }
            self.restart();
        } else {
            recorder::make_room(self, starts_block);
        }
        self.next.load(Ordering::Relaxed)
    }
    /// Takes the encoded words out of the front. Only from the processor's own host thread, with
    /// the slot locked.
    pub fn compact(&self, running: &mut Running) {
        let base = self.base.load(Ordering::Relaxed);
        let left = self.words(running).len() - running.consumed;
        let from = (base + running.consumed * WORD_BYTES) as *const u64;
        // SAFETY: both ranges lie in the buffer; nobody else reads it while the slot is locked.
        unsafe { std::ptr::copy(from, base as *mut u64, left) };
        self.next.store(base + left * WORD_BYTES, Ordering::Release);
        running.consumed = 0;
    }
    /// Whether no word fits any more.
    pub fn is_full(&self) -> bool {
        self.next.load(Ordering::Relaxed) == self.end.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::chunk::StreamId;

    #[test]
    fn an_access_of_a_block_that_no_longer_runs_is_not_appended() {
        let slot = of(SLOTS as u32 - 1);
        slot.begin(Stream::new(StreamId(0)));
        let load = 1 << 16 | 3 << 4;
        slot.push_block(word::block(6, 9));
        slot.push_access(load, 0x100, word::origin(6, 8));
        slot.push_block(word::block(7, 2));
        slot.push_access(load, 0x200, word::origin(6, 8));
        let expected = [
            word::block(6, 9),
            word::access(load, 0x100, word::origin(6, 8)),
            word::block(7, 2),
        ];
        let running = slot.lock();
        assert_eq!(
            slot.words(running.as_ref().expect("it has begun")),
            expected
        );
    }
}
