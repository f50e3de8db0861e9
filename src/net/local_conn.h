/* net/local_conn.h -- one connection of the local transport, or of that over TCP, the same for both of its ends.
 *
 * The thread that queues a frame writes it, as far as the socket takes it; the transport's thread writes
 * the rest.  Only that thread reads and closes. */
#ifndef MR_NET_LOCAL_CONN_H
#define MR_NET_LOCAL_CONN_H

#include "net/frame.h"
#include "net/hello.h"
#include "net/local_io.h"
#include "net/net.h"
#include "net/tls.h"

enum {
    MR_CONN_MAX_CALLS = 1 << 16,  /* open at a time; a call's id is its index among them */
    MR_CONN_MAX_FDS = 4,          /* descriptors that came before the frames they belong to */
    MR_CONN_MAX_QUEUED = 8 << 20, /* bytes a client leaves unread before we stop reading from it */
    MR_CONN_AT_ONCE = 1 << 20,    /* bytes of a body that are read or written before others get their turn */
    MR_CONN_SLOWEST = 256 << 10,  /* bytes of a frame that must arrive per frame_ns */
};
/* Pieces of at least this size travel through shared memory.  At 8 KiB both ways take equally long; at
 * 16 KiB the socket takes three times as long. */
#define MR_CONN_SHARE_BYTES ((size_t)16 << 10)
/* In the stream, a piece of at least this size is received into aligned memory of its own, so that it can become a
 * tensor (server/wire.c sends smaller ones with their heads). */
#define MR_CONN_CUT_BYTES ((size_t)4096)

typedef struct mr_conn mr_conn;
typedef struct mr_out_frame mr_out_frame;

/* What leads to a peer, if it is not a Unix socket.  Over TCP there is no shared memory. */
typedef struct mr_link {
    bool tcp;
    bool connecting; /* a client's socket, whose connection is being made */
    uint8_t token[MR_HELLO_TOKEN];
    mr_tls_context *tls; /* borrowed; NULL: plain */
} mr_link;

/* What the client's and the server's end do differently; called in the transport's thread. */
typedef struct mr_conn_end {
    bool accepts;             /* the server's end */
    void (*open)(mr_conn *c); /* the handshake is done */
    /* A frame of a call.  An error ends the connection: the peer has violated the protocol. */
    mr_status *(*frame)(mr_conn *c, mr_net_frame *f);
    void (*closed)(mr_conn *c, const mr_status *why); /* once; drops what the end holds */
} mr_conn_end;

struct mr_conn {
    mr_local_watch watch;
    mr_refs refs;
    const mr_conn_end *end;
    void *owner; /* the server or the peer */
    int *busy; /* a server's count of connections with unsent frames, under mr_local_mu; or NULL */
    mr_conn *next, *prev; /* the owner's list */

    bool tcp;
    const mr_tls_library *tls_lib; /* NULL: plain */
    mr_tls *tls;
    uint8_t token[MR_HELLO_TOKEN];
    char *peer_name; /* from its certificate; "" without one */

    /* the transport's thread */
    mr_hello hello;
    uint8_t hello_in[MR_HELLO_SERVER];
    size_t hello_got;
    mr_local_timer hello_timer;
    mr_frame_reader reader;
    uint64_t n_frames, n_bytes;       /* received, */
    uint64_t frames_then, bytes_then; /* and the same when slow_timer was set */
    mr_local_timer slow_timer;
    mr_segment_table table;
    int fds[MR_CONN_MAX_FDS], n_fds;
    bool closed, flush_soon;
    mr_order flush, bury;
    mr_order reread; /* goes on reading: a TLS session may have more, although the socket has not */

    mr_mutex mu; /* above mr_local_mu */
    int fd MR_GUARDED_BY(mu);
    int state MR_GUARDED_BY(mu);
    uint32_t events MR_GUARDED_BY(mu);
    mr_out_frame *queue MR_GUARDED_BY(mu), **queue_end MR_GUARDED_BY(mu);
    size_t queued_bytes MR_GUARDED_BY(mu);
    bool counted_busy MR_GUARDED_BY(mu);
    bool unsent MR_GUARDED_BY(mu);     /* the TLS session has taken bytes that the socket has not */
    bool rereading MR_GUARDED_BY(mu);  /* reread is posted */
    mr_segment_pool pool MR_GUARDED_BY(mu);
    mr_local_timer trim_timer, lazy_timer;
    MR_VEC(void *) calls MR_GUARDED_BY(mu); /* by id: a client's requests or a server's calls */
    MR_VEC(uint32_t) free_ids MR_GUARDED_BY(mu); /* a client's: places in calls that are free */
};

/* Settings of this transport. */
typedef struct mr_local_settings {
    uint8_t token[MR_HELLO_TOKEN];
    mr_net_budget segments;   /* shared memory we send by */
    mr_net_budget received;   /* bodies that came in streams */
    size_t most_mapped;       /* addresses a peer can make us map */
    _Atomic int64_t hello_ns; /* how long a handshake may take */
    _Atomic int64_t frame_ns; /* in this time MR_CONN_SLOWEST bytes of a frame must arrive, or its end */
} mr_local_settings;
mr_local_settings *mr_local_settings_get(void);

/* Takes over fd; in the transport's thread.  The handshake begins, and one reference belongs to
 * that thread until the connection is closed.  link: NULL for a Unix socket. */
mr_status *mr_conn_new(const mr_conn_end *end, void *owner, int fd, size_t max_message, const mr_link *link,
                       mr_conn **out);
void mr_conn_ref(mr_conn *c);
void mr_conn_unref(mr_conn *c);
/* In the transport's thread; why is borrowed.  A second call does nothing. */
void mr_conn_close(mr_conn *c, const mr_status *why);
bool mr_conn_is_open_locked(const mr_conn *c) MR_REQUIRES(c->mu);

/* Makes a frame and takes over the body.  Large pieces are copied into shared memory here, without
 * a lock. */
mr_out_frame *mr_conn_compose(mr_conn *c, mr_frame_head h, mr_sv text, mr_bytes *body);
void mr_out_frame_free(mr_out_frame *f);
/* Takes the frame; the connection must be open.  *withdraw (may be NULL) is the frame until its first byte is sent,
 * then NULL. */
void mr_conn_queue_locked(mr_conn *c, mr_out_frame *f, mr_out_frame **withdraw) MR_REQUIRES(c->mu);
/* Takes a frame out of the queue of which no byte is sent; the caller frees it. */
void mr_conn_withdraw_locked(mr_conn *c, mr_out_frame *f) MR_REQUIRES(c->mu);
/* Takes back the shared memory of a frame that was never queued; the caller frees it. */
void mr_conn_discard_locked(mr_conn *c, mr_out_frame *f) MR_REQUIRES(c->mu);
/* Writes what is queued: now, or in the transport's thread soon, or when this thread releases what
 * it holds.  Without a lock. */
void mr_conn_flush(mr_conn *c);
/* The same within a few milliseconds.  The connection must be open. */
void mr_conn_flush_lazily_locked(mr_conn *c) MR_REQUIRES(c->mu);

#endif
