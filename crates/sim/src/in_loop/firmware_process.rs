//! The firmware process: the device of a run, with bytes, driven by commands.

use super::bytes::LineBytes;
use super::on_drive::OnDrive;
use crate::config::Config;
use crate::device;
use crate::fabric::promotion::hand_over;
use crate::warm::InstantPlatform;
use ::firmware::{Controller, EstimatorKind, Request, Response, Work};
use host::placement::PromotedDirt;
use inloop::{Answered, Asked, Board, Drive, Hello, Meter, Metered, Processor, Reply, What, Words};
use settings::Layer;
use soc::{DataPlane, DeviceEvent, EventQueue, Harness, Soc, Timed};
use std::io;
use std::os::unix::net::UnixStream;
use units::{FlashOp, Lpa, PageSize, Picos, Time};

/// What a firmware process has done for one run.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Commands.
    pub commands: u64,
    /// What an empty timer cost, in cycles; it was taken off.
    pub empty_timer: u64,
    /// Each kind of work: its name, how often it was charged, and what that took.
    pub work: Vec<(&'static str, u64, Picos)>,
}

/// What becomes of something that a firmware process says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is said.
    Said,
    /// It is lost.
    Lost,
    /// It is lost, and the process dies.
    Dies,
}

/// Changes what is said, for tests of who hears it.
pub type Mangle<'a> = &'a mut dyn FnMut(&mut Words) -> Fate;

/// Is the device of the run that has connected, until that is over; nothing if it was refused.
/// With `times` its work takes what they say, else what is measured. With a drive that is its
/// flash; it is there again afterwards.
///
/// # Errors
/// The run has gone while it was let in, or the system's.
pub fn serve(
    socket: UnixStream,
    times: Option<Vec<(Work, Picos)>>,
    drive: &mut Option<Drive>,
    mangle: Option<Mangle<'_>>,
) -> io::Result<Option<Served>> {
    let welcome = Board::welcome(socket, |hello| Process::new(hello, times, drive));
    let (mut board, mut process) = match welcome {
        Ok(Some(both)) => both,
        Ok(None) => return Ok(None),
        Err((error, process)) => {
            // The run has gone; the next one may want the drive.
            if let Some(process) = process {
                *drive = process.into_drive();
            }
            return Err(error);
        }
    };
    let mut commands = 0;
    let mut mangle = mangle;
    loop {
        match board.next_command() {
            Ok(None) => break,
            Err(why) => {
                board.stop(commands, &why);
                break;
            }
            Ok(Some(command)) => {
                if let Err(why) = process.obey(command.at, command.what) {
                    board.stop(command.tag, &why);
                    break;
                }
                let mut fate = Fate::Said;
                let said = process.say(command.tag, |mut words| {
                    if fate == Fate::Said
                        && let Some(mangle) = &mut mangle
                    {
                        fate = mangle(&mut words);
                    }
                    match fate {
                        Fate::Said => board.push(words),
                        Fate::Lost | Fate::Dies => Ok(()),
                    }
                });
                match said {
                    Ok(()) => {}
                    Err(Some(why)) => {
                        board.stop(command.tag, &why);
                        break;
                    }
                    Err(None) => break,
                }
                commands += 1;
                if command.what == What::End || fate == Fate::Dies {
                    break;
                }
            }
        }
    }
    let served = process.served(commands);
    *drive = process.into_drive();
    Ok(Some(served))
}

struct Process {
    soc: Soc<Metered<Controller>, LineBytes>,
    side: Side,
    warm: InstantPlatform<LineBytes>,
    is_warm: bool,
    numbers: Vec<u64>,
    dirt: PromotedDirt,
    charged: Vec<(Timed, Picos)>,
    /// The flash as a drive, until measurement begins.
    drive: Option<Box<OnDrive>>,
    is_on_drive: bool,
    /// What operations of the drive took, by their kind.
    flash: [(u64, Picos); 3],
}

/// The device's own events, and what it says.
struct Side {
    now: Time,
    queue: EventQueue<DeviceEvent>,
    replies: Vec<Reply>,
}

impl Harness for Side {
    fn now(&self) -> Time {
        self.now
    }
    fn schedule(&mut self, at: Time, event: DeviceEvent) {
        self.queue.push(at, event);
    }
    fn respond(&mut self, response: Response) {
        self.replies
            .push(Reply::Answered(Answered::of(&response, 0)));
    }
    fn offer_page(&mut self, at: Time, lpa: Lpa) {
        self.replies.push(Reply::Offered(lpa, at));
    }
    fn page_arrived(&mut self, at: Time, lpa: Lpa) {
        self.replies.push(Reply::Arrived(lpa, at));
    }
}

