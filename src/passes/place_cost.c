/* passes/place_cost.c -- chooses devices by the simulated time of a step.
 *
 * The step of the signature becomes a workload (passes/planned_step.h), feeds and fetches included, and
 * passes/assign.c searches for a choice of devices with a short simulated time. The result is then compared with the
 * best single devices, each step simulated as it would really run (mr_step_realize). So the choice never takes longer
 * than the best single device does with all nodes that may move. With more than 8 devices, only the 8 best by the
 * search's simulation are compared. Reasons come from that same simulation, so they agree with the timeline and the
 * total that come from it.
 *
 * A group without a possible device is not planned: place.c then reports the reason, or softens its request. */
#include <math.h>

#include "base/memory.h"
#include "passes/planned_step.h"

/* A plan for several devices must save a hundredth of the best single device's step. */
#define WORTH 1.01

/* ---- choosing ---- */

/* The devices of a workload's groups, indexed by the placer's roots; groups outside of the workload keep their
 * placement. The caller frees the array. */
static int *devices_by_root(const mr_placer *p, const mr_planned_step *s, const int *device_of)
{
    int n = p->g->nodes.n, *out = mr_new_array(int, n + 1);
    for (int i = 0; i < n; i++)
        out[i] = p->groups[i].device ? mr_placer_device(p, p->groups[i].device) : -1;
    for (int g = 0; s && g < s->w.n_groups; g++)
        if (s->roots[g] >= 0)
            out[s->roots[g]] = device_of[g];
    return out;
}

/* The time of the step as it will run, with the groups on these devices; INFINITY if that is impossible. */
static mr_status *realized_seconds(mr_placer *p, const mr_graph *step_graph,
                                   const mr_planned_step *s, const int *device_of, double *seconds)
{
    mr_planned_step real;
    int *by_root = devices_by_root(p, s, device_of);
    mr_status *st = mr_step_realize(p, step_graph, by_root, false, &real);
    *seconds = st ? INFINITY : real.step_s;
    if (!st)
        mr_planned_step_deinit(&real);
    mr_free(by_root);
    return st;
}

/* Reports whether mr_step_realize would add, merge or fuse nodes if all were on one device. If not, the plan is exactly
 * what will run. */
static mr_status *realizing_changes(const mr_prepare_options *o, const mr_graph *step_graph, bool *any)
{
    mr_graph *g = NULL;
    mr_status *st = NULL;
    *any = false;
    MR_GO(mr_graph_copy(step_graph, NULL, &g, NULL));
    int n = g->nodes.n;
    for (int i = 0; i < n; i++)
        if (g->nodes.p[i])
            g->nodes.p[i]->placed = o->devices[0]->name;
    MR_GO(mr_refresh_ref_reads(g));
    *any = g->nodes.n > n;
    MR_GO(mr_simplify(g, o));
    if (!o->no_cse)
        MR_GO(mr_cse(g));
    MR_GO(mr_fuse(g, o));
    for (int i = 0; i < step_graph->nodes.n && !*any; i++)
        *any = step_graph->nodes.p[i] && !mr_graph_find(g, mr_sv_of(step_graph->nodes.p[i]->name));
out:
    mr_graph_unref(g);
    return st;
}

/* The best single device for the free groups, -1 if all have too little memory, and the time of the step with it.
 * exact: the workload is what will run. Otherwise the devices with the shortest simulated steps are realized, at most
 * MOST_REALIZED, because each costs a copy of the graph. */
static mr_status *best_single(mr_placer *p, const mr_graph *step_graph, const mr_planned_step *s,
                              const int *fixed, bool exact, int *best_device, double *best)
{
    enum { MOST_REALIZED = 8 };
    mr_status *st = NULL;
    int n_devices = p->o->n_devices, *trial = mr_new_array(int, s->w.n_groups + 1);
    double *seconds = mr_new_array(double, n_devices + 1);
    *best = INFINITY;
    *best_device = -1;
    for (int d = 0; d < n_devices; d++) {
        MR_GO(mr_cancel_flag_check(s->w.cancelled));
        mr_assign_single(&s->w, fixed, d, trial);
        MR_GO(mr_assign_simulate(&s->w, trial, NULL, NULL, &seconds[d]));
    }
    /* Realizes the devices in the order of their simulated steps; one that is done gets INFINITY. */
    for (int round = 0; round < (exact ? 1 : MOST_REALIZED); round++) {
        int next = 0;
        for (int d = 1; d < n_devices; d++)
            next = seconds[d] < seconds[next] ? d : next;
        double real = seconds[next];
        if (isinf(real))
            break;
        mr_assign_single(&s->w, fixed, next, trial);
        if (!exact)
            MR_GO(realized_seconds(p, step_graph, s, trial, &real));
        if (real < *best || (real == *best && next < *best_device)) {
            *best = real;
            *best_device = next;
        }
        seconds[next] = INFINITY;
    }
out:
    mr_free(seconds);
    mr_free(trial);
    return st;
}

