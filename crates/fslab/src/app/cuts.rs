//! The power cuts of a trial, one state after the other.
//!
//! Pass one goes through the events and finds the *moments*: stretches of events behind each of
//! which a cut may leave the same. Pass two goes through the moments that are judged, tries what of
//! the requests in flight had happened, and gives every state that a program can tell from those
//! before.

use super::notes::Trial;
use super::shown::visible;
use crate::crash::{Event, Image, Options, Power, Try, tries};
use port::Command;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use units::Stream;

/// What is judged of a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Moments by chance; None: all.
    pub moments: Option<u64>,
    /// Of what is drawn.
    pub seed: u64,
    /// Only the moment behind this device operation.
    pub at: Option<u64>,
    /// Of it only this state.
    pub state: Option<u64>,
    /// Subsets that are tried of more than six requests in flight.
    pub samples: u32,
}

/// A stretch of device operations behind each of which a cut may leave the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moment {
    /// The number of its first device operation, from 1; 0: before any.
    pub operation: u64,
    /// Events up to and with that operation.
    events: usize,
    /// Bytes of output at its beginning and at its end.
    output: (u64, u64),
    /// The last sync that was answered, and one that was not.
    synced: Option<usize>,
    syncing: Option<usize>,
}

/// What was tried.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Device operations behind which the power can be cut.
    pub operations: u64,
    /// Moments among them.
    pub moments: u64,
    /// Moments that are judged.
    pub judged: u64,
    /// What of the requests in flight had happened, tried in all.
    pub tries: u64,
    /// Different bytes of the device among them.
    pub images: u64,
    /// States that a program can tell apart, by what it sees and what it had acknowledged.
    pub states: u64,
    /// Most requests in flight.
    pub in_flight: u64,
}

/// A state that is to be judged.
#[derive(Clone, Debug)]
pub struct State {
    /// The device operation behind which the power was cut, and the try.
    pub number: (u64, u64),
    /// Bytes of output that the program had written.
    pub acknowledged: u64,
    /// Where that is, for a person.
    pub place: String,
    /// What was synced last, and what was being synced.
    pub synced: Option<String>,
    /// A sync under way.
    pub syncing: Option<String>,
    /// Why it is no file system any more, if so.
    pub broken: Option<String>,
    /// The bytes.
    pub image: Image,
}

/// What a power cut may leave, apart from bytes: when this changes, a new moment begins.
type Signature = (u64, Vec<u32>);

/// Gives the states of a trial.
pub struct Cuts {
    trial: Trial,
    limits: Limits,
    moments: VecDeque<Moment>,
    power: Power,
    applied: usize,
    waiting: VecDeque<(u64, Try)>,
    /// By the digest of bytes: what is visible in them.
    seen: BTreeMap<u64, Result<u64, String>>,
    given: BTreeSet<(u64, u64)>,
    more: VecDeque<State>,
    now: Option<Moment>,
    tally: Tally,
}

/// What came of one try.
#[derive(Debug)]
pub enum Step {
    /// A state that nobody has seen yet.
    Found(Box<State>),
    /// Nothing new.
    Looking,
    /// There is nothing left to try.
    Over,
}

impl Cuts {
    /// The cuts of a trial.
    pub fn new(trial: Trial, limits: Limits) -> Self {
        let (all, operations) = moments(&trial);
        let mut tally = Tally {
            operations,
            moments: all.len() as u64,
            ..Tally::default()
        };
        let moments = chosen(all, &limits);
        tally.judged = moments.len() as u64;
        let power = Power::new(trial.base.clone(), &trial.shape);
        Self {
            trial,
            limits,
            moments,
            power,
            applied: 0,
            waiting: VecDeque::new(),
            seen: BTreeMap::new(),
            given: BTreeSet::new(),
            more: VecDeque::new(),
            now: None,
            tally,
        }
    }

    /// What was tried so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The trial.
    pub fn trial(&self) -> &Trial {
        &self.trial
    }

