/* ops/queue/tuple.c -- see tuple.h.  The error messages are TensorFlow's. */
#include "ops/queue/tuple.h"

#include "base/memory.h"

mr_tuple_type mr_tuple_type_copy(mr_arena *a, const mr_tuple_type *t)
{
    int *types = mr_arena_array(a, int, t->n);
    const mr_pshape **shapes = mr_arena_array(a, const mr_pshape *, t->n_shapes);
    for (int i = 0; i < t->n; i++)
        types[i] = t->types[i];
    for (int i = 0; i < t->n_shapes; i++)
        shapes[i] = t->shapes[i]->rank < 0
                        ? &mr_pshape_unknown
                        : mr_pshape_of(a, t->shapes[i]->rank, t->shapes[i]->dims);
    return (mr_tuple_type){t->n, types, t->n_shapes, shapes};
}

/* ---- texts ---- */

static void print_types(mr_str *out, int n, const int *types)
{
    for (int i = 0; i < n; i++)
        mr_str_printf(out, "%s%s", i ? ", " : "", mr_dtype_name(types[i]));
}

void mr_tuple_print_types(mr_str *out, const mr_tuple_type *t) { print_types(out, t->n, t->types); }

void mr_tuple_print_shapes(mr_str *out, const mr_tuple_type *t)
{
    mr_str_appendc(out, '[');
    for (int i = 0; i < t->n_shapes; i++) {
        mr_str_appendz(out, i ? ", " : "");
        mr_pshape_print(out, t->shapes[i]);
    }
    mr_str_appendc(out, ']');
}

mr_status *mr_signature_mismatch(const mr_run *r, int n_in, const int *in, int n_out,
                                 const int *out)
{
    const mr_node *n = r->node;
    mr_str have = {0}, want = {0};
    print_types(&have, n->n_in, n->in_types);
    mr_str_appendz(&have, "->");
    print_types(&have, n->n_out, n->out_types);
    print_types(&want, n_in, in);
    mr_str_appendz(&want, "->");
    print_types(&want, n_out, out);
    mr_status *st = mr_invalid("Signature mismatch, have: %s expected: %s", mr_str_z(&have),
                               mr_str_z(&want));
    mr_str_deinit(&have);
    mr_str_deinit(&want);
    return st;
}

/* ---- checking ---- */

static bool same_types(const mr_tuple_type *t, int n, const int *types)
{
    bool same = n == t->n;
    for (int i = 0; same && i < n; i++)
        same = mr_dtype_base(types[i]) == mr_dtype_base(t->types[i]);
    return same;
}

mr_status *mr_tuple_check_outputs(const mr_tuple_type *t, const mr_run *r)
{
    const mr_node *n = r->node;
    return same_types(t, n->n_out, n->out_types)
               ? NULL
               : mr_signature_mismatch(r, n->n_in, n->in_types, t->n, t->types);
}

static mr_status *wrong_inputs(const mr_tuple_type *t, const mr_run *r)
{
    int *in = mr_new_array(int, t->n + 1);
    in[0] = r->node->in_types[0];
    memcpy(in + 1, t->types, sizeof(int) * (size_t)t->n);
    mr_status *st = mr_signature_mismatch(r, t->n + 1, in, 0, NULL);
    mr_free(in);
    return st;
}

static mr_status *wrong_shape(int c, const mr_pshape *want, const int64_t *batch,
                              const mr_tensor *t)
{
    mr_str text = {0};
    mr_pshape_print(&text, want);
    const char *inner = mr_str_z(&text);
    mr_status *st;
    if (batch) /* a batch of 3 elements of shape [?,2] has shape [3,?,2] */
        st = mr_invalid("Shape mismatch in tuple component %d. Expected [%lld%s%s, got %s", c,
                        (long long)*batch, want->rank > 0 ? "," : "", inner + 1,
                        MR_TENSOR_SHAPE(t));
    else
        st = mr_invalid("Shape mismatch in tuple component %d. Expected %s, got %s", c, inner,
                        MR_TENSOR_SHAPE(t));
    mr_str_deinit(&text);
    return st;
}

static mr_status *check_shape(const mr_pshape *want, int c, const mr_tensor *t,
                              const int64_t *batch)
{
    int skip = batch ? 1 : 0;
    if (want->rank < 0)
        return NULL;
    bool fits = want->rank == t->rank - skip && (!batch || t->dims[0] == *batch);
    for (int i = 0; fits && i < want->rank; i++)
        fits = want->dims[i] < 0 || want->dims[i] == t->dims[i + skip];
    return fits ? NULL : wrong_shape(c, want, batch, t);
}

