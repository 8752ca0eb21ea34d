//! Host DRAM as a page cache in hardware (AstriFlash, SkyByte §VI-H): every data line goes through
//! it, whole pages go between it and the device.
//!
//! A load that misses is told so once the tags have been looked up, and its thread switches; what
//! cannot switch waits. Misses of one page share one fill.

use super::memory::{Missed, Waiting};
use super::{Arrived, Fabric, device_line};
use crate::config::{Config, MemoryKind, Migration};
use crate::event::Event;
use crate::request::{MissRef, Pending, Purpose};
use dram::Access;
use firmware::{RequestOp, Response};
use host::placement::PageCache;
use host::placement::page_cache::Lookup;
use std::collections::VecDeque;
use units::{CoreId, LineInPage, Lpa, PageSize, Picos, Time};

/// The cache, and fills that wait for a way.
#[derive(Clone)]
pub(crate) struct PageStore {
    pub cache: PageCache,
    tag_latency: Picos,
    /// Fills whose set had no way: page, whether it is touched for the first time, since when.
    waiting: VecDeque<(Lpa, bool, Time)>,
}

impl PageStore {
    /// That of the design, if host DRAM is a cache.
    pub fn of(config: &Config) -> Option<Box<Self>> {
        let design = config.mechanisms();
        let is_cached =
            design.memory == MemoryKind::Ssd && design.migration == Migration::HostCache;
        is_cached.then(|| {
            let page = config.ftl.mapping_unit;
            Box::new(Self {
                cache: PageCache::new(&config.astriflash, config.host.promoted, page),
                tag_latency: config.astriflash.tag_latency,
                waiting: VecDeque::new(),
            })
        })
    }

    fn is_coming(&self, lpa: Lpa) -> bool {
        self.cache.is_coming(lpa) || self.waiting.iter().any(|(page, ..)| *page == lpa)
    }
}

impl Fabric {
    /// Whether a page goes through the page cache: all do but pinned ones, whose lines the device
    /// serves.
    #[inline]
    pub(super) fn is_cached(&self, lpa: Lpa) -> bool {
        self.page_store.is_some() && !self.placement.is_pinned(lpa)
    }

    /// What is asked of the device for a line. Host DRAM as a page cache gives no reason to switch
    /// for a line that does not go through it, and AstriFlash's device knows no SkyByte-Delay.
    #[inline]
    pub(super) fn line_op(&self, op: RequestOp) -> RequestOp {
        let delay_allowed = false;
        match op {
            _ if self.page_store.is_none() => op,
            RequestOp::Own { .. } => RequestOp::Own { delay_allowed },
            _ => RequestOp::Read { delay_allowed },
        }
    }

    /// A read of a data line, host DRAM being a cache: a hit, or a wait for the page.
    pub(super) fn read_cached(&mut self, at: Time, missed: Missed, lpa: Lpa, line: LineInPage) {
        let hop = self.hop_of(missed.miss, self.nodes.home());
        let Some(store) = &mut self.page_store else {
            unreachable!("host DRAM is a cache")
        };
        let found = at + hop.there + store.tag_latency;
        match store.cache.access(lpa, false) {
            Lookup::Present(page) => {
                let done = self.page_access(found, page, line, Access::Read) + hop.back;
                self.stats
                    .host_read(missed.issued, at, hop, missed.line, done);
                self.queue.push(done, Event::HostDramDone(missed.miss));
                return;
            }
            Lookup::Coming => {}
            Lookup::Absent => self.fetch_page(found, lpa, missed.is_first_touch),
        }
        let may_switch = RequestOp::Read {
            delay_allowed: true,
        };
        if missed.op == may_switch {
            self.stats.page_delayed(missed.line, missed.issued);
            let told = found + hop.back;
            self.queue.push(told, Event::PageMiss(missed.miss));
        } else {
            self.locked.push((lpa, Waiting::Read(missed)));
        }
    }

    /// A write of a data line that left L3; a page that is absent is fetched for it.
    pub(super) fn write_cached(
        &mut self,
        at: Time,
        lpa: Lpa,
        line: LineInPage,
        by: Option<CoreId>,
    ) {
        let hop = self.hop_home(by);
        let Some(store) = &mut self.page_store else {
            unreachable!("host DRAM is a cache")
        };
        let found = at + hop.there + store.tag_latency;
        match store.cache.access(lpa, true) {
            Lookup::Present(page) => {
                self.stats.host_writes += 1;
                let done = self.page_access(found, page, line, Access::Write);
                if let Some(core) = by {
                    self.persisted_in_host(done + hop.back, core);
                }
                return;
            }
            Lookup::Coming => {}
            Lookup::Absent => self.fetch_page(found, lpa, false),
        }
        self.locked.push((lpa, Waiting::Write(line, by)));
    }

