//! Scripts: a workload, and perhaps the one cut that is to be judged, as text. docs/formats has the
//! format.

use crate::device::Device;
use crate::lab::{CutName, Finding, Options, run};
use crate::power_cutter::{InFlight, InFlightChoice, Place};
use crate::sabotage::Bug;
use crate::step::Step;
use crate::tally::Tally;
use crate::workload::Workload;
use core::fmt;
use core::str::FromStr;

/// The first line of a script.
const HEADER: &str = "entresol crash script 1";

/// What a script says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// The device and what is done with it.
    pub workload: Workload,
    /// The bug that is planted, if one is.
    pub bug: Option<Bug>,
    /// The cut of the last step that is judged; none: every cut of every step.
    pub cut: Option<CutName>,
}

/// The lines of a script that say something, numbered from 1, without comments.
fn statements(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(|line| line.split('#').next());
    let codes = lines.map(|code| code.unwrap_or("").trim());
    (1..).zip(codes).filter(|(_, code)| !code.is_empty())
}

impl Script {
    /// The line of a script's text, counted from 1, in which a step stands that is counted from 0.
    pub fn line_of(text: &str, step: usize) -> Option<usize> {
        let steps = statements(text).filter(|(_, code)| code.parse::<Step>().is_ok());
        steps.map(|(line, _)| line).nth(step)
    }

    /// Runs it; says what was wrong first, if anything was.
    pub fn replay(&self, tally: &mut Tally) -> Result<(), Finding> {
        let last = self.workload.steps.len().saturating_sub(1);
        let options = Options {
            choice: InFlightChoice::Each,
            again_of: 1,
            one_of: 1,
            bug: self.bug,
            only: self.cut.map(|cut| (last, cut)),
        };
        run(&self.workload, options, tally)
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        write!(f, "device")?;
        for (key, value) in self.workload.device.clone().fields_mut() {
            write!(f, " {key}={value}")?;
        }
        writeln!(f)?;
        if let Some(bug) = self.bug {
            writeln!(f, "bug {}", bug.name())?;
        }
        for step in &self.workload.steps {
            writeln!(f, "{step}")?;
        }
        if let Some(cut) = self.cut {
            writeln!(f, "cut {} {}", cut.first.0, cut.first.1.name())?;
            if let Some((place, in_flight)) = cut.second {
                writeln!(f, "cut_again {place} {}", in_flight.name())?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = if self.is_within { "within" } else { "before" };
        write!(f, "{when} {} {}", self.event, self.action)
    }
}

impl FromStr for Script {
    type Err = String;

    /// One sentence that names the line, if the text is not a script.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = statements(text).peekable();
        let first = lines.next_if(|(line, _)| *line == 1);
        let first = first.map_or("", |(_, code)| code);
        if first != HEADER {
            return Err(format!(
                "line 1 is {first:?}; a crash script begins with {HEADER:?}"
            ));
        }
        let mut script = Self {
            workload: Workload {
                device: Device::default(),
                steps: Vec::new(),
            },
            bug: None,
            cut: None,
        };
        let mut has_device = false;
        for (number, line) in lines {
            let is_device = line.split_whitespace().next() == Some("device");
            let taken = match is_device && has_device {
                true => Err("a device is there already".into()),
                false => script.take_line(line),
            };
            taken.map_err(|reason| format!("line {number}: {reason}"))?;
            has_device |= is_device;
        }
        match script.workload.device.problems().as_slice() {
            [] => Ok(script),
            problems => Err(format!("the device cannot be: {}", problems.join("; "))),
        }
    }
}

impl Script {
    fn take_line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "device" | "bug" if !self.workload.steps.is_empty() => {
                Err(format!("{word} comes before the first step"))
            }
            "device" => self.set_all(rest),
            "bug" if self.bug.is_some() => Err("a bug is planted already".into()),
            "bug" => {
                let named = Bug::ALL.iter().find(|(_, name)| *name == rest.trim());
                let (bug, _) = named.ok_or_else(|| format!("{rest:?} is not a bug"))?;
                self.bug = Some(*bug);
                Ok(())
            }
            "cut" if self.cut.is_some() => Err("there is a cut already".into()),
            "cut" => {
                let first = cut(rest)?;
                self.cut = Some(CutName {
                    first,
                    second: None,
                });
                Ok(())
            }
            "cut_again" => {
                let second = cut(rest)?;
                let before = self.cut.as_mut().ok_or("cut_again comes after cut")?;
                match before.second.replace(second) {
                    None => Ok(()),
                    Some(_) => Err("there is a cut_again already".into()),
                }
            }
            _ if self.cut.is_some() => Err("steps come before the cut".into()),
            _ => {
                self.workload.steps.push(line.parse()?);
                Ok(())
            }
        }
    }

    fn set_all(&mut self, settings: &str) -> Result<(), String> {
        let mut known: Vec<&str> = Vec::new();
        for setting in settings.split_whitespace() {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            if known.contains(&key) {
                return Err(format!("{key} is there twice"));
            }
            known.push(key);
            self.set(key, value)?;
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let mut fields = self.workload.device.fields_mut();
        let field = fields.iter_mut().find(|(name, _)| *name == key);
        let (_, field) = field.ok_or_else(|| format!("a device has no {key:?}"))?;
        **field = value
            .parse()
            .map_err(|_| format!("{key} is {value:?}; it must be a number"))?;
        Ok(())
    }
}

