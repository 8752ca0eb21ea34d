//! What is tried at each cut of a sequence: subsets of what may have happened, power cuts within
//! recoveries, and the device itself.

use crate::crash::driver::walk;
use crate::crash::image::{Image, LINE};
use crate::crash::journal::{Event, Journal};
use crate::crash::judge::{Seen, checked, examine, mount_options};
use crate::crash::lab::{Lab, Record, Tally};
use crate::crash::life::Stage;
use crate::crash::op::Op;
use crate::crash::oracle::{History, Progress};
use crate::crash::power::Power;
use crate::crash::tree::Tree;
use crate::crash::tries::tries;
use bytefs::FileSystem;
use device::DeviceEngine;
use port::Command;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{ByteAddr, Bytes, Stream};
use vtime::Machine;

/// Of recoveries under which the power is cut, one in so many is lived on behind.
const LIFE_EVERY: u64 = 4;

/// Where the power was cut, and what is wrong then.
pub(super) type Wrong = (String, String);

/// Judges the cuts of a sequence.
pub(super) struct Judge<'a> {
    lab: &'a Lab,
    histories: &'a [History],
    ops: &'a [Op],
    /// By the digest of bytes: what is seen of them.
    seen: BTreeMap<u64, Rc<Result<Tree, String>>>,
    judged: BTreeSet<(u64, Progress)>,
    tally: &'a mut Tally,
    states: u64,
    stream: Stream,
}

impl<'a> Judge<'a> {
    /// Of what a lab has recorded.
    pub fn new(lab: &'a Lab, record: &'a Record, tally: &'a mut Tally) -> Self {
        Self {
            lab,
            histories: &record.histories,
            ops: &record.ops,
            seen: BTreeMap::new(),
            judged: BTreeSet::new(),
            tally,
            states: 0,
            stream: Stream::new(record.journal.events.len() as u64, "fslab/cuts"),
        }
    }

    /// Judges every cut of the sequence.
    ///
    /// # Errors
    /// The first that leaves what it must not.
    pub fn all(&mut self, record: &Record) -> Result<(), Wrong> {
        let mut power = Power::new(self.lab.image.clone(), &self.lab.shape);
        let mut progress = Progress::default();
        let mut snapshots = record.snapshots.iter().peekable();
        for (number, event) in record.journal.events.iter().enumerate() {
            power.apply(event);
            if number < record.begin {
                continue;
            }
            match event {
                Event::Began(op) => progress.begun = progress.begun.with(*op),
                Event::Ended(op) => progress.answered = progress.answered.with(*op),
                _ => {}
            }
            let ops = self.ops;
            let place = || place_of(ops, event, number, progress);
            self.tally.cuts += u64::from(event.is_of_device());
            let cut = self.cut(&power, progress);
            cut.map_err(|(which, how)| (format!("{}, {which}", place()), how))?;
            if let Some((_, snapshot)) = snapshots.next_if(|(event, _)| *event == number) {
                self.tally.device_cuts += 1;
                let cut = self.device_cut(snapshot, &power, progress);
                cut.map_err(|how| (format!("{}, on the device itself", place()), how))?;
            }
        }
        Ok(())
    }

    /// Every subset of what may have happened, or samples of them.
    fn cut(&mut self, power: &Power, progress: Progress) -> Result<(), Wrong> {
        let units = power.units().len() as u32;
        self.tally.units = self.tally.units.max(u64::from(units));
        let tries = tries(units, &self.lab.options, &mut self.stream);
        for what in tries {
            self.point(&what.image(power), progress)
                .map_err(|how| (what.told(units), how))?;
        }
        Ok(())
    }

    /// Whether a tree may be what is left in one of the orders.
    fn check(&self, tree: &Tree, progress: Progress) -> Result<(), String> {
        let mut first = None;
        for history in self.histories {
            match history.check(tree, progress) {
                Ok(()) => return Ok(()),
                Err(how) => first = first.or(Some(how)),
            }
        }
        let how = first.unwrap_or_default();
        Err(match self.histories.len() {
            1 => how,
            orders => format!("in none of {orders} orders; in the first: {how}"),
        })
    }

    fn point(&mut self, image: &Image, progress: Progress) -> Result<(), String> {
        self.tally.points += 1;
        if !self.judged.insert((image.digest(), progress)) {
            return Ok(());
        }
        let seen = self.seen_of(image, Some(progress))?;
        let tree = seen.as_ref().as_ref().map_err(Clone::clone)?;
        self.check(tree, progress)
    }

    /// What is seen of bytes. With `progress`, the power may be cut again while they are recovered.
    fn seen_of(
        &mut self,
        image: &Image,
        progress: Option<Progress>,
    ) -> Result<Rc<Result<Tree, String>>, String> {
        if let Some(seen) = self.seen.get(&image.digest()) {
            return Ok(Rc::clone(seen));
        }
        self.tally.states += 1;
        self.states += 1;
        let every = u64::from(self.lab.options.recovery_every);
        let again = progress.filter(|_| every > 0 && self.states.is_multiple_of(every));
        let last = match self.states.is_multiple_of(LIFE_EVERY * every) {
            true => Stage::Ending,
            false => Stage::Begun,
        };
        let (tree, journal) = match examine(
            self.lab.shape,
            image,
            self.lab.options.may_lack_room,
            again.map(|_| last),
        ) {
            Ok(Seen { tree, journal }) => (Ok(tree), journal),
            Err(how) => (Err(how), None),
        };
        let seen = Rc::new(tree);
        self.seen.insert(image.digest(), Rc::clone(&seen));
        if let (Some(progress), Some(journal)) = (again, journal) {
            self.recovery(image, &journal, progress, &seen)?;
        }
        Ok(seen)
    }

