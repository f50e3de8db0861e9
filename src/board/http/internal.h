/* board/http/internal.h -- the parts of libmillrace-board.so. */
#ifndef MR_BOARD_HTTP_INTERNAL_H
#define MR_BOARD_HTTP_INTERNAL_H

#include "base/thread.h"
#include "board/http.h"

/* ---- assets.c ---- */

extern const mr_board_asset mr_board_assets[];
extern const int mr_board_n_assets;

/* ---- connections.c: how long a connection may take ----
 *
 * libmicrohttpd closes connections at which nothing happens, but not those that send or take a byte now and then. So
 * each state of a connection has a deadline. When there are many connections, the ones that wait for a request are
 * closed, longest first, so that there is always room for new ones.
 *
 * A connection that works is watched by nobody else, because libmicrohttpd reads nothing meanwhile. If its client hangs
 * up, or the server stops, its flag is set, which cancels the simulation. */

typedef enum mr_board_doing {
    MR_BOARD_WAITS,  /* for the head of a request */
    MR_BOARD_READS,  /* the body */
    MR_BOARD_WORKS,  /* a request is queued or simulated: as long as it takes */
    MR_BOARD_WRITES, /* the reply */
} mr_board_doing;

typedef struct mr_board_connection {
    int fd;
    mr_board_doing doing;
    int64_t since_ns;
    size_t bytes; /* read or to write so far: more bytes may take longer */
    bool closing;
    mr_cancel_flag gone; /* nobody waits for the answer to the request at which the connection works */
    void *request; /* of server.c, for its event loop only; NULL: none */
    struct mr_board_connection *prev, *next;
} mr_board_connection;

typedef struct mr_board_connections {
    mr_mutex mu;
    mr_cond wake;
    mr_board_connection *first, *last MR_GUARDED_BY(mu); /* those that wait are in the order of their waits */
    int n, n_closing, n_working, most MR_GUARDED_BY(mu);
    bool stopping MR_GUARDED_BY(mu);
    mr_board_deadlines deadlines; /* without zeros */
    mr_thread watch;
} mr_board_connections;

/* most: with more connections, some that wait are closed. */
mr_status *mr_board_connections_start(mr_board_connections *t, int most, mr_board_deadlines d);
void mr_board_connections_stop(mr_board_connections *t);
mr_board_connection *mr_board_connections_add(mr_board_connections *t, int fd);
void mr_board_connections_remove(mr_board_connections *t, mr_board_connection *c); /* before its fd is closed */
void mr_board_connections_set(mr_board_connections *t, mr_board_connection *c, mr_board_doing doing, size_t bytes);
void mr_board_connections_cancel(mr_board_connections *t); /* those that work now */

/* ---- server.c ---- */

const mr_board_http *mr_board_http_get(int abi) __attribute__((visibility("default")));

#endif
