//! What a cut leaves, seen through the firmware that recovers from it.

use crate::catch::catch;
use crate::lab::MOST_EVENTS;
use crate::media::{Media, span};
use crate::oracle::Oracle;
use crate::power_cutter::{Cut, InFlight, InFlightChoice, Place};
use crate::powered_device::{Event, PoweredDevice, Setup};
use crate::sabotage::Bug;
use crate::tally::Tally;
use crate::token::Token;
use firmware::log_index::LogIndex;
use firmware::{Answer, Request, RequestOp};
use units::{LineAddr, Lpa, RequestId};

/// What was wrong, and after which second cut if after one.
pub(crate) type Wrong = (Option<(Place, InFlight)>, String);

/// How recoveries are judged.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) bug: Option<Bug>,
    pub(crate) choice: InFlightChoice,
    /// The power is cut again at every step of the recovery.
    pub(crate) cuts_again: bool,
    /// The only second cut that is judged.
    pub(crate) only: Option<(Place, InFlight)>,
}

impl Judge<'_> {
    /// Reads the media, recovers, reads everything, lets everything end and reads the media again.
    pub(crate) fn judge<I: LogIndex>(
        &self,
        media: &Media,
        oracle: &Oracle,
        tally: &mut Tally,
    ) -> Result<(), Wrong> {
        self.check_media(media, oracle).map_err(once)?;
        let recovered = catch(|| self.recover::<I>(media)).and_then(|done| done);
        let (mut powered, event) = recovered.map_err(once)?;
        self.judge_again::<I>(&event.cuts, oracle, tally)?;
        let found = catch(|| read_all(&mut powered, self.setup)).and_then(|done| done);
        let found = found.map_err(once)?;
        oracle
            .judge(&found)
            .map_err(|what| once(read_wrong(&what)))?;
        let mut settled = oracle.clone();
        settled.settle_on(&found);
        self.settle(&mut powered, &settled, tally)
    }

    fn check_media(&self, media: &Media, oracle: &Oracle) -> Result<(), String> {
        let reading = media.reading(self.setup.page_count)?;
        oracle.judge(&reading)
    }

    /// The power comes back on.
    pub(crate) fn recover<I: LogIndex>(
        &self,
        media: &Media,
    ) -> Result<(PoweredDevice<I>, Event), String> {
        let (mut powered, event) =
            PoweredDevice::recover(self.setup, media.clone(), self.bug, self.choice)?;
        match powered.machine().violation.take() {
            Some(what) => Err(format!("recovering, {what}")),
            None => Ok((powered, event)),
        }
    }

    /// Judges cuts in the middle of a recovery: it must be possible to recover again.
    fn judge_again<I: LogIndex>(
        &self,
        cuts: &[Cut],
        oracle: &Oracle,
        tally: &mut Tally,
    ) -> Result<(), Wrong> {
        if !self.cuts_again {
            return Ok(());
        }
        let once_more = Judge {
            cuts_again: false,
            ..*self
        };
        for cut in cuts {
            let name = (cut.place, cut.in_flight);
            let is_chosen = match self.only {
                None => tally.note_again(cut, oracle),
                Some(only) => only == name,
            };
            if is_chosen {
                let judged = once_more.judge::<I>(&cut.media, oracle, tally);
                judged.map_err(|(_, what)| (Some(name), what))?;
            }
        }
        Ok(())
    }

    /// Lets everything end; what the host has found stays what is there, whenever power goes.
    fn settle<I: LogIndex>(
        &self,
        powered: &mut PoweredDevice<I>,
        oracle: &Oracle,
        tally: &mut Tally,
    ) -> Result<(), Wrong> {
        for _ in 0..MOST_EVENTS {
            let event = catch(|| powered.go_on()).map_err(once)?;
            if let Some(what) = powered.machine().violation.take() {
                return Err(once(what));
            }
            let Some(event) = event else {
                let audited = catch(|| powered.controller.audit());
                let reading =
                    audited.and_then(|()| self.check_media(powered.machine().media(), oracle));
                return reading.map_err(|what| once(format!("after recovery, {what}")));
            };
            self.judge_again::<I>(&event.cuts, oracle, tally)?;
        }
        let stuck = format!("the device still works {MOST_EVENTS} events after recovery");
        Err(once(stuck))
    }
}

fn once(what: String) -> Wrong {
    (None, what)
}

fn read_wrong(what: &str) -> String {
    format!("read through the recovered firmware, {what}")
}

/// Reads every line through the firmware: every other page as a whole, the rest line by line.
pub(crate) fn read_all<I: LogIndex>(
    powered: &mut PoweredDevice<I>,
    setup: &Setup,
) -> Result<Vec<Token>, String> {
    let lines = setup.device.page_lines as usize;
    let mut found = Vec::with_capacity(setup.line_count());
    for page in 0..setup.page_count {
        let page = span(Lpa::new(page as u64), lines);
        if page.start.is_multiple_of(2 * lines) {
            found.extend(read(powered, RequestOp::ReadPage, page.start, lines)?);
            continue;
        }
        let op = RequestOp::Read {
            delay_allowed: false,
        };
        for line in page {
            found.extend(read(powered, op, line, 1)?);
        }
    }
    Ok(found)
}

fn read<I: LogIndex>(
    powered: &mut PoweredDevice<I>,
    op: RequestOp,
    line: usize,
    count: usize,
) -> Result<Vec<Token>, String> {
    let id = RequestId::new(0);
    let mut event = powered.send(Request {
        id,
        op,
        line: LineAddr::new(line as u64),
        source: None,
    });
    for _ in 0..MOST_EVENTS {
        if let Some(what) = powered.machine().violation.take() {
            return Err(read_wrong(&what));
        }
        match event.answers.first().map(|response| response.answer) {
            Some(Answer::Data | Answer::Poison) => {
                return Ok(powered.machine().payload(id)[..count].to_vec());
            }
            Some(answer) => {
                return Err(read_wrong(&format!(
                    "line {line} is answered by {answer:?}"
                )));
            }
            None => {}
        }
        let Some(next) = powered.go_on() else {
            break;
        };
        event = next;
    }
    Err(read_wrong(&format!("line {line} is never answered")))
}
