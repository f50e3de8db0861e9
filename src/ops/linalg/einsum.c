/* ops/linalg/einsum.c -- Einsum of one or two inputs.
 *
 * Labels that only one input has and the output lacks are summed first. Then each input is packed in the order
 * batch (in both and in the output), own (in the output), common (in both, not in the output), and the rest is a
 * batch of products of matrices. A label that occurs twice in an input selects its diagonal: its strides are added;
 * twice in the output it writes a diagonal. Elements that are already in the right order are not copied. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "ops/linalg/einsum_spec.h"
#include "ops/linalg/gemm.h"
#include "ops/reduce.h"
#include "run/scratch.h"

enum { BATCH, OWN, COMMON, SUMMED, N_KINDS };

typedef struct operand {
    const mr_tensor *t;
    int labels[MR_MAX_RANK];
    uint8_t count[MR_EINSUM_LABELS]; /* number of occurrences of each label */
    int order[MR_MAX_RANK], n_order; /* its labels, once each, by kind and then as in the output */
    int64_t sizes[N_KINDS];          /* product of the dims of each kind */
    mr_tensor *room;                 /* owned: packed copy, unless t is packed already */
    const void *data;
} operand;

typedef struct plan {
    int n_in;
    operand in[2];
    int out_rank, out_labels[MR_MAX_RANK];
    uint8_t out_count[MR_EINSUM_LABELS];
    int64_t dims[MR_EINSUM_LABELS]; /* -1: not seen yet */
} plan;

/* ---- labels ---- */

/* A letter has one size; under an ellipsis sizes of 1 are broadcast. */
static mr_status *see_dim(plan *p, const operand *o, int axis)
{
    int label = o->labels[axis];
    int64_t *have = &p->dims[label], dim = o->t->dims[axis];
    if (*have < 0 || (label >= MR_EINSUM_DOTS && *have == 1))
        *have = dim;
    else if (*have != dim && label < MR_EINSUM_DOTS)
        return mr_invalid("Expected dimension %lld at axis %d of the input shaped %s but got dimension %lld",
                          (long long)*have, axis, MR_TENSOR_SHAPE(o->t), (long long)dim);
    else if (*have != dim && dim != 1)
        return mr_invalid("Invalid broadcasting dimensions: %s vs. %s", MR_TENSOR_SHAPE(p->in[0].t),
                          MR_TENSOR_SHAPE(o->t));
    return NULL;
}

static mr_status *see_input(plan *p, const mr_einsum_term *term, operand *o)
{
    MR_TRY(mr_einsum_labels(term, (int)(o - p->in), o->t->rank, o->labels));
    for (int d = 0; d < o->t->rank; d++) {
        MR_TRY(see_dim(p, o, d));
        o->count[o->labels[d]]++;
    }
    return NULL;
}

static mr_status *see_output(plan *p, const mr_einsum_term *term)
{
    int covered = 0;
    while (covered < MR_MAX_RANK && p->dims[MR_EINSUM_DOTS + covered] >= 0)
        covered++;
    if (covered > 0 && term->dots < 0)
        return mr_invalid("Output contains %d broadcasting dimension(s) but no ellipsis (...) was found in the output "
                          "subscripts.",
                          covered);
    p->out_rank = term->n + covered;
    if (p->out_rank > MR_MAX_RANK)
        return mr_invalid("Einsum: a result of rank %d is too much", p->out_rank);
    MR_TRY(mr_einsum_labels(term, p->n_in, p->out_rank, p->out_labels));
    for (int d = 0; d < p->out_rank; d++)
        p->out_count[p->out_labels[d]]++;
    return NULL;
}

static int kind_of(const plan *p, int i, int label)
{
    bool other = p->n_in == 2 && p->in[1 - i].count[label];
    return p->out_count[label] ? (other ? BATCH : OWN) : (other ? COMMON : SUMMED);
}

/* Appends those of the input's labels of a kind that are in this list. */
static void order_kind(const plan *p, int i, operand *o, int kind, const int *labels, int n)
{
    for (int d = 0; d < n; d++) {
        int label = labels[d];
        bool there = !o->count[label] || kind_of(p, i, label) != kind;
        for (int k = 0; k < o->n_order && !there; k++)
            there = o->order[k] == label;
        if (there)
            continue;
        o->order[o->n_order++] = label;
        o->sizes[kind] *= p->dims[label]; /* cannot overflow: part of the output's or of the input's shape */
    }
}

