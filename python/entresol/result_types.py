"""The types of results, as the core writes them and as they stand in result files.

`docs/formats/result.md` says what each number is. A test holds these types against results of every
design, so that a name that the core adds or drops is missed here.
"""

from typing import NotRequired, TypedDict

Config = dict[str, dict[str, str]]
"""Effective values by section and key, as text with units."""


class Cores(TypedDict):
    """What cores did."""

    instructions: int
    loads: int
    stores: int
    line_write_backs: int
    branches: int
    mispredicts: int
    squashed_instructions: int
    memory_bound_ps: int
    compute_bound_ps: int
    switch_ps: int
    idle_ps: int
    ipc_micro: int


class Caches(TypedDict):
    """Hits and misses of the CPU's caches."""

    l1i_accesses: int
    l1i_misses: int
    l1d_accesses: int
    l1d_misses: int
    l2_accesses: int
    l2_misses: int
    l3_accesses: int
    l3_misses: int
    l3_write_backs: int
    tlb_walks: int
    l3_mpki_milli: int


class Requests(TypedDict):
    """Where requests below the L3 were served."""

    host_reads: int
    host_writes: int
    ssd_log_hits: int
    ssd_cache_hits: int
    ssd_buffer_hits: int
    ssd_misses: int
    ssd_merged_misses: int
    ssd_unmapped: int
    ssd_store_misses: int
    ssd_writes: int
    write_backs_ssd: int
    write_backs_ssd_average_ps: int
    write_backs_host: int
    write_backs_clean: int
    delayed: int
    reissued: int


class Amat(TypedDict):
    """Times of accesses that miss the L3, and the parts of their mean."""

    paper_accesses: int
    paper_ps: int
    host_dram_ps: int
    link_ps: int
    inter_socket_ps: int
    index_ps: int
    ssd_dram_ps: int
    flash_ps: int
    stall_ps: int
    l3_queue_ps: int
    all_accesses: int
    all_ps: int
    p50_ps: int
    p99_ps: int
    p999_ps: int


class Flash(TypedDict):
    """Pages read and programmed, by cause."""

    read_pages: int
    program_pages: int
    host_read_pages: int
    host_program_pages: int
    coalescing_read_pages: int
    gc_read_pages: int
    gc_program_pages: int
    erased_blocks: int
    write_amplification_milli: int
    written_bytes: int
    average_read_latency_ps: int
    padding_pages: NotRequired[int]
    """Only if a flash page holds several pages."""


class Activity(TypedDict):
    """What each mechanism did."""

    log_fills: int
    compactions: int
    pages_compacted: int
    compaction_average_ps: int
    index_peak_bytes: int
    gc_invocations: int
    data_cache_turnover_milli: int
    cold_miss_share_milli: int
    promotions: int
    demotions: int
    promotion_recalls: int
    reads_before_page: int
    fills_given_up: int
    prefetches: int
    useful_prefetches: int
    late_prefetches: int
    useless_prefetches: int
    hint_scans: int
    hint_faults: int
    promotions_rate_limited: int
    host_cache_fills: int
    host_cache_write_backs: int
    host_cache_conflicts: int
    pinned_pages: int
    pinned_offers: int


class Os(TypedDict):
    """What the simulated operating system did."""

    switches_long_delay: int
    switches_slice: int
    switches_blocked: int
    retries: int
    retries_in_closed_form: int
    syscalls: int
    data_wakes: int


class Link(TypedDict):
    """Traffic on the CXL link."""

    to_device_bytes: int
    to_host_bytes: int
    to_device_busy_ps: int
    to_host_busy_ps: int


class Numa(TypedDict):
    """What was in which of several nodes."""

    host_reads_local: int
    host_reads_remote: int
    ssd_reads_local: int
    ssd_reads_remote: int
    promotions_home: int
    promotions_elsewhere: int
    page_moves: int
    page_moves_refused: int


class Thread(TypedDict):
    """A thread of the measured part."""

    thread: int
    running_ps: int
    finished_ps: int


class Statistics(TypedDict):
    """Everything that was counted in the measured part."""

    cores: Cores
    caches: Caches
    requests: Requests
    amat: Amat
    latency_cdf: list[list[int]]
    """Pairs of a latency in picoseconds and how many accesses took at most so long."""
    flash: Flash
    activity: Activity
    os: Os
    link: Link
    numa: Numa
    threads: list[Thread]


class Program(TypedDict):
    """A program of a run; several in a co-run."""

    trace: str
    threads: int
    instructions: int
    execution_time_ps: int
    alone_ps: NotRequired[int]
    """Of a program of a co-run, in a summary: its time alone on the same machine."""
    slowdown_milli: NotRequired[int]


class Bottleneck(TypedDict):
    """The largest part of the time of all cores, and what shows it."""

    what: str
    share_milli: int
    evidence: str


class Measured(TypedDict):
    """What a run and a window have in common."""

    trace: str
    design: str
    fidelity: list[str]
    mode: str
    mode_error_milli: int
    threads: int
    seed: int
    config_digest: str
    instructions: int
    warmup_instructions: int
    execution_time_ps: int
    warnings: list[str]
    bottleneck: Bottleneck | None
    statistics: Statistics
    config: Config


class DeviceWork(TypedDict):
    """What one kind of the firmware's work took."""

    work: str
    count: int
    mean_ps: int
    sd_ps: int
    sd_of_999_ps: int
    """Without the slowest in a thousand."""
    p50_ps: int
    p99_ps: int


class MeasuredDevice(TypedDict):
    """A device whose firmware was measured."""

    source: str
    flash: str
    work: list[DeviceWork]
    clock: NotRequired[str]
    cycles: NotRequired[str]


