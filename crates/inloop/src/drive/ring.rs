//! The kernel's ring of requests: the one place of the drive with unsafe code.
#![allow(unsafe_code)]

use super::{GRAIN, Transfer};
use io_uring::{IoUring, opcode, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Instant;
use units::Picos;

/// As many requests are under way at most.
const ENTRIES: u32 = 1_024;
/// Looks for a completion before the processor is offered to others.
const LOOKS: u32 = 1_000;

/// A request that has failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// Which of them.
    pub(super) index: usize,
    /// How.
    pub(super) error: io::Error,
}

/// A ring of the kernel's.
pub(super) struct Ring {
    ring: IoUring,
    /// The kernel may have requests of a call that has ended.
    is_lost: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a drive is measured in real time; a recording has what came of it"
)]
fn now() -> Instant {
    Instant::now()
}

fn since(began: Instant) -> Picos {
    let nanos = now().duration_since(began).as_nanos();
    Picos::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 1_000))
}

impl Ring {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            ring: IoUring::new(ENTRIES)?,
            is_lost: false,
        })
    }

    /// What a request takes that does nothing.
    pub(super) fn nothing(&mut self) -> io::Result<Picos> {
        let entry = opcode::Nop::new().build();
        let began = now();
        // SAFETY: it has no memory.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("an empty ring has room");
        self.submit()?;
        loop {
            if self.ring.completion().next().is_some() {
                return Ok(since(began));
            }
            std::hint::spin_loop();
        }
    }

    /// Does these at once, as far as the ring has room, and says what each took.
    pub(super) fn perform(
        &mut self,
        file: &File,
        transfers: &mut [Transfer],
    ) -> Result<(), Failure> {
        for (part, some) in transfers.chunks_mut(ENTRIES as usize).enumerate() {
            // Behind a failure nothing is asked for.
            self.perform_some(file, some).map_err(|failure| Failure {
                index: failure.index + part * ENTRIES as usize,
                ..failure
            })?;
        }
        Ok(())
    }

    fn perform_some(&mut self, file: &File, transfers: &mut [Transfer]) -> Result<(), Failure> {
        if self.is_lost {
            let error = io::Error::other("requests before these were not answered");
            return Err(Failure { index: 0, error });
        }
        let fd = types::Fd(file.as_raw_fd());
        for (index, transfer) in transfers.iter_mut().enumerate() {
            let size = u32::try_from(transfer.memory.len() * GRAIN).expect("less than 4 GiB");
            let memory = transfer.memory.as_mut_ptr().cast::<u8>();
            let entry = match transfer.is_write {
                true => opcode::Write::new(fd, memory, size)
                    .offset(transfer.at)
                    .build(),
                false => opcode::Read::new(fd, memory, size)
                    .offset(transfer.at)
                    .build(),
            };
            let entry = entry.user_data(index as u64);
            // SAFETY: the memory is the transfer's, which is borrowed alone until this function
            // ends; it does not end before every request has been answered, or leaks the memory.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.expect("not more than the ring has room for");
        }
        let began = now();
        let mut failure = None;
        let mut left = transfers.len();
        if let Err(error) = self.submit() {
            // The kernel has these requests, or takes them later: their memory is never given back,
            // and what the ring says from now on may be of them.
            self.is_lost = true;
            for transfer in transfers {
                std::mem::forget(std::mem::take(&mut transfer.memory));
            }
            return Err(Failure { index: 0, error });
        }
        let mut looks = 0;
        while left > 0 {
            let Some(done) = self.ring.completion().next() else {
                looks += 1;
                match looks % LOOKS {
                    0 => std::thread::yield_now(),
                    _ => std::hint::spin_loop(),
                }
                continue;
            };
            left -= 1;
            let index = done.user_data() as usize;
            transfers[index].took = since(began);
            if let Err(error) = outcome(done.result(), transfers[index].size()) {
                failure = failure.or(Some(Failure { index, error }));
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Hands all to the kernel.
    fn submit(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted
                            | io::ErrorKind::WouldBlock
                            | io::ErrorKind::ResourceBusy
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What the kernel says of a request of so many bytes.
fn outcome(result: i32, size: usize) -> io::Result<()> {
    match usize::try_from(result) {
        Ok(done) if done == size => Ok(()),
        Ok(done) => Err(io::Error::other(format!("only {done} of {size} bytes"))),
        Err(_) => Err(io::Error::from_raw_os_error(-result)),
    }
}
