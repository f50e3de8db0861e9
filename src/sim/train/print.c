/* sim/train/print.c -- prints the result of a job. */
#include <math.h>
#include <stdio.h>

#include "base/columns.h"
#include "base/memory.h"
#include "sim/train/train.h"

const char *mr_simtrain_mode_name(mr_simtrain_mode m)
{
    static const char *const names[] = {"async", "sync", "bounded", "allreduce"};
    return names[m];
}

const char *mr_simtrain_kind_name(mr_simtrain_kind k)
{
    static const char *const names[] = {"worker", "ps", "chief"};
    return names[k];
}

const char *mr_simtrain_doing_name(mr_simtrain_doing d)
{
    static const char *const names[] = {"call", "fetch", "forward", "backward", "push", "wait", "serve", "save", "restore", "down", "cut", "reduce"};
    return names[d];
}

bool mr_simtrain_is_incident(mr_simtrain_doing d)
{
    return d == MR_SIMTRAIN_SAVE || d == MR_SIMTRAIN_RESTORE || d == MR_SIMTRAIN_DOWN || d == MR_SIMTRAIN_CUT;
}

typedef struct text {
    char p[32];
} text;

static text seconds_text(double s)
{
    text t;
    if (isnan(s))
        snprintf(t.p, sizeof t.p, "-");
    else if (s >= 1 || s == 0)
        snprintf(t.p, sizeof t.p, "%.*f s", s >= 100 ? 1 : 3, s);
    else if (s >= 1e-3)
        snprintf(t.p, sizeof t.p, "%.3g ms", s * 1e3);
    else
        snprintf(t.p, sizeof t.p, "%.3g us", s * 1e6);
    return t;
}

/* ---- the parts ---- */

static void print_job(const mr_simtrain_job *j, mr_str *out)
{
    mr_str_printf(out, "%d worker%s", j->n_workers, j->n_workers == 1 ? "" : "s");
    if (j->backup)
        mr_str_printf(out, " and %d backup%s", j->backup, j->backup == 1 ? "" : "s");
    if (j->mode != MR_SIMTRAIN_ALLREDUCE)
        mr_str_printf(out, ", %d parameter server%s", j->n_ps, j->n_ps == 1 ? "" : "s");
    mr_str_printf(out, ", %s", mr_simtrain_mode_name(j->mode));
    if (j->adaptive)
        mr_str_printf(out, j->mode == MR_SIMTRAIN_SYNC ? " with backups by need" : " as it pays");
    else if (j->mode == MR_SIMTRAIN_BOUNDED)
        mr_str_printf(out, " by %d", j->delay_bound);
    if (j->n_hosts)
        mr_str_printf(out, ", on %d host%s of %g cores", j->n_hosts, j->n_hosts == 1 ? "" : "s", j->cores);
    mr_str_printf(out, ": %d steps of %g examples a worker\n", j->steps, j->batch);
}

static void print_step(const mr_simtrain_result *r, mr_str *out)
{
    const mr_simtrain_dist *d = &r->step;
    mr_str_printf(out, "  examples/s   %.6g\n", r->examples_per_s);
    if (d->n == 0)
        return;
    mr_str_printf(out, "  step         median %s, mean %s, p10 %s", seconds_text(d->median).p, seconds_text(d->mean).p,
                  seconds_text(d->p10).p);
    mr_str_printf(out, ", p90 %s, p99 %s, longest %s\n", seconds_text(d->p90).p, seconds_text(d->p99).p,
                  seconds_text(d->max).p);
}

