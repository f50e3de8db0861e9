/* graph/int_ops.c -- rules for propagating known integers through ops.
 *
 * A table has one rule for each op. A rule sees the inputs as scalars or vectors with unknown entries and returns what
 * is known about the output; for anything unusual (another rank, an unusual mask) it returns NULL, and the evaluator
 * tries instead. Results that do not fit the output's type are unknown, because a shape never relies on overflow. */
#include "graph/int_ops.h"

enum { MAX_INTS = 1024 }; /* shapes are shorter; longer vectors are data */

typedef const mr_ints *(*rule_fn)(mr_known *k, mr_out o, int which);

static mr_ints *new_ints(mr_known *k, int rank, int64_t n)
{
    if (n < 0 || n > MAX_INTS)
        return NULL;
    mr_ints *r = mr_arena_new(&k->arena, mr_ints);
    r->rank = rank;
    r->n = (int)n;
    r->v = mr_arena_array(&k->arena, int64_t, n + 1);
    r->known = mr_arena_array(&k->arena, bool, n + 1);
    return r;
}

static void set_int(mr_ints *r, int i, int64_t v, int type)
{
    r->v[i] = v;
    r->known[i] = type != MR_INT32 || (v >= INT32_MIN && v <= INT32_MAX);
}

static void copy_entry(mr_ints *to, int i, const mr_ints *from, int j)
{
    to->v[i] = from->v[j];
    to->known[i] = from->known[j];
}

static const mr_ints *known_input(mr_known *k, mr_out o, int i)
{
    return i < o.node->n_in && o.node->in[i].node ? mr_known_ints(k, o.node->in[i]) : NULL;
}

static bool input_int(mr_known *k, mr_out o, int i, int64_t *out)
{
    return i < o.node->n_in && o.node->in[i].node && mr_known_int(k, o.node->in[i], out);
}

static const mr_pshape *input_shape(mr_out o, int i)
{
    mr_out x = i < o.node->n_in ? o.node->in[i] : MR_NO_OUT;
    return x.node && mr_out_shape(x) ? mr_out_shape(x) : &mr_pshape_unknown;
}

static int64_t int_attr(mr_out o, const char *name, int64_t deflt)
{
    const mr_attr *a = mr_node_attr(o.node, name);
    return a && a->kind == MR_ATTR_INT && !a->is_list ? a->i : deflt;
}

static bool bool_attr(mr_out o, const char *name)
{
    const mr_attr *a = mr_node_attr(o.node, name);
    return a && a->kind == MR_ATTR_BOOL && !a->is_list && a->b;
}

/* ---- shapes as values ---- */
static const mr_ints *shape_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    const mr_pshape *s = input_shape(o, o.index); /* ShapeN: output i is the shape of input i */
    mr_ints *r = s->rank < 0 ? NULL : new_ints(k, 1, s->rank);
    for (int i = 0; r && i < r->n; i++)
        if (s->dims[i] >= 0)
            set_int(r, i, s->dims[i], mr_out_type(o));
    return r;
}

static const mr_ints *size_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    const mr_pshape *s = input_shape(o, 0);
    int64_t n = 1;
    mr_ints *r = new_ints(k, 0, 1);
    bool zero = false, all = s->rank >= 0;
    for (int i = 0; i < s->rank; i++) {
        zero = zero || s->dims[i] == 0;
        all = all && s->dims[i] >= 0 && mr_i64_mul(n, s->dims[i], &n);
    }
    if (zero || all)
        set_int(r, 0, zero ? 0 : n, mr_out_type(o));
    return r;
}

static const mr_ints *rank_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    const mr_pshape *s = input_shape(o, 0);
    mr_ints *r = new_ints(k, 0, 1);
    if (s->rank >= 0)
        set_int(r, 0, s->rank, mr_out_type(o));
    return r;
}

/* ---- moving entries about ---- */
static const mr_ints *pass_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    return known_input(k, o, 0);
}

