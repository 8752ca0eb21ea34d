//! Where a server listens.

use crate::stream::Stream;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Longest path of a unix socket that Linux takes, without its closing zero.
const MOST_PATH: usize = 107;

/// Where a server is to listen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A unix socket: who may open the file may use the device.
    Unix(PathBuf),
    /// A TCP port; there is no password and no encryption.
    Tcp(SocketAddr),
}

/// An address at which a server does not listen.
#[derive(Debug, Error)]
pub enum AddressError {
    /// Not an address.
    #[error("{text}: is no address; write unix:PATH or HOST:PORT, as in 127.0.0.1:10809")]
    Text {
        /// What was written.
        text: String,
    },
    /// A name that nobody knows.
    #[error("{text}: no address belongs to that name ({error}); write HOST:PORT with another HOST")]
    Host {
        /// What was written.
        text: String,
        /// What the system says.
        error: io::Error,
    },
    /// A host, and no port.
    #[error("{text}: there is no port {port}; a port is a number from 0 to 65535")]
    Port {
        /// What was written.
        text: String,
        /// What stands for the port.
        port: String,
    },
    /// Memory cannot be handed over there.
    #[error("{text}: shared memory needs a unix socket; write unix:PATH")]
    NotUnix {
        /// What was written.
        text: String,
    },
    /// Other machines could use the device, and nobody said that they may.
    #[error(
        "{address}: others than this machine could read and write the device, without a password; \
         listen on unix:PATH or 127.0.0.1:PORT, or say --allow-remote"
    )]
    Remote {
        /// The address that other machines reach.
        address: SocketAddr,
    },
    /// The system has no room for the path.
    #[error("{path}: is longer than the {MOST_PATH} bytes of a socket's path; take a shorter one")]
    LongPath {
        /// The path that is too long.
        path: PathBuf,
    },
    /// A file that is no socket of a server that went.
    #[error("{path}: is there already and {what}; remove it or choose another path")]
    Taken {
        /// The path of what is in the way.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The system refuses.
    #[error("{place}: cannot listen there: {error}")]
    System {
        /// The address as it was given.
        place: String,
        /// What the system says.
        error: io::Error,
    },
}

impl Address {
    /// Reads `unix:PATH` or `HOST:PORT`. A host's name must mean this machine unless
    /// `allow_remote`.
    ///
    /// # Errors
    /// Something else; an address that other machines reach.
    pub fn parse(text: &str, allow_remote: bool) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            if path.len() > MOST_PATH {
                let path = PathBuf::from(path);
                return Err(AddressError::LongPath { path });
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        Self::tcp(text, allow_remote)
    }

    /// Reads `unix:PATH`.
    ///
    /// # Errors
    /// Something else.
    pub fn parse_unix(text: &str) -> Result<Self, AddressError> {
        if text.starts_with("unix:") {
            return Self::parse(text, false);
        }
        let text = text.to_string();
        Err(AddressError::NotUnix { text })
    }

    fn tcp(text: &str, allow_remote: bool) -> Result<Self, AddressError> {
        let wrong = || AddressError::Text {
            text: text.to_string(),
        };
        if let Some((_, port)) = text.rsplit_once(':')
            && port.bytes().all(|byte| byte.is_ascii_digit())
            && !port.is_empty()
            && port.parse::<u16>().is_err()
        {
            let (text, port) = (text.to_string(), port.to_string());
            return Err(AddressError::Port { text, port });
        }
        let mut found = text.to_socket_addrs().map_err(|error| match error.kind() {
            // It has not the form.
            io::ErrorKind::InvalidInput => wrong(),
            _ => AddressError::Host {
                text: text.to_string(),
                error,
            },
        })?;
        let address = found.next().ok_or_else(wrong)?;
        if !allow_remote && !is_local(address.ip()) {
            return Err(AddressError::Remote { address });
        }
        Ok(Self::Tcp(address))
    }
}

fn is_local(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// A socket at which clients knock.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    place: String,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens. A unix socket that a server left behind is replaced; only its owner may open the
    /// new one.
    ///
    /// # Errors
    /// What the system does not give.
    pub fn bind(address: &Address) -> Result<Self, AddressError> {
        let (socket, place) = match address {
            Address::Unix(path) => {
                let place = format!("unix:{}", path.display());
                remove_stale(path)?;
                let listener = UnixListener::bind(path).map_err(system(&place))?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o600))
                    .map_err(system(&place))?;
                listener.set_nonblocking(true).map_err(system(&place))?;
                (Socket::Unix(listener, path.clone()), place)
            }
            Address::Tcp(address) => {
                let wanted = address.to_string();
                let listener = TcpListener::bind(address).map_err(system(&wanted))?;
                listener.set_nonblocking(true).map_err(system(&wanted))?;
                let place = listener.local_addr().map_err(system(&wanted))?.to_string();
                (Socket::Tcp(listener), place)
            }
        };
        Ok(Self { socket, place })
    }

    /// Where it listens, as it would be written; a port that the system chose is in it.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Who may knock, as a sentence.
    pub fn audience(&self) -> &'static str {
        match &self.socket {
            Socket::Unix(..) => "programs of this user on this machine",
            Socket::Tcp(listener) if listener.local_addr().is_ok_and(|at| is_local(at.ip())) => {
                "all programs on this machine"
            }
            Socket::Tcp(_) => "everyone who reaches this machine, without a password",
        }
    }

    /// The next client that has knocked at a unix socket, if any.
    pub(crate) fn accept_unix(&self) -> io::Result<Option<UnixStream>> {
        let Socket::Unix(listener, _) = &self.socket else {
            return Ok(None);
        };
        match listener.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next client that has knocked, if any.
    pub(crate) fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match &self.socket {
            Socket::Unix(listener, _) => listener.accept().map(|(stream, _)| stream.into()),
            Socket::Tcp(listener) => listener.accept().map(|(stream, _)| stream.into()),
        };
        match accepted {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(listener, _) => listener.as_fd(),
            Socket::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = &self.socket {
            // Somebody else may have removed it; the next server replaces what stays.
            let _ = fs::remove_file(path);
        }
    }
}

fn system(place: &str) -> impl FnOnce(io::Error) -> AddressError {
    let place = place.to_string();
    move |error| AddressError::System { place, error }
}

/// Removes the socket of a server that was killed. A server that lives is left alone.
fn remove_stale(path: &Path) -> Result<(), AddressError> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    let taken = |what| AddressError::Taken {
        path: path.to_path_buf(),
        what,
    };
    if !found.file_type().is_socket() {
        return Err(taken("no socket"));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(taken("another server listens there"));
    }
    fs::remove_file(path).map_err(system(&path.display().to_string()))
}