    /// Asks the device for a page, unless it is asked for already or no way is free.
    fn fetch_page(&mut self, at: Time, lpa: Lpa, is_first_touch: bool) {
        let store = self.page_store.as_mut().expect("host DRAM is a cache");
        if store.is_coming(lpa) {
            return;
        }
        let Some(begun) = store.cache.begin_fill(lpa) else {
            store.waiting.push_back((lpa, is_first_touch, at));
            return;
        };
        // The request goes first: what it brings comes long after the victim has been read, and a
        // thread waits for it.
        self.send_page(at, lpa, Purpose::PageFill, is_first_touch);
        if let Some(victim) = begun.dirty_victim {
            let read = self.host_dram.whole_page(at, begun.page, Access::Read);
            self.send_page(read, victim, Purpose::PageWriteBack, false);
        }
    }

    fn send_page(&mut self, at: Time, lpa: Lpa, purpose: Purpose, is_first_touch: bool) {
        let op = match purpose {
            Purpose::PageFill => RequestOp::ReadPage,
            _ => RequestOp::WritePage,
        };
        let pending = Pending {
            purpose,
            op,
            source: None,
            line: device_line(lpa, LineInPage::new(0)),
            is_first_touch,
            issued: at,
            sent: at,
            arrived: at,
            response: None,
        };
        self.send(pending, at);
    }

    /// A page has come: its lines go to host DRAM, and at once to whoever waits for them.
    pub(super) fn page_arrives(
        &mut self,
        now: Time,
        pending: &Pending,
        response: &Response,
    ) -> Arrived {
        let lpa = pending.line.lpa(PageSize::KIB_4);
        let store = self.page_store.as_mut().expect("host DRAM is a cache");
        let page = store.cache.filled(lpa);
        self.host_dram.whole_page(now, page, Access::Write);
        self.stats.page_filled(pending, response);
        if self.recorder.is_some() {
            self.record_page(now, lpa, pending, response);
        }
        let mut is_first = true;
        for access in self.take_waiting(lpa) {
            match access {
                Waiting::Read(missed) if self.is_current(missed.miss) => {
                    let hop = self.hop_of(missed.miss, self.nodes.home());
                    // It may still be in L3, or on another node.
                    let done = (now + hop.back).max(missed.issued + hop.both());
                    let whose = (done, std::mem::replace(&mut is_first, false));
                    self.stats.page_read(whose, &missed, hop, pending, response);
                    match now < done {
                        true => self.queue.push(done, Event::HostDramDone(missed.miss)),
                        false => self.fill(now, missed.miss),
                    }
                }
                Waiting::Read(_) => {}
                Waiting::Write(line, by) => self.write_cached(now, lpa, line, by),
            }
        }
        self.retry_fetches(now);
        Arrived::Page(lpa)
    }

    /// Fills that found no way try again, in order.
    fn retry_fetches(&mut self, now: Time) {
        let store = self.page_store.as_mut().expect("host DRAM is a cache");
        for (lpa, is_first_touch, since) in std::mem::take(&mut store.waiting) {
            let store = self.page_store.as_mut().expect("host DRAM is a cache");
            if store.cache.has_way(lpa) {
                self.fetch_page(now.max(since), lpa, is_first_touch);
            } else {
                store.waiting.push_back((lpa, is_first_touch, since));
            }
        }
    }

    /// A load has missed the cache: [`Fabric::delays`] lists whose it is. Says whether anybody
    /// still waits.
    pub fn page_missed(&mut self, miss: MissRef) -> bool {
        let is_awaited = self.is_current(miss);
        if is_awaited {
            self.delays.extend(self.llc.waiters(miss.slot));
        }
        is_awaited
    }

    /// Whether a page is on its way to the cache.
    pub(crate) fn is_page_coming(&self, lpa: Lpa) -> bool {
        let store = self.page_store.as_ref();
        store.is_some_and(|store| store.is_coming(lpa))
    }
}
