/* tests/memory/memory.h -- what a scenario of refused memory is.
 *
 * A scenario does one thing that people do: imports a graph, runs an op, reads a file.  The driver does it again and again, each time
 * with another of its allocations refused, and looks at what comes of it: either all went well all the same, or a status says
 * RESOURCE_EXHAUSTED; nothing is lost, and the next time it goes well again. */
#ifndef MR_TESTS_MEMORY_MEMORY_H
#define MR_TESTS_MEMORY_MEMORY_H

#include "base/status.h"

typedef struct memory_scenario {
    const char *name;
    void *arg;
    /* Once, before all; its memory is not refused.  May be NULL. */
    void (*prepare)(void *arg);
    /* What is tried.  Whatever it makes it gives back. */
    mr_status *(*run)(void *arg);
} memory_scenario;

/* From here on to memory_end allocations of this thread count; the one whose turn it is is refused.  A scenario that needs
 * things of its own first begins later; if it never begins, its whole run counts. */
void memory_begin(void);
void memory_end(void);

/* The written ones, and one for each op with examples. */
const memory_scenario *memory_scenarios(int *n);
const memory_scenario *memory_op_scenarios(int *n);

#endif
