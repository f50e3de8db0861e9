/* ops/data/graph.c -- datasets as graphs: DatasetToGraph, DatasetFromGraph, DatasetFingerprint.
 *
 * A dataset remembers the node that created it and that node's inputs; inputs that are datasets are written in the
 * same way, others become constants. The graph ends in a _Retval, as in TensorFlow. Reading it back makes it the
 * body of a function that is called once. */
#include "base/map.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "graph/library.h"
#include "graph/scope.h"
#include "ops/data/dataset.h"

typedef struct writing {
    mr_graph *g;
    mr_imap nodes; /* dataset -> mr_node * */
    bool no_state; /* functions with state are an error */
} writing;

/* ---- writing ---- */

static mr_status *add_const(writing *w, mr_tensor *t, mr_out *out)
{
    mr_node *n;
    mr_node_builder *b = mr_node_begin(w->g, "Const", mr_graph_unique_name(w->g, "Const"));
    mr_nb_attr(b, "dtype", mr_a_type(t->dtype));
    mr_nb_attr_tensor(b, "value", t);
    MR_TRY(mr_node_finish(b, &n));
    *out = (mr_out){n, 0};
    return NULL;
}

static mr_status *add_dataset(writing *w, const mr_dataset *d, mr_out *out);

static mr_status *add_input(writing *w, const mr_dataset *d, int i, mr_out *out)
{
    mr_tensor *t = d->made_of[i];
    mr_dataset *in;
    if (t && t->dtype == MR_VARIANT) {
        MR_TRY(mr_dataset_of(t, &in));
        return add_dataset(w, in, out);
    }
    if (!t || t->dtype == MR_RESOURCE)
        return mr_error(MR_FAILED_PRECONDITION, "%s dataset depends on a resource, which cannot be stored in a graph",
                        d->kind->name);
    return add_const(w, t, out);
}

static mr_status *check_function(const mr_dataset *d, const mr_func_ref *f)
{
    const mr_function *def = mr_library_find(d->graph->library, mr_sv_of(f->name));
    for (int i = 0; def && i < def->n_nodes; i++) {
        const mr_op_def *op = mr_op_find(mr_sv_of(def->nodes[i].op));
        size_t n = strlen(def->nodes[i].op);
        bool makes_dataset = n > 7 && strcmp(def->nodes[i].op + n - 7, "Dataset") == 0; /* only formally stateful */
        if (op && (op->flags & MR_STATEFUL) && !makes_dataset)
            return mr_error(MR_FAILED_PRECONDITION, "%s dataset: %s is stateful", d->kind->name, def->nodes[i].op);
    }
    return NULL;
}

static mr_status *add_attrs(writing *w, const mr_dataset *d, mr_node_builder *b)
{
    const mr_op_def *def = d->node->def;
    for (int i = 0; i < def->n_attrs; i++) {
        const mr_attr *v = mr_node_attr(d->node, def->attrs[i].name);
        if (!v)
            continue;
        mr_nb_attr(b, def->attrs[i].name, *v);
        if (w->no_state && v->kind == MR_ATTR_FUNC && !v->is_list)
            MR_TRY(check_function(d, v->func));
    }
    return NULL;
}

static mr_status *add_inputs(writing *w, const mr_dataset *d, mr_node_builder *b)
{
    const mr_op_def *def = d->node->def;
    mr_out *in = mr_new_array(mr_out, d->node->n_in + 1);
    mr_status *st = NULL;
    for (int i = 0; i < d->node->n_in; i++)
        MR_GO(add_input(w, d, i, &in[i]));
    for (int i = 0; i < def->n_in; i++) {
        int start, count;
        MR_GO(mr_node_in_range(d->node, def->in[i].name, &start, &count));
        if (def->in[i].number_attr || def->in[i].type_list_attr)
            mr_nb_input_list(b, in + start, count);
        else
            mr_nb_input(b, in[start]);
    }
out:
    mr_free(in);
    return st;
}

