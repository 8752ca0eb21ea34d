//! A part of a recording, measured by itself: what lies between two names that somebody looked up.
//!
//! Who has a program recorded looks up a name that is not there when what is to be measured begins,
//! and another one when it ends; the recording then says where the part is. Threads that do little
//! in it (a checkpointer, a clock) do not say how long it takes.

use super::clients::Clients;
use super::error::LoadError;
use super::result::Part;
use crate::recording::{Entry, Op};
use std::collections::BTreeMap;
use units::{Picos, Time};

/// How a recording is played.
#[derive(Clone, Default, Debug)]
pub struct Playing {
    /// Threads take the program's own time between two of their operations.
    pub thinks: bool,
    /// What of each such time is not the program's.
    pub less: Picos,
    /// The names that begin and end what is measured by itself.
    pub between: Option<(String, String)>,
    /// Whether what transparent DAX decides goes into the result.
    pub decides: bool,
    /// Clients whose requests are played instead of what lies between the names.
    pub clients: Option<Clients>,
}

impl Playing {
    /// What passes between two operations, of what was recorded.
    pub(super) fn pause(&self, recorded_ns: u64) -> Picos {
        Picos::from_nanos(recorded_ns).saturating_sub(self.less)
    }
}

/// What the busiest threads did between two names.
///
/// # Errors
/// A name is not looked up, or nothing lies between.
pub(super) fn measured(
    between: &(String, String),
    entries: &[Entry],
    spans: &[Option<(Time, Time)>],
) -> Result<Part, LoadError> {
    let begin = looked_up(entries, &between.0)?;
    let end = looked_up(entries, &between.1)?;
    let inside = || {
        let numbered = entries.iter().zip(spans).enumerate();
        let inside = numbered.filter(|(number, _)| (begin + 1..end).contains(number));
        inside.filter_map(|(_, (entry, span))| Some((entry, (*span)?)))
    };
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for (entry, _) in inside() {
        *counts.entry(entry.thread).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(0);
    counts.retain(|_, count| *count >= most.div_ceil(4));
    let of_busy = || inside().filter(|(entry, _)| counts.contains_key(&entry.thread));
    let times = of_busy().fold(None, |found: Option<Ends>, (entry, span)| {
        let one = Ends::of(entry, span);
        Some(found.map_or(one, |found| found.with(one)))
    });
    let Some(times) = times else {
        return Err(LoadError::Setting(format!(
            "--between {},{}: nothing was done between them; look at the recording",
            between.0, between.1
        )));
    };
    let syncs = of_busy().filter(|(entry, _)| matches!(entry.op, Op::Fsync { .. }));
    let (syncs, took) = syncs.fold((0, 0), |(syncs, took), (_, span)| {
        (syncs + 1, took + (span.1 - span.0).get())
    });
    Ok(Part {
        threads: counts.len() as u32,
        operations: counts.values().sum(),
        virtual_time_ps: (times.played.1 - times.played.0).get(),
        recorded_time_ps: Picos::from_nanos(times.recorded.1 - times.recorded.0).get(),
        syncs,
        sync_mean_ps: took.checked_div(syncs).unwrap_or(0),
    })
}

pub(super) fn looked_up(entries: &[Entry], wanted: &str) -> Result<usize, LoadError> {
    let is_it = |entry: &Entry| matches!(&entry.op, Op::Lookup { name, .. } if name == wanted);
    entries.iter().position(is_it).ok_or_else(|| {
        LoadError::Setting(format!(
            "--between: {wanted} is not looked up in the recording; name one that is"
        ))
    })
}

/// Begin and end.
#[derive(Clone, Copy)]
struct Ends {
    played: (Time, Time),
    recorded: (u64, u64),
}

impl Ends {
    fn of(entry: &Entry, played: (Time, Time)) -> Self {
        Self {
            played,
            recorded: (entry.begin_ns, entry.end_ns),
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            played: (
                self.played.0.min(other.played.0),
                self.played.1.max(other.played.1),
            ),
            recorded: (
                self.recorded.0.min(other.recorded.0),
                self.recorded.1.max(other.recorded.1),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(thread: u32, begin_ns: u64, op: Op) -> Entry {
        Entry {
            thread,
            begin_ns,
            end_ns: begin_ns + 5,
            op,
            found: None,
            error: None,
        }
    }

    fn lookup(name: &str) -> Op {
        Op::Lookup {
            parent: 1,
            name: name.to_owned(),
        }
    }

    fn recording() -> (Vec<Entry>, Vec<Option<(Time, Time)>>) {
        let mut entries = vec![entry(0, 0, Op::Sync {}), entry(9, 10, lookup("from"))];
        entries.extend((2..10).map(|number| {
            let op = match number < 5 {
                true => Op::Fsync {
                    ino: 1,
                    data_only: true,
                },
                false => Op::Getattr { ino: 1 },
            };
            entry(0, 10 * number, op)
        }));
        // One of another thread, which is no quarter.
        entries.push(entry(1, 100, Op::Getattr { ino: 1 }));
        entries.push(entry(9, 110, lookup("to")));
        entries.push(entry(0, 120, Op::Sync {}));
        // Those that lie outside of the part take longer.
        let at = |nanos: u64| Time::ZERO + Picos::from_nanos(nanos);
        let long = |nth| if (2..10).contains(&nth) { 1 } else { 50 };
        let spans = (0..entries.len() as u64).map(|nth| Some((at(nth), at(nth + long(nth)))));
        let spans = spans.collect();
        (entries, spans)
    }

    #[test]
    fn a_part_is_what_the_busy_threads_did_between_two_names() {
        let (entries, spans) = recording();
        let between = ("from".to_owned(), "to".to_owned());
        let part = measured(&between, &entries, &spans).unwrap();
        assert_eq!((part.threads, part.operations), (1, 8));
        assert_eq!(part.virtual_time_ps, 8_000);
        assert_eq!((part.syncs, part.sync_mean_ps), (3, 1_000));
        assert_eq!(part.recorded_time_ps, 75_000);
    }

    #[test]
    fn names_that_were_not_looked_up_are_one_sentence() {
        let (entries, spans) = recording();
        for (from, to, said) in [
            ("from", "elsewhere", "elsewhere is not looked up"),
            ("to", "from", "nothing was done between them"),
        ] {
            let between = (from.to_owned(), to.to_owned());
            let error = measured(&between, &entries, &spans).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn what_is_not_the_programs_is_taken_off_a_pause() {
        let playing = Playing {
            less: Picos::from_nanos(30),
            ..Playing::default()
        };
        assert_eq!(playing.pause(100), Picos::from_nanos(70));
        assert_eq!(playing.pause(20), Picos::ZERO);
    }
}