    /// What there is without any power cut, when the program has ended and its file system was
    /// unmounted.
    pub fn whole(&self) -> Image {
        let mut power = Power::new(self.trial.base.clone(), &self.trial.shape);
        self.trial
            .events
            .iter()
            .for_each(|event| power.apply(event));
        power.image_with(|_, _| true)
    }

    /// Tries one thing that a power cut may leave. A search for the next new state may take
    /// thousands of these; who wants to be interrupted looks up between them.
    pub fn step(&mut self) -> Step {
        if let Some(state) = self.more.pop_front() {
            return Step::Found(Box::new(state));
        }
        if let Some((number, what)) = self.waiting.pop_front() {
            self.try_one(number, &what);
            return Step::Looking;
        }
        let Some(moment) = self.moments.pop_front() else {
            return Step::Over;
        };
        self.enter(moment);
        Step::Looking
    }

    /// Goes on to a moment.
    fn enter(&mut self, moment: Moment) {
        for event in &self.trial.events[self.applied..moment.events] {
            self.power.apply(event);
        }
        self.applied = moment.events;
        let units = self.power.units().len() as u32;
        self.tally.in_flight = self.tally.in_flight.max(u64::from(units));
        let options = Options {
            samples: self.limits.samples,
            ..Options::FULL
        };
        // A moment draws by itself, so that one alone gives the same.
        let path = format!("crash app/{}", moment.operation);
        let mut stream = Stream::new(self.limits.seed, &path);
        let all = (0..).zip(tries(units, &options, &mut stream));
        self.waiting = all
            .filter(|(number, _)| self.limits.state.is_none_or(|only| only == *number))
            .collect();
        self.now = Some(moment);
    }

    fn try_one(&mut self, number: u64, what: &Try) {
        let Some(moment) = self.now.clone() else {
            return;
        };
        self.tally.tries += 1;
        let image = what.image(&self.power);
        let sum = match self.seen.get(&image.digest()) {
            Some(sum) => sum.clone(),
            None => {
                self.tally.images += 1;
                let sum = visible(self.trial.shape, &image);
                self.seen.insert(image.digest(), sum.clone());
                sum
            }
        };
        let key = *sum.as_ref().unwrap_or(&image.digest());
        for acknowledged in [moment.output.0, moment.output.1] {
            if !self.given.insert((key, acknowledged)) {
                continue;
            }
            self.tally.states += 1;
            let named = |sync: Option<usize>| sync.map(|sync| self.sync_named(sync));
            self.more.push_back(State {
                number: (moment.operation, number),
                acknowledged,
                place: self.place(&moment, what),
                synced: named(moment.synced),
                syncing: named(moment.syncing),
                broken: sum.as_ref().err().cloned(),
                image: image.clone(),
            });
        }
    }

    fn sync_named(&self, number: usize) -> String {
        format!("sync {}, {}", number + 1, self.trial.syncs[number])
    }

    fn place(&self, moment: &Moment, what: &Try) -> String {
        let event = moment.events.checked_sub(1);
        let event = event.map(|event| &self.trial.events[event]);
        let place = match event {
            None => "before any device operation".to_owned(),
            Some(Event::Submitted {
                command, at, size, ..
            }) => format!("when {} was submitted", named(*command, *at, *size)),
            Some(Event::Finished { request, is_ok }) => {
                let asked = self.trial.events[..moment.events].iter().rev();
                let asked = asked.into_iter().find_map(|event| match event {
                    Event::Submitted {
                        request: other,
                        command,
                        at,
                        size,
                        ..
                    } if other == request => Some(named(*command, *at, *size)),
                    _ => None,
                });
                let how = if *is_ok { "was answered" } else { "failed" };
                format!("when {} {how}", asked.unwrap_or_default())
            }
            Some(Event::Began(_) | Event::Ended(_)) => "at a sync".to_owned(),
        };
        let units = self.power.units().len();
        let happened = match (units, what) {
            (0, _) => String::new(),
            (_, Try::Torn(..)) => {
                format!("; of {units} in flight some lines and blocks had happened")
            }
            (_, Try::Whole(mask)) => {
                let count = (0..units).filter(|unit| mask >> (unit % 64) & 1 == 1);
                format!("; of {units} in flight {} had happened", count.count())
            }
        };
        let end = match moment.events > self.trial.ended {
            true => ", behind the program's end",
            false => "",
        };
        format!("{place}{end}{happened}")
    }
}

