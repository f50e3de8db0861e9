/* cli/cmd_sim.c -- `millrace sim`: a plan in simulated time. */
#include <stdio.h>

#include "base/memory.h"
#include "cli/command.h"
#include "sim/show.h"

static const char usual_plan[] = "{\"title\": \"LeNet on a CPU and two GPUs\", \"graph\": {\"model\": \"lenet\"},"
                                 " \"devices\": [{}, {\"type\": \"GPU\"}, {\"type\": \"GPU\", \"speed\": 0.5}]}";

static mr_status *simulate(int n_args, char **args)
{
    mr_sim_plan p;
    mr_sim_step *s = NULL;
    mr_str out = {0};
    MR_TRY(n_args ? mr_sim_plan_load(args[0], &p) : mr_sim_plan_parse(mr_sv_of(usual_plan), "the built-in plan", &p));
    mr_status *st = mr_sim_step_new(&p, NULL, -1, &s);
    if (!st) {
        double *single = mr_sim_single_steps(&p, NULL);
        mr_sim_show_summary(s, single, &out);
        mr_str_appendc(&out, '\n');
        st = mr_sim_show_placement(s, &out);
        mr_str_appendc(&out, '\n');
        mr_sim_show_timeline(s, 100, &out);
        mr_free(single);
    }
    fwrite(mr_str_z(&out), 1, out.n, stdout);
    mr_str_deinit(&out);
    mr_sim_step_free(s);
    mr_sim_plan_deinit(&p);
    return st;
}

MR_COMMAND(sim, .summary = "simulate a plan: placement, timeline, training", .usage = "[PLAN.json]", .max_args = 1, .run = simulate);
