//! Firmware whose work is timed: between it and its platform stands a meter.

use crate::meter::Meter;
use firmware::{
    Cell, NandCommand, NandFault, NandTag, PagePlace, Platform, Record, Request, Response, Timer,
    Work,
};
use soc::Firmware;
use units::{Bytes, LineInPage, LineMask, Lpa, Picos, Ppa, RequestId, Time};

/// Firmware with a meter.
#[derive(Clone, Debug)]
pub struct Metered<F> {
    /// What decides.
    pub controller: F,
    /// What takes its times.
    pub meter: Meter,
}

impl<F> Metered<F> {
    /// Lets the firmware act on a platform that is metered.
    #[inline]
    pub fn act<P: Platform, R>(
        &mut self,
        platform: &mut P,
        act: impl FnOnce(&mut F, &mut MeteredPlatform<'_, P>) -> R,
    ) -> R {
        let mut platform = MeteredPlatform {
            platform,
            meter: &mut self.meter,
        };
        act(&mut self.controller, &mut platform)
    }
}

impl<F: Firmware> Firmware for Metered<F> {
    #[inline]
    fn on_request<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        self.act(platform, |controller, platform| {
            controller.on_request(now, request, platform);
        });
    }
    #[inline]
    fn on_nand<P: Platform>(
        &mut self,
        now: Time,
        tag: NandTag,
        fault: Option<NandFault>,
        platform: &mut P,
    ) {
        self.act(platform, |controller, platform| {
            controller.on_nand(now, tag, fault, platform);
        });
    }
    fn on_lines<P: Platform>(
        &mut self,
        now: Time,
        tag: NandTag,
        lines: LineMask,
        platform: &mut P,
    ) {
        self.act(platform, |controller, platform| {
            controller.on_lines(now, tag, lines, platform);
        });
    }
    #[inline]
    fn on_timer<P: Platform>(&mut self, now: Time, timer: Timer, platform: &mut P) {
        self.act(platform, |controller, platform| {
            controller.on_timer(now, timer, platform);
        });
    }
}

/// A platform whose own work is not the firmware's.
#[derive(Debug)]
pub struct MeteredPlatform<'a, P> {
    platform: &'a mut P,
    meter: &'a mut Meter,
}

impl<P: Platform> MeteredPlatform<'_, P> {
    /// The clock stands while the platform works.
    #[inline(always)]
    fn aside<R>(&mut self, act: impl FnOnce(&mut P) -> R) -> R {
        let work = self.meter.pause();
        let result = act(self.platform);
        self.meter.resume(work);
        result
    }
}

