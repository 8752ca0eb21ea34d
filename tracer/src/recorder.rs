//! The recorder: what the callbacks share, and the order in which a capture comes to its end.
//!
//! Locks are taken in the order slot → tables, region, futexes or output, and never two slots or
//! two of the latter at a time.

use crate::api;
use crate::options::Options;
use crate::output::{Output, describe};
use crate::signals;
use crate::slot::{self, Running, Slot};
use crate::stream::{Chunk, Stream, Window};
use crate::sync::{Call, Futexes};
use crate::tables::Tables;
use crate::word;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;
use trace::Provenance;
use trace::chunk::StreamId;
use trace::container::VirtualPage;

static RECORDER: OnceLock<Recorder> = OnceLock::new();
/// This process is a fork of the recorded one: nothing is recorded and no lock is taken.
static DETACHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The virtual processor whose `clone` this host thread is carrying out.
    static CLONING: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Whether this process is a fork of the recorded one.
#[inline]
pub fn is_detached() -> bool {
    DETACHED.load(Ordering::Relaxed)
}

/// Stops recording in this process, which is a fork.
pub fn detach() {
    DETACHED.store(true, Ordering::Relaxed);
}

/// The recorder of this process, once installed.
pub fn get() -> &'static Recorder {
    RECORDER.get().expect("callbacks come after installation")
}

/// Installs the recorder; only once.
pub fn install(options: Options, output: Output, provenance: Provenance) {
    let installed = RECORDER.set(Recorder {
        windowed: options.roi || options.skip > 0 || options.limit.is_some(),
        region: Mutex::new(Region {
            inside: !options.roi,
            counted: 0,
        }),
        options,
        provenance,
        tables: Mutex::default(),
        futexes: Mutex::default(),
        output: Mutex::new(output),
        ended: Mutex::default(),
        streams: AtomicU32::new(0),
        failed: AtomicBool::new(false),
        completed: Mutex::default(),
    });
    assert!(installed.is_ok(), "a plugin is installed once");
}

/// Makes room in the calling thread's own buffer.
pub fn make_room(slot: &Slot, starts_block: bool) {
    get().make_room(slot, starts_block);
}

/// Where the process stands in its region of interest.
struct Region {
    inside: bool,
    /// Instructions run inside.
    counted: u64,
}

impl Region {
    /// Accounts for `instructions` more: which of them are recorded, and whether that is all.
    fn take(&mut self, instructions: u64, options: &Options) -> (Window, bool) {
        if !self.inside {
            return (Window::NONE, false);
        }
        let skip = options.skip.saturating_sub(self.counted).min(instructions);
        let end = options
            .limit
            .map_or(u64::MAX, |limit| options.skip.saturating_add(limit));
        let record = end
            .saturating_sub(self.counted.max(options.skip))
            .min(instructions - skip);
        self.counted += instructions;
        (Window { skip, record }, self.counted >= end)
    }
}

/// What remains of threads that ended.
#[derive(Default)]
struct Ended {
    wakes: BTreeMap<StreamId, Vec<u32>>,
    parents: BTreeMap<StreamId, StreamId>,
    pages: BTreeSet<u64>,
}

impl Ended {
    fn add(&mut self, stream: &Stream) {
        self.pages.extend(&stream.pages);
        self.parents
            .extend(stream.created.iter().map(|child| (*child, stream.id())));
        if stream.has_chunks {
            self.wakes.insert(stream.id(), stream.wakes.clone());
        }
    }
}

/// The state of a recording.
pub struct Recorder {
    options: Options,
    provenance: Provenance,
    windowed: bool,
    /// Translated blocks and the dictionary.
    pub tables: Mutex<Tables>,
    region: Mutex<Region>,
    futexes: Mutex<Futexes>,
    output: Mutex<Output>,
    ended: Mutex<Ended>,
    streams: AtomicU32,
    failed: AtomicBool,
    /// Whether the capture is complete and sealed.
    completed: Mutex<bool>,
}

