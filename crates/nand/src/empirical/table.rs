//! A table of times: for each number of commands in flight, which share of the operations takes at
//! most which time.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use units::{Picos, Ratio};

/// Rows and points that a table may have.
const MOST: usize = 4096;

/// Times by share, by commands in flight; none is a constant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeTable {
    rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    depth: u32,
    /// Ascending, from 0% to 100%.
    points: Vec<(Ratio, Picos)>,
}

/// Why a text is no table, as a clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongTable(String);

impl fmt::Display for WrongTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongTable {}

impl TimeTable {
    /// Whether it says nothing, so that the constant holds.
    pub fn is_constant(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for TimeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_constant() {
            return f.write_str("constant");
        }
        for (place, row) in self.rows.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}{}:", row.depth)?;
            for (share, time) in &row.points {
                write!(f, " {share}={time}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for TimeTable {
    type Err = WrongTable;
    fn from_str(text: &str) -> Result<Self, WrongTable> {
        if text.trim() == "constant" {
            return Ok(Self::default());
        }
        if !text.contains(':') {
            let said = if text.is_empty() {
                "\"\""
            } else {
                &beginning(text)
            };
            return Err(WrongTable(format!(
                "{said} is no table of times such as \"1: 0%=98us 100%=110us\", and not constant"
            )));
        }
        let rows: Vec<Row> = text
            .split(';')
            .map(str::trim)
            .filter(|row| !row.is_empty())
            .map(Row::from_str)
            .collect::<Result<_, _>>()?;
        if rows.len() > MOST {
            return Err(WrongTable(format!("the table has more than {MOST} rows")));
        }
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].depth >= pair[1].depth) {
            return Err(WrongTable(format!(
                "row {} comes behind row {}; rows go from few commands in flight to many, each once",
                pair[1].depth, pair[0].depth
            )));
        }
        Ok(Self { rows })
    }
}

impl FromStr for Row {
    type Err = WrongTable;
    fn from_str(text: &str) -> Result<Self, WrongTable> {
        let wrong = |why: String| WrongTable(format!("row \"{}\": {why}", beginning(text)));
        let (depth, points) = text.split_once(':').ok_or_else(|| {
            wrong("it must begin with commands in flight and a colon, as \"8: 0%=98us …\"".into())
        })?;
        let depth: u32 = match depth.trim().parse() {
            Ok(depth) if depth > 0 => depth,
            _ => return Err(wrong(format!("{depth} is no number of commands in flight"))),
        };
        let points = points
            .split_whitespace()
            .map(|point| {
                let (share, time) = point
                    .split_once('=')
                    .ok_or_else(|| wrong(format!("{point} is not SHARE=TIME, as 50%=100us")))?;
                let share: Ratio = share.parse().map_err(|why| wrong(format!("{why}")))?;
                let time: Picos = time.parse().map_err(|why| wrong(format!("{why}")))?;
                Ok((share, time))
            })
            .collect::<Result<Vec<(Ratio, Picos)>, WrongTable>>()?;
        if points.len() > MOST {
            return Err(wrong(format!("it has more than {MOST} points")));
        }
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return Err(wrong("it has no points".into()));
        };
        if first.0.numerator() != 0 || last.0.numerator() != last.0.denominator() {
            return Err(wrong("its points must go from 0% to 100%".into()));
        }
        for pair in points.windows(2) {
            let ((share, time), (next, longer)) = (pair[0], pair[1]);
            if !share.is_exceeded_by(next.numerator(), next.denominator()) || longer < time {
                return Err(wrong(format!(
                    "{next}={longer} comes behind {share}={time}; shares rise and times do not fall"
                )));
            }
        }
        let (shortest, longest) = (Picos::from_nanos(1), Picos::from_micros(1_000_000));
        if first.1 < shortest || last.1 > longest {
            return Err(wrong("its times must be 1ns to 1s".into()));
        }
        Ok(Self { depth, points })
    }
}

/// Enough of a row to know it by.
fn beginning(row: &str) -> String {
    match row.char_indices().nth(24) {
        Some((end, _)) => format!("{}…", &row[..end]),
        None => row.to_owned(),
    }
}

impl Serialize for TimeTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeTable {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A table as it is drawn from: straight lines between its points, and between its rows.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    rows: Vec<Curve>,
}

#[derive(Clone, Debug)]
struct Curve {
    depth: u64,
    /// Where the points are among all 64-bit numbers.
    places: Box<[u64]>,
    times: Box<[u64]>,
}

impl Curves {
    pub(super) fn new(table: &TimeTable) -> Self {
        let place = |share: &Ratio| {
            let place = super::WHOLE * u128::from(share.numerator());
            u64::try_from(place / u128::from(share.denominator())).unwrap_or(u64::MAX)
        };
        let curve = |row: &Row| Curve {
            depth: u64::from(row.depth),
            places: row.points.iter().map(|(share, _)| place(share)).collect(),
            times: row.points.iter().map(|(_, time)| time.get()).collect(),
        };
        Self {
            rows: table.rows.iter().map(curve).collect(),
        }
    }

    /// The time at this place of all numbers, of so many commands in flight; none of a constant.
    pub(super) fn time(&self, bits: u64, depth: u64) -> Option<Picos> {
        let above = self.rows.partition_point(|row| row.depth < depth);
        let time = match (above.checked_sub(1), self.rows.get(above)) {
            (None, row) => row?.time(bits),
            (Some(below), None) => self.rows[below].time(bits),
            (Some(below), Some(above)) => {
                let below = &self.rows[below];
                let ends = (below.time(bits), above.time(bits));
                between(ends, depth - below.depth, above.depth - below.depth)
            }
        };
        Some(Picos::new(time))
    }
}

impl Curve {
    fn time(&self, bits: u64) -> u64 {
        let above = self.places.partition_point(|place| *place <= bits);
        let (Some(below), Some(end)) = (above.checked_sub(1), self.places.get(above)) else {
            return self.times[above.min(self.times.len() - 1)];
        };
        let ends = (self.times[below], self.times[above]);
        between(ends, bits - self.places[below], end - self.places[below])
    }
}

/// `part` of `whole` of the way from one to the other.
fn between((from, to): (u64, u64), part: u64, whole: u64) -> u64 {
    let way = u128::from(from.abs_diff(to)) * u128::from(part) / u128::from(whole);
    let way = u64::try_from(way).expect("a part of 64 bits");
    if to < from { from - way } else { from + way }
}
