/* net/zookeeper/zookeeper.c -- naming through ZooKeeper.
 *
 * One thread asks the server everything, one question at a time, with the blocking calls of
 * ZooKeeper's client. The client's own threads report the session's state and changes of nodes; that
 * only marks what has to be read and wakes our thread. So the order of callbacks does not matter:
 * whatever is marked is read again, and what is read is true. A question that fails leaves its mark,
 * and is asked again when the connection is back, or a little later.
 *
 * Sessions end in two ways. The server may declare one dead: its nodes are gone, and it cannot be used
 * any more; then a new one is started, in which the task registers again and everything is read again.
 * Or the connection breaks and comes back in time: then nodes and watches are still there, and
 * everything is read once more all the same.
 *
 * A process that registers for the first time replaces whatever is registered under its name: a
 * restarted task does not wait for the session of its former incarnation to end. A process that
 * registers again, after its session ended, gives way to another process that has registered
 * meanwhile.
 *
 *     run_thread      begin_session -> look_at_all -> look_at_connection -> wait_for_work -> ...
 *     look_at_all     our own node: register_task; another task's node: look_at_node, which reports it
 *     client's thread session_changed, node_changed: mark nodes and wake run_thread
 *
 * Locks: mu guards what both sides use, and is held for a few instructions, never around calls to
 * others. */
#define THREADED /* the calls that wait */
#include "net/zookeeper/zookeeper.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/vec.h"

#define MS INT64_C(1000000)
#define RETRY_NS (300 * MS)      /* after a question that failed */
#define RESOLVE_NS (3000 * MS)   /* after a name that did not resolve */
#define PROBE_MS 1000            /* for a connection, to see why there is none */

enum { DEFAULT_TELL_MS = 10000, DEFAULT_DEADLINE_MS = 60000, LOOK_MS = 1000 };
enum { DEFAULT_SESSION_MS = 4000, SHORTEST_SESSION_MS = 100, LONGEST_SESSION_MS = 3600000, ENTER_TRIES = 20 };

typedef struct zk zk;

/* A node of ZooKeeper's tree that we read. */
typedef struct node {
    zk *z;
    char *path;
    int task;    /* -1: this process's own */
    bool marked; /* mu: it has to be read */
    /* The thread's: */
    bool told;     /* found was called */
    bool is_there; /* the last time it was read */
    mr_str value;  /* the value then */
} node;

/* The service. What is not marked is set before the thread starts, or belongs to the thread. */
struct zk {
    mr_naming naming; /* first */
    mr_naming_spec spec;
    int session_ms;
    mr_naming_options o;
    mr_thread thread;
    mr_mutex mu;
    mr_cond changed;
    bool closing MR_GUARDED_BY(mu);
    bool connected MR_GUARDED_BY(mu);
    bool expired MR_GUARDED_BY(mu); /* the session cannot be used any more */
    MR_VEC(node *) nodes MR_GUARDED_BY(mu); /* which stay until the end */
    node *own MR_GUARDED_BY(mu);            /* NULL: this process does not register */
    mr_naming_entry entry;                  /* written before own */
    /* The thread's: */
    zhandle_t *handle;
    bool entered;     /* it has registered at least once */
    bool replaced;    /* another process is the task now */
    char *trouble;    /* the last one that was logged */
    int64_t alone_ns; /* since when there is no connection; 0: there is one */
    int64_t tell_ns;  /* when to log that again */
    bool complained;  /* it was logged */
    bool was_there;   /* it was connected at least once */
};

/* ---- callbacks of the client's threads ---- */

/* Everything has to be read again. */
static void mark_all_locked(zk *z) MR_REQUIRES(z->mu);
static void mark_all_locked(zk *z)
{
    for (int i = 0; i < z->nodes.n; i++)
        z->nodes.p[i]->marked = true;
    if (z->own)
        z->own->marked = true;
}

