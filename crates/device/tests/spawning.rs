//! Generic code that spawns: its futures are `Send` where the device is `Sync`.

use crate::common::{Place, small_log};
use device::{Image, Pace, RealDevice};
use port::{Device, DeviceError, Drive, Transaction, Turned, TxOptions};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use units::{ByteAddr, TxId};

/// As an executor with threads would take it.
fn spawn<F>(future: F) -> impl Future<Output = F::Output> + Send + 'static
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    future
}

/// Everything that a file system does, on any device: this compiles.
async fn work<D: Device>(device: &D, slot: u64) -> Result<(), DeviceError> {
    let at = |line: u64| ByteAddr::new((slot * 64 + line) * 64);
    let tx = Transaction::begin(device, TxOptions::reserving(3)).await?;
    tx.write(at(0), &[1; 64]).await?;
    tx.write_vectored(&[(at(1), &[2; 64]), (at(2), &[3; 8])])
        .await?;
    tx.commit().await?;
    let tx = device.begin(TxOptions::default()).await?;
    device.write(at(3), &[4; 64], tx).await?;
    device.abort(tx).await?;
    device.write(at(4), &[5; 64], TxId::NONE).await?;
    device.persist().await?;
    let mut lines = [0; 320];
    device.read(at(0), &mut lines).await?;
    assert_eq!((lines[0], lines[64], lines[135], lines[192]), (1, 2, 3, 0));
    device.flush().await?;
    device.drain().await?;
    Ok(())
}

fn start<D>(device: Arc<D>, slot: u64) -> impl Future<Output = Result<(), DeviceError>> + Send
where
    D: Device + Send + Sync + 'static,
    for<'a> D::Pending<'a>: Send,
{
    spawn(async move { work(&*device, slot).await })
}

#[test]
fn a_file_system_over_any_device_runs_on_any_thread() {
    let place = Place::new("spawning");
    let image = place.path("image");
    Image::create(&image, &small_log()).unwrap();
    let device = Arc::new(RealDevice::open(&image, Pace::None).unwrap());
    let left = AtomicUsize::new(4);
    std::thread::scope(|scope| {
        for slot in 0..4 {
            let future = start(Arc::clone(&device), slot);
            let (device, left) = (&device, &left);
            scope.spawn(move || {
                let mut future = pin!(future);
                let mut context = Context::from_waker(Waker::noop());
                // Whoever has nothing to do turns the device for all.
                loop {
                    if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                        left.fetch_sub(1, Ordering::Relaxed);
                        return done.unwrap();
                    }
                    if device.turn() == Turned::Idle {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(left.load(Ordering::Relaxed), 0);
    assert_eq!((device.stats().commits, device.stats().aborts), (4, 4));
    device.engine().audit();
}
