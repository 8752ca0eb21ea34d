//! A small drive whose power goes, and file systems on it.

use super::small;
use crate::common::of;
use bytefs::{Caller, FormatOptions, Ino, MountOptions, Personality, Timestamp, WriteOptions};
use dax::{Ratio, Settings};
use device::{DeviceEngine, Pace};
use port::{
    AnyDevice, Command, Conflict, Device, DeviceError, DeviceStats, Opening, Outcome, Payload,
    Shape,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use units::{ByteAddr, Picos, TxId};
use vtime::Machine;

const LINE: usize = 64;
type Line = [u8; LINE];

/// Stores to the window that a power cut may take back: those that no persist has answered for.
#[derive(Default)]
pub(super) struct Posted {
    next: u64,
    stores: Vec<Store>,
    durable: BTreeMap<u64, Line>,
}

struct Store {
    number: u64,
    at: u64,
    bytes: Line,
    is_answered: bool,
}

impl Posted {
    fn store(&mut self, at: u64, bytes: &[u8]) -> u64 {
        self.next += 1;
        let number = self.next;
        let lines = (at..).step_by(LINE).zip(bytes.chunks_exact(LINE));
        self.stores.extend(lines.map(|(at, bytes)| Store {
            number,
            at,
            bytes: bytes.try_into().expect("a line"),
            is_answered: false,
        }));
        number
    }

    fn answer(&mut self, number: u64) {
        let stores = self.stores.iter_mut();
        let stores = stores.filter(|store| store.number == number);
        stores.for_each(|store| store.is_answered = true);
    }

    /// What a persist that is asked for now makes durable.
    fn answered(&self) -> Vec<u64> {
        let answered = self.stores.iter().filter(|store| store.is_answered);
        answered.map(|store| store.number).collect()
    }

    fn persist(&mut self, numbers: &[u64]) {
        let is_durable = |store: &mut Store| numbers.contains(&store.number);
        for store in self.stores.extract_if(.., is_durable) {
            self.durable.insert(store.at, store.bytes);
        }
    }

    /// Lines of the window behind a power cut, where that may have taken something.
    fn left(&self, mut is_kept: impl FnMut() -> bool) -> Vec<(u64, Line)> {
        let mut lines = BTreeMap::new();
        for store in &self.stores {
            let before = self.durable.get(&store.at).copied().unwrap_or([0; LINE]);
            let line = lines.entry(store.at).or_insert(before);
            if is_kept() {
                *line = store.bytes;
            }
        }
        lines.into_iter().collect()
    }
}

/// A device that does so many requests, and of the next ones nothing: as if the power had gone.
#[derive(Clone)]
pub(super) struct Drive {
    inner: AnyDevice,
    clock: Clock,
    pub(super) left: Rc<Cell<u64>>,
    posted: Rc<RefCell<Posted>>,
    /// How long the device lets a persist of the window wait.
    pub(super) hesitates: Rc<Cell<Picos>>,
    /// How long it lets a write of blocks wait before it takes it.
    pub(super) is_slow: Rc<Cell<Picos>>,
    /// What fails from now on.
    pub(super) fails: Rc<Cell<Option<Fault>>>,
}

/// Requests that a device refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Stores to the window.
    Window,
    /// Writes of blocks.
    Blocks,
}

/// What is to be known of a request.
enum Asked {
    Store(u64),
    Persist(Vec<u64>),
    Other,
}

type Delay = Pin<Box<dyn Future<Output = ()>>>;

pub(super) struct Pending<'a> {
    inner: <AnyDevice as Device>::Pending<'a>,
    drive: &'a Drive,
    command: Command,
    /// Lines of the window.
    store: Option<(u64, Vec<u8>)>,
    delay: Option<Delay>,
    asked: Option<Asked>,
}

impl Pending<'_> {
    fn ask(&mut self) -> Option<Asked> {
        let left = self.drive.left.get().checked_sub(1)?;
        self.drive.left.set(left);
        let mut posted = self.drive.posted.borrow_mut();
        Some(match (&self.store, self.command) {
            (Some((at, bytes)), _) => Asked::Store(posted.store(*at, bytes)),
            (None, Command::PersistPmem) => Asked::Persist(posted.answered()),
            _ => Asked::Other,
        })
    }
}