/* Shows how workers spend their time on average, and the worker that waits least: the others wait for that one. */
static void print_workers(const mr_simtrain_job *j, const mr_simtrain_result *r, mr_str *out)
{
    mr_simtrain_worker sum = {0};
    int slowest = 0;
    for (int i = 0; i < r->n_workers; i++) {
        const mr_simtrain_worker *w = &r->workers[i];
        sum.call_s += w->call_s, sum.busy_s += w->busy_s, sum.fetch_s += w->fetch_s;
        sum.push_s += w->push_s, sum.wait_s += w->wait_s, sum.down_s += w->down_s;
        if (w->wait_s < r->workers[slowest].wait_s)
            slowest = i;
    }
    double all_s = sum.call_s + sum.busy_s + sum.fetch_s + sum.push_s + sum.wait_s + sum.down_s;
    if (!(all_s > 0))
        return;
    mr_str_printf(out, "  workers      compute %.0f %%, begin %.0f %%, fetch %.0f %%, %s %.0f %%, wait %.0f %%", 100 * sum.busy_s / all_s,
                  100 * sum.call_s / all_s, 100 * sum.fetch_s / all_s, j->mode == MR_SIMTRAIN_ALLREDUCE ? "reduce" : "push",
                  100 * sum.push_s / all_s, 100 * sum.wait_s / all_s);
    if (sum.down_s > 0)
        mr_str_printf(out, ", down %.1f %%", 100 * sum.down_s / all_s);
    if (sum.wait_s > 0)
        mr_str_printf(out, "; worker %d waits least", slowest);
    mr_str_appendc(out, '\n');
}

static void print_shares(const mr_simtrain_job *j, const mr_simtrain_result *r, mr_str *out)
{
    if (j->mode != MR_SIMTRAIN_ALLREDUCE)
        mr_str_printf(out, "  ps           busy %.0f %%, the busiest %.0f %%\n", 100 * r->ps_busy, 100 * r->ps_busiest);
    if (j->worker_bytes_per_s > 0)
        mr_str_printf(out, "  worker NIC   busy %.0f %%\n", 100 * r->worker_nic_busy);
    if (j->n_hosts)
        mr_str_printf(out, "  cores        busy %.0f %%\n", 100 * r->core_busy);
    if (j->mode == MR_SIMTRAIN_SYNC && j->token_s > 0)
        mr_str_printf(out, "  chief        busy %.0f %%\n", 100 * r->chief_busy);
    if (r->dropped)
        mr_str_printf(out, "  dropped      %lld gradients came too late\n", (long long)r->dropped);
    if (r->staleness.n)
        mr_str_printf(out, "  staleness    median %.0f updates, p99 %.0f, most %.0f; at most %d steps ahead of the slowest\n",
                      r->staleness.median, r->staleness.p99, r->staleness.max, r->max_lead);
}

static void print_loss(const mr_simtrain_loss *l, mr_str *out)
{
    mr_str_printf(out, "  crash        %s %d at %s%s: ", mr_simtrain_kind_name(l->kind), l->index,
                  seconds_text(l->at_s).p, l->silent ? " with its host" : "");
    if (!isnan(l->noticed_s)) /* a task that is back at once goes unnoticed */
        mr_str_printf(out, "noticed after %s, ", seconds_text(l->noticed_s - l->at_s).p);
    mr_str_printf(out, "back after %s", seconds_text(l->back_s - l->at_s).p);
    mr_str_printf(out, ", no update for %s\n", seconds_text(l->stopped_s).p);
    if (l->kind != MR_SIMTRAIN_PS && isnan(l->checkpoint_at_s) && l->lost_steps == 0) /* no steps were lost with it */
        return;
    if (isnan(l->back_s))
        mr_str_printf(out, "               not restored before it crashed again or the job ended\n");
    else if (isnan(l->checkpoint_at_s))
        mr_str_printf(out, "               no checkpoint: %.6g steps are lost, all from the start\n", l->lost_steps);
    else
        mr_str_printf(out, "               the checkpoint of %s saved %.6g steps; %.6g steps (%s) are lost\n",
                      seconds_text(l->checkpoint_at_s).p, l->saved_steps, l->lost_steps, seconds_text(l->lost_s).p);
}