static void order_labels(const plan *p, int i, operand *o)
{
    const operand *first = &p->in[0];
    for (int kind = 0; kind < N_KINDS; kind++) {
        o->sizes[kind] = 1;
        order_kind(p, i, o, kind, p->out_labels, p->out_rank);
        order_kind(p, i, o, kind, first->labels, first->t->rank);
        order_kind(p, i, o, kind, o->labels, o->t->rank);
    }
}

/* ---- packing ---- */

/* The distance of one step of a label in a tensor with these labels: the sum over all its positions. A broadcast
 * size of 1 has a step of 0. */
static int64_t step_of(const int *labels, int rank, const int64_t *dims, const plan *p, int label)
{
    int64_t step = 0, stride = 1;
    for (int d = rank - 1; d >= 0; stride *= dims[d], d--)
        if (labels[d] == label && !(dims[d] == 1 && p->dims[label] != 1))
            step += stride;
    return step;
}

/* True if the strides are those of packed elements in this order. */
static bool is_packed(const plan *p, const int *order, int n, const int64_t *steps)
{
    int64_t expected = 1;
    for (int k = n - 1; k >= 0; k--) {
        int64_t dim = p->dims[order[k]];
        if (dim != 1 && steps[k] != expected)
            return false;
        expected *= dim;
    }
    return true;
}

/* The number of elements of the packed operand; a broadcast size of 1 may make it larger than any tensor. */
static mr_status *packed_elements(const operand *o, int64_t *kept, int64_t *all)
{
    return mr_i64_mul(o->sizes[BATCH], o->sizes[OWN], kept) &&
                   mr_i64_mul(*kept, o->sizes[COMMON], kept) &&
                   mr_i64_mul(*kept, o->sizes[SUMMED], all)
               ? NULL
               : mr_invalid("Einsum: an input of shape %s repeats too often",
                            MR_TENSOR_SHAPE(o->t));
}

static mr_status *sum_last(mr_run *r, operand *o, int64_t kept)
{
    mr_dtype type = (mr_dtype)o->t->dtype;
    mr_tensor *sums;
    const mr_reducer *sum = mr_sum_reducer(type);
    MR_ENSURE(sum);
    MR_TRY(mr_run_temp(r, type, 1, &kept, &sums));
    mr_status *st = mr_reduce(r, sum, type, o->data, 2, (int64_t[]){kept, o->sizes[SUMMED]},
                              (bool[]){false, true}, sums->data);
    mr_tensor_unref(o->room);
    o->room = sums;
    o->data = sums->data;
    return st;
}

static mr_status *pack_operand(mr_run *r, const plan *p, operand *o)
{
    int64_t steps[MR_MAX_RANK], kept = 0, all = 0;
    MR_TRY(packed_elements(o, &kept, &all));
    for (int k = 0; k < o->n_order; k++)
        steps[k] = step_of(o->labels, o->t->rank, o->t->dims, p, o->order[k]);
    o->data = o->t->data;
    if (all > 0 && !is_packed(p, o->order, o->n_order, steps)) {
        mr_blit b;
        mr_blit_init(&b);
        MR_TRY(mr_run_temp(r, (mr_dtype)o->t->dtype, 1, &all, &o->room));
        int64_t to = all;
        for (int k = 0; k < o->n_order; k++)
            mr_blit_dim(&b, p->dims[o->order[k]], steps[k], to /= p->dims[o->order[k]]);
        MR_TRY(mr_blit_copy(r, &b, o->room, 0, o->t, 0));
        o->data = o->room->data;
    }
    return o->sizes[SUMMED] != 1 ? sum_last(r, o, kept) : NULL;
}

/* ---- the product ---- */

static int64_t matrix_at(void *ctx, int i, int64_t batch)
{
    const operand *o = &((plan *)ctx)->in[i];
    return batch * o->sizes[OWN] * o->sizes[COMMON];
}

