//! Values at the ends of what a parameter may be.

use std::collections::BTreeSet;

/// Values of a parameter that is described so: 0 and 1 of its unit and of the smallest one, those
/// that its range names, and the most that its type holds and that TOML can say. `text` is the
/// parameter's value as it is, which tells the unit.
///
/// `kind` is the type as it is declared (`u32`, `units::Bytes`); `range` is in words.
pub fn extremes(kind: &str, range: &str, text: &str) -> BTreeSet<String> {
    let unit = text
        .trim_matches('"')
        .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let mut values = BTreeSet::new();
    for number in ["0", "1"] {
        values.insert(format!("{number}{unit}"));
    }
    let kind = kind.rsplit("::").next().unwrap_or(kind).trim();
    let (most, smallest) = match kind {
        "Picos" => (u64::MAX, "ps"),
        "Bytes" | "PageSize" => (u64::MAX, "B"),
        "BytesPerSec" => (u64::MAX, "B/s"),
        "Hertz" => (u64::MAX, "Hz"),
        "Ratio" => (100, "%"),
        "u32" => (u64::from(u32::MAX), ""),
        _ => (u64::MAX, unit),
    };
    values.extend([0, 1, most].map(|number| format!("{number}{smallest}")));
    // TOML has no larger number.
    values.insert(format!("{}{smallest}", i64::MAX));
    values.extend(
        range
            .split([' ', ',', '"', '(', ')'])
            .filter(|word| !word.is_empty())
            .map(str::to_owned),
    );
    values
}

#[cfg(test)]
mod tests {
    use super::extremes;

    #[test]
    fn what_the_range_names_is_there_and_what_the_type_holds() {
        let values = extremes("units::Picos", "1ns to 10ms", "\"3us\"");
        for value in ["0us", "1us", "1ps", "1ns", "10ms", "18446744073709551615ps"] {
            assert!(values.contains(value), "{value}");
        }
        let values = extremes("u32", "1 to 64", "8");
        for value in ["0", "1", "64", "4294967295"] {
            assert!(values.contains(value), "{value}");
        }
        assert!(extremes("Kind", "\"one\" or \"two\"", "\"one\"").contains("two"));
    }
}
