//! What a capture sends beyond a small shared cache: `traffic FILE [KIB [SLICE]]`.
//!
//! Threads take turns of SLICE instructions on one 16-way LRU cache of KIB (256) KiB, without
//! timing. A quick look at whether a capture exercises a device; the simulator gives the figures.

use trace::{MemAccess, TraceError, TraceFile};

const WAYS: usize = 16;

/// Per set, lines from most to least recently used, with whether they are dirty.
struct Cache {
    sets: Vec<Vec<(u64, bool)>>,
    misses: u64,
    dirty_evictions: u64,
}

impl Cache {
    fn new(kib: usize) -> Self {
        let sets = (kib * 1024 / 64 / WAYS).max(1);
        Self {
            sets: vec![Vec::with_capacity(WAYS + 1); sets],
            misses: 0,
            dirty_evictions: 0,
        }
    }
    fn access(&mut self, access: MemAccess, write: bool) {
        for line in access.first_line().get()..=access.last_line().get() {
            let index = line as usize % self.sets.len();
            let set = &mut self.sets[index];
            let known = set.iter().position(|(known, _)| *known == line);
            let (_, dirty) = known.map_or((line, false), |at| set.remove(at));
            set.insert(0, (line, dirty || write));
            self.misses += u64::from(known.is_none());
            if set.len() > WAYS {
                self.dirty_evictions += u64::from(set.pop().is_some_and(|(_, dirty)| dirty));
            }
        }
    }
}

fn main() -> Result<(), TraceError> {
    let mut arguments = std::env::args().skip(1);
    let file = TraceFile::open(arguments.next().expect("usage: traffic FILE [KIB [SLICE]]"))?;
    let mut number = |default| {
        arguments
            .next()
            .map_or(default, |n| n.parse().expect("a number"))
    };
    let mut cache = Cache::new(number(256));
    let slice = number(2000);
    let mut cursors: Vec<_> = file.threads().iter().map(|t| file.cursor(t.id)).collect();
    let mut instructions = 0_u64;
    while !cursors.is_empty() {
        for cursor in &mut cursors {
            for _ in 0..slice {
                let Some(piece) = cursor.take() else { break };
                instructions += u64::from(piece.counts());
                piece
                    .load()
                    .into_iter()
                    .for_each(|access| cache.access(access, false));
                piece
                    .store()
                    .into_iter()
                    .for_each(|access| cache.access(access, true));
            }
        }
        cursors.retain_mut(|cursor| cursor.peek().is_some());
    }
    println!(
        "{instructions} instructions, {} misses ({} per 1000), {} dirty lines evicted",
        cache.misses,
        cache.misses * 1000 / instructions.max(1),
        cache.dirty_evictions
    );
    Ok(())
}
