/* graph/known_value.c -- what is known about a value before anything runs.
 *
 * There are two ways. Small integer scalars and vectors, such as shapes and axes, are propagated entry by entry, so
 * that one unknown dimension does not hide the others; this needs no kernels (int_ops.c has the rules). Everything else
 * is computed by the evaluator as a whole, one node at a time, if all its inputs are known.
 *
 * Both are bounded: at most MAX_NODES nodes are looked at in one call, no value above MAX_BYTES is computed, and of an
 * unknown size none that takes more than the evaluator allows, so a hostile graph cannot make inference slow. An
 * existing constant may have any size. Feeding may replace any value when the graph runs; as in TensorFlow, the caller
 * must then feed a compatible value. */
#include "graph/known_value.h"

#include "graph/draft.h"
#include "graph/int_ops.h"

enum { MAX_NODES = 256, MAX_BYTES = 10 * 1024 };

/* Marks "nothing is known" in both caches. */
static char nothing;
#define NOTHING ((void *)&nothing)

static _Atomic mr_eval_fn evaluator;

void mr_infer_set_evaluator(mr_eval_fn fn) { atomic_store(&evaluator, fn); }

void mr_known_init(mr_known *k)
{
    *k = (mr_known){.left = MAX_NODES};
    mr_arena_init(&k->arena, 0);
}

void mr_known_deinit(mr_known *k)
{
    uint32_t pos = 0;
    uint64_t key;
    void *t;
    while (mr_imap_next(&k->tensors, &pos, &key, &t))
        if (t != NOTHING)
            mr_tensor_unref(t);
    mr_imap_deinit(&k->tensors);
    mr_imap_deinit(&k->ints);
    mr_arena_deinit(&k->arena);
}

/* Producers are already in the graph, so their ids identify them. */
static uint64_t key_of(mr_out o)
{
    return (uint64_t)(uint32_t)o.node->id << 32 | (uint32_t)o.index;
}

/* ---- integers, entry by entry ---- */
const mr_ints *mr_known_ints(mr_known *k, mr_out o)
{
    if (!mr_ints_type(mr_out_type(o)))
        return NULL;
    void *hit = mr_imap_get(&k->ints, key_of(o));
    if (hit)
        return hit == NOTHING ? NULL : hit;
    if (k->left <= 0)
        return NULL;
    k->left--;
    /* A cycle (a loop's back edge) finds this entry: nothing is known. */
    mr_imap_put(&k->ints, key_of(o), NOTHING);
    const mr_ints *v = mr_ints_compute(k, o);
    if (v)
        mr_imap_put(&k->ints, key_of(o), (void *)(uintptr_t)v);
    return v;
}

bool mr_known_int(mr_known *k, mr_out o, int64_t *out)
{
    const mr_ints *v = mr_known_ints(k, o);
    if (v) {
        if (v->n != 1 || !v->known[0])
            return false;
        *out = v->v[0];
        return true;
    }
    const mr_tensor *t = mr_known_tensor(k, o);
    if (!t || t->n != 1 || (t->dtype != MR_INT32 && t->dtype != MR_INT64))
        return false;
    *out = mr_tensor_int_at(t, 0);
    return true;
}

static mr_tensor *tensor_of_ints(const mr_ints *v, int type)
{
    int64_t n = v->n;
    mr_tensor *t = NULL;
    for (int i = 0; i < v->n; i++)
        if (!v->known[i])
            return NULL;
    mr_status *st = mr_tensor_new(NULL, mr_dtype_base(type), v->rank, &n, &t);
    mr_status_free(st);
    for (int i = 0; t && i < v->n; i++)
        if (t->dtype == MR_INT32)
            MR_DATA(int32_t, t)[i] = (int32_t)v->v[i];
        else
            MR_DATA(int64_t, t)[i] = v->v[i];
    return t;
}

/* ---- whole tensors ---- */
/* Puts a tensor (owned) into the cache. */
static mr_tensor *remember_value(mr_known *k, mr_out o, mr_tensor *t)
{
    void *old = t ? mr_imap_put(&k->tensors, key_of(o), t) : NULL;
    if (old && old != NOTHING)
        mr_tensor_unref(old);
    return t;
}

/* An output whose shape is unknown before it is computed (BroadcastGradientArgs, Unique, Where) may be small: the
 * evaluator limits its memory. */
static bool may_be_small(const mr_node *n, int i)
{
    const mr_pshape *s = n->out_shapes[i];
    int64_t count = 0, bytes = 0;
    if (mr_dtype_is_ref(n->out_types[i]))
        return false;
    if (!s || !mr_pshape_full(s))
        return true;
    mr_status *st = mr_shape_elements(s->rank, s->dims, &count);
    if (st) {
        mr_status_free(st);
        return false;
    }
    return mr_i64_mul(count, (int64_t)mr_dtype_size(mr_dtype_base(n->out_types[i])), &bytes) &&
           bytes <= MAX_BYTES;
}