/* The session's state changed. After a reconnection everything is read again. */
static void session_changed(zhandle_t *h, int type, int state, const char *path, void *context)
{
    zk *z = context;
    (void)h, (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    mr_lock(&z->mu);
    z->connected = state == ZOO_CONNECTED_STATE;
    z->expired |= state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE;
    if (z->connected)
        mark_all_locked(z);
    mr_cond_signal(&z->changed);
    mr_unlock(&z->mu);
}

/* A node changed. Watchers are told about the session, too; session_changed handles that. */
static void node_changed(zhandle_t *h, int type, int state, const char *path, void *context)
{
    node *n = context;
    (void)h, (void)state, (void)path;
    if (type == ZOO_SESSION_EVENT)
        return;
    mr_lock(&n->z->mu);
    n->marked = true;
    mr_cond_signal(&n->z->changed);
    mr_unlock(&n->z->mu);
}

/* The client's own log. It is on only if the process had set a level for the client before. */
static void client_says(const char *message) { mr_info("ZooKeeper's client: %s", message); }

/* ---- the thread: problems and their causes ---- */

/* Logs a problem once, until there is another one. */
static void log_trouble(zk *z, const char *what, const char *path, int rc)
{
    char *text = mr_printf("ZooKeeper at %s: cannot %s %s: %s", z->spec.servers, what, path, zerror(rc));
    if (!z->trouble || strcmp(z->trouble, text) != 0)
        mr_warn("%s", text);
    mr_free(z->trouble);
    z->trouble = text;
}

/* Whether a question failed because of the connection or the session, which is reported elsewhere. */
static bool is_passing(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE ||
           rc == ZSESSIONMOVED || rc == ZCLOSING;
}

/* Whether a server listens at an address: 0 or errno. */
static int try_connect(const struct addrinfo *a)
{
    int err = 0;
    socklen_t n = sizeof err;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
        err = errno;
        if (err == EINPROGRESS)
            err = poll(&(struct pollfd){fd, POLLOUT, 0}, 1, PROBE_MS) != 1 ? ETIMEDOUT
                  : getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n) < 0    ? errno
                                                                          : err;
    }
    close(fd);
    return err;
}

/* Appends why one of the servers, "host:port", cannot be reached. */
static void probe_server(mr_sv server, mr_str *out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    size_t colon = server.n;
    while (colon > 0 && server.p[colon - 1] != ':')
        colon--;
    bool six = server.p[0] == '[';
    char *host = mr_strndup(server.p + six, colon - 1 - 2 * (size_t)six),
         *port = mr_strndup(server.p + colon, server.n - colon);
    int rc = getaddrinfo(host, port, &hints, &list), err = 0;
    for (const struct addrinfo *a = list; rc == 0 && a; a = a->ai_next)
        if ((err = try_connect(a)) == 0)
            break;
    mr_str_printf(out, "%s%.*s: %s", out->n ? "; " : "", MR_SV_ARG(server),
                  rc    ? gai_strerror(rc)
                  : err ? strerror(err)
                        : "it accepts connections but does not answer like a ZooKeeper server");
    if (rc == 0)
        freeaddrinfo(list);
    mr_free(host);
    mr_free(port);
}

/* zk_close was called: the thread shall end soon. */
static bool is_closing(zk *z)
{
    mr_lock(&z->mu);
    bool closing = z->closing;
    mr_unlock(&z->mu);
    return closing;
}

/* Each server may take a second, so this ends early when the service is closed. */
static void probe_servers(zk *z, mr_str *out)
{
    mr_sv rest = mr_sv_of(z->spec.servers), server;
    while (!is_closing(z) && mr_sv_cut(&rest, ',', &server))
        probe_server(server, out);
}

/* Logs that no server can be reached, and why. After the deadline, requests that wait for an address
 * are told, too. */
static void tell_alone(zk *z, int64_t now_ns)
{
    mr_str why = {0};
    double seconds = (double)(now_ns - z->alone_ns) / 1e9;
    probe_servers(z, &why);
    if (is_closing(z)) {
        mr_str_deinit(&why);
        return;
    }
    mr_warn("ZooKeeper cannot be reached (%.0f s): %s; this task %s", seconds, mr_str_z(&why),
            z->was_there ? "continues with the addresses it knows"
                         : "can neither find the other tasks nor be found by them until ZooKeeper is reachable");
    z->complained = true;
    if (now_ns - z->alone_ns >= z->o.deadline_ms * MS && z->o.unreachable) {
        mr_str text = {0};
        mr_str_printf(&text, "ZooKeeper could not be reached for %.0f s: %s", seconds, mr_str_z(&why));
        z->o.unreachable(z->o.arg, mr_str_z(&text));
        mr_str_deinit(&text);
    }
    mr_str_deinit(&why);
}

/* When to log next: every tell_ms, and once at the deadline. */
static int64_t next_tell_ns(const zk *z, int64_t now_ns)
{
    int64_t next_ns = now_ns + z->o.tell_ms * MS, deadline_ns = z->alone_ns + z->o.deadline_ms * MS;
    return now_ns < deadline_ns ? MR_MIN(next_ns, deadline_ns) : next_ns;
}