impl<P: Platform> Platform for MeteredPlatform<'_, P> {
    #[inline]
    fn charge(&mut self, at: Time, work: Work) -> Time {
        let before = self.meter.pause();
        let time = self.meter.charge(work);
        self.platform.took(work, time);
        let done = self.platform.charge(at, work);
        self.meter.resume(before);
        done
    }
    #[inline]
    fn timed<R>(&mut self, work: Work, act: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.meter.start(work);
        let result = act(self);
        self.meter.stop(before);
        result
    }
    #[inline(always)]
    fn measures(&self) -> bool {
        true
    }
    #[inline]
    fn took(&mut self, work: Work, time: Picos) {
        self.aside(|platform| platform.took(work, time));
    }
    #[inline]
    fn dram(&mut self, at: Time, address: Bytes, size: Bytes, is_write: bool) -> Time {
        self.aside(|platform| platform.dram(at, address, size, is_write))
    }
    #[inline]
    fn dram_behind(&mut self, at: Time, address: Bytes, size: Bytes, is_write: bool) -> Time {
        self.aside(|platform| platform.dram_behind(at, address, size, is_write))
    }
    #[inline]
    fn copy_line(&mut self, from: Cell, to: Cell) {
        self.aside(|platform| platform.copy_line(from, to));
    }
    #[inline]
    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        self.aside(|platform| platform.copy_page(from, to, lines));
    }
    #[inline]
    fn load_unit(&mut self, ppa: Ppa, lpa: Lpa, from: PagePlace) {
        self.aside(|platform| platform.load_unit(ppa, lpa, from));
    }
    #[inline]
    fn nand(&mut self, at: Time, command: NandCommand) {
        self.aside(|platform| platform.nand(at, command));
    }
    #[inline]
    fn wants(&mut self, tag: NandTag, line: LineInPage) {
        self.aside(|platform| platform.wants(tag, line));
    }
    #[inline]
    fn expected_end(&self, tag: NandTag) -> Option<Time> {
        self.platform.expected_end(tag)
    }
    #[inline]
    fn is_poisoned(&self, request: RequestId) -> bool {
        self.platform.is_poisoned(request)
    }
    #[inline]
    fn respond(&mut self, response: Response) {
        self.aside(|platform| platform.respond(response));
    }
    #[inline]
    fn request_promotion(&mut self, at: Time, lpa: Lpa) {
        self.aside(|platform| platform.request_promotion(at, lpa));
    }
    #[inline]
    fn page_arrived(&mut self, at: Time, lpa: Lpa) {
        self.aside(|platform| platform.page_arrived(at, lpa));
    }
    #[inline]
    fn record(&mut self, record: Record) {
        self.aside(|platform| platform.record(record));
    }
    #[inline]
    fn wake_at(&mut self, at: Time, timer: Timer) {
        self.aside(|platform| platform.wake_at(at, timer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::cycles;
    use crate::processor::Processor;
    use firmware::{Answer, Breakdown, NandOp, Served};

    /// Cycles that each thing takes a platform that is slow.
    const SLOW: u64 = 40_000;
    const WORK: Work = Work::LogAppend;

    /// A platform each of whose ways takes so many cycles.
    struct Busy(u64);

    impl Busy {
        fn work(&self) {
            let began = cycles();
            while cycles() - began < self.0 {
                core::hint::spin_loop();
            }
        }
    }

    impl Platform for Busy {
        fn charge(&mut self, at: Time, _: Work) -> Time {
            self.work();
            at
        }
        fn took(&mut self, _: Work, _: Picos) {
            self.work();
        }
        fn dram(&mut self, at: Time, _: Bytes, _: Bytes, _: bool) -> Time {
            self.work();
            at
        }
        fn copy_line(&mut self, _: Cell, _: Cell) {
            self.work();
        }
        fn copy_page(&mut self, _: PagePlace, _: PagePlace, _: LineMask) {
            self.work();
        }
        fn load_unit(&mut self, _: Ppa, _: Lpa, _: PagePlace) {
            self.work();
        }
        fn nand(&mut self, _: Time, _: NandCommand) {
            self.work();
        }
        fn respond(&mut self, _: Response) {
            self.work();
        }
        fn request_promotion(&mut self, _: Time, _: Lpa) {
            self.work();
        }
        fn page_arrived(&mut self, _: Time, _: Lpa) {
            self.work();
        }
        fn record(&mut self, _: Record) {
            self.work();
        }
        fn wake_at(&mut self, _: Time, _: Timer) {
            self.work();
        }
    }

    /// What the firmware's own work takes that asks a platform for everything while it is timed,
    /// by the counter: the median of many, which an interruption now and then does not move.
    fn median(platform: &mut Busy) -> Picos {
        let text = "[processor]\nclock = \"1GHz\"\ncycles = \"1/1\"";
        let mut firmware = Metered {
            controller: (),
            meter: Meter::new(Processor::of_text(text).expect("a processor")),
        };
        let (now, lpa, place) = (Time::ZERO, Lpa::new(0), PagePlace::Zero);
        let (request, ppa, tag) = (RequestId::new(0), Ppa::new(0), NandTag::new(0));
        for _ in 0..101 {
            firmware.act(platform, |(), platform| {
                platform.timed(WORK, |platform| {
                    platform.dram(now, Bytes::ZERO, Bytes::ZERO, false);
                    platform.dram_behind(now, Bytes::ZERO, Bytes::ZERO, false);
                    platform.copy_line(Cell::Host(request), Cell::Host(request));
                    platform.copy_page(place, place, LineMask::EMPTY);
                    platform.load_unit(ppa, lpa, place);
                    platform.nand(
                        now,
                        NandCommand {
                            tag,
                            op: NandOp::Read { ppa },
                            is_compaction: false,
                        },
                    );
                    platform.respond(Response {
                        request,
                        answer: Answer::Written,
                        at: now,
                        served: Served::Write,
                        breakdown: Breakdown::default(),
                    });
                    platform.request_promotion(now, lpa);
                    platform.page_arrived(now, lpa);
                    platform.took(WORK, Picos::ZERO);
                    platform.charge(now, Work::CacheInsert);
                });
                platform.charge(now, WORK);
            });
        }
        let mut charged = Vec::new();
        firmware.meter.take_charged(&mut charged);
        let own = |(work, time)| (work == soc::Timed::Work(WORK)).then_some(time);
        let mut times: Vec<_> = charged.into_iter().filter_map(own).collect();
        times.sort_unstable();
        times[times.len() / 2]
    }

    #[test]
    fn what_the_platform_itself_takes_is_in_no_figure() {
        let (quick, slow) = (median(&mut Busy(0)), median(&mut Busy(SLOW)));
        // One of its eleven calls would be more, at a cycle a nanosecond.
        let most = quick + Picos::from_nanos(SLOW / 2);
        assert!(
            slow < most,
            "{slow} beside a slow platform, {quick} beside a quick one"
        );
    }
}
