//! NVMe commands of lines on a Linux passthrough device: a board, or our own NVMe/TCP target that a
//! kernel is connected to.
//!
//! Two dialects: ours (`docs/nvme.md`), and that of OpenCXD's artifact. Each command goes through
//! one of two doors of the kernel, one at a time: the ioctl, or `io_uring_cmd`.
//! What the device says of its time is believed; nothing here follows what it does.

mod door;

use crate::opencxd::{CXL_NANOS, Completion, Done, Operation, Submission};
use door::{Answer, Doors};
use rustix::fs::FileType;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use units::address::LINE_BYTES;
use units::{LineAddr, Picos};

/// Bytes of a line.
const LINE: usize = LINE_BYTES.get() as usize;
/// Our opcodes: the two lowest bits say which way data go.
const STORE: u8 = 0xc1;
const LOAD: u8 = 0xc2;
/// Everything that is logged goes to flash.
const RECOVER: u8 = 0xd4;
/// A status with this bit was not made by firmware of OpenCXD's: the same command fails again.
const DO_NOT_RETRY: u16 = 0x4000;
/// Type and code of a status.
const STATUS: u16 = 0x7ff;
/// Lines of a page of 4 KiB.
const LINES_OF_PAGE: u64 = 64;
/// How long a command may take, in milliseconds.
const PATIENCE_MS: u32 = 10_000;

/// A command as Linux takes it: `struct nvme_passthru_cmd64` without its result, which is `struct
/// nvme_uring_cmd`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct RawCommand {
    /// SQE byte 0.
    pub opcode: u8,
    /// SQE byte 1.
    pub flags: u8,
    reserved: u16,
    /// SQE bytes 4 to 7.
    pub namespace: u32,
    /// Dwords 2 and 3.
    pub dwords_2: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    /// Bytes of data.
    pub data_bytes: u32,
    /// Dwords 10 to 15.
    pub dwords_10: [u32; 6],
    /// What it may take.
    pub timeout_ms: u32,
    reserved_2: u32,
}

impl RawCommand {
    /// As the kernel reads it, on a little-endian machine.
    pub fn to_bytes(&self) -> [u8; 72] {
        let mut bytes = [0; 72];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &[self.opcode, self.flags]);
        put(4, &self.namespace.to_le_bytes());
        put(8, &self.dwords_2[0].to_le_bytes());
        put(12, &self.dwords_2[1].to_le_bytes());
        put(16, &self.metadata.to_le_bytes());
        put(24, &self.address.to_le_bytes());
        put(32, &self.metadata_bytes.to_le_bytes());
        put(36, &self.data_bytes.to_le_bytes());
        for (index, dword) in self.dwords_10.iter().enumerate() {
            put(40 + index * 4, &dword.to_le_bytes());
        }
        put(64, &self.timeout_ms.to_le_bytes());
        bytes
    }
}

/// How a device is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// Ours: addresses of 64 bits, data, times in picoseconds.
    Entresol,
    /// OpenCXD's artifact: opcode 0xA0, no data, ticks of 30 ns, outcomes as statuses.
    OpenCxd,
}

/// Through which door of the kernel commands go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// `NVME_IOCTL_IO64_CMD`.
    Ioctl,
    /// `NVME_URING_CMD_IO`: of character devices `/dev/ngXnY` only.
    Uring,
}

/// What a device did about a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accessed {
    /// What it says that it took.
    pub took: Picos,
    /// Where the line was, of a device that says so.
    pub done: Option<Done>,
}

/// Why a device cannot be spoken to, as a sentence.
#[derive(Debug, Error)]
pub enum NvmeError {
    /// The system does not open it.
    #[error(
        "{path}: cannot be opened: {error}; name an NVMe device, as /dev/ng0n1, and ask for the \
         right to use it"
    )]
    Open {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Something else.
    #[error("{path}: is no NVMe device; name one, as /dev/ng0n1 or /dev/nvme0n1")]
    Kind {
        /// Which.
        path: PathBuf,
    },
    /// A part of a device.
    #[error(
        "{path}: is a partition, and lines are counted from the start of the whole device; name \
         that"
    )]
    Partition {
        /// Which.
        path: PathBuf,
    },
    /// No answer.
    #[error("{path}: has not answered: {error}; look whether the device is still there")]
    Gone {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file system or somebody else has its blocks.
    #[error("{path}: is in use; unmount it, or name a device that nobody uses")]
    Busy {
        /// Which.
        path: PathBuf,
    },
    /// The kernel has no such door to it.
    #[error(
        "{path}: this kernel passes no commands to it ({what}): {error}; use Linux 5.19 or later \
         and a device /dev/ngXnY"
    )]
    Door {
        /// Which.
        path: PathBuf,
        /// The door.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// The device refuses.
    #[error(
        "{path}: answers {what} of the line at {at:#x} with status {status:#06x}; it has no such \
         command, or the address is beyond its end"
    )]
    Status {
        /// Which.
        path: PathBuf,
        /// A load or a store.
        what: &'static str,
        /// Where.
        at: u64,
        /// Type and code.
        status: u16,
    },
    /// An address that the dialect has no bits for.
    #[error("the line at {at:#x} is beyond 4 GiB, which OpenCXD's commands cannot say")]
    Far {
        /// Where.
        at: u64,
    },
}