/* Keeps track of how long there is no connection, and logs it. */
static void look_at_connection(zk *z, bool connected, int64_t now_ns)
{
    if (connected) {
        if (z->complained)
            mr_info("ZooKeeper at %s can be reached again", z->spec.servers);
        if (z->complained && z->o.unreachable)
            z->o.unreachable(z->o.arg, NULL);
        z->alone_ns = 0;
        z->complained = false;
        z->was_there = true;
        return;
    }
    if (!z->alone_ns) {
        z->alone_ns = now_ns;
        z->tell_ns = next_tell_ns(z, now_ns);
    }
    if (now_ns < z->tell_ns)
        return;
    tell_alone(z, now_ns);
    z->tell_ns = next_tell_ns(z, now_ns);
}

/* ---- the thread: looking ---- */

/* Reads a node and watches it. Returns ZOK, or why not; *there says whether the node exists, and out
 * has its value. A value that is longer than any entry is cut, so it is not an entry. A node that does
 * not exist can only be watched by zoo_wexists; if it appears between the two calls, they are
 * repeated. */
static int read_node(node *n, bool *there, struct Stat *stat, mr_str *out)
{
    zhandle_t *h = n->z->handle;
    for (;;) {
        char buf[MR_NAMING_MAX_VALUE + 1];
        int len = sizeof buf;
        int rc = zoo_wget(h, n->path, node_changed, n, buf, &len, stat);
        *there = rc == ZOK;
        mr_str_clear(out);
        if (rc == ZOK && len > 0)
            mr_str_append(out, buf, (size_t)MR_MIN(len, (int)sizeof buf));
        if (rc != ZNONODE)
            return rc;
        rc = zoo_wexists(h, n->path, node_changed, n, stat);
        if (rc != ZOK)
            return rc == ZNONODE ? ZOK : rc;
    }
}

/* Reads a node and reports its value if it is new; false: it has to be tried again. */
static bool look_at_node(zk *z, node *n)
{
    struct Stat stat;
    mr_str value = {0};
    bool there;
    int rc = read_node(n, &there, &stat, &value);
    /* After a reconnection everything is read again, so most of it is not new. */
    bool same = n->told && there == n->is_there && mr_sv_eq(mr_str_view(&value), mr_str_view(&n->value));
    bool news = rc == ZOK && !same;
    if (rc != ZOK && !is_passing(rc))
        log_trouble(z, "read", n->path, rc);
    if (news) {
        mr_str_deinit(&n->value);
        n->value = value;
        n->told = true;
        n->is_there = there;
        z->o.found(z->o.arg, n->task, there ? mr_str_view(&n->value) : (mr_sv){NULL, 0});
    } else {
        mr_str_deinit(&value);
    }
    return rc == ZOK;
}

/* ---- the thread: entering ---- */

/* Makes a node for others to be in. Servers before 3.5 have no containers, which vanish when they are
 * empty. */
