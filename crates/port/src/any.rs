//! Devices of several types as one.

use crate::{
    Command, Conflict, Device, DeviceError, DeviceStats, Opening, Outcome, Payload, Shape,
};
use alloc::boxed::Box;
use alloc::rc::Rc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use units::{ByteAddr, TxId};

/// Any device, with an allocation for each request.
///
/// A file system is compiled anew for each type of device, which takes the compiler longer than
/// anything else here. Tests have many devices and go through this type; what is measured has its
/// own.
#[derive(Clone)]
pub struct AnyDevice(Rc<dyn Erased>);

impl AnyDevice {
    /// A device whose type is forgotten. Who wants it back keeps an `Rc` of it, which is a device.
    pub fn new(device: impl Device + 'static) -> Self {
        Self(Rc::new(device))
    }
}

type Request<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// [`Device`] as a table of functions.
trait Erased {
    fn shape(&self) -> Shape;
    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Request<'a>;
    fn open(&self, may_split: bool) -> Result<TxId, DeviceError>;
    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>>;
    fn give_up_open(&self, asked: Opening);
    fn abandon(&self, tx: TxId);
    fn stats(&self) -> DeviceStats;
}

impl<D: Device> Erased for D {
    fn shape(&self) -> Shape {
        Device::shape(self)
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Request<'a> {
        Box::pin(Device::request(self, command, at, payload, conflict))
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        Device::open(self, may_split)
    }

    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        Device::poll_open(self, may_split, asked, context)
    }

    fn give_up_open(&self, asked: Opening) {
        Device::give_up_open(self, asked);
    }

    fn abandon(&self, tx: TxId) {
        Device::abandon(self, tx);
    }

    fn stats(&self) -> DeviceStats {
        Device::stats(self)
    }
}

impl Device for AnyDevice {
    type Pending<'a> = Request<'a>;

    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Request<'a> {
        self.0.request(command, at, payload, conflict)
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.0.open(may_split)
    }

    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        self.0.poll_open(may_split, asked, context)
    }

    fn give_up_open(&self, asked: Opening) {
        self.0.give_up_open(asked);
    }

    fn abandon(&self, tx: TxId) {
        self.0.abandon(tx);
    }

    fn stats(&self) -> DeviceStats {
        self.0.stats()
    }
}
