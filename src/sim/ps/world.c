/* sim/ps/world.c -- one run from start to end: virtual time, random numbers, the trace. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/ps/world.h"

enum { MAX_EVENTS = 300000 };
#define LONGEST_NS (20000 * MS) /* after the last fault */
#define REST_NS (60 * MS)       /* after everything is done: for late messages */

/* ---- events ---- */

static bool event_before(const mr_pss_event *a, const mr_pss_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

void mr_pss_at(mr_pss *w, int64_t delay_ns, void (*fn)(mr_pss *w, void *arg), void *arg)
{
    mr_pss_event e = {w->now_ns + delay_ns, w->seq++, fn, arg};
    mr_vec_push(&w->heap, e);
    int i = w->heap.n - 1;
    for (; i > 0 && event_before(&e, &w->heap.p[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap.p[i] = w->heap.p[(i - 1) / 2];
    w->heap.p[i] = e;
}

static mr_pss_event next_event(mr_pss *w)
{
    mr_pss_event first = w->heap.p[0], e = mr_vec_pop(&w->heap);
    int i = 0;
    for (int k; (k = 2 * i + 1) < w->heap.n; i = k) {
        if (k + 1 < w->heap.n && event_before(&w->heap.p[k + 1], &w->heap.p[k]))
            k++;
        if (!event_before(&w->heap.p[k], &e))
            break;
        w->heap.p[i] = w->heap.p[k];
    }
    if (w->heap.n > 0)
        w->heap.p[i] = e;
    return first;
}

/* ---- chance ---- */

uint64_t mr_pss_random(mr_pss *w)
{
    uint64_t z = w->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t mr_pss_between(mr_pss *w, int64_t low, int64_t high)
{
    return low + (int64_t)(mr_pss_random(w) % (uint64_t)(high - low + 1));
}

bool mr_pss_chance(mr_pss *w, int in_1000) { return mr_pss_between(w, 0, 999) < in_1000; }

/* ---- the trace ---- */

static void hash_in(mr_pss *w, uint64_t v) { w->result->hash = (w->result->hash ^ v) * 1099511628211u; }

/* Writes a line of the trace. */
static void trace_line(mr_pss *w, int node, const char *text)
{
    char line[512], who[24] = "world";
    if (node == MANAGER)
        snprintf(who, sizeof who, "manager");
    else if (node >= FIRST_CLIENT)
        snprintf(who, sizeof who, "client %d", node - FIRST_CLIENT);
    else if (node > 0)
        snprintf(who, sizeof who, "server %d", node - FIRST_SERVER);
    snprintf(line, sizeof line, "[%10.3f] %-9s %s", (double)w->now_ns / 1e6, who, text);
    w->options->trace(w->options->trace_arg, line);
}

/* Hashes the event even if nobody traces it, so that the hash of a run is always the same. */
void mr_pss_note(mr_pss *w, int node, const char *fmt, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    char text[256];
    hash_in(w, (uint64_t)w->now_ns);
    hash_in(w, (uint64_t)node);
    for (const char *p = fmt; *p; p++)
        hash_in(w, (unsigned char)*p);
    hash_in(w, a);
    hash_in(w, b);
    hash_in(w, c);
    hash_in(w, d);
    if (!w->options->trace)
        return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, fmt, (unsigned long long)a, (unsigned long long)b, (unsigned long long)c, (unsigned long long)d);
#pragma GCC diagnostic pop
    trace_line(w, node, text);
}

void mr_pss_fail(mr_pss *w, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (w->result->failure)
        return;
    w->result->failure = mr_strdup(text);
    if (w->options->trace)
        trace_line(w, -1, text);
}

/* ---- a run ---- */

static void make_cluster(mr_pss *w)
{
    int n = (int)mr_pss_between(w, 2, 6);
    w->n_ranges = (int)mr_pss_between(w, 1, MAX_RANGES);
    w->replicas = (int)mr_pss_between(w, 1, 3);
    w->max_motion = (int)mr_pss_between(w, 1, 4);
    w->replica_options = (mr_psr_options){.window = (int)mr_pss_between(w, 1, 3),
                                          .max_kept = (int)mr_pss_between(w, 1, 8),
                                          .max_waiting = (int)mr_pss_between(w, 1, 12),
                                          .retry_ns = mr_pss_between(w, 10, 60) * MS};
    w->client_options = (mr_psc_options){.window = (int)mr_pss_between(w, 1, 4),
                                         .retry_ns = mr_pss_between(w, 2, 10) * MS,
                                         .answer_ns = mr_pss_between(w, 100, 400) * MS};
    mr_pss_manager_start(w);
    for (int i = 0; i < n; i++)
        mr_pss_server_start(w);
    w->n_clients = (int)mr_pss_between(w, 1, MAX_CLIENTS);
    for (int i = 0; i < w->n_clients; i++)
        mr_pss_client_start(w, i);
}

static bool clients_finished(const mr_pss *w)
{
    for (int i = 0; i < w->n_clients; i++)
        if (w->clients[i].up && !w->clients[i].finished)
            return false;
    return true;
}

/* Runs events until the faults are over, all clients have finished and the manager is quiet for REST_NS. */
static void run_until_rest(mr_pss *w)
{
    int64_t end_ns = INT64_MAX;
    while (!w->result->failure && w->heap.n > 0 && w->now_ns < end_ns) {
        mr_pss_event e = next_event(w);
        MR_ASSERT(e.at_ns >= w->now_ns);
        w->now_ns = e.at_ns;
        e.fn(w, e.arg);
        if (!w->calm || !clients_finished(w) || !mr_pss_manager_is_quiet(w))
            end_ns = INT64_MAX;
        else if (end_ns == INT64_MAX)
            end_ns = w->now_ns + REST_NS;
        if (++w->result->n_events > MAX_EVENTS)
            mr_pss_fail(w, "there is no end of events");
        if (w->now_ns > w->faults_end_ns + LONGEST_NS)
            mr_pss_fail(w, clients_finished(w) ? "the servers do not come to rest" : "a client waits forever");
    }
}

static void free_world(mr_pss *w)
{
    mr_pss_manager_end(w);
    for (int i = 0; i < w->n_servers; i++)
        mr_pss_server_free(w->servers[i]);
    for (int i = 0; i < w->n_clients; i++)
        mr_pss_client_free(&w->clients[i]);
    mr_vec_deinit(&w->heap);
    mr_arena_deinit(&w->arena);
    mr_free(w);
}

void mr_ps_sim_run(const mr_ps_sim_options *o, mr_ps_sim_result *out)
{
    mr_pss *w = mr_new(mr_pss);
    *out = (mr_ps_sim_result){.hash = 14695981039346656037u};
    mr_arena_init(&w->arena, 256 << 10);
    w->random = o->seed * 0x2545f4914f6cdd1du;
    w->options = o;
    w->result = out;
    unsigned chosen = (unsigned)mr_pss_between(w, 1, MR_PS_SIM_ALL);
    w->faults = o->faults ? o->faults & MR_PS_SIM_ALL : chosen;
    make_cluster(w);
    mr_pss_plan_faults(w);
    run_until_rest(w);
    if (!out->failure)
        mr_pss_check_end(w);
    out->end_ns = w->now_ns;
    free_world(w);
}
