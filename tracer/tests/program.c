/* The program that the end-to-end tests record. The first argument chooses what it does. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#define WORDS 65536 /* 128 pages of 4 KiB per thread */
#define THREADS 3

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn;
static volatile long sink;

static void *worker(void *argument) {
    long id = (long)argument;
    long *words = malloc(WORDS * sizeof *words);
    for (long n = 0; n < WORDS; n++)
        words[n] = n ^ id;
    long sum = 0;
    for (int round = 0; round < 4; round++)
        for (long n = 0; n < WORDS; n++)
            sum += words[n];
    sink = sum;
    /* Each thread waits for the one before it. */
    pthread_mutex_lock(&mutex);
    while (turn != id)
        pthread_cond_wait(&turned, &mutex);
    pthread_mutex_unlock(&mutex);
    usleep(20000);
    pthread_mutex_lock(&mutex);
    turn++;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static int threads(void) {
    pthread_t ids[THREADS];
    for (long n = 0; n < THREADS; n++)
        pthread_create(&ids[n], NULL, worker, (void *)n);
    for (int n = 0; n < THREADS; n++)
        pthread_join(ids[n], NULL);
    return 0;
}

static int region(void) {
    for (long n = 0; n < 1000000; n++)
        sink += n;
    __asm__ volatile("xchg %%bx,%%bx" ::: "memory");
    for (long n = 0; n < 10000; n++)
        __asm__ volatile("" ::"r"(n));
    __asm__ volatile("xchg %%cx,%%cx" ::: "memory");
    for (long n = 0; n < 1000000; n++)
        sink += n;
    return 0;
}

static int string(void) {
    static char from[5000], to[5000];
    __asm__ volatile("xchg %%bx,%%bx" ::: "memory");
    void *f = from, *t = to;
    long count = sizeof from;
    __asm__ volatile("rep movsb" : "+S"(f), "+D"(t), "+c"(count)::"memory");
    __asm__ volatile("xchg %%cx,%%cx" ::: "memory");
    return 0;
}

static int children(char *self) {
    for (int n = 0; n < 2; n++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            threads();
            execl(self, self, "region", (char *)NULL);
            _exit(1);
        }
        waitpid(child, &status, 0);
        if (status != 0)
            return 1;
    }
    return 0;
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    if (!strcmp(mode, "threads"))
        return threads();
    if (!strcmp(mode, "region"))
        return region();
    if (!strcmp(mode, "string"))
        return string();
    if (!strcmp(mode, "children"))
        return children(arguments[0]);
    if (!strcmp(mode, "exec")) {
        execl("/nonexistent", "x", (char *)NULL);
        region();
        execl(arguments[0], arguments[0], "region", (char *)NULL);
    }
    if (!strcmp(mode, "wait")) {
        if (write(1, "w", 1) == 1)
            for (;;)
                pause();
    }
    if (!strcmp(mode, "close")) {
        for (int file = 3; file < 1024; file++)
            close(file);
        for (int file = 3; file < 1024; file++)
            dup2(1, file);
        return region();
    }
    return 2;
}
