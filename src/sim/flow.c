/* sim/flow.c -- prints a simulated step event by event: when nodes become ready, where they run, and which tensors
 * cross which link. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/wrap.h"
#include "passes/effort.h"
#include "sim/show.h"

typedef enum event_kind { SENT, READY, RUNS } event_kind; /* events at the same time appear in this order */

typedef struct event {
    double at;
    event_kind kind;
    int number; /* of a node or a transfer */
} event;

typedef MR_VEC(event) event_vec;

typedef struct flow {
    const mr_sim_step *s;
    const mr_terminal *to;
    mr_str line;
    int width; /* of the column of places: gpu0, gpu0>gpu1 */
} flow;

static const char *device_name(const mr_sim_step *s, int d) { return s->plan->devices.p[d].name; }

static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : x->number - y->number;
}

static void list_events(const mr_sim_step *s, event_vec *out)
{
    for (int v = 0; v < s->n_nodes; v++) {
        /* nodes without inputs are ready from the start */
        if (s->planned.play.ready_at[v] > 0 && s->planned.play.start[v] > s->planned.play.ready_at[v])
            mr_vec_push(out, (event){s->planned.play.ready_at[v], READY, v});
        mr_vec_push(out, (event){s->planned.play.start[v], RUNS, v});
    }
    for (int i = 0; i < s->planned.play.sends.n; i++)
        mr_vec_push(out, (event){s->planned.play.sends.p[i].start, SENT, i});
    if (out->n)
        qsort(out->p, (size_t)out->n, sizeof *out->p, by_time);
}

static void put_time(mr_str *out, double s) { mr_put_duration(out, (double)llround(s * 1e9)); }

static int text_column(const flow *f) { return 9 + 2 + f->width + 2; }

/* Time and place; `to` < 0: on a device, else from one to another. */
static void begin_line(flow *f, double at, int from, int to)
{
    mr_str time = {0};
    put_time(&time, at);
    mr_str_clear(&f->line);
    mr_str_printf(&f->line, "%9s  ", mr_str_z(&time));
    if (from >= 0 && to < 0)
        mr_style_put(f->to, mr_style_device(from), mr_sv_of(device_name(f->s, from)), &f->line);
    else if (from >= 0)
        mr_style_printf(f->to, MR_STYLE_SEND, &f->line, "%s>%s", device_name(f->s, from), device_name(f->s, to));
    mr_text_pad(&f->line, 0, text_column(f));
    mr_str_deinit(&time);
}

static void tell_sent(flow *f, const mr_play_send *x)
{
    const mr_sim_step *s = f->s;
    begin_line(f, x->start, x->from, x->to);
    mr_sim_step_send_label(s, x, &f->line);
    mr_str_appendz(&f->line, " is sent");
    if (x->bytes) {
        mr_str_appendz(&f->line, ", ");
        mr_sim_put_size(&f->line, (double)x->bytes, "B");
    }
    mr_str_appendz(&f->line, ", arrives at ");
    put_time(&f->line, x->arrival);
}

/* The node that occupies a device at a time; -1 if it is idle. */
static int running_node(const mr_sim_step *s, int device, double at)
{
    for (int v = 0; v < s->n_nodes; v++)
        if (s->device[v] == device && s->planned.play.start[v] <= at && at < s->planned.play.finish[v])
            return v;
    return -1;
}

static void tell_ready(flow *f, int v)
{
    const mr_sim_step *s = f->s;
    int who = running_node(s, s->device[v], s->planned.play.ready_at[v]);
    begin_line(f, s->planned.play.ready_at[v], s->device[v], -1);
    mr_sim_step_label(s, v, &f->line);
    mr_str_appendz(&f->line, " is ready");
    if (who >= 0) {
        mr_str_appendz(&f->line, "; it waits for ");
        mr_sim_step_label(s, who, &f->line);
    }
}

static void tell_runs(flow *f, int v)
{
    const mr_sim_step *s = f->s;
    const mr_node *n = s->nodes[v];
    double took = s->planned.play.finish[v] - s->planned.play.start[v];
    mr_effort e = mr_effort_of(n, MR_USUAL_DIM);
    begin_line(f, s->planned.play.start[v], s->device[v], -1);
    mr_sim_step_label(s, v, &f->line);
    if (mr_node_is(n, "_Arg") || mr_node_is(n, "_Retval")) { /* takes no time */
        mr_str_appendz(&f->line, mr_node_is(n, "_Arg") ? " is fed" : " is fetched");
        return;
    }
    mr_str_printf(&f->line, " runs (%s): ", n->def->name);
    put_time(&f->line, took);
    if (e.flops >= 1000) {
        mr_str_appendz(&f->line, ", ");
        mr_sim_put_size(&f->line, e.flops, "FLOP");
    }
}

static bool end_line(flow *f, bool (*tell)(void *arg, const char *text), void *arg)
{
    mr_wrap(&f->line, 0, f->to->width, text_column(f));
    return tell(arg, mr_str_z(&f->line));
}

/* Calls `tell` for each event, in the order of time, until it returns false. */
void mr_sim_show_flow(const mr_sim_step *s, const mr_terminal *to, bool (*tell)(void *arg, const char *text), void *arg)
{
    flow f = {.s = s, .to = to, .width = 4};
    event_vec events = {0};
    int widest = 4;
    for (int d = 0; d < s->n_devices; d++)
        widest = MR_MAX(widest, (int)strlen(device_name(s, d)));
    f.width = s->n_devices > 1 ? 2 * widest + 1 : widest;
    list_events(s, &events);
    bool on = true;
    for (int i = 0; i < events.n && on; i++) {
        const event *e = &events.p[i];
        if (e->kind == SENT)
            tell_sent(&f, &s->planned.play.sends.p[e->number]);
        else if (e->kind == READY)
            tell_ready(&f, e->number);
        else
            tell_runs(&f, e->number);
        on = end_line(&f, tell, arg);
    }
    if (on) {
        begin_line(&f, s->step_s, -1, -1);
        mr_str_appendz(&f.line, "the step is over");
        end_line(&f, tell, arg);
    }
    mr_vec_deinit(&events);
    mr_str_deinit(&f.line);
}