/* The recursion is as deep as the chain of datasets, which is bounded. */
static mr_status *add_dataset(writing *w, const mr_dataset *d, mr_out *out)
{
    mr_node *n = mr_imap_get(&w->nodes, (uint64_t)(uintptr_t)d);
    if (!n) {
        if (!d->node)
            return mr_error(MR_UNIMPLEMENTED, "%s dataset was not created by an op, so it cannot be stored in a graph",
                            d->kind->name);
        MR_TRY(mr_library_copy(d->graph->library, w->g->library));
        mr_node_builder *b = mr_node_begin(w->g, d->node->def->name, mr_graph_unique_name(w->g, d->node->def->name));
        mr_status *st = add_inputs(w, d, b);
        if (!st)
            st = add_attrs(w, d, b);
        if (st) {
            mr_nb_abandon(b);
            return st;
        }
        MR_TRY(mr_node_finish(b, &n));
        mr_imap_put(&w->nodes, (uint64_t)(uintptr_t)d, n);
    }
    *out = (mr_out){n, 0};
    return NULL;
}

static mr_status *add_retval(writing *w, mr_out dataset)
{
    mr_node *n;
    mr_node_builder *b = mr_node_begin(w->g, "_Retval", "dataset");
    mr_nb_internal(b);
    mr_nb_input(b, dataset);
    mr_nb_attr(b, "T", mr_a_type(MR_VARIANT));
    mr_nb_attr(b, "index", mr_a_int(0));
    return mr_node_finish(b, &n);
}

static mr_status *write_dataset(const mr_tensor *t, bool no_state, mr_str *out)
{
    mr_dataset *d;
    mr_out o;
    MR_TRY(mr_dataset_of(t, &d));
    writing w = {.g = mr_graph_new(), .no_state = no_state};
    mr_status *st = add_dataset(&w, d, &o);
    if (!st)
        st = add_retval(&w, o);
    if (!st)
        st = mr_graph_export(w.g, out);
    mr_imap_deinit(&w.nodes);
    mr_graph_unref(w.g);
    return st;
}

/* ---- the ops ---- */

typedef struct graph_state {
    bool no_state;
} graph_state;

enum { POLICY_FAIL = 2 };

static mr_status *init_dataset_to_graph(mr_make *m, void *state)
{
    const mr_attr *policy = mr_node_attr(m->node, "external_state_policy"), *allow = mr_node_attr(m->node, "allow_stateful");
    ((graph_state *)state)->no_state = policy ? policy->i == POLICY_FAIL : !(allow && allow->b);
    return NULL;
}

static mr_status *to_graph(mr_run *r)
{
    mr_str bytes = {0};
    mr_tensor *t;
    mr_status *st = NULL;
    MR_GO(write_dataset(mr_in(r, 0), ((graph_state *)r->state)->no_state, &bytes));
    MR_GO(mr_run_output(r, 0, 0, NULL, &t));
    MR_GO(mr_tensor_set_str(t, 0, mr_str_view(&bytes)));
out:
    mr_str_deinit(&bytes);
    return st;
}

#define R "r = RangeDataset output_types=[int64] output_shapes=[[]]: 0, 9, 1; "
#define TO_GRAPH                                                                                                    \
    .sig = "input_dataset: variant -> graph: string", .flags = MR_NO_GRADIENT, .shape = mr_shape_scalar,            \
    .kernels = MR_KERNELS(MR_CPU_ANY(to_graph)), .state_bytes = sizeof(graph_state), .init = init_dataset_to_graph, \
    .examples = MR_EXAMPLES(R ": r -> shape()",                                                                     \
                            R "t = TakeDataset output_types=[int64] output_shapes=[[]]: r, 3; : t -> shape()",      \
                            "o = OptionalNone; : o -> !INVALID_ARGUMENT Tensor must be a Dataset object")

MR_OP(DatasetToGraph,
    .doc   = "the serialized GraphDef that makes a dataset",
    .attrs = "stateful_whitelist: list(string) >= 0 = []; allow_stateful: bool = false; strip_device_assignment: bool = false",
    TO_GRAPH);

