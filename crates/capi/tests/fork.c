/*
 * Reads on both sides of a fork: the child is refused, connects anew and reads; the parent reads all
 * the while.
 */
#define _POSIX_C_SOURCE 200809L
#include <entresol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define READS 10000
#define SIZE 64

static void check(int is_right, const char *what) {
    if (!is_right) {
        fprintf(stderr, "fork: %s: %s\n", what, entresol_error());
        exit(1);
    }
}

/* Whether `size` bytes at block `nth` are all `value`. */
static int holds(entresol_device *device, int nth, int value) {
    unsigned char bytes[SIZE];
    check(entresol_read(device, (uint64_t)nth * 4096, bytes, SIZE, NULL) == 0, "read");
    for (int i = 0; i < SIZE; i++)
        if (bytes[i] != value)
            return 0;
    return 1;
}

static void child(entresol_device *device, uint32_t tx, const char *path) {
    unsigned char byte;
    int found = 0;
    for (int i = 0; i < READS; i++) {
        int code = entresol_read(device, 4096, &byte, 1, NULL);
        check(i == 0 || code == found, "the code changes");
        found = code;
    }
    printf("child: %d %s\n", found, found ? entresol_error() : "");
    found = entresol_commit(device, tx, NULL, NULL);
    printf("child, committing: %d %s\n", found, found ? entresol_error() : "");
    entresol_close(device);
    device = entresol_connect(path);
    check(device != NULL, "connect anew");
    check(holds(device, 1, 7), "the bytes");
    printf("child, connected anew: 7\n");
    entresol_close(device);
    fflush(stdout);
    _exit(0);
}

int main(int count, char **words) {
    check(count == 2, "give the socket");
    entresol_device *device = entresol_connect(words[1]);
    check(device != NULL, "connect");
    unsigned char bytes[SIZE];
    memset(bytes, 7, SIZE);
    check(entresol_write(device, 4096, bytes, SIZE, ENTRESOL_NO_TRANSACTION, NULL) == 0, "write");
    uint32_t tx;
    check(entresol_begin(device, &tx) == 0, "begin");
    check(entresol_write(device, 0, bytes, SIZE, tx, NULL) == 0, "write");
    pid_t other = fork();
    check(other >= 0, "fork");
    if (other == 0)
        child(device, tx, words[1]);
    for (int i = 0; i < READS; i++)
        check(holds(device, 1, 7), "the parent's bytes");
    int status;
    check(waitpid(other, &status, 0) == other && status == 0, "the child failed");
    check(entresol_commit(device, tx, NULL, NULL) == 0, "commit");
    check(holds(device, 0, 7), "what was committed");
    printf("parent: 7 in %d reads\n", READS);
    entresol_close(device);
    return 0;
}
