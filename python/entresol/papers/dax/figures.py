"""The figures of the thesis on transparent DAX."""

from __future__ import annotations

from entresol.figures.entry import NO_MEAN, Figure
from entresol.papers.dax import adapting, beyond, by_log, group_commit, measured, reasons, sweeps
from entresol.papers.dax.runs import PIPELINED, POSTGRESQL, ROCKSDB, VALKEY

GAIN = "Operations per second over those without DAX; higher is better."
THRESHOLDS = (f"{GAIN} F = 5. Hollow: what the text says of single points. `everysec`, `no`, "
              "`fsync` and `fsync=off` are in Figures 6.2, 6.4, 6.7 and 6.11.")  # fmt: skip
AFTERS = f"{GAIN} U = 60, D = 30."
RATES = ("Medians of entresol bench dax on a machine. Here a FUSE request costs 20 to 50 us, which "
         "the thesis's kernel has not.")  # fmt: skip

FIGURES = (
    Figure("4.1", "Oscillation of decisions",
           "M of one range at each sync, and what is decided. A page is synced behind each write "
           "for ten seconds, then behind each fortieth for twenty, and so on; counts last for 3 "
           "and 4 s. The thesis's is a drawing.", NO_MEAN,
           beyond.decisions, beyond.draw_decisions, benches=beyond.decision_wants),
    Figure("6.1", "Valkey: U, D and G", THRESHOLDS, NO_MEAN, sweeps.of_thresholds(VALKEY),
           sweeps.draw_thresholds, benches=sweeps.threshold_wants(VALKEY),
           why=reasons.thresholds(VALKEY)),
    Figure("6.2", "Valkey, one client: rates", RATES, NO_MEAN, measured.of("6.2"), measured.draw,
           lacks=measured.lacks),
    Figure("6.3", "Valkey with a pipeline of 10: U, D and G", THRESHOLDS, NO_MEAN,
           sweeps.of_thresholds(PIPELINED), sweeps.draw_thresholds,
           benches=sweeps.threshold_wants(PIPELINED), why=reasons.thresholds(PIPELINED)),
    Figure("6.4", "Valkey, one client with a pipeline of 10: rates", RATES, NO_MEAN,
           measured.of("6.4"), measured.draw, lacks=measured.lacks),
    Figure("6.5", "Valkey: F", AFTERS, NO_MEAN, sweeps.of_afters(VALKEY, PIPELINED),
           sweeps.draw_afters, benches=sweeps.after_wants((VALKEY, PIPELINED)),
           why=reasons.afters),
    Figure("6.6", "PostgreSQL: U, D and G", THRESHOLDS, NO_MEAN, sweeps.of_thresholds(POSTGRESQL),
           sweeps.draw_thresholds, benches=sweeps.threshold_wants(POSTGRESQL),
           why=reasons.thresholds(POSTGRESQL)),
    Figure("6.7", "PostgreSQL: rates", RATES, NO_MEAN, measured.of("6.7"), measured.draw,
           lacks=measured.lacks),
    Figure("6.8", "PostgreSQL: F", AFTERS, NO_MEAN, sweeps.of_afters(POSTGRESQL),
           sweeps.draw_afters, benches=sweeps.after_wants((POSTGRESQL,))),
    Figure("6.9", "RocksDB: U, D and G", THRESHOLDS, NO_MEAN, sweeps.of_thresholds(ROCKSDB),
           sweeps.draw_thresholds, benches=sweeps.threshold_wants(ROCKSDB),
           why=reasons.thresholds(ROCKSDB)),
    Figure("6.10", "RocksDB: F", AFTERS, NO_MEAN, sweeps.of_afters(ROCKSDB),
           sweeps.draw_afters, benches=sweeps.after_wants((ROCKSDB,))),
    Figure("6.11", "RocksDB: rates", RATES, NO_MEAN, measured.of("6.11"), measured.draw,
           lacks=measured.lacks),
    Figure("flush", "What a flush costs",
           f"{GAIN} Where one curve shows, both policies gain the same (G = 9). Dashed: the "
           "published number, whose drive's cost of a flush is unknown. Not of the thesis.",
           NO_MEAN, beyond.flushes, beyond.draw_flushes, benches=beyond.flush_wants, label="Flush"),
    Figure("clients", "Clients that share a sync",
           f"{GAIN} Valkey always, as a closed loop: the recording of one client says what the "
           "server's log and a turn take, processor times what each client more does, and the "
           "number of requests to a sync follows. Where one curve shows, both are the same. Eight "
           "clients gain more than four: without DAX four wait while the others are served, and "
           "a light sync lets none wait. Dashed: the published number, whose clients are not "
           "told. Not of the thesis.", NO_MEAN,
           group_commit.group_commit, group_commit.draw, benches=group_commit.wants,
           why=group_commit.why, label="Clients"),
    Figure("wait", "Upgrades that wait",
           f"{GAIN} The thesis's upgrades are done by a work queue later, of which it gives no "
           "time; ours in the sync that decides. Dashed: the published numbers of each G.", NO_MEAN,
           beyond.waits, beyond.draw_waits, benches=beyond.wait_wants, label="Wait"),
    Figure("unchanged", "What gains nothing",
           "Valkey with appendfsync=everysec and no, PostgreSQL with wal_sync_method=fsync and "
           "fsync=off, RocksDB with use_fsync and fillseq: as in the thesis, whose text says so of "
           "Figures 6.1, 6.6, 6.8 and 6.9. Beside it ByteFS with a log, where metadata are durable "
           "by bytes: there fsync is a light sync, too.", NO_MEAN,
           beyond.unchanged, beyond.draw_unchanged, benches=beyond.unchanged_wants,
           label="Unchanged"),
    Figure("policies", "A policy that looks ahead, and one that adapts",
           f"{GAIN} Not of the thesis.", NO_MEAN,
           beyond.policies, beyond.draw_policies, benches=beyond.policy_wants, label="Policies"),
    Figure("log", "The log as persistent memory",
           "The thesis's policy, G = 9. A window of 64 MiB below the Ext4-like; the log of ByteFS "
           f"that keeps {by_log.battery_backed() / 2**20:.2f} MiB by a battery, and page buffers "
           "that are lost with the power; the same drives without either, and without DAX. "
           "Throughput and syncs are of what was measured; pages of flash and their syncs of the "
           "whole play, in which the database starts and ends. Not of the thesis.", NO_MEAN,
           by_log.log, by_log.draw, benches=by_log.wants, label="Log"),
    Figure("memory", "Device memory that policies hold",
           "A log with a synced append each 10 ms, a new one each mebibyte, beside ten pages a "
           "second anywhere in a file of 8 MiB, each fourth synced. Memory at the end of the load. "
           "With G = 9 a sync takes the same with the thesis's policy and with that which looks "
           "ahead, and one curve shows. Not of the thesis.", NO_MEAN,
           beyond.memory, beyond.draw_memory, benches=beyond.memory_wants, label="Memory"),
    Figure("reactivity", "How soon a policy follows a program",
           "A page is synced behind each write for ten seconds, then behind each fortieth for "
           "twenty, four times. Upgrades wait for 10 ms. Means of the changes that something came "
           "of; last, of how many. Not of the thesis, whose chapter 7 asks for it.", NO_MEAN,
           adapting.reactivity, adapting.draw_reactivity, benches=adapting.reactivity_wants,
           label="Reactivity"),
    Figure("decay", "For how long counts last",
           "G = 4; a write counts twice as long as a write-back. Last: the log and table of the "
           "figure of memory, for 60 s. Not of the thesis, whose chapter 7 asks for it.", NO_MEAN,
           adapting.decay, adapting.draw_decay, benches=adapting.decay_wants, label="Decay"),
)  # fmt: skip
