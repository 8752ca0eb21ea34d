//! A load from nothing to its result: a device, a file system on it, files, threads.
//!
//! The order of a run, of which only the last part is measured: the file system is made and
//! mounted; what is to exist is made by twelve threads; everything is synced; loads that say so
//! (`cold`) mount it anew; the device comes to rest; warm-up; the measured part; everything is
//! synced and the log drained, so that traffic can be told with what the run has left behind.

use super::aging::age;
use super::error::LoadError;
use super::files::FileSet;
use super::flow::Flow;
use super::hardware::{Scale, scaled};
use super::options::{FsOptions, Kept};
use super::result::{Conditions, LoadResult, Totals};
use super::spec::{Load, StoreSpec};
use super::stage::Stage;
use super::store::{Options, Store};
use super::vfs::caller;
use super::ycsb::{Ycsb, of_store};
use bytefs::{CpuCosts, FileSystem, FormatOptions, MountOptions, Personality};
use device::config::Layer;
use device::{DeviceEngine, Pace};
use port::{Clock, Device};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Bytes, Picos};
use vtime::{Machine, VirtualClock, VirtualDevice};

pub(super) type Files = FileSystem<VirtualDevice<DeviceEngine>, VirtualClock<DeviceEngine>>;

/// Threads that make what is to exist before the run.
const MAKERS: usize = 12;
/// What the kernel does by default every 5 s: writes back what is older than 30 s (§5.1's Linux:
/// `dirty_writeback_centisecs`, `dirty_expire_centisecs`), and commits metadata (Ext4). Divided by
/// the scale, as runs are as much shorter.
const PERIOD: Picos = Picos::from_micros(5_000_000);
const AGE: Picos = Picos::from_micros(30_000_000);

/// What a load is run on.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How the file system makes changes durable.
    pub personality: Personality,
    /// The device's preset; None: `bytefs`, or `bytefs-cache` for personalities that need no log.
    pub preset: Option<String>,
    /// Parameters of the device over its preset, before the scale divides them.
    pub layers: Vec<Layer>,
    /// By how much everything is smaller than the paper's.
    pub scale: Scale,
    /// Of all random streams.
    pub seed: u64,
    /// Processors of the host.
    pub cores: u32,
    /// Threads that are counted, in all; None: as many as the load says.
    pub threads: Option<u32>,
    /// Pages of files that the host caches, before the scale divides them.
    pub cache: Bytes,
    /// What the file system's code costs.
    pub costs: CpuCosts,
    /// What the file system does otherwise than the paper says.
    pub fs: FsOptions,
}

impl Setup {
    /// As the paper's: 28 cores (§5.1), a page cache of 8 GB (§4.6). Costs of code are ours, in
    /// the range of a kernel's system calls on such a processor, but for the comparison of a page,
    /// 936 cycles of 2.7 GHz (§4.6); a request of the block port, 379 ns of block layer and 113 ns
    /// of driver (Zhong et al., *XRP*, OSDI 2022, Table 1); and a change of threads, 2 us (SkyByte,
    /// Table II).
    pub fn new(personality: Personality, scale: Scale) -> Self {
        Self {
            personality,
            preset: None,
            layers: Vec::new(),
            scale,
            seed: 1,
            cores: 28,
            threads: None,
            cache: Bytes::from_mib(8 << 10),
            fs: FsOptions::default(),
            costs: CpuCosts {
                operation: Picos::from_nanos(1_000),
                change: Picos::from_nanos(2_000),
                page: Picos::from_nanos(400),
                compare: Picos::from_nanos(347),
                commit: Picos::from_nanos(2_000),
                request: Picos::from_nanos(492),
                switch: Picos::from_nanos(2_000),
            },
        }
    }

    /// Refuses what no machine has.
    pub(super) fn check(&self) -> Result<(), LoadError> {
        match (1..=1024).contains(&self.cores) {
            true => Ok(()),
            false => Err(LoadError::Setting(format!(
                "--cores is {}; it must be 1 to 1024",
                self.cores
            ))),
        }
    }

    /// The preset of the device.
    pub(super) fn preset(&self) -> &str {
        match &self.preset {
            Some(name) => name,
            None if self.personality.needs_transactions() => "bytefs",
            None => "bytefs-cache",
        }
    }
}

