//! What `make test` says at its end: how many crash points were judged, how many bugs were found.

use std::io::Write;

/// Adds `count` of `what` to the file that `CRASH_REPORT` names, if it names one; `scripts/test`
/// adds up the lines of a word.
pub fn add(what: &str, count: u64) {
    if let Some(path) = std::env::var_os("CRASH_REPORT") {
        let file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(path);
        let written =
            file.and_then(|mut file| file.write_all(format!("{count} {what}\n").as_bytes()));
        written.expect("CRASH_REPORT can be written");
    }
}
