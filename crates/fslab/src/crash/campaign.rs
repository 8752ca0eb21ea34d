//! Many sequences, on several threads.

use crate::crash::ace::{Ace, Prepare, Sequence};
use crate::crash::lab::{Finding, Lab, Options, Tally};
use crate::crash::op::{File, Op};
use bytefs::{Allocate, Personality};
use device::DeviceConfig;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use units::Stream;

/// Sequences of a length, and what is tried with each.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The device.
    pub device: DeviceConfig,
    /// The file system.
    pub personality: Personality,
    /// Operations of a sequence.
    pub length: u32,
    /// Which sequences are chosen, if not all.
    pub seed: u64,
    /// How many sequences; all of the length, if there are no more.
    pub sequences: u64,
    /// Two tasks do them, a half each, at a time.
    pub is_concurrent: bool,
    /// What is left free before a sequence begins; all that a new file system has, if it is not
    /// said.
    pub room: Option<Room>,
    /// What is tried with each.
    pub options: Options,
    /// How many threads; the outcome is the same with any number of them.
    pub threads: usize,
    /// Findings after which it is enough.
    pub enough: usize,
}

/// How little room a file system has when a sequence begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// So many blocks behind each other: freed ones are soon given out again.
    Blocks(u64),
    /// Beside those that no contents are given, fewer than so many blocks, each between taken ones:
    /// what is written has an extent for each block, and operations are refused.
    Scattered(u64),
}

impl Room {
    /// Has a setup on so many free blocks leave no more than this; by the number of its sequence.
    fn fill(self, setup: &mut Vec<Op>, blocks: u64, number: u64) {
        let allocate = |path: &str, how, at: u64, count: u64| Op::Fallocate {
            file: File::Path(path.to_owned()),
            how,
            at: at * 4096,
            size: count.max(1) * 4096,
        };
        let take = |path: &str, count: u64| {
            let taken = allocate(path, Allocate::KeepSize, 0, count);
            [Op::Create(path.to_owned()), taken]
        };
        let hole = |at| allocate("full", Allocate::PunchHole, at, 1);
        match self {
            Self::Blocks(left) => {
                setup.splice(0..0, take("full", blocks.saturating_sub(left)));
            }
            Self::Scattered(most) => {
                let holes = (0..HOLES).map(|number| hole(1 + 2 * number));
                let scattered = take("full", blocks.saturating_sub(2 * HOLES)).into_iter();
                setup.splice(0..0, scattered.chain(holes));
                // Who is refused a half is given its half.
                setup.push(Op::Create("rest".to_owned()));
                let halves = (0..7).map(|half| 64 >> half);
                setup.extend(halves.map(|half| allocate("rest", Allocate::KeepSize, half, half)));
                setup.extend((0..number % most).map(|number| hole(2 + 4 * number)));
            }
        }
    }
}

/// Single free blocks, and as many behind each other, while a setup is done.
const HOLES: u64 = 30;

/// What a campaign has found and how much it has tried.
#[derive(Clone, Default, Debug)]
pub struct Outcome {
    /// What was tried.
    pub tally: Tally,
    /// Sequences that cannot be prepared.
    pub impossible: u64,
    /// By number of the sequence, in ascending order.
    pub findings: Vec<(u64, Finding)>,
}

impl Campaign {
    /// Runs every sequence, in both ways of preparing it where the length is one, and in one of
    /// them by turns where it is more. `told` hears of each sequence that is done, and says whether
    /// to go on.
    ///
    /// # Errors
    /// The device or the file system cannot be made.
    pub fn run(&self, told: impl Fn(&Tally) -> bool + Sync) -> Result<Outcome, String> {
        let numbers = Ace::new(self.length).sample(self.sequences, self.seed);
        let is_enough = AtomicBool::new(false);
        let (numbers, told, is_enough) = (&numbers, &told, &is_enough);
        let threads = self.threads.max(1);
        let outcomes: Vec<Result<Outcome, String>> = thread::scope(|scope| {
            let spawned: Vec<_> = (0..threads)
                .map(|first| {
                    let numbers = numbers.iter().skip(first).step_by(threads).copied();
                    scope.spawn(move || self.run_some(numbers, told, is_enough))
                })
                .collect();
            let joined = spawned.into_iter().map(|thread| thread.join());
            joined
                .map(|outcome| outcome.unwrap_or_else(|_| Err("the lab panics".to_owned())))
                .collect()
        });
        let mut all = Outcome::default();
        for outcome in outcomes {
            let outcome = outcome?;
            all.tally.add(&outcome.tally);
            all.impossible += outcome.impossible;
            all.findings.extend(outcome.findings);
        }
        all.findings.sort_by_key(|(number, _)| *number);
        Ok(all)
    }

