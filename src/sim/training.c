/* sim/training.c -- simulates the training of a plan's cluster: a job with the plan's numbers and the layers of its
 * step. */
#include "sim/training.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/wrap.h"
#include "sim/show.h"

enum { USUAL_STEPS = 200, FEW_STEPS = 20, USUAL_WORK = MR_SIM_MAX_WORK / 20, SHOWN_STEPS = 3, MOST_SHOWN_STEPS = 12, SHOWN_TASKS = 12,
       JSON_STEP_SPANS = 10000, JSON_INCIDENTS = 10000 };

/* ---- the job ---- */

/* Assigns each whole layer to the parameter server that holds least so far, as train/replicas.c does with variables. */
static void deal_out(mr_simtrain_chunk *chunks, int n, int n_ps)
{
    double *held = mr_new_array(double, n_ps);
    for (int i = 0; i < n; i++) {
        int least = 0;
        for (int k = 1; k < n_ps; k++)
            least = held[k] < held[least] ? k : least;
        chunks[i].ps = least;
        held[least] += chunks[i].bytes;
    }
    mr_free(held);
}

static mr_status *settle_steps(const mr_sim_plan *p, mr_simtrain_job *j)
{
    int64_t n = j->n_workers + j->backup, each = (n + MR_MIN(n, j->n_cuts) * MR_MAX(j->n_ps - 1, 0)) * MR_MAX(j->n_chunks, 1);
    int64_t steps = p->cluster.steps ? p->cluster.steps : MR_MAX(MR_MIN(USUAL_WORK / each, USUAL_STEPS), FEW_STEPS);
    if (each > MR_SIM_MAX_WORK / steps)
        return mr_error(MR_RESOURCE_EXHAUSTED, "%lld steps of %d workers and %d layers are too many to simulate; at most %d in all",
                        (long long)steps, j->n_workers + j->backup, j->n_chunks, MR_SIM_MAX_WORK);
    j->steps = (int)steps;
    j->warmup = (int)MR_MIN(j->warmup, steps / 4);
    return NULL;
}

/* Workers that do not wait for a slow one have made several steps when it ends its first, which is to be seen, too. With
 * a bounded delay so is that they wait for it: first when they are as far ahead as they may be, and then once more. */
static int shown_steps(const mr_simtrain_job *j)
{
    double factor = 1;
    bool all_wait = j->mode == MR_SIMTRAIN_ALLREDUCE || (j->mode == MR_SIMTRAIN_SYNC && !j->backup && !j->adaptive);
    for (int i = 0; i < j->n_slow && !all_wait; i++)
        if (j->slow[i].kind == MR_SIMTRAIN_WORKER && j->slow[i].at_s == 0)
            factor = MR_MAX(factor, j->slow[i].factor);
    int n = factor > MOST_SHOWN_STEPS ? SHOWN_STEPS : MR_MAX(SHOWN_STEPS, (int)ceil(factor) + 1);
    if (j->mode == MR_SIMTRAIN_BOUNDED && j->delay_bound <= MOST_SHOWN_STEPS)
        n = MR_MAX(n, j->delay_bound + 3);
    return n;
}

static mr_status *make_job(const mr_sim_plan *p, mr_sim_step *s, mr_sim_training *t)
{
    const mr_sim_graph_plan *g = &p->graph;
    int batch = g->model ? mr_sim_model_param(g->model, MR_SV("batch")) : -1;
    t->job = p->cluster.job;
    t->job.cancelled = p->cancelled;
    t->chunks = mr_sim_step_chunks(s, &t->job.n_chunks);
    t->job.chunks = t->chunks;
    t->job.batch = batch >= 0 ? (double)g->params[batch] : 1;
    t->job.span_steps = shown_steps(&t->job);
    if (!p->cluster.shard && t->job.mode != MR_SIMTRAIN_ALLREDUCE)
        deal_out(t->chunks, t->job.n_chunks, t->job.n_ps);
    return settle_steps(p, &t->job);
}

mr_status *mr_sim_training_run(const mr_sim_plan *p, mr_sim_step *s, mr_sim_training *out)
{
    *out = (mr_sim_training){0};
    mr_status *st = make_job(p, s, out);
    if (!st)
        st = mr_simtrain_run(&out->job, &out->result);
    if (!st)
        return NULL;
    mr_free(out->chunks);
    *out = (mr_sim_training){0};
    return mr_status_prepend(st, "cluster: ");
}

