/* sim/clock.c -- virtual time: events in a heap, chance from the seed, and the trace. */
#include <stdio.h>

#include "sim/world.h"

/* ---- events ---- */

static bool event_before(const mr_sim_event *a, const mr_sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

static void sift_up(mr_sim *s, int i)
{
    mr_sim_event e = s->heap.p[i];
    for (; i > 0 && event_before(&e, &s->heap.p[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap.p[i] = s->heap.p[(i - 1) / 2];
    s->heap.p[i] = e;
}

static void sift_down(mr_sim *s, int i)
{
    mr_sim_event e = s->heap.p[i];
    for (int k; (k = 2 * i + 1) < s->heap.n; i = k) {
        if (k + 1 < s->heap.n && event_before(&s->heap.p[k + 1], &s->heap.p[k]))
            k++;
        if (!event_before(&s->heap.p[k], &e))
            break;
        s->heap.p[i] = s->heap.p[k];
    }
    s->heap.p[i] = e;
}

void mr_sim_after(mr_sim *s, int node, int64_t ns, mr_sim_fn *fn, void *arg)
{
    mr_sim_event e = {s->now_ns + MR_MAX(ns, 0), s->seq++, fn, arg, node, node >= 0 ? s->nodes[node].generation : 0};
    mr_vec_push(&s->heap, e);
    sift_up(s, s->heap.n - 1);
}

/* Runs the next event. Events of a node that has ended since (its generation differs) are dropped. */
bool mr_sim_next(mr_sim *s)
{
    if (s->heap.n == 0)
        return false;
    mr_sim_event e = s->heap.p[0];
    mr_sim_event last = mr_vec_pop(&s->heap);
    if (s->heap.n > 0) {
        s->heap.p[0] = last;
        sift_down(s, 0);
    }
    MR_ASSERT(e.at_ns >= s->now_ns);
    s->now_ns = e.at_ns;
    s->result->n_events++;
    if (e.node < 0 || s->nodes[e.node].generation == e.generation)
        e.fn(s, e.arg);
    return true;
}

/* ---- chance ---- */

uint64_t mr_sim_random(mr_sim *s)
{
    uint64_t z = s->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t mr_sim_between(mr_sim *s, int64_t low, int64_t high)
{
    return low + (int64_t)(mr_sim_random(s) % (uint64_t)(high - low + 1));
}

bool mr_sim_chance(mr_sim *s, int in_10000) { return mr_sim_between(s, 0, 9999) < in_10000; }

/* ---- the trace ---- */

static void hash_line(mr_sim *s, const char *line)
{
    uint64_t h = s->result->hash;
    for (; *line; line++)
        h = (h ^ (unsigned char)*line) * 1099511628211u;
    s->result->hash = h;
}

void mr_sim_say(mr_sim *s, int node, const char *fmt, ...)
{
    char line[256];
    va_list ap;
    int n = snprintf(line, sizeof line, "[%11.3f] %-9s ", (double)s->now_ns / 1e6, node < 0 ? "world" : s->nodes[node].name);
    va_start(ap, fmt);
    vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    hash_line(s, line);
    if (s->options->trace)
        s->options->trace(s->options->trace_arg, line);
}

void mr_sim_fail(mr_sim *s, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    mr_sim_say(s, -1, "FAILS: %s", text);
    if (!s->result->failure)
        s->result->failure = mr_strdup(text);
}
