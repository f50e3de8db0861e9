/* server/server.c -- one task of a cluster.
 *
 * A server is made, started and stopped, and never started again (server_state). Stopping goes from
 * the outside in: sessions are closed, so that their steps end and their peers hear of it; then the
 * steps of other masters are cut off; then the listeners are closed; then the routes to the peers.
 *
 *     MADE --start--> STARTED --stop, free--> STOPPING --end_all--> STOPPED
 *       |                                        ^
 *       +-------------stop, join, free-----------+
 *
 * The state changes under `mu`. The thread that sets STOPPING stops the server without the lock
 * (end_all); other threads that stop or join wait for STOPPED.
 *
 * A server has two listeners at most for other tasks (routes.c) and one for calls of this process, whose
 * address nobody else can use. All of them call handle_call, which chooses the service by the method's
 * prefix. */
#include "server/server.h"

#include <stdlib.h>

#include "base/long_wait.h"
#include "base/memory.h"
#include "base/report.h"
#include "exec/threads.h"
#include "server/collective.h"
#include "server/host.h"
#include "server/master.h"
#include "server/watch.h"
#include "server/routes.h"
#include "server/worker.h"

#define STOP_GRACE_NS (5 * INT64_C(1000000000))

enum { MAX_MOUNTS = 8 };

/* A service that another part of the program offers at our address. */
typedef struct mount {
    char *prefix;
    void (*handle)(void *arg, mr_net_call *c);
    void *arg;
} mount;

typedef enum server_state { MADE, STARTED, STOPPING, STOPPED } server_state;

/* Members that no lock guards are set by mr_server_new and constant afterwards, except `own`, `listeners` and
 * `naming`, which belong to the thread that starts or stops the server. */
struct mr_server {
    mr_host host;
    bool hosting; /* host was initialised, maybe only in part */
    mr_timers *timers;
    mr_worker_service *worker;
    mr_master *master;
    mr_net *net;        /* to all other tasks; NULL: chosen by their addresses */
    mr_net_server *own; /* for calls of this task to itself */
    mr_listeners listeners;     /* for other tasks */
    char *own_address;
    char *name;    /* "worker/0" */
    char *address; /* to listen at */
    char *target;
    char *started_target MR_GUARDED_BY(mu); /* with the actual port; NULL before the server is started */
    mr_naming *naming;                      /* NULL: none */
    mr_mutex mount_mu; /* also held while a mounted handler runs, so none runs after its unmount */
    mount mounts[MAX_MOUNTS] MR_GUARDED_BY(mount_mu);
    int n_mounts MR_GUARDED_BY(mount_mu);
    mr_mutex mu;
    mr_cond changed;
    server_state state MR_GUARDED_BY(mu);
    int n_joining MR_GUARDED_BY(mu); /* threads that wait for its end */
    struct mr_server *next_here;     /* of the servers of this process, under their lock */
};

/* ---- services of others ---- */

/* The prefixes of mounted services are distinct, so at most one handler gets a call. */
mr_status *mr_server_mount(mr_server *s, const char *prefix, void (*handle)(void *arg, mr_net_call *c), void *arg)
{
    mr_status *st = NULL;
    mr_lock(&s->mount_mu);
    MR_ASSERT(s->n_mounts >= 0 && s->n_mounts <= MAX_MOUNTS);
    for (int i = 0; i < s->n_mounts && !st; i++)
        if (strcmp(s->mounts[i].prefix, prefix) == 0)
            st = mr_error(MR_ALREADY_EXISTS, "%s already serves %s", s->name, prefix);
    if (!st && s->n_mounts == MAX_MOUNTS)
        st = mr_error(MR_RESOURCE_EXHAUSTED, "%s already serves %d other services, the maximum", s->name, MAX_MOUNTS);
    if (!st)
        s->mounts[s->n_mounts++] = (mount){mr_strdup(prefix), handle, arg};
    mr_unlock(&s->mount_mu);
    return st;
}

/* Waits for a handler of the service that is running. */
void mr_server_unmount(mr_server *s, const char *prefix)
{
    mr_lock(&s->mount_mu);
    for (int i = 0; i < s->n_mounts; i++)
        if (strcmp(s->mounts[i].prefix, prefix) == 0) {
            mr_free(s->mounts[i].prefix);
            s->mounts[i] = s->mounts[--s->n_mounts];
            break;
        }
    mr_unlock(&s->mount_mu);
}

/* Passes the call to the mounted service whose prefix it has; false: there is none. Handlers do not
 * block, so the lock is held while they run. */