void mr_sim_training_deinit(mr_sim_training *t)
{
    mr_simtrain_result_deinit(&t->result);
    mr_free(t->chunks);
    *t = (mr_sim_training){0};
}

/* ---- showing it ---- */

static const mr_span_kind kinds[] = {
    [MR_SIMTRAIN_FETCH] = MR_SPAN_SEND,       [MR_SIMTRAIN_FORWARD] = MR_SPAN_COMPUTE, [MR_SIMTRAIN_BACKWARD] = MR_SPAN_COMPUTE,
    [MR_SIMTRAIN_PUSH] = MR_SPAN_SEND,        [MR_SIMTRAIN_WAIT] = MR_SPAN_WAIT,       [MR_SIMTRAIN_SERVE] = MR_SPAN_COMPUTE,
    [MR_SIMTRAIN_SAVE] = MR_SPAN_SAVE,        [MR_SIMTRAIN_RESTORE] = MR_SPAN_SAVE,    [MR_SIMTRAIN_DOWN] = MR_SPAN_DOWN,
    [MR_SIMTRAIN_CUT] = MR_SPAN_DOWN,         [MR_SIMTRAIN_REDUCE] = MR_SPAN_SEND,
};

static int by_start(const void *a, const void *b)
{
    const mr_simtrain_span *x = a, *y = b;
    return (x->start_s > y->start_s) - (x->start_s < y->start_s);
}

static bool is_incident(const mr_simtrain_span *x) { return mr_simtrain_is_incident(x->doing); }

enum { STEPS = 1, INCIDENTS = 2 }; /* what to draw: bits */

static void add_spans(const mr_sim_training *t, unsigned which, mr_timeline *out)
{
    MR_VEC(mr_simtrain_span) spans = {0};
    for (int i = 0; i < t->result.spans.n; i++)
        if (which & (is_incident(&t->result.spans.p[i]) ? INCIDENTS : STEPS))
            mr_vec_push(&spans, t->result.spans.p[i]);
    if (spans.n)
        qsort(spans.p, (size_t)spans.n, sizeof *spans.p, by_start);
    for (int i = 0; i < spans.n; i++) {
        const mr_simtrain_span *x = &spans.p[i];
        char task[48], name[120];
        snprintf(task, sizeof task, "%s:%d", x->kind == MR_SIMTRAIN_PS ? "ps" : "worker", x->index);
        bool layer = x->chunk >= 0 && x->chunk < t->job.n_chunks && t->chunks[x->chunk].name;
        snprintf(name, sizeof name, "%s%s%.80s", mr_simtrain_doing_name(x->doing), layer ? ":" : "", layer ? t->chunks[x->chunk].name : "");
        int id = mr_timeline_task(out, mr_sv_of(task));
        int64_t start = (int64_t)llround(x->start_s * 1e9);
        mr_timeline_span(out, (mr_span){.name = name, .lane = mr_timeline_free_lane(out, id, x->kind == MR_SIMTRAIN_PS ? MR_SV("serve") : MR_SV("step"), start), .kind = kinds[x->doing],
                                        .start_ns = start, .end_ns = (int64_t)llround(x->end_s * 1e9)});
    }
    mr_vec_deinit(&spans);
}

void mr_sim_training_timeline(const mr_sim_training *t, mr_timeline *out) { add_spans(t, STEPS | INCIDENTS, out); }

/* Steps and incidents are separate pictures: shares of the first steps refer to the time of these steps only; shares of
 * the whole training are printed above. */
static void show_spans(const mr_sim_training *t, unsigned which, const mr_terminal *to, mr_str *out)
{
    mr_timeline line;
    mr_timeline_text_options o = {.no_shares = which == INCIDENTS};
    mr_timeline_init(&line);
    add_spans(t, which, &line);
    if (which == INCIDENTS)
        o.to_ns = (int64_t)llround(t->result.total_s * 1e9);
    mr_sim_put_timeline(&line, to, o, out);
    mr_timeline_deinit(&line);
}

