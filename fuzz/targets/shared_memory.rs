//! What stands in shared memory: header, requests, answers (`crates/shm/tests/words.rs`).
#![no_main]

use forge::Choices;
use libfuzzer_sys::fuzz_target;
use port::Shape;
use shm::answer::decode;
use shm::handshake::memory;
use shm::{Layout, MOST_REQUEST, Note, Region, Submission};
use std::sync::LazyLock;
use units::Bytes;

static LAYOUT: LazyLock<Layout> = LazyLock::new(|| {
    let shape = Shape::plain(Bytes::from_mib(64), Bytes::from_kib(4));
    Layout::new(shape, Bytes::from_kib(256)).expect("a layout")
});
static REGION: LazyLock<Region> = LazyLock::new(|| memory(LAYOUT.bytes()).expect("memory").1);

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let mut word = || choices.instead_of(1 << 32);
    let words = std::array::from_fn(|_| word());
    if let Ok(submission) = Submission::decode(&words, &LAYOUT) {
        let piece = submission.request.range();
        assert!(piece.size as u64 <= MOST_REQUEST.get());
        assert!((piece.place + piece.size) as u64 <= LAYOUT.data().get());
        assert_eq!(
            Submission::decode(&submission.encode(), &LAYOUT),
            Ok(submission)
        );
    }
    LAYOUT.write(&REGION);
    let header: [u64; 8] = std::array::from_fn(|_| word());
    for (index, word) in header
        .iter()
        .enumerate()
        .filter(|(_, word)| **word % 3 == 0)
    {
        REGION.write(index * 8, &word.to_le_bytes());
    }
    REGION.write(1024, &bytes[..bytes.len().min(64)]);
    let _ = decode(&words, &REGION);
    assert!(
        Note::Stopped
            .find(&REGION)
            .is_none_or(|text| text.len() <= 3 * 1024)
    );
    if let Ok(found) = Layout::read(&REGION) {
        assert_eq!(found.bytes(), REGION.len());
    }
});
