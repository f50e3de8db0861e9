/* graph/scope.c -- adds nodes one after the other.
 *
 * A scope is a thin layer over the node builder: it creates names, and it determines which inputs belong to which
 * argument of the op. */
#include "graph/scope.h"

#include "base/memory.h"
#include "graph/library.h"

void mr_scope_init(mr_scope *s, mr_graph *g, const char *prefix)
{
    *s = (mr_scope){.graph = g, .prefix = "", .device = ""};
    if (prefix && prefix[0])
        s->prefix = mr_graph_unique_prefix(g, prefix);
}

void mr_scope_deinit(mr_scope *s)
{
    mr_status_free(s->st);
    s->st = NULL;
    mr_vec_deinit(&s->controls);
}

mr_status *mr_scope_status(mr_scope *s)
{
    mr_status *st = s->st;
    s->st = NULL;
    return st;
}

void mr_scope_fail(mr_scope *s, mr_status *st)
{
    if (s->st)
        mr_status_free(st);
    else
        s->st = st;
}

mr_scope *mr_as(mr_scope *s, const char *name)
{
    s->name = name;
    return s;
}

/* ---- assigning flat inputs to arguments ---- */

static bool is_list(const mr_arg_def *a) { return a->number_attr || a->type_list_attr; }

/* The length of a list argument according to a given attr; -1 if it is not given. */
static int length_given(const mr_arg_def *a, const mr_named_attr *attrs, int n_attrs)
{
    const char *name = a->number_attr ? a->number_attr : a->type_list_attr;
    for (int i = 0; i < n_attrs; i++)
        if (strcmp(attrs[i].name, name) == 0)
            return attrs[i].v.is_list ? attrs[i].v.n : (int)attrs[i].v.i;
    return -1;
}

/* Uses the lengths given by attrs; the remaining inputs belong to the other lists, which must then be a single list or
 * share one length attr. */
static mr_status *infer_lengths(const mr_op_def *def, const mr_named_attr *attrs, int n_attrs, int n_in,
                                int *out)
{
    int left = n_in, n_open = 0;
    const mr_arg_def *open = NULL;
    for (int i = 0; i < def->n_in; i++) {
        const mr_arg_def *a = &def->in[i];
        out[i] = is_list(a) ? length_given(a, attrs, n_attrs) : 1;
        if (out[i] >= 0) {
            left -= out[i];
            continue;
        }
        bool same = !open || (a->number_attr && open->number_attr &&
                              strcmp(a->number_attr, open->number_attr) == 0);
        if (!same)
            return mr_invalid("%s has several lists: say which inputs belong to which", def->name);
        open = a;
        n_open++;
    }
    if (left < 0 || (n_open ? left % n_open != 0 : left != 0))
        return mr_invalid("%s cannot take %d inputs", def->name, n_in);
    for (int i = 0; i < def->n_in; i++)
        if (out[i] < 0)
            out[i] = left / n_open;
    return NULL;
}

/* ---- emitting ---- */

/* Unique among the existing nodes; the next node is created at once. */
static const char *node_name(mr_scope *s, const char *op)
{
    const char *name = s->name ? s->name : op;
    char *full = s->prefix[0] ? mr_printf("%s/%s", s->prefix, name) : mr_strdup(name);
    const char *unique = mr_graph_unique_name(s->graph, full);
    mr_free(full);
    return unique;
}

static mr_node_builder *begin_node(mr_scope *s, const char *op, const mr_named_attr *attrs, int n_attrs)
{
    mr_node_builder *b = mr_node_begin(s->graph, op, node_name(s, op));
    mr_nb_device(b, s->device);
    mr_nb_internal(b); /* the library's own code may use its own ops */
    for (int i = 0; i < n_attrs; i++)
        mr_nb_attr(b, attrs[i].name, attrs[i].v);
    for (int i = 0; i < s->controls.n; i++)
        mr_nb_control(b, s->controls.p[i]);
    if (s->colocate)
        mr_nb_colocate(b, s->colocate);
    return b;
}