impl Process {
    fn new(
        hello: &Hello,
        times: Option<Vec<(Work, Picos)>>,
        drive: &mut Option<Drive>,
    ) -> Result<Self, String> {
        let layer = Layer::new("the run's configuration", &*hello.config);
        let config = Config::from_layers(&[layer]).map_err(|error| error.to_string())?;
        let processor = Processor::of_text(&hello.processor).map_err(|error| error.to_string())?;
        if times.is_none() && !inloop::has_counter() {
            return Err(
                "this processor has no cycle counter that firmware can be timed with; \
                        use one of the x86-64 kind"
                    .to_owned(),
            );
        }
        let meter = match times {
            Some(times) => Meter::recorded(times),
            None => Meter::new(processor),
        };
        let device = device::for_pages(&config, hello.pages);
        let lines = usize::from(config.ftl.mapping_unit.line_count());
        let mut soc = Soc {
            controller: Metered {
                controller: device.controller,
                meter,
            },
            resources: device.resources.with_bytes(LineBytes::default()),
        };
        soc.resources.take_given_times();
        let behind = match drive.is_some() {
            true => Some(Self::on_drive(&config, hello.pages, drive)?),
            false => None,
        };
        if behind.is_some() {
            soc.resources.measure_flash();
        }
        Ok(Self {
            soc,
            side: Side {
                now: Time::ZERO,
                queue: EventQueue::new(),
                replies: Vec::new(),
            },
            warm: InstantPlatform::with_bytes(LineBytes::new(lines)),
            is_warm: true,
            numbers: Vec::new(),
            dirt: config.host.promoted_dirt,
            charged: Vec::new(),
            is_on_drive: behind.is_some(),
            drive: behind,
            flash: [(0, Picos::ZERO); 3],
        })
    }

    /// The drive as the flash of a run.
    fn on_drive(
        config: &Config,
        pages: u64,
        drive: &mut Option<Drive>,
    ) -> Result<Box<OnDrive>, String> {
        if config.ftl.estimator == EstimatorKind::Exact {
            return Err(
                "ftl.estimator = exact foresees a modelled flash, and the flash is a drive; leave \
                 it out, or start the firmware without --drive"
                    .to_owned(),
            );
        }
        let taken = drive.take().expect("there is a drive");
        let geometry = config.nand.geometry(config.ftl.mapping_unit);
        let wanted = PageSize::KIB_4.bytes() * pages;
        OnDrive::new(taken, geometry, wanted)
            .map(Box::new)
            .map_err(|refused| {
                let (back, why) = *refused;
                *drive = Some(back);
                why
            })
    }

    fn into_drive(mut self) -> Option<Drive> {
        let drive = self.drive.or_else(|| self.soc.resources.bytes.take_drive());
        drive.map(|drive| drive.into_drive())
    }

