/* ps/link.h -- how a server or a worker stays in touch with the manager.
 *
 * It joins, and then keeps two calls open: Live, which is never answered and whose end tells both sides that the other is gone,
 * and Watch, which is answered as soon as there is news, or after a while as a sign of life, and made again.  When the manager
 * is gone it is looked for at the same address until it is back; then it is joined again, with what this side knows. */
#ifndef MR_PS_LINK_H
#define MR_PS_LINK_H

#include "ps/peers.h"

typedef struct mr_ps_news { /* an answer to Join or Watch */
    mr_ps_map *map; /* NULL: the view is as it was; taken by who sets it to NULL */
    MR_VEC(mr_ps_table_spec *) tables; /* further ones; taken likewise, one by one */
    mr_ps_numbers forget; /* clients whose clocks are not needed any more */
    uint64_t forgot;      /* how many the manager has told of in all */
    int num_slots;        /* of Join */
    int64_t lost_ms;
    int64_t delay; /* of the workers that take part in the iterations, at present */
} mr_ps_news;

typedef struct mr_ps_link {
    /* set before mr_ps_link_start */
    void *owner;
    mr_ps_ways *ways;
    char *manager; /* its address; owned */
    uint64_t id;
    bool server, observer;
    const char *address; /* of a server */
    const char *name;
    int delay;
    const mr_ps_map *map; /* what the owner has; epoch 0: nothing */
    const mr_ps_store *tables; /* likewise: sent to a manager that knows less */
    void (*news)(void *owner, mr_ps_news *n);
    void (*refused)(void *owner, mr_status *st); /* for good; owned by it */

    bool joined, asking, closing;
    int64_t retry_at_ns;
    int round; /* of joining: answers from before do not count */
    uint64_t forgot; /* of the last news */
    int64_t lost_ms;
    int tries;
} mr_ps_link;

void mr_ps_link_start(mr_ps_link *l);
/* Several times in 20 ms; returns when it wants to be called next. */
int64_t mr_ps_link_tick(mr_ps_link *l, int64_t now_ns);
void mr_ps_link_stop(mr_ps_link *l); /* makes no calls any more */
void mr_ps_link_deinit(mr_ps_link *l);

/* The manager's address as a peer of mr_ps_ask_start. */
#define MR_PS_TO_MANAGER 0

#endif
