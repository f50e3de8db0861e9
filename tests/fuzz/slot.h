/* tests/fuzz/slot.h -- communication between a child and the driver; private to driver.c and child.c. */
#ifndef MR_TESTS_FUZZ_SLOT_H
#define MR_TESTS_FUZZ_SLOT_H

#include <stdatomic.h>
#include <sys/types.h>

#include "tests/fuzz/fuzz.h"

enum { FUZZ_MAX_INPUT = 1 << 20 };

/* Exit codes of a child that ends by itself; a sanitizer's own is 1. */
enum { FUZZ_EXIT_DONE = 0, FUZZ_EXIT_BROKEN = 70, FUZZ_EXIT_LEAK = 71 };

/* In memory shared by both. The child writes; the driver reads after the child has ended, except for the atomics. */
typedef struct fuzz_slot {
    _Atomic int64_t run;        /* the current run, or one after the last */
    _Atomic int64_t started_ns; /* when it began; 0: nothing to wait for */
    _Atomic int64_t n_done;
    size_t n_input;
    char input[FUZZ_MAX_INPUT];
    int64_t counts[]; /* the target's */
} fuzz_slot;

/* A batch for a child. */
typedef struct fuzz_batch {
    const fuzz_target *target;
    uint64_t seed;
    int64_t begin, end;
    bool check_each; /* check for leaks after each run, to find the one that leaks */
    bool verbose;
    const char *folder; /* the child's own, where it may write */
    const char *input;  /* a file to replay instead; NULL: none */
    _Atomic bool *stop; /* no further runs */
} fuzz_batch;

/* Runs the child. Never returns, unless no_fork is set and the caller must continue. */
void fuzz_child(fuzz_slot *s, const fuzz_batch *b, bool no_fork);

/* The start of a run's random numbers. */
uint64_t fuzz_start(uint64_t seed, const char *target, int64_t run);

#endif