/// `before|within EVENT ACTION FATE`.
fn cut(text: &str) -> Result<(Place, InFlight), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [when, event, action, in_flight] = words[..] else {
        return Err(format!(
            "{text:?} is not a cut: before or within, call, action, and pending, torn, finished \
             or mixed"
        ));
    };
    let number = |word: &str| {
        let parsed = word.parse::<u32>();
        parsed.map_err(|_| format!("{word:?} is not a number"))
    };
    let is_within = match when {
        "before" => false,
        "within" => true,
        _ => return Err(format!("{when:?} is neither before nor within")),
    };
    let (event, action) = (number(event)?, number(action)?);
    let place = Place {
        event,
        action,
        is_within,
    };
    Ok((place, in_flight.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Stream;

    #[test]
    fn what_is_written_is_read_again() {
        for seed in 0..20 {
            let mut random = Stream::new(seed, "script");
            let place = |random: &mut Stream| Place {
                event: random.below(9) as u32,
                action: random.below(9) as u32,
                is_within: random.below(2) == 0,
            };
            let second = (random.below(2) == 0).then(|| (place(&mut random), InFlight::Mixed));
            let cut = (random.below(2) == 0).then(|| CutName {
                first: (place(&mut random), InFlight::Torn),
                second,
            });
            let script = Script {
                workload: Workload::random(seed, 60),
                bug: (seed % 2 == 0).then_some(Bug::CommitForgotten),
                cut,
            };
            assert_eq!(script.to_string().parse(), Ok(script));
        }
    }

    #[test]
    fn steps_that_cannot_be_done_are_counted_and_the_first_has_a_line() {
        let text = format!("{HEADER}\n# idle\n\nwrite 1 1\nfinish 0 # nothing there\nfail 1\n");
        let script: Script = text.parse().unwrap();
        let mut tally = Tally::default();
        assert_eq!(script.replay(&mut tally), Ok(()));
        assert_eq!((tally.passed_over, tally.first_passed_over), (2, Some(1)));
        assert_eq!(Script::line_of(&text, 1), Some(5));
        assert_eq!(Script::line_of(&text, 3), None);
    }

    #[test]
    fn ends_of_transactions_that_are_not_open_are_counted_and_others_not() {
        let passed_over = |text: &str| {
            let script: Script = format!("{HEADER}\n{text}").parse().unwrap();
            let mut tally = Tally::default();
            assert_eq!(script.replay(&mut tally), Ok(()));
            (tally.passed_over, tally.first_passed_over)
        };
        let with = "device tx_log=2\nwrite 1 1 tx 7\n";
        assert_eq!(passed_over(&format!("{with}commit 7\n")), (0, None));
        assert_eq!(
            passed_over(&format!("{with}commit 8\nabort 7\nabort 7\n")),
            (2, Some(1))
        );
        assert_eq!(passed_over("write 1 1 tx 7\ncommit 7\n"), (2, Some(0)));
        // Refused for what another transaction does: the host has asked what it may.
        assert_eq!(passed_over(&format!("{with}write 1 1 tx 8\n")), (0, None));
    }

    #[test]
    fn what_is_no_script_is_refused_in_a_sentence() {
        let of = |rest: &str| format!("{HEADER}\n{rest}\n").parse::<Script>();
        for (text, reason) in [
            ("frobnicate", "line 2: \"frobnicate\" is not a step"),
            ("write 1", "is not a step"),
            ("write 1 x", "\"x\" is not a number"),
            ("finish -1", "is not a number"),
            ("power_cut soon", "is not what becomes of"),
            ("device colour=1", "has no \"colour\""),
            ("device blocks=many", "must be a number"),
            ("device blocks=0", "the device cannot be"),
            ("device page_lines=4294967295", "the device cannot be"),
            ("bug none", "is not a bug"),
            ("device dies=2 dies=4", "line 2: dies is there twice"),
            (
                "device dies=2\ndevice blocks=8",
                "line 3: a device is there already",
            ),
            (
                "ring\ndevice dies=2",
                "line 3: device comes before the first step",
            ),
            (
                "ring\nbug mapped_before_programmed",
                "line 3: bug comes before",
            ),
            (
                "bug mapped_before_programmed\nbug mapped_before_programmed",
                "line 3: a bug is planted already",
            ),
            (
                "ring\ncut before 1 1 torn\ncut before 1 2 torn",
                "line 4: there is a cut already",
            ),
            (
                "ring\ncut before 1 1 torn\ncut_again before 0 0 torn\ncut_again before 0 1 torn",
                "line 5: there is a cut_again already",
            ),
            ("cut before 1", "is not a cut"),
            ("cut_again before 1 1 torn", "comes after cut"),
            ("cut before 1 1 torn\nring", "line 3: steps come before"),
        ] {
            let refused = of(text).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        let refused = "".parse::<Script>().expect_err("no header");
        assert!(refused.contains("line 1"), "{refused}");
        assert!(of("# nothing\n\n ring # now").is_ok());
    }
}
