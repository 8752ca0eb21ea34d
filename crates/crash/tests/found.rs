//! What the lab has found once: each script begins with what was wrong.

use crate::report;
use crash::{Script, Tally};
use std::path::Path;

#[test]
fn what_was_found_once_is_not_there_again() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let (mut count, mut tally) = (0, Tally::default());
    for entry in std::fs::read_dir(scripts).expect("the scripts are there") {
        let path = entry.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let script: Script = text.parse().expect("a script");
        assert_eq!(script.replay(&mut tally), Ok(()), "{path:?}");
        count += 1;
    }
    assert!(count > 0, "there is nothing to repeat");
    report::add("crash points", tally.points);
}
