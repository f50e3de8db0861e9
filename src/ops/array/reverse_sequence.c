/* ops/array/reverse_sequence.c -- ReverseSequence: reverses the first elements of each sequence in a batch. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"

typedef struct dims_of {
    int64_t seq, batch;
} dims_of;

static mr_status *init_reverse_sequence(mr_make *m, void *p)
{
    dims_of *s = p;
    MR_TRY(mr_node_get_int(m->node, "seq_dim", &s->seq));
    return mr_node_get_int(m->node, "batch_dim", &s->batch);
}

static mr_status *check_dims(int64_t seq, int64_t batch, int rank)
{
    if (seq < 0 || seq >= rank)
        return mr_invalid("seq_dim must be < input rank ( %lld vs. %d)", (long long)seq, rank);
    if (batch < 0 || batch >= rank)
        return mr_invalid("batch_dim must be < input rank ( %lld vs. %d)", (long long)batch, rank);
    return batch != seq ? NULL : mr_invalid("batch_dim == seq_dim == %lld", (long long)seq);
}

static mr_status *check_lengths(const mr_tensor *x, const mr_tensor *lengths, const dims_of *s)
{
    if (lengths->rank != 1)
        return mr_invalid("seq_lengths must be 1-dim, not %d", lengths->rank);
    MR_TRY(check_dims(s->seq, s->batch, x->rank));
    if (lengths->n != x->dims[s->batch])
        return mr_invalid("Length of seq_lengths != input.dims(%lld), (%lld vs. %lld)",
                          (long long)s->batch, (long long)lengths->n, (long long)x->dims[s->batch]);
    for (int64_t i = 0; i < lengths->n; i++) {
        int64_t n = mr_tensor_int_at(lengths, i);
        if (n < 0 || n > x->dims[s->seq])
            return mr_invalid("seq_lens(%lld) = %lld is not in [0, input.dims(%lld)]", (long long)i,
                              (long long)n, (long long)s->seq);
    }
    return NULL;
}

/* Copies n elements of one batch's sequences from `at` on, forwards or backwards. */
static mr_status *move_part(mr_run *r, const mr_tensor *x, mr_tensor *out, const dims_of *s,
                            int64_t batch, int64_t at, int64_t n, bool back)
{
    int64_t strides[MR_MAX_RANK], to, from;
    mr_blit b;
    mr_dims_strides(x->rank, x->dims, strides);
    mr_blit_init(&b);
    for (int d = 0; d < x->rank; d++)
        if (d == s->seq)
            mr_blit_dim(&b, n, back ? -strides[d] : strides[d], strides[d]);
        else if (d != s->batch)
            mr_blit_dim(&b, x->dims[d], strides[d], strides[d]);
    if (b.empty)
        return NULL;
    to = batch * strides[s->batch] + at * strides[s->seq];
    from = to + (back ? (n - 1) * strides[s->seq] : 0);
    return mr_blit_copy(r, &b, out, to, x, from);
}

static mr_status *run_reverse_sequence(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *lengths = mr_in(r, 1);
    const dims_of *s = r->state;
    mr_tensor *out;
    MR_TRY(check_lengths(x, lengths, s));
    MR_TRY(mr_run_output(r, 0, x->rank, x->dims, &out));
    if (x->n == 0)
        return NULL;
    for (int64_t i = 0; i < lengths->n; i++) {
        int64_t n = mr_tensor_int_at(lengths, i);
        MR_TRY(move_part(r, x, out, s, i, 0, n, true));
        MR_TRY(move_part(r, x, out, s, i, n, x->dims[s->seq] - n, false));
    }
    return NULL;
}

static mr_status *reverse_sequence_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0], *lengths = NULL;
    int64_t seq, batch, n;
    MR_TRY(mr_node_get_int(c->node, "seq_dim", &seq));
    MR_TRY(mr_node_get_int(c->node, "batch_dim", &batch));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &lengths));
    if (x->rank < 0)
        return NULL;
    MR_TRY(check_dims(seq, batch, x->rank));
    MR_TRY(mr_infer_merge_dim(x->dims[batch], lengths->dims[0], &n));
    c->out[0] = mr_pshape_with(c->arena, x, (int)batch, n);
    return NULL;
}

static void reverse_sequence_backward(mr_grad *g)
{
    mr_dxi(g, 0,
           mr_emit_like(g, "ReverseSequence", "seq_dim batch_dim",
                        (mr_out[]){mr_dyi(g, 0), mr_xi(g, 1)}, 2));
}

MR_OP(ReverseSequence,
    .doc      = "of each batch the first seq_lengths[i] elements along seq_dim backwards, the rest as it is",
    .sig      = "input: T, seq_lengths: Tlen -> output: T",
    .attrs    = "seq_dim: int; batch_dim: int = 0; T: type; Tlen: {int32, int64} = DT_INT64",
    .key      = "T",
    .shape    = reverse_sequence_shape,
    .grad     = reverse_sequence_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_reverse_sequence)),
    .state_bytes = sizeof(dims_of), .init = init_reverse_sequence,
    .examples = MR_EXAMPLES(
        "seq_dim=1: [[1, 2, 3], [4, 5, 6]], [2, 3] -> [[2, 1, 3], [6, 5, 4]]",
        "seq_dim=0 batch_dim=1 Tlen=int32: [[1, 2], [3, 4], [5, 6]], [0, 3] -> [[1, 6], [3, 4], [5, 2]]",
        "seq_dim=2 batch_dim=0: iota(1,2,3), [2] -> [[[1, 0, 2], [4, 3, 5]]]",
        "seq_dim=1: [[\"a\", \"b\"]], [2] -> [[\"b\", \"a\"]]", "seq_dim=1: shape(0,2), shape(0) -> shape(0,2)",
        "seq_dim=1: [[1, 2]], [3] -> !INVALID_ARGUMENT seq_lens(0) = 3",
        "seq_dim=1: [[1, 2]], [1, 1] -> !INVALID_ARGUMENT must be equal",
        "seq_dim=0: [[1, 2]], [1] -> !INVALID_ARGUMENT batch_dim == seq_dim == 0",
        "seq_dim=2: [[1, 2]], [1] -> !INVALID_ARGUMENT seq_dim must be < input rank"));
