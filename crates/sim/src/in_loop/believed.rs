//! A device of its own, whose answers are believed: an NVMe device of this machine, or a recording
//! of one.
//!
//! Virtual time stands while it is asked. It says what an access took, and nothing of what it does
//! besides; so the simulated device does nothing here. Requests that overlap in virtual time are
//! asked one after the other. What then must be added is that a page takes its time to come: who
//! asks for another line of it meanwhile waits for it, though the device has it by now.

use super::values::Values;
use crate::config::Config;
use ::firmware::{Answer, Breakdown, Request, RequestOp, Response, Served};
use hashbrown::HashMap;
use inloop::nvme::{Accessed, LineDevice};
use inloop::opencxd::{Done, TICK_PICOS, TIMER_NANOS};
use rustc_hash::FxBuildHasher;
use soc::{DeviceTime, Timed};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use units::{LineAddr, LineMask, Lpa, PageSize, Picos, Time};

/// A device that stores and loads lines, for the runs of a source.
pub type SharedLines = Arc<Mutex<dyn LineDevice>>;

/// Who says what an access takes.
#[derive(Debug)]
enum Source {
    Device(SharedLines),
    Recording(VecDeque<(Timed, Picos)>),
}

/// What a device says of an access.
#[derive(Clone, Copy, Debug)]
struct Said {
    took: Picos,
    is_miss: bool,
    /// The log had it, if the device says so.
    is_log: bool,
    /// Of a miss, what was not the flash's, if the device says so.
    overhead: Option<Picos>,
}

/// A device that is believed.
#[derive(Debug)]
pub(crate) struct Believed {
    source: Source,
    /// Who says nothing of the sort has had a load that takes as long from flash.
    flash: Picos,
    /// A read from flash that takes longer is answered with SkyByte-Delay, where that may be.
    threshold: Picos,
    /// When SkyByte-Delay is answered, if the device does not say what is not the flash's.
    decides: Picos,
    tells_pages: bool,
    notice: Picos,
    /// Pages on their way from flash.
    coming: HashMap<Lpa, Coming, FxBuildHasher>,
    values: Values,
    pub(super) times: Vec<(Timed, Picos)>,
    failure: Option<String>,
}

/// A page on its way.
#[derive(Clone, Copy, Debug)]
struct Coming {
    at: Time,
    /// Lines that were stored meanwhile; the device need not wait for the page to have them.
    stored: LineMask,
}

fn page_of(line: LineAddr) -> Lpa {
    line.lpa(PageSize::KIB_4)
}

impl Believed {
    fn new(config: &Config, source: Source) -> Self {
        let lookup = config.ssd.cache.lookup;
        let lookup = match config.mechanisms().write_log {
            true => lookup.max(config.ssd.log.lookup),
            false => lookup,
        };
        Self {
            source,
            flash: Picos::new(config.nand.t_r.get() / 2),
            threshold: config.os.switch_threshold,
            decides: lookup + config.ssd.delay_answer_cost,
            tells_pages: config.os.wake == host::os::WakePolicy::OnData,
            notice: config.host.interrupt_latency,
            coming: HashMap::default(),
            values: Values::new(config),
            times: Vec::new(),
            failure: None,
        }
    }

    /// A device, which must have room for a program of `pages` pages: they go to its flash.
    ///
    /// # Errors
    /// It has not; a sentence.
    pub(super) fn on(config: &Config, pages: u64, device: &SharedLines) -> Result<Self, String> {
        let mut believed = Self::new(config, Source::Device(device.clone()));
        let lines = pages * PageSize::KIB_4.line_count() as u64;
        if let Some(last) = lines.checked_sub(1) {
            believed.access(LineAddr::new(last), false, &mut [0; 64]);
        }
        believed.times.clear();
        if let Some(failure) = believed.failure {
            return Err(failure);
        }
        lock(device)
            .fill(pages)
            .map_err(|error| error.to_string())?;
        Ok(believed)
    }

    /// What was recorded of one.
    pub(super) fn of_recording(config: &Config, times: &[(Timed, Picos)]) -> Self {
        Self::new(config, Source::Recording(times.iter().copied().collect()))
    }

