//! A workload from words, as the command line has them.

use super::pattern::Pattern;
use super::workload::{Arrivals, Input, Port, Synthetic, WorkingSet, Workload};
use crate::error::SimError;
use settings::distance;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use units::{Bytes, Ratio};

/// The names that [`Workload::from_words`] knows.
const NAMES: [&str; 11] = [
    "file",
    "pattern",
    "bs",
    "rwmix",
    "working-set",
    "zipf",
    "qd",
    "speedup",
    "port",
    "warmup",
    "requests",
];

/// Requests of a pattern, if it is not said.
const PATTERN_REQUESTS: u64 = 1_000_000;
/// Requests under way, if it is not said.
const QUEUE_DEPTH: u32 = 32;

/// Names and values, the last of a name counting.
struct Words<'a>(&'a [(String, String)]);

impl<'a> Words<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a name in the form that its type reads.
    fn read<T: FromStr>(&self, name: &str) -> Result<Option<T>, SimError>
    where
        T::Err: Display,
    {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let value = text.parse().map(Some);
        value.map_err(|error: T::Err| SimError::Mismatch(format!("--{name}: {error}")))
    }

    fn count(&self, name: &str) -> Result<Option<u64>, SimError> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let digits = text.replace('_', "");
        let value = digits.parse().map(Some);
        value.map_err(|_| SimError::Mismatch(format!("--{name} {text}: is not a whole number")))
    }

    /// A decimal number in thousandths.
    fn milli(&self, name: &str) -> Result<Option<u64>, SimError> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        // A percentage of ten times as much reads the same digits exactly.
        let ratio = format!("{text}%").parse::<Ratio>();
        let ratio = ratio.map_err(|_| {
            SimError::Mismatch(format!("--{name} {text}: is not a number such as 0.9"))
        })?;
        if !(u128::from(ratio.numerator()) * 100_000)
            .is_multiple_of(u128::from(ratio.denominator()))
        {
            return Err(SimError::Mismatch(format!(
                "--{name} {text}: has more than three decimals; leave out the rest"
            )));
        }
        Ok(Some(ratio.of(100_000)))
    }
}

impl Workload {
    /// The workload that names and values describe: `file` or `pattern`, and what belongs to it.
    ///
    /// # Errors
    /// An unknown name, a value that cannot be read, or two that exclude each other.
    pub fn from_words(pairs: &[(String, String)]) -> Result<Self, SimError> {
        if let Some((name, _)) = pairs
            .iter()
            .find(|(name, _)| !NAMES.contains(&name.as_str()))
        {
            let nearest = NAMES.iter().min_by_key(|known| distance(known, name));
            let nearest = nearest.expect("there are names");
            return Err(SimError::Mismatch(format!(
                "unknown option {name} of a replay; did you mean {nearest}?"
            )));
        }
        let words = Words(pairs);
        let input = input(&words)?;
        let is_pattern = matches!(input, Input::Synthetic(_));
        Ok(Self {
            arrivals: arrivals(&words, is_pattern)?,
            port: port(&words)?,
            warmup: words.count("warmup")?.unwrap_or(0),
            limit: words
                .count("requests")?
                .or_else(|| is_pattern.then_some(PATTERN_REQUESTS)),
            input,
        })
    }
}

fn input(words: &Words<'_>) -> Result<Input, SimError> {
    let pattern = words
        .get("pattern")
        .map(str::parse::<Pattern>)
        .transpose()?;
    match (words.get("file"), pattern) {
        (Some(_), Some(_)) => Err(SimError::Mismatch(
            "a file and --pattern exclude each other; leave one of them out".to_string(),
        )),
        (None, None) => Err(SimError::Mismatch(
            "nothing to replay; name a block trace or a --pattern".to_string(),
        )),
        (Some(file), None) => {
            for name in ["bs", "rwmix", "working-set", "zipf"] {
                if words.get(name).is_some() {
                    return Err(SimError::Mismatch(format!(
                        "--{name} belongs to --pattern; {file} says itself what is asked for"
                    )));
                }
            }
            Ok(Input::File(PathBuf::from(file)))
        }
        (None, Some(pattern)) => synthetic(words, pattern),
    }
}

fn synthetic(words: &Words<'_>, pattern: Pattern) -> Result<Input, SimError> {
    let belongs = |name: &str, fits: bool, to: &str| match words.get(name) {
        Some(_) if !fits => Err(SimError::Mismatch(format!(
            "--{name} belongs to {to}; leave it out"
        ))),
        _ => Ok(()),
    };
    belongs("rwmix", pattern == Pattern::RandRw, "--pattern randrw")?;
    belongs(
        "zipf",
        !matches!(pattern, Pattern::SeqRead | Pattern::SeqWrite),
        "random patterns",
    )?;
    Ok(Input::Synthetic(Synthetic {
        pattern,
        block: words.read("bs")?.unwrap_or(Bytes::from_kib(4)),
        read_share: read_share(words)?,
        working_set: words
            .read("working-set")?
            .unwrap_or(WorkingSet::Share(Ratio::percent(80))),
        zipf_milli: u32::try_from(words.milli("zipf")?.unwrap_or(0)).unwrap_or(u32::MAX),
    }))
}