/* C[batch, own of a, own of b] */
static mr_status *multiply_operands(mr_run *r, plan *p, void *c)
{
    const operand *a = &p->in[0], *b = &p->in[1];
    mr_gemm g = {.type = (mr_dtype)a->t->dtype, .m = a->sizes[OWN], .n = b->sizes[OWN],
                 .k = a->sizes[COMMON], .tb = true};
    int64_t n_batch = a->sizes[BATCH];
    return mr_gemm_run(r, &(mr_gemm_batch){.one = g, .n_batch = n_batch, .at = matrix_at, .ctx = p,
                                           .a = a->data, .b = b->data, .a_n = n_batch * g.m * g.k,
                                           .b_n = n_batch * g.n * g.k, .c = c});
}

/* The labels of the packed result, and the distance of a step of each in the output. */
static int result_order(const plan *p, const int64_t *out_dims, int *order, int64_t *steps)
{
    int n = 0;
    for (int i = 0; i < p->n_in; i++)
        for (int k = 0; k < p->in[i].n_order; k++) {
            int label = p->in[i].order[k], kind = kind_of(p, i, label);
            if (kind == OWN || (kind == BATCH && i == 0)) {
                order[n] = label;
                steps[n++] = step_of(p->out_labels, p->out_rank, out_dims, p, label);
            }
        }
    return n;
}

static mr_status *spread_result(mr_run *r, const plan *p, const int *order, int n, const int64_t *steps,
                                const mr_tensor *from, mr_tensor *out)
{
    mr_blit b;
    int64_t step = from->n;
    mr_blit_init(&b);
    for (int k = 0; k < n; k++)
        mr_blit_dim(&b, p->dims[order[k]], step /= p->dims[order[k]], steps[k]);
    if (from->n != out->n) /* elements outside a diagonal are 0 */
        MR_TRY(mr_move_fill(r, out, 0, (char[16]){0}, out->n));
    return mr_blit_copy(r, &b, out, 0, from, 0);
}

static mr_status *compute_result(mr_run *r, plan *p, mr_tensor *out)
{
    mr_status *st = NULL;
    int order[MR_MAX_RANK];
    int64_t steps[MR_MAX_RANK], elements = p->in[0].sizes[BATCH] * p->in[0].sizes[OWN];
    int n = result_order(p, out->dims, order, steps);
    mr_tensor *result = NULL;
    if (p->n_in == 2)
        elements *= p->in[1].sizes[OWN]; /* not more than the output has */
    bool direct = elements == out->n && is_packed(p, order, n, steps);
    if (!direct || p->n_in == 1)
        MR_GO(mr_run_temp(r, (mr_dtype)out->dtype, 1, &elements, &result));
    if (p->n_in == 2)
        MR_GO(multiply_operands(r, p, direct ? out->data : result->data));
    else
        memcpy(result->data, p->in[0].data, mr_tensor_bytes(result));
    if (result)
        MR_GO(spread_result(r, p, order, n, steps, result, out));
out:
    mr_tensor_unref(result);
    return st;
}

static mr_status *prepare_plan(mr_run *r, const mr_einsum_spec *spec, plan *p)
{
    p->n_in = spec->n_in;
    for (int i = 0; i < MR_EINSUM_LABELS; i++)
        p->dims[i] = -1;
    for (int i = 0; i < p->n_in; i++) {
        p->in[i].t = mr_in(r, i);
        MR_TRY(see_input(p, &spec->in[i], &p->in[i]));
    }
    MR_TRY(see_output(p, &spec->out));
    for (int i = 0; i < p->n_in; i++)
        order_labels(p, i, &p->in[i]);
    return NULL;
}

static mr_status *run_einsum(mr_run *r)
{
    mr_status *st = NULL;
    mr_tensor *out;
    int64_t dims[MR_MAX_RANK];
    plan *p = mr_scratch_zeroed(r, 1, sizeof(plan));
    if (!p)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for an Einsum");
    MR_GO(prepare_plan(r, r->state, p));
    for (int d = 0; d < p->out_rank; d++)
        dims[d] = p->dims[p->out_labels[d]];
    MR_GO(mr_run_output(r, 0, p->out_rank, dims, &out));
    if (out->n == 0)
        goto out;
    for (int i = 0; i < p->n_in; i++)
        MR_GO(pack_operand(r, p, &p->in[i]));
    MR_GO(compute_result(r, p, out));
out:
    mr_tensor_unref(p->in[0].room);
    mr_tensor_unref(p->in[1].room);
    mr_scratch_free(p);
    return st;
}