static bool handle_mounted(mr_server *s, mr_net_call *c)
{
    bool found = false;
    mr_lock(&s->mount_mu);
    for (int i = 0; i < s->n_mounts && !found; i++)
        if (strncmp(c->method, s->mounts[i].prefix, strlen(s->mounts[i].prefix)) == 0) {
            s->mounts[i].handle(s->mounts[i].arg, c);
            found = true;
        }
    mr_unlock(&s->mount_mu);
    return found;
}

/* Handles every call that arrives, from this process or another one. On a transport's thread. */
static void handle_call(void *arg, mr_net_call *c)
{
    mr_server *s = arg;
    if (strncmp(c->method, MR_WORKER_SERVICE, sizeof MR_WORKER_SERVICE - 1) == 0)
        mr_worker_handle(s->worker, c);
    else if (strncmp(c->method, MR_MASTER_SERVICE, sizeof MR_MASTER_SERVICE - 1) == 0)
        mr_master_handle(s->master, c);
    else if (!handle_mounted(s, c))
        mr_reply(c, mr_error(MR_UNIMPLEMENTED, "%s has no method %s", s->name, c->method), NULL);
}

/* Opens the route to a task. Calls to this task itself stay inside the process. */
static mr_status *connect_task(mr_task_peers *p, int task, mr_net **net, mr_net_peer **out) MR_REQUIRES(p->mu);
static mr_status *connect_task(mr_task_peers *p, int task, mr_net **net, mr_net_peer **out)
{
    mr_server *s = p->host->arg;
    const mr_task_address *to = mr_task_peers_task(p, task);
    bool own = task == p->self;
    const char *address = mr_task_peers_address_locked(p, task);
    *net = own ? mr_net_loop() : s->net;
    if (*net)
        return (*net)->connect(*net, own ? s->own_address : address, NULL, NULL, out);
    char *name = mr_printf("%s/%d", to->job, to->number);
    mr_status *st = mr_route_to(address, s->name, name, net, out);
    mr_free(name);
    return st;
}

/* A task was lost or restarted: ends whatever relied on its old incarnation. */
static void incarnation_changed(void *arg, mr_task_peers *p, int task)
{
    mr_server *s = arg;
    mr_master_lost(s->master, p, task);
    mr_worker_lost(s->worker, p, task);
}

/* The times of the watch. With lost_ms, a task is probed ten times before it counts as lost. */
static mr_membership_times times_of(const mr_server_options *o)
{
    int64_t lost_ns = o ? MR_MIN(o->lost_ms, INT64_C(1) << 30) * 1000000 : 0;
    if (lost_ns <= 0)
        return mr_watch_default;
    return (mr_membership_times){MR_MAX(lost_ns / 10, 1), MR_MAX(lost_ns / 2, 1), lost_ns};
}

/* How long a session may be unused before it is closed; 0: for ever. */
static int64_t session_gc_ns(const mr_server_options *o)
{
    int64_t s = 0;
    const char *text = getenv("MILLRACE_SESSION_GC_SECONDS");
    if (o && o->session_gc_ms > 0)
        return MR_MIN(o->session_gc_ms, INT64_C(1) << 40) * 1000000;
    if (text && mr_sv_to_i64(mr_sv_of(text), &s) && s > 0)
        return MR_MIN(s, INT64_C(1) << 30) * 1000000000;
    return 0;
}

/* Refuses two tasks with one address: one of them could never be reached, and would be waited for.
 * Port 0 means any port, so such addresses may repeat. */
static mr_status *check_addresses(const mr_cluster *c)
{
    mr_map seen = {0};
    mr_status *st = NULL;
    for (int i = 0; !st && i < c->tasks.n; i++) {
        const mr_task_address *t = &c->tasks.p[i], *other = mr_map_getz(&seen, t->address);
        size_t n = strlen(t->address);
        if (n >= 2 && strcmp(t->address + n - 2, ":0") == 0)
            continue;
        if (other)
            st = mr_invalid("%s and %s have the same address, %s", other->name, t->name, t->address);
        else
            mr_map_putz(&seen, t->address, (void *)(uintptr_t)t);
    }
    mr_map_deinit(&seen);
    return st;
}

/* ---- naming ---- */

/* An empty variable counts as missing. */
static const char *read_variable(const char *name)
{
    const char *v = getenv(name);
    return v && v[0] ? v : NULL;
}