    /// A lab for this campaign.
    ///
    /// # Errors
    /// As [`Campaign::run`].
    pub fn lab(&self) -> Result<Lab, String> {
        Lab::new(&self.device, self.personality, self.options)
    }

    fn run_some(
        &self,
        numbers: impl Iterator<Item = u64>,
        told: &(impl Fn(&Tally) -> bool + Sync),
        is_enough: &AtomicBool,
    ) -> Result<Outcome, String> {
        let lab = self.lab()?;
        let ace = Ace::new(self.length);
        let mut outcome = Outcome::default();
        for number in numbers {
            let both = [Prepare::Before, Prepare::Within];
            let ways = match self.length {
                1 => &both[..],
                _ => &both[(number % 2) as usize..][..1],
            };
            for way in ways {
                let made = match self.is_concurrent {
                    true => ace.pair(number, *way),
                    false => ace.sequence(number, *way),
                };
                let Some(mut sequence) = made else {
                    outcome.impossible += 1;
                    continue;
                };
                // Ranges come to persistent memory by syncs.
                let syncs = match self.length {
                    1 => *way == Prepare::Within,
                    _ => number / 2 % 2 == 1,
                };
                if self.options.dax.is_some() && syncs {
                    sequence.sync_writes();
                }
                if let Some(room) = self.room {
                    room.fill(&mut sequence.setup, lab.free_blocks(), number);
                }
                // Half of them begin with the first mount of what has just been made.
                let again = [None, None, Some(Op::Remount), Some(Op::Recover)];
                let which = Stream::new(number, "fslab/mounts").below(again.len() as u64);
                sequence.setup.extend(again[which as usize].clone());
                let mut tally = Tally::default();
                let judged = lab.run(&sequence, &mut tally);
                outcome.tally.add(&tally);
                outcome
                    .findings
                    .extend(judged.err().map(|found| (number, found)));
                let goes_on = told(&tally) && outcome.findings.len() < self.enough;
                if !goes_on || is_enough.load(Ordering::Relaxed) {
                    is_enough.store(true, Ordering::Relaxed);
                    return Ok(outcome);
                }
            }
        }
        Ok(outcome)
    }
}

/// The shortest sequence that is left when operations are taken out of one that fails, one by one,
/// as long as it still fails.
pub fn shrink(lab: &Lab, finding: &Finding) -> Finding {
    let mut least = finding.clone();
    let mut is_shorter = true;
    while is_shorter {
        is_shorter = false;
        let count = lists(&mut least.sequence).map(|list| list.len()).sum();
        for at in (0..count).rev() {
            let mut sequence = least.sequence.clone();
            remove(&mut sequence, at);
            if sequence.ops.is_empty() || !sequence.is_sound() {
                continue;
            }
            if let Err(found) = lab.run(&sequence, &mut Tally::default()) {
                (least, is_shorter) = (found, true);
                break;
            }
        }
    }
    least
}

/// All operations of a sequence.
fn lists(sequence: &mut Sequence) -> impl Iterator<Item = &mut Vec<Op>> {
    let beside = sequence.beside.iter_mut().map(|beside| &mut beside.ops);
    [&mut sequence.setup, &mut sequence.ops]
        .into_iter()
        .chain(beside)
}

fn remove(sequence: &mut Sequence, mut at: usize) {
    for list in lists(sequence) {
        if at < list.len() {
            list.remove(at);
            return;
        }
        at -= list.len();
    }
}
