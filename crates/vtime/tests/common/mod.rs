//! A device for tasks, and polls that nobody needs.
#![allow(dead_code, reason = "not every test needs everything")]

use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Pace};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;

/// A small device with a log of 64 KiB, changed by `more`.
pub fn device_with(more: &[&str]) -> DeviceEngine {
    let sets = [
        "nand.channels=4",
        "nand.chips_per_channel=2",
        "nand.dies_per_chip=1",
        "nand.planes_per_die=1",
        "nand.blocks_per_plane=32",
        "nand.pages_per_block=16",
        "ftl.over_provisioning=40%",
        "ssd.log.size=64KiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=132KiB",
    ];
    let layers: Vec<Layer> = sets
        .iter()
        .chain(more)
        .map(|set| Layer::assignment(set).unwrap())
        .collect();
    let config = DeviceConfig::of_preset("cxl", &layers).unwrap();
    DeviceEngine::in_memory(&config, Pace::None).unwrap()
}

pub fn device() -> DeviceEngine {
    device_with(&[])
}

/// What the tasks write down.
pub type Notes<T> = Rc<RefCell<Vec<T>>>;

/// Wakes the task again after each poll, a few times: spurious polls.
pub async fn often<T>(spurious: bool, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut wakes = if spurious { 5 } else { 0 };
    poll_fn(|context| {
        let poll = future.as_mut().poll(context);
        if poll.is_pending() && wakes > 0 {
            wakes -= 1;
            context.waker().wake_by_ref();
        }
        poll
    })
    .await
}