static mr_status *init_einsum(mr_make *m, void *state)
{
    mr_sv equation;
    MR_TRY(mr_node_get_str(m->node, "equation", &equation));
    return mr_einsum_parse(equation, m->node->n_in, state);
}

/* ---- shape ---- */

/* -1: unknown, -2: not seen yet. */
static mr_status *see_unknown(int64_t *have, int64_t dim, bool dots)
{
    if (*have == -2)
        *have = dim;
    else if (!dots)
        return mr_infer_merge_dim(*have, dim, have);
    else if (*have == 1 || dim == 1)
        *have = *have == 1 ? dim : *have;
    else if (dim >= 0 && *have >= 0)
        return mr_infer_merge_dim(*have, dim, have);
    else
        *have = MR_MAX(*have, dim);
    return NULL;
}

/* The output's shape from the sizes of its labels. */
static mr_status *output_shape(mr_infer *c, mr_sv equation, const mr_einsum_spec *spec, const int64_t *dims)
{
    int covered = 0, labels[MR_MAX_RANK];
    while (covered < MR_MAX_RANK && dims[MR_EINSUM_DOTS + covered] != -2)
        covered++;
    if (covered > 0 && spec->out.dots < 0)
        return mr_invalid("Shape must be at most rank 0 but is rank %d\n\t for einsum equation '%.*s' without ellipsis "
                          "(...) in the output subscripts where input(s) have non-empty broadcasting shape",
                          covered, MR_SV_ARG(equation));
    if (spec->out.n + covered > MR_MAX_RANK)
        return mr_invalid("Einsum: a result of rank %d is too much", spec->out.n + covered);
    mr_pshape *y = mr_pshape_new(c->arena, spec->out.n + covered);
    MR_TRY(mr_einsum_labels(&spec->out, spec->n_in, y->rank, labels));
    for (int d = 0; d < y->rank; d++)
        y->dims[d] = MR_MAX(dims[labels[d]], -1);
    c->out[0] = y;
    return NULL;
}

/* Infers the sizes of the labels as far as they are known; an input of unknown rank with an ellipsis leaves the
 * result's rank unknown. */
static mr_status *infer_einsum(mr_infer *c)
{
    mr_sv equation;
    const mr_pshape *ignored;
    mr_einsum_spec spec;
    int labels[MR_MAX_RANK];
    int64_t dims[MR_EINSUM_LABELS];
    bool open = false;
    MR_TRY(mr_node_get_str(c->node, "equation", &equation));
    MR_TRY(mr_einsum_parse(equation, c->n_in, &spec));
    for (int i = 0; i < MR_EINSUM_LABELS; i++)
        dims[i] = -2;
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i]->rank < 0) {
            open |= spec.in[i].dots >= 0;
            continue;
        }
        mr_status *st = spec.in[i].dots < 0 ? mr_infer_rank(c, c->in[i], spec.in[i].n, &ignored)
                                            : mr_infer_rank_at_least(c, c->in[i], spec.in[i].n, &ignored);
        if (st)
            return mr_status_append(st, "\n\t for %dth input and equation: %.*s", i, MR_SV_ARG(equation));
        MR_TRY(mr_einsum_labels(&spec.in[i], i, c->in[i]->rank, labels));
        for (int d = 0; d < c->in[i]->rank; d++)
            MR_TRY(see_unknown(&dims[labels[d]], c->in[i]->dims[d], labels[d] >= MR_EINSUM_DOTS));
    }
    return open && spec.out.dots >= 0 ? NULL : output_shape(c, equation, &spec, dims);
}

/* ---- gradient ---- */

static void add_letter(mr_einsum_term *t, int letter)
{
    for (int i = 0; i < t->n; i++)
        if (t->letters[i] == letter)
            return;
    t->letters[t->n++] = letter;
}

static bool has_letter(const mr_einsum_term *t, int letter)
{
    for (int i = 0; t && i < t->n; i++)
        if (t->letters[i] == letter)
            return true;
    return false;
}

