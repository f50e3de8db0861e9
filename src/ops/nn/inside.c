/* ops/nn/inside.c -- runs the graph inside a kernel. */
#include "ops/nn/inside.h"

#include <stdio.h>

#include "base/memory.h"
#include "run/scratch.h"

/* Builds the graph: a node "in<i>" for each input, then the nodes that fn emits, then an Identity for each
 * output, so that every output has a reader. */
static mr_status *build_graph(mr_scope *s, const mr_node *n, const mr_out *in, mr_inside_fn *fn,
                              mr_node **results)
{
    mr_out *out = mr_new_array(mr_out, n->n_out);
    if (mr_scope_ok(s))
        fn(s, n, in, out);
    for (int i = 0; i < n->n_out && mr_scope_ok(s); i++)
        results[i] = mr_emit(s, "Identity", out[i]).node;
    mr_free(out);
    return mr_scope_status(s);
}

mr_out mr_inside_emit(mr_scope *s, const mr_node *n, const char *op, const char *attr_names,
                      const mr_out *in, int n_in)
{
    mr_named_attr attrs[16];
    char names[16][40];
    int n_attrs = 0;
    mr_sv rest = mr_sv_of(attr_names), name;
    while (n_attrs < MR_COUNT(attrs) && mr_sv_cut(&rest, ' ', &name)) {
        snprintf(names[n_attrs], sizeof names[0], "%.*s", (int)name.n, name.p);
        const mr_attr *a = mr_node_attr(n, names[n_attrs]);
        if (a) {
            attrs[n_attrs] = (mr_named_attr){names[n_attrs], *a};
            n_attrs++;
        }
    }
    return mr_emit_n(s, op, attrs, n_attrs, in, n_in);
}

/* ---- kernels ---- */

static mr_status *make_kernels(mr_make *m, mr_inside *s)
{
    s->kernels = mr_new_array(mr_instance *, s->graph->nodes.n);
    for (int i = s->n_inputs; i < s->graph->nodes.n; i++)
        MR_TRY(mr_instance_new(&(mr_make){s->graph->nodes.p[i], NULL, m->device, m->library},
                               &s->kernels[i]));
    return NULL;
}

mr_status *mr_inside_init(mr_make *m, void *state, mr_inside_fn *fn)
{
    mr_inside *s = state;
    const mr_node *n = m->node;
    mr_scope scope;
    s->graph = mr_graph_new();
    s->n_inputs = n->n_in;
    s->n_results = n->n_out;
    s->results = mr_new_array(mr_node *, n->n_out);
    mr_out *in = mr_new_array(mr_out, n->n_in + 1);
    mr_scope_init(&scope, s->graph, "");
    for (int i = 0; i < n->n_in; i++)
        in[i] = mr_placeholder(&scope, mr_dtype_base(n->in_types[i]), "in", NULL);
    mr_status *st = build_graph(&scope, n, in, fn, s->results);
    mr_scope_deinit(&scope);
    mr_free(in);
    return st ? st : make_kernels(m, s);
}

void mr_inside_deinit(void *state)
{
    mr_inside *s = state;
    for (int i = 0; s->kernels && i < s->graph->nodes.n; i++)
        mr_instance_unref(s->kernels[i]);
    mr_free(s->kernels);
    mr_free(s->results);
    mr_graph_unref(s->graph);
}

/* The values of all outputs of all nodes; those of node i begin at first[i]. */
typedef struct values {
    mr_value *all;
    int *first;
    int n;
} values;

static bool values_init(const mr_run *r, values *v, const mr_inside *s)
{
    v->first = mr_scratch(r, sizeof(int) * (size_t)(s->graph->nodes.n + 1));
    for (int i = 0; v->first && i < s->graph->nodes.n; i++) {
        v->first[i] = v->n;
        v->n += s->graph->nodes.p[i]->n_out;
    }
    v->all = mr_scratch_zeroed(r, (size_t)v->n + 1, sizeof(mr_value));
    return v->first && v->all;
}

static void values_deinit(values *v)
{
    for (int i = 0; v->all && i < v->n; i++)
        mr_value_drop(&v->all[i]);
    mr_scratch_free(v->all);
    mr_scratch_free(v->first);
}

static mr_status *run_node(mr_run *r, const mr_inside *s, const values *v, int i)
{
    mr_node *n = s->graph->nodes.p[i];
    const mr_instance *k = s->kernels[i];
    mr_value *in = mr_scratch_zeroed(r, (size_t)n->n_in + 1, sizeof(mr_value));
    if (!in)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the inputs of %s", n->name);
    for (int a = 0; a < n->n_in; a++) {
        const mr_value *from = &v->all[v->first[n->in[a].node->id] + n->in[a].index];
        in[a] = (mr_value){.t = mr_tensor_ref(from->t), .kind = MR_LIVE};
    }
    mr_run own = {.node = n, .kernel = k->kernel, .state = k->state, .n_in = n->n_in,
                  .n_out = n->n_out, .in = in, .out = &v->all[v->first[i]], .step = r->step,
                  .frame = r->frame, .iteration = r->iteration};
    mr_status *st = k->kernel->run ? k->kernel->run(&own)
                                   : mr_error(MR_INTERNAL, "%s has only an asynchronous kernel", n->def->name);
    for (int a = 0; a < n->n_in; a++)
        mr_value_drop(&in[a]);
    mr_scratch_free(in);
    return st;
}

mr_status *mr_inside_run(mr_run *r)
{
    const mr_inside *s = r->state;
    mr_status *st = NULL;
    values v = {0};
    if (!values_init(r, &v, s))
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the nodes inside %s", r->node->name));
    for (int i = 0; i < s->n_inputs; i++)
        v.all[v.first[i]] = (mr_value){.t = mr_tensor_ref(mr_in(r, i)), .kind = MR_LIVE};
    for (int i = s->n_inputs; i < s->graph->nodes.n; i++)
        MR_GO(run_node(r, s, &v, i));
    for (int i = 0; i < s->n_results; i++)
        mr_run_set(r, i, mr_tensor_ref(v.all[v.first[s->results[i]->id]].t));
out:
    values_deinit(&v);
    return st;
}

/* ---- shapes ---- */

/* A node for input i with everything that inference knows about it: its value, or its shape. */
static mr_out known_input(mr_scope *s, mr_infer *c, int i)
{
    const mr_tensor *t = mr_infer_const(c, i);
    if (t && t->n <= 64)
        return mr_const(s, mr_tensor_ref(t));
    return mr_placeholder(s, mr_dtype_base(c->node->in_types[i]), "in", c->in[i]);
}

mr_status *mr_inside_infer(mr_infer *c, mr_inside_fn *fn)
{
    mr_graph *g = mr_graph_new();
    mr_out *in = mr_new_array(mr_out, c->n_in + 1);
    mr_node **results = mr_new_array(mr_node *, c->n_out + 1);
    mr_scope s;
    mr_scope_init(&s, g, "");
    for (int i = 0; i < c->n_in; i++)
        in[i] = known_input(&s, c, i);
    mr_status *st = build_graph(&s, c->node, in, fn, results);
    for (int i = 0; i < c->n_out && !st; i++) {
        const mr_pshape *y = results[i]->out_shapes[0];
        c->out[i] = y->rank < 0 ? &mr_pshape_unknown : mr_pshape_of(c->arena, y->rank, y->dims);
    }
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    mr_free(results);
    mr_free(in);
    return st;
}
