/* net/local.c -- calls between processes of one host: Unix sockets, and shared memory for what is
 * large.
 *
 *     local_io     the thread that waits
 *     local_conn   a connection: handshake, reading     local_out    writing
 *     frame        its bytes, without sockets           segment      its shared memory
 *     hello        the handshake's bytes
 *     local_client asking                               local_server answering
 *
 * The path of a call, with the thread that does each step (T: the transport's thread of that process):
 *
 *     caller   mr_local_start          reserves an id, copies large pieces into a segment, queues the frame
 *     caller   mr_conn_flush_now       writes as much as the socket takes; T of the client writes the rest
 *     server T read_frames             finds the frame, maps the segment, calls the handler
 *     any      mr_local_reply          queues and writes the reply in the same way
 *     client T take_reply              calls the request's `done`
 *     any      mr_loan_drop            the last piece of a body is dropped: the segment returns to its sender
 *
 * Locks, outermost first: a connection's, then mr_local_mu.  Callbacks run, and pieces are dropped,
 * with no lock held. */
#include "net/local.h"

#include <unistd.h>

/* ---- settings ---- */

static mr_local_settings settings;

/* Shared memory for sending is limited to an eighth of the machine's memory, bodies that arrive through sockets to
 * half of it.  If the size of the memory is unknown, 4 GiB are assumed. */
static void init_settings(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t all = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : (size_t)1 << 32;
    settings.segments.limit = all / 8;
    settings.received.limit = all / 2;
    settings.most_mapped = all;
    settings.hello_ns = 5 * INT64_C(1000000000);
    settings.frame_ns = 20 * INT64_C(1000000000);
}

/* The settings of this process.  They are not locked: the setters below are called before the first listen or
 * connect, and the limits are atomic. */
mr_local_settings *mr_local_settings_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_settings);
    return &settings;
}

/* Before the first handshake, since handshakes read the token without a lock. */
void mr_net_local_token(const uint8_t token[32])
{
    memcpy(mr_local_settings_get()->token, token, MR_HELLO_TOKEN);
}

/* Memory that is in use already is not freed if a limit is lowered; nothing more is taken until it is below. */
void mr_net_local_budget(size_t shared_bytes, size_t received_bytes)
{
    mr_local_settings *s = mr_local_settings_get();
    if (shared_bytes)
        s->segments.limit = shared_bytes;
    if (received_bytes)
        s->received.limit = received_bytes;
}

/* ---- the transport ---- */

/* The path must fit into sun_path with its NUL.  Abstract sockets (a leading NUL) cannot be named by a C string. */
mr_status *mr_local_address(const char *path, struct sockaddr_un *out)
{
    size_t n = strlen(path);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n == 0 || n >= sizeof(out->sun_path))
        return mr_invalid("%s: a local address is a path of 1 to %zu bytes", path,
                          sizeof(out->sun_path) - 1);
    memcpy(out->sun_path, path, n);
    return NULL;
}

/* Always the same object; max_message is the only member that a caller may set. */
mr_net *mr_net_local(void)
{
    static mr_net local = {
        .name = "local",
        .listen = mr_local_listen,
        .stop = mr_local_stop,
        .reply = mr_local_reply,
        .on_cancel = mr_local_on_cancel,
        .connect = mr_local_connect,
        .disconnect = mr_local_disconnect,
        .start = mr_local_start,
        .cancel = mr_local_cancel,
    };
    return &local;
}