/* The color of the key at the beginning of a line of the result, as in the timeline. */
static const char *key_style(mr_sv line)
{
    return mr_sv_starts(line, "crash") ? MR_STYLE_MARK : mr_sv_starts(line, "checkpoints") ? MR_STYLE_SAVE : NULL;
}

/* Prints the result within the width: the job first, which goes on with an indent, then lines with a key. */
static void put_result(const mr_sim_training *t, const mr_terminal *to, mr_str *out)
{
    enum { KEY = 15 };
    mr_str text = {0};
    mr_simtrain_print(&t->job, &t->result, &text);
    mr_sv rest = mr_str_view(&text), line;
    while (mr_sv_cut(&rest, '\n', &line) && rest.p) {
        size_t from = out->n, key = 0;
        bool keyed = line.n && line.p[0] == ' ';
        mr_sv words = mr_sv_trim(line);
        while (keyed && key < words.n && words.p[key] != ' ')
            key++;
        mr_str_append(out, line.p, (size_t)(words.p - line.p));
        mr_style_put(to, key_style(words), (mr_sv){words.p, key}, out);
        mr_str_append(out, words.p + key, words.n - key);
        mr_str_appendc(out, '\n');
        mr_wrap(out, from, to->width, keyed ? KEY : 2);
    }
    mr_str_deinit(&text);
}

void mr_sim_show_training(const mr_sim_training *t, const mr_terminal *to, mr_str *out)
{
    int n_incidents = 0;
    mr_sim_put_heading(to, "", "training", out);
    put_result(t, to, out);
    if (t->result.n_workers + t->job.n_ps > SHOWN_TASKS || !t->result.spans.n)
        return;
    for (int i = 0; i < t->result.spans.n; i++)
        n_incidents += is_incident(&t->result.spans.p[i]);
    if (n_incidents < t->result.spans.n) {
        char head[40];
        snprintf(head, sizeof head, "the first %d steps", t->job.span_steps);
        mr_sim_put_heading(to, "\n", head, out);
        show_spans(t, STEPS, to, out);
    }
    if (n_incidents) {
        mr_sim_put_heading(to, "\n", "checkpoints and failures of the whole training", out);
        show_spans(t, INCIDENTS, to, out);
    }
}

/* ---- JSON ---- */

static void put_number(mr_str *out, const char *key, double v)
{
    if (isfinite(v))
        mr_str_printf(out, ", \"%s\": %.9g", key, v);
    else
        mr_str_printf(out, ", \"%s\": null", key);
}

static void put_dist(mr_str *out, const char *key, const mr_simtrain_dist *d)
{
    mr_str_printf(out, ", \"%s\": {\"n\": %lld", key, (long long)d->n);
    put_number(out, "mean", d->mean);
    put_number(out, "min", d->min);
    put_number(out, "p10", d->p10);
    put_number(out, "median", d->median);
    put_number(out, "p90", d->p90);
    put_number(out, "p99", d->p99);
    put_number(out, "max", d->max);
    mr_str_appendc(out, '}');
}

static void put_losses(const mr_simtrain_result *r, mr_str *out)
{
    mr_str_appendz(out, ", \"losses\": [");
    for (int i = 0; i < r->losses.n; i++) {
        const mr_simtrain_loss *l = &r->losses.p[i];
        mr_str_printf(out, "%s{\"task\": \"%s\", \"index\": %d", i ? ", " : "", mr_simtrain_kind_name(l->kind), l->index);
        put_number(out, "at_s", l->at_s);
        put_number(out, "noticed_s", l->noticed_s);
        put_number(out, "back_s", l->back_s);
        put_number(out, "restarted_s", l->restarted_s);
        put_number(out, "reached_s", l->reached_s);
        put_number(out, "stopped_s", l->stopped_s);
        put_number(out, "lost_steps", l->lost_steps);
        put_number(out, "lost_s", l->lost_s);
        put_number(out, "checkpoint_at_s", l->checkpoint_at_s);
        put_number(out, "checkpoint_taken_s", l->checkpoint_taken_s);
        put_number(out, "saved_steps", l->saved_steps);
        mr_str_appendc(out, '}');
    }
    mr_str_appendc(out, ']');
}

