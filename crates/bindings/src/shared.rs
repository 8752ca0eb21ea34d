//! A device of another process, for Python.

use crate::EntresolError;
use port::{
    Acknowledge, Atomicity, Command, Completion, Conflict, Device, DeviceError as Refusal, Payload,
    PersistenceDomain, TxOptions, Vectored,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};
use shm::{Client, Connect};
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use units::{ByteAddr, Bytes, TxId};

pyo3::create_exception!(
    _core,
    DeviceError,
    EntresolError,
    "A device in another process cannot be reached, or refuses."
);

/// Adds all of it to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("DeviceError", module.py().get_type::<DeviceError>())?;
    module.add_class::<SharedDevice>()
}

fn wrong(error: impl core::fmt::Display) -> PyErr {
    DeviceError::new_err(error.to_string())
}

/// Picoseconds on the device's clock: asked, done.
type Times = (u64, u64);

fn times(completion: Completion) -> Times {
    let Completion {
        submitted,
        finished,
    } = completion;
    (submitted.as_picos(), finished.as_picos())
}

fn conflict(wait: bool) -> Conflict {
    match wait {
        true => Conflict::Wait,
        false => Conflict::Refuse,
    }
}

/// Parts in which a transaction ended: 1 if as a whole.
fn parts(atomicity: Atomicity) -> u32 {
    match atomicity {
        Atomicity::Whole => 1,
        Atomicity::Parts { count } => count,
    }
}

/// A connection to a server. Calls release the interpreter's lock; several threads may call.
#[pyclass(frozen)]
pub(crate) struct SharedDevice {
    client: Mutex<Option<Arc<Client>>>,
}

impl SharedDevice {
    fn client(&self) -> PyResult<Arc<Client>> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || wrong("the connection is closed; connect anew");
        client.clone().ok_or_else(closed)
    }

    /// Waits with the lock released; a signal's handler that raises ends the waiting.
    fn wait<'c, T: Send>(
        py: Python<'_>,
        client: &'c Client,
        future: impl Future<Output = Result<T, Refusal>> + Send + 'c,
    ) -> PyResult<T> {
        let mut interruption = None;
        let done = py.detach(|| {
            client.wait_unless(future, || {
                interruption = Python::attach(|py| py.check_signals()).err();
                interruption.is_some()
            })
        });
        match (done, interruption) {
            (Some(done), _) => done.map_err(wrong),
            (None, Some(error)) => Err(error),
            (None, None) => Err(wrong("the call was given up")),
        }
    }

    fn take(&self, py: Python<'_>, at: u64, size: u64, blocks: bool) -> PyResult<(Vec<u8>, Times)> {
        let client = self.client()?;
        let (at, size) = (ByteAddr::new(at), Bytes::new(size));
        let capacity = client.shape().capacity;
        if size > capacity {
            return Err(wrong(Refusal::OutOfRange { at, size, capacity }));
        }
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(size.get() as usize);
        room.map_err(|_| PyMemoryError::new_err(format!("there is no memory for {size}")))?;
        bytes.resize(size.get() as usize, 0);
        let completion = if blocks {
            Self::wait(py, &client, client.read_blocks(at, &mut bytes))
        } else {
            Self::wait(py, &client, client.read(at, &mut bytes))
        };
        Ok((bytes, times(completion?)))
    }
}