static const mr_ints *cast_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    const mr_ints *x = known_input(k, o, 0);
    mr_ints *r = x ? new_ints(k, x->rank, x->n) : NULL;
    for (int i = 0; r && i < r->n; i++)
        if (x->known[i])
            set_int(r, i, x->v[i], mr_out_type(o));
    return r;
}

static const mr_ints *pack_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    int64_t axis = int_attr(o, "axis", 0);
    if (axis != 0 && axis != -1)
        return NULL;
    /* An element of unknown rank counts as a scalar, as in TensorFlow: anything else would not make a valid shape. Its
     * value stays unknown. */
    mr_ints *r = new_ints(k, 1, o.node->n_in);
    for (int i = 0; r && i < r->n; i++) {
        const mr_ints *x = known_input(k, o, i);
        if (x ? x->rank != 0 : input_shape(o, i)->rank > 0)
            return NULL;
        if (x)
            copy_entry(r, i, x, 0);
    }
    return r;
}

/* Appends the entries of one concatenated input; unknown ones if only its length is known. */
static bool append_input(mr_known *k, mr_out o, int i, mr_ints *r)
{
    const mr_ints *x = known_input(k, o, i);
    const mr_pshape *s = input_shape(o, i);
    int64_t n = x ? (x->rank == 1 ? x->n : -1) : (s->rank == 1 ? s->dims[0] : -1);
    if (n < 0 || n > MAX_INTS - r->n)
        return false;
    for (int j = 0; j < n && x; j++)
        copy_entry(r, r->n + j, x, j);
    r->n += (int)n;
    return true;
}

static const mr_ints *concat_rule(mr_known *k, mr_out o, int axis_first)
{
    int n = o.node->n_in - 1;
    int64_t axis;
    if (n < 1 || !input_int(k, o, axis_first ? 0 : n, &axis) || (axis != 0 && axis != -1))
        return NULL;
    mr_ints *r = new_ints(k, 1, MAX_INTS);
    r->n = 0;
    for (int i = 0; i < n; i++)
        if (!append_input(k, o, i + (axis_first ? 1 : 0), r))
            return NULL;
    return r;
}

/* One bound of x[begin:end:stride] in a vector of n entries, clamped as StridedSlice does. */
static int64_t clamp_bound(int64_t at, int64_t n, bool masked, bool is_end, bool forward)
{
    int64_t low = forward ? 0 : -1, high = forward ? n : n - 1;
    if (masked)
        return is_end == forward ? high : low;
    at = at < 0 ? at + n : at;
    return MR_MAX(low, MR_MIN(at, high));
}

static const mr_ints *take_slice(mr_known *k, const mr_ints *x, int64_t begin, int64_t end,
                                 int64_t stride)
{
    int64_t span = stride > 0 ? end - begin : begin - end, step = stride > 0 ? stride : -stride;
    mr_ints *r = new_ints(k, 1, span <= 0 ? 0 : (span - 1) / step + 1);
    for (int i = 0; r && i < r->n; i++)
        copy_entry(r, i, x, (int)(begin + i * stride));
    return r;
}

static const mr_ints *pick_element(mr_known *k, const mr_ints *x, int64_t at)
{
    at = at < 0 ? at + x->n : at;
    if (at < 0 || at >= x->n)
        return NULL;
    mr_ints *r = new_ints(k, 0, 1);
    copy_entry(r, 0, x, (int)at);
    return r;
}

