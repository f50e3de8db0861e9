/* graph/infer.c -- runs an op's shape function and stores the result.
 *
 * A node's output shapes are only ever refined: the result of a shape function is merged with the existing shape
 * (TF_GraphSetTensorShape may have provided more), and a contradiction is an error that names the node, its attrs and
 * the input shapes, in TensorFlow's words, because people search for those.
 *
 * Resource handles carry the dtype and shape of their variable along the same edges. For nodes that only pass a value
 * on (Identity, Switch, Enter ...), this file passes them on, not their shape functions, so no op can forget to. */
#include "graph/infer.h"

#include "graph/draft.h"
#include "graph/known_value.h"

enum { ASKED_VALUE = 1, ASKED_SHAPE = 2 };
enum { SMALL = 8 }; /* nodes with at most this many inputs and outputs need no allocation */

/* ---- error texts ---- */
static void print_input(mr_str *out, const mr_node *n, int i)
{
    mr_out o = n->in[i];
    if (!o.node)
        mr_str_appendz(out, "?"); /* a back edge that is set later */
    else if (o.index == 0)
        mr_str_appendz(out, o.node->name);
    else
        mr_str_printf(out, "%s:%d", o.node->name, o.index);
}

void mr_node_summary(const mr_node *n, mr_str *out)
{
    const char *sep = "";
    mr_str_printf(out, "{{node %s}} = %s[", n->name, n->def->name);
    for (int i = 0; i < n->n_attrs; i++) {
        mr_str_printf(out, "%s%s=", sep, n->attrs[i].name);
        mr_attr_print(out, &n->attrs[i].v);
        sep = ", ";
    }
    if (n->device && n->device[0])
        mr_str_printf(out, "%s_device=\"%s\"", sep, n->device);
    mr_str_appendz(out, "](");
    sep = "";
    for (int i = 0; i < n->n_in; i++, sep = ", ") {
        mr_str_appendz(out, sep);
        print_input(out, n, i);
    }
    for (int i = 0; i < n->n_ctrl; i++, sep = ", ")
        mr_str_printf(out, "%s^%s", sep, n->ctrl[i]->name);
    mr_str_appendz(out, ")");
}

static void print_shape_value(mr_str *out, mr_infer *c, int i)
{
    const mr_pshape *s = NULL;
    mr_status *st = mr_infer_shape_value(c, i, &s);
    if (!st)
        mr_pshape_print(out, s);
    mr_status_free(st);
}

/* Lists the input values that the shape function used, since they may be wrong. */
static void print_values(mr_str *out, mr_infer *c)
{
    const char *sep = " and with computed input tensors: ";
    for (int i = 0; i < c->n_in; i++) {
        const mr_tensor *t = (c->asked[i] & ASKED_VALUE) ? mr_infer_const(c, i) : NULL;
        if (!t)
            continue;
        mr_str_printf(out, "%sinput[%d] = <", sep, i);
        mr_tensor_summarize(t, 256, out);
        mr_str_appendz(out, ">");
        sep = ", ";
    }
    sep = " and with input tensors computed as partial shapes: ";
    for (int i = 0; i < c->n_in; i++)
        if (c->asked[i] == ASKED_SHAPE && c->node->in[i].node &&
            mr_known_ints(c->known, c->node->in[i])) {
            mr_str_printf(out, "%sinput[%d] = ", sep, i);
            print_shape_value(out, c, i);
            sep = ",";
        }
}

static mr_status *with_context(mr_infer *c, mr_status *st)
{
    mr_str text = {0};
    mr_str_appendz(&text, " for '");
    mr_node_summary(c->node, &text);
    mr_str_appendz(&text, "' with input shapes: ");
    for (int i = 0; i < c->n_in; i++) {
        mr_str_appendz(&text, i ? ", " : "");
        mr_pshape_print(&text, c->in[i]);
    }
    print_values(&text, c);
    st = mr_status_append(st, "%s.", mr_str_z(&text));
    mr_str_deinit(&text);
    return st;
}

/* ---- resource handles ---- */
static bool passes_value(const mr_node *n)
{
    return mr_node_is_control_flow(n) || mr_node_is(n, "Identity") ||
           mr_node_is(n, "StopGradient") || mr_node_is(n, "RefIdentity");
}

