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
    ENTRESOL_LOCKED = 3,                /* an open transaction has written there */
    ENTRESOL_UNKNOWN_TRANSACTION = 4,   /* not open, or not of this connection */
    ENTRESOL_TOO_MANY_TRANSACTIONS = 5, /* as many are open as the device takes */
    ENTRESOL_NO_TRANSACTIONS = 6,       /* the device has no write log, or no TxLog */
    ENTRESOL_LOG_FULL = 7,              /* open transactions fill the log */
    ENTRESOL_READ_ONLY = 8,             /* the flash is worn out */
    ENTRESOL_LOST = 9,                  /* the flash has lost the block */
    ENTRESOL_STOPPED = 10,              /* the device has stopped, or its server has gone */
    ENTRESOL_DEADLOCK = 11,             /* open transactions would wait for each other */
    ENTRESOL_UNREACHABLE = 100,         /* no server, or it refuses */
    ENTRESOL_MISUSE = 101,              /* a null pointer */
    ENTRESOL_FORKED = 102               /* connected before the fork of which this process comes */
};

/* The name under which what is written is committed at once. */
#define ENTRESOL_NO_TRANSACTION 0u

/* What a device is. */
typedef struct entresol_shape {
    uint64_t capacity;    /* bytes */
    uint64_t block;       /* bytes of a block: the unit of the block port and of trim */
    int has_transactions; /* 0 or 1 */
} entresol_shape;

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
 * was written. */
int entresol_read(const entresol_device *device, uint64_t at, void *into, size_t size,
                  entresol_times *times);

/* Byte port: writes under a transaction, or under ENTRESOL_NO_TRANSACTION. Posted: survives a power
 * cut after entresol_persist and, of a transaction, after its commit. */
int entresol_write(const entresol_device *device, uint64_t at, const void *from, size_t size,
                   uint32_t tx, entresol_times *times);

/* Byte port: waits until all writes answered before survive a power cut. */
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

/* Opens a transaction. */
int entresol_begin(const entresol_device *device, uint32_t *tx);

/* Makes all writes of a transaction survive together, and closes it. `parts` is 1, or more if the
 * transaction did not fit into the log: then each part is all or nothing. */
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