static const mr_ints *strided_slice_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    const mr_ints *x = known_input(k, o, 0), *begin = known_input(k, o, 1), *end = known_input(k, o, 2),
                  *by = known_input(k, o, 3);
    if (!x || x->rank != 1 || !begin || !end || !by || begin->n != 1 || end->n != 1 || by->n != 1 ||
        (int_attr(o, "ellipsis_mask", 0) & 1) || (int_attr(o, "new_axis_mask", 0) & 1))
        return NULL;
    bool no_begin = int_attr(o, "begin_mask", 0) & 1, no_end = int_attr(o, "end_mask", 0) & 1;
    if (int_attr(o, "shrink_axis_mask", 0) & 1)
        return begin->known[0] ? pick_element(k, x, no_begin ? 0 : begin->v[0]) : NULL;
    int64_t stride = by->v[0];
    if (!by->known[0] || stride == 0 || stride < -MAX_INTS || stride > MAX_INTS ||
        !(no_begin || begin->known[0]) || !(no_end || end->known[0]))
        return NULL;
    return take_slice(k, x, clamp_bound(begin->v[0], x->n, no_begin, false, stride > 0),
                      clamp_bound(end->v[0], x->n, no_end, true, stride > 0), stride);
}

static const mr_ints *slice_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    const mr_ints *x = known_input(k, o, 0), *begin = known_input(k, o, 1), *size = known_input(k, o, 2);
    if (!x || x->rank != 1 || !begin || !size || begin->n != 1 || size->n != 1 ||
        !begin->known[0] || !size->known[0] || begin->v[0] < 0 || begin->v[0] > x->n)
        return NULL;
    int64_t n = size->v[0] == -1 ? x->n - begin->v[0] : size->v[0];
    return n < 0 || n > x->n - begin->v[0] ? NULL : take_slice(k, x, begin->v[0], begin->v[0] + n, 1);
}

static const mr_ints *gather_rule(mr_known *k, mr_out o, int has_axis)
{
    const mr_ints *x = known_input(k, o, 0), *at = known_input(k, o, 1);
    int64_t axis = 0;
    if (!x || x->rank != 1 || !at || (has_axis && !input_int(k, o, 2, &axis)) ||
        (axis != 0 && axis != -1) || int_attr(o, "batch_dims", 0) != 0)
        return NULL;
    mr_ints *r = new_ints(k, at->rank, at->n);
    for (int i = 0; r && i < r->n; i++) {
        if (at->known[i] && (at->v[i] < 0 || at->v[i] >= x->n))
            return NULL;
        if (at->known[i])
            copy_entry(r, i, x, (int)at->v[i]);
    }
    return r;
}

/* ExpandDims of a scalar, Squeeze of a vector of one, Reshape to either or to a vector. */
static const mr_ints *with_rank(mr_known *k, const mr_ints *x, int rank)
{
    mr_ints *r = new_ints(k, rank, x->n);
    for (int i = 0; r && i < r->n; i++)
        copy_entry(r, i, x, i);
    return r;
}

static const mr_ints *expand_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    const mr_ints *x = known_input(k, o, 0);
    return x && x->rank == 0 ? with_rank(k, x, 1) : NULL;
}

static const mr_ints *squeeze_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    const mr_ints *x = known_input(k, o, 0);
    return x && x->n == 1 ? with_rank(k, x, 0) : NULL;
}

static const mr_ints *reshape_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    const mr_ints *x = known_input(k, o, 0), *shape = known_input(k, o, 1);
    if (!x || !shape || shape->rank != 1 || shape->n > 1)
        return NULL;
    if (shape->n == 0)
        return x->n == 1 ? with_rank(k, x, 0) : NULL;
    bool fits = shape->known[0] && (shape->v[0] == -1 || shape->v[0] == x->n);
    return fits ? with_rank(k, x, 1) : NULL;
}

static const mr_ints *fill_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    const mr_ints *dims = known_input(k, o, 0), *x = known_input(k, o, 1);
    if (!dims || dims->rank != 1 || dims->n > 1 || (dims->n == 1 && !dims->known[0]) || !x ||
        x->rank != 0)
        return NULL;
    mr_ints *r = new_ints(k, dims->n, dims->n ? dims->v[0] : 1);
    for (int i = 0; r && i < r->n; i++)
        copy_entry(r, i, x, 0);
    return r;
}

