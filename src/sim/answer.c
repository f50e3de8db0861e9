/* sim/answer.c -- what a plan gives, as JSON. */
#include "sim/answer.h"

#include "base/memory.h"
#include "sim/show.h"
#include "wire/json.h"

static void put_simulated(const mr_sim_step *s, const double *single, const mr_sim_training *t, mr_str *out)
{
    mr_str_appendc(out, '{');
    mr_sim_show_json(s, single, out);
    if (t)
        mr_sim_training_json(t, out);
    mr_str_appendz(out, "}\n");
}

void mr_sim_answer_simulated(const mr_sim_step *s, const mr_sim_training *t, mr_str *out)
{
    double *single = mr_sim_single_steps(s);
    put_simulated(s, single, t, out);
    mr_free(single);
}

/* Whether the plan was cancelled is checked after the last part that takes long: times of single devices are then
 * missing. */
mr_status *mr_sim_answer_step(const mr_sim_plan *p, mr_costs *costs, mr_str *out)
{
    mr_sim_step *s;
    mr_sim_training t = {0};
    bool trains = p->cluster.given;
    MR_TRY(mr_sim_step_new(p, costs, &s));
    mr_status *st = trains ? mr_sim_training_run(p, s, &t) : NULL;
    double *single = st ? NULL : mr_sim_single_steps(s);
    if (!st)
        st = mr_cancel_flag_check(p->cancelled);
    if (!st)
        put_simulated(s, single, trains ? &t : NULL, out);
    mr_sim_training_deinit(&t); /* all zeros without a training */
    mr_free(single);
    mr_sim_step_free(s);
    return st;
}

/* Appends text as an object, or drops it if there was an error. */
static mr_status *put_object(mr_status *st, mr_str *text, mr_str *out)
{
    if (!st)
        mr_str_printf(out, "{%s}\n", mr_str_z(text));
    mr_str_deinit(text);
    return st;
}

mr_status *mr_sim_answer_reasons(const mr_sim_plan *p, mr_costs *costs, const char *node, mr_str *out)
{
    mr_sim_step *s;
    mr_str text = {0};
    MR_TRY(mr_sim_step_new(p, costs, &s));
    mr_status *st = mr_sim_reasons_json(s, node, &text);
    mr_sim_step_free(s);
    return put_object(st, &text, out);
}

mr_status *mr_sim_answer_sweep(mr_sim_plan *p, mr_costs *costs, const mr_sim_range *r, mr_str *out)
{
    mr_str text = {0};
    if (mr_sim_training_sweeps(r->what))
        return mr_sim_training_sweep_json(p, costs, r, out);
    return put_object(mr_sim_sweep_json(p, costs, r, &text), &text, out);
}

void mr_sim_answer_models(mr_str *out)
{
    int n;
    const mr_sim_model *m = mr_sim_models(&n);
    for (int i = 0; i < n; i++) {
        mr_str_appendz(out, i ? ",\n  {\"name\": " : "[\n  {\"name\": ");
        mr_json_quote(out, mr_sv_of(m[i].name));
        mr_str_appendz(out, ", \"about\": ");
        mr_json_quote(out, mr_sv_of(m[i].about));
        mr_str_appendz(out, ", \"params\": [");
        for (const mr_sim_param *p = m[i].params; p->name; p++) {
            mr_str_appendz(out, p == m[i].params ? "{\"name\": " : ", {\"name\": ");
            mr_json_quote(out, mr_sv_of(p->name));
            mr_str_appendz(out, ", \"about\": ");
            mr_json_quote(out, mr_sv_of(p->about));
            mr_str_printf(out, ", \"usual\": %lld, \"low\": %lld, \"high\": %lld}", (long long)p->usual, (long long)p->low,
                          (long long)p->high);
        }
        mr_str_appendz(out, "]}");
    }
    mr_str_appendz(out, "]\n");
}