static bool handles_eq(const mr_handle_info *a, const mr_handle_info *b)
{
    if (!a || !b || a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (a->parts[i].dtype != b->parts[i].dtype ||
            !mr_pshape_eq(a->parts[i].shape, b->parts[i].shape))
            return false;
    return true;
}

/* The handle that all inputs agree on; back edges that do not exist yet cannot disagree. But the content of a variant
 * may change from one iteration of a loop to the next, and the Merge of a loop is created before its back edge: Python
 * first gives it the Enter twice. */
static const mr_handle_info *merged_handle(const mr_infer *c)
{
    const mr_handle_info *h = NULL;
    for (int i = 0; i < c->n_in; i++) {
        const mr_node *from = c->node->in[i].node;
        if (mr_dtype_base(c->node->in_types[i]) == MR_VARIANT && (!from || mr_node_is_enter(from)))
            return NULL;
        if (!from)
            continue;
        if (h && !handles_eq(h, c->in_handles[i]))
            return NULL;
        h = c->in_handles[i];
        if (!h)
            return NULL;
    }
    return h;
}

static void pass_handles(mr_infer *c)
{
    const mr_node *n = c->node;
    if (n->n_in == 0)
        return;
    if (mr_node_is(n, "IdentityN")) {
        for (int i = 0; i < c->n_out && i < c->n_in; i++)
            c->out_handles[i] = c->in_handles[i];
        return;
    }
    if (!passes_value(n))
        return;
    const mr_handle_info *h = mr_node_is_merge(n) ? merged_handle(c) : c->in_handles[0];
    for (int i = 0; i < c->n_out; i++)
        if (!c->out_handles[i] && mr_dtype_base(n->out_types[i]) == mr_dtype_base(n->in_types[0]))
            c->out_handles[i] = h;
}

/* ---- running a shape function ---- */
typedef struct room { /* the arrays of an mr_infer, on the stack for small nodes */
    const mr_pshape *shapes[2 * SMALL];
    const mr_handle_info *handles[2 * SMALL];
    uint8_t asked[SMALL];
    void *heap;
} room;

static mr_status *set_arrays(mr_infer *c, room *r)
{
    size_t n = (size_t)c->n_in + (size_t)c->n_out;
    c->in = r->shapes;
    c->in_handles = r->handles;
    c->asked = r->asked;
    if (c->n_in > SMALL || c->n_out > SMALL) {
        size_t pointers = n * sizeof(void *);
        char *p = r->heap = mr_try_calloc(1, 2 * pointers + (size_t)c->n_in + 1);
        if (!p)
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to infer shapes of node '%s'",
                            c->node->name);
        c->in = (const mr_pshape **)p;
        c->in_handles = (const mr_handle_info **)(p + pointers);
        c->asked = (uint8_t *)p + 2 * pointers;
    }
    c->out = c->in + c->n_in;
    c->out_handles = c->in_handles + c->n_in;
    return NULL;
}

static void read_inputs(mr_infer *c)
{
    for (int i = 0; i < c->n_in; i++) {
        mr_out o = c->node->in[i];
        c->in[i] = o.node ? mr_out_shape(o) : &mr_pshape_unknown;
        c->in_handles[i] = o.node && o.node->out_handles ? o.node->out_handles[o.index] : NULL;
    }
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = &mr_pshape_unknown;
}

static mr_status *store_shapes(mr_infer *c, mr_node *n)
{
    for (int i = 0; i < c->n_out; i++) {
        const mr_pshape *s = c->out[i];
        if (n->out_shapes[i] && n->out_shapes[i]->rank >= 0)
            MR_TRY(mr_infer_merge(c, n->out_shapes[i], s, &s));
        n->out_shapes[i] = s;
    }
    return NULL;
}

static void store_handles(mr_infer *c, mr_node *n)
{
    bool any = false;
    for (int i = 0; i < c->n_out; i++)
        any = any || c->out_handles[i];
    if (!any)
        return;
    if (!n->out_handles)
        n->out_handles = mr_arena_array(c->arena, const mr_handle_info *, n->n_out);
    for (int i = 0; i < c->n_out; i++)
        if (c->out_handles[i])
            n->out_handles[i] = c->out_handles[i];
}

mr_status *mr_node_infer(mr_node *n)
{
    room r = {0};
    mr_known known;
    mr_infer c = {.node = n,
                  .arena = &n->graph->arena,
                  .n_in = n->n_in,
                  .n_out = n->n_out,
                  .producer = n->graph->versions.producer,
                  .known = &known};
    mr_status *st;

    MR_TRY(set_arrays(&c, &r));
    mr_known_init(&known);
    read_inputs(&c);
    /* A function's results depend on its body, which may not even be in the library yet. */
    st = n->def->op && n->def->op->shape && !mr_node_has_placeholder(n) ? n->def->op->shape(&c) : NULL;
    if (!st)
        st = store_shapes(&c, n);
    if (st) {
        st = with_context(&c, st);
    } else {
        pass_handles(&c);
        store_handles(&c, n);
    }
    mr_known_deinit(&known);
    mr_free(r.heap);
    return st;
}

