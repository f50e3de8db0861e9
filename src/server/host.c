/* server/host.c -- what the services of one task share: the pool, the clusters, and how calls are
 * answered.
 *
 * The threads of a task:
 *
 *     transports   call handlers and the `done` of requests; must not block
 *     "serve"      the pool here: methods that take long, notices of lost tasks, closing of routes
 *     timers       heartbeats, time limits, retries, the log of long waits; must not block
 *     env's pools  run the nodes of steps
 *
 * The list `all` holds the host's own cluster and those of sessions. A cluster leaves it with its last
 * reference, under the host's lock, and is then freed by the pool, which therefore must exist until
 * then. mr_host_disconnect closes all clusters and frees the pool; afterwards the last references are
 * dropped without it. */
#include "server/host.h"

#include "base/clock.h"
#include "base/memory.h"

enum { SERVING_THREADS = 2 };

/* On failure mr_host_deinit releases what was made. */
mr_status *mr_host_init(mr_host *h, const mr_cluster *c, int self, const mr_session_config *config)
{
    mr_mutex_init(&h->mu);
    MR_TRY(mr_pool_new_served("serve", SERVING_THREADS, &h->pool));
    MR_TRY(mr_task_peers_new(h, c, self, false, &h->peers));
    MR_TRY(mr_env_init(&h->env, config, mr_host_name(h)));
    for (int i = 1; i < h->env.n_devices; i++) /* one incarnation for the whole process */
        h->env.devices[i]->incarnation = h->env.devices[0]->incarnation;
    return NULL;
}

/* The list does not hold references: mr_host_drop_peers takes a cluster out with its last one. */
void mr_host_add_peers(mr_host *h, mr_task_peers *p)
{
    mr_lock(&h->mu);
    MR_ASSERT(!p->link);
    p->next = h->all;
    p->link = &h->all;
    if (p->next)
        p->next->link = &p->next;
    h->all = p;
    mr_unlock(&h->mu);
}

/* The last reference is dropped under the lock, so find_open never finds a cluster that is being
 * freed, and the pool stays meanwhile. */
bool mr_host_drop_peers(mr_host *h, mr_task_peers *p)
{
    mr_lock(&h->mu);
    bool last = mr_refs_drop(&p->refs);
    if (last) {
        MR_ASSERT(*p->link == p);
        *p->link = p->next;
        if (p->next)
            p->next->link = p->link;
    }
    bool alone = last && !h->pool;
    if (last && h->pool)
        mr_pool_submit(h->pool, &p->parting);
    mr_unlock(&h->mu);
    return alone;
}

/* A cluster that is not closed yet, with a reference, or NULL. Takes a cluster's lock inside the
 * host's. */
static mr_task_peers *find_open(mr_host *h)
{
    mr_lock(&h->mu);
    mr_task_peers *p = h->all;
    for (bool closed = true; p; p = p->next) {
        mr_lock(&p->mu);
        closed = p->closed;
        mr_unlock(&p->mu);
        if (!closed)
            break;
    }
    if (p)
        mr_task_peers_ref(p);
    mr_unlock(&h->mu);
    return p;
}

/* Closes one cluster at a time, without the host's lock, because closing waits for callbacks that may take it. */
void mr_host_disconnect(mr_host *h)
{
    for (mr_task_peers *p; (p = find_open(h));) {
        mr_task_peers_close(p);
        mr_task_peers_unref(p);
    }
    mr_lock(&h->mu);
    mr_pool *pool = h->pool;
    h->pool = NULL;
    mr_unlock(&h->mu);
    mr_pool_free(pool); /* waits for the calls that it works on */
}

/* All references to clusters are dropped, so the list is empty. */
void mr_host_deinit(mr_host *h)
{
    mr_host_disconnect(h);
    MR_ASSERT(!h->pool);
    mr_task_peers_unref(h->peers);
    mr_env_deinit(&h->env);
    mr_str_deinit(&h->default_config);
    MR_ASSERT(!h->all);
    mr_mutex_deinit(&h->mu);
}

/* ---- answering ---- */

/* The mark of a derived error travels in the text, as in TensorFlow. */
void mr_reply(mr_net_call *c, mr_status *st, mr_bytes *body)
{
    mr_bytes none = {0};
    if (st && mr_status_is_derived(st)) {
        mr_status *marked = mr_error(mr_status_code(st), "[_Derived_]%s", mr_status_message(st));
        mr_status_free(st);
        st = marked;
    }
    c->net->reply(c, st, body ? body : &none);
}

/* 57 random bits, so that ids of different masters practically never meet; TensorFlow's ids are positive, too. */
int64_t mr_step_id_new(void)
{
    int64_t id = (int64_t)(mr_random64() >> 7);
    return id ? id : 1;
}

/* The body is sent only if there is no error; it is freed in both cases. */
void mr_reply_str(mr_net_call *c, mr_status *st, mr_str *body)
{
    mr_bytes b = {0};
    if (body)
        mr_bytes_add_str(&b, body);
    mr_reply(c, st, &b);
    mr_bytes_deinit(&b);
}

/* A call that the pool handles. */
typedef struct heavy_call {
    mr_task task; /* first */
    void (*handle)(void *service, mr_net_call *c, mr_sv body);
    void *service;
    mr_net_call *call;
    mr_sv body;
} heavy_call;

/* Runs on the pool. The handler answers the call, at once or later. */
static void run_heavy(mr_task *t)
{
    heavy_call h = *(heavy_call *)t;
    mr_free(t);
    h.handle(h.service, h.call, h.body);
}

/* Handles the call here, or lets the pool do it if the method takes long. Without a pool the server is
 * stopping. */
static void handle_call(mr_host *h, const mr_method *m, void *service, mr_net_call *c, mr_sv body)
{
    if (!m->heavy || !h->pool) {
        m->handle(service, c, body);
        return;
    }
    heavy_call *t = mr_new(heavy_call);
    *t = (heavy_call){{.fn = run_heavy}, m->handle, service, c, body};
    mr_pool_submit(h->pool, &t->task);
}

/* The body is joined into one piece here, so that handlers can parse it; it lives as long as the call. */
void mr_dispatch(mr_host *h, const mr_method *methods, int n, const char *prefix, void *service, mr_net_call *c)
{
    mr_sv body;
    MR_ASSERT(strncmp(c->method, prefix, strlen(prefix)) == 0);
    const char *name = c->method + strlen(prefix);
    /* Joining the pieces of a large body may fail for want of memory. */
    mr_status *st = mr_bytes_flat(&c->body, &body);
    for (int i = 0; !st && i < n; i++)
        if (strcmp(methods[i].name, name) == 0) {
            handle_call(h, &methods[i], service, c, body);
            return;
        }
    mr_reply(c, st ? st : mr_error(MR_UNIMPLEMENTED, "%s has no method %s", mr_host_name(h), c->method), NULL);
}
