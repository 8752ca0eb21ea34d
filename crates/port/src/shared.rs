//! A device that several own, a file system and whoever drives it while it is being opened; and one
//! that is lent.

use crate::device::{Device, Opening, Payload};
use crate::drive::{Drive, Turned};
use crate::{Command, Conflict, DeviceError, DeviceStats, Shape};
use alloc::sync::Arc;
use core::task::{Context, Poll};
use units::{ByteAddr, TxId};

impl<D: Device> Device for Arc<D> {
    type Pending<'a>
        = D::Pending<'a>
    where
        Self: 'a;

    fn shape(&self) -> Shape {
        (**self).shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Self::Pending<'a> {
        (**self).request(command, at, payload, conflict)
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        (**self).open(may_split)
    }

    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        (**self).poll_open(may_split, asked, context)
    }

    fn give_up_open(&self, asked: Opening) {
        (**self).give_up_open(asked);
    }

    fn abandon(&self, tx: TxId) {
        (**self).abandon(tx);
    }

    fn stats(&self) -> DeviceStats {
        (**self).stats()
    }
}

impl<D: Device> Device for &D {
    type Pending<'a>
        = D::Pending<'a>
    where
        Self: 'a;

    fn shape(&self) -> Shape {
        (**self).shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Self::Pending<'a> {
        (**self).request(command, at, payload, conflict)
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        (**self).open(may_split)
    }

    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        (**self).poll_open(may_split, asked, context)
    }

    fn give_up_open(&self, asked: Opening) {
        (**self).give_up_open(asked);
    }

    fn abandon(&self, tx: TxId) {
        (**self).abandon(tx);
    }

    fn stats(&self) -> DeviceStats {
        (**self).stats()
    }
}

impl<D: Drive> Drive for Arc<D> {
    fn turn(&self) -> Turned {
        (**self).turn()
    }
}
