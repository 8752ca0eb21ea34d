//! Captures with right checksums and wrong contents (`crates/trace/tests/forged.rs`).
#![no_main]

use forge::Choices;
use forge::etr::Capture;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use trace::TraceFile;

static GOOD: LazyLock<Capture> =
    LazyLock::new(|| Capture::of(include_bytes!("../../crates/trace/tests/golden-v1.etr")));

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let mut capture = GOOD.clone();
    while !choices.is_over() {
        capture.change(&mut choices);
    }
    let Ok(file) = TraceFile::from_bytes(capture.bytes(), "forged") else {
        return;
    };
    for thread in file.threads() {
        let mut cursor = file.cursor(thread.id);
        let mut loads = 0;
        while let Some(piece) = cursor.take() {
            loads += u64::from(piece.load().is_some());
        }
        assert_eq!(cursor.error(), None);
        assert_eq!(loads, thread.loads);
    }
});
