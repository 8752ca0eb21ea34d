//! Finding a server.

use super::state::State;
use super::{CONNECTED, Client};
use crate::handshake::{self, Reply};
use crate::layout::{Layout, LayoutError, VERSION};
use crate::region::Region;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex};
use std::time::Duration;
use thiserror::Error;
use units::Bytes;

/// A server that has not answered by then is none.
const PATIENCE: Duration = Duration::from_secs(10);

/// How to connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect {
    /// Size of the data area: as many bytes are under way at most.
    pub data: Bytes,
    /// How long a waiting thread looks before it sleeps. Waking takes some tens of microseconds.
    pub spin: Duration,
}

impl Default for Connect {
    /// 4 MiB. 50 µs; on a machine with one core none, for who spins there keeps the server away.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let micros = if cores > 1 { 50 } else { 0 };
        Self {
            data: Bytes::from_mib(4),
            spin: Duration::from_micros(micros),
        }
    }
}

/// A device that cannot be reached.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Nobody listens there, or not for us.
    #[error("{path}: no device can be reached there: {error}; start one with `serve --shm`")]
    System {
        /// The socket that was tried.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The server says no.
    #[error("{path}: the server refuses: {text}")]
    Refused {
        /// The socket of the server.
        path: PathBuf,
        /// The server's reason.
        text: String,
    },
    /// Another kind of server.
    #[error("{path}: what listens there is no shared-memory port of a device; check the path")]
    Foreign {
        /// The socket that was tried.
        path: PathBuf,
    },
    /// A server of another release.
    #[error(
        "{path}: the server speaks version {found} of the shared-memory port and this program \
         {VERSION}; use the same release of both"
    )]
    Version {
        /// The socket of the server.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Its memory is not as it should be.
    #[error("{path}: {error}")]
    Layout {
        /// The socket of the server.
        path: PathBuf,
        /// What is wrong with the memory that it handed over.
        error: LayoutError,
    },
}

impl Connect {
    /// Connects to the server at a unix socket.
    ///
    /// # Errors
    /// Nobody listens, the server refuses, or what it sends is not what this program knows.
    pub fn to(self, path: &Path) -> Result<Client, ConnectError> {
        let path = path.to_path_buf();
        match self.hand_shake(&path) {
            Ok((socket, Reply::Memory(file))) => self.begin(path, socket, &file),
            Ok((_, Reply::Refused(text))) => Err(ConnectError::Refused { path, text }),
            Ok((_, Reply::Foreign)) => Err(ConnectError::Foreign { path }),
            Ok((_, Reply::Version(found))) => Err(ConnectError::Version { path, found }),
            Err(error) => Err(ConnectError::System { path, error }),
        }
    }

    fn hand_shake(self, path: &Path) -> io::Result<(UnixStream, Reply)> {
        let mut socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        // A server that refuses at once may have hung up already; its answer is there all the same.
        let said = socket.write_all(&handshake::hello(self.data));
        let reply = handshake::reply(&socket);
        match (said, reply) {
            (Err(error), Err(_)) => Err(error),
            (_, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::Error::other(format!("no answer within {PATIENCE:?}")))
            }
            (_, reply) => Ok((socket, reply?)),
        }
    }

    fn begin(self, path: PathBuf, socket: UnixStream, file: &File) -> Result<Client, ConnectError> {
        let size = file.metadata().map(|about| about.len());
        let region = size.and_then(|size| {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            Region::new(file, size)
        });
        let region = match region {
            Ok(region) => region,
            Err(error) => return Err(ConnectError::System { path, error }),
        };
        let origin = match Region::empty_in_forks() {
            Ok(origin) => origin,
            Err(error) => return Err(ConnectError::System { path, error }),
        };
        origin.word(0).store(CONNECTED, Ordering::Relaxed);
        let layout = match Layout::read(&region) {
            Ok(layout) => layout,
            Err(error) => return Err(ConnectError::Layout { path, error }),
        };
        let wake = match handshake::waker() {
            Ok(wake) => wake,
            Err(error) => return Err(ConnectError::System { path, error }),
        };
        Ok(Client {
            state: Mutex::new(State::new(&layout)),
            changed: Condvar::new(),
            spin: self.spin,
            wake,
            origin,
            region,
            layout,
            socket,
        })
    }
}