/* ---- values ---- */
const mr_tensor *mr_infer_const(mr_infer *c, int i)
{
    MR_ASSERT(i >= 0 && i < c->n_in);
    c->asked[i] |= ASKED_VALUE;
    return c->node->in[i].node ? mr_known_tensor(c->known, c->node->in[i]) : NULL;
}

bool mr_infer_int(mr_infer *c, int i, int64_t *out)
{
    MR_ASSERT(i >= 0 && i < c->n_in);
    c->asked[i] |= ASKED_VALUE;
    return c->node->in[i].node && mr_known_int(c->known, c->node->in[i], out);
}

/* A shape of which at most the rank is known. */
static mr_status *shape_of_rank(mr_infer *c, int64_t rank, const mr_pshape **out)
{
    if (rank < 0)
        *out = &mr_pshape_unknown;
    else if (rank > MR_MAX_RANK)
        return mr_invalid("Shape has %lld dimensions, more than %d", (long long)rank, MR_MAX_RANK);
    else
        *out = mr_pshape_new(c->arena, (int)rank);
    return NULL;
}

/* An entry of -1 is an unknown dimension; below -1 it is an error. If only the length of the vector is known, so is the
 * rank. */
mr_status *mr_infer_shape_value(mr_infer *c, int i, const mr_pshape **out)
{
    MR_ASSERT(i >= 0 && i < c->n_in);
    c->asked[i] |= ASKED_SHAPE;
    const mr_ints *v = c->node->in[i].node ? mr_known_ints(c->known, c->node->in[i]) : NULL;
    if (v && v->rank == 0 && v->known[0] &&
        v->v[0] == -1) { /* the scalar -1 means any shape */
        *out = &mr_pshape_unknown;
        return NULL;
    }
    const mr_pshape *vec = NULL;
    MR_TRY(mr_infer_rank(c, c->in[i], 1, &vec));
    if (!v || v->rank != 1)
        return shape_of_rank(c, vec->dims[0], out);
    const mr_pshape *s;
    MR_TRY(shape_of_rank(c, v->n, &s));
    mr_pshape *dims = mr_pshape_new(c->arena, v->n);
    for (int d = 0; d < v->n; d++) {
        if (v->known[d] && v->v[d] < -1)
            return mr_invalid("Invalid value in tensor used for shape: %lld", (long long)v->v[d]);
        dims->dims[d] = v->known[d] ? v->v[d] : -1;
    }
    *out = dims;
    return NULL;
}

/* ---- checks and arithmetic on shapes ---- */
mr_status *mr_infer_rank(mr_infer *c, const mr_pshape *s, int rank, const mr_pshape **out)
{
    if (s->rank >= 0 && s->rank != rank)
        return mr_invalid("Shape must be rank %d but is rank %d", rank, s->rank);
    *out = s->rank >= 0 ? s : mr_pshape_new(c->arena, rank);
    return NULL;
}

mr_status *mr_infer_rank_at_least(mr_infer *c, const mr_pshape *s, int rank, const mr_pshape **out)
{
    (void)c;
    if (s->rank >= 0 && s->rank < rank)
        return mr_invalid("Shape must be at least rank %d but is rank %d", rank, s->rank);
    *out = s;
    return NULL;
}

mr_status *mr_infer_rank_at_most(mr_infer *c, const mr_pshape *s, int rank, const mr_pshape **out)
{
    (void)c;
    if (s->rank > rank)
        return mr_invalid("Shape must be at most rank %d but is rank %d", rank, s->rank);
    *out = s;
    return NULL;
}

mr_status *mr_infer_merge_dim(int64_t a, int64_t b, int64_t *out)
{
    if (a >= 0 && b >= 0 && a != b)
        return mr_invalid("Dimensions must be equal, but are %lld and %lld", (long long)a,
                          (long long)b);
    *out = a >= 0 ? a : b;
    return NULL;
}

mr_status *mr_infer_dim_is(int64_t dim, int64_t value)
{
    return dim < 0 || dim == value
               ? NULL
               : mr_invalid("Dimension must be %lld but is %lld", (long long)value, (long long)dim);
}

mr_status *mr_infer_multiply(int64_t dim, int64_t by, int64_t *out)
{
    *out = -1;
    if (dim >= 0 && !mr_i64_mul(dim, by, out))
        return mr_invalid("Negative dimension size caused by overflow when multiplying %lld and %lld", (long long)dim,
                          (long long)by);
    return NULL;
}

mr_status *mr_infer_divide(int64_t dim, int64_t by, int64_t *out)
{
    MR_ASSERT(by > 0);
    if (dim >= 0 && dim % by != 0)
        return mr_invalid("Dimension size must be evenly divisible by %lld but is %lld", (long long)by, (long long)dim);
    *out = dim < 0 ? -1 : dim / by;
    return NULL;
}