MR_OP(DatasetToGraphV2,
    .doc   = "the serialized GraphDef that makes a dataset",
    .attrs = "external_state_policy: int = 0; strip_device_assignment: bool = false",
    TO_GRAPH);

static mr_status *fingerprint_dataset(mr_run *r)
{
    mr_str bytes = {0};
    mr_tensor *t;
    mr_status *st = NULL;
    MR_GO(write_dataset(mr_in(r, 0), false, &bytes));
    MR_GO(mr_run_output(r, 0, 0, NULL, &t));
    *MR_DATA(uint64_t, t) = mr_hash64(bytes.p, bytes.n);
out:
    mr_str_deinit(&bytes);
    return st;
}

MR_OP(DatasetFingerprint,
    .doc     = "a number that is the same for datasets made the same way",
    .sig     = "input_dataset: variant -> fingerprint: uint64",
    .flags   = MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(fingerprint_dataset)),
    .examples = MR_EXAMPLES(R ": r -> shape()"));

/* ---- reading ---- */

static mr_node *find_retval(const mr_graph *g)
{
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.p[i] && mr_node_is(g->nodes.p[i], "_Retval"))
            return g->nodes.p[i];
    return NULL;
}

/* Makes a graph whose library has one more function, which creates the dataset. */
static mr_status *read_graph(mr_sv bytes, const char *name, mr_graph **out)
{
    mr_graph *g = mr_graph_new();
    mr_function *f = NULL;
    mr_status *st = NULL;
    MR_GO(mr_graph_import(g, bytes, &(mr_import_options){.internal_ok = true}, NULL));
    mr_node *end = find_retval(g);
    if (!end || mr_out_type(end->in[0]) != MR_VARIANT)
        MR_GO(mr_invalid("The graph has no _Retval of a dataset"));
    mr_out dataset = end->in[0];
    mr_graph_remove(g, end);
    if (find_retval(g))
        MR_GO(mr_invalid("The graph has more than one _Retval"));
    MR_GO(mr_function_from_graph(g, &(mr_function_spec){.name = name, .n_nodes = -1, .n_outputs = 1, .outputs = &dataset}, &f));
    MR_GO(mr_library_add(g->library, f));
out:
    mr_function_unref(f);
    if (st)
        mr_graph_unref(g);
    else
        *out = g;
    return st;
}

typedef struct reading {
    mr_run *r;
    mr_later *later;
    mr_tensor *made;
} reading;

static void read_done(void *ctx, mr_status *st)
{
    reading p = *(reading *)ctx;
    mr_dataset *d;
    mr_free(ctx);
    if (!st)
        st = mr_dataset_of(p.made, &d);
    if (!st)
        mr_run_set(p.r, 0, mr_tensor_ref(p.made));
    mr_tensor_unref(p.made);
    mr_later_unref(p.later);
    mr_run_done(p.r, st);
}

static void from_graph(mr_run *r)
{
    static const mr_func_ref f = {"__dataset_of_graph", 0, NULL};
    const mr_tensor *bytes = mr_in(r, 0);
    mr_graph *g = NULL;
    mr_status *st = bytes->rank == 0 ? read_graph(mr_tensor_str_at(bytes, 0), f.name, &g) : mr_invalid("graph_def must be a scalar");
    if (st) {
        mr_run_done(r, st);
        return;
    }
    mr_later *here = mr_later_new(r);
    reading *p = mr_new(reading);
    *p = (reading){r, mr_later_new_in(here, g), NULL};
    mr_later_unref(here);
    mr_graph_unref(g);
    mr_later_start(p->later, &(mr_later_call){.f = &f, .rets = &p->made, .n_rets = 1}, read_done, p);
}

MR_OP(DatasetFromGraph,
    .doc     = "the dataset that a serialized GraphDef makes",
    .sig     = "graph_def: string -> handle: variant",
    .flags   = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(from_graph)),
    .examples = MR_EXAMPLES("\"\" -> !INVALID_ARGUMENT _Retval", "\"nonsense\" -> !INVALID_ARGUMENT",
                            R "g = DatasetToGraph: r; : g -> !FAILED_PRECONDITION cannot be called here"));
