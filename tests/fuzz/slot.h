/* tests/fuzz/slot.h -- what a child and the driver tell each other; for driver.c and child.c only.
 */
#ifndef MR_TESTS_FUZZ_SLOT_H
#define MR_TESTS_FUZZ_SLOT_H

#include <stdatomic.h>
#include <sys/types.h>

#include "tests/fuzz/fuzz.h"

enum { FUZZ_MAX_INPUT = 1 << 20 };

/* Exit codes of a child that ends by itself; a sanitizer's own is 1. */
enum { FUZZ_EXIT_DONE = 0, FUZZ_EXIT_BROKEN = 70, FUZZ_EXIT_LEAK = 71 };

/* In memory shared by both.  The child writes, the driver reads it when the child is gone; only the
 * atomics are looked at before. */
typedef struct fuzz_slot {
    _Atomic int64_t run;        /* at work, or the one after the last */
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
    bool check_each; /* look for leaks after each run, to know whose it was */
    bool verbose;
    const char *folder; /* the child's own, where it may write */
    const char *input;  /* a file to replay instead; NULL: none */
    _Atomic bool *stop; /* no further runs */
} fuzz_batch;

/* The child's life.  Never returns, except (no_fork) when the caller is not to be ended. */
void fuzz_child(fuzz_slot *s, const fuzz_batch *b, bool no_fork);

/* The start of a run's random numbers. */
uint64_t fuzz_start(uint64_t seed, const char *target, int64_t run);

#endif