impl Future for Pending<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        if self.asked.is_none() {
            let Some(asked) = self.ask() else {
                return Poll::Pending;
            };
            let span = match self.command {
                Command::PersistPmem => self.drive.hesitates.get(),
                Command::WriteBlocks(_) => self.drive.is_slow.get(),
                _ => Picos::ZERO,
            };
            if span != Picos::ZERO {
                let clock = self.drive.clock.clone();
                let until = port::Clock::now(&clock) + span;
                self.delay = Some(Box::pin(async move {
                    port::Clock::sleep_until(&clock, until).await;
                }));
            }
            self.asked = Some(asked);
        }
        let fails = match self.drive.fails.get() {
            Some(Fault::Window) => self.store.is_some(),
            Some(Fault::Blocks) => matches!(self.command, Command::WriteBlocks(_)),
            None => false,
        };
        if fails {
            return Poll::Ready(Err(DeviceError::ReadOnly));
        }
        if let Some(delay) = &mut self.delay {
            match delay.as_mut().poll(context) {
                Poll::Ready(()) => self.delay = None,
                Poll::Pending => return Poll::Pending,
            }
        }
        let done = Pin::new(&mut self.inner).poll(context);
        if done.is_ready() {
            let mut posted = self.drive.posted.borrow_mut();
            match &self.asked {
                Some(Asked::Store(number)) => posted.answer(*number),
                Some(Asked::Persist(numbers)) => posted.persist(numbers),
                _ => {}
            }
        }
        done
    }
}

impl Drive {
    /// The same device, for a file system.
    pub(super) fn any(&self) -> AnyDevice {
        AnyDevice::new(self.clone())
    }
}

impl Device for Drive {
    type Pending<'a> = Pending<'a>;

    fn shape(&self) -> Shape {
        self.inner.shape()
    }
    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Pending<'a> {
        let is_store = command == Command::Write(TxId::NONE);
        let is_in_window = at.get() >= self.inner.shape().capacity.get();
        let store = is_store && is_in_window;
        Pending {
            store: store.then(|| (at.get(), payload.bytes_out().into_owned())),
            inner: self.inner.request(command, at, payload, conflict),
            drive: self,
            command,
            delay: None,
            asked: None,
        }
    }
    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.inner.open(may_split)
    }
    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        self.inner.poll_open(may_split, asked, context)
    }
    fn give_up_open(&self, asked: Opening) {
        self.inner.give_up_open(asked);
    }
    fn abandon(&self, tx: TxId) {
        self.inner.abandon(tx);
    }
    fn stats(&self) -> DeviceStats {
        self.inner.stats()
    }
}

pub(super) use crate::common::{AnyClock as Clock, Fs};

pub(super) const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
pub(super) const PLAIN: WriteOptions = WriteOptions {
    direct: false,
    sync: false,
    kill_privileges: false,
};
pub(super) const DIRECT: WriteOptions = WriteOptions {
    direct: true,
    ..PLAIN
};

/// A small drive: `consumer-tlc` for the Ext4-like, `bytefs` for ByteFS.
pub(super) fn engine(personality: Personality, pmem: &str) -> DeviceEngine {
    engine_with(personality, pmem, &[])
}

pub(super) fn engine_with(personality: Personality, pmem: &str, sets: &[&str]) -> DeviceEngine {
    let (preset, log) = match personality.needs_transactions() {
        true => ("bytefs", &["ssd.log.size=1MiB"][..]),
        false => ("consumer-tlc", &[][..]),
    };
    let config = small::config(preset, pmem, &[log, sets].concat());
    DeviceEngine::in_memory(&config, Pace::None).expect("memory for a small device")
}

/// A small drive without a window, of which the log alone survives a power cut.
pub(super) fn with_safe_log(personality: Personality) -> DeviceEngine {
    let sets = ["ssd.power_loss_protection=log", "ssd.flush_cost=1ms"];
    engine_with(personality, "0B", &sets)
}

/// A device that a power cut has left, and lines of its window as they are then.
pub(super) struct Left {
    engine: DeviceEngine,
    lines: Vec<(u64, Line)>,
}

impl From<DeviceEngine> for Left {
    fn from(engine: DeviceEngine) -> Self {
        let lines = Vec::new();
        Self { engine, lines }
    }
}

