/* run/rendezvous.h -- where a Send meets its Recv.
 *
 * A key names one edge of a step; frame and iteration distinguish its uses inside loops. Either side may come first.
 * Sending never blocks. Receiving calls back, at once if the value has arrived. Aborting fails all waiting and future
 * sends and receives. */
#ifndef MR_RUN_RENDEZVOUS_H
#define MR_RUN_RENDEZVOUS_H

#include "run/cancel.h"
#include "tensor/tensor.h"

typedef struct mr_rendezvous_key { /* parsed once, when a Send or Recv kernel is made */
    char *text; /* "<src device>;<incarnation hex>;<dst device>;<tensor name>", without frame and
                   iteration */
    mr_sv src_device, dst_device, name; /* into text */
    uint64_t src_incarnation;
    uint64_t hash; /* of text */
} mr_rendezvous_key;

mr_status *mr_rendezvous_key_make(mr_sv src_device, uint64_t incarnation, mr_sv dst_device,
                                  mr_sv name, mr_rendezvous_key *out);
/* Parses a whole key as sent between tasks, with ";frame:iteration" at its end. */
mr_status *mr_rendezvous_key_parse(mr_sv text, mr_rendezvous_key *out, uint64_t *frame,
                                   int64_t *iteration);
void mr_rendezvous_key_deinit(mr_rendezvous_key *k);

/* One wait for a value; embedded in the receiver. It must live until fn has been called. */
typedef struct mr_recv {
    void (*fn)(struct mr_recv *w, mr_status *st, mr_tensor *t, bool dead); /* owns st and t */
    const mr_rendezvous_key *key;
    uint64_t frame;
    int64_t iteration;
    struct mr_recv *next; /* the rendezvous' */
} mr_recv;

typedef struct mr_rendezvous mr_rendezvous;
mr_rendezvous *mr_rendezvous_new(void);
mr_rendezvous *mr_rendezvous_ref(mr_rendezvous *r);
void mr_rendezvous_unref(mr_rendezvous *r);
/* Takes the reference to t (NULL when dead).  Fails after an abort. */
mr_status *mr_rendezvous_send(mr_rendezvous *r, const mr_rendezvous_key *key, uint64_t frame,
                              int64_t iteration, mr_tensor *t, bool dead);
void mr_rendezvous_recv(mr_rendezvous *r, mr_recv *w);
/* Takes the value if it has arrived; false if not. Never waits. */
bool mr_rendezvous_poll(mr_rendezvous *r, const mr_rendezvous_key *key, uint64_t frame,
                        int64_t iteration, mr_tensor **t, bool *dead);
/* Receives whose source is on another task. Set before the step starts. */
typedef struct mr_rendezvous_remote {
    /* Called first for every receive. true: the source is on another task, and it will call w->fn itself. */
    bool (*take)(void *arg, mr_recv *w);
    /* The rendezvous was aborted: the receives taken over must end soon, with this error. */
    void (*aborted)(void *arg, const mr_status *why);
    void *arg;
    /* NULL, or called last, when the rendezvous is freed. */
    void (*gone)(void *arg);
} mr_rendezvous_remote;
void mr_rendezvous_set_remote(mr_rendezvous *r, mr_rendezvous_remote remote);
/* Only the first abort counts; why is copied and marked as derived. Calls the callbacks of all waiting receives. */
void mr_rendezvous_abort(mr_rendezvous *r, const mr_status *why);
/* Drops the values and the abort, so that the next step can use the rendezvous again. No receive may be waiting. */
void mr_rendezvous_reset(mr_rendezvous *r);

#endif