    /// Cuts the power behind every request of a recovery and of a life behind it.
    fn recovery(
        &mut self,
        image: &Image,
        journal: &Journal,
        progress: Progress,
        recovered: &Result<Tree, String>,
    ) -> Result<(), String> {
        let recovered = recovered.as_ref().map_err(Clone::clone)?;
        let mut stage = None;
        let mut power = Power::new(image.clone(), &self.lab.shape);
        for (number, event) in journal.events.iter().enumerate() {
            power.apply(event);
            stage = Stage::of(event).or(stage);
            for all in [false, true] {
                let left = power.image_with(|_, _| all);
                self.tally.recovery_points += 1;
                let seen = self.seen_of(&left, None)?;
                let judged = match (seen.as_ref(), stage) {
                    (Ok(tree), None) => self.check(tree, progress),
                    (Ok(tree), Some(stage)) => stage.check(recovered, tree),
                    (Err(how), _) => Err(how.clone()),
                };
                judged.map_err(|how| match stage {
                    None => format!("cut again at request {number} of recovery: {how}"),
                    Some(stage) => format!(
                        "cut again at request {number}, in the life behind its recovery \
                         ({stage:?}): {how}"
                    ),
                })?;
            }
        }
        Ok(())
    }

    /// Cuts and recovers the device itself: what it holds is what the contract allows, and so is
    /// what the file system makes of it.
    fn device_cut(
        &mut self,
        snapshot: &DeviceEngine,
        power: &Power,
        progress: Progress,
    ) -> Result<(), String> {
        let mut engine = snapshot.power_cycled().map_err(|error| error.to_string())?;
        check_contents(&mut engine, power)?;
        let mut machine = Machine::new(engine, 1);
        let (device, clock) = (machine.device(), machine.clock());
        let ended: Rc<RefCell<Option<Result<Tree, String>>>> = Rc::default();
        let result = Rc::clone(&ended);
        machine.spawn("recovery", async move {
            *result.borrow_mut() = Some(recovered(device, clock).await);
        });
        machine.run().map_err(|error| error.to_string())?;
        let tree = ended
            .borrow_mut()
            .take()
            .ok_or("the recovery did not end")??;
        self.check(&tree, progress)
    }
}

async fn recovered<D: port::Device, C: port::Clock>(device: D, clock: C) -> Result<Tree, String> {
    let fs = FileSystem::mount(device, clock, mount_options()).await;
    let fs = fs.map_err(|error| format!("it cannot be mounted: {error}"))?;
    let tree = walk(&fs).await?;
    fs.unmount()
        .await
        .map_err(|error| format!("it cannot be unmounted: {error}"))?;
    checked(&fs.into_device()).await?;
    Ok(tree)
}

/// Every line of a device that was cut is what it was for certain, or what may have happened.
fn check_contents(engine: &mut DeviceEngine, power: &Power) -> Result<(), String> {
    let image = power.image();
    let block = engine.shape().block.get() as usize;
    let window = engine.shape().capacity.get() as usize;
    let lines = power.uncertain_lines();
    let (mut found, mut wanted) = (vec![0; block], vec![0; block]);
    for at in (0..image.size()).step_by(block) {
        let place = ByteAddr::new(at as u64);
        let command = match at < window {
            true => Command::ReadBlocks,
            false => Command::Read,
        };
        let ticket = engine.submit(command, place, Bytes::new(block as u64));
        let ticket = ticket.map_err(|error| error.to_string())?;
        let read = engine.finish(ticket, &mut found);
        read.map_err(|error| error.to_string())?;
        image.read(at, &mut wanted);
        for (line, (found, wanted)) in found.chunks(LINE).zip(wanted.chunks(LINE)).enumerate() {
            let line = at / LINE + line;
            if found != wanted && !lines.contains(&line) {
                return Err(format!("the device lost line {line} or made it up"));
            }
        }
    }
    Ok(())
}

fn place_of(ops: &[Op], event: &Event, number: usize, progress: Progress) -> String {
    let under_way = ops
        .iter()
        .enumerate()
        .filter(|(number, _)| progress.begun.has(*number) && !progress.answered.has(*number));
    let under_way: Vec<String> = under_way.map(|(_, op)| format!("`{op}`")).collect();
    let what = match event {
        Event::Submitted {
            request,
            command,
            at,
            size,
            ..
        } => format!("{command:?} of {size} B at {at} was submitted ({request:?})"),
        Event::Finished { request, .. } => format!("{request:?} was answered"),
        Event::Began(op) => format!("operation {op} was asked"),
        Event::Ended(op) => format!("operation {op} was answered"),
    };
    let answered = progress.answered.count();
    let under_way = match under_way.is_empty() {
        true => "no operation".to_owned(),
        false => under_way.join(" and "),
    };
    format!(
        "cut behind event {number} ({what}), {answered} operations answered, {under_way} under way"
    )
}
