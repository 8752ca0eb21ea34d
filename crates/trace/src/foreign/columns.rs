//! Fields of comma- or tab-separated lines: columns found by name, numbers read exactly.

/// Splits `line` at `separator` into fields without white space and quotation marks around them.
pub(crate) fn fields(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    line.split(move |byte| *byte == separator).map(|field| {
        let field = field.trim_ascii();
        let inner = field
            .strip_prefix(b"\"")
            .and_then(|f| f.strip_suffix(b"\""));
        inner.unwrap_or(field)
    })
}

/// Picks `N` columns out of lines.
pub(crate) struct Picker<const N: usize> {
    pub(crate) separator: u8,
    /// Fields that every line has.
    pub(crate) fields: usize,
    /// Where each column stands; [`Picker::ABSENT`] if it does not.
    pub(crate) places: [usize; N],
}

impl<const N: usize> Picker<N> {
    /// The place of a column that a file does not have; its field is empty.
    pub(crate) const ABSENT: usize = usize::MAX;

    /// The columns of `line`.
    ///
    /// # Errors
    /// When it has more or fewer fields than it should: the end of a sentence about it.
    pub(crate) fn pick<'a>(&self, line: &'a [u8]) -> Result<[&'a [u8]; N], String> {
        let mut picked = [&line[..0]; N];
        let mut count = 0;
        for field in fields(line, self.separator) {
            for (place, picked) in self.places.iter().zip(&mut picked) {
                if *place == count {
                    *picked = field;
                }
            }
            count += 1;
        }
        let wanted = self.fields;
        match count == wanted {
            true => Ok(picked),
            false => Err(format!(
                "has {count} fields instead of {wanted}: {}",
                quoted(line)
            )),
        }
    }
}

/// The separator of a header: a tab if it has one, otherwise a comma.
pub(crate) fn separator(header: &[u8]) -> u8 {
    if header.contains(&b'\t') { b'\t' } else { b',' }
}

/// A line or field as errors quote it: its beginning, as text.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
    let more = if bytes.len() > SHOWN { "…" } else { "" };
    format!("{text:?}{more}")
}

/// The names in a header, in lower case.
pub(crate) fn names(header: &[u8], separator: u8) -> Vec<String> {
    fields(header, separator)
        .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
        .collect()
}

/// That none of the columns `wanted` is among those `found`.
pub(crate) fn missing(found: &[String], wanted: &[&str]) -> String {
    format!(
        "has no column {}; it has {}",
        wanted.join(" or "),
        found.join(", ")
    )
}

/// Where in `found` one of the names in `wanted` stands.
///
/// # Errors
/// When none does or two do: the end of a sentence that begins with the header.
pub(crate) fn find(found: &[String], wanted: &[&str]) -> Result<usize, String> {
    let mut places = (0..found.len()).filter(|n| wanted.contains(&found[*n].as_str()));
    match (places.next(), places.next()) {
        (Some(place), None) => Ok(place),
        (Some(one), Some(two)) => Err(format!(
            "has both columns {} and {}, of which one must go",
            found[one], found[two]
        )),
        (None, _) => Err(missing(found, wanted)),
    }
}

/// The units that a time column's name may end in, and their picoseconds.
const TIME_UNITS: [(&str, u64); 5] = [
    ("time_ps", 1),
    ("time_ns", 1_000),
    ("time_us", 1_000_000),
    ("time_ms", 1_000_000_000),
    ("time_s", 1_000_000_000_000),
];

/// Where the time column stands, and the picoseconds of its unit.
///
/// # Errors
/// When there is none, or one without a unit.
pub(crate) fn find_time(found: &[String]) -> Result<(usize, u64), String> {
    let bare = found
        .iter()
        .any(|name| name == "time" || name == "timestamp");
    let wanted = TIME_UNITS.map(|(name, _)| name);
    let place = find(found, &wanted).map_err(|problem| match bare {
        true => "has a column of times without a unit; call it time_ns, time_us or the like".into(),
        false => problem,
    })?;
    let unit = TIME_UNITS.iter().find(|(name, _)| *name == found[place]);
    Ok((place, unit.map_or(1, |(_, picos)| *picos)))
}