static mr_out emit_einsum(mr_grad *g, const mr_einsum_term *a, const mr_einsum_term *b,
                          const mr_einsum_term *to, mr_out x, mr_out y)
{
    mr_str s = {0};
    mr_einsum_print(a, &s);
    if (b) {
        mr_str_append(&s, ",", 1);
        mr_einsum_print(b, &s);
    }
    mr_str_append(&s, "->", 2);
    mr_einsum_print(to, &s);
    mr_out in[] = {x, y};
    const mr_named_attr equation[] = {{"equation", mr_a_str(mr_str_z(&s))}};
    mr_out out = mr_emit_n(g->s, "Einsum", equation, 1, in, b ? 2 : 1);
    mr_str_deinit(&s);
    return out;
}

/* shape[from:to] of a tensor; to 0: to the end. */
static mr_out shape_part(mr_grad *g, mr_out shape_, int from, int to)
{
    mr_scope *s = g->s;
    return mr_emit_with(s, "StridedSlice", MR_ATTRS({"end_mask", mr_a_int(to ? 0 : 1)}), shape_,
                        mr_const_vec_i32(s, 1, (int32_t[]){from}),
                        mr_const_vec_i32(s, 1, (int32_t[]){to}),
                        mr_const_vec_i32(s, 1, (int32_t[]){1}));
}

/* Sums d, which begins with the dimensions of an ellipsis and has n more, over the dimensions that x broadcasts
 * under its own ellipsis; over all of them if x has no ellipsis. */
static mr_out sum_broadcast(mr_grad *g, const mr_einsum_term *x_term, mr_out x, mr_out d, int n)
{
    mr_scope *s = g->s;
    mr_out mine = x_term->dots < 0 ? mr_const_vec_i32(s, 0, NULL)
                                   : shape_part(g, mr_shape_of(g, x), x_term->dots, x_term->dots - x_term->n);
    mr_out shape_ = mr_shape_of(g, d), all = shape_part(g, shape_, 0, -n);
    mr_out axes = mr_nth(mr_emit(s, "BroadcastGradientArgs", all, mine), 1);
    mr_out wanted = mine;
    if (n > 0)
        wanted = mr_emit(s, "ConcatV2", mine, shape_part(g, shape_, -n, 0), mr_const_i32(s, 0));
    return mr_emit(s, "Reshape", mr_emit(s, "Sum", d, axes), wanted);
}

/* Ones for the labels that only x has and the output lacks. */
static mr_out ones_of(mr_grad *g, const mr_einsum_term *x_term, const mr_einsum_term *summed,
                      mr_out x)
{
    mr_scope *s = g->s;
    mr_out dims[MR_MAX_RANK], shape_ = mr_shape_of(g, x);
    for (int i = 0; i < summed->n; i++) {
        int at = 0;
        while (x_term->letters[at] != summed->letters[i])
            at++;
        if (x_term->dots >= 0 && at >= x_term->dots)
            at -= x_term->n;
        dims[i] = shape_part(g, shape_, at, at == -1 ? 0 : at + 1);
    }
    mr_out all = dims[0];
    if (summed->n > 1)
        all = mr_emit_lists(
            s, "ConcatV2", NULL, 0,
            (mr_emit_arg[]){{summed->n, dims}, {-1, (mr_out[]){mr_const_i32(s, 0)}}}, 2);
    return mr_emit(s, "Fill", all, mr_scalar_like(g, 1, x));
}

/* dx: dy times the other input, summed over the labels that x lacks, broadcast along those that only x has, and on
 * a diagonal where x was read along one. Einsum itself must not sum over an ellipsis, so the product keeps it and
 * the sum follows. */
