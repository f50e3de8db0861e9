/* cli/launch_plan.c -- decides which tasks a launch starts, on which hosts and with which ports. */
#include "cli/launch_plan.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli/hosts.h"
#include "cli/ranks.h"

/* The system assigns ports from HIGH_PORT on to outgoing connections. */
enum { MAX_TASKS = 1024, FIRST_PORT = 2222, LOW_PORT = 12288, HIGH_PORT = 32768 };

void mr_launch_plan_deinit(mr_launch_plan *p)
{
    for (int i = 0; i < p->cluster.tasks.n; i++) {
        mr_free(p->hosts ? p->hosts[i] : NULL);
        mr_free(p->launchers ? p->launchers[i] : NULL);
    }
    mr_free(p->hosts);
    mr_free(p->launchers);
    mr_cluster_deinit(&p->cluster);
    *p = (mr_launch_plan){0};
}

bool mr_launch_plan_is_chief(const mr_launch_plan *p, int task)
{
    bool chiefs = mr_cluster_count(&p->cluster, MR_SV("chief")) > 0;
    const mr_task_address *t = &p->cluster.tasks.p[task];
    return t->number == 0 && strcmp(t->job, chiefs ? "chief" : "worker") == 0;
}

/* ---- counts ---- */

typedef struct counts {
    int ps, workers;
} counts;

static bool is_given(int64_t option) { return option != MR_NOT_GIVEN; }

static mr_status *check_counts(int64_t ps, int64_t workers, counts *out)
{
    if (ps < 0 || workers < 1 || ps > MAX_TASKS || workers > MAX_TASKS - ps)
        return mr_invalid("--ps %lld --workers %lld: a job has at least one worker and at most %d tasks", (long long)ps,
                          (long long)workers, MAX_TASKS);
    *out = (counts){(int)ps, (int)workers};
    return NULL;
}

static mr_status *count_tasks(const mr_launch_plan_args *a, counts *out)
{
    return check_counts(is_given(a->n_ps) ? a->n_ps : 1, is_given(a->n_workers) ? a->n_workers : 1, out);
}

/* The number of ranks is fixed. If only one of --ps and --workers is given, the other one is the rest. */
static mr_status *count_ranks(const mr_launch_plan_args *a, const mr_ranks *r, counts *out)
{
    int64_t ps = is_given(a->n_ps) ? a->n_ps : is_given(a->n_workers) ? r->size - a->n_workers : MR_MIN(1, r->size - 1);
    int64_t workers = is_given(a->n_workers) ? a->n_workers : r->size - ps;
    if (ps < 0 || ps > r->size || workers != r->size - ps)
        return mr_invalid("--ps %lld and --workers %lld do not add up to the %d ranks that %s started", (long long)ps,
                          (long long)workers, r->size, r->scheduler);
    return check_counts(ps, workers, out);
}

/* ---- addresses ---- */

/* Finds a free port. The socket reserves it until all ports are chosen. */
static mr_status *hold_port(int *fd, int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, (struct sockaddr *)&a, sizeof a) < 0 || getsockname(*fd, (struct sockaddr *)&a, &n) < 0)
        return mr_error(MR_RESOURCE_EXHAUSTED, "cannot find a free port: %s", strerror(errno));
    *port = ntohs(a.sin_port);
    return NULL;
}

/* Chooses n different free ports. They are free again when this returns, so another process may take one. */
static mr_status *choose_ports(int *ports, int n)
{
    int *held = mr_new_array(int, n), n_held = 0;
    mr_status *st = NULL;
    for (int i = 0; !st && i < n; i++) {
        st = hold_port(&held[n_held], &ports[i]);
        n_held += held[n_held] >= 0;
    }
    for (int i = 0; i < n_held; i++)
        close(held[i]);
    mr_free(held);
    return st;
}

/* Tasks that find each other through ZooKeeper use port 0: each start takes any free port. */
static bool any_port(const mr_launch_plan_args *a) { return a->zookeeper && !a->port; }

static mr_status *count_up_ports(int64_t first, int *ports, int n, int more)
{
    if (first < 1 || first > 65536 - n - more)
        return mr_invalid("--port %lld: the job needs %d ports from there on, all from 1 to 65535", (long long)first,
                          n + more);
    for (int i = 0; i < n; i++)
        ports[i] = (int)first + i;
    return NULL;
}

