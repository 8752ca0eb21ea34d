//! Threads that come to cores and leave them: exceptions, time slices, system calls, ends.

use super::persist::LeftBehind;
use super::{CoreState, Simulation};
use crate::event::Event;
use crate::recorder::{Leave, TurnRecord};
use crate::retry::Step;
use host::os::Action;
use host::{CoreModel, MissKind, SimulatedThread};
use units::{CoreId, Lpa, PageSize, ThreadId, Time};

/// A thread that has come to a core in vain this often, each time after its page had come and gone
/// again, waits for its data. SkyByte promises no progress: with more threads than the data cache
/// has room for, pages can drive each other out for ever before anybody has read them.
const PATIENCE: u32 = 16;

/// A thread that has left its core.
pub(super) struct Left {
    pub thread: ThreadId,
    /// Whether it has retired anything since it last left one.
    pub has_progressed: bool,
    /// When its last instruction retires.
    at: Time,
}

impl<S: SimulatedThread> Simulation<S> {
    /// The thread's access has missed the page cache in host DRAM, or was answered by SkyByte-Delay
    /// (`os.wake = on_data`): it waits for its page, unless that has come since.
    pub(super) fn sleep_for_page(&mut self, now: Time, thread: ThreadId) {
        let step = self.host_threads[thread.index()].source.peek();
        let stores_switch = self.delay.stores_switch;
        let accesses = step.map_or([None, None], |step| {
            [step.load, step.store.filter(|_| stores_switch)]
        });
        let pages = accesses.into_iter().flatten().flat_map(|access| {
            let last = access.last();
            [access.byte, last].map(|byte| Lpa::new(byte / PageSize::KIB_4.bytes().get()))
        });
        let fabric = &self.fabric;
        let mut coming =
            pages.filter(|lpa| fabric.is_page_coming(*lpa) || fabric.will_tell_of(*lpa));
        match coming.next() {
            Some(lpa) => self.sleepers.push((lpa, thread)),
            None => self.scheduler.ready(thread, now),
        }
    }

    /// A page has come to the page cache: threads that wait for it become runnable.
    pub(super) fn wake_for_page(&mut self, now: Time, lpa: Lpa) {
        let mut at = 0;
        while at < self.sleepers.len() {
            let (page, thread) = self.sleepers[at];
            if page != lpa {
                at += 1;
                continue;
            }
            self.sleepers.remove(at);
            self.wake(now, thread);
        }
    }

    /// A thread that sleeps becomes runnable and takes a free core.
    pub(super) fn wake(&mut self, now: Time, thread: ThreadId) {
        self.scheduler.ready(thread, now);
        if let Some(core) = self.scheduler.free_core_for(thread) {
            self.dispatch(now, core);
        }
    }

    /// As what a core's miss counts at L3. For a thread that has run out of patience a load, and a
    /// store where stores switch too, is like a page walk: its answer must be data (D13), and it
    /// owns nothing.
    pub(super) fn kind_at_l3(&self, core: CoreId, kind: MissKind) -> MissKind {
        if self.is_patient(self.host_cores[core.index()].thread) {
            return kind;
        }
        match kind {
            MissKind::Load => MissKind::Walk,
            MissKind::Ownership if self.delay.stores_switch => MissKind::Walk,
            _ => kind,
        }
    }

    /// Whether a thread may come to a core in vain once more.
    pub(super) fn is_patient(&self, thread: ThreadId) -> bool {
        self.host_threads[thread.index()].vain_turns < PATIENCE
    }

    /// The time slice is over. The core has run ahead: it leaves off once everything it has
    /// completed has retired.
    pub(super) fn preempt(&mut self, now: Time, core: CoreId) {
        self.record_turn(now, core, Leave::Slice);
        let left = self.leave_core(now, core);
        self.host_cores[core.index()].state = CoreState::Stopping;
        self.fabric
            .queue
            .push(left.at.max(now), Event::SliceEnd(core));
    }

    pub(super) fn slice_end(&mut self, now: Time, core: CoreId) {
        let host_core = &mut self.host_cores[core.index()];
        host_core.state = CoreState::Idle;
        self.switches.slice += 1;
        self.scheduler.preempt(host_core.thread, now);
        self.dispatch(now, core);
    }

    /// Notes a thread's turn on a core, if anybody records.
    pub(crate) fn record_turn(&mut self, now: Time, core: CoreId, leave: Leave) {
        let Some(recorder) = &mut self.fabric.recorder else {
            return;
        };
        let host_core = &self.host_cores[core.index()];
        recorder.turn(TurnRecord {
            core,
            thread: host_core.thread,
            from: host_core.since,
            to: now,
            leave,
        });
    }

    /// Squashes the window and takes the thread off the core (D12).
    pub(super) fn leave_core(&mut self, now: Time, core: CoreId) -> Left {
        let host_core = &mut self.host_cores[core.index()];
        let host_thread = &mut self.host_threads[host_core.thread.index()];
        let squashed = host_core
            .core
            .squash(now, &mut host_thread.source, &mut self.fabric);
        Left {
            thread: host_core.thread,
            has_progressed: self.note_leaving(core),
            at: squashed.at,
        }
    }