static mr_out input_gradient(mr_grad *g, const mr_einsum_spec *spec, int i)
{
    const mr_einsum_term *mine = &spec->in[i], *other = spec->n_in == 2 ? &spec->in[1 - i] : NULL;
    mr_einsum_term kept = {0}, summed = {.dots = -1};
    bool dots = spec->out.dots >= 0 || (other && other->dots >= 0);
    kept.dots = dots ? 0 : -1;
    for (int k = 0; k < mine->n; k++)
        add_letter(has_letter(&spec->out, mine->letters[k]) || has_letter(other, mine->letters[k]) ? &kept
                                                                                     : &summed,
                   mine->letters[k]);
    mr_out x = mr_xi(g, i), dy = mr_dyi(g, 0), y = other ? mr_conj(g, mr_xi(g, 1 - i)) : MR_NO_OUT;
    mr_out d = emit_einsum(g, &spec->out, other, &kept, dy, y);
    if (dots && (other || mine->dots < 0))
        d = sum_broadcast(g, mine, x, d, kept.n);
    if (mine->dots < 0)
        kept.dots = -1;
    bool repeats = kept.n + summed.n < mine->n;
    if (summed.n > 0)
        return emit_einsum(g, &kept, &summed, mine, d, ones_of(g, mine, &summed, x));
    return repeats || mine->dots > 0 ? emit_einsum(g, &kept, NULL, mine, d, d) : d;
}

static void einsum_backward(mr_grad *g)
{
    mr_sv equation = {0};
    mr_einsum_spec spec;
    mr_scope_fail(g->s, mr_node_get_str(g->node, "equation", &equation));
    if (mr_scope_ok(g->s))
        mr_scope_fail(g->s, mr_einsum_parse(equation, g->node->n_in, &spec));
    for (int i = 0; mr_scope_ok(g->s) && i < spec.n_in; i++)
        mr_dxi(g, i, input_gradient(g, &spec, i));
}

#define TYPES(M, ...)                                                                \
    MR_FLOATS(M, __VA_ARGS__) MR_INDEXES(M, __VA_ARGS__) MR_TYPE_INT16(M, __VA_ARGS__) \
    MR_COMPLEXES(M, __VA_ARGS__)

