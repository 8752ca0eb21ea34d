//! A NBD server of memory, beside which `scripts/nbd-bench` puts that of nbdkit.

use device::Ram;
use port::Device;
use serve::nbd::{Export, Limits, serve};
use serve::{Address, Control, Listener};
use units::Bytes;

/// Serves so many bytes until killed, or until its standard input ends.
pub fn memory(place: &str, size: &str) -> Result<(), String> {
    let size: Bytes = size.parse().map_err(|error| format!("{size}: {error}"))?;
    let device = Ram::new(size, Bytes::from_kib(4));
    let export = Export::new("memory", device.shape()).map_err(|error| error.to_string())?;
    let address = Address::parse(place, false).map_err(|error| error.to_string())?;
    let listener = Listener::bind(&address).map_err(|error| error.to_string())?;
    println!("{}", listener.place());
    let served = serve(&device, listener, export, Limits::default(), || {
        Control::Continue
    })
    .map_err(|error| error.to_string())?;
    println!("{served:?}");
    Ok(())
}