/// Runs a load. The same load on the same setup gives the same result, byte for byte.
///
/// # Errors
/// The device or the file system cannot be made; the file system refuses an operation, or gives
/// back what was not written; a setting cannot be.
pub fn run(name: &str, load: &Load, setup: &Setup) -> Result<LoadResult, LoadError> {
    setup.check()?;
    let mut load = load.clone();
    set_threads(&mut load, setup.threads)?;
    let config = scaled(setup.preset(), setup.scale, &setup.layers)?;
    let texts = config.texts();
    let engine = DeviceEngine::packed(&config, Pace::None)?;
    let bench = Bench {
        machine: Machine::new(engine, setup.cores as usize),
        setup: setup.clone(),
        kept: Kept::default(),
        made: None,
    };
    let conditions = Conditions::new(name, &load, setup, setup.preset(), &texts);
    match load.store.clone() {
        Some(store) => bench.store(&load, &store, conditions),
        None => bench.flow(&load, conditions),
    }
}

/// Threads that are counted become so many.
fn set_threads(load: &mut Load, threads: Option<u32>) -> Result<(), LoadError> {
    let Some(threads) = threads else {
        return Ok(());
    };
    let wrong = |problem: String| {
        Err(LoadError::Setting(format!(
            "--threads is {threads}; {problem}"
        )))
    };
    if !(1..=4096).contains(&threads) {
        return wrong("it must be 1 to 4096".to_owned());
    }
    if let Some(store) = &mut load.store {
        store.threads = threads;
        return Ok(());
    }
    let mut counted = load.threads.iter_mut().filter(|group| group.counted);
    match (counted.next(), counted.next()) {
        (Some(group), None) => group.count = threads,
        _ => return wrong("the load has several kinds of threads; change its file".to_owned()),
    }
    Ok(())
}

/// A machine and what runs on it.
pub(super) struct Bench {
    pub machine: Machine<DeviceEngine>,
    pub setup: Setup,
    /// What the device has not.
    pub kept: Kept,
    /// What was counted until what is to exist was there.
    pub made: Option<Totals>,
}

