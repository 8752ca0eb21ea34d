//! Scripts that have the form of good ones: a sentence that names the line, or a script that is
//! written as it is read.

use crash::Script;
use forge::{Choices, change_text};
use proptest::prelude::*;

const SCRIPTS: [&str; 4] = [
    include_str!("../scripts/failing-last-block.crash"),
    include_str!("../scripts/lost-before-its-answer.crash"),
    include_str!("../scripts/poison-of-a-page-that-moved.crash"),
    include_str!("../scripts/read-beside-dirty-frames.crash"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn a_changed_script_is_read_or_its_line_named(
        which in 0..SCRIPTS.len(),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let text = change_text(SCRIPTS[which], &mut Choices::new(&bytes));
        match text.parse::<Script>() {
            Ok(script) => {
                let written = script.to_string();
                let again: Script = written.parse().expect("what is written can be read");
                prop_assert_eq!(again.to_string(), written);
            }
            Err(error) => {
                prop_assert!(!error.trim().is_empty() && !error.contains('\n'), "{:?}", error);
            }
        }
    }
}
