/* ps/link.h -- how a parameter server or a client stays in touch with the manager.
 *
 * It joins, and then keeps two calls open. Live is never answered: its end shows each side that the
 * other is gone. Watch is answered as soon as there is news, or after a while without any, as a heartbeat,
 * and is then made again. When the manager is gone, the link looks for it at the same address until
 * it is back, and joins again with what this side knows. */
#ifndef MR_PS_LINK_H
#define MR_PS_LINK_H

#include "ps/peers.h"

typedef struct mr_ps_news { /* an answer to Join or Watch */
    mr_ps_map *map; /* NULL: the view is unchanged. The callback may keep it: it sets this to NULL */
    MR_VEC(mr_ps_table_spec *) tables; /* new ones; the callback may keep each of them likewise */
    mr_ps_numbers forget; /* clients whose clocks are not needed any more */
    uint64_t forgot;      /* how many clients the manager has forgotten in all */
    int num_ranges;        /* of Join */
    int64_t lost_ms;
    int64_t delay; /* the present bound on iterations, of workers that take part in them */
} mr_ps_news;

typedef struct mr_ps_link {
    /* set before mr_ps_link_start */
    void *owner;
    mr_ps_routes *routes;
    char *manager; /* its address; owned */
    uint64_t id;
    bool server, observer;
    const char *address; /* of a server */
    const char *name;
    int delay;
    const mr_ps_map *map; /* the owner's view; epoch 0: none */
    const mr_ps_store *tables; /* the owner's tables; sent to a manager that knows fewer */
    void (*news)(void *owner, mr_ps_news *n);
    void (*refused)(void *owner, mr_status *st); /* the manager refuses this peer for good; takes over st */

    bool joined, asking, closing;
    int64_t retry_at_ns;
    int round; /* number of the attempt to join; answers of earlier rounds are ignored */
    uint64_t forgot; /* as of the last news */
    int64_t lost_ms;
    int tries;
} mr_ps_link;

void mr_ps_link_start(mr_ps_link *l);
/* To be called at least every 20 ms; returns the time of the next call. */
int64_t mr_ps_link_tick(mr_ps_link *l, int64_t now_ns);
void mr_ps_link_stop(mr_ps_link *l); /* no more calls and no more news */
void mr_ps_link_deinit(mr_ps_link *l);

/* The manager's address as a peer of mr_ps_ask_start. */
#define MR_PS_TO_MANAGER 0

#endif