/// Finds the moments, and counts device operations.
fn moments(trial: &Trial) -> (Vec<Moment>, u64) {
    let mut power = Power::new(trial.base.clone(), &trial.shape);
    let signature = |power: &Power| -> Signature {
        let units = power.units().iter().map(|unit| unit.request.0);
        (power.image().digest(), units.collect())
    };
    let first = trial.output.first().map_or(trial.output_end, |of| of.0);
    let mut all = vec![Moment {
        operation: 0,
        events: 0,
        output: (0, first),
        synced: None,
        syncing: None,
    }];
    let mut last = signature(&power);
    let (mut operations, mut synced, mut syncing) = (0, None, None);
    for (number, event) in trial.events.iter().enumerate() {
        power.apply(event);
        match event {
            Event::Began(sync) => syncing = Some(*sync),
            Event::Ended(sync) => {
                synced = Some(*sync);
                syncing = syncing.filter(|other| other != sync);
            }
            _ => {}
        }
        let output = (
            trial.output[number].1,
            trial
                .output
                .get(number + 1)
                .map_or(trial.output_end, |of| of.0),
        );
        operations += u64::from(event.is_of_device());
        let now = signature(&power);
        if event.is_of_device() && now != last {
            all.push(Moment {
                operation: operations,
                events: number + 1,
                output,
                synced,
                syncing,
            });
            last = now;
        } else if let Some(moment) = all.last_mut() {
            moment.output.1 = output.1;
            (moment.synced, moment.syncing) = (synced, syncing);
        }
    }
    (all, operations)
}

/// Those that are judged.
fn chosen(mut all: Vec<Moment>, limits: &Limits) -> VecDeque<Moment> {
    if let Some(at) = limits.at {
        let found = all.iter().rposition(|moment| moment.operation <= at);
        return found
            .map(|found| all.swap_remove(found))
            .into_iter()
            .collect();
    }
    if let Some(most) = limits.moments {
        let mut stream = Stream::new(limits.seed, "crash app/moments");
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(all.len());
        for place in 0..most {
            let other = place + stream.below((all.len() - place) as u64) as usize;
            all.swap(place, other);
        }
        all.truncate(most);
        all.sort_by_key(|moment| moment.operation);
    }
    all.into()
}

fn named(command: Command, at: u64, size: u64) -> String {
    match command {
        Command::Write(_) | Command::WriteLines => format!("a store of {size} B at {at}"),
        Command::WriteBlocks(_) => format!("a block write of {size} B at {at}"),
        Command::Trim => format!("a trim of {size} B at {at}"),
        Command::Commit(_) => "a commit".to_owned(),
        Command::Abort(_) => "an abort".to_owned(),
        Command::Persist => "a persist".to_owned(),
        Command::Flush => "a flush".to_owned(),
        Command::Drain => "a drain".to_owned(),
        other => format!("{other:?}"),
    }
}

impl Tally {
    /// By name.
    pub fn json(&self) -> Value {
        json!({
            "device_operations": self.operations,
            "cuts": self.moments,
            "cuts_judged": self.judged,
            "cuts_left_out": self.moments - self.judged,
            "tries": self.tries,
            "images": self.images,
            "states": self.states,
            "most_in_flight": self.in_flight,
        })
    }
}

impl State {
    /// By name, without its bytes.
    pub fn json(&self) -> Value {
        json!({
            "operation": self.number.0,
            "try": self.number.1,
            "acknowledged_bytes": self.acknowledged,
            "place": self.place,
            "synced": self.synced,
            "syncing": self.syncing,
            "broken": self.broken,
        })
    }
}