/* Replaces the search's choice (s->device_of) by the best single device if the step, as it will run, is shorter
 * with it, or so little longer that the difference is within the error of estimates. fixed: by group, the device
 * it must stay on; -1: free. */
static mr_status *prefer_single(mr_placer *p, const mr_graph *step_graph, mr_planned_step *s,
                                const int *fixed)
{
    bool changes;
    double found, best;
    int best_device;
    MR_TRY(realizing_changes(p->o, step_graph, &changes));
    MR_TRY(changes ? realized_seconds(p, step_graph, s, s->device_of, &found)
                   : mr_assign_simulate(&s->w, s->device_of, NULL, NULL, &found));
    MR_TRY(best_single(p, step_graph, s, fixed, !changes, &best_device, &best));
    if (best_device >= 0 && best <= found * WORTH)
        mr_assign_single(&s->w, fixed, best_device, s->device_of);
    return NULL;
}

/* Plans a step graph and records the devices of the groups for which take is true (NULL: all). */
static mr_status *plan_step(mr_placer *p, mr_graph *step_graph, bool (*take)(void *arg, int root),
                            void *arg)
{
    mr_planned_step s;
    double makespan;
    int culprit = -1, *fixed = NULL;
    mr_status *st = NULL;
    MR_TRY(mr_planned_step_init(&s, p, step_graph, false));
    fixed = mr_new_array(int, s.w.n_groups + 1);
    memcpy(fixed, s.device_of, sizeof *fixed * (size_t)s.w.n_groups);
    if (s.w.n_nodes)
        st = mr_assign_find(&s.w, s.device_of, &makespan, &culprit);
    if (st && culprit >= 0)
        mr_status_append(st, " ({{node %s}})", s.nodes[culprit]->name);
    if (!st)
        st = prefer_single(p, step_graph, &s, fixed);
    /* Groups that have a device, an error or no possible device (lost) are left to place.c. */
    for (int g = 0; !st && g < s.w.n_groups; g++) {
        mr_place_group *gr = s.roots[g] < 0 ? NULL : &p->groups[s.roots[g]];
        if (gr && !gr->device && !gr->error && !s.lost[g] && (!take || take(arg, s.roots[g])))
            gr->device = p->o->devices[s.device_of[g]]->name;
    }
    mr_free(fixed);
    mr_planned_step_deinit(&s);
    return st;
}

/* Places new state first (place_state.c), then plans the step of the signature. */
mr_status *mr_place_by_cost(mr_placer *p, const mr_run_signature *sig, const bool *needed)
{
    mr_graph *step_graph;
    mr_place_new_state(p, sig, needed, plan_step);
    MR_TRY(mr_step_graph(p->g, sig, p->o, &step_graph));
    mr_status *st = plan_step(p, step_graph, NULL, NULL);
    mr_graph_unref(step_graph);
    return st;
}

/* ---- one simulation for all that is shown ---- */

/* Simulates the step with the devices that its groups have; the caller owns *out. */
mr_status *mr_placer_simulate(mr_placer *p, const mr_run_signature *sig, bool all, mr_planned_step *out)
{
    mr_graph *step_graph;
    *out = (mr_planned_step){0};
    MR_TRY(mr_step_graph(p->g, sig, p->o, &step_graph));
    int *by_root = devices_by_root(p, NULL, NULL);
    mr_status *st = mr_step_realize(p, step_graph, by_root, all, out);
    mr_free(by_root);
    mr_graph_unref(step_graph);
    return st;
}

/* Everything that may move runs on `device`; groups that cannot run there take the first device that can
 * (mr_assign_single). INFINITY if memory does not suffice. */
mr_status *mr_placer_alone(mr_placer *p, const mr_run_signature *sig, int device, double *seconds)
{
    mr_graph *step_graph;
    mr_planned_step s;
    MR_TRY(mr_step_graph(p->g, sig, p->o, &step_graph));
    mr_status *st = mr_planned_step_init(&s, p, step_graph, false);
    if (!st) {
        int *trial = mr_new_array(int, s.w.n_groups + 1);
        mr_assign_single(&s.w, s.device_of, device, trial);
        st = realized_seconds(p, step_graph, &s, trial, seconds);
        mr_free(trial);
        mr_planned_step_deinit(&s);
    }
    mr_graph_unref(step_graph);
    return st;
}

/* ---- reasons ---- */

/* True if the group holds state: it stays on the device that was chosen when it was first needed, even if another
 * would be better by now. */
static bool holds_state(const mr_placer *p, int root)
{
    for (int i = p->groups[root].first; i >= 0; i = p->next[i])
        if (p->g->nodes.p[i]->def->flags & MR_STATEFUL)
            return true;
    return false;
}

typedef enum verdict { BEST, AS_GOOD, HARDLY_WORSE, WORSE } verdict; /* on the current device of a node */