static int make_folder(zk *z, const char *path)
{
    int rc = zoo_create(z->handle, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, NULL, 0);
    if (rc == ZUNIMPLEMENTED || rc == ZBADARGUMENTS)
        rc = zoo_create(z->handle, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    return rc == ZNODEEXISTS ? ZOK : rc;
}

/* Makes all nodes above a path, from the top. */
static int make_folders(zk *z, const char *path)
{
    char *copy = mr_strdup(path);
    int rc = ZOK;
    for (char *p = strchr(copy + 1, '/'); p && rc == ZOK; p = strchr(p + 1, '/')) {
        *p = 0;
        rc = make_folder(z, copy);
        *p = '/';
    }
    mr_free(copy);
    return rc;
}

/* Removes what is registered under this process's name, if it may be replaced. *mine: our own entry of
 * this session is there already. */
static int make_room(zk *z, node *own, bool *mine)
{
    struct Stat stat;
    mr_str value = {0};
    mr_naming_entry e;
    bool there;
    int rc = read_node(own, &there, &stat, &value);
    bool readable = rc == ZOK && there && mr_naming_decode(mr_str_view(&value), &e);
    bool ours = readable && e.incarnation == z->entry.incarnation;
    mr_str_deinit(&value);
    *mine = ours && stat.ephemeralOwner == zoo_client_id(z->handle)->client_id;
    z->entered |= *mine;
    if (rc != ZOK || !there || *mine)
        return rc;
    /* Another process has registered since this one did: it is newer, so this one gives way. */
    if (readable && !ours && z->entered) {
        mr_warn("%s is at %s now: another process has registered as this task, and other tasks no longer find this one "
                "at %s",
                own->path, e.address, z->entry.address);
        z->replaced = true;
        return ZOK;
    }
    rc = zoo_delete(z->handle, own->path, stat.version); /* of a former incarnation, or of an ended session of ours */
    return rc == ZNONODE || rc == ZBADVERSION ? ZOK : rc;
}

/* Registers this process; ZOK if its entry exists in this session, or another process has replaced it.
 * Two processes that register as the same task at the same time may replace each other; after some
 * tries the other one may have the name. */
static int try_to_enter(zk *z, node *own, mr_sv value)
{
    int rc = ZOK;
    for (int i = 0; i < ENTER_TRIES; i++) {
        bool mine;
        rc = make_room(z, own, &mine);
        if (rc != ZOK || mine || z->replaced)
            return rc;
        /* Ephemeral: the server removes the node when our session ends. */
        rc = zoo_create(z->handle, own->path, value.p, (int)value.n, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0);
        if (rc == ZNONODE)
            rc = make_folders(z, own->path);
        else if (rc == ZOK)
            z->entered = true;
        if (rc != ZOK && rc != ZNODEEXISTS)
            return rc;
    }
    return rc;
}

/* Registers this process; false: it has to be tried again. */
static bool register_task(zk *z, node *own)
{
    mr_str value = {0};
    if (z->replaced)
        return true;
    mr_naming_encode(&z->entry, &value);
    int rc = try_to_enter(z, own, mr_str_view(&value));
    mr_str_deinit(&value);
    if (rc != ZOK && !is_passing(rc))
        log_trouble(z, "register as", own->path, rc);
    return rc == ZOK;
}

/* ---- the thread ---- */

/* Starts a session, and ends the one before. */
static void begin_session(zk *z)
{
    if (z->handle)
        zookeeper_close(z->handle);
    mr_lock(&z->mu);
    z->expired = z->connected = false;
    mr_unlock(&z->mu);
    /* NULL when no name resolves: that may change, and look_at_connection logs it meanwhile. */
    z->handle = zookeeper_init2(z->spec.servers, session_changed, z->session_ms, NULL, z, 0, client_says);
}

/* The next node that is marked, with its mark removed; NULL: there is none, or there is no connection.
 * Our own comes first. */
static node *take_marked(zk *z)
{
    node *n = NULL;
    mr_lock(&z->mu);
    bool able = z->connected && !z->expired && !z->closing;
    if (able && z->own && z->own->marked)
        n = z->own;
    for (int i = 0; able && !n && i < z->nodes.n; i++)
        if (z->nodes.p[i]->marked)
            n = z->nodes.p[i];
    if (n)
        n->marked = false;
    mr_unlock(&z->mu);
    return n;
}

/* Reads everything that is marked; false: something has to be tried again. */
static bool look_at_all(zk *z)
{
    for (node *n; (n = take_marked(z));) {
        if (n->task < 0 ? register_task(z, n) : look_at_node(z, n))
            continue;
        mr_lock(&z->mu);
        n->marked = true;
        mr_unlock(&z->mu);
        return false;
    }
    return true;
}

/* Marks count only while there is a connection: without one nothing can be read. */
static bool has_work_locked(const zk *z) MR_REQUIRES(z->mu);
static bool has_work_locked(const zk *z)
{
    bool marked = z->own && z->own->marked;
    for (int i = 0; !marked && i < z->nodes.n; i++)
        marked = z->nodes.p[i]->marked;
    return z->closing || z->expired || (z->connected && marked);
}

/* Waits until there is something to do, or it is time to look again; false: the service is closing. */
static bool wait_for_work(zk *z, int64_t until_ns, bool *expired, bool *connected)
{
    mr_lock(&z->mu);
    while (!has_work_locked(z) && mr_cond_wait_until(&z->changed, &z->mu, until_ns))
        ;
    *expired = z->expired;
    *connected = z->connected;
    bool go = !z->closing;
    mr_unlock(&z->mu);
    return go;
}

/* Waits after a failure, whatever else is to be done. */
static void rest_after_failure(zk *z)
{
    int64_t until_ns = mr_now_ns() + (z->handle ? RETRY_NS : MR_MIN(RESOLVE_NS, MR_MAX(RETRY_NS, z->o.tell_ms * MS)));
    mr_lock(&z->mu);
    while (!z->closing && mr_cond_wait_until(&z->changed, &z->mu, until_ns))
        ;
    mr_unlock(&z->mu);
}

/* The thread: in each round it starts a session if there is none, reads what is marked, and logs if the service
 * cannot be reached. */
static void run_thread(void *arg)
{
    zk *z = arg;
    bool expired = true, connected;
    do {
        if (expired || !z->handle)
            begin_session(z);
        if (!z->handle || !look_at_all(z))
            rest_after_failure(z);
        mr_lock(&z->mu);
        connected = z->connected;
        mr_unlock(&z->mu);
        look_at_connection(z, connected, mr_now_ns());
    } while (wait_for_work(z, mr_now_ns() + MR_MIN(LOOK_MS, z->o.tell_ms) * MS, &expired, &connected));
    if (z->handle)
        zookeeper_close(z->handle); /* this process's node goes with its session */
}

/* ---- the service ---- */

/* A node starts marked, so it is read as soon as there is a connection. */
static node *node_new(zk *z, const char *name, int task)
{
    node *n = mr_new(node);
    *n = (node){.z = z, .path = mr_printf("%s/%s", z->spec.path, name), .task = task, .marked = true};
    return n;
}

static void node_free(node *n)
{
    if (!n)
        return;
    mr_free(n->path);
    mr_str_deinit(&n->value);
    mr_free(n);
}

/* The entry is complete before `own` is set, under the lock; the thread reads it only after it has seen `own`. */
static void zk_enter(mr_naming *naming, const char *name, const mr_naming_entry *e)
{
    zk *z = (zk *)naming;
    node *n = node_new(z, name, -1);
    mr_lock(&z->mu);
    MR_ASSERT(!z->own && !z->closing);
    z->entry = *e;
    z->own = n;
    mr_cond_signal(&z->changed);
    mr_unlock(&z->mu);
}

/* Nodes are never removed before close, so the client's threads may keep pointers to them. */
static void zk_watch(mr_naming *naming, const char *name, int task)
{
    zk *z = (zk *)naming;
    node *n = node_new(z, name, task);
    MR_ASSERT(task >= 0);
    mr_lock(&z->mu);
    mr_vec_push(&z->nodes, n);
    mr_cond_signal(&z->changed);
    mr_unlock(&z->mu);
}

/* Frees everything; the thread has ended. */
static void zk_free(zk *z)
{
    for (int i = 0; i < z->nodes.n; i++)
        node_free(z->nodes.p[i]);
    mr_vec_deinit(&z->nodes);
    node_free(z->own);
    mr_naming_spec_deinit(&z->spec);
    mr_free(z->trouble);
    mr_cond_deinit(&z->changed);
    mr_mutex_deinit(&z->mu);
    mr_free(z);
}

/* The thread ends the session, which removes this process's entry and all watches; only then are the nodes freed. */
static void zk_close(mr_naming *naming)
{
    zk *z = (zk *)naming;
    mr_lock(&z->mu);
    z->closing = true;
    mr_cond_signal(&z->changed);
    mr_unlock(&z->mu);
    mr_thread_join(&z->thread);
    zk_free(z);
}

/* Only parses the address and starts the thread; the thread connects. The options are copied. */
mr_status *mr_zookeeper_open(const mr_naming_options *o, mr_naming **out)
{
    zk *z = mr_new(zk);
    mr_mutex_init(&z->mu);
    mr_cond_init(&z->changed);
    z->naming = (mr_naming){zk_enter, zk_watch, zk_close};
    z->o = *o;
    if (z->o.tell_ms <= 0)
        z->o.tell_ms = DEFAULT_TELL_MS;
    if (z->o.deadline_ms <= 0)
        z->o.deadline_ms = DEFAULT_DEADLINE_MS;
    z->session_ms = o->session_ms ? (int)MR_MAX(SHORTEST_SESSION_MS, MR_MIN(o->session_ms, LONGEST_SESSION_MS))
                                  : DEFAULT_SESSION_MS;
    mr_status *st = mr_naming_spec_parse(o->where, &z->spec);
    int err = st ? 0 : mr_thread_start(&z->thread, "zookeeper", run_thread, z);
    if (err)
        st = mr_error(MR_RESOURCE_EXHAUSTED, "cannot start the thread for ZooKeeper: %s", strerror(err));
    if (st)
        zk_free(z);
    else
        *out = &z->naming;
    return st;
}
