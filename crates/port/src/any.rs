//! Devices and clocks of several types as one.

use crate::{
    Clock, Command, Conflict, Device, DeviceError, DeviceStats, Opening, Outcome, Payload, Shape,
};
use alloc::boxed::Box;
use alloc::rc::Rc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use units::{ByteAddr, Picos, Time, TxId};

/// Any device, with an allocation for each request.
///
/// A file system is compiled anew for each type of device, which takes the compiler longer than
/// anything else here. Tests have many devices and go through this type; what is measured has its
/// own.
pub type AnyDevice = AnyLent<'static>;

/// [`AnyDevice`], for as long as a device is lent. It is the same type to who makes the code, for
/// which no lifetime matters.
#[derive(Clone)]
pub struct AnyLent<'d>(Rc<dyn Erased + 'd>);

impl<'d> AnyLent<'d> {
    /// A device whose type is forgotten. Who wants it back keeps an `Arc` of it, which is a device,
    /// or lends it.
    pub fn new(device: impl Device + 'd) -> Self {
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

impl Device for AnyLent<'_> {
    type Pending<'a>
        = Request<'a>
    where
        Self: 'a;

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

/// Any clock, or one that stands still; with an allocation for each wait.
#[derive(Clone)]
pub enum AnyClock {
    /// Stands at zero; nothing waits for it.
    Still,
    /// Another one, whose type is forgotten.
    Going(GoingClock),
}

/// A clock whose type is forgotten.
#[derive(Clone)]
pub struct GoingClock(Rc<dyn ErasedClock>);

impl AnyClock {
    /// A clock whose type is forgotten.
    pub fn new(clock: impl Clock + 'static) -> Self {
        Self::Going(GoingClock(Rc::new(clock)))
    }
}

type Wait<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// [`Clock`] as a table of functions.
trait ErasedClock {
    fn now(&self) -> Time;
    fn sleep_until(&self, at: Time) -> Wait<'_>;
    fn spend(&self, span: Picos) -> Wait<'_>;
}

impl<C: Clock> ErasedClock for C {
    fn now(&self) -> Time {
        Clock::now(self)
    }

    fn sleep_until(&self, at: Time) -> Wait<'_> {
        Box::pin(Clock::sleep_until(self, at))
    }

    fn spend(&self, span: Picos) -> Wait<'_> {
        Box::pin(Clock::spend(self, span))
    }
}

impl Clock for AnyClock {
    fn now(&self) -> Time {
        match self {
            Self::Still => Time::ZERO,
            Self::Going(clock) => clock.0.now(),
        }
    }

    async fn sleep_until(&self, at: Time) {
        if let Self::Going(clock) = self {
            clock.0.sleep_until(at).await;
        }
    }

    async fn spend(&self, span: Picos) {
        if let Self::Going(clock) = self {
            clock.0.spend(span).await;
        }
    }
}