    /// Why there is no going on, if so.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// How many recorded times were not used.
    pub(super) fn left(&self) -> usize {
        match &self.source {
            Source::Device(_) => 0,
            Source::Recording(times) => times.len(),
        }
    }

    /// A request of warm-up, where nothing takes time. A recording has none of them.
    pub(super) fn warm(&mut self, request: &Request) {
        if let Source::Device(_) = self.source {
            let value = self.values.of_request(request, true);
            self.access(request.line, is_store(request.op), &mut data_of(value));
            self.times.clear();
        }
    }

    /// A request arrives.
    pub(crate) fn answer(&mut self, now: Time, request: &Request) -> Response {
        let is_store = is_store(request.op);
        let due = self.values.due(request.line);
        let mut data = data_of(self.values.of_request(request, true));
        let said = self.access(request.line, is_store, &mut data);
        let found = u64::from_le_bytes(data[..8].try_into().expect("eight bytes"));
        if let (false, Source::Device(device), Some(due)) = (is_store, &self.source, due) {
            let keeps = lock(device).keeps_data();
            if keeps && found != due && self.failure.is_none() {
                self.failure = Some(Values::differs(request.line, found, due));
            }
        }
        if !is_store {
            return self.read(now, request, said);
        }
        if let Some(coming) = self.coming.get_mut(&page_of(request.line)) {
            coming.stored.insert(request.line.in_page(PageSize::KIB_4));
        }
        written(now, request, said)
    }

    fn read(&mut self, now: Time, request: &Request, said: Said) -> Response {
        let page = page_of(request.line);
        let coming = match said.is_log {
            true => None,
            false => self.coming_at(request.line, now),
        };
        let ready = now + said.took;
        let at = coming.map_or(ready, |coming| coming.max(ready));
        if said.is_miss {
            let coming = self.coming.entry(page).or_insert(Coming {
                at,
                stored: LineMask::EMPTY,
            });
            coming.at = at;
        }
        let delay_allowed = matches!(
            request.op,
            RequestOp::Read {
                delay_allowed: true
            } | RequestOp::Own {
                delay_allowed: true
            }
        );
        let waits_for_flash = said.is_miss || at > ready;
        let overhead = match said.is_miss {
            true => said.overhead.unwrap_or(self.decides).min(said.took),
            false => said.took,
        };
        if delay_allowed && waits_for_flash && at - now > self.threshold {
            return Response {
                request: request.id,
                answer: Answer::Delay,
                at: now + overhead,
                served: served(said.is_miss, at > ready),
                breakdown: Breakdown {
                    dram: overhead,
                    ..Breakdown::default()
                },
            };
        }
        Response {
            request: request.id,
            answer: Answer::Data,
            at,
            served: served(said.is_miss, at > ready),
            breakdown: Breakdown {
                dram: overhead,
                flash: (at - now) - overhead,
                ..Breakdown::default()
            },
        }
    }

    /// Whether the host is to be told when a page comes of which a read was delayed, and when.
    pub(crate) fn notice_of(&self, request: &Request, response: &Response) -> Option<(Lpa, Time)> {
        let page = page_of(request.line);
        let is_wanted = self.tells_pages && response.answer == Answer::Delay;
        let at = is_wanted.then(|| self.expected(page))??;
        Some((page, at + self.notice))
    }

    /// When a page comes that is on its way.
    pub(crate) fn expected(&self, page: Lpa) -> Option<Time> {
        self.coming.get(&page).map(|coming| coming.at)
    }

    /// Until when a read of a line would be answered with SkyByte-Delay.
    pub(crate) fn delays_until(&self, line: LineAddr) -> Option<Time> {
        let at = self.expected(page_of(line))?;
        Some(Time::from_picos(
            at.as_picos().saturating_sub(self.threshold.get()),
        ))
    }

    /// When the page of a line comes, if the line has to wait for that.
    fn coming_at(&mut self, line: LineAddr, now: Time) -> Option<Time> {
        let page = page_of(line);
        let coming = *self.coming.get(&page)?;
        if coming.at <= now {
            self.coming.remove(&page);
            return None;
        }
        let is_there = coming.stored.contains(line.in_page(PageSize::KIB_4));
        (!is_there).then_some(coming.at)
    }

