//! Scripts of the crash lab (`crates/crash/tests/forged.rs`).
#![no_main]

use crash::Script;
use forge::{Choices, change_text};
use libfuzzer_sys::fuzz_target;

const GOOD: &str = include_str!("../../crates/crash/scripts/failing-last-block.crash");

fuzz_target!(|bytes: &[u8]| {
    let text = change_text(GOOD, &mut Choices::new(bytes));
    if let Ok(script) = text.parse::<Script>() {
        let written = script.to_string();
        let again: Script = written.parse().expect("what is written can be read");
        assert_eq!(again.to_string(), written);
    }
});
