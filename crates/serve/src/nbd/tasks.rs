//! Requests that are with the device.

use super::reply::ROOM;
use super::request::{Command, Cookie, Refusal, Request};
use super::wire::Errno;
use crate::pieces::{PIECE, others_turn, pieces};
use crate::serving::Driver;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use port::{Acknowledge, Device, DeviceError, Drive};
use units::{ByteAddr, Bytes, Picos};

static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// What has become of a request.
pub(super) struct Done {
    /// Whose it was.
    pub connection: usize,
    pub cookie: Cookie,
    pub outcome: Result<Answer, Refusal>,
    /// Bytes that were read, behind room for the answer's head; else nobody needs it any more.
    pub buffer: Vec<u8>,
    /// What it counted for with its connection.
    pub weight: usize,
}

/// How a request ended that was done.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// Bytes from here on.
    Read(ByteAddr),
    Done,
}

/// Futures of requests, and who turns the device for them.
pub(super) struct Tasks<'d, D> {
    device: &'d D,
    driver: Driver,
    pending: Vec<Pin<Box<dyn Future<Output = Done> + 'd>>>,
}

impl<'d, D: Device + Drive> Tasks<'d, D> {
    pub fn new(device: &'d D) -> Self {
        Self {
            device,
            driver: Driver::new(),
            pending: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Hands a request to the device: now, for the device serves in the order of first polls.
    /// `spare` is a buffer for what is read.
    pub fn submit(
        &mut self,
        connection: usize,
        request: Request,
        weight: usize,
        spare: Vec<u8>,
    ) -> Option<Done> {
        let device = self.device;
        let mut task = Box::pin(async move {
            let cookie = request.cookie;
            let mut buffer = spare;
            let outcome = perform(device, request.command, &mut buffer).await;
            Done {
                connection,
                cookie,
                outcome: outcome.map_err(|error| refusal(cookie, &error)),
                buffer,
                weight,
            }
        });
        match task
            .as_mut()
            .poll(&mut Context::from_waker(self.driver.waker()))
        {
            Poll::Ready(done) => Some(done),
            Poll::Pending => {
                self.pending.push(task);
                None
            }
        }
    }

    /// How long turning the device gets nobody on.
    pub fn rest(&self) -> Picos {
        self.driver.early()
    }

    /// Turns the device, and polls everything if something was woken.
    pub fn poll(&mut self, finished: &mut Vec<Done>) {
        if !self.driver.turn(self.device, self.pending.len()) {
            return;
        }
        let mut context = Context::from_waker(self.driver.waker());
        self.pending
            .retain_mut(|task| match task.as_mut().poll(&mut context) {
                Poll::Ready(done) => {
                    finished.push(done);
                    false
                }
                Poll::Pending => true,
            });
    }
}

async fn perform(
    device: &impl Device,
    command: Command,
    buffer: &mut Vec<u8>,
) -> Result<Answer, DeviceError> {
    match command {
        Command::Read { at, size } => {
            // Bounded by the largest payload.
            buffer.resize(ROOM + size.get() as usize, 0);
            device.read_blocks(at, &mut buffer[ROOM..]).await?;
            return Ok(Answer::Read(at));
        }
        Command::Write { at, bytes, when } => {
            *buffer = bytes;
            device.write_blocks(at, buffer, when).await?;
        }
        Command::Flush => {
            device.flush().await?;
        }
        Command::Trim { at, size, when } => {
            for (at, size) in pieces(at, size, PIECE) {
                device.trim(at, size).await?;
                others_turn().await;
            }
            persist(device, when).await?;
        }
        Command::Zero { at, size, when } => {
            for (at, size) in pieces(at, size, Bytes::new(ZEROES.len() as u64)) {
                let zeroes = &ZEROES[..size.get() as usize];
                device
                    .write_blocks(at, zeroes, Acknowledge::Accepted)
                    .await?;
                others_turn().await;
            }
            persist(device, when).await?;
        }
    }
    Ok(Answer::Done)
}

async fn persist(device: &impl Device, when: Acknowledge) -> Result<(), DeviceError> {
    if when == Acknowledge::Durable {
        device.flush().await?;
    }
    Ok(())
}

fn refusal(cookie: Cookie, error: &DeviceError) -> Refusal {
    let errno = match error {
        DeviceError::OutOfRange { .. } | DeviceError::NotBlocks { .. } => Errno::Invalid,
        DeviceError::Locked { .. } | DeviceError::LogFull | DeviceError::ReadOnly => {
            Errno::NotPermitted
        }
        DeviceError::Forked | DeviceError::Stopped { .. } => Errno::Shutdown,
        DeviceError::UnknownTransaction { .. }
        | DeviceError::TooManyTransactions { .. }
        | DeviceError::NoTransactions { .. }
        | DeviceError::Lost { .. } => Errno::Io,
    };
    Refusal {
        cookie,
        errno,
        message: error.to_string(),
    }
}