/// A whole number, decimal or with `0x` in front hexadecimal.
pub(crate) fn whole(field: &[u8]) -> Option<u64> {
    let hex = field
        .strip_prefix(b"0x")
        .or_else(|| field.strip_prefix(b"0X"));
    match hex {
        Some(digits) => hexadecimal(digits),
        None => decimal(field),
    }
}

/// A hexadecimal number without mark.
pub(crate) fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let value = (*digit as char).to_digit(16)?;
        (number >> 60 == 0).then_some(number << 4 | u64::from(value))
    })
}

/// A decimal number.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let value = digit.wrapping_sub(b'0');
        let shifted = number.checked_mul(10)?.checked_add(u64::from(value))?;
        (value < 10).then_some(shifted)
    })
}

/// A decimal number of `unit` picoseconds, with or without a fraction, in picoseconds. `None` if it
/// is no number or not a whole number of picoseconds: times are not rounded.
pub(crate) fn picos(field: &[u8], unit: u64) -> Option<u128> {
    let (front, back) = match field.iter().position(|byte| *byte == b'.') {
        Some(point) => (&field[..point], &field[point + 1..]),
        None => (field, &b"0"[..]),
    };
    let mut total = u128::from(decimal(front)?) * u128::from(unit);
    let mut weight = unit;
    for digit in back {
        let value = digit.checked_sub(b'0').filter(|value| *value < 10)?;
        if value > 0 && weight < 10 {
            return None;
        }
        weight /= 10;
        total += u128::from(weight) * u128::from(value);
    }
    Some(total)
}

/// Whether a field that names a kind of access says write.
pub(crate) fn is_write(field: &[u8]) -> Option<bool> {
    const READS: [&str; 4] = ["r", "read", "load", "l"];
    const WRITES: [&str; 4] = ["w", "write", "store", "s"];
    let is = |words: [&str; 4]| {
        words
            .iter()
            .any(|word| field.eq_ignore_ascii_case(word.as_bytes()))
    };
    match (is(READS), is(WRITES)) {
        (true, _) => Some(false),
        (_, true) => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_exact_or_refused() {
        assert_eq!(picos(b"1.5", 1_000), Some(1_500));
        assert_eq!(picos(b"0.000000001", 1_000_000_000_000), Some(1_000));
        assert_eq!(picos(b"7.", 1_000), Some(7_000));
        assert_eq!(picos(b"1.0005", 1_000), None, "half a picosecond");
        assert_eq!(picos(b"2.00000", 1), Some(2));
        assert_eq!(picos(b"2.00005", 1), None);
        assert_eq!(picos(b".5", 1_000), None);
        assert_eq!(picos(b"-1", 1), None);
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(whole(b"18446744073709551616"), None);
        assert_eq!(whole(b"0xffffffffffffffff"), Some(u64::MAX));
        assert_eq!(whole(b"0x1ffffffffffffffff"), None);
        assert_eq!(
            (whole(b""), whole(b"0x"), whole(b"12a")),
            (None, None, None)
        );
    }

    #[test]
    fn a_missing_column_is_named_with_those_that_are_there() {
        let found = names(b"Thread, \"Address\",op", b',');
        assert_eq!(find(&found, &["offset", "address"]), Ok(1));
        let problem = find(&found, &["size"]).unwrap_err();
        assert_eq!(problem, "has no column size; it has thread, address, op");
        let problem = find(&found, &["op", "thread"]).unwrap_err();
        assert!(problem.contains("both columns thread and op"), "{problem}");
    }

    #[test]
    fn a_time_without_a_unit_is_refused() {
        let problem = find_time(&["time".into()]).unwrap_err();
        assert!(problem.contains("without a unit"), "{problem}");
        assert_eq!(find_time(&["time_us".into()]), Ok((0, 1_000_000)));
    }

    proptest! {
        #[test]
        fn whole_numbers_are_read_as_the_standard_library_reads_them(text in "[0-9]{0,22}") {
            prop_assert_eq!(whole(text.as_bytes()), text.parse().ok());
        }
    }
}
