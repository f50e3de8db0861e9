/* server/fellows.c -- the tasks of a cluster as one of them sees it.
 *
 * Ways are closed by a thread that may wait, since requests end in callbacks first: by the host's pool when a session's
 * cluster is let go, or by whoever ends the host, for all that are left. */
#include "server/fellows.h"

#include "base/memory.h"
#include "server/host.h"
#include "server/watch.h"

/* ---- life ---- */

void mr_fellows_close(mr_fellows *p)
{
    mr_watch_stop(p->watch);
    mr_lock(&p->mu);
    p->closed = true;
    mr_unlock(&p->mu);
    for (int i = 0; i < p->cluster.tasks.n; i++) {
        mr_lock(&p->mu);
        mr_net_peer *way = p->ways[i];
        mr_net *net = p->nets[i];
        p->ways[i] = NULL;
        mr_unlock(&p->mu);
        if (way)
            net->disconnect(way);
    }
}

static void take_apart(mr_fellows *p)
{
    mr_fellows_close(p);
    mr_watch_free(p->watch);
    mr_cluster_deinit(&p->cluster);
    mr_mutex_deinit(&p->mu);
    mr_free(p->ways);
    mr_free(p->nets);
    mr_free(p);
}

static void part(mr_task *t) { take_apart((mr_fellows *)((char *)t - offsetof(mr_fellows, parting))); }

mr_status *mr_fellows_new(mr_host *h, const mr_cluster *c, int self, bool brought, mr_fellows **out)
{
    mr_fellows *p = mr_new(mr_fellows);
    mr_refs_init(&p->refs);
    mr_mutex_init(&p->mu);
    p->host = h;
    p->parting.fn = part;
    p->self = self;
    p->brought = brought;
    mr_status *st = mr_cluster_copy(c, &p->cluster);
    p->ways = mr_new_array(mr_net_peer *, p->cluster.tasks.n + 1);
    p->nets = mr_new_array(mr_net *, p->cluster.tasks.n + 1);
    p->watch = mr_watch_new(p);
    mr_host_add_peers(h, p);
    *out = p;
    if (st) {
        mr_fellows_unref(p);
        *out = NULL;
    }
    return st;
}

mr_fellows *mr_fellows_ref(mr_fellows *p)
{
    mr_refs_take(&p->refs);
    return p;
}

/* Where there is no pool any more, nothing is under way. */
void mr_fellows_unref(mr_fellows *p)
{
    if (p && mr_host_drop_peers(p->host, p))
        take_apart(p);
}

/* ---- asking ---- */

static mr_status *way_to(mr_fellows *p, int task, mr_net **net, mr_net_peer **out)
{
    mr_status *st = NULL;
    mr_lock(&p->mu);
    if (p->closed)
        st = mr_error(MR_CANCELLED, "%s was stopped", mr_fellows_name(p));
    else if (!p->ways[task])
        st = p->host->connect(p, task, &p->nets[task], &p->ways[task]);
    *net = p->nets[task];
    *out = p->ways[task];
    mr_unlock(&p->mu);
    return st;
}

void mr_fellows_ask(mr_fellows *p, int task, mr_net_request *r)
{
    mr_net *net;
    mr_net_peer *way;
    mr_bytes none = {0};
    mr_status *st = way_to(p, task, &net, &way);
    if (!st) {
        net->start(way, r);
        return;
    }
    mr_bytes_deinit(&r->body);
    r->done(r, st, &none);
}

void mr_fellows_cancel(mr_fellows *p, int task, mr_net_request *r)
{
    mr_lock(&p->mu);
    mr_net *net = p->nets[task];
    mr_unlock(&p->mu);
    if (net)
        net->cancel(r);
}

mr_status *mr_fellows_filter(const mr_fellows *p, mr_sv filter, bool *marked)
{
    mr_device_name f, task;
    if (!mr_device_name_parse(filter, &f))
        return mr_invalid("'%.*s' is not a device filter", MR_SV_ARG(filter));
    f.has_type = false;
    f.id = -1;
    for (int i = 0; i < p->cluster.tasks.n; i++) {
        mr_device_name_parse(mr_sv_of(mr_fellows_task(p, i)->name), &task);
        marked[i] |= mr_device_name_matches(&f, &task);
    }
    return NULL;
}