impl Recorder {
    /// Whether the program marks its region of interest.
    pub fn has_markers(&self) -> bool {
        self.options.roi
    }
    /// A virtual processor begins a thread; called on the host thread of whoever created it.
    pub fn begin(&self, vcpu: u32) {
        let id = StreamId(self.streams.fetch_add(1, Ordering::Relaxed));
        if let Some(mut before) = slot::of(vcpu).begin(Stream::new(id)) {
            // Its end was not announced.
            before.stream.finish_chunk(&mut |chunk| self.append(&chunk));
            self.ended
                .lock()
                .expect("no thread panicked")
                .add(&before.stream);
        }
        let Some(parent) = CLONING.get() else { return };
        let mut parent = slot::of(parent).lock();
        if let Some((Call::Create { ctid, child }, _)) =
            parent.as_mut().and_then(|parent| parent.call.as_mut())
        {
            *child = Some(id);
            if let Some(ctid) = *ctid {
                self.futexes
                    .lock()
                    .expect("no thread panicked")
                    .ends_at(ctid, id);
            }
        }
    }
    /// A virtual processor's thread ended.
    pub fn end(&self, vcpu: u32) {
        let slot = slot::of(vcpu);
        let mut locked = slot.lock();
        if let Some(mut running) = locked.take() {
            self.drain(slot, &mut running, true);
            running
                .stream
                .finish_chunk(&mut |chunk| self.append(&chunk));
            self.ended
                .lock()
                .expect("no thread panicked")
                .add(&running.stream);
            slot.restart();
        }
    }
    /// A system call begins on `vcpu`.
    pub fn enter_call(&self, vcpu: u32, number: i64, args: [u64; 4]) {
        let slot = slot::of(vcpu);
        let mut locked = slot.lock();
        let Some(running) = locked.as_mut() else {
            return;
        };
        let mut futexes = self.futexes.lock().expect("no thread panicked");
        let (call, event) = futexes.enter(running.stream.id(), number, args);
        drop(futexes);
        if let Some(event) = event {
            note(slot, running, event);
        }
        running.call = Some((call, now()));
        drop(locked);
        match call {
            Call::Create { .. } => CLONING.set(Some(vcpu)),
            Call::Exec(path) if api::is_executable(path) => {
                api::say(
                    "tracer: the program replaces itself by exec and is recorded up to here; \
                     capture the program it becomes directly\n",
                );
                self.complete(Some(slot), false);
            }
            _ => {}
        }
    }
    /// The system call on `vcpu` returns.
    pub fn leave_call(&self, vcpu: u32, number: i64, result: i64) {
        CLONING.set(None);
        let slot = slot::of(vcpu);
        let mut locked = slot.lock();
        let Some(running) = locked.as_mut() else {
            return;
        };
        let Some((call, start)) = running.call.take() else {
            return;
        };
        let nanoseconds = now().duration_since(start).as_nanos() as u64;
        let log2 = nanoseconds.max(1).ilog2() as u8;
        let mut futexes = self.futexes.lock().expect("no thread panicked");
        let event = futexes.leave(call, number, result, log2);
        drop(futexes);
        if let Some(event) = event {
            note(slot, running, event);
        }
        drop(locked);
        if let Call::Action(signal, action) = call
            && result == 0
            && signals::ends(signal)
            && api::handler_of(action) == signals::DEFAULT
        {
            signals::restored(signal);
        }
    }
    /// A marker was executed: the region of interest begins or ends. Returns how many threads
    /// there are that have not begun to end.
    pub fn mark(&self, inside: bool) -> usize {
        let mut threads = 0;
        for slot in slot::used() {
            if let Some(running) = slot.lock().as_mut() {
                self.drain(slot, running, false);
                threads += usize::from(!matches!(running.call, Some((Call::Exit, _))));
            }
        }
        self.region.lock().expect("no thread panicked").inside = inside;
        threads
    }
    /// The program ends. Whoever comes second waits until the capture is complete.
    pub fn exit(&self) {
        let mut ended = self.completed.lock().expect("no thread panicked");
        if !*ended {
            self.complete(None, true);
            *ended = true;
        }
    }

    fn make_room(&self, slot: &Slot, starts_block: bool) {
        let mut locked = slot.lock();
        let Some(running) = locked.as_mut() else {
            drop(locked);
            let id = StreamId(self.streams.fetch_add(1, Ordering::Relaxed));
            slot.begin(Stream::new(id));
            return;
        };
        let mut reached = self.drain(slot, running, starts_block);
        slot.compact(running);
        if slot.is_full() {
            // One block has more accesses than the buffer has words.
            reached |= self.drain(slot, running, true);
            slot.compact(running);
        }
        drop(locked);
        if reached {
            self.stop();
        }
    }

    /// Encodes what is complete in the slot; whether the limit is reached.
    fn drain(&self, slot: &Slot, running: &mut Running, complete: bool) -> bool {
        let consumed = running.consumed;
        let words = &slot.words(running)[consumed..];
        let (window, reached) = self.window(words, complete);
        let emit = |chunk| self.append(&chunk);
        running.consumed += running
            .stream
            .encode(words, complete, window, &self.tables, emit);
        reached
    }