/* Adds task i; the ps tasks come first, then the workers. */
static mr_status *add_task(mr_launch_plan *p, counts n, int i, const char *host, int port)
{
    char *address = mr_printf("%s:%d", host, port);
    mr_status *st = i < n.ps ? mr_cluster_add(&p->cluster, MR_SV("ps"), i, mr_sv_of(address))
                             : mr_cluster_add(&p->cluster, MR_SV("worker"), i - n.ps, mr_sv_of(address));
    mr_free(address);
    return st;
}

/* ---- kinds of plans ---- */

/* All tasks on this machine. */
static mr_status *plan_local(const mr_launch_plan_args *a, mr_launch_plan *p)
{
    counts n;
    MR_TRY(count_tasks(a, &n));
    int all = n.ps + n.workers;
    int *ports = mr_new_array(int, all);
    mr_status *st = a->port ? count_up_ports(a->port, ports, all, 0) : any_port(a) ? NULL : choose_ports(ports, all);
    for (int i = 0; !st && i < all; i++)
        st = add_task(p, n, i, "127.0.0.1", ports[i]);
    p->chose_ports = !a->port;
    mr_free(ports);
    return st;
}

/* Rejects a list with localhost and other hosts: localhost means a different machine on each of them. */
static mr_status *check_mixture(const mr_hosts *h)
{
    const char *near = NULL, *far = NULL;
    for (int i = 0; i < h->places.n; i++)
        *(mr_host_is_loopback(h->places.p[i]) ? &near : &far) = h->places.p[i];
    if (!near || !far)
        return NULL;
    return mr_invalid(
        "hosts %s and %s: %s means a different machine on each host; give the name by which the others reach it", near,
        far, near);
}

/* The first port on other hosts: --port, or else 2222, which firewalls may allow. After a retry, a random port below
 * those that the system assigns to connections. */
static int64_t first_port(const mr_launch_plan_args *a)
{
    return a->port      ? a->port
           : a->retries ? LOW_PORT + (int64_t)(mr_random64() % (HIGH_PORT - LOW_PORT - MAX_TASKS))
                        : FIRST_PORT;
}

/* Assigns tasks to places in turn, parameter servers first. So no place is idle while another one has two tasks, and
 * each host gets its share of both kinds. */
static mr_status *plan_hosts(const mr_launch_plan_args *a, const mr_hosts *h, mr_launch_plan *p)
{
    counts n;
    MR_TRY(count_tasks(a, &n));
    MR_TRY(check_mixture(h));
    int all = n.ps + n.workers;
    int *ports = mr_new_array(int, all);
    mr_status *st = any_port(a) ? NULL : count_up_ports(first_port(a), ports, all, 0);
    p->hosts = mr_new_array(char *, all);
    p->chose_ports = !a->port;
    for (int i = 0; !st && i < all; i++) {
        const char *host = h->places.p[i % h->places.n];
        st = add_task(p, n, i, mr_host_address(host), ports[i]);
        if (!st && !mr_host_is_here(host))
            p->hosts[i] = mr_strdup(host);
    }
    mr_free(ports);
    return st;
}

/* The first port of a job of ranks, for its tasks and their launchers. All ranks must compute the same port without
 * asking each other, and jobs that share a host must get different ports. So the number of the job selects a block of
 * ports; consecutive jobs get different blocks until all blocks have been used. */
static int64_t port_of_job(const mr_ranks *r)
{
    int64_t block = 1;
    while (block < 2 * (int64_t)r->size)
        block *= 2;
    return r->has_job ? LOW_PORT + (int64_t)(r->job % (uint64_t)((HIGH_PORT - LOW_PORT) / block)) * block : FIRST_PORT;
}

/* One task of a job of mpirun or Slurm: the one with the number of this rank. */
static mr_status *plan_rank(const mr_launch_plan_args *a, const mr_ranks *r, mr_launch_plan *p)
{
    counts n;
    MR_TRY(count_ranks(a, r, &n));
    int *ports = mr_new_array(int, r->size);
    mr_status *st = count_up_ports(a->port ? a->port : port_of_job(r), ports, r->size, r->size);
    p->launchers = mr_new_array(char *, r->size);
    for (int i = 0; !st && i < r->size; i++) {
        st = add_task(p, n, i, r->hosts.places.p[i], any_port(a) ? 0 : ports[i]);
        p->launchers[i] = mr_printf("%s:%d", r->hosts.places.p[i], ports[i] + r->size);
    }
    p->only = r->rank; /* the cluster lists ps tasks before workers too */
    p->scheduler = r->scheduler;
    mr_free(ports);
    return st;
}

