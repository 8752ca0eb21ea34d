//! The kernel's doors to an NVMe device: the one place of the passthrough with unsafe code.
#![allow(unsafe_code)]

use super::{LINE, RawCommand};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `struct nvme_passthru_cmd64`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Passthrough {
    command: RawCommand,
    result: u64,
}

const _: () = assert!(size_of::<RawCommand>() == 72 && size_of::<Passthrough>() == 80);

/// `NVME_IOCTL_ID`.
pub(super) const ID: Opcode = ioctl::opcode::none(b'N', 0x40);
/// `NVME_IOCTL_IO64_CMD`.
pub(super) const IO64: Opcode = ioctl::opcode::read_write::<Passthrough>(b'N', 0x48);
/// `NVME_URING_CMD_IO`.
pub(super) const URING: Opcode = ioctl::opcode::read_write::<RawCommand>(b'N', 0x80);

/// The device's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// Type and code of the status, and whether to try again; zero: done.
    pub(super) status: u16,
    /// Dwords 0 and 1 of the completion.
    pub(super) value: u64,
}

/// An open device.
pub(super) struct Doors {
    file: File,
    ring: Option<IoUring<squeue::Entry128, cqueue::Entry32>>,
}

impl std::fmt::Debug for Doors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Doors")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// An ioctl whose return value says something.
struct Told<'a> {
    opcode: Opcode,
    argument: Option<&'a mut Passthrough>,
}

// SAFETY: the opcode is of NVMe, whose argument is a `Passthrough` or nothing.
unsafe impl Ioctl for Told<'_> {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        match &mut self.argument {
            Some(argument) => std::ptr::from_mut::<Passthrough>(argument).cast(),
            None => std::ptr::null_mut(),
        }
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(output)
    }
}

impl Doors {
    pub(super) fn new(file: File) -> Self {
        Self { file, ring: None }
    }

    /// Which namespace it is.
    pub(super) fn namespace(&self) -> io::Result<u32> {
        let asked = Told {
            opcode: ID,
            argument: None,
        };
        // SAFETY: it takes no argument.
        let found = unsafe { ioctl::ioctl(&self.file, asked) }?;
        Ok(found.cast_unsigned())
    }

    /// Gets a ring with room for commands of NVMe.
    pub(super) fn open_ring(&mut self) -> io::Result<()> {
        self.ring = Some(IoUring::builder().build(8)?);
        Ok(())
    }

    fn prepared(command: RawCommand, line: &mut [u8; LINE]) -> RawCommand {
        RawCommand {
            address: match command.data_bytes {
                0 => 0,
                _ => line.as_mut_ptr().addr() as u64,
            },
            ..command
        }
    }

    /// One command, through the ioctl.
    pub(super) fn ioctl(
        &mut self,
        command: RawCommand,
        line: &mut [u8; LINE],
    ) -> io::Result<Answer> {
        assert!(command.data_bytes as usize <= LINE, "data of a line");
        let mut passed = Passthrough {
            command: Self::prepared(command, line),
            result: 0,
        };
        let asked = Told {
            opcode: IO64,
            argument: Some(&mut passed),
        };
        // SAFETY: the argument is what the opcode takes, and the memory that it names is the
        // line's, which is borrowed alone until the call returns.
        let status = unsafe { ioctl::ioctl(&self.file, asked) }?;
        Ok(Answer {
            status: status as u16 & 0x7fff,
            value: passed.result,
        })
    }

    /// One command, through the ring.
    pub(super) fn uring(
        &mut self,
        command: RawCommand,
        line: &mut [u8; LINE],
    ) -> io::Result<Answer> {
        assert!(command.data_bytes as usize <= LINE, "data of a line");
        let fd = types::Fd(self.file.as_raw_fd());
        let mut ring = self.ring.take().ok_or_else(|| {
            io::Error::other("the ring was given up when a command of it was not answered")
        })?;
        // Memory of its own: it outlives this call if the answer does not come.
        let mut buffer = Box::new(*line);
        let mut bytes = [0; 80];
        bytes[..72].copy_from_slice(&Self::prepared(command, &mut buffer).to_bytes());
        let entry = opcode::UringCmd80::new(fd, URING).cmd(bytes).build();
        // SAFETY: the memory that the command names is the buffer's, which nobody else has until
        // the answer has come; if none comes it is never freed.
        let pushed = unsafe { ring.submission().push(&entry) };
        pushed.expect("an empty ring has room");
        loop {
            match ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    // The device may write there still.
                    std::mem::forget((ring, buffer));
                    return Err(error);
                }
            }
            let Some(done) = ring.completion().next() else {
                continue;
            };
            *line = *buffer;
            self.ring = Some(ring);
            return match u32::try_from(done.result()) {
                Ok(status) => Ok(Answer {
                    status: status as u16 & 0x7fff,
                    value: done.big_cqe()[0],
                }),
                Err(_) => Err(io::Error::from_raw_os_error(-done.result())),
            };
        }
    }
}