static void print_cut(const mr_simtrain_job *j, const mr_simtrain_cut *c, mr_str *out)
{
    mr_str_printf(out, "  cut          worker %d from ", c->worker);
    if (c->ps >= 0)
        mr_str_printf(out, "ps %d", c->ps);
    else
        mr_str_appendz(out, j->mode == MR_SIMTRAIN_ALLREDUCE ? "all other workers" : "all parameter servers");
    mr_str_printf(out, " at %s for %s\n", seconds_text(c->at_s).p, seconds_text(c->for_s).p);
}

static void print_failures(const mr_simtrain_job *j, const mr_simtrain_result *r, mr_str *out)
{
    enum { MOST = 20 };
    for (int i = 0; i < MR_MIN(r->losses.n, MOST); i++)
        print_loss(&r->losses.p[i], out);
    for (int i = 0; i < MR_MIN(j->n_cuts, MOST); i++)
        print_cut(j, &j->cuts[i], out);
    if (j->n_cuts > MOST)
        mr_str_printf(out, "  cuts         %d more\n", j->n_cuts - MOST);
    if (r->losses.n > MOST)
        mr_str_printf(out, "  crashes      %d more\n", r->losses.n - MOST);
    if (j->checkpoint_s > 0)
        mr_str_printf(out, "  checkpoints  %d, one each %s%s\n", r->n_checkpoints, seconds_text(j->checkpoint_s).p,
                      j->n_checkpoints ? " and at given times" : "");
    else if (j->n_checkpoints)
        mr_str_printf(out, "  checkpoints  %d, at given times\n", r->n_checkpoints);
    mr_str_printf(out, "  total        %s", seconds_text(r->total_s).p);
    if (r->total_s != r->ideal_s)
        mr_str_printf(out, "; %s without crashes%s and checkpoints (%+.1f %%)", seconds_text(r->ideal_s).p,
                      j->n_cuts ? ", cuts" : "", 100 * (r->total_s / r->ideal_s - 1));
    mr_str_appendc(out, '\n');
}

void mr_simtrain_print(const mr_simtrain_job *job, const mr_simtrain_result *r, mr_str *out)
{
    print_job(job, out);
    print_step(r, out);
    print_workers(job, r, out);
    print_shares(job, r, out);
    print_failures(job, r, out);
}

/* ---- sweeps ---- */

static void print_conclusion(const mr_simtrain_sweep *s, mr_str *out)
{
    if (!isnan(s->knee))
        mr_str_printf(out, "From %g %s on, twice as many add less than 5 %%. ", s->knee, s->what);
    else if (!isnan(s->dip))
        mr_str_printf(out, "At %g %s, twice as many add less than 5 %%, but more of them help again. ", s->dip, s->what);
    else if (s->doubles && s->points.n > 1)
        mr_str_printf(out, "Twice as many always add 5 %% or more. ");
    mr_str_printf(out, "The most examples/s, within 1 %%, come with %s = %g.\n", s->what, s->best);
}

void mr_simtrain_sweep_print(const mr_simtrain_sweep *s, mr_str *out)
{
    mr_columns table = {.right = ~0u};
    mr_columns_row(&table, s->what, "examples/s", "times", "step median", "step p99", "ps busy");
    for (int i = 0; i < s->points.n; i++) {
        const mr_simtrain_point *p = &s->points.p[i];
        double first = s->points.p[0].examples_per_s;
        char value[24], rate[24], times[24], busy[24];
        snprintf(value, sizeof value, "%g", p->value);
        snprintf(rate, sizeof rate, "%.6g", p->examples_per_s);
        snprintf(times, sizeof times, "%.2f", first > 0 ? p->examples_per_s / first : 0);
        snprintf(busy, sizeof busy, "%.0f %%", 100 * p->ps_busiest);
        mr_columns_row(&table, value, rate, times, seconds_text(p->step_median_s).p, seconds_text(p->step_p99_s).p, busy);
    }
    mr_columns_print(&table, 0, out);
    print_conclusion(s, out);
}