MR_OP(Einsum,
    .doc      = "sums of products by Einstein's convention: labels that the output lacks are "
                "summed",
    .sig      = "inputs: N * T -> output: T",
    .attrs    = "equation: string; N: int >= 1; T: type",
    .shape    = infer_einsum,
    .grad     = einsum_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_einsum, TYPES)),
    .state_bytes = sizeof(mr_einsum_spec), .init = init_einsum,
    .examples = MR_EXAMPLES(
        "equation=\"ij,jk->ik\": ([[1, 2], [3, 4]], [[5, 6], [7, 8]]) -> [[19, 22], [43, 50]]",
        "equation=\"ij,jk->ki\": ([[1, 2], [3, 4]], [[5, 6], [7, 8]]) -> [[19, 43], [22, 50]]",
        "equation=\"ij->ji\": ([[1, 2, 3]]) -> [[1], [2], [3]]",
        "equation=\"ii->\": ([[1, 2], [3, 4]]) -> 5",
        "equation=\"ii->i\": ([[1, 2], [3, 4]]) -> [1, 4]",
        "equation=\"i->ii\": ([1, 2]) -> [[1, 0], [0, 2]]",
        "equation=\"ij->\": ([[1, 2], [3, 4]]) -> 10",
        "equation=\"ij->j\": ([[1, 2], [3, 4]]) -> [4, 6]",
        "equation=\"i,i->\": ([1, 2], [3, 4]) -> 11",
        "equation=\"i,j->ij\": ([1, 2], [3, 4]) -> [[3, 4], [6, 8]]",
        "equation=\"bij,bjk->bik\": ([[[1, 2]], [[3, 4]]], [[[1], [2]], [[3], [4]]]) -> [[[5]], "
        "[[25]]]",
        "equation=\"...ij,...jk->...ik\": ([[[1, 2]], [[3, 4]]], [[1], [2]]) -> [[[5]], [[11]]]",
        "equation=\"a...,a...->...a\": ([[1, 2]], [[3]]) -> [[3], [6]]",
        "equation=\"i,...i->...\": ([1, 2], [[1, 2], [3, 4], [5, 6]]) -> [5, 11, 17]",
        "equation=\"...->...\": ([[1, 2]]) -> [[1, 2]]", "equation=\",->\": (2, 3) -> 6",
        "equation=\"->\": (2) -> 2",
        "equation=\"iij,jk->ik\": ([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [[1], [2]]) -> [[5], "
        "[23]]",
        "equation=\"ij,kl->il\": ([[1, 2], [3, 4]], [[1, 2], [3, 4]]) -> [[12, 18], [28, 42]]",
        "equation=\"ij,j->i\": ([[1i, 2]], [3, 1i]) -> [5i]",
        "equation=\"...i->i\": ([1, 2]) -> [1, 2]", "equation=\"i...,...j->ij\": ([1, 2], [3]) -> [[3], [6]]",
        "equation=\"->...\": (5) -> 5", "equation=\"i->...i\": ([1, 2]) -> [1, 2]",
        "equation=\"ij,jk->i...k\": ([[1, 2]], [[3], [4]]) -> [[11]]",
        "equation=\"ij,jk->ik\": (shape(2,0), shape(0,3)) -> [[0, 0, 0], [0, 0, 0]]",
        "equation=\"ij,jk->ik\": (shape(0,2), shape(2,3)) -> shape(0,3)",
        "equation=\"ij,jk->ik\": ([[1, 2]], [[1, 2]]) -> !INVALID_ARGUMENT Dimensions must be equal, but are 2 and 1",
        "x = PlaceholderWithDefault dtype=$T shape=?: [[1, 2]]; equation=\"ij,jk->ik\": (x, x) -> !INVALID_ARGUMENT "
        "Expected dimension 2 at axis 0 of the input shaped [1,2] but got dimension 1",
        "x = PlaceholderWithDefault dtype=$T shape=?: [[1, 2]]; equation=\"ijk->ik\": (x) -> !INVALID_ARGUMENT "
        "Expected input 0 to have rank 3 but got: 2",
        "x = PlaceholderWithDefault dtype=$T shape=?: 1; equation=\"i...->i\": (x) -> !INVALID_ARGUMENT "
        "Expected input 0 to have rank at least 1 but got: 0",
        "x = PlaceholderWithDefault dtype=$T shape=?: [[1, 2]]; equation=\"...i->i\": (x) -> !INVALID_ARGUMENT "
        "Output contains 1 broadcasting dimension(s) but no ellipsis (...) was found in the output subscripts.",
        "x = PlaceholderWithDefault dtype=$T shape=?: [[1, 2], [3, 4]]; equation=\"...i,...j->...ij\": "
        "([[1], [2], [3]], x) -> !INVALID_ARGUMENT Invalid broadcasting dimensions: [3,1] vs. [2,2]",
        "equation=\"...i->i\": ([[1, 2]]) -> !INVALID_ARGUMENT for einsum equation '...i->i' without ellipsis (...) in "
        "the output subscripts where input(s) have non-empty broadcasting shape",
        "equation=\"ij\": ([[1]]) -> !INVALID_ARGUMENT Expecting exactly one '->' in einsum equation: ij",
        "equation=\"i->i->\": ([1]) -> !INVALID_ARGUMENT Expecting exactly one '->' in einsum equation: i->i->",
        "equation=\"i->j\": ([1]) -> !INVALID_ARGUMENT Einsum output subscripts for equation 'i->j' has label 'j' "
        "which is not present in the input subscripts",
        "equation=\"i->i\": ([1], [2]) -> !INVALID_ARGUMENT Expected 1 inputs for equation i->i but got: 2",
        "equation=\"i,i->i\": ([1]) -> !INVALID_ARGUMENT Expected 2 inputs for equation i,i->i but got: 1",
        "equation=\"ij->i\": ([1]) -> !INVALID_ARGUMENT Shape must be rank 2 but is rank 1",
        "equation=\"ij...->i\": ([1]) -> !INVALID_ARGUMENT for 0th input and equation: ij...->i",
        "equation=\"i..->i\": ([1]) -> !INVALID_ARGUMENT Expected at most one ellipsis (...), but found 2 periods (.) "
        "in the input subscript: i..",
        "equation=\".i..->i\": ([1]) -> !INVALID_ARGUMENT Periods found outside of ellipsis in subscript: .i..",
        "equation=\"1->1\": ([1]) -> !INVALID_ARGUMENT letters",
        "equation=\"i,i,i->\": ([1], [1], [1]) -> !INVALID_ARGUMENT Expecting 1 or 2 input subscripts in equation "
        "'i,i,i->' but got: 3",
        "equation=\"i,i->\": ([1], [1], [1]) -> !INVALID_ARGUMENT Expected either 1 or 2 inputs but got: 3"));