/* Reads the naming service's options; what the program set comes before the environment. */
static mr_status *naming_options(const mr_server_options *o, mr_naming_options *out)
{
    const char *ms = read_variable("MILLRACE_ZOOKEEPER_TIMEOUT_MS");
    out->where = o && o->zookeeper ? o->zookeeper : read_variable("MILLRACE_ZOOKEEPER");
    out->session_ms = o && o->zookeeper_ms > 0 ? o->zookeeper_ms : 0;
    if (!out->session_ms && ms && (!mr_sv_to_i64(mr_sv_of(ms), &out->session_ms) || out->session_ms <= 0))
        return mr_invalid("MILLRACE_ZOOKEEPER_TIMEOUT_MS is '%s'; set a positive number of milliseconds", ms);
    const char *deadline = read_variable("MILLRACE_ZOOKEEPER_DEADLINE_MS");
    if (deadline &&
        (!mr_sv_to_i64(mr_sv_of(deadline), &out->deadline_ms) || out->deadline_ms <= 0 || out->deadline_ms > INT32_MAX))
        return mr_invalid("MILLRACE_ZOOKEEPER_DEADLINE_MS is '%s'; set a positive number of milliseconds", deadline);
    out->tell_ms = MR_MAX(mr_long_wait_period_ns() / 1000000, 1);
    return NULL;
}

/* Without a naming service, refuses a task whose address would have to be looked up: it would be
 * waited for. */
static mr_status *check_named(const mr_cluster *c)
{
    for (int i = 0; i < c->tasks.n; i++)
        if (strcmp(c->tasks.p[i].address, MR_ADDRESS_ASKED) == 0)
            return mr_invalid("%s has no address; give one, or set MILLRACE_ZOOKEEPER to look it up",
                              c->tasks.p[i].name);
    return NULL;
}

/* Connects to the naming service if one is configured. The cluster's peers are looked up there from
 * now on. */
static mr_status *open_naming(mr_server *s, const mr_server_options *o)
{
    mr_naming_options with = {
        .found = mr_task_peers_found, .unreachable = mr_task_peers_unreachable, .arg = s->host.peers};
    mr_naming_spec spec;
    MR_TRY(naming_options(o, &with));
    if (!with.where || !with.where[0])
        return check_named(&s->host.peers->cluster);
    MR_TRY(mr_naming_spec_parse(with.where, &spec));
    mr_naming_spec_deinit(&spec);
    MR_TRY((o && o->open_naming ? o->open_naming : mr_naming_zookeeper)(&with, &s->naming));
    mr_task_peers_name_by(s->host.peers, s->naming);
    return NULL;
}

/* Closes the naming service, once. Nobody asks it any more when it is closed. */
static void close_naming(mr_server *s)
{
    mr_naming *n = s->naming;
    s->naming = NULL;
    if (!n)
        return;
    mr_task_peers_name_by(s->host.peers, NULL);
    n->close(n);
}

/* An address that has to be looked up (MR_ADDRESS_ASKED) is no place to listen at: then any port of the loopback is
 * taken. */
char *mr_server_place(const char *address, const char *in_cluster)
{
    const char *told = address ? address : read_variable("MILLRACE_ADDRESS");
    if (told)
        return mr_strdup(told);
    return mr_strdup(strcmp(in_cluster, MR_ADDRESS_ASKED) == 0 ? "127.0.0.1:0" : in_cluster);
}

/* The address with the port we listen on; the caller frees it. */
static char *taken_place(const mr_server *s, int port)
{
    const char *colon = strrchr(s->address, ':');
    bool any = colon && strcmp(colon, ":0") == 0 && port > 0;
    return any ? mr_printf("%.*s:%d", (int)(colon - s->address), s->address, port) : mr_strdup(s->address);
}

/* Registers this task's address with the naming service, now that it listens. */
static mr_status *register_address(mr_server *s, int port)
{
    mr_naming_entry e;
    char *place = taken_place(s, port);
    mr_status *st = s->naming ? mr_naming_entry_init(&e, place, s->host.env.devices[0]->incarnation) : NULL;
    if (!st && s->naming)
        s->naming->enter(s->naming, s->name, &e);
    s->started_target = mr_printf("grpc://%s", place);
    mr_free(place);
    return st;
}

/* ---- making, starting and stopping ---- */

