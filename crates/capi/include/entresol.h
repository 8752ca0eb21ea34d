/*
 * A memory-semantic SSD of another process, through shared memory.
 *
 * Start a server with `entresol device serve IMAGE --shm unix:PATH`, connect to PATH, and link with
 * -lentresol_shm (`cargo build --release -p entresol-capi` makes it). See docs/shm.md.
 *
 * Rules
 * - Several threads may use one device at a time; nobody may use it while or after it is closed.
 * - A device is of the process that connected. After a fork the child gets ENTRESOL_FORKED from every
 *   call, and connects anew. It closes its copy with entresol_close, which leaves the parent's alone.
 * - A function that gives an int gives ENTRESOL_OK or the reason of the failure; the sentence that
 *   says what, where and what to do is entresol_error().
 * - Calls wait: they look for the answer for a while, then sleep until it is there.
 * - Where a result is stored (times, tx, parts), null means that it is not wanted. On failure nothing
 *   is stored there; what a failed read leaves in its buffer is not defined.
 * - A buffer has the named size and is changed by nobody else during the call.
 */
#ifndef ENTRESOL_H
#define ENTRESOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to a device. */
typedef struct entresol_device entresol_device;

enum {
    ENTRESOL_OK = 0,
    ENTRESOL_OUT_OF_RANGE = 1,          /* beyond the capacity */
    ENTRESOL_NOT_BLOCKS = 2,            /* the block port takes whole blocks */
    ENTRESOL_LOCKED = 3,                /* an open transaction has written there; no waiting */
    ENTRESOL_UNKNOWN_TRANSACTION = 4,   /* not open, or not of this connection */
    ENTRESOL_TOO_MANY_TRANSACTIONS = 5, /* as many are open as the device takes */
    ENTRESOL_NO_TRANSACTIONS = 6,       /* the device has no write log, or no TxLog */
    ENTRESOL_LOG_FULL = 7,              /* open transactions leave no room, and it must not wait */
    ENTRESOL_READ_ONLY = 8,             /* the flash is worn out */
    ENTRESOL_LOST = 9,                  /* the flash has lost the block */
    ENTRESOL_STOPPED = 10,              /* the device has stopped, or its server has gone */
    ENTRESOL_DEADLOCK = 11,             /* open transactions would wait for each other */
    ENTRESOL_TOO_LARGE = 12,            /* the log never has so much room for one transaction */
    ENTRESOL_BEYOND_RESERVATION = 13,   /* more lines than the transaction has reserved */
    ENTRESOL_LATE_RESERVATION = 14,     /* the transaction has written or reserved already */
    ENTRESOL_UNREACHABLE = 100,         /* no server, or it refuses */
    ENTRESOL_MISUSE = 101,              /* a null pointer */
    ENTRESOL_FORKED = 102               /* connected before the fork of which this process comes */
};

/* The name under which what is written is committed at once. */
#define ENTRESOL_NO_TRANSACTION 0u

/* What a device is. */
typedef struct entresol_shape {
    uint64_t capacity;               /* bytes */
    uint64_t block;                  /* bytes of a block: the unit of the block port and of trim */
    uint64_t line;                   /* bytes of a line: the unit of stores and of conflicts */
    int has_transactions;            /* 0 or 1 */
    int bytes_survive;               /* 1: stores survive once persist or their commit is answered;
                                        0: after a flush */
    int blocks_survive;              /* 1: blocks survive once they are answered for; 0: after a
                                        flush, or if they are durable */
    uint32_t most_open_transactions; /* of all clients together */
    uint32_t most_open_lines;        /* lines of open transactions that the log keeps: most of one
                                        that is all or nothing, and most that may be reserved */
    uint32_t line_reads;             /* loads that one command has under way at a time */
    uint32_t line_writes;            /* stores, likewise */
    uint64_t line_read_ps;           /* a load of a line, there and back */
    uint64_t line_write_ps;          /* a posted store of a line, until the device has it */
    uint64_t block_command_ps;       /* a block command without its data, there and back */
    uint64_t read_bandwidth;         /* bytes per second */
    uint64_t write_bandwidth;
    uint64_t pmem;                   /* battery-backed memory beside the log: none today */
} entresol_shape;

/* A part of entresol_write_vectored. */
typedef struct entresol_part {
    uint64_t at;      /* first byte on the device */
    const void *from; /* what is written there */
    size_t size;      /* how many bytes */
} entresol_part;

/* What a transaction is to be like (entresol_begin_with). */
#define ENTRESOL_WHOLE 1u   /* it must not be committed in parts */
#define ENTRESOL_NO_WAIT 2u /* its reservation is refused if there is no room now */

/* When something was done, in picoseconds on the device's clock. */
typedef struct entresol_times {
    uint64_t submitted_ps; /* when the device was asked */
    uint64_t finished_ps;  /* when the host knew of the end */
} entresol_times;

/* What went through a port. */
typedef struct entresol_traffic {
    uint64_t reads;
    uint64_t writes;
    uint64_t to_host_bytes;
    uint64_t to_device_bytes;
    uint64_t read_time_ps; /* of all reads, added up */
    uint64_t write_time_ps;
} entresol_traffic;

