/* sim/sweep.c -- varies one number of a plan and simulates the step for each value. */
#include "sim/sweep.h"

#include <math.h>

#include "base/memory.h"
#include "sim/show.h"
#include "wire/number.h"

enum { MAX_POINTS = 64, BAR = 30 };

mr_status *mr_sim_range_parse(const char *text, mr_sim_range *out)
{
    mr_sv rest = mr_sv_of(text), what;
    mr_sv_cut(&rest, '=', &what);
    const char *dots = rest.p ? strstr(rest.p, "..") : NULL;
    *out = (mr_sim_range){.what = what};
    if (!what.n || !dots || !mr_text_to_double((mr_sv){rest.p, (size_t)(dots - rest.p)}, &out->from) ||
        !mr_text_to_double(mr_sv_of(dots + 2), &out->to) || !isfinite(out->from) || !isfinite(out->to))
        return mr_invalid("'%s': expected WHAT=FROM..TO, as in device:gpu0.speedup=1..16", text);
    if (out->from < 0 || out->to < out->from)
        return mr_invalid("'%s': from %g to %g is not a valid range", text, out->from, out->to);
    return NULL;
}

/* Doubles from one point to the next; both ends are included. */
static int sweep_points(const mr_sim_range *r, double *out)
{
    int n = 0;
    double v = r->from;
    for (; v < r->to && n < MAX_POINTS - 1; v = v > 0 ? 2 * v : 1)
        out[n++] = v;
    out[n++] = r->to;
    return n;
}

/* How many nodes are on another device than before; -1 if the graph differs. */
static int count_moved(const mr_sim_step *s, const mr_sim_step *before)
{
    int n = 0;
    if (!before || before->def.g->nodes.n != s->def.g->nodes.n)
        return -1;
    for (int i = 0; i < s->def.g->nodes.n; i++) {
        const char *a = s->placed.device[i], *b = before->placed.device[i];
        n += s->needed[i] && a && b && strcmp(a, b) != 0;
    }
    return n;
}

static void put_point(const mr_sim_step *s, const mr_sim_step *before, double value, double first_s, double longest_s, mr_str *out)
{
    mr_str time = {0};
    int away = count_moved(s, before);
    mr_put_duration(&time, (double)llround(s->step_s * 1e9));
    mr_str_printf(out, "%10.6g  %9s  %6.2f  ", value, mr_str_z(&time), s->step_s > 0 ? first_s / s->step_s : 1);
    if (away >= 0)
        mr_str_printf(out, "%5d  ", away);
    else
        mr_str_appendz(out, "    -  ");
    for (int d = 0; d < s->n_devices; d++)
        mr_str_printf(out, "%*.0f %%  ", MR_MAX(5, (int)strlen(s->plan->devices.p[d].name)) - 2, s->step_s > 0 ? 100 * s->busy_s[d] / s->step_s : 0);
    int bar = (int)lround(BAR * s->step_s / longest_s);
    for (int i = 0; i < MR_MAX(bar, 1); i++)
        mr_str_appendc(out, '#');
    mr_str_appendc(out, '\n');
    mr_str_deinit(&time);
}

static void put_head(const mr_sim_plan *p, const mr_sim_range *r, mr_str *out)
{
    mr_str_printf(out, "%.*s from %g to %g\n\n%10s  %9s  %6s  %5s  ", MR_SV_ARG(r->what), r->from, r->to, "value", "step", "faster",
                  "moved");
    for (int d = 0; d < p->devices.n; d++)
        mr_str_printf(out, "%5s  ", p->devices.p[d].name);
    mr_str_appendz(out, "\n");
}

/* All points are simulated before the first line is printed, because the bars are relative to the longest step. */
mr_status *mr_sim_sweep(mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, mr_str *out)
{
    double values[MAX_POINTS], longest = 1e-12;
    mr_sim_step *steps[MAX_POINTS] = {0};
    int n = sweep_points(r, values);
    mr_status *st = NULL;
    for (int i = 0; i < n && !st; i++) {
        st = mr_sim_plan_set(p, r->what, values[i]);
        if (!st)
            st = mr_sim_step_new(p, costs, &steps[i]);
        if (!st)
            longest = MR_MAX(longest, steps[i]->step_s);
    }
    if (!st)
        put_head(p, r, out);
    for (int i = 0; i < n && !st; i++)
        put_point(steps[i], i ? steps[i - 1] : NULL, values[i], steps[0]->step_s, longest, out);
    for (int i = 0; i < n; i++)
        mr_sim_step_free(steps[i]);
    return st;
}