static void put_workers(const mr_simtrain_result *r, mr_str *out)
{
    mr_str_appendz(out, ",\n\"each_worker\": [");
    for (int i = 0; i < r->n_workers; i++) {
        const mr_simtrain_worker *w = &r->workers[i];
        mr_str_printf(out, "%s{\"steps\": %lld", i ? ",\n  " : "\n  ", (long long)w->steps);
        put_number(out, "dropped", (double)w->dropped);
        put_number(out, "last", (double)w->last);
        put_number(out, "call_s", w->call_s);
        put_number(out, "busy_s", w->busy_s);
        put_number(out, "fetch_s", w->fetch_s);
        put_number(out, "push_s", w->push_s);
        put_number(out, "wait_s", w->wait_s);
        put_number(out, "down_s", w->down_s);
        mr_str_appendc(out, '}');
    }
    mr_str_appendc(out, ']');
}

static void put_span(const mr_simtrain_span *x, int *n, mr_str *out)
{
    mr_str_printf(out, "%s{\"task\": \"%s:%d\", \"doing\": \"%s\", \"step\": %d", (*n)++ ? ",\n  " : "\n  ",
                  x->kind == MR_SIMTRAIN_PS ? "ps" : "worker", x->index, mr_simtrain_doing_name(x->doing), x->step);
    put_number(out, "start_s", x->start_s);
    put_number(out, "end_s", x->end_s);
    mr_str_appendz(out, x->dropped ? ", \"dropped\": true}" : "}");
}

/* A task that crashed again before it worked, or did not work again before the end, has no span of its downtime. */
static void put_downtime(const mr_simtrain_result *r, int loss, int *n, mr_str *out)
{
    const mr_simtrain_loss *l = &r->losses.p[loss];
    mr_simtrain_span x = {l->kind, l->index, MR_SIMTRAIN_DOWN, -1, 0, l->at_s, r->total_s, false};
    for (int i = loss + 1; i < r->losses.n; i++) {
        const mr_simtrain_loss *k = &r->losses.p[i];
        if (k->index == l->index && (k->kind == MR_SIMTRAIN_PS) == (l->kind == MR_SIMTRAIN_PS)) {
            x.end_s = k->at_s;
            break;
        }
    }
    if (x.end_s > x.start_s)
        put_span(&x, n, out);
}

typedef MR_VEC(mr_simtrain_span) span_list;

static int by_task(const void *a, const void *b)
{
    const mr_simtrain_span *x = a, *y = b;
    bool p = x->kind == MR_SIMTRAIN_PS, q = y->kind == MR_SIMTRAIN_PS;
    if (p != q || x->index != y->index)
        return p != q ? p - q : x->index - y->index;
    return x->start_s != y->start_s ? (x->start_s > y->start_s) - (x->start_s < y->start_s)
                                    : (x->end_s > y->end_s) - (x->end_s < y->end_s);
}

/* Joins spans of a task in which it does the same and between which at most gap_s passes. Spans of workers also have
 * the same step; the steps of a message say little about a server. The list is ordered by tasks. */
static void join_spans(span_list *list, double gap_s)
{
    int newest[MR_SIMTRAIN_REDUCE + 1], first = 0, n = 0; /* of each kind; of the task */
    for (int i = 0; i < list->n; i++) {
        mr_simtrain_span x = list->p[i];
        bool same = n > first && (x.kind == MR_SIMTRAIN_PS) == (list->p[first].kind == MR_SIMTRAIN_PS) &&
                    x.index == list->p[first].index;
        if (!same) {
            first = n;
            for (int k = 0; k <= MR_SIMTRAIN_REDUCE; k++)
                newest[k] = -1;
        }
        mr_simtrain_span *open = newest[x.doing] < 0 ? NULL : &list->p[newest[x.doing]];
        bool same_step = x.kind == MR_SIMTRAIN_PS || (open && open->step == x.step);
        if (open && same_step && x.start_s <= open->end_s + gap_s) {
            open->end_s = MR_MAX(open->end_s, x.end_s);
            open->dropped |= x.dropped;
        } else {
            newest[x.doing] = n;
            list->p[n++] = x;
        }
    }
    list->n = n;
}