/// Whoever stores and loads lines and says what that took.
pub trait LineDevice: Debug + Send {
    /// Loads a line into `data`, or stores it.
    ///
    /// # Errors
    /// The device or the kernel refuses.
    fn access(
        &mut self,
        line: LineAddr,
        is_store: bool,
        data: &mut [u8; LINE],
    ) -> Result<Accessed, NvmeError>;

    /// Brings so many pages of 4 KiB to the flash, whatever is in them then: a page that was never
    /// written is read without flash.
    ///
    /// # Errors
    /// As of an access.
    fn fill(&mut self, pages: u64) -> Result<(), NvmeError>;

    /// Whether a load gives what was stored.
    fn keeps_data(&self) -> bool;
}

/// A load or a store of a line, in a dialect.
pub fn command(dialect: Dialect, namespace: u32, line: LineAddr, is_store: bool) -> RawCommand {
    let at = line.get() * LINE_BYTES.get();
    let mut command = RawCommand {
        namespace,
        timeout_ms: PATIENCE_MS,
        ..RawCommand::default()
    };
    match dialect {
        Dialect::Entresol => {
            command.opcode = if is_store { STORE } else { LOAD };
            command.data_bytes = LINE as u32;
            command.dwords_10[0] = at as u32;
            command.dwords_10[1] = (at >> 32) as u32;
            command.dwords_10[2] = LINE as u32;
        }
        Dialect::OpenCxd => {
            let entry = Submission {
                operation: Operation::Access,
                namespace,
                address: at,
                is_store,
            };
            let entry = entry.to_bytes(0);
            let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().expect("four"));
            command.opcode = entry[0];
            for (place, dword) in command.dwords_10.iter_mut().zip((40..64).step_by(4)) {
                *place = word(dword);
            }
        }
    }
    command
}

/// What an answer says, or its status.
fn accessed(dialect: Dialect, answer: Answer) -> Result<Accessed, u16> {
    match dialect {
        Dialect::Entresol if answer.status & STATUS != 0 => Err(answer.status & STATUS),
        Dialect::Entresol => Ok(Accessed {
            took: Picos::new(answer.value),
            done: None,
        }),
        // Statuses are outcomes; those of other types are the kernel's or the controller's, and so
        // is one that comes in no time.
        Dialect::OpenCxd
            if answer.status & (0x700 | DO_NOT_RETRY) != 0 || answer.value as u32 == 0 =>
        {
            Err(answer.status & STATUS)
        }
        Dialect::OpenCxd => {
            let completion = Completion {
                id: 0,
                done: Done::of_status(answer.status as u8),
                ticks: answer.value as u32,
            };
            // As the artifact's host, but not below zero, and without its constant for CXL: the
            // simulator has a link.
            let nanos = completion.latency_nanos() - CXL_NANOS;
            Ok(Accessed {
                took: Picos::from_nanos(u64::try_from(nanos).unwrap_or(0)),
                done: Some(completion.done),
            })
        }
    }
}

/// An NVMe device with commands for lines.
#[derive(Debug)]
pub struct Nvme {
    path: PathBuf,
    doors: Doors,
    dialect: Dialect,
    door: Door,
    namespace: u32,
    /// Kept, so that nobody mounts it meanwhile.
    _blocks: Option<File>,
}

impl Door {
    /// The quicker one of those that a device has, by its name.
    pub fn of(path: &Path) -> Self {
        let name = path.file_name().and_then(|name| name.to_str());
        match name.is_some_and(|name| name.starts_with("ng")) {
            true => Self::Uring,
            false => Self::Ioctl,
        }
    }
}

impl Nvme {
    /// Opens a device, and asks the kernel which namespace it is: a command of another one is
    /// refused there. (OpenCXD's board has namespace 0x3991C00, its size in blocks.)
    ///
    /// # Errors
    /// There is none, or the kernel passes no commands to it.
    pub fn open(path: &Path, dialect: Dialect, door: Door) -> Result<Self, NvmeError> {
        let there = std::fs::canonicalize(path).map_err(|error| NvmeError::Open {
            path: path.to_owned(),
            error,
        })?;
        let doors = Doors::new(opened(&there)?);
        let found = doors
            .namespace()
            .map_err(|error| match is_stranger(&error) {
                true => NvmeError::Kind {
                    path: path.to_owned(),
                },
                false => NvmeError::Door {
                    path: path.to_owned(),
                    what: "NVME_IOCTL_ID",
                    error,
                },
            })?;
        let mut nvme = Self {
            path: path.to_owned(),
            doors,
            dialect,
            door,
            namespace: found,
            _blocks: blocks_of(&there)?,
        };
        if door == Door::Uring {
            let ready = nvme.doors.open_ring();
            ready.map_err(|error| nvme.no_door(error))?;
        }
        Ok(nvme)
    }

