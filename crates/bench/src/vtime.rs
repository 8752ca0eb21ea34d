//! Cost of tasks in virtual time: CPU time of this machine for each event of a task.
//!
//! `bench [--json] vtime [TASKS [EVENTS]]`: so many tasks over a device in memory, each with so
//! many events, in turn a stretch of processor time, a sleep, a load of a line and a store of one.
//! What the device itself takes is told apart by a run of the same commands without tasks.

use crate::{Options, calibrate, cpu_seconds};
use device::{DeviceConfig, DeviceEngine, Pace};
use port::{Clock, Command, Conflict, Device, Engine};
use serde_json::json;
use units::{ByteAddr, Bytes, Picos, Stream, Time, TxId};
use vtime::Machine;

/// Bytes that the lines are of: they stay in the log.
const SPAN: u64 = 1 << 20;

pub fn measure(words: &[&str], options: &Options) -> Result<(), String> {
    let mut numbers = [1_000, 400];
    for (number, word) in numbers.iter_mut().zip(words) {
        *number = crate::number(word)?;
    }
    let [tasks, events] = numbers;
    let steps = calibrate();
    let begun = cpu_seconds();
    let end = run_tasks(tasks, events)?;
    let with_tasks = cpu_seconds() - begun;
    let begun = cpu_seconds();
    run_plain(tasks * events / 2)?;
    let device = cpu_seconds() - begun;
    let each = (with_tasks - device).max(0.0) / (tasks * events) as f64 * 1e9;
    if options.is_json {
        let found = json!({
            "tasks": tasks,
            "events": tasks * events,
            "ns_per_event": with_tasks / (tasks * events) as f64 * 1e9,
            "ns_per_event_beside_device": each,
            "simulated_ps": end.as_picos(),
            "calibration_steps_per_second": steps * 1e6,
        });
        println!("{found}");
        return Ok(());
    }
    println!(
        "{tasks} tasks, {} events: {:.0} ns of CPU each, {each:.0} ns beside the device's own; \
         calibration {steps:.0} M steps/s",
        tasks * events,
        with_tasks / (tasks * events) as f64 * 1e9,
    );
    Ok(())
}

fn device() -> Result<DeviceEngine, String> {
    let config = DeviceConfig::of_preset("cxl", &[]).map_err(|error| error.to_string())?;
    DeviceEngine::in_memory(&config, Pace::None).map_err(|error| error.to_string())
}

fn run_tasks(tasks: u64, events: u64) -> Result<Time, String> {
    let mut machine = Machine::new(device()?, 16);
    for task in 0..tasks {
        let (device, clock) = (machine.device(), machine.clock());
        machine.spawn("bench", async move {
            let mut stream = Stream::new(task, "vtime bench");
            for event in 0..events {
                let at = ByteAddr::new(64 * stream.below(SPAN / 64));
                match event % 4 {
                    0 => clock.spend(Picos::from_nanos(100)).await,
                    1 => clock.sleep_until(clock.now() + Picos::from_micros(1)).await,
                    2 => {
                        let mut line = [0; 64];
                        let read = device.read(at, &mut line).await;
                        read.expect("a sound device reads");
                    }
                    _ => {
                        let written = device.write(at, &[1; 64], TxId::NONE).await;
                        written.expect("a sound device writes");
                    }
                }
            }
        });
    }
    machine.run().map_err(|blocked| blocked.to_string())
}

/// The same commands, one after the other.
fn run_plain(commands: u64) -> Result<(), String> {
    let mut engine = device()?;
    let mut stream = Stream::new(0, "vtime bench");
    let mut finished = Vec::new();
    for number in 0..commands {
        let range = (ByteAddr::new(64 * stream.below(SPAN / 64)), Bytes::new(64));
        let (command, bytes) = match number % 2 {
            0 => (Command::Read, &[][..]),
            _ => (Command::Write(TxId::NONE), &[1; 64][..]),
        };
        let now = Engine::now(&engine);
        let ticket = Engine::submit(&mut engine, now, command, range, Conflict::Wait, bytes);
        let ticket = ticket.map_err(|error| error.to_string())?;
        while Engine::take(&mut engine, ticket, &mut []).is_none() {
            let next = Engine::next_deadline(&mut engine).ok_or("nothing is to come")?;
            Engine::advance(&mut engine, next, &mut finished);
            finished.clear();
        }
    }
    Ok(())
}
