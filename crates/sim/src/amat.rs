//! What memory accesses cost: AMAT twice (D8), its components, latency distribution, where
//! requests were served.

use crate::fabric::Missed;
use crate::histogram::LatencyHistogram;
use crate::request::Pending;
use firmware::{Breakdown, Response, Served};
use hashbrown::HashMap;
use host::{Hop, HostLine};
use rustc_hash::FxBuildHasher;
use units::{Picos, Time};

/// Sums over the accesses that AMAT counts, as the paper defines it (SkyByte §VI-D): reads of data
/// lines from the moment L3 has missed until the line is back; accesses answered by SkyByte-Delay
/// are left out, the access that finally brings the line counts from its own issue. Writes are
/// posted and not counted.
#[derive(Clone, Debug, Default)]
pub struct AccessStats {
    /// Reads of pages in host DRAM.
    pub host_reads: u64,
    /// Writes to pages in host DRAM.
    pub host_writes: u64,
    /// Writes acknowledged by the device, demotions included.
    pub device_writes: u64,
    /// Lines that cores wrote back (`clwb`) to the device.
    pub persisted_on_device: u64,
    /// What these took, from L3 to the acknowledgement.
    pub persist_latency: Picos,
    /// Lines that cores wrote back to pages in host DRAM.
    pub persisted_in_host: u64,
    /// Lines that were clean when cores wrote them back.
    pub persisted_clean: u64,
    /// Device reads by [`Served`].
    pub served: [u64; 7],
    /// Accesses for which a page was fetched from flash that was touched for the first time, those
    /// answered by SkyByte-Delay included.
    pub cold_misses: u64,
    /// Whole pages that came from flash to the page cache in host DRAM while the load they were
    /// fetched for was switched away.
    pub pages_unawaited: u64,
    /// Accesses answered by SkyByte-Delay, or told by the page cache that they have missed.
    pub delayed: u64,
    /// Of these, the ones for which the page was fetched from flash.
    pub delayed_fetches: u64,
    /// Accesses re-issued after a SkyByte-Delay because something that cannot switch waits (D13).
    pub reissued: u64,
    /// Answers whose MSHR had been freed by a squash.
    pub orphans: u64,
    /// Reads held back until write credits came back.
    pub reads_held: u64,
    /// Requests that waited at the host for another one of their line.
    pub ordered: u64,
    /// Host DRAM time.
    pub host_dram: Picos,
    /// CXL link: both ways, with queueing.
    pub link: Picos,
    /// Waiting before the link or host DRAM: for write credits, for another request of the line, or
    /// for a page that is locked.
    pub credit_wait: Picos,
    /// Ways between nodes.
    pub inter_socket: Picos,
    /// Of the reads of pages in host DRAM, those by a core of another node.
    pub host_reads_remote: u64,
    /// Of the device reads, those by a core that is not on the device's node.
    pub device_reads_remote: u64,
    /// Components on the device.
    pub device: Breakdown,
    /// Time that the paper's AMAT counts, host and device: the sum of all components.
    pub paper_total: Picos,
    /// From first issue to data, accesses that were switched away included.
    pub all: LatencyHistogram,
    /// First issue of lines that were answered by SkyByte-Delay and have not come yet.
    first_issues: HashMap<u32, Time, FxBuildHasher>,
}

impl AccessStats {
    /// A read of a page in host DRAM, which began at `began`.
    #[inline]
    pub fn host_read(&mut self, issued: Time, began: Time, hop: Hop, line: HostLine, done: Time) {
        self.host_reads += 1;
        self.host_reads_remote += u64::from(hop.is_remote);
        self.inter_socket += hop.both();
        self.credit_wait += began - issued;
        self.host_dram += done - began - hop.both();
        self.paper_total += done - issued;
        self.record_from_first_issue(issued, line, done);
    }

    /// Counts an access over all accesses (D8): from when the line was first asked for, which is
    /// returned.
    #[inline]
    fn record_from_first_issue(&mut self, issued: Time, line: HostLine, done: Time) -> Time {
        let first = match self.first_issues.is_empty() {
            true => issued,
            false => self.first_issues.remove(&line.get()).unwrap_or(issued),
        };
        self.all.record(done - first);
        first
    }

    /// The device's answer with data has arrived at the host; says when the line was first asked
    /// for.
    pub fn device_read(
        &mut self,
        now: Time,
        line: HostLine,
        hop: Hop,
        pending: &Pending,
        answer: &Response,
    ) -> Time {
        let Breakdown {
            stall,
            index,
            dram,
            flash,
        } = answer.breakdown;
        let on_device = answer.at - pending.arrived;
        assert_eq!(
            stall + index + dram + flash,
            on_device,
            "the parts of a device access add up to the whole"
        );
        self.served[answer.served as usize] += 1;
        self.count_cold(pending, answer);
        self.device_reads_remote += u64::from(hop.is_remote);
        self.inter_socket += hop.both();
        self.credit_wait += pending.sent - pending.issued - hop.there;
        self.link += (pending.arrived - pending.sent) + (now - answer.at) - hop.back;
        self.device.stall += stall;
        self.device.index += index;
        self.device.dram += dram;
        self.device.flash += flash;
        let latency = now - pending.issued;
        self.paper_total += latency;
        self.record_from_first_issue(pending.issued, line, now)
    }

