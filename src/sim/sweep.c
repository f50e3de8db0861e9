/* sim/sweep.c -- varies one number of a plan and simulates the step for each value. */
#include "sim/sweep.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/wrap.h"
#include "sim/show.h"
#include "wire/json.h"
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

/* ---- as text ----
 *
 * The busy shares of the devices take as many lines as they need. A bar follows them if they take only one. */

enum { BUSY_COLUMN = 36, BAR_LEAST = 8 };

typedef struct sweep_text {
    const mr_sim_plan *p;
    const mr_terminal *to;
    double first_s, longest_s;
    int hang; /* where further lines of busy shares begin */
    int bar;  /* the length of the longest bar; 0: there is no room for bars */
    mr_str *out;
} sweep_text;

static int busy_width(const mr_sim_plan *p, int d) { return MR_MAX(5, (int)strlen(p->devices.p[d].name)); }

/* Appends the cell of a device, right-aligned; `column` is that of the cursor, and the next one is returned. */
static int put_busy(const sweep_text *t, int d, int column, const char *style, const char *text)
{
    int width = busy_width(t->p, d);
    if (column + 2 + width > t->to->width) {
        mr_str_printf(t->out, "\n%*s", t->hang, "");
        column = t->hang;
    }
    mr_str_printf(t->out, "%*s", 2 + width - (int)strlen(text), "");
    mr_style_put(t->to, style, mr_sv_of(text), t->out);
    return column + 2 + width;
}

static void put_point(const sweep_text *t, const mr_sim_step *s, const mr_sim_step *before, double value)
{
    mr_str time = {0};
    int away = count_moved(s, before), column = BUSY_COLUMN;
    mr_put_duration(&time, (double)llround(s->step_s * 1e9));
    mr_str_printf(t->out, "%10.6g  %9s  %6.2f", value, mr_str_z(&time), s->step_s > 0 ? t->first_s / s->step_s : 1);
    if (away >= 0)
        mr_str_printf(t->out, "  %5d", away);
    else
        mr_str_appendz(t->out, "      -");
    for (int d = 0; d < s->n_devices; d++) {
        char text[16];
        snprintf(text, sizeof text, "%.0f %%", s->step_s > 0 ? 100 * s->busy_s[d] / s->step_s : 0);
        column = put_busy(t, d, column, NULL, text);
    }
    int bar = (int)lround(t->bar * s->step_s / t->longest_s);
    mr_str_appendz(t->out, t->bar ? "  " : "");
    for (int i = 0; t->bar && i < MR_MAX(bar, 1); i++)
        mr_str_appendc(t->out, '#');
    mr_str_appendc(t->out, '\n');
    mr_str_deinit(&time);
}

static void put_head(sweep_text *t, const mr_sim_range *r)
{
    int column = BUSY_COLUMN;
    size_t from = t->out->n;
    mr_str_printf(t->out, "%.*s from %g to %g\n\n", MR_SV_ARG(r->what), r->from, r->to);
    mr_wrap(t->out, from, t->to->width, 0);
    mr_style_printf(t->to, MR_STYLE_HEADING, t->out, "%10s  %9s  %6s  %5s", "value", "step", "faster", "moved");
    for (int d = 0; d < t->p->devices.n; d++)
        column = put_busy(t, d, column, mr_style_device(d), t->p->devices.p[d].name);
    mr_str_appendc(t->out, '\n');
}

typedef struct sweep {
    int n;
    double values[MAX_POINTS];
    mr_sim_step *steps[MAX_POINTS];
} sweep;

/* Simulates all points. sweep_deinit must follow, also after an error. */
static mr_status *run_sweep(mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, sweep *s)
{
    *s = (sweep){0};
    s->n = sweep_points(r, s->values);
    for (int i = 0; i < s->n; i++) {
        MR_TRY(mr_sim_plan_set(p, r->what, s->values[i]));
        MR_TRY(mr_sim_step_new(p, costs, &s->steps[i]));
    }
    return NULL;
}

static void sweep_deinit(sweep *s)
{
    for (int i = 0; i < s->n; i++)
        mr_sim_step_free(s->steps[i]);
}

/* All points are simulated before the first line is printed, because the bars are relative to the longest step. */
mr_status *mr_sim_sweep(mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, const mr_terminal *to, mr_str *out)
{
    sweep s;
    sweep_text t = {.p = p, .to = to, .longest_s = 1e-12, .bar = to->width - BUSY_COLUMN, .out = out};
    mr_status *st = run_sweep(p, costs, r, &s);
    for (int i = 0; i < s.n && !st; i++)
        t.longest_s = MR_MAX(t.longest_s, s.steps[i]->step_s);
    for (int d = 0, widest = 0; d < p->devices.n; d++) {
        widest = MR_MAX(widest, busy_width(p, d));
        t.hang = BUSY_COLUMN + 2 + widest <= to->width ? BUSY_COLUMN : 2;
        t.bar -= 2 + busy_width(p, d);
    }
    t.bar -= 2;
    t.bar = t.bar < BAR_LEAST ? 0 : MR_MIN(t.bar, BAR);
    if (!st) {
        t.first_s = s.steps[0]->step_s;
        put_head(&t, r);
    }
    for (int i = 0; i < s.n && !st; i++)
        put_point(&t, s.steps[i], i ? s.steps[i - 1] : NULL, s.values[i]);
    sweep_deinit(&s);
    return st;
}

mr_status *mr_sim_sweep_json(mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, mr_str *out)
{
    sweep s;
    mr_status *st = run_sweep(p, costs, r, &s);
    mr_str_appendz(out, "\"what\": ");
    mr_json_quote(out, r->what);
    mr_str_appendz(out, ", \"points\": [");
    for (int i = 0; i < s.n && !st; i++) {
        mr_str_printf(out, "%s{\"value\": %.9g, \"step_s\": %.9g", i ? ",\n  " : "\n  ", s.values[i], s.steps[i]->step_s);
        int moved = count_moved(s.steps[i], i ? s.steps[i - 1] : NULL);
        if (moved >= 0)
            mr_str_printf(out, ", \"moved\": %d}", moved);
        else
            mr_str_appendz(out, ", \"moved\": null}");
    }
    mr_str_appendc(out, ']');
    sweep_deinit(&s);
    return st;
}
