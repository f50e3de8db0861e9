/* server/host.c -- what the services of one task share. */
#include "server/host.h"

#include "base/memory.h"

enum { SERVING_THREADS = 2 };

mr_status *mr_host_init(mr_host *h, const mr_cluster *c, int self, const mr_session_config *config)
{
    *h = (mr_host){.self = self};
    mr_mutex_init(&h->mu);
    MR_TRY(mr_cluster_copy(c, &h->cluster));
    h->peers = mr_new_array(mr_net_peer *, h->cluster.tasks.n + 1);
    h->nets = mr_new_array(mr_net *, h->cluster.tasks.n + 1);
    MR_TRY(mr_env_init(&h->env, config, mr_host_name(h)));
    return mr_pool_new("serve", SERVING_THREADS + 1, &h->pool);
}

mr_status *mr_host_filter(const mr_host *h, mr_sv filter, bool *marked)
{
    mr_device_name f, task;
    if (!mr_device_name_parse(filter, &f))
        return mr_invalid("'%.*s' is not a device filter", MR_SV_ARG(filter));
    f.has_type = false;
    f.id = -1;
    for (int i = 0; i < h->cluster.tasks.n; i++) {
        mr_device_name_parse(mr_sv_of(h->cluster.tasks.p[i].name), &task);
        marked[i] |= mr_device_name_matches(&f, &task);
    }
    return NULL;
}

void mr_host_disconnect(mr_host *h)
{
    for (int i = 0; h->peers && i < h->cluster.tasks.n; i++) {
        mr_lock(&h->mu);
        mr_net_peer *p = h->peers[i];
        h->peers[i] = NULL;
        mr_unlock(&h->mu);
        if (p)
            h->nets[i]->disconnect(p);
    }
    mr_pool_free(h->pool); /* with the calls that are still at work */
    h->pool = NULL;
}

void mr_host_deinit(mr_host *h)
{
    mr_host_disconnect(h);
    mr_free(h->peers);
    mr_free(h->nets);
    mr_env_deinit(&h->env);
    mr_cluster_deinit(&h->cluster);
    mr_mutex_deinit(&h->mu);
}

static mr_status *peer_of(mr_host *h, int task, mr_net **net, mr_net_peer **out)
{
    mr_status *st = NULL;
    mr_lock(&h->mu);
    if (!h->peers[task])
        st = h->connect(h, task, &h->nets[task], &h->peers[task]);
    *net = h->nets[task];
    *out = h->peers[task];
    mr_unlock(&h->mu);
    return st;
}

void mr_host_ask(mr_host *h, int task, mr_net_request *r)
{
    mr_net *net;
    mr_net_peer *p;
    mr_bytes none = {0};
    mr_status *st = peer_of(h, task, &net, &p);
    if (!st) {
        net->start(p, r);
        return;
    }
    mr_bytes_deinit(&r->body);
    r->done(r, st, &none);
}

void mr_host_cancel(mr_host *h, int task, mr_net_request *r)
{
    mr_lock(&h->mu);
    mr_net *net = h->nets[task];
    mr_unlock(&h->mu);
    if (net)
        net->cancel(r);
}

/* ---- answering ---- */

void mr_reply(mr_net_call *c, mr_status *st, mr_bytes *body)
{
    mr_bytes none = {0};
    if (st && mr_status_is_derived(st)) { /* the mark travels in the text */
        mr_status *marked = mr_error(mr_status_code(st), "[_Derived_]%s", mr_status_message(st));
        mr_status_free(st);
        st = marked;
    }
    c->net->reply(c, st, body ? body : &none);
}

void mr_reply_str(mr_net_call *c, mr_status *st, mr_str *body)
{
    mr_bytes b = {0};
    if (body)
        mr_bytes_add_str(&b, body);
    mr_reply(c, st, &b);
    mr_bytes_deinit(&b);
}

typedef struct heavy_call {
    mr_task task; /* first */
    void (*handle)(void *service, mr_net_call *c, mr_sv body);
    void *service;
    mr_net_call *call;
    mr_sv body;
} heavy_call;

static void run_heavy(mr_task *t)
{
    heavy_call h = *(heavy_call *)t;
    mr_free(t);
    h.handle(h.service, h.call, h.body);
}

static void handle(mr_host *h, const mr_method *m, void *service, mr_net_call *c, mr_sv body)
{
    if (!m->heavy || !h->pool) {
        m->handle(service, c, body);
        return;
    }
    heavy_call *t = mr_new(heavy_call);
    *t = (heavy_call){{.fn = run_heavy}, m->handle, service, c, body};
    mr_pool_submit(h->pool, &t->task);
}

void mr_dispatch(mr_host *h, const mr_method *methods, int n, const char *prefix, void *service, mr_net_call *c)
{
    mr_sv body;
    const char *name = c->method + strlen(prefix);
    mr_status *st = mr_bytes_flat(&c->body, &body);
    for (int i = 0; !st && i < n; i++)
        if (strcmp(methods[i].name, name) == 0) {
            handle(h, &methods[i], service, c, body);
            return;
        }
    mr_reply(c, st ? st : mr_error(MR_UNIMPLEMENTED, "There is no method %s", c->method), NULL);
}