    fn obey(&mut self, at: Time, what: What) -> Result<(), String> {
        self.side.replies.clear();
        self.charged.clear();
        let has_time = matches!(
            what,
            What::Request(_) | What::Event | What::Promoted(_) | What::Program(_)
        );
        if has_time && !self.is_warm {
            let now = self.side.now;
            if at < now {
                return Err(format!("a command is of {at}, and it is {now} already"));
            }
            self.side.now = at;
        }
        match what {
            What::Request(asked) => {
                if self.side.queue.next_time().is_some_and(|due| due < at) {
                    return Err(format!("an event of the device is due before {at}"));
                }
                self.soc.resources.bytes.bring(asked.id, asked.value);
                self.soc.on_request(at, request(&asked), &mut self.side);
            }
            What::Event => match self.side.queue.pop() {
                Some((due, event)) if due == at => self.soc.on_event(at, event, &mut self.side),
                Some((due, _)) => {
                    return Err(format!(
                        "the device's next event is due at {due}, not at {at}"
                    ));
                }
                None => return Err(format!("no event of the device is due at {at}")),
            },
            What::Warm(asked) => {
                self.warm.bytes.bring(asked.id, asked.value);
                self.at_once(|controller, warm| {
                    controller.on_request(Time::ZERO, request(&asked), warm);
                });
            }
            What::Promoted(lpa) => {
                let dirt = self.dirt;
                if self.is_warm {
                    self.at_once(|controller, warm| {
                        hand_over(dirt, controller, at, lpa, warm);
                    });
                } else {
                    self.soc.with(&mut self.side, |metered, platform| {
                        metered.act(platform, |controller, platform| {
                            hand_over(dirt, controller, at, lpa, platform);
                        });
                    });
                }
            }
            What::Program(lpa) => self.program(at, lpa),
            What::Refused(lpa) => self.soc.controller.controller.on_promotion_refused(lpa),
            What::ForgetAccesses => self.soc.controller.controller.forget_accesses(),
            What::Numbers { count, numbers } => {
                self.numbers.extend(&numbers[..usize::from(count)]);
            }
            What::NumbersEnd => {
                let numbers = std::mem::take(&mut self.numbers);
                let numbers = numbers.into_iter();
                self.soc.controller.controller.number_pages(numbers);
            }
            What::Begin => {
                self.is_warm = false;
                self.soc.resources.bytes = std::mem::take(&mut self.warm.bytes);
                if let Some(drive) = self.drive.take() {
                    self.soc.resources.bytes.move_to(drive);
                }
            }
            What::Flash => self.side.replies.push(Reply::Flash {
                is_drive: self.is_on_drive,
            }),
            What::End | What::GoOn => {}
        }
        for reply in &mut self.side.replies {
            if let Reply::Answered(answered) = reply {
                answered.value = self.soc.resources.bytes.take(answered.request);
            }
        }
        self.soc.controller.meter.take_charged(&mut self.charged);
        self.take_flash_times();
        if let Some(why) = self.soc.resources.bytes.failure() {
            return Err(why.to_owned());
        }
        match self.soc.controller.meter.failure() {
            Some(why) => Err(format!("its times are not of this run: {why}")),
            None => Ok(()),
        }
    }

    /// Times of the drive follow those of the work of the same command.
    fn take_flash_times(&mut self) {
        let Some(drive) = self.soc.resources.bytes.drive() else {
            return;
        };
        for (what, time) in drive.took.drain(..) {
            if let Timed::Flash(op) = what {
                let (count, sum) = &mut self.flash[op.index()];
                *count += 1;
                *sum = sum.saturating_add(time);
            }
            self.charged.push((what, time));
        }
    }

    fn program(&mut self, at: Time, lpa: Lpa) {
        if self.is_warm {
            self.at_once(|controller, warm| {
                controller.program_resident(at, lpa, warm);
            });
        } else {
            self.soc.with(&mut self.side, |metered, platform| {
                metered.act(platform, |controller, platform| {
                    controller.program_resident(at, lpa, platform);
                });
            });
        }
    }

    /// Something of warm-up, and all that follows from it.
    fn at_once(&mut self, act: impl FnOnce(&mut Controller, &mut InstantPlatform<LineBytes>)) {
        let controller = &mut self.soc.controller.controller;
        act(controller, &mut self.warm);
        self.warm.settle(controller);
        self.warm.forget_offers();
    }

    fn say<E>(&mut self, tag: u64, mut push: impl FnMut(Words) -> Result<(), E>) -> Result<(), E> {
        for reply in &self.side.replies {
            push(reply.words(tag))?;
        }
        let mut rest = &self.charged[..];
        while rest.len() > 5 {
            let (some, others) = rest.split_at(5);
            push(Reply::Times(five(some)).words(tag))?;
            rest = others;
        }
        let deadline = self.side.queue.next_time();
        let times = five(rest);
        push(Reply::Done { deadline, times }.words(tag))
    }

    fn served(&self, commands: u64) -> Served {
        let meter = &self.soc.controller.meter;
        let work = meter.total().iter().enumerate().map(|(code, times)| {
            let work = Work::of_code(code as u8).expect("a code below their number");
            (work.name(), times.count, times.sum)
        });
        let flash = FlashOp::ALL.map(|op| {
            let (count, sum) = self.flash[op.index()];
            (Timed::Flash(op).name(), count, sum)
        });
        let work = work.chain(flash);
        Served {
            commands,
            empty_timer: meter.empty_cost(),
            work: work.collect(),
        }
    }
}

fn five(some: &[(Timed, Picos)]) -> [Option<(Timed, Picos)>; 5] {
    let mut times = [None; 5];
    for (place, time) in times.iter_mut().zip(some) {
        *place = Some(*time);
    }
    times
}

fn request(asked: &Asked) -> Request {
    Request {
        id: asked.id,
        op: asked.op,
        line: asked.line,
        source: asked.source,
    }
}
