//! What programs and checkers work on, as one type: a file system and what serves it to programs
//! are compiled for it once.

use super::noting::Noting;
use crate::crash::Disk;
use device::RealDevice;
use port::{
    Command, Conflict, Device, DeviceError, DeviceStats, Drive, Opening, Outcome, Payload, Shape,
    Turned,
};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use units::{ByteAddr, TxId};

/// A device of a trial.
pub enum AppDevice {
    /// The program's.
    Noting(Box<Noting<RealDevice>>),
    /// A checker's: what a power cut has left.
    Disk(Disk),
}

/// A request of an [`AppDevice`].
pub enum AppRequest<'a> {
    /// Of the program's.
    Noting(<Noting<RealDevice> as Device>::Pending<'a>),
    /// Of a checker's.
    Disk(<Disk as Device>::Pending<'a>),
}

impl Future for AppRequest<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        match &mut *self {
            Self::Noting(request) => Pin::new(request).poll(context),
            Self::Disk(request) => Pin::new(request).poll(context),
        }
    }
}

impl Device for AppDevice {
    type Pending<'a> = AppRequest<'a>;

    fn shape(&self) -> Shape {
        match self {
            Self::Noting(device) => device.shape(),
            Self::Disk(disk) => disk.shape(),
        }
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> AppRequest<'a> {
        match self {
            Self::Noting(device) => {
                AppRequest::Noting(device.request(command, at, payload, conflict))
            }
            Self::Disk(disk) => AppRequest::Disk(disk.request(command, at, payload, conflict)),
        }
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        match self {
            Self::Noting(device) => device.open(may_split),
            Self::Disk(disk) => disk.open(may_split),
        }
    }

    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        match self {
            Self::Noting(device) => device.poll_open(may_split, asked, context),
            Self::Disk(disk) => disk.poll_open(may_split, asked, context),
        }
    }

    fn give_up_open(&self, asked: Opening) {
        match self {
            Self::Noting(device) => device.give_up_open(asked),
            Self::Disk(disk) => disk.give_up_open(asked),
        }
    }

    fn abandon(&self, tx: TxId) {
        match self {
            Self::Noting(device) => device.abandon(tx),
            Self::Disk(disk) => disk.abandon(tx),
        }
    }

    fn stats(&self) -> DeviceStats {
        match self {
            Self::Noting(device) => device.stats(),
            Self::Disk(disk) => disk.stats(),
        }
    }
}

impl Drive for AppDevice {
    fn turn(&self) -> Turned {
        match self {
            Self::Noting(device) => device.turn(),
            Self::Disk(disk) => disk.turn(),
        }
    }
}