static mr_status *check_rows(const mr_tuple_type *t, const mr_run *r)
{
    const mr_tensor *first = mr_in(r, 1);
    if (first->rank < 1)
        return mr_invalid("Component 0 of a batch of elements must have at least one dimension");
    for (int c = 0; c < t->n; c++) {
        const mr_tensor *x = mr_in(r, 1 + c);
        if (t->n_shapes > 0)
            MR_TRY(check_shape(t->shapes[c], c, x, &first->dims[0]));
        if (x->rank < 1 || x->dims[0] != first->dims[0])
            return mr_invalid("All input tensors must have the same size in the 0th dimension. "
                              "Component %d has %lld, and should have %lld",
                              c, x->rank < 1 ? 0LL : (long long)x->dims[0],
                              (long long)first->dims[0]);
    }
    return NULL;
}

mr_status *mr_tuple_check_inputs(const mr_tuple_type *t, const mr_run *r, bool many)
{
    const mr_node *n = r->node;
    if (!same_types(t, n->n_in - 1, n->in_types + 1))
        return wrong_inputs(t, r);
    if (many)
        return check_rows(t, r);
    for (int c = 0; c < t->n_shapes; c++)
        MR_TRY(check_shape(t->shapes[c], c, mr_in(r, 1 + c), NULL));
    return NULL;
}

/* ---- cutting ---- */

static mr_status *copy_row(mr_run *r, const mr_tensor *in, int64_t row, mr_tensor **out)
{
    int64_t each = in->n / in->dims[0];
    MR_TRY(mr_tensor_new(mr_run_allocator(r), (mr_dtype)in->dtype, in->rank - 1, in->dims + 1,
                         out));
    return mr_tensor_try_copy_elements(*out, 0, in, row * each, each);
}

/* Rows are copied, so that a row that stays in a queue does not keep its whole batch in memory. */
mr_status *mr_tuple_read(const mr_tuple_type *t, mr_run *r, bool many, int64_t row,
                         mr_tensor **out)
{
    for (int c = 0; c < t->n; c++) {
        mr_status *st = NULL;
        out[c] = NULL;
        if (many)
            st = copy_row(r, mr_in(r, 1 + c), row, &out[c]);
        else
            out[c] = mr_tensor_ref(mr_in(r, 1 + c));
        if (st) {
            for (; c >= 0; c--)
                mr_tensor_unref(out[c]);
            return st;
        }
    }
    return NULL;
}

/* ---- stacking ---- */

/* Copies an element into the corner of its larger place, run by run: the trailing `solid` dimensions have the
 * same size in both, and are copied together with the dimension before them as one run. */
static mr_status *copy_corner(mr_tensor *out, int64_t at, const mr_tensor *t)
{
    const int64_t *place = out->dims + 1;
    int outer = t->rank;
    int64_t run = 1, stride = 1;
    while (outer > 0 && t->dims[outer - 1] == place[outer - 1])
        run *= t->dims[--outer];
    stride = run;
    if (outer > 0) {
        outer--;
        run *= t->dims[outer];
        stride *= place[outer];
    }
    int64_t runs = run > 0 ? t->n / run : 0;
    for (int64_t i = 0; i < runs; i++) {
        int64_t where = 0, left = i, step = stride;
        for (int d = outer - 1; d >= 0; d--) {
            where += left % t->dims[d] * step;
            left /= t->dims[d];
            step *= place[d];
        }
        MR_TRY(mr_tensor_try_copy_elements(out, at + where, t, i * run, run));
    }
    return NULL;
}

static mr_status *stacked_shape(const mr_tuple_type *t, int c, mr_tensor *const *tuples,
                                int64_t count, mr_shape *out)
{
    const mr_pshape *s = t->shapes[c];
    out->rank = 0;
    MR_TRY(mr_shape_push(out, count));
    for (int d = 0; d < s->rank; d++) {
        int64_t size = MR_MAX(0, s->dims[d]);
        for (int64_t i = 0; s->dims[d] < 0 && i < count; i++)
            size = MR_MAX(size, tuples[i * t->n + c]->dims[d]);
        MR_TRY(mr_shape_push(out, size));
    }
    return NULL;
}

static mr_status *stack_component(const mr_tuple_type *t, mr_run *r, int c, mr_tensor *const *tuples,
                                  int64_t count)
{
    mr_shape shape;
    mr_tensor *out;
    MR_TRY(stacked_shape(t, c, tuples, count, &shape));
    MR_TRY(mr_run_output(r, c, shape.rank, shape.dims, &out));
    bool pad = !mr_pshape_full(t->shapes[c]);
    if (pad)
        mr_tensor_zero(out);
    int64_t each = count > 0 ? out->n / count : 0;
    for (int64_t i = 0; i < count; i++) {
        const mr_tensor *e = tuples[i * t->n + c];
        if (pad)
            MR_TRY(copy_corner(out, i * each, e));
        else
            MR_TRY(mr_tensor_try_copy_elements(out, i * each, e, 0, e->n));
    }
    return NULL;
}

mr_status *mr_tuple_stack(const mr_tuple_type *t, mr_run *r, mr_tensor *const *tuples,
                          int64_t count)
{
    MR_ASSERT(t->n_shapes == t->n);
    for (int c = 0; c < t->n; c++)
        MR_TRY(stack_component(t, r, c, tuples, count));
    return NULL;
}