/* The spans of the first steps of watched tasks, in the order in which they were recorded. */
static void gather_spans(const mr_simtrain_result *r, const uint8_t *watched, int n_steps, span_list *list)
{
    list->n = 0;
    for (int i = 0; i < r->spans.n; i++) {
        const mr_simtrain_span *x = &r->spans.p[i];
        int task = x->kind == MR_SIMTRAIN_PS ? r->n_workers + x->index : x->index;
        if (!is_incident(x) && x->step < n_steps && watched[task])
            mr_vec_push(list, *x);
    }
}

/* Few enough spans of whole steps, of at most *n_steps. A small cluster keeps all. Otherwise spans that touch are joined, and then those
 * between which so little time passes that it cannot be seen; if even that is not enough, there are fewer steps, and
 * at last spans that are farther apart are joined. */
static void choose_spans(const mr_simtrain_result *r, const uint8_t *watched, span_list *list, int *n_steps)
{
    double unseen_s = 0;
    for (;; --*n_steps) {
        double first_s = INFINITY, last_s = 0;
        gather_spans(r, watched, *n_steps, list);
        for (int i = 0; i < list->n; i++) {
            first_s = MR_MIN(first_s, list->p[i].start_s);
            last_s = MR_MAX(last_s, list->p[i].end_s);
        }
        if (list->n <= JSON_STEP_SPANS)
            return;
        unseen_s = (last_s - first_s) / 4096;
        qsort(list->p, (size_t)list->n, sizeof *list->p, by_task);
        join_spans(list, 0);
        if (list->n > JSON_STEP_SPANS)
            join_spans(list, unseen_s);
        if (list->n <= JSON_STEP_SPANS || *n_steps == 1)
            break;
    }
    while (list->n > JSON_STEP_SPANS)
        join_spans(list, unseen_s *= 2);
}

/* The first steps of some tasks, and the checkpoints and failures of all. */
static void put_spans(const mr_sim_training *t, mr_str *out)
{
    const mr_simtrain_result *r = &t->result;
    int n_ps = t->job.mode == MR_SIMTRAIN_ALLREDUCE ? 0 : t->job.n_ps, n = 0, n_steps = t->job.span_steps, n_incidents = 0, n_watched[2] = {0};
    uint8_t *watched = mr_new_array(uint8_t, r->n_workers + n_ps + 1);
    span_list list = {0};
    mr_simtrain_watch(&t->job, watched);
    choose_spans(r, watched, &list, &n_steps);
    mr_str_appendz(out, ",\n\"spans\": [");
    for (int i = 0; i < list.n; i++)
        put_span(&list.p[i], &n, out);
    for (int i = 0; i < r->spans.n; i++)
        if (is_incident(&r->spans.p[i]) && n_incidents++ < JSON_INCIDENTS)
            put_span(&r->spans.p[i], &n, out);
    for (int i = 0; i < r->losses.n; i++)
        if (isnan(r->losses.p[i].back_s) && n_incidents++ < JSON_INCIDENTS)
            put_downtime(r, i, &n, out);
    for (int i = 0; i < r->n_workers + n_ps; i++)
        n_watched[i >= r->n_workers] += watched[i];
    mr_str_printf(out, "],\n\"spans_of\": {\"steps\": %d, \"workers\": %d, \"ps\": %d", n_steps, n_watched[0], n_watched[1]);
    put_number(out, "until_s", r->spans_until_s);
    mr_str_appendc(out, '}');
    mr_vec_deinit(&list);
    mr_free(watched);
}

static void put_progress(const mr_simtrain_result *r, mr_str *out)
{
    mr_str_appendz(out, ",\n\"progress\": [");
    for (int i = 0; i < r->progress.n; i++) {
        mr_str_printf(out, "%s{\"at_s\": %.9g", i ? ",\n  " : "\n  ", r->progress.p[i].at_s);
        put_number(out, "steps", r->progress.p[i].steps);
        mr_str_appendc(out, '}');
    }
    mr_str_appendc(out, ']');
}