    fn window(&self, words: &[u64], complete: bool) -> (Window, bool) {
        if !self.windowed {
            return (Window::ALL, false);
        }
        let mut blocks = words.iter().filter(|word| word::is_block(**word));
        let mut instructions: u64 = blocks.clone().map(|word| word::instructions(*word)).sum();
        if !complete {
            // The last block stays in the buffer and is counted with the next words.
            instructions -= blocks
                .next_back()
                .map_or(0, |word| word::instructions(*word));
        }
        self.region
            .lock()
            .expect("no thread panicked")
            .take(instructions, &self.options)
    }

    fn append(&self, chunk: &Chunk) {
        let mut output = self.output.lock().expect("no thread panicked");
        if let Err(fault) = output.append(chunk) {
            self.complain(
                &fault
                    .of(&self.options.out.display().to_string())
                    .to_string(),
            );
        }
    }

    fn complain(&self, sentence: &str) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            api::say(&format!("tracer: {sentence}\n"));
        }
    }

    /// The limit is reached: completes the capture and ends the program.
    fn stop(&self) {
        self.exit();
        api::exit_process(i32::from(self.failed.load(Ordering::Relaxed)));
    }

    /// Encodes what all threads have and writes the footer. `own` is the slot of the calling
    /// thread if it is in a system call; all blocks are complete when the process has stopped.
    fn complete(&self, own: Option<&Slot>, seal: bool) {
        let mut all = Ended::default();
        for slot in slot::used() {
            if let Some(running) = slot.lock().as_mut() {
                let complete = own.is_some_and(|own| std::ptr::eq(own, slot));
                self.drain(slot, running, complete);
                running
                    .stream
                    .finish_chunk(&mut |chunk| self.append(&chunk));
                all.add(&running.stream);
            }
        }
        let ended = self.ended.lock().expect("no thread panicked");
        all.pages.extend(&ended.pages);
        all.parents.extend(&ended.parents);
        all.wakes
            .extend(ended.wakes.iter().map(|(id, wakes)| (*id, wakes.clone())));
        drop(ended);
        self.write_footer(&all, seal);
    }

    fn write_footer(&self, all: &Ended, seal: bool) {
        let pages: Vec<_> = all
            .pages
            .iter()
            .map(|page| VirtualPage {
                space: 0,
                page: *page,
            })
            .collect();
        let parent = |id: &StreamId| all.parents.get(id).copied();
        let streams: Vec<_> = all
            .wakes
            .iter()
            .map(|(id, wakes)| describe(*id, parent(id), wakes))
            .collect();
        if streams.is_empty() {
            api::say("tracer: no instruction was recorded: the region was never entered\n");
        }
        let dictionary = self
            .tables
            .lock()
            .expect("no thread panicked")
            .dictionary()
            .clone();
        let mut output = self.output.lock().expect("no thread panicked");
        let done = output.complete(&dictionary, &pages, &streams, &self.provenance, seal);
        if let Err(fault) = done {
            self.complain(
                &fault
                    .of(&self.options.out.display().to_string())
                    .to_string(),
            );
        }
    }
}

/// Notes an event at the present end of the thread's words.
fn note(slot: &Slot, running: &mut Running, event: trace::chunk::RawSync) {
    let before = slot.words(running).len() - running.consumed;
    running.stream.note(before, event);
}

/// Real time, for the duration class of system calls only.
#[allow(
    clippy::disallowed_methods,
    reason = "a capture records how long a call really took"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(skip: u64, limit: Option<u64>) -> Options {
        let (out, emulator) = ("x".into(), String::new());
        Options {
            out,
            roi: false,
            quiet: false,
            skip,
            limit,
            emulator,
        }
    }

    #[test]
    fn skip_and_limit_cut_the_process_not_the_thread() {
        let options = options(100, Some(50));
        let mut region = Region {
            inside: true,
            counted: 0,
        };
        assert_eq!(
            region.take(80, &options),
            (
                Window {
                    skip: 80,
                    record: 0
                },
                false
            )
        );
        assert_eq!(
            region.take(40, &options),
            (
                Window {
                    skip: 20,
                    record: 20
                },
                false
            )
        );
        assert_eq!(
            region.take(40, &options),
            (
                Window {
                    skip: 0,
                    record: 30
                },
                true
            )
        );
        assert_eq!(
            region.take(40, &options),
            (Window { skip: 0, record: 0 }, true)
        );
    }

    #[test]
    fn outside_the_region_nothing_is_counted() {
        let options = options(0, Some(50));
        let mut region = Region {
            inside: false,
            counted: 0,
        };
        assert_eq!(region.take(80, &options), (Window::NONE, false));
        region.inside = true;
        assert_eq!(
            region.take(80, &options),
            (
                Window {
                    skip: 0,
                    record: 50
                },
                true
            )
        );
    }
}