/* A node without outputs is returned with index -1, for control edges. */
static mr_out finish_node(mr_scope *s, mr_node_builder *b)
{
    mr_node *n;
    s->name = NULL;
    mr_scope_fail(s, mr_node_finish(b, &n));
    return s->st ? MR_NO_OUT : (mr_out){n, n->n_out ? 0 : -1};
}

mr_out mr_emit_lists(mr_scope *s, const char *op, const mr_named_attr *attrs, int n_attrs,
                     const mr_emit_arg *args, int n_args)
{
    if (s->st)
        return MR_NO_OUT;
    mr_node_builder *b = begin_node(s, op, attrs, n_attrs);
    for (int i = 0; i < n_args; i++) {
        if (args[i].n < 0)
            mr_nb_input(b, args[i].in[0]);
        else
            mr_nb_input_list(b, args[i].in, args[i].n);
    }
    return finish_node(s, b);
}

mr_out mr_emit_n(mr_scope *s, const char *op, const mr_named_attr *attrs, int n_attrs,
                 const mr_out *in, int n_in)
{
    if (s->st)
        return MR_NO_OUT;
    const mr_op_def *def = mr_library_op(s->graph->library, mr_sv_of(op));
    int *n = def ? mr_new_array(int, def->n_in) : NULL;
    if (def) /* the builder reports unknown ops */
        mr_scope_fail(s, infer_lengths(def, attrs, n_attrs, n_in, n));
    mr_emit_arg *args = def ? mr_new_array(mr_emit_arg, def->n_in) : NULL;
    for (int i = 0, at = 0; def && !s->st && i < def->n_in; at += n[i++])
        args[i] = (mr_emit_arg){is_list(&def->in[i]) ? n[i] : -1, in + at};
    mr_out o = mr_emit_lists(s, op, attrs, n_attrs, args, def ? def->n_in : 0);
    mr_free(n);
    mr_free(args);
    return o;
}

/* ---- constants ---- */

mr_out mr_const(mr_scope *s, mr_tensor *t)
{
    if (s->st) {
        mr_tensor_unref(t);
        return MR_NO_OUT;
    }
    mr_node_builder *b = begin_node(s, "Const", NULL, 0);
    mr_nb_attr(b, "dtype", mr_a_type(t->dtype));
    mr_nb_attr_tensor(b, "value", t);
    mr_tensor_unref(t);
    return finish_node(s, b);
}

mr_out mr_const_f32(mr_scope *s, float v) { return mr_const(s, mr_tensor_scalar_f32(v)); }
mr_out mr_const_i32(mr_scope *s, int32_t v) { return mr_const(s, mr_tensor_scalar_i32(v)); }
mr_out mr_const_i64(mr_scope *s, int64_t v) { return mr_const(s, mr_tensor_scalar_i64(v)); }
mr_out mr_const_str(mr_scope *s, const char *v)
{
    return mr_const(s, mr_tensor_scalar_str(mr_sv_of(v)));
}

mr_out mr_const_vec_i32(mr_scope *s, int n, const int32_t *v)
{
    return mr_const(s, mr_tensor_vector_i32(n, v));
}

mr_out mr_const_num(mr_scope *s, mr_dtype t, double v)
{
    _Alignas(16) char value[16];
    if (s->st)
        return MR_NO_OUT;
    if (!mr_dtype_convert(MR_DOUBLE, &v, t, value, 1, false)) {
        mr_scope_fail(
            s, mr_invalid("No constant of type %s can be made from a number", mr_dtype_name(t)));
        return MR_NO_OUT;
    }
    return mr_const(s, mr_tensor_of(t, 0, NULL, value));
}

mr_out mr_placeholder(mr_scope *s, mr_dtype t, const char *name, const mr_pshape *shape)
{
    if (s->st)
        return MR_NO_OUT;
    mr_node_builder *b = begin_node(mr_as(s, name), "Placeholder", NULL, 0);
    mr_nb_attr(b, "dtype", mr_a_type(t));
    if (shape)
        mr_nb_attr(b, "shape", mr_a_shape(shape));
    return finish_node(s, b);
}