/* Makes everything that a server has. On failure mr_server_free releases what was made so far. */
static mr_status *init_server(mr_server *s, const mr_server_def *def, const mr_server_options *o)
{
    mr_session_config config;
    int self = mr_cluster_find(&def->cluster, mr_sv_of(def->job), def->task);
    if (self < 0)
        return mr_invalid("Task %d of job \"%s\" is not in the cluster", def->task, def->job);
    MR_TRY(check_addresses(&def->cluster));
    MR_TRY(mr_session_config_parse(mr_str_view(&def->config), &config));
    config.simulated = o ? o->simulated : NULL;
    /* Steps run on at least one separate thread: transport threads must stay free, since they also bring the messages
     * that end a step. */
    config.served = true;
    config.inter_threads = MR_MAX(mr_threads_wanted(config.inter_threads, "TF_NUM_INTEROP_THREADS"), 1);
    MR_TRY(mr_timers_new(&s->timers));
    s->net = o ? o->net : NULL;
    s->host.timers = s->timers;
    s->host.times = times_of(o);
    mr_str_append(&s->host.default_config, def->config.p ? def->config.p : "", def->config.n);
    s->host.connect = connect_task;
    s->host.incarnation_changed = incarnation_changed;
    s->host.arg = s;
    s->hosting = true; /* mr_host_deinit accepts a host that was initialised in part */
    MR_TRY(mr_host_init(&s->host, &def->cluster, self, &config));
    s->worker = mr_worker_new(&s->host);
    mr_collectives_set_leader(mr_worker_collectives(s->worker), mr_sv_of(config.group_leader));
    s->master = mr_master_new(&s->host, s->timers, session_gc_ns(o), mr_worker_collectives(s->worker));
    s->name = mr_printf("%s/%d", def->job, def->task);
    s->own_address = mr_printf("own %p", (void *)s);
    s->address = mr_server_place(o ? o->address : NULL, mr_task_peers_task(s->host.peers, self)->address);
    s->target = mr_printf("grpc://%s", s->address);
    return open_naming(s, o);
}

/* *out is NULL on failure. The server does not listen yet: mr_server_start does. */
mr_status *mr_server_new(const mr_server_def *def, const mr_server_options *o, mr_server **out)
{
    mr_server *s = mr_new(mr_server);
    mr_report_log(); /* sends the log to the launcher, if there is one */
    mr_mutex_init(&s->mount_mu);
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->changed);
    mr_status *st = init_server(s, def, o);
    if (st) {
        mr_server_free(s);
        s = NULL;
    }
    *out = s;
    return st;
}

/* Listens for calls of this process, then of other tasks, and registers the address. On failure
 * mr_server_free closes what is open. */
static mr_status *listen_all(mr_server *s)
{
    int port;
    mr_net_listen own = {.address = s->own_address, .handle = handle_call, .arg = s};
    mr_net_listen outer = {.address = s->address, .handle = handle_call, .arg = s};
    MR_TRY(mr_net_loop()->listen(mr_net_loop(), &own, &s->own, &port));
    if (s->net) {
        MR_TRY(s->net->listen(s->net, &outer, &s->listeners.servers[0], &port));
        s->listeners.nets[0] = s->net;
        s->listeners.n = 1;
    } else {
        MR_TRY(mr_listeners_open(s->address, s->name, handle_call, s, &s->listeners, &port));
    }
    return register_address(s, port);
}

/* ---- the servers of this process ---- */

static mr_mutex here_mu = {PTHREAD_MUTEX_INITIALIZER};
static mr_server *here MR_GUARDED_BY(here_mu); /* those that have started, by next_here */

/* From now on mr_server_is_here finds the server. */
static void add_here(mr_server *s)
{
    mr_lock(&here_mu);
    s->next_here = here;
    here = s;
    mr_unlock(&here_mu);
}

/* A server that was never started is not in the list. */
static void remove_here(mr_server *s)
{
    mr_lock(&here_mu);
    for (mr_server **p = &here; *p; p = &(*p)->next_here)
        if (*p == s) {
            *p = s->next_here;
            break;
        }
    mr_unlock(&here_mu);
}

/* started_target is constant between add_here and remove_here, so it is read without the server's
 * lock. */
bool mr_server_is_here(const char *address) MR_NO_TSA
{
    bool found = false;
    mr_lock(&here_mu);
    for (mr_server *s = here; s && !found; s = s->next_here)
        found = strcmp(s->started_target + sizeof "grpc://" - 1, address) == 0 || strcmp(s->own_address, address) == 0;
    mr_unlock(&here_mu);
    return found;
}

/* Starting a server that is started does nothing. If listening fails, the state stays MADE, and mr_server_free closes
 * what is open. The lock is held meanwhile, so that two threads do not both listen. */
mr_status *mr_server_start(mr_server *s)
{
    mr_lock(&s->mu);
    mr_status *st = NULL;
    MR_ASSERT(s->state != STARTED || s->own);
    if (s->state == STOPPING || s->state == STOPPED)
        st = mr_error(MR_FAILED_PRECONDITION, "Server has stopped.");
    else if (s->state == MADE && !(st = listen_all(s))) {
        s->state = STARTED;
        add_here(s);
        mr_report_ready();
    }
    mr_unlock(&s->mu);
    return st;
}

