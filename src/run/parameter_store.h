/* run/parameter_store.h -- parameter tables that ops pull from and push to (millrace/ps.h).
 *
 * An op names a store and a table. The owner of a store binds it to a name in this process. The store knows how a call
 * reaches its parameter servers. */
#ifndef MR_RUN_PARAMETER_STORE_H
#define MR_RUN_PARAMETER_STORE_H

#include "base/str.h"

typedef struct mr_parameter_call {
    bool push; /* else a pull */
    int table;
    const uint64_t *keys; /* strictly increasing */
    size_t n;
    const float *values; /* of a push; copied */
    float *out;          /* of a pull; must live until done */
    void (*done)(void *arg, mr_status *st); /* from any thread, once; owns st */
    void *arg;
} mr_parameter_call;

typedef struct mr_parameter_store mr_parameter_store;
struct mr_parameter_store {
    /* The number of a table, and how many floats a key has in a pull and in a push; NOT_FOUND. */
    mr_status *(*find)(mr_parameter_store *s, mr_sv table, int *number, int *width, int *push_width);
    /* Starts a call. done is called in any case, perhaps before this returns. Returns an id for cancel, or 0. */
    int64_t (*start)(mr_parameter_store *s, const mr_parameter_call *c);
    void (*cancel)(mr_parameter_store *s, int64_t call); /* makes the call end soon; ignored if it has ended */
};

/* From now on, ops that name it use s. NULL unbinds the name and waits until no op uses the store. ALREADY_EXISTS. */
mr_status *mr_parameter_store_bind(const char *name, mr_parameter_store *s);
/* The store of a name; it stays valid until mr_parameter_store_give. NOT_FOUND. */
mr_status *mr_parameter_store_take(mr_sv name, mr_parameter_store **out);
void mr_parameter_store_give(mr_parameter_store *s);

#endif
