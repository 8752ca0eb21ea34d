/*
 * Moves money between two accounts so that no power cut can lose or make any: a transaction over two
 * lines of a memory-semantic SSD.
 *
 * From the root of the repository:
 *
 *     cargo build --release -p entresol-capi
 *     cc examples/c/account.c -Icrates/capi/include -Ltarget/release -lentresol_shm \
 *         -o target/account
 *     LD_LIBRARY_PATH=target/release target/account SOCKET
 */
#include <entresol.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALICE 0
#define BOB 4096

static void check(int status) {
    if (status != ENTRESOL_OK) {
        fprintf(stderr, "account: %s\n", entresol_error());
        exit(1);
    }
}

static uint64_t balance(entresol_device *device, uint64_t account) {
    uint64_t value;
    check(entresol_read(device, account, &value, sizeof value, NULL));
    return value;
}

static void set(entresol_device *device, uint64_t account, uint64_t value, uint32_t tx) {
    check(entresol_write(device, account, &value, sizeof value, tx, NULL));
}

static void show(entresol_device *device, const char *when) {
    printf("%s: %" PRIu64 " and %" PRIu64 "\n", when, balance(device, ALICE), balance(device, BOB));
}

int main(int count, char **words) {
    entresol_device *device;
    entresol_shape shape;
    entresol_times times;
    entresol_stats stats;
    uint32_t tx, parts;
    unsigned char *blocks;

    if (count != 2) {
        fprintf(stderr, "usage: account SOCKET\n");
        return 2;
    }
    device = entresol_connect(words[1]);
    if (device == NULL) {
        fprintf(stderr, "account: %s\n", entresol_error());
        return 2;
    }
    check(entresol_get_shape(device, &shape));
    printf("blocks of %" PRIu64 " B, transactions: %d\n", shape.block, shape.has_transactions);

    set(device, ALICE, 100, ENTRESOL_NO_TRANSACTION);
    set(device, BOB, 20, ENTRESOL_NO_TRANSACTION);
    check(entresol_persist(device, &times));
    printf("the device's clock goes on: %d\n", times.finished_ps >= times.submitted_ps);
    show(device, "before");

    check(entresol_begin(device, &tx));
    set(device, ALICE, 70, tx);
    set(device, BOB, 50, tx);
    check(entresol_commit(device, tx, &parts, NULL));
    printf("committed in %" PRIu32 " part\n", parts);
    show(device, "after");

    check(entresol_begin(device, &tx));
    set(device, ALICE, 0, tx);
    check(entresol_abort(device, tx, NULL, NULL));
    show(device, "unchanged");
    if (entresol_commit(device, tx, NULL, NULL) == ENTRESOL_UNKNOWN_TRANSACTION) {
        printf("refused: %s\n", entresol_error());
    }

    blocks = malloc(2 * shape.block);
    memset(blocks, 7, 2 * shape.block);
    check(entresol_write_blocks(device, 2 * shape.block, blocks, 2 * shape.block, 1, NULL));
    check(entresol_trim(device, 2 * shape.block, shape.block, NULL));
    check(entresol_read_blocks(device, 2 * shape.block, blocks, 2 * shape.block, NULL));
    printf("blocks: %d %d\n", blocks[0], blocks[shape.block]);
    free(blocks);
    check(entresol_flush(device, NULL));

    if (entresol_read(device, shape.capacity, &tx, 1, NULL) == ENTRESOL_OUT_OF_RANGE) {
        printf("refused: beyond the end\n");
    }
    if (entresol_read(NULL, 0, &tx, 1, NULL) == ENTRESOL_MISUSE) {
        printf("refused: %s\n", entresol_error());
    }
    check(entresol_get_stats(device, &stats));
    printf("commits %" PRIu64 ", aborts %" PRIu64 ", block port %" PRIu64 " B\n", stats.commits,
           stats.aborts, stats.block_port.to_device_bytes);
    entresol_close(device);
    return 0;
}
