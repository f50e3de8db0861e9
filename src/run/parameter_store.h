/* run/parameter_store.h -- tables of parameters that ops pull from and push to (millrace/ps.h).
 *
 * An op names a store and a table; who has a store binds it to a name in this process.  How a call finds its servers is the
 * store's business. */
#ifndef MR_RUN_PARAMETER_STORE_H
#define MR_RUN_PARAMETER_STORE_H

#include "base/str.h"

typedef struct mr_parameter_call {
    bool push; /* else a pull */
    int table;
    const uint64_t *keys; /* rising */
    size_t n;
    const float *values; /* of a push; copied */
    float *out;          /* of a pull; stays until done */
    void (*done)(void *arg, mr_status *st); /* from any thread, once; owns st */
    void *arg;
} mr_parameter_call;

typedef struct mr_parameter_store mr_parameter_store;
struct mr_parameter_store {
    /* The number of a table, and the floats that a key has when it is pulled and pushed; NOT_FOUND. */
    mr_status *(*find)(mr_parameter_store *s, mr_sv table, int *number, int *width, int *push_width);
    /* Begins a call; done comes in any case, maybe before this returns.  0, or its name for cancel. */
    int64_t (*start)(mr_parameter_store *s, const mr_parameter_call *c);
    void (*cancel)(mr_parameter_store *s, int64_t call); /* it ends soon; nothing when it has ended */
};

/* Ops that name it use s from now on; NULL: no more, and when this returns none is inside of it.  ALREADY_EXISTS. */
mr_status *mr_parameter_store_bind(const char *name, mr_parameter_store *s);
/* That of a name, which stays until it is given back; NOT_FOUND. */
mr_status *mr_parameter_store_take(mr_sv name, mr_parameter_store **out);
void mr_parameter_store_give(mr_parameter_store *s);

#endif