/// A device at the end of a run.
pub(super) struct Ran {
    machine: Machine<DeviceEngine>,
    posted: Rc<RefCell<Posted>>,
}

impl Ran {
    /// The power goes. Of stores to the window that are not persisted it leaves what it likes.
    pub(super) fn power_cycled(&self, is_kept: impl FnMut() -> bool) -> Left {
        Left {
            engine: self.machine.engine().power_cycled().expect("it recovers"),
            lines: self.posted.borrow().left(is_kept),
        }
    }
}

/// Runs something on a device that does so many requests; gives what it has ended with, unless it
/// was cut off.
pub(super) fn run_for<T: 'static>(
    requests: u64,
    device: impl Into<Left>,
    test: impl AsyncFnOnce(Drive, Clock) -> T + 'static,
) -> (Ran, Option<T>) {
    let Left { engine, lines } = device.into();
    let mut machine = Machine::new(engine, 2);
    let (inner, clock) = of(&machine);
    let device = Drive {
        inner,
        clock: clock.clone(),
        left: Rc::new(Cell::new(requests)),
        posted: Rc::default(),
        hesitates: Rc::new(Cell::new(Picos::ZERO)),
        is_slow: Rc::new(Cell::new(Picos::ZERO)),
        fails: Rc::default(),
    };
    let posted = Rc::clone(&device.posted);
    let result = Rc::new(RefCell::new(None));
    let place = Rc::clone(&result);
    machine.spawn("test", async move {
        for (at, line) in lines {
            let stored = device.inner.write(ByteAddr::new(at), &line, TxId::NONE);
            stored.await.expect("the window takes it");
        }
        let done = test(device, clock).await;
        place.replace(Some(done));
    });
    let ended = machine.run();
    let done = result.take();
    assert_eq!(ended.is_ok(), done.is_some(), "{ended:?}");
    (Ran { machine, posted }, done)
}

pub(super) fn run<T: 'static>(
    device: impl Into<Left>,
    test: impl AsyncFnOnce(Drive, Clock) -> T + 'static,
) -> (Ran, T) {
    let (ran, done) = run_for(u64::MAX, device, test);
    (ran, done.expect("it goes on"))
}

pub(super) async fn formatted(
    device: &Drive,
    clock: &Clock,
    options: MountOptions,
    of: Personality,
) -> Fs {
    let format = FormatOptions {
        inodes: Some(64),
        ..FormatOptions::new(of)
    };
    Fs::format(&device.any(), &format)
        .await
        .expect("there is room");
    let fs = Fs::mount(device.any(), clock.clone(), options).await;
    fs.expect("it is mounted")
}

pub(super) fn with(dax: Option<Settings>) -> MountOptions {
    MountOptions {
        dax,
        ..MountOptions::default()
    }
}

/// Ranges of four pages, upgraded by the second synced write.
pub(super) fn eager() -> Settings {
    Settings {
        order: 2,
        policy: Ratio {
            upgrade_above: 60,
            downgrade_below: 60,
            after_writes: 1,
        },
        retry: Picos::from_micros(100),
        ..Settings::default()
    }
}

/// A new file, which is open once.
pub(super) async fn create(fs: &Fs, name: &[u8]) -> Ino {
    let made = fs.create(&CALLER, Ino::ROOT, name, 0o600).await;
    made.expect("there is room").ino
}

pub(super) async fn append(fs: &Fs, ino: Ino, at: u64, bytes: &[u8]) {
    let written = fs.write(&CALLER, ino, at, bytes, PLAIN).await;
    assert_eq!(written, Ok(bytes.len()));
}

/// Writes a page and syncs the file, and says whether the window alone has answered.
pub(super) async fn put(fs: &Fs, ino: Ino, page: u64, byte: u8) -> bool {
    let light = || fs.dax_report().expect("it is on").pmem.light_syncs;
    let before = light();
    append(fs, ino, page * 4096, &[byte; 4096]).await;
    fs.fsync(ino, true).await.expect("a sync");
    light() > before
}

/// Runs one until it ends, and another one beside it for as long.
pub(super) async fn beside(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let mut is_over = false;
    poll_fn(|context| {
        is_over = is_over || other.as_mut().poll(context).is_ready();
        one.as_mut().poll(context)
    })
    .await;
}
