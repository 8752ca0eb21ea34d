/*
 * Reservations, conflicts and vectored writes: two connections, one of which holds a line.
 */
#define _POSIX_C_SOURCE 200809L
#include <entresol.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int is_right, const char *what) {
    if (!is_right) {
        fprintf(stderr, "transactions: %s: %s\n", what, entresol_error());
        exit(1);
    }
}

static int byte_at(entresol_device *device, uint64_t at) {
    unsigned char byte;
    check(entresol_read(device, at, &byte, 1, NULL) == ENTRESOL_OK, "read");
    return byte;
}

/* Waits for the transaction of the other connection. */
static void *write_late(void *device) {
    check(entresol_write(device, 0, "9", 1, ENTRESOL_NO_TRANSACTION, NULL) == ENTRESOL_OK, "late");
    return NULL;
}

int main(int count, char **words) {
    entresol_device *one, *other;
    entresol_shape shape;
    pthread_t thread;
    uint32_t tx, second, parts;
    char line[64];
    int code;
    entresol_part both[2];

    check(count == 2, "usage: transactions SOCKET");
    one = entresol_connect(words[1]);
    other = entresol_connect(words[1]);
    check(one != NULL && other != NULL, "connect");
    check(entresol_get_shape(one, &shape) == ENTRESOL_OK, "shape");
    printf("lines of %d, %d open at most, survive %d %d, pmem %d, costs %d\n", (int)shape.line,
           (int)shape.most_open_lines, shape.bytes_survive, shape.blocks_survive, (int)shape.pmem,
           shape.line_read_ps > 0 && shape.block_command_ps > 0 && shape.write_bandwidth > 0);

    memset(line, '1', sizeof line);
    both[0].at = 0, both[0].from = line, both[0].size = sizeof line;
    both[1].at = 4096, both[1].from = line, both[1].size = sizeof line;
    check(entresol_begin_with(one, 2, 0, &tx) == ENTRESOL_OK, "begin");
    check(entresol_write_vectored(one, both, 2, tx, NULL) == ENTRESOL_OK, "vectored");
    printf("seen while it is open: %c\n", byte_at(other, 4096));
    code = entresol_try_write(other, 0, "x", 1, ENTRESOL_NO_TRANSACTION, NULL);
    printf("not waiting: %d %s\n", code, entresol_error());
    code = entresol_write(one, 8192, "x", 1, tx, NULL);
    printf("beyond: %d %s\n", code, entresol_error());
    check(pthread_create(&thread, NULL, write_late, other) == 0, "thread");
    check(entresol_commit(one, tx, &parts, NULL) == ENTRESOL_OK, "commit");
    check(pthread_join(thread, NULL) == 0, "join");
    printf("committed in %d part, then written: %c%c\n", (int)parts, byte_at(one, 0),
           byte_at(one, 1));

    printf("too large: %d\n", entresol_begin_with(one, shape.most_open_lines + 1, 0, &tx));
    check(entresol_begin_with(one, shape.most_open_lines, ENTRESOL_WHOLE, &tx) == ENTRESOL_OK, "all");
    printf("no room: %d\n", entresol_begin_with(other, 1, ENTRESOL_NO_WAIT, &second));
    printf("unknown flags: %d\n", entresol_begin_with(one, 0, 8, &second));
    check(entresol_abort(one, tx, NULL, NULL) == ENTRESOL_OK, "abort");
    check(entresol_begin_with(other, 1, ENTRESOL_NO_WAIT, &second) == ENTRESOL_OK, "room again");
    check(entresol_drain(one, NULL) == ENTRESOL_OK, "drain");
    entresol_close(other);
    entresol_close(one);
    return 0;
}
