/* The program that the end-to-end tests record. The first argument chooses what it does. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/time.h>
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

#define SIGNALS 200
static volatile sig_atomic_t handled;
static volatile long done;

static void handler(int number) {
    (void)number;
    for (int n = 0; n < 64; n++)
        sink += n;
    /* A timer faster than its handler would leave the program no time to end. (Not on the stack,
       which QEMU 7.2 gives to a handler 8 bytes off its alignment.) */
    static const struct itimerval never;
    if (++handled >= SIGNALS)
        setitimer(ITIMER_REAL, &never, NULL);
}

/* Blocks after which QEMU 7.2 still listens, with the mark of their last instruction, when it
   writes a signal's frame: one ends with a call through memory, one ends its page. */
void by_memory(volatile long *cell);
void at_page_end(volatile long *cell);
void (*through)(volatile long *cell) = at_page_end;
__asm__(".text\n"
        "by_memory: call *through(%rip)\n"
        "ret\n"
        ".p2align 12\n"
        ".skip 4096 - 4\n"
        "at_page_end: addq $1, (%rdi)\n"
        "ret\n");

/* Short blocks, and now and then a block whose last instruction is a system call. */
static void *busy(void *argument) {
    static _Thread_local volatile long words[1024];
    (void)argument;
    while (!done) {
        for (long n = 0; n < 2000; n++)
            if (words[n * 7 % 1024]++ & 1)
                words[n % 1024] ^= n;
        for (long n = 0; n < 500; n++)
            by_memory(&words[n]);
        long result = SYS_getpid, a = words[1], b = words[2], c = words[3], d = words[4];
        __asm__ volatile("add %1, %2\n add %2, %3\n add %3, %4\n add %4, %1\n syscall"
                         : "+a"(result), "+r"(a), "+r"(b), "+r"(c), "+r"(d)
                         :
                         : "rcx", "r11", "memory");
    }
    return NULL;
}

/* Signals from a timer and from another thread hit threads that compute. */
static int signals(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 500}, {0, 500}};
    pthread_t other;
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&other, NULL, busy, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    while (handled < SIGNALS) {
        for (long n = 0; n < 20000; n++)
            sink ^= n;
        pthread_kill(other, SIGUSR1);
    }
    done = 1;
    pthread_join(other, NULL);
    return 0;
}

static sigjmp_buf before_fault;

static void leave(int number) {
    siglongjmp(before_fault, number);
}

/* Blocks left in the middle: by a load of nothing, by a division of a word by zero. */
static int faults(void) {
    static volatile long *nowhere, zero;
    int faulted = 0;
    signal(SIGSEGV, leave);
    signal(SIGFPE, leave);
    for (volatile int n = 0; n < 200; n++) {
        if (sigsetjmp(before_fault, 1) != 0) {
            faulted++;
            continue;
        }
        sink = n;
        if (n & 1)
            sink = *nowhere;
        else
            __asm__ volatile("mov $7, %%eax\n cqto\n idivq %0" ::"m"(zero) : "rax", "rdx");
        return 3;
    }
    return faulted != 200;
}

/* Ends by a signal that had a handler once. */
static int default_again(void) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    signal(SIGUSR1, SIG_DFL);
    raise(SIGUSR1);
    return 3;
}

static int broken_pipe(void) {
    int ends[2];
    if (pipe(ends) == 0 && close(ends[0]) == 0)
        return write(ends[1], "x", 1) == 1;
    return 3;
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
    if (!strcmp(mode, "signals"))
        return signals();
    if (!strcmp(mode, "faults"))
        return faults();
    if (!strcmp(mode, "default"))
        return default_again();
    if (!strcmp(mode, "pipe"))
        return broken_pipe();
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