/* Whether computing a node has no side effects, always gives the same result, and is cheap. */
static bool may_evaluate(const mr_node *n)
{
    if (!n->def->op || mr_node_has_placeholder(n) || n->n_in == 0 || n->n_out == 0 || mr_node_is_control_flow(n) ||
        (n->def->flags & (MR_STATEFUL | MR_NO_FOLD)) || mr_node_is(n, "PlaceholderWithDefault"))
        return false;
    for (int i = 0; i < n->n_out; i++)
        if (!may_be_small(n, i) || !mr_dtype_is_plain(mr_dtype_base(n->out_types[i])))
            return false;
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i].node || mr_dtype_is_ref(n->in_types[i]) ||
            mr_dtype_base(n->in_types[i]) == MR_RESOURCE)
            return false;
    return true;
}

static void keep_outputs(mr_known *k, mr_node *n, mr_tensor **out)
{
    for (int i = 0; i < n->n_out; i++)
        remember_value(k, (mr_out){n, i}, out[i]);
}

/* Puts all outputs of a node into the cache. An error only means that the value is not known: the same error, with a
 * better message, occurs when the node runs. */
static void evaluate_node(mr_known *k, mr_node *n)
{
    mr_eval_fn eval = atomic_load(&evaluator);
    mr_tensor *in_room[8] = {0}, *out_room[8] = {0};
    if (!eval || n->n_in > MR_COUNT(in_room) || n->n_out > MR_COUNT(out_room) || !may_evaluate(n))
        return;
    for (int i = 0; i < n->n_in; i++)
        if (!(in_room[i] = mr_known_tensor(k, n->in[i])))
            return;
    mr_status *st = eval(n, in_room, out_room);
    if (!st)
        keep_outputs(k, n, out_room);
    mr_status_free(st);
}

/* Whether a constant does not match its declared type or shape, or is a few bytes that represent gigabytes of one
 * value. */
static bool is_unfit(const mr_node *n)
{
    const mr_attr *v = mr_node_attr(n, "value");
    mr_dtype type = MR_INVALID;
    mr_shape shape;
    int64_t count = 0;
    if (!v || v->kind != MR_ATTR_TENSOR || v->is_list)
        return true;
    mr_status *st = mr_tensor_attr_shape(v->tensor, &type, &shape);
    if (!st)
        st = mr_shape_elements(shape.rank, shape.dims, &count);
    bool bad = st || (int)type != n->out_types[0];
    mr_status_free(st);
    return bad || (!v->tensor->t && (size_t)count / 16 > v->tensor->raw.n + (1 << 16));
}

static mr_tensor *const_value(mr_node *n)
{
    mr_tensor *t = NULL;
    if (is_unfit(n))
        return NULL;
    mr_status *st = mr_node_get_tensor(n, "value", &t);
    mr_status_free(st);
    return t;
}

static bool forwards_input0(const mr_node *n)
{
    return mr_node_is_enter(n) || mr_node_is(n, "Switch") || mr_node_is(n, "Identity") ||
           mr_node_is(n, "StopGradient") || mr_node_is(n, "PreventGradient");
}

/* Without the integer rules: a constant, a value that is passed on, or the evaluator's result. Returns a new
 * reference. */
static mr_tensor *find_whole(mr_known *k, mr_out o)
{
    if (mr_dtype_is_ref(mr_out_type(o)))
        return NULL;
    if (mr_node_is(o.node, "Const"))
        return const_value(o.node);
    if (forwards_input0(o.node))
        return o.node->n_in > 0 && o.node->in[0].node
                   ? mr_tensor_ref(mr_known_tensor(k, o.node->in[0]))
                   : NULL;
    evaluate_node(k, o.node);
    void *hit = mr_imap_get(&k->tensors, key_of(o));
    return hit && hit != NOTHING ? mr_tensor_ref(hit) : NULL;
}

mr_tensor *mr_known_whole(mr_known *k, mr_out o)
{
    void *hit = mr_imap_get(&k->tensors, key_of(o));
    if (hit)
        return hit == NOTHING ? NULL : hit;
    if (k->left <= 0)
        return NULL;
    k->left--;
    mr_imap_put(&k->tensors, key_of(o), NOTHING); /* found by a cycle */
    return remember_value(k, o, find_whole(k, o));
}

mr_tensor *mr_known_tensor(mr_known *k, mr_out o)
{
    void *hit = mr_imap_get(&k->tensors, key_of(o));
    if (hit && hit != NOTHING)
        return hit;
    const mr_ints *v = mr_known_ints(k, o);
    return v ? remember_value(k, o, tensor_of_ints(v, mr_out_type(o))) : mr_known_whole(k, o);
}

mr_status *mr_out_value(mr_out o, mr_tensor **out)
{
    mr_known k;
    mr_known_init(&k);
    *out = mr_tensor_ref(mr_known_tensor(&k, o));
    mr_known_deinit(&k);
    return NULL;
}
