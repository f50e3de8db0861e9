/* waiting.h -- calls that wait, so that Ctrl-C still works.
 *
 * The call is made by a thread of its own, without the interpreter's lock.  The caller's thread looks at signals meanwhile; what
 * a handler raises tells the call to end soon, and is what the caller sees then. */
#ifndef MR_PYTHON_WAITING_H
#define MR_PYTHON_WAITING_H

#include "core.h"

#include <pthread.h>

typedef struct py_waiting {
    void (*fn)(struct py_waiting *w);   /* in a thread of its own */
    void (*stop)(struct py_waiting *w); /* lets it end soon */
    void *arg;
    TF_Status *st;
    int64_t result;
    volatile int stopped;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool done;
} py_waiting;

/* false with an exception set: the call's error, or what a handler of signals raised. */
bool py_wait_for(py_waiting *w);

/* Until *done, which mu guards and changed tells of, or a tenth of a second is over, so that signals are looked at.  Without
 * the interpreter's lock. */
bool py_wait_a_little(pthread_mutex_t *mu, pthread_cond_t *changed, const bool *done);

#endif