void mr_sim_training_json(const mr_sim_training *t, mr_str *out)
{
    const mr_simtrain_result *r = &t->result;
    mr_str_printf(out, ",\n\"training\": {\"mode\": \"%s\"", mr_simtrain_mode_name(t->job.mode));
    put_number(out, "workers", t->job.n_workers);
    put_number(out, "ps", t->job.n_ps);
    put_number(out, "steps", t->job.steps);
    put_number(out, "total_s", r->total_s);
    put_number(out, "calm_s", r->calm_s);
    put_number(out, "ideal_s", r->ideal_s);
    put_number(out, "warmup", t->job.warmup);
    put_number(out, "steps_per_s", r->steps_per_s);
    put_number(out, "examples_per_s", r->examples_per_s);
    put_number(out, "ps_busiest", r->ps_busiest);
    put_number(out, "worker_busy", r->worker_busy);
    put_number(out, "dropped", (double)r->dropped);
    put_number(out, "checkpoints", r->n_checkpoints);
    put_dist(out, "step_s", &r->step);
    put_dist(out, "staleness", &r->staleness);
    put_losses(r, out);
    put_workers(r, out);
    put_spans(t, out);
    put_progress(r, out);
    mr_str_appendc(out, '}');
}

/* ---- sweeps ---- */

bool mr_sim_training_sweeps(mr_sv what)
{
    return mr_sv_is(what, "workers") || mr_sv_is(what, "ps") || mr_sv_is(what, "backup") || mr_sv_is(what, "delay");
}

/* All points use the number of steps of the largest one, so that they are comparable and the total work is bounded. */
static mr_status *sweep_job(const mr_sim_plan *p, mr_sim_step *s, const mr_sim_range *r, mr_simtrain_sweep *out)
{
    mr_sim_training t = {0};
    mr_sim_plan largest = *p; /* borrowed: only numbers of the cluster differ */
    char what[24];
    int most = (int)MR_MIN(r->to, MR_SIMTRAIN_MAX_TASKS);
    snprintf(what, sizeof what, "%.*s", MR_SV_ARG(r->what));
    if (mr_sv_is(r->what, "workers"))
        largest.cluster.job.n_workers = most;
    else if (mr_sv_is(r->what, "backup"))
        largest.cluster.job.backup = most;
    mr_status *st = make_job(&largest, s, &t);
    if (!st) {
        t.job.n_workers = p->cluster.job.n_workers;
        t.job.backup = p->cluster.job.backup;
        t.job.span_steps = 0;
        st = mr_simtrain_sweep_run(&t.job, what, r->from, r->to, out);
    }
    mr_free(t.chunks);
    return st;
}

static mr_status *run_sweep(const mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, mr_simtrain_sweep *out)
{
    mr_sim_step *s;
    MR_TRY(mr_sim_step_new(p, costs, &s));
    mr_status *st = sweep_job(p, s, r, out);
    mr_sim_step_free(s);
    return st;
}

mr_status *mr_sim_training_sweep(const mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, const mr_terminal *to, mr_str *out)
{
    mr_simtrain_sweep sweep;
    MR_TRY(run_sweep(p, costs, r, &sweep));
    size_t from = out->n;
    mr_simtrain_sweep_print(&sweep, out);
    mr_wrap(out, from, to->width, 0);
    mr_simtrain_sweep_deinit(&sweep);
    return NULL;
}

mr_status *mr_sim_training_sweep_json(const mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, mr_str *out)
{
    mr_simtrain_sweep sweep;
    MR_TRY(run_sweep(p, costs, r, &sweep));
    mr_str_printf(out, "{\"what\": \"%s\",\n\"points\": [", sweep.what);
    for (int i = 0; i < sweep.points.n; i++) {
        const mr_simtrain_point *x = &sweep.points.p[i];
        mr_str_printf(out, "%s{\"value\": %.9g", i ? ",\n  " : "\n  ", x->value);
        put_number(out, "examples_per_s", x->examples_per_s);
        put_number(out, "steps_per_s", x->steps_per_s);
        put_number(out, "step_median_s", x->step_median_s);
        put_number(out, "ps_busiest", x->ps_busiest);
        mr_str_appendc(out, '}');
    }
    mr_str_appendz(out, "]");
    put_number(out, "knee", sweep.knee);
    put_number(out, "best", sweep.best);
    mr_str_appendz(out, "}\n");
    mr_simtrain_sweep_deinit(&sweep);
    return NULL;
}