/* What a device has done since it was made. */
typedef struct entresol_stats {
    uint64_t clock_ps;
    entresol_traffic byte_port;
    entresol_traffic block_port;
    uint64_t barriers; /* persists and flushes */
    uint64_t commits;
    uint64_t aborts;
    uint64_t flash_reads;    /* pages */
    uint64_t flash_programs; /* pages */
    uint64_t flash_erases;   /* blocks */
    uint64_t flash_read_bytes;
    uint64_t flash_programmed_bytes;
} entresol_stats;

/* The sentence of the last failure in this thread; empty if there was none. Valid until the next
 * failure in this thread. */
const char *entresol_error(void);

/* Connects to the server at the unix socket `path`, or `unix:PATH`. Null on failure. */
entresol_device *entresol_connect(const char *path);

/* The same with `data_bytes` (256 KiB to 16 MiB) for what may be under way, and calls that look
 * `spin_us` microseconds for an answer before they sleep. */
entresol_device *entresol_connect_with(const char *path, uint64_t data_bytes, uint32_t spin_us);

/* Ends the connection. Transactions that are open are aborted. Null is ignored. */
void entresol_close(entresol_device *device);

/* What the device is. */
int entresol_get_shape(const entresol_device *device, entresol_shape *shape);

/* Byte port: reads `size` bytes from byte `at`, the newest that any port wrote; zeroes where nothing
 * was written. THEY MAY BE OF A TRANSACTION THAT IS OPEN, another client's too. */
int entresol_read(const entresol_device *device, uint64_t at, void *into, size_t size,
                  entresol_times *times);

/* Byte port: writes under a transaction, or under ENTRESOL_NO_TRANSACTION. Posted: survives a power
 * cut after entresol_persist and, of a transaction, after its commit.
 *
 * Where another open transaction has written it waits until that one has ended, as block writes and
 * trims do. A wait that would close a circle of transactions is ENTRESOL_DEADLOCK: abort this one
 * and begin it anew. */
int entresol_write(const entresol_device *device, uint64_t at, const void *from, size_t size,
                   uint32_t tx, entresol_times *times);

/* The same, but ENTRESOL_LOCKED or ENTRESOL_LOG_FULL where that one would wait. */
int entresol_try_write(const entresol_device *device, uint64_t at, const void *from, size_t size,
                       uint32_t tx, entresol_times *times);

/* Byte port: `count` writes, submitted together in this order; they take one latency. No order of
 * those that do not overlap survives a power cut, unless a transaction holds them together. */
int entresol_write_vectored(const entresol_device *device, const entresol_part *parts, size_t count,
                            uint32_t tx, entresol_times *times);

/* Byte port: waits until all writes answered before survive a power cut. A commit needs none. */
int entresol_persist(const entresol_device *device, entresol_times *times);

/* Block port: reads whole blocks. */
int entresol_read_blocks(const entresol_device *device, uint64_t at, void *into, size_t size,
                         entresol_times *times);

/* Block port: writes whole blocks, each atomic. With `durable` not 0 it answers when they survive a
 * power cut (FUA), else when the device has them. */
int entresol_write_blocks(const entresol_device *device, uint64_t at, const void *from, size_t size,
                          int durable, entresol_times *times);

/* Block port: forgets whole blocks; they read as zeroes. */
int entresol_trim(const entresol_device *device, uint64_t at, uint64_t size, entresol_times *times);

/* Waits until everything answered before survives a power cut. */
int entresol_flush(const entresol_device *device, entresol_times *times);

/* Brings everything that is logged to flash, but for what transactions have open. */
int entresol_drain(const entresol_device *device, entresol_times *times);

/* Opens a transaction, which asks the server for nothing. It takes room in the log as it writes, and
 * is committed in parts if there is none left. It is open until entresol_commit, entresol_abort or
 * entresol_close: whoever gives up half-way aborts it, or others wait for its lines. */
int entresol_begin(const entresol_device *device, uint32_t *tx);

/* The same. With `lines` not 0, room for so many is reserved, or waited for: then its writes wait for
 * no room, it is all or nothing, and it may write no other lines. `flags`: ENTRESOL_WHOLE,
 * ENTRESOL_NO_WAIT, or 0. */
int entresol_begin_with(const entresol_device *device, uint32_t lines, uint32_t flags, uint32_t *tx);

/* Makes all writes of a transaction survive together, and closes it: once it is answered they
 * survive any power cut, with neither persist nor flush. `parts` is 1, or more if the transaction did
 * not fit into the log: then each part is all or nothing. */
int entresol_commit(const entresol_device *device, uint32_t tx, uint32_t *parts,
                    entresol_times *times);

/* Takes back all writes of a transaction that were not committed in parts, and closes it. */
int entresol_abort(const entresol_device *device, uint32_t tx, uint32_t *parts,
                   entresol_times *times);

/* What the device has done since it was made. */
int entresol_get_stats(const entresol_device *device, entresol_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