/* Why a node is on its device, as a constant text. */
static const char *reason_text(const mr_placer *p, const mr_node *n, int root, int n_fit, verdict here)
{
    if (n_fit == 1 && n->device[0])
        return "as requested";
    if (n_fit == 1)
        return p->groups[root].request.has_job || p->groups[root].request.has_type
                   ? "requested by a node it must share a device with"
                   : "no other device can run it";
    if (mr_place_is_fed(n))
        return "the fed values are on this device";
    if (here == WORSE)
        return holds_state(p, root) ? "it holds state, which does not move"
                                    : "it was placed before, or nothing better was found";
    if (here == HARDLY_WORSE)
        return "elsewhere would save less than 1 % of the step";
    return here == BEST ? "the step would be longer elsewhere"
                        : "the step would be no shorter elsewhere";
}

/* Moves the node's group to every other device it fits on, one at a time, and simulates the step; others has room
 * for all. s->device_of is restored at the end. */
static void try_others(mr_planned_step *s, mr_play *play, int v, mr_place_reason *r,
                       mr_place_choice *others)
{
    int g = s->group[v], here = s->device_of[g], n_devices = s->w.n_devices;
    MR_ASSERT(here >= 0 && here < n_devices);
    for (int i = 0; i < n_devices; i++) {
        if (i == here || !s->fits[(size_t)g * (size_t)n_devices + (size_t)i])
            continue;
        s->device_of[g] = i;
        double step = mr_play_step(play, s->device_of);
        others[r->n_others++] = (mr_place_choice){i, isinf(step) ? step : play->finish[v], step};
    }
    s->device_of[g] = here;
}

/* Compares the step with the node here to the step with it on each other device. */
static void explain_node(mr_placer *p, mr_planned_step *s, mr_play *play, int v,
                         mr_place_choice *others, void (*tell)(void *arg, const mr_place_reason *r),
                         void *arg)
{
    int g = s->group[v], here = s->device_of[g];
    verdict verdict_here = BEST;
    mr_place_reason r = {
        .node = p->g->nodes.p[s->nodes[v]->mark],
        .here = {here, isinf(s->step_s) ? s->step_s : s->play.finish[v], s->step_s},
        .others = others};
    try_others(s, play, v, &r, others);
    for (int i = 0; i < r.n_others; i++) {
        double there = others[i].step_s;
        verdict than = there > s->step_s            ? BEST
                       : there == s->step_s         ? AS_GOOD
                       : there * WORTH >= s->step_s ? HARDLY_WORSE
                                                    : WORSE;
        verdict_here = MR_MAX(verdict_here, than);
    }
    int n_fit = r.n_others + s->fits[(size_t)g * (size_t)s->w.n_devices + (size_t)here];
    r.why = reason_text(p, r.node, s->roots[g], n_fit, verdict_here);
    tell(arg, &r);
}

/* Other choices are simulated with separate tables, so s->play keeps the simulation of the actual step. */
mr_status *mr_placer_reasons(mr_placer *p, mr_planned_step *s, const bool *wanted,
                             void (*tell)(void *arg, const mr_place_reason *r), void *arg)
{
    mr_play play;
    MR_TRY(mr_play_init(&play, &s->w));
    mr_place_choice *others = mr_new_array(mr_place_choice, p->o->n_devices);
    mr_status *st = NULL;
    for (int v = 0; v < s->w.n_nodes && !st; v++) {
        int origin = s->nodes[v]->mark;
        bool added = s->nodes[v]->id >= s->first_added && origin >= 0 && strcmp(s->nodes[v]->name, p->g->nodes.p[origin]->name) != 0;
        if (origin >= 0 && !added && s->device_of[s->group[v]] >= 0 && (!wanted || wanted[origin]))
            explain_node(p, s, &play, v, others, tell, arg);
        st = mr_cancel_flag_check(s->w.cancelled);
    }
    mr_play_deinit(&play);
    mr_free(others);
    return st;
}

/* One line for the device of the node, and an indented one for each other device that could run it. */
void mr_place_reason_print(const mr_place_reason *r, mr_device *const *devices, mr_str *out)
{
    mr_str_printf(out, "%s (%s) on %s: %.3f ms, step %.3f ms; %s\n", r->node->name,
                  r->node->def->name, devices[r->here.device]->name, 1e3 * r->here.ends_s,
                  1e3 * r->here.step_s, r->why);
    for (int i = 0; i < r->n_others; i++) {
        const mr_place_choice *c = &r->others[i];
        if (isinf(c->step_s))
            mr_str_printf(out, "    on %s: not enough memory\n", devices[c->device]->name);
        else
            mr_str_printf(out, "    on %s: %.3f ms, step %.3f ms\n", devices[c->device]->name,
                          1e3 * c->ends_s, 1e3 * c->step_s);
    }
}