class RunResult(Measured):
    """One capture on one design: an element of `runs`."""

    programs: list[Program]
    device: NotRequired[MeasuredDevice]


class Pace(TypedDict):
    """How fast a thread was in a window, and how much it has to do in the whole run."""

    thread: int
    instructions: int
    quota: int
    executed: int
    active_ps: int


class WindowResult(Measured):
    """One window of a capture on one design."""

    window: int
    pace: list[Pace]
    placement: NotRequired[int]
    """In `samples.json`: the placement of pages on dies."""


class CaptureOrigin(TypedDict):
    """A capture, as a result names it."""

    name: str
    digest: str
    threads: int
    instructions: int


class Provenance(TypedDict):
    """What was run, by what."""

    entresol: str
    machine: str
    audit: bool
    traces: list[CaptureOrigin]


class Summary(TypedDict):
    """`summary.json`."""

    schema: int
    provenance: Provenance
    runs: list[RunResult]


class Access(TypedDict):
    """A read from the device; instants on the simulated clock, then parts of its time."""

    line: int
    is_page: bool
    die: int
    core: int | None
    answer: str
    served: str
    first_ps: int
    issued_ps: int
    sent_ps: int
    arrived_ps: int
    answered_ps: int
    done_ps: int
    hop_there_ps: int
    hop_back_ps: int
    stall_ps: int
    index_ps: int
    ssd_dram_ps: int
    flash_ps: int


class Turn(TypedDict):
    """A thread on a core, and why it left."""

    core: int
    thread: int
    from_ps: int
    to_ps: int
    leave: str


class FlashOperation(TypedDict):
    """An operation of a die."""

    die: int
    kind: str
    submitted_ps: int
    started_ps: int
    finished_ps: int


class Dropped(TypedDict):
    """Records that were left out beyond the limit."""

    accesses: int
    turns: int
    flash: int


class Recorded(TypedDict):
    """What happened in a span of a run, and its slowest reads."""

    accesses: list[Access]
    turns: list[Turn]
    flash: list[FlashOperation]
    dropped: Dropped
    slowest: list[Access]
    execution_time_ps: int
    warnings: list[str]


class Estimates(TypedDict):
    """What windows say of one design on one capture; femtoseconds an instruction."""

    trace: str
    design: str
    instruction_fs: int | None
    instruction_half_width_fs: int | None
    speedup_milli: int | None
    speedup_low_milli: int | None
    speedup_high_milli: int | None
    spread_milli: int | None
    amat_ps: int
    amat_all_ps: int
    program_pages_per_million_milli: int | None
    warnings: list[str]


class SampleProvenance(TypedDict):
    """Which windows were measured, of what."""

    entresol: str
    machine: str
    audit: bool
    windows: int
    window_instructions: int
    seeds: list[int]
    placements: list[int]


class Samples(TypedDict):
    """`samples.json`."""

    schema: int
    kind: str
    provenance: SampleProvenance
    estimates: list[Estimates]
    runs: list[WindowResult]


class GainShare(TypedDict):
    """What one choice is worth, as factors in millionths."""

    name: str
    title: str
    first_in_micro: int
    last_in_micro: int
    shapley_micro: int
    shapley_low_micro: int | None
    shapley_high_micro: int | None


class GainConfiguration(TypedDict):
    """The two runs under one set of choices."""

    on: list[str]
    reference_digest: str
    reference_ps: int
    design_digest: str
    design_ps: int
    command: str


class GainProvenance(TypedDict):
    """What was explained, and how."""

    entresol: str
    machine: str
    trace: str
    digest: str
    by: str
    is_artifact: bool
    mode: str
    mode_error_milli: int
    orders: int
    is_exact: bool


class Gain(TypedDict):
    """`gain.json`."""

    schema: int
    kind: str
    provenance: GainProvenance
    trace: str
    design: str
    reference: str
    speedup_without_micro: int
    speedup_with_all_micro: int
    interaction_micro: int
    shares: list[GainShare]
    configurations: list[GainConfiguration]


class AssumptionFactors(TypedDict):
    """What a change multiplies the design's time and its speedup by, in millionths."""

    time_micro: int
    speedup_micro: int
    is_overturning: bool


class AssumptionChange(AssumptionFactors):
    """A parameter at another value."""

    parameter: str
    value: str
    changed: str
    is_doubled: bool


class OpenDecision(AssumptionFactors):
    """A decision that the paper leaves open, turned on."""

    decision: str
    title: str
    set: list[str]


class NotTried(TypedDict):
    """A change that is no valid configuration."""

    parameter: str
    changed: str
    why: str


class AssumptionsProvenance(TypedDict):
    """What was asked, and the command that asks again."""

    entresol: str
    machine: str
    digest: str
    command: str


class Assumptions(TypedDict):
    """`assumptions.json`."""

    schema: int
    kind: str
    provenance: AssumptionsProvenance
    trace: str
    design: str
    reference: str
    speedup_micro: int
    headline: str
    warnings: list[str]
    moved: list[AssumptionChange]
    open: list[OpenDecision]
    farther: list[AssumptionChange]
    not_tried: list[NotTried]


class SweepPoint(TypedDict):
    """A point of a sweep: where it is, its name in the store, and why it has no result."""

    point: int
    trace: str
    design: str
    values: dict[str, str | int | None]
    key: str | None
    error: str | None


class SweepProvenance(TypedDict):
    """The sweep and its captures."""

    entresol: str
    sweep: str
    sweep_digest: str
    traces: list[CaptureOrigin]


class SweepSummary(TypedDict):
    """`sweep.json`."""

    schema: int
    kind: str
    provenance: SweepProvenance
    varied: list[str]
    points: list[SweepPoint]
    failures: int