mr_status *mr_infer_subtract(int64_t dim, int64_t less, int64_t *out)
{
    if (dim >= 0 && dim < less)
        return mr_invalid("Negative dimension size caused by subtracting %lld from %lld", (long long)less,
                          (long long)dim);
    *out = dim < 0 ? -1 : dim - less;
    return NULL;
}

int64_t mr_infer_elements(const mr_pshape *s)
{
    int64_t n = 1;
    bool known = s->rank >= 0;
    for (int d = 0; d < s->rank; d++) {
        if (s->dims[d] == 0)
            return 0;
        known = known && s->dims[d] > 0 && mr_i64_mul(n, s->dims[d], &n);
    }
    return known ? n : -1;
}

mr_status *mr_infer_handle_type(const mr_infer *c, int i, const char *attr)
{
    const mr_handle_info *h = c->in_handles ? c->in_handles[i] : NULL;
    mr_dtype type;
    if (!h || h->n == 0 || mr_dtype_base(c->node->in_types[i]) != MR_RESOURCE)
        return NULL;
    MR_TRY(mr_node_get_type(c->node, attr, &type));
    return (mr_dtype)h->parts[0].dtype == type
               ? NULL
               : mr_invalid("Trying to read variable with wrong dtype. Expected %s got %s",
                            mr_dtype_name(h->parts[0].dtype), mr_dtype_name(type));
}

const mr_pshape *mr_infer_variable(const mr_infer *c, int i)
{
    if (mr_dtype_base(c->node->in_types[i]) != MR_RESOURCE)
        return c->in[i];
    const mr_handle_info *h = c->in_handles ? c->in_handles[i] : NULL;
    return h && h->n > 0 ? h->parts[0].shape : &mr_pshape_unknown;
}

mr_status *mr_infer_merge(mr_infer *c, const mr_pshape *a, const mr_pshape *b,
                          const mr_pshape **out)
{
    if (a->rank < 0 || b->rank < 0 || a == b) {
        *out = a->rank < 0 ? b : a;
        return NULL;
    }
    if (a->rank != b->rank)
        return mr_invalid("Shapes must be equal rank, but are %d and %d", a->rank, b->rank);
    bool a_tells_all = true;
    for (int d = 0; d < a->rank; d++) {
        if (a->dims[d] >= 0 && b->dims[d] >= 0 && a->dims[d] != b->dims[d])
            return mr_invalid("Dimension %d in both shapes must be equal, but are %lld and %lld. "
                              "Shapes are %s and %s.",
                              d, (long long)a->dims[d], (long long)b->dims[d], MR_PSHAPE_TEXT(a),
                              MR_PSHAPE_TEXT(b));
        a_tells_all = a_tells_all && (a->dims[d] >= 0 || b->dims[d] < 0);
    }
    return a_tells_all ? (*out = a, NULL) : mr_pshape_merge(c->arena, a, b, out);
}

/* A position counted from the front, or from the back when negative, kept within the shape. */
static int normalize_position(int at, int rank)
{
    at = at < 0 ? at + rank : at;
    return MR_MAX(0, MR_MIN(at, rank));
}

const mr_pshape *mr_infer_sub(mr_infer *c, const mr_pshape *s, int start, int end)
{
    if (s->rank < 0)
        return &mr_pshape_unknown;
    int from = normalize_position(start, s->rank), to = normalize_position(end, s->rank);
    if (from == 0 && to == s->rank)
        return s;
    return mr_pshape_of(c->arena, MR_MAX(0, to - from), s->dims + from);
}

const mr_pshape *mr_infer_concat(mr_infer *c, const mr_pshape *a, const mr_pshape *b)
{
    /* Too many dimensions cannot be represented here; the kernel rejects them. */
    if (a->rank < 0 || b->rank < 0 || a->rank + b->rank > MR_MAX_RANK)
        return &mr_pshape_unknown;
    if (a->rank == 0 || b->rank == 0)
        return a->rank == 0 ? b : a;
    mr_pshape *s = mr_pshape_new(c->arena, a->rank + b->rank);
    memcpy(s->dims, a->dims, (size_t)a->rank * sizeof(int64_t));
    memcpy(s->dims + a->rank, b->dims, (size_t)b->rank * sizeof(int64_t));
    return s;
}

void mr_infer_out_scalar(mr_infer *c, int i)
{
    MR_ASSERT(i >= 0 && i < c->n_out);
    c->out[i] = &mr_pshape_scalar;
}

void mr_infer_out_vector(mr_infer *c, int i, int64_t n)
{
    MR_ASSERT(i >= 0 && i < c->n_out);
    c->out[i] = mr_pshape_vector(c->arena, n);
}
