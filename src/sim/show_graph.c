/* sim/show_graph.c -- prints the graph of a step as a list: its nodes, what they produce and what they read.
 *
 * Each phase is a table if the output is wide enough. Else each node has a line, and another for what it reads. */
#include "base/columns.h"
#include "base/memory.h"
#include "base/wrap.h"
#include "sim/show.h"

enum { NAME, OP, SHAPE, INPUTS, TEXTS };

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

/* Calls `add` with the texts of each node of a phase. */
static void each_node(const mr_sim_step *s, int phase, void (*add)(void *arg, const char *const *texts), void *arg)
{
    for (int v = 0; v < s->n_nodes; v++) {
        const mr_node *n = s->nodes[v];
        mr_str label = {0}, inputs = {0};
        if ((int)mr_sim_step_phase(s, v) != phase)
            continue;
        mr_sim_step_label(s, v, &label);
        put_inputs(s, n, &inputs);
        const char *shape = n->n_out && n->out_types[0] != MR_RESOURCE ? MR_PSHAPE_TEXT(n->out_shapes[0]) : "";
        add(arg, (const char *const[TEXTS]){mr_str_z(&label), n->def->name, shape, mr_str_z(&inputs)});
        mr_str_deinit(&label);
        mr_str_deinit(&inputs);
    }
}

/* ---- tables ---- */

/* The widths that the columns need; the inputs of a node may take several lines, one for each. */
static void measure_node(void *arg, const char *const *texts)
{
    int *widths = arg;
    for (int i = 0; i < INPUTS; i++)
        widths[i] = MR_MAX(widths[i], mr_text_columns(mr_sv_of(texts[i])));
    for (mr_sv rest = mr_sv_of(texts[INPUTS]), input; mr_sv_cut(&rest, ',', &input);)
        widths[INPUTS] = MR_MAX(widths[INPUTS], mr_text_columns(mr_sv_trim(input)) + 1);
}

static bool fits_table(const mr_sim_step *s, int phase, int width)
{
    int widths[TEXTS] = {0};
    each_node(s, phase, measure_node, widths);
    return 2 + widths[NAME] + 2 + widths[OP] + 2 + widths[SHAPE] + 2 + widths[INPUTS] <= width;
}

/* The names are indented below the name of the phase. */
static void add_row(void *table, const char *const *texts)
{
    char *name = mr_printf("  %s", texts[NAME]);
    mr_columns_row(table, name, texts[OP], texts[SHAPE], texts[INPUTS]);
    mr_free(name);
}

static void show_table(const mr_sim_step *s, int phase, const char *head, const mr_terminal *to, mr_str *out)
{
    mr_columns table = {.whole = 1u << NAME | 1u << OP | 1u << SHAPE};
    mr_columns_row(&table, head, "op", "makes", "reads");
    mr_columns_style(&table, -1, MR_STYLE_HEADING);
    each_node(s, phase, add_row, &table);
    mr_columns_fit(&table, to, 0, out);
}

/* ---- entries ---- */

typedef struct entries {
    const mr_terminal *to;
    mr_str *out;
} entries;

static void put_entry(void *arg, const char *const *texts)
{
    const entries *e = arg;
    size_t from = e->out->n;
    mr_str_appendz(e->out, "  ");
    mr_style_put(e->to, MR_STYLE_HEADING, mr_sv_of(texts[NAME]), e->out);
    mr_str_printf(e->out, " (%s)%s%s\n", texts[OP], texts[SHAPE][0] ? " makes " : "", texts[SHAPE]);
    mr_wrap(e->out, from, e->to->width, 4);
    from = e->out->n;
    if (texts[INPUTS][0])
        mr_str_printf(e->out, "      %s%s\n", mr_sv_starts(mr_sv_of(texts[INPUTS]), "after ") ? "" : "reads ", texts[INPUTS]);
    mr_wrap(e->out, from, e->to->width, 8);
}

void mr_sim_show_graph(const mr_sim_step *s, const mr_terminal *to, mr_str *out)
{
    static const char *const heads[] = {"forward", "backward", "update"};
    for (int phase = 0; phase < MR_COUNT(heads); phase++) {
        mr_str_appendz(out, phase ? "\n" : "");
        if (fits_table(s, phase, to->width)) {
            show_table(s, phase, heads[phase], to, out);
        } else {
            mr_sim_put_heading(to, "", heads[phase], out);
            each_node(s, phase, put_entry, &(entries){to, out});
        }
    }
}
