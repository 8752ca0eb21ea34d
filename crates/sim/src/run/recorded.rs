//! A run that is recorded: for the timeline, and for where a slow load's nanoseconds went.

use super::Prepared;
use crate::error::SimError;
use crate::recorder::{AccessRecord, Leave, Recorder, Recording, TurnRecord};
use crate::result::RunResult;
use crate::simulation::{Progress, Simulation};
use firmware::{Answer, Served};
use host::thread::TracedThread;
use nand::{Completion, Kind};
use serde_json::{Value, json};
use units::{DieId, FlashGeometry};

impl Prepared {
    /// Runs as [`Prepared::execute`], with the same result, and gives what was recorded as JSON.
    ///
    /// # Errors
    /// As [`Prepared::execute`].
    pub fn execute_recorded(
        &self,
        recording: Recording,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(RunResult, Value), SimError> {
        self.must_be_detailed("a recording of what happened")?;
        let mut simulation = self.start();
        let warmed = simulation.warm_up(&self.warm_up(), observe)?;
        simulation.fabric.recorder = Some(Box::new(Recorder::new(recording)));
        let end = simulation.run(observe)?;
        simulation.audit(end);
        let result = RunResult::new(self, &simulation, warmed, end);
        Ok((result, self.recorded(&mut simulation)))
    }

    fn recorded(&self, simulation: &mut Simulation<TracedThread>) -> Value {
        let geometry = self.config.geometry();
        let recorder = simulation
            .fabric
            .recorder
            .take()
            .expect("the run was recorded");
        let operations = &recorder.operations;
        json!({
            "accesses": recorder.accesses.records.iter().map(access).collect::<Value>(),
            "turns": recorder.turns.records.iter().map(turn).collect::<Value>(),
            "flash": operations
                .records
                .iter()
                .map(|operation| flash_operation(operation, &geometry))
                .collect::<Value>(),
            "dropped": {
                "accesses": recorder.accesses.dropped,
                "turns": recorder.turns.dropped,
                "flash": operations.dropped,
            },
            "slowest": recorder.slowest.iter().map(access).collect::<Value>(),
        })
    }
}

fn access(record: &AccessRecord) -> Value {
    json!({
        "line": record.line.get(),
        "is_page": record.is_page,
        "die": record.die.map(DieId::get),
        "core": record.core.map(units::CoreId::get),
        "answer": match record.answer {
            Answer::Delay => "delay",
            _ => "data",
        },
        "served": served(record.served),
        "first_ps": record.first.as_picos(),
        "issued_ps": record.issued.as_picos(),
        "sent_ps": record.sent.as_picos(),
        "arrived_ps": record.arrived.as_picos(),
        "answered_ps": record.answered.as_picos(),
        "done_ps": record.done.as_picos(),
        "hop_there_ps": record.hop.there.get(),
        "hop_back_ps": record.hop.back.get(),
        "stall_ps": record.breakdown.stall.get(),
        "index_ps": record.breakdown.index.get(),
        "ssd_dram_ps": record.breakdown.dram.get(),
        "flash_ps": record.breakdown.flash.get(),
    })
}

fn served(served: Served) -> &'static str {
    match served {
        Served::LogHit => "log hit",
        Served::CacheHit => "data cache hit",
        Served::BufferHit => "buffer hit",
        Served::Flash => "miss: flash read",
        Served::MergedMiss => "miss: merged",
        Served::Unmapped => "unmapped",
        Served::Write => "write",
    }
}

fn turn(record: &TurnRecord) -> Value {
    json!({
        "core": record.core.get(),
        "thread": record.thread.get(),
        "from_ps": record.from.as_picos(),
        "to_ps": record.to.as_picos(),
        "leave": match record.leave {
            Leave::LongDelay => "long delay",
            Leave::Slice => "time slice",
            Leave::Blocked => "waits for a thread",
            Leave::End => "end",
        },
    })
}

fn flash_operation(operation: &Completion, geometry: &FlashGeometry) -> Value {
    let kind = match operation.operation.kind() {
        Kind::Read => "read",
        Kind::Program => "program",
        Kind::Erase => "erase",
    };
    json!({
        "die": geometry.die_of(operation.operation.block(geometry)).get(),
        "kind": kind,
        "submitted_ps": operation.submitted.as_picos(),
        "started_ps": operation.started.as_picos(),
        "finished_ps": operation.finished.as_picos(),
    })
}