/* Stops the server. Called once, without the lock, by the thread that has set STOPPING. */
static void end_all(mr_server *s)
{
    mr_status *why = mr_error(MR_UNAVAILABLE, "%s was stopped", mr_host_name(&s->host));
    remove_here(s);
    close_naming(s); /* its entry disappears, so that no task looks for it here */
    mr_watch_stop(s->host.peers->watch);
    mr_master_stop(s->master);
    mr_worker_stop(s->worker, why);
    mr_listeners_close(&s->listeners, STOP_GRACE_NS);
    if (s->own)
        mr_net_loop()->stop(s->own, STOP_GRACE_NS);
    s->own = NULL;
    mr_status_free(why);
    mr_lock(&s->mu);
    MR_ASSERT(s->state == STOPPING);
    s->state = STOPPED;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

/* Returns when the server has stopped, whichever thread stops it. */
mr_status *mr_server_stop(mr_server *s)
{
    mr_lock(&s->mu);
    bool mine = s->state == MADE || s->state == STARTED;
    MR_ASSERT(s->state >= MADE && s->state <= STOPPED);
    if (mine)
        s->state = STOPPING;
    while (!mine && s->state != STOPPED)
        mr_cond_wait(&s->changed, &s->mu);
    mr_unlock(&s->mu);
    if (mine)
        end_all(s);
    return NULL;
}

bool mr_server_runs(mr_server *s)
{
    mr_lock(&s->mu);
    bool runs = s->state == STARTED;
    mr_unlock(&s->mu);
    return runs;
}

bool mr_server_is_plain(mr_server *s)
{
    mr_lock(&s->mu);
    bool plain = s->state == STARTED && s->listeners.plain;
    mr_unlock(&s->mu);
    return plain;
}

/* Waits until the server has stopped. A server that was not started has nothing to wait for; it is
 * stopped, and cannot be started afterwards, as in TensorFlow. */
mr_status *mr_server_join(mr_server *s)
{
    mr_lock(&s->mu);
    bool mine = s->state == MADE;
    if (mine)
        s->state = STOPPING;
    s->n_joining++;
    if (mine) {
        mr_unlock(&s->mu);
        end_all(s);
        mr_lock(&s->mu);
    }
    while (s->state != STOPPED)
        mr_cond_wait(&s->changed, &s->mu);
    if (--s->n_joining == 0)
        mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
    return NULL;
}

/* Waits for the threads in mr_server_join, which read the state once more after the server has
 * stopped. */
static void let_go_of_who_joined(mr_server *s)
{
    mr_lock(&s->mu);
    while (s->n_joining > 0)
        mr_cond_wait(&s->changed, &s->mu);
    mr_unlock(&s->mu);
}

/* The session talks to the master through the loop transport, so no call leaves the process. */
mr_status *mr_server_session(mr_server *s, mr_graph *g, mr_mutex *graph_mu, mr_sv config, mr_cancel *cancel,
                             mr_session **out)
{
    return mr_remote_session_new(mr_net_loop(), s->own_address, g, graph_mu, config, cancel, out);
}

/* The string lives as long as the server: started_target is set once. */
const char *mr_server_target(mr_server *s)
{
    mr_lock(&s->mu);
    const char *target = s->started_target ? s->started_target : s->target;
    mr_unlock(&s->mu);
    return target;
}

mr_status *mr_server_join_group(mr_server *s, const mr_join *q, mr_joined *out)
{
    return mr_collectives_ask_to_join(mr_worker_collectives(s->worker), q, out);
}

/* The order matters: peers' requests end before the services that wait for them are freed, and the
 * host goes last, because sessions use its devices and threads. */
void mr_server_free(mr_server *s)
{
    if (!s)
        return;
    if (s->master)
        mr_server_stop(s);
    let_go_of_who_joined(s);
    MR_ASSERT(s->n_joining == 0 && !s->own);
    close_naming(s);
    if (s->hosting)
        mr_host_disconnect(&s->host); /* ends what is still on its way to peers */
    mr_master_free(s->master);
    mr_worker_free(s->worker);
    if (s->hosting)
        mr_host_deinit(&s->host);
    mr_timers_free(s->timers);
    mr_free(s->own_address);
    mr_free(s->name);
    mr_free(s->address);
    mr_free(s->target);
    mr_free(s->started_target);
    for (int i = 0; i < s->n_mounts; i++)
        mr_free(s->mounts[i].prefix);
    mr_mutex_deinit(&s->mount_mu);
    mr_cond_deinit(&s->changed);
    mr_mutex_deinit(&s->mu);
    mr_free(s);
}