static const mr_ints *like_rule(mr_known *k, mr_out o, int value)
{
    const mr_pshape *s = input_shape(o, 0);
    if (s->rank < 0 || s->rank > 1 || !mr_pshape_full(s))
        return NULL;
    mr_ints *r = new_ints(k, s->rank, s->rank ? s->dims[0] : 1);
    for (int i = 0; r && i < r->n; i++)
        set_int(r, i, value, mr_out_type(o));
    return r;
}

static const mr_ints *range_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    int64_t from, to, by, span;
    if (!input_int(k, o, 0, &from) || !input_int(k, o, 1, &to) || !input_int(k, o, 2, &by) ||
        by == 0 || by == INT64_MIN ||
        __builtin_sub_overflow(by > 0 ? to : from, by > 0 ? from : to, &span) || span < 0)
        return NULL;
    int64_t step = by > 0 ? by : -by;
    mr_ints *r = new_ints(k, 1, span / step + (span % step != 0));
    for (int i = 0; r && i < r->n; i++)
        set_int(r, i, from + i * by, mr_out_type(o)); /* stays between from and to */
    return r;
}

/* ---- arithmetic ---- */
enum { ADD, SUB, MUL, FLOOR_DIV, TRUNC_DIV, FLOOR_MOD, TRUNC_MOD, MAXIMUM, MINIMUM };

static bool divide_ints(int op, int64_t a, int64_t b, int64_t *out)
{
    if (b == 0 || (a == INT64_MIN && b == -1))
        return false;
    int64_t q = a / b, m = a % b;
    bool down = m != 0 && (m < 0) != (b < 0); /* floor differs from C's division */
    if (op == FLOOR_DIV || op == TRUNC_DIV)
        *out = q - (op == FLOOR_DIV && down);
    else
        *out = m + (op == FLOOR_MOD && down ? b : 0);
    return true;
}

static bool apply_binary(int op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case ADD: return mr_i64_add(a, b, out);
    case SUB: return !__builtin_sub_overflow(a, b, out);
    case MUL: return mr_i64_mul(a, b, out);
    case MAXIMUM: return *out = MR_MAX(a, b), true;
    case MINIMUM: return *out = MR_MIN(a, b), true;
    default: return divide_ints(op, a, b, out);
    }
}

static const mr_ints *binary_rule(mr_known *k, mr_out o, int op)
{
    const mr_ints *a = known_input(k, o, 0), *b = known_input(k, o, 1);
    if (!a || !b || (a->n != b->n && a->n != 1 && b->n != 1))
        return NULL;
    mr_ints *r = new_ints(k, MR_MAX(a->rank, b->rank), a->n == 1 ? b->n : a->n);
    for (int i = 0; r && i < r->n; i++) {
        int ia = a->n == 1 ? 0 : i, ib = b->n == 1 ? 0 : i;
        int64_t v;
        if (a->known[ia] && b->known[ib] && apply_binary(op, a->v[ia], b->v[ib], &v))
            set_int(r, i, v, mr_out_type(o));
        else if (op == MUL && ((a->known[ia] && a->v[ia] == 0) || (b->known[ib] && b->v[ib] == 0)))
            set_int(r, i, 0, mr_out_type(o));
    }
    return r;
}

static const mr_ints *neg_rule(mr_known *k, mr_out o, int which)
{
    (void)which;
    const mr_ints *x = known_input(k, o, 0);
    mr_ints *r = x ? new_ints(k, x->rank, x->n) : NULL;
    for (int i = 0; r && i < r->n; i++)
        if (x->known[i] && x->v[i] != INT64_MIN)
            set_int(r, i, -x->v[i], mr_out_type(o));
    return r;
}