    fn pass(&mut self, command: RawCommand, data: &mut [u8; LINE]) -> Result<Answer, NvmeError> {
        let answer = match self.door {
            Door::Ioctl => self.doors.ioctl(command, data),
            Door::Uring => self.doors.uring(command, data),
        };
        answer.map_err(|error| match is_stranger(&error) {
            true => self.no_door(error),
            false => NvmeError::Gone {
                path: self.path.clone(),
                error,
            },
        })
    }

    fn refused(&self, what: &'static str, at: u64, status: u16) -> NvmeError {
        NvmeError::Status {
            path: self.path.clone(),
            what,
            at,
            status,
        }
    }

    fn no_door(&self, error: io::Error) -> NvmeError {
        NvmeError::Door {
            path: self.path.clone(),
            what: match self.door {
                Door::Ioctl => "NVME_IOCTL_IO64_CMD",
                Door::Uring => "NVME_URING_CMD_IO",
            },
            error,
        }
    }
}

impl LineDevice for Nvme {
    fn access(
        &mut self,
        line: LineAddr,
        is_store: bool,
        data: &mut [u8; LINE],
    ) -> Result<Accessed, NvmeError> {
        let at = line.get() * LINE_BYTES.get();
        if self.dialect == Dialect::OpenCxd && at >> 32 != 0 {
            return Err(NvmeError::Far { at });
        }
        let command = command(self.dialect, self.namespace, line, is_store);
        let answer = self.pass(command, data)?;
        let what = if is_store { "a store" } else { "a load" };
        accessed(self.dialect, answer).map_err(|status| self.refused(what, at, status))
    }

    /// With a line of each page that is stored and then leaves the log; OpenCXD's firmware has a
    /// command for it.
    fn fill(&mut self, pages: u64) -> Result<(), NvmeError> {
        for page in 0..pages {
            let line = LineAddr::new(page * LINES_OF_PAGE);
            let at = line.get() * LINE_BYTES.get();
            match self.dialect {
                Dialect::Entresol => {
                    self.access(line, true, &mut [0; LINE])?;
                }
                Dialect::OpenCxd => {
                    let mut command = command(self.dialect, self.namespace, line, true);
                    command.opcode = Operation::WritePage.opcode();
                    let answer = self.pass(command, &mut [0; LINE])?;
                    if answer.status & (0x700 | DO_NOT_RETRY) != 0 {
                        let status = answer.status & STATUS;
                        return Err(self.refused("a write of the page", at, status));
                    }
                }
            }
        }
        if self.dialect == Dialect::Entresol {
            let command = RawCommand {
                opcode: RECOVER,
                namespace: self.namespace,
                // All of a log goes to flash.
                timeout_ms: 6 * PATIENCE_MS,
                ..RawCommand::default()
            };
            let answer = self.pass(command, &mut [0; LINE])?;
            if answer.status & STATUS != 0 {
                return Err(self.refused("the end of a log", 0, answer.status & STATUS));
            }
        }
        Ok(())
    }

    /// Commands of OpenCXD's have no data.
    fn keeps_data(&self) -> bool {
        self.dialect == Dialect::Entresol
    }
}

/// Whether a device knows nothing of NVMe.
fn is_stranger(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let strange = [Errno::NOTTY, Errno::INVAL, Errno::OPNOTSUPP];
    let number = error.raw_os_error();
    strange
        .iter()
        .any(|errno| number == Some(errno.raw_os_error()))
}

fn opened(path: &Path) -> Result<File, NvmeError> {
    let in_way = |error| NvmeError::Open {
        path: path.to_owned(),
        error,
    };
    let meta = std::fs::metadata(path).map_err(in_way)?;
    let kind = FileType::from_raw_mode(std::os::unix::fs::MetadataExt::mode(&meta));
    if !matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
        return Err(NvmeError::Kind {
            path: path.to_owned(),
        });
    }
    let number = std::os::unix::fs::MetadataExt::rdev(&meta);
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    // Linux passes commands of a partition on as they are.
    let part = format!("/sys/dev/block/{major}:{minor}/partition");
    if kind == FileType::BlockDevice && Path::new(&part).exists() {
        return Err(NvmeError::Partition {
            path: path.to_owned(),
        });
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.open(path).map_err(in_way)
}

/// The blocks of a device, for us alone: stores would go under a file system that is mounted.
/// Nothing where a character device has none.
fn blocks_of(path: &Path) -> Result<Option<File>, NvmeError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let blocks = match name.and_then(|name| name.strip_prefix("ng")) {
        Some(rest) => path.with_file_name(format!("nvme{rest}")),
        None => path.to_owned(),
    };
    let mut options = OpenOptions::new();
    // Of a block device this asks for it exclusively.
    options
        .read(true)
        .custom_flags(rustix::fs::OFlags::EXCL.bits().cast_signed());
    match options.open(&blocks) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            Err(NvmeError::Busy { path: blocks })
        }
        Err(error) => Err(NvmeError::Open {
            path: blocks,
            error,
        }),
    }
}

#[cfg(test)]
mod tests;
