//! YCSB on the store of keys: who asks for what.

use super::draw::Zipf;
use super::error::LoadError;
use super::spec::{Distribution, StoreSpec};
use super::stage::Stage;
use super::store::{Error, Store};
use super::vfs::Vfs;
use port::Clock;
use std::cell::Cell;
use units::filling::{fill, spread};
use units::{Ratio, Stream};

/// Items among which YCSB's scrambled law draws before it spreads them over those that there are.
const SCRAMBLED: u64 = 10_000_000_000;
/// Records of a write when the store is filled.
const BATCH: u64 = 100;

/// The requests of a workload.
pub(crate) struct Ycsb {
    spec: StoreSpec,
    seed: u64,
    /// At this scale.
    records: u64,
    law: Option<Zipf>,
    inserted: Cell<u64>,
    versions: Cell<u64>,
    /// Requests that may begin.
    requests: Cell<u64>,
    /// How often requests were let begin: each time others are drawn.
    phase: Cell<u32>,
}

/// One request.
#[derive(Clone, Copy)]
enum Request {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Request {
    const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read_modify_write",
        }
    }
}

impl Ycsb {
    /// With so many records.
    pub fn new(spec: &StoreSpec, records: u64, seed: u64) -> Self {
        let law = match spec.distribution {
            Distribution::Zipfian => Some(Zipf::new(SCRAMBLED, spec.theta_milli)),
            Distribution::Latest => Some(Zipf::new(records, spec.theta_milli)),
            Distribution::Uniform => None,
        };
        Self {
            spec: spec.clone(),
            seed,
            records,
            law,
            inserted: Cell::new(records),
            versions: Cell::new(0),
            requests: Cell::new(0),
            phase: Cell::new(0),
        }
    }

    /// Lets so many requests begin.
    pub fn begin(&self, requests: u64) {
        self.requests.set(requests);
        self.phase.set(self.phase.get() + 1);
    }

    /// A key: numbers are spread, so that those that follow each other lie anywhere.
    fn key(number: u64) -> Vec<u8> {
        format!("user{:020}", spread(number)).into_bytes()
    }

    /// A value that says whose it is, and that no other write of the key has.
    fn value(&self, number: u64) -> Vec<u8> {
        let version = self.versions.get() + 1;
        self.versions.set(version);
        let mut value = vec![0; self.spec.value.get() as usize];
        fill(version ^ (number << 20), &mut value);
        value[..8].copy_from_slice(&number.to_le_bytes());
        value
    }

    /// Puts all records: one of `lanes` that share them.
    pub async fn fill<V: Vfs>(
        &self,
        store: &Store<V>,
        (lane, lanes): (u64, u64),
    ) -> Result<(), LoadError> {
        let mut first = lane * BATCH;
        while first < self.records {
            let numbers = first..(first + BATCH).min(self.records);
            let entries = numbers.map(|number| (Self::key(number), Some(self.value(number))));
            store.put(entries.collect()).await.map_err(of_store)?;
            first += lanes * BATCH;
        }
        Ok(())
    }

    /// A thread until the requests are used up.
    pub async fn run<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        store: &Store<V>,
        number: u32,
    ) -> Result<(), LoadError> {
        let phase = self.phase.get();
        let mut stream = Stream::new(self.seed, &format!("load/ycsb/{phase}/{number}"));
        while self.requests.get() > 0 && !stage.is_over() {
            self.requests.set(self.requests.get() - 1);
            let request = self.draw_request(&mut stream);
            let begun = stage.clock.now();
            stage.clock.spend(self.spec.compute).await;
            self.request(stage, store, &mut stream, request).await?;
            stage
                .recorder
                .record(request.name(), stage.clock.now() - begun);
        }
        Ok(())
    }

    fn draw_request(&self, stream: &mut Stream) -> Request {
        let mut rest = stream.below(10_000);
        let shares: [(Ratio, Request); 4] = [
            (self.spec.update, Request::Update),
            (self.spec.insert, Request::Insert),
            (self.spec.scan, Request::Scan),
            (self.spec.read_modify_write, Request::ReadModifyWrite),
        ];
        for (share, request) in shares {
            match rest.checked_sub(share.of(10_000)) {
                None => return request,
                Some(left) => rest = left,
            }
        }
        Request::Read
    }

    fn draw_record(&self, stream: &mut Stream) -> u64 {
        match (&self.law, self.spec.distribution) {
            (Some(law), Distribution::Latest) => {
                let newest = self.inserted.get() - 1;
                newest - law.draw(stream).min(newest)
            }
            (Some(law), _) => spread(law.draw(stream) ^ 0x5963_7362) % self.records,
            (None, _) => stream.below(self.records),
        }
    }

    async fn request<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        store: &Store<V>,
        stream: &mut Stream,
        request: Request,
    ) -> Result<(), LoadError> {
        match request {
            Request::Read => {
                let number = self.draw_record(stream);
                self.read(stage, store, number).await
            }
            // YCSB's client of RocksDB reads what it updates.
            Request::Update | Request::ReadModifyWrite => {
                let number = self.draw_record(stream);
                self.read(stage, store, number).await?;
                if matches!(request, Request::ReadModifyWrite) {
                    self.read(stage, store, number).await?;
                }
                self.write(stage, store, number).await
            }
            Request::Insert => {
                let number = self.inserted.get();
                self.inserted.set(number + 1);
                self.write(stage, store, number).await
            }
            Request::Scan => {
                let number = self.draw_record(stream);
                let most = 1 + stream.below(self.spec.scan_most.into());
                let key = Self::key(number);
                let found = store.scan(&key, most as usize).await.map_err(of_store)?;
                if found.first().is_none_or(|(first, _)| *first != key) {
                    return Err(LoadError::Store(format!(
                        "a scan does not find key {number}"
                    )));
                }
                let bytes = found.iter().map(|(_, value)| value.len()).sum();
                stage.recorder.count_read(bytes);
                Ok(())
            }
        }
    }

    async fn read<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        store: &Store<V>,
        number: u64,
    ) -> Result<(), LoadError> {
        let found = store.get(&Self::key(number)).await.map_err(of_store)?;
        let Some(value) = found else {
            // One that is being inserted may not be there yet.
            let is_new = number >= self.records;
            let missing = || LoadError::Store(format!("key {number} is not there"));
            return if is_new { Ok(()) } else { Err(missing()) };
        };
        if value.get(..8) != Some(&number.to_le_bytes()[..]) {
            return Err(LoadError::Store(format!(
                "key {number} has another's value"
            )));
        }
        stage.recorder.count_read(value.len());
        Ok(())
    }

    async fn write<V: Vfs, C: Clock>(
        &self,
        stage: &Stage<V, C>,
        store: &Store<V>,
        number: u64,
    ) -> Result<(), LoadError> {
        let value = self.value(number);
        stage.recorder.count_written(value.len());
        let entry = (Self::key(number), Some(value));
        store.put(vec![entry]).await.map_err(of_store)
    }
}

/// Why a store did not do what it was asked.
pub(crate) fn of_store(error: Error) -> LoadError {
    match error {
        Error::Files(error) => LoadError::of("the store of keys", error),
        other => LoadError::Store(other.to_string()),
    }
}