    /// The thread of a core has gone back to where it will go on; says whether it has retired
    /// anything, or will, since it last left one.
    pub(super) fn note_leaving(&mut self, core: CoreId) -> bool {
        let host_core = &mut self.host_cores[core.index()];
        let host_thread = &mut self.host_threads[host_core.thread.index()];
        host_core.epoch = host_core.epoch.wrapping_add(1);
        host_core.state = CoreState::Idle;
        let position = host_thread.source.position();
        let has_progressed = position != host_thread.retired;
        host_thread.retired = position;
        host_thread.has_retried = false;
        let writes_back = host_thread.source.program().writes_back();
        host_thread.left_behind = writes_back.then(|| LeftBehind::on(&host_core.core));
        host_thread.vain_turns = match has_progressed {
            true => 0,
            false => host_thread.vain_turns + 1,
        };
        has_progressed
    }

    /// The system call at which a core stands is executed.
    pub(super) fn sync_event(&mut self, now: Time, core: CoreId) {
        let host_core = &mut self.host_cores[core.index()];
        let event = host_core
            .pending_sync
            .take()
            .expect("a core that stops for a sync event has one");
        let thread = host_core.thread;
        let action = self.sync.on_event(thread, event, &mut self.resumed);
        let host_core = &mut self.host_cores[core.index()];
        let source = &mut self.host_threads[thread.index()].source;
        match action {
            Action::Continue { cost } => {
                self.switches.syscalls += 1;
                let back = now + host_core.interrupted.rest(now) + cost;
                host_core.core.complete_sync(back, source);
                host_core.state = CoreState::Running;
                host_core.epoch = host_core.epoch.wrapping_add(1);
                self.fabric.queue.push(
                    back,
                    Event::CoreRun {
                        core,
                        epoch: host_core.epoch,
                    },
                );
            }
            Action::Block => {
                self.switches.blocked += 1;
                host_core.core.complete_sync(now, source);
                self.record_turn(now, core, Leave::Blocked);
                self.leave_core(now, core);
                self.scheduler.block(thread, now);
                self.dispatch(now, core);
            }
            Action::End => {
                host_core.core.complete_sync(now, source);
                self.end_thread(now, core);
            }
        }
        self.wake_resumed(now);
    }

    pub(super) fn thread_end(&mut self, now: Time, core: CoreId) {
        self.end_thread(now, core);
        self.wake_resumed(now);
    }

    fn end_thread(&mut self, now: Time, core: CoreId) {
        self.record_turn(now, core, Leave::End);
        let Left { thread, .. } = self.leave_core(now, core);
        self.host_threads[thread.index()].finished = Some(now);
        self.sync.on_end(thread, &mut self.resumed);
        self.scheduler.finish(thread, now);
        self.dispatch(now, core);
    }

    /// Threads that can go on become runnable and take free cores.
    pub(super) fn wake_resumed(&mut self, now: Time) {
        let mut resumed = std::mem::take(&mut self.resumed);
        for thread in resumed.drain(..) {
            self.scheduler.ready(thread, now);
            if let Some(core) = self.scheduler.free_core_for(thread) {
                self.dispatch(now, core);
            }
        }
        self.resumed = resumed;
    }

    /// Puts the next thread on a free core, if there is one.
    pub(crate) fn dispatch(&mut self, now: Time, core: CoreId) {
        let Some(dispatch) = self.scheduler.pick(core, now) else {
            return;
        };
        // An interrupt that the core still serves comes before the switch.
        let rest = self.host_cores[core.index()].interrupted.rest(now);
        self.lengthen_switch(core, rest);
        let switched = dispatch.starts + rest;
        let host_core = &mut self.host_cores[core.index()];
        host_core.thread = dispatch.thread;
        host_core.state = CoreState::Switching;
        host_core.switched = switched;
        host_core.starts = switched;
        if self.host_threads[dispatch.thread.index()].has_retried {
            self.lanes.set(core, switched, Step::Start);
        } else {
            let data_at = self.host_threads[dispatch.thread.index()].data_at;
            let starts = switched.max(data_at);
            host_core.starts = starts;
            self.fabric.queue.push(starts, Event::CoreStart(core));
        }
    }

    pub(crate) fn core_start(&mut self, now: Time, core: CoreId) {
        let waits = self.awaits_left_behind(core);
        self.moves_wait |= waits;
        let host_core = &mut self.host_cores[core.index()];
        let is_coming = matches!(host_core.state, CoreState::Switching | CoreState::Draining);
        if !is_coming || now < host_core.starts {
            // It has been put off, or brought forward, since this start was scheduled.
            return;
        }
        if waits || !host_core.core.is_empty() {
            host_core.state = CoreState::Draining;
            return;
        }
        host_core.state = CoreState::Running;
        host_core.since = now;
        let host_thread = &mut self.host_threads[host_core.thread.index()];
        let replay = std::mem::take(&mut host_thread.replay);
        if replay > 0 {
            host_core.core.replay(replay, &mut host_thread.source);
        }
        host_core.core.start(now, &mut host_thread.source);
        self.run_core(now, core);
    }
}
