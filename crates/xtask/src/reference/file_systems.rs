//! The part of the page of parameters on file systems of runs in virtual time.

use super::row;
use fslab::load::{FsConfig, FsOptions};

const HEAD: &str = "
## File systems

Parameters of file systems of [loads and recordings](../loads.md), which `entresol fs bench --set`
and `entresol fs replay --set` take.

### `fs`

| key | kind | default | range | what | source |
|---|---|---|---|---|---|
";

/// Adds the part.
///
/// # Panics
/// When a parameter has no default.
pub fn section(page: &mut String) {
    page.push_str(HEAD);
    let defaults = FsOptions::default().texts();
    for parameter in FsConfig::PARAMETERS {
        let default = defaults.iter().find(|(key, _)| key == parameter.key);
        let (_, text) = default.expect("each has one");
        row(page, parameter, text);
    }
}