/* Sum, Prod, Max, Min of a vector to one number. */
static const mr_ints *reduce_rule(mr_known *k, mr_out o, int op)
{
    const mr_ints *x = known_input(k, o, 0), *axes = known_input(k, o, 1);
    if (!x || x->rank != 1 || !axes || axes->n != 1 || !axes->known[0] || axes->v[0] < -1 ||
        axes->v[0] > 0 || (x->n == 0 && op != ADD && op != MUL))
        return NULL;
    mr_ints *r = new_ints(k, bool_attr(o, "keep_dims") ? 1 : 0, 1);
    int64_t v = op == MUL ? 1 : op == ADD || x->n == 0 ? 0 : x->v[0];
    for (int i = 0; i < x->n; i++)
        if (!x->known[i] || !apply_binary(op, v, x->v[i], &v))
            return r;
    set_int(r, 0, v, mr_out_type(o));
    return r;
}

/* ---- the table ---- */
static const struct rule {
    const char *op;
    rule_fn fn;
    int which;
} rules[] = {
    {"Add", binary_rule, ADD},
    {"AddV2", binary_rule, ADD},
    {"Cast", cast_rule, 0},
    {"Concat", concat_rule, 1},
    {"ConcatV2", concat_rule, 0},
    {"Div", binary_rule, TRUNC_DIV},
    {"Enter", pass_rule, 0},
    {"ExpandDims", expand_rule, 0},
    {"Fill", fill_rule, 0},
    {"FloorDiv", binary_rule, FLOOR_DIV},
    {"FloorMod", binary_rule, FLOOR_MOD},
    {"Gather", gather_rule, 0},
    {"GatherV2", gather_rule, 1},
    {"Identity", pass_rule, 0},
    {"Max", reduce_rule, MAXIMUM},
    {"Maximum", binary_rule, MAXIMUM},
    {"Min", reduce_rule, MINIMUM},
    {"Minimum", binary_rule, MINIMUM},
    {"Mod", binary_rule, TRUNC_MOD},
    {"Mul", binary_rule, MUL},
    {"Neg", neg_rule, 0},
    {"OnesLike", like_rule, 1},
    {"Pack", pack_rule, 0},
    {"PreventGradient", pass_rule, 0},
    {"Prod", reduce_rule, MUL},
    {"Range", range_rule, 0},
    {"Rank", rank_rule, 0},
    {"Reshape", reshape_rule, 0},
    {"Shape", shape_rule, 0},
    {"ShapeN", shape_rule, 0},
    {"Size", size_rule, 0},
    {"Slice", slice_rule, 0},
    {"Squeeze", squeeze_rule, 0},
    {"StopGradient", pass_rule, 0},
    {"StridedSlice", strided_slice_rule, 0},
    {"Sub", binary_rule, SUB},
    {"Sum", reduce_rule, ADD},
    {"Switch", pass_rule, 0},
    {"TruncateDiv", binary_rule, TRUNC_DIV},
    {"TruncateMod", binary_rule, TRUNC_MOD},
    {"ZerosLike", like_rule, 0},
};

static const struct rule *find_rule(const char *op)
{
    int low = 0, high = MR_COUNT(rules); /* the table is sorted */
    while (low < high) {
        int mid = (low + high) / 2, order = strcmp(op, rules[mid].op);
        if (order == 0)
            return &rules[mid];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

static const mr_ints *ints_of_tensor(mr_known *k, const mr_tensor *t)
{
    mr_ints *r = t && t->rank <= 1 && mr_ints_type(t->dtype) ? new_ints(k, t->rank, t->n) : NULL;
    for (int i = 0; r && i < r->n; i++)
        set_int(r, i, mr_tensor_int_at(t, i), t->dtype);
    return r;
}

const mr_ints *mr_ints_compute(mr_known *k, mr_out o)
{
    const struct rule *rule = o.node->def->op ? find_rule(o.node->def->name) : NULL;
    const mr_ints *r = rule ? rule->fn(k, o, rule->which) : NULL;
    return r ? r : ints_of_tensor(k, mr_known_whole(k, o));
}