/// `--rwmix 70` and `--rwmix 70%` are the same.
fn read_share(words: &Words<'_>) -> Result<Ratio, SimError> {
    match words.get("rwmix") {
        Some(text) if text.ends_with('%') || text.contains('/') => {
            Ok(words.read("rwmix")?.expect("it was said"))
        }
        _ => Ok(Ratio::percent(words.count("rwmix")?.unwrap_or(70))),
    }
}

fn arrivals(words: &Words<'_>, is_pattern: bool) -> Result<Arrivals, SimError> {
    let depth = words.count("qd")?;
    let speedup_milli = words.milli("speedup")?;
    if depth.is_some() && speedup_milli.is_some() {
        return Err(SimError::Mismatch(
            "--qd and --speedup exclude each other: with --qd each answer brings the next request, \
             whatever its time"
                .to_string(),
        ));
    }
    if depth.is_none() && (speedup_milli.is_some() || !is_pattern) {
        return Ok(Arrivals::Open {
            speedup_milli: speedup_milli.unwrap_or(1000),
        });
    }
    let depth = depth.unwrap_or(QUEUE_DEPTH.into());
    match u32::try_from(depth) {
        Ok(depth) if depth <= 1 << 20 => Ok(Arrivals::Closed(depth)),
        _ => Err(SimError::Mismatch(format!(
            "--qd {depth}: must be 1 to {}",
            1 << 20
        ))),
    }
}

fn port(words: &Words<'_>) -> Result<Option<Port>, SimError> {
    match words.get("port") {
        None | Some("auto") => Ok(None),
        Some("line") => Ok(Some(Port::Line)),
        Some("block") => Ok(Some(Port::Block)),
        Some(other) => Err(SimError::Mismatch(format!(
            "--port {other}: must be auto, line or block"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Workload, SimError> {
        let pairs = words
            .iter()
            .map(|word| word.split_once('=').expect("name=value"));
        let pairs: Vec<_> = pairs.map(|(n, v)| (n.to_string(), v.to_string())).collect();
        Workload::from_words(&pairs)
    }

    #[test]
    fn a_pattern_has_defaults() {
        let workload = read(&["pattern=randrw"]).expect("it is right");
        assert_eq!(workload.arrivals, Arrivals::Closed(32));
        assert_eq!((workload.limit, workload.warmup), (Some(1_000_000), 0));
        let Input::Synthetic(synthetic) = workload.input else {
            panic!("a pattern is no file")
        };
        assert_eq!(synthetic.block, Bytes::from_kib(4));
        assert_eq!(synthetic.read_share, Ratio::percent(70));
        assert_eq!(synthetic.working_set, WorkingSet::Share(Ratio::percent(80)));
        assert_eq!(synthetic.zipf_milli, 0);
    }

    #[test]
    fn numbers_are_read_exactly() {
        let zipf = read(&["pattern=randrw", "zipf=0.95", "rwmix=30%"]).expect("it is right");
        let Input::Synthetic(synthetic) = zipf.input else {
            panic!("a pattern is no file")
        };
        assert_eq!(
            (synthetic.zipf_milli, synthetic.read_share),
            (950, Ratio::percent(30))
        );
        let file = read(&["file=a.csv", "speedup=2.5"]).expect("it is right");
        assert_eq!(
            file.arrivals,
            Arrivals::Open {
                speedup_milli: 2500
            }
        );
        assert_eq!(file.limit, None);
        let closed = read(&["file=a.csv", "qd=8", "requests=1_000"]).expect("it is right");
        assert_eq!(
            (closed.arrivals, closed.limit),
            (Arrivals::Closed(8), Some(1000))
        );
    }

    #[test]
    fn each_mistake_is_one_sentence() {
        let cases: [(&[&str], &str); 11] = [
            (&[], "nothing to replay"),
            (&["pattern=randread", "bz=4KiB"], "did you mean bs?"),
            (&["pattern=randread", "bs=4K"], "--bs: \"4K\" is not a size"),
            (
                &["pattern=randread", "qd=many"],
                "--qd many: is not a whole number",
            ),
            (&["pattern=randread", "file=a"], "exclude each other"),
            (
                &["pattern=randread", "rwmix=50"],
                "--rwmix belongs to --pattern randrw",
            ),
            (
                &["pattern=seqwrite", "zipf=1"],
                "--zipf belongs to random patterns",
            ),
            (&["file=a", "zipf=1"], "--zipf belongs to --pattern"),
            (
                &["pattern=randread", "zipf=0.9995"],
                "--zipf 0.9995: has more than three decimals",
            ),
            (
                &["file=a", "qd=1", "speedup=2"],
                "--qd and --speedup exclude",
            ),
            (
                &["pattern=randread", "port=usb"],
                "--port usb: must be auto",
            ),
        ];
        for (words, part) in cases {
            let error = read(words).expect_err("it is wrong").to_string();
            assert!(error.contains(part), "{words:?}: {error}");
        }
    }
}