#[pymethods]
impl SharedDevice {
    /// Connects; `spin_us` says how long a call looks before it sleeps, if not as the core likes.
    #[new]
    #[pyo3(signature = (path, data_bytes, spin_us))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        data_bytes: Option<u64>,
        spin_us: Option<u64>,
    ) -> PyResult<Self> {
        let default = Connect::default();
        let connect = Connect {
            data: data_bytes.map_or(default.data, Bytes::new),
            spin: spin_us.map_or(default.spin, Duration::from_micros),
        };
        let client = py.detach(|| connect.to(&path)).map_err(wrong)?;
        let client = Mutex::new(Some(Arc::new(client)));
        Ok(Self { client })
    }

    /// What the device is, as JSON.
    fn shape(&self) -> PyResult<String> {
        let shape = self.client()?.shape();
        let survives = |domain| domain == PersistenceDomain::Device;
        let limits = shape.transactions;
        let costs = shape.costs;
        Ok(json!({
            "capacity": shape.capacity.get(),
            "block": shape.block.get(),
            "line": shape.line.get(),
            "bytes_survive": survives(shape.byte_domain),
            "blocks_survive": survives(shape.block_domain),
            "most_open_transactions": limits.map_or(0, |limits| limits.open),
            "most_open_lines": limits.map_or(0, |limits| limits.lines),
            "pmem": shape.pmem.get(),
            "costs": {
                "line_read_ps": costs.line_read.get(),
                "line_write_ps": costs.line_write.get(),
                "line_reads": costs.line_reads,
                "line_writes": costs.line_writes,
                "block_command_ps": costs.block_command.get(),
                "read_bandwidth": costs.read_bandwidth.get(),
                "write_bandwidth": costs.write_bandwidth.get(),
            },
        })
        .to_string())
    }

    fn read(&self, py: Python<'_>, at: u64, size: u64, blocks: bool) -> PyResult<Py<PyBytes>> {
        let (bytes, _) = self.take(py, at, size, blocks)?;
        Ok(PyBytes::new(py, &bytes).unbind())
    }

    fn read_into(
        &self,
        py: Python<'_>,
        at: u64,
        buffer: PyBuffer<u8>,
        blocks: bool,
    ) -> PyResult<Times> {
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only"));
        }
        let (bytes, times) = self.take(py, at, buffer.len_bytes() as u64, blocks)?;
        buffer.copy_from_slice(py, &bytes)?;
        Ok(times)
    }

    /// Under a transaction or 0; `wait` says whether it waits for other transactions.
    fn write(
        &self,
        py: Python<'_>,
        at: u64,
        bytes: PyBuffer<u8>,
        tx: u32,
        wait: bool,
    ) -> PyResult<Times> {
        let (client, bytes) = (self.client()?, bytes.to_vec(py)?);
        let payload = Payload::Out(&bytes);
        let command = Command::Write(TxId::new(tx));
        let written = client.request(command, ByteAddr::new(at), payload, conflict(wait));
        Self::wait(py, &client, written).map(|(completion, _)| times(completion))
    }

    fn write_vectored(
        &self,
        py: Python<'_>,
        parts: Vec<(u64, PyBuffer<u8>)>,
        tx: u32,
        wait: bool,
    ) -> PyResult<Times> {
        let client = self.client()?;
        let part = |(at, bytes): (u64, PyBuffer<u8>)| Ok((ByteAddr::new(at), bytes.to_vec(py)?));
        let parts: Vec<_> = parts.into_iter().map(part).collect::<PyResult<_>>()?;
        let command = Command::Write(TxId::new(tx));
        let written = Vectored::new(
            parts
                .iter()
                .map(|(at, bytes)| {
                    client.request(command, *at, Payload::Out(bytes), conflict(wait))
                })
                .collect(),
            Client::ANSWERS_ARE_FETCHED,
        );
        Self::wait(py, &client, written).map(times)
    }

    fn write_blocks(
        &self,
        py: Python<'_>,
        at: u64,
        bytes: PyBuffer<u8>,
        durable: bool,
    ) -> PyResult<Times> {
        let (client, bytes) = (self.client()?, bytes.to_vec(py)?);
        let when = match durable {
            true => Acknowledge::Durable,
            false => Acknowledge::Accepted,
        };
        let written = client.write_blocks(ByteAddr::new(at), &bytes, when);
        Self::wait(py, &client, written).map(times)
    }

    fn trim(&self, py: Python<'_>, at: u64, size: u64) -> PyResult<Times> {
        let client = self.client()?;
        let trimmed = client.trim(ByteAddr::new(at), Bytes::new(size));
        Self::wait(py, &client, trimmed).map(times)
    }

    fn persist(&self, py: Python<'_>) -> PyResult<Times> {
        let client = self.client()?;
        Self::wait(py, &client, client.persist()).map(times)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<Times> {
        let client = self.client()?;
        Self::wait(py, &client, client.flush()).map(times)
    }

    fn drain(&self, py: Python<'_>) -> PyResult<Times> {
        let client = self.client()?;
        Self::wait(py, &client, client.drain()).map(times)
    }

    fn begin(&self, py: Python<'_>, lines: u32, may_split: bool, wait: bool) -> PyResult<u32> {
        let client = self.client()?;
        let options = TxOptions {
            lines,
            may_split,
            conflict: conflict(wait),
        };
        let begun = Self::wait(py, &client, client.begin(options));
        begun.map(TxId::get)
    }

    /// Aborts a transaction and does not wait.
    fn abandon(&self, tx: u32) -> PyResult<()> {
        self.client()?.abandon(TxId::new(tx));
        Ok(())
    }

    fn commit(&self, py: Python<'_>, tx: u32) -> PyResult<(Times, u32)> {
        let client = self.client()?;
        let done = Self::wait(py, &client, client.commit(TxId::new(tx)));
        done.map(|(completion, atomicity)| (times(completion), parts(atomicity)))
    }

    fn abort(&self, py: Python<'_>, tx: u32) -> PyResult<(Times, u32)> {
        let client = self.client()?;
        let done = Self::wait(py, &client, client.abort(TxId::new(tx)));
        done.map(|(completion, atomicity)| (times(completion), parts(atomicity)))
    }

    /// What the device has done since it was made, as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        let client = self.client()?;
        let stats = py.detach(|| client.statistics()).map_err(wrong)?;
        let port = |port: &port::PortTraffic| -> Value {
            json!({
                "reads": port.reads,
                "writes": port.writes,
                "to_host_bytes": port.to_host.get(),
                "to_device_bytes": port.to_device.get(),
                "read_time_ps": port.read_time.get(),
                "write_time_ps": port.write_time.get(),
            })
        };
        let flash = stats.flash;
        Ok(json!({
            "clock_ps": stats.clock.as_picos(),
            "byte_port": port(&stats.byte_port),
            "block_port": port(&stats.block_port),
            "barriers": stats.barriers,
            "commits": stats.commits,
            "aborts": stats.aborts,
            "flash": {
                "reads": flash.reads,
                "programs": flash.programs,
                "erases": flash.erases,
                "read_bytes": flash.read_bytes.get(),
                "programmed_bytes": flash.programmed_bytes.get(),
            },
        })
        .to_string())
    }

    /// Ends the connection when the calls under way are over.
    fn close(&self) {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        *client = None;
    }
}