/* A cluster with given addresses: each task runs on the host of its address. Takes the cluster out of d. */
static void plan_given(mr_server_def *d, mr_launch_plan *p)
{
    p->cluster = d->cluster;
    d->cluster = (mr_cluster){0};
    p->only = d->job ? mr_cluster_find(&p->cluster, mr_sv_of(d->job), d->task) : -1;
    p->hosts = mr_new_array(char *, p->cluster.tasks.n);
    for (int i = 0; i < p->cluster.tasks.n && p->only < 0; i++) {
        const char *address = p->cluster.tasks.p[i].address;
        if (strcmp(address, MR_ADDRESS_ASKED) == 0) /* no host is given: run it here */
            continue;
        char *host = mr_strndup(address, (size_t)(strrchr(address, ':') - address));
        if (mr_host_is_here(host))
            mr_free(host);
        else
            p->hosts[i] = host;
    }
}

/* ---- choosing ---- */

static mr_status *read_hosts(const mr_launch_plan_args *a, mr_hosts *out)
{
    if (a->hosts && a->hostfile)
        return mr_invalid("give either --hosts or --hostfile, not both");
    if (a->hosts)
        return mr_status_prepend(mr_hosts_add_list(out, mr_sv_of(a->hosts)), "--hosts: ");
    return a->hostfile ? mr_hosts_add_file(out, a->hostfile) : NULL;
}

static const char *read_environment(const char *name) { return getenv(name); }

static mr_status *check_given(const mr_launch_plan_args *a, const mr_server_def *d)
{
    if (is_given(a->n_ps) || is_given(a->n_workers) || a->hosts || a->hostfile || a->port)
        return mr_invalid(
            "the cluster already has addresses: do not give --ps, --workers, --hosts, --hostfile or --port with it");
    return mr_cluster_count(&d->cluster, MR_SV("worker")) + mr_cluster_count(&d->cluster, MR_SV("chief"))
               ? NULL
               : mr_invalid("the cluster has no worker and no chief");
}

/* Chooses the kind of plan; launch_plan.h states the order. The caller deinits d, hosts and ranks. */
static mr_status *choose_plan(const mr_launch_plan_args *a, mr_server_def *d, mr_hosts *hosts, mr_ranks *ranks,
                              mr_launch_plan *out)
{
    bool counted = is_given(a->n_ps) || is_given(a->n_workers) || a->hosts || a->hostfile;
    bool one = counted && a->zookeeper && a->cluster.job && !a->hosts && !a->hostfile; /* one task of n */
    mr_cluster_args cluster = a->cluster;
    if (one) {
        cluster.n_ps = a->n_ps;
        cluster.n_workers = a->n_workers;
    }
    MR_TRY(read_hosts(a, hosts));
    MR_TRY(mr_cluster_args_read(&cluster, false, d));
    if (!d->cluster.tasks.n && !a->local)
        MR_TRY(mr_ranks_read(read_environment, hosts, ranks));
    if (!d->cluster.tasks.n && !ranks->scheduler && !counted && !a->local)
        MR_TRY(mr_cluster_args_read(&a->cluster, true, d));
    if (d->cluster.tasks.n) {
        if (!one)
            MR_TRY(check_given(a, d));
        plan_given(d, out);
        return NULL;
    }
    if (a->cluster.job)
        return mr_invalid(
            "--job %s needs a cluster: give --cluster, or --ps-hosts and --worker-hosts, or set TF_CONFIG",
            a->cluster.job);
    if (ranks->scheduler)
        return plan_rank(a, ranks, out);
    return hosts->places.n && !a->local ? plan_hosts(a, hosts, out) : plan_local(a, out);
}

mr_status *mr_launch_plan_make(const mr_launch_plan_args *a, mr_launch_plan *out)
{
    mr_server_def d = {0};
    mr_hosts hosts = {0};
    mr_ranks ranks = {0};
    *out = (mr_launch_plan){.only = -1};
    mr_status *st = choose_plan(a, &d, &hosts, &ranks, out);
    if (!st && out->cluster.tasks.n > MAX_TASKS)
        st = mr_invalid("the cluster has %d tasks; at most %d can be launched", out->cluster.tasks.n, MAX_TASKS);
    if (st)
        mr_launch_plan_deinit(out);
    mr_server_def_deinit(&d);
    mr_hosts_deinit(&hosts);
    mr_ranks_deinit(&ranks);
    return st;
}