    /// An access was answered by SkyByte-Delay: its latency counts from here once the line comes.
    /// If the page is fetched for it and is touched for the first time, that is a cold miss: the
    /// access that comes back for the line finds the page.
    pub fn delayed(&mut self, line: HostLine, pending: &Pending, answer: &Response) {
        self.delayed += 1;
        self.delayed_fetches += u64::from(answer.served == Served::Flash);
        self.count_cold(pending, answer);
        self.remember_first_issue(line, pending.issued);
    }

    /// An access was answered by SkyByte-Delay and the line came with the answer: counted over all
    /// accesses, and not by the paper's AMAT.
    pub fn delivered(&mut self, now: Time, line: HostLine, pending: &Pending, answer: &Response) {
        self.delayed += 1;
        self.delayed_fetches += u64::from(answer.served == Served::Flash);
        self.count_cold(pending, answer);
        self.record_from_first_issue(pending.issued, line, now);
    }

    /// A load has missed the page cache in host DRAM, and its thread switches: as `delayed`, but
    /// told by the host instead of the device.
    pub(crate) fn page_delayed(&mut self, line: HostLine, issued: Time) {
        self.delayed += 1;
        self.remember_first_issue(line, issued);
    }

    /// A whole page has come to the page cache, for whomever it was fetched.
    pub(crate) fn page_filled(&mut self, pending: &Pending, answer: &Response) {
        self.pages_unawaited += u64::from(answer.served == Served::Flash);
        self.count_cold(pending, answer);
    }

    /// A read that waited for a whole page has its line. The read that the page was fetched for,
    /// the `is_first` that waited, has the parts of the fetch; of any other all is flash, as for
    /// one that merges on the device. `done`: when the line is at the node that reads, which is not
    /// before it has asked.
    pub(crate) fn page_read(
        &mut self,
        (done, is_first): (Time, bool),
        missed: &Missed,
        hop: Hop,
        pending: &Pending,
        answer: &Response,
    ) {
        let latency = done - missed.issued;
        self.device_reads_remote += u64::from(hop.is_remote);
        self.inter_socket += hop.both();
        if is_first && missed.issued + hop.there <= pending.issued {
            let Breakdown {
                stall,
                index,
                dram,
                flash,
            } = answer.breakdown;
            self.served[answer.served as usize] += 1;
            // It was awaited after all.
            self.pages_unawaited -= u64::from(answer.served == Served::Flash);
            self.credit_wait += pending.sent - missed.issued - hop.there;
            self.link += (pending.arrived - pending.sent) + (done - answer.at) - hop.back;
            self.device.stall += stall;
            self.device.index += index;
            self.device.dram += dram;
            self.device.flash += flash;
        } else {
            self.served[Served::MergedMiss as usize] += 1;
            self.device.flash += latency - hop.both();
        }
        self.paper_total += latency;
        self.record_from_first_issue(missed.issued, missed.line, done);
    }

    fn count_cold(&mut self, pending: &Pending, answer: &Response) {
        self.cold_misses += u64::from(pending.is_first_touch && answer.served == Served::Flash);
    }

    /// Accesses for which a page was fetched from flash.
    pub(crate) fn flash_fetches(&self) -> u64 {
        self.served_by(Served::Flash) + self.delayed_fetches + self.pages_unawaited
    }

    pub(crate) fn remember_first_issue(&mut self, line: HostLine, issued: Time) {
        self.first_issues.entry(line.get()).or_insert(issued);
    }

    /// Lines that cores wrote back, wherever they ended.
    pub fn written_back(&self) -> u64 {
        self.persisted_on_device + self.persisted_in_host + self.persisted_clean
    }

    /// Reads that AMAT counts.
    pub fn counted(&self) -> u64 {
        self.host_reads + self.served.iter().sum::<u64>()
    }

    /// Device reads served that way.
    pub fn served_by(&self, served: Served) -> u64 {
        self.served[served as usize]
    }

    /// Starts afresh; lines under way keep their first issue.
    pub fn reset(&mut self) {
        let first_issues = std::mem::take(&mut self.first_issues);
        *self = Self {
            first_issues,
            ..Self::default()
        };
    }

    /// Checks that the components add up to the whole (B6).
    pub fn audit(&self) {
        let Breakdown {
            stall,
            index,
            dram,
            flash,
        } = self.device;
        let host = self.host_dram + self.link + self.credit_wait + self.inter_socket;
        let parts = host + stall + index + dram + flash;
        assert_eq!(parts, self.paper_total, "AMAT's components add up");
    }
}