    /// Asks for an access, and notes what it took.
    fn access(&mut self, line: LineAddr, is_store: bool, data: &mut [u8; 64]) -> Said {
        let said = match &self.failure {
            Some(_) => return Said::NOTHING,
            None => self.source.ask(line, is_store, data, self.flash),
        };
        let said = match said {
            Ok(said) if said.took > Timed::LONGEST => {
                self.failure = Some(format!(
                    "the device says that an access of {line:?} took {}, and none takes an hour; \
                     look at its firmware",
                    said.took
                ));
                return Said::NOTHING;
            }
            Ok(said) => said,
            Err(why) => {
                self.failure = Some(why);
                return Said::NOTHING;
            }
        };
        let time = match (said.is_miss, said.is_log) {
            (true, _) => DeviceTime::Miss,
            (false, true) => DeviceTime::Log,
            (false, false) => DeviceTime::Hit,
        };
        self.times.push((Timed::Device(time), said.took));
        if let Some(overhead) = said.overhead {
            let what = Timed::Device(DeviceTime::Overhead);
            self.times.push((what, overhead));
        }
        said
    }
}

impl Source {
    fn ask(
        &mut self,
        line: LineAddr,
        is_store: bool,
        data: &mut [u8; 64],
        flash: Picos,
    ) -> Result<Said, String> {
        let times = match self {
            Self::Device(device) => {
                let accessed = lock(device).access(line, is_store, data);
                return match accessed {
                    Ok(accessed) => Ok(Said::of(&accessed, is_store, flash)),
                    Err(error) => Err(error.to_string()),
                };
            }
            Self::Recording(times) => times,
        };
        let (what, took) = match times.pop_front() {
            Some((Timed::Device(what), took)) if what != DeviceTime::Overhead => (what, took),
            _ => {
                return Err(
                    "the recording has no time of an access where the run has one; run what was \
                     recorded"
                        .to_owned(),
                );
            }
        };
        let (is_miss, is_log) = (what == DeviceTime::Miss, what == DeviceTime::Log);
        let overhead = match times.front() {
            Some((Timed::Device(DeviceTime::Overhead), time)) => Some(*time),
            _ => None,
        };
        if overhead.is_some() {
            times.pop_front();
        }
        Ok(Said {
            took,
            is_miss,
            is_log,
            overhead,
        })
    }
}

impl Said {
    const NOTHING: Self = Self {
        took: Picos::ZERO,
        is_miss: false,
        is_log: false,
        overhead: None,
    };

    fn of(accessed: &Accessed, is_store: bool, flash: Picos) -> Self {
        let Accessed { took, done } = *accessed;
        let overhead = match done {
            Some(Done::Miss { overhead }) if !is_store => {
                let timer = Picos::from_nanos(TIMER_NANOS.unsigned_abs());
                Some(Picos::new(u64::from(overhead) * TICK_PICOS).saturating_sub(timer))
            }
            _ => None,
        };
        let is_long = done.is_none() && !is_store && took >= flash;
        Self {
            took,
            is_miss: is_long || overhead.is_some(),
            is_log: done == Some(Done::LogRead),
            overhead,
        }
    }
}

fn lock(device: &SharedLines) -> std::sync::MutexGuard<'_, dyn LineDevice + 'static> {
    // What a run has asked that was torn down is done or refused.
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_store(op: RequestOp) -> bool {
    matches!(op, RequestOp::Write)
}

/// The bytes of a line with a value.
fn data_of(value: u64) -> [u8; 64] {
    let mut data = [0; 64];
    data[..8].copy_from_slice(&value.to_le_bytes());
    data
}

fn served(is_miss: bool, waits: bool) -> Served {
    match (is_miss, waits) {
        (true, false) => Served::Flash,
        (_, true) => Served::MergedMiss,
        (false, false) => Served::CacheHit,
    }
}

fn written(now: Time, request: &Request, said: Said) -> Response {
    Response {
        request: request.id,
        answer: Answer::Written,
        at: now + said.took,
        served: Served::Write,
        breakdown: Breakdown {
            dram: said.took,
            ..Breakdown::default()
        },
    }
}
