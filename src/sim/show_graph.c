/* sim/show_graph.c -- prints the graph of a step as a list: its nodes, what they produce and what they read. */
#include "base/memory.h"
#include "sim/show.h"

static void put_inputs(const mr_sim_step *s, const mr_node *n, mr_str *out)
{
    for (int i = 0; i < n->n_in; i++) {
        mr_str_appendz(out, i ? ", " : "");
        if (n->in[i].node)
            mr_sim_step_label(s, s->number[n->in[i].node->id], out);
    }
    for (int i = 0; i < n->n_ctrl; i++) {
        mr_str_appendz(out, i || n->n_in ? ", after " : "after ");
        mr_sim_step_label(s, s->number[n->ctrl[i]->id], out);
    }
}

static void put_node(const mr_sim_step *s, int v, int name_width, int op_width, mr_str *out)
{
    const mr_node *n = s->nodes[v];
    mr_str label = {0}, inputs = {0};
    mr_sim_step_label(s, v, &label);
    put_inputs(s, n, &inputs);
    const char *shape = n->n_out && n->out_types[0] != MR_RESOURCE ? MR_PSHAPE_TEXT(n->out_shapes[0]) : "";
    mr_str_printf(out, "  %-*s  %-*s  %-12s  %s\n", name_width, mr_str_z(&label), op_width, n->def->name, shape, mr_str_z(&inputs));
    mr_str_deinit(&label);
    mr_str_deinit(&inputs);
}

static void measure_columns(const mr_sim_step *s, int phase, int *name, int *op)
{
    mr_str label = {0};
    *name = *op = 8;
    for (int v = 0; v < s->n_nodes; v++) {
        if ((int)mr_sim_step_phase(s, v) != phase)
            continue;
        mr_str_clear(&label);
        mr_sim_step_label(s, v, &label);
        *name = MR_MAX(*name, (int)label.n);
        *op = MR_MAX(*op, (int)strlen(s->nodes[v]->def->name));
    }
    mr_str_deinit(&label);
}

void mr_sim_show_graph(const mr_sim_step *s, mr_str *out)
{
    static const char *const heads[] = {"forward", "backward", "update"};
    for (int phase = 0; phase < MR_COUNT(heads); phase++) {
        int name, op;
        measure_columns(s, phase, &name, &op);
        mr_str_printf(out, "%s%-*s  %-*s  %-12s  %s\n", phase ? "\n" : "", name + 2, heads[phase], op, "op", "makes", "reads");
        for (int v = 0; v < s->n_nodes; v++)
            if ((int)mr_sim_step_phase(s, v) == phase)
                put_node(s, v, name, op, out);
    }
}
