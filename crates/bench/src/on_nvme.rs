//! A run whose device is an NVMe device: what an access costs in real time.
//!
//! `bench [--json] on-nvme DEVICE TRACE MACHINE DESIGN [SETTING…]` overwrites the device. The guest
//! of `make e2e` runs it on our own target.
#![allow(
    clippy::disallowed_methods,
    reason = "what is measured is time on the wall"
)]

use crate::{Options, spec, text};
use inloop::nvme::{Dialect, Door, Nvme};
use serde_json::json;
use sim::in_loop::DeviceSource;
use sim::run::Prepared;
use soc::{DeviceTime, Timed};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use units::Picos;

/// Measures and prints.
pub fn measure(
    device: &str,
    trace: &str,
    machine: &str,
    design: &str,
    settings: &[&str],
    options: &Options,
) -> Result<(), String> {
    let prepared = Prepared::new(spec(trace, machine, design, settings)).map_err(text)?;
    let path = Path::new(device);
    let nvme = Nvme::open(path, Dialect::Entresol, Door::of(path)).map_err(text)?;
    let source = DeviceSource::Device(Arc::new(Mutex::new(nvme)));
    let begun = Instant::now();
    let outcome = prepared.execute_on(&source, &mut |_| true);
    let (result, tape) = outcome.map_err(text)?;
    let seconds = begun.elapsed().as_secs_f64();
    let tape = tape.ok_or("the design has no device")?;
    let count = |what| {
        let is_so = |(timed, _): &&(Timed, Picos)| *timed == Timed::Device(what);
        tape.times.iter().filter(is_so).count()
    };
    let from_flash = count(DeviceTime::Miss);
    let accesses = from_flash + count(DeviceTime::Hit) + count(DeviceTime::Log);
    let again = prepared.execute_on(&DeviceSource::Recorded(tape), &mut |_| true);
    let again = again.map_err(text)?.0;
    let (result, again) = (result.json(), again.json());
    if result["statistics"] != again["statistics"] {
        return Err("the recording does not repeat the run".to_owned());
    }
    if options.is_json {
        let report = json!({
            "accesses": accesses,
            "from_flash": from_flash,
            "seconds": seconds,
            "execution_time_ps": result["execution_time_ps"],
            "work": result["device"]["work"],
        });
        println!("{report}");
    } else {
        println!(
            "{design}: {accesses} accesses behind warm-up, {from_flash} of them from flash, \
             {seconds:.3} s with it; its recording repeats it"
        );
    }
    Ok(())
}