impl Bench {
    /// Runs one task to its end.
    fn task<T: 'static>(
        &mut self,
        name: &str,
        body: impl Future<Output = Result<T, LoadError>> + 'static,
    ) -> Result<T, LoadError> {
        let result: Rc<RefCell<Option<Result<T, LoadError>>>> = Rc::default();
        let to = Rc::clone(&result);
        self.machine.spawn(name, async move {
            let done = body.await;
            *to.borrow_mut() = Some(done);
        });
        self.machine.run()?;
        result
            .take()
            .expect("a task that is over has left its result")
    }

    /// Makes the file system, with room for so many files.
    pub fn format(&mut self, files: u64) -> Result<(), LoadError> {
        let device = self.machine.device();
        let mut options = FormatOptions::new(self.setup.personality);
        let inodes = files + files / 16 + 1024;
        options.inodes = Some(u32::try_from(inodes).unwrap_or(u32::MAX));
        options.journal = self.setup.fs.journal();
        options.trims = self.setup.fs.trims() || !self.setup.personality.writes_bytes();
        self.task("mkfs", async move {
            Ok(Files::format(&device, &options).await?)
        })
    }

    /// The file system for the first time, on a drive that has been in use if it is to be.
    fn first_mount(&mut self) -> Result<Rc<Files>, LoadError> {
        let files = self.mount()?;
        if let Some(share) = self.setup.fs.aged() {
            let (to, clock, seed) = (Rc::clone(&files), self.machine.clock(), self.setup.seed);
            self.task("aging", async move { age(&to, share, seed, &clock).await })?;
            self.machine.settle();
        }
        Ok(files)
    }

    pub fn mount(&mut self) -> Result<Rc<Files>, LoadError> {
        let (device, clock) = (self.machine.device(), self.machine.clock());
        let setup = &self.setup;
        let mut options = MountOptions {
            cache: setup.scale.of_bytes(setup.cache, Bytes::from_mib(1)),
            metadata_cache: setup.scale.of_bytes(setup.cache, Bytes::from_mib(4)),
            cores: setup.cores,
            costs: setup.costs,
            ..MountOptions::default()
        };
        setup.fs.put_into(&mut options, &self.kept);
        let mount = async move { Ok(Rc::new(Files::mount(device, clock, options).await?)) };
        self.task("mount", mount)
    }

    /// What was made is synced, and forgotten by the host if the load says so.
    pub fn rest(&mut self, files: Rc<Files>, is_cold: bool) -> Result<Rc<Files>, LoadError> {
        let of_task = Rc::clone(&files);
        let synced = async move {
            let done = match is_cold {
                true => of_task.unmount().await,
                false => of_task.sync().await,
            };
            done.map_err(|error| LoadError::of("syncing before the run", error))
        };
        self.task("sync", synced)?;
        self.made = Some(self.totals(&files));
        let files = if is_cold { self.mount()? } else { files };
        self.kept.metadata.begin();
        self.machine.settle();
        Ok(files)
    }

    pub fn totals(&self, files: &Files) -> Totals {
        let counters = self.machine.engine().counters();
        Totals::of(&files.stats(), files.dax_report(), &counters)
    }

    pub fn stage(
        &self,
        files: &Rc<Files>,
        counted: u32,
    ) -> Rc<Stage<Files, VirtualClock<DeviceEngine>>> {
        let clock = self.machine.clock();
        Rc::new(Stage::new(
            Rc::clone(files),
            clock,
            self.setup.cores,
            counted,
        ))
    }

    /// Adds who writes back in the background.
    pub fn spawn_write_back(&mut self, stage: &Rc<Stage<Files, VirtualClock<DeviceEngine>>>) {
        let stage = Rc::clone(stage);
        let scale = self.setup.scale.get();
        let (period, age) = (PERIOD.scale(1, scale), AGE.scale(1, scale));
        self.machine.spawn(
            "write-back",
            async move { stage.write_back(period, age).await },
        );
    }

    fn flow(mut self, load: &Load, conditions: Conditions) -> Result<LoadResult, LoadError> {
        let (scale, seed, cores) = (self.setup.scale, self.setup.seed, self.setup.cores);
        let entries = load.files.iter();
        let entries = entries.map(|files| scale.of(files.entries, files.least));
        let entries: Vec<u64> = entries.collect();
        let directories = |(entries, files): (&u64, &super::spec::FilesSpec)| {
            entries + 2 * entries / files.width.min(*entries).max(1) + 64
        };
        self.format(entries.iter().zip(&load.files).map(directories).sum())?;
        let files = self.first_mount()?;
        let (to, spec, by) = (
            Rc::clone(&files),
            load.clone(),
            caller(0, self.machine.now()),
        );
        let sets = self.task("directories", async move {
            let mut sets = Vec::new();
            for (spec, entries) in spec.files.iter().zip(entries) {
                let mut set = FileSet::new(spec, entries, seed);
                set.make_directories(&*to, &by).await?;
                sets.push(set);
            }
            Ok(sets)
        })?;
        let existing = sets.iter().zip(&load.files);
        let drawn: Vec<Vec<u32>> = existing
            .map(|(set, spec)| set.draw_existing(spec.existing.of(set.most()), seed))
            .collect();
        let flow = Rc::new(Flow::new(load, sets, seed, cores));
        self.populate(&flow, &files, drawn)?;
        let files = self.rest(files, load.cold)?;
        if load.warm_up > 0 {
            self.phase(&flow, &files, Some(scale.of(load.warm_up, 1)))?;
        }
        let before = self.totals(&files);
        let rounds = load.rounds.map(|rounds| scale.of(rounds, 1));
        let stage = self.phase(&flow, &files, rounds)?;
        self.finish(&files, &stage, before, conditions)
    }

    fn populate(
        &mut self,
        flow: &Rc<Flow>,
        files: &Rc<Files>,
        drawn: Vec<Vec<u32>>,
    ) -> Result<(), LoadError> {
        let stage = self.stage(files, MAKERS as u32);
        let drawn = Rc::new(drawn);
        for lane in 0..MAKERS {
            let (flow, stage, drawn) = (Rc::clone(flow), Rc::clone(&stage), Rc::clone(&drawn));
            self.machine.spawn(format!("maker {lane}"), async move {
                if let Err(why) = flow.populate(&stage, &drawn, (lane, MAKERS)).await {
                    stage.fail(why);
                }
                stage.end_one();
            });
        }
        self.spawn_write_back(&stage);
        self.machine.run()?;
        stage.outcome().map(drop)
    }

    /// Threads for so many rounds.
    fn phase(
        &mut self,
        flow: &Rc<Flow>,
        files: &Rc<Files>,
        rounds: Option<u64>,
    ) -> Result<Rc<Stage<Files, VirtualClock<DeviceEngine>>>, LoadError> {
        let threads = flow.threads();
        let counted = threads.iter().filter(|(_, is_counted)| *is_counted).count();
        let stage = self.stage(files, counted as u32);
        flow.begin(rounds);
        let ended = Rc::clone(flow);
        stage.when_over(move || ended.end());
        for (number, (name, _)) in threads.into_iter().enumerate() {
            let (flow, stage) = (Rc::clone(flow), Rc::clone(&stage));
            self.machine
                .spawn(name, async move { flow.run(&stage, number).await });
        }
        self.spawn_write_back(&stage);
        self.machine.run()?;
        Ok(stage)
    }

    fn store(
        mut self,
        load: &Load,
        spec: &StoreSpec,
        conditions: Conditions,
    ) -> Result<LoadResult, LoadError> {
        let scale = self.setup.scale;
        let options = Options {
            memtable: scale.of_bytes(spec.memtable, Bytes::from_kib(16)).get(),
            table: scale.of_bytes(spec.table, Bytes::from_kib(16)).get(),
            level: scale.of_bytes(spec.level, Bytes::from_kib(64)).get(),
            merge_at: spec.merge_at as usize,
            stop_at: spec.stop_at as usize,
            sync: spec.sync,
        };
        // Tables come and go; more than these are never there at a time.
        self.format(65_536.max(scale.of(spec.records, 1) / 8))?;
        let files = self.first_mount()?;
        let records = scale.of(spec.records, 256);
        let ycsb = Rc::new(Ycsb::new(spec, records, self.setup.seed));
        // Filled without syncing each batch, as loading tools do.
        let filling = Options {
            sync: false,
            ..options
        };
        let (filled, lanes) = (Rc::clone(&ycsb), 4);
        self.with_store(&files, filling, lanes, move |_, store, lane| {
            let ycsb = Rc::clone(&filled);
            async move { ycsb.fill(&store, (lane.into(), lanes.into())).await }
        })?;
        let files = self.rest(files, load.cold)?;
        if spec.warm_up > 0 {
            ycsb.begin(scale.of(spec.warm_up, 256));
            self.requests(&files, options, spec.threads, &ycsb)?
                .outcome()?;
            // What it has left to write, and to merge later, is of the run that follows too.
        }
        let before = self.totals(&files);
        ycsb.begin(scale.of(spec.requests, 256));
        let stage = self.requests(&files, options, spec.threads, &ycsb)?;
        self.finish(&files, &stage, before, conditions)
    }

    /// Threads that ask the store until the requests are used up.
    fn requests(
        &mut self,
        files: &Rc<Files>,
        options: Options,
        threads: u32,
        ycsb: &Rc<Ycsb>,
    ) -> Result<Rc<Stage<Files, VirtualClock<DeviceEngine>>>, LoadError> {
        let ycsb = Rc::clone(ycsb);
        self.with_store(files, options, threads, move |stage, store, number| {
            let ycsb = Rc::clone(&ycsb);
            async move { ycsb.run(&stage, &store, number).await }
        })
    }

    /// Opens the store and has threads use it beside its own tasks.
    fn with_store<F>(
        &mut self,
        files: &Rc<Files>,
        options: Options,
        threads: u32,
        body: impl Fn(Rc<Stage<Files, VirtualClock<DeviceEngine>>>, Rc<Store<Files>>, u32) -> F,
    ) -> Result<Rc<Stage<Files, VirtualClock<DeviceEngine>>>, LoadError>
    where
        F: Future<Output = Result<(), LoadError>> + 'static,
    {
        let (to, clock) = (Rc::clone(files), self.machine.clock());
        let open = async move {
            let opened = Store::open(to, "store", options, move || clock.now()).await;
            opened.map(Rc::new).map_err(of_store)
        };
        let store = self.task("open", open)?;
        let stage = self.stage(files, threads);
        for number in 0..threads {
            let used = body(Rc::clone(&stage), Rc::clone(&store), number);
            let stage = Rc::clone(&stage);
            self.machine.spawn(format!("thread {number}"), async move {
                if let Err(why) = used.await {
                    stage.fail(why);
                }
                stage.end_one();
            });
        }
        let (flusher, merger) = (Rc::clone(&store), Rc::clone(&store));
        let (of_flusher, of_merger) = (Rc::clone(&stage), Rc::clone(&stage));
        self.machine.spawn("flush", async move {
            if let Err(error) = flusher.flushing().await {
                of_flusher.fail(of_store(error));
            }
        });
        self.machine.spawn("merge", async move {
            if let Err(error) = merger.merging().await {
                of_merger.fail(of_store(error));
            }
        });
        stage.when_over(move || store.close());
        self.spawn_write_back(&stage);
        self.machine.run()?;
        Ok(stage)
    }

    pub fn finish(
        mut self,
        files: &Rc<Files>,
        stage: &Stage<Files, VirtualClock<DeviceEngine>>,
        before: Totals,
        conditions: Conditions,
    ) -> Result<LoadResult, LoadError> {
        let took = stage.outcome()?;
        let after = self.totals(files);
        let of_task = Rc::clone(files);
        self.task("sync", async move {
            let synced = of_task.sync().await;
            synced.map_err(|error| LoadError::of("syncing behind the run", error))?;
            let drained = of_task.device().drain().await;
            drained
                .map(drop)
                .map_err(|error| LoadError::of("draining the log", error.into()))
        })?;
        self.machine.settle();
        let synced = self.totals(files);
        Ok(LoadResult::new(
            conditions,
            took,
            &stage.recorder,
            (&before, &after, &synced),
            self.made.as_ref(),
        ))
    }
}
