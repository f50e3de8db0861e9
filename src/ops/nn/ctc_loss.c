/* ops/nn/ctc_loss.c -- CTCLoss and CTCLossV2: the negative log probability of a sequence of labels, if
 * every time step emits one class or a blank independently, and repeated classes count once.
 *
 * This computes Graves' forward and backward variables (alpha and beta) in logarithms, over the labels
 * with blanks around each (2 U + 1 of them), and the gradient by the inputs, which are logits.  The
 * blank is the last class, in V2 the first.  All arithmetic is in double. */
#include <math.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "run/scratch.h"

typedef struct state {
    bool collapse, merge, ignore_longer;
    bool blank_first;
} state;

enum { INPUTS, INDICES, VALUES, LENGTHS };

static mr_status *init_ctc_loss(mr_make *m, void *state_)
{
    state *s = state_;
    s->blank_first = strcmp(m->node->def->name, "CTCLossV2") == 0;
    MR_TRY(mr_node_get_bool(m->node, "preprocess_collapse_repeated", &s->collapse));
    MR_TRY(mr_node_get_bool(m->node, "ctc_merge_repeated", &s->merge));
    return mr_node_get_bool(m->node, "ignore_longer_outputs_than_inputs", &s->ignore_longer);
}

/* ---- the labels of a batch ---- */

/* Sequence b is labels[begin[b]] up to begin[b + 1]. */
typedef struct batch {
    const state *s;
    mr_run *r;
    const mr_tensor *x; /* [time, batch, classes] */
    mr_tensor *loss, *grad;
    int64_t time, n, classes, blank;
    int64_t *begin;
    const int32_t *labels, *lengths;
    atomic_bool no_memory;
} batch;

static mr_status *check_shapes(const mr_run *r)
{
    const mr_tensor *x = mr_in(r, INPUTS), *i = mr_in(r, INDICES), *v = mr_in(r, VALUES);
    const mr_tensor *lengths = mr_in(r, LENGTHS);
    if (x->rank != 3)
        return mr_invalid("inputs is not a 3-Tensor");
    if (x->n == 0)
        return mr_invalid("inputs must not be empty");
    if (lengths->rank != 1)
        return mr_invalid("sequence_length is not a vector");
    if (i->rank != 2 || i->dims[1] != 2)
        return mr_invalid("labels_indices is not a matrix of two columns: %s", MR_TENSOR_SHAPE(i));
    if (v->rank != 1 || v->dims[0] != i->dims[0])
        return mr_invalid("labels_indices and labels_values must contain the same number of rows, "
                          "but saw shapes: %s vs. %s", MR_TENSOR_SHAPE(i), MR_TENSOR_SHAPE(v));
    if (lengths->dims[0] != x->dims[1])
        return mr_invalid("len(sequence_length) != batch_size. len(sequence_length): %lld "
                          "batch_size: %lld", (long long)lengths->dims[0], (long long)x->dims[1]);
    for (int64_t b = 0; b < lengths->n; b++) {
        int32_t n = MR_DATA(int32_t, lengths)[b];
        if (n < 0 || n > x->dims[0])
            return mr_invalid("sequence_length(%lld) must be between 0 and %lld, got %d",
                              (long long)b, (long long)x->dims[0], n);
    }
    return NULL;
}

/* Checks that the rows of labels_indices are in order and inside the batch, and fills begin. */
static mr_status *split_labels(batch *q)
{
    const mr_tensor *indices = mr_in(q->r, INDICES);
    const int64_t *at = MR_DATA(int64_t, indices);
    int64_t n = indices->dims[0], b = 0;
    q->begin = mr_scratch(q->r, sizeof(int64_t) * (size_t)(q->n + 1));
    if (!q->begin)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld sequences", (long long)q->n);
    q->begin[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (at[2 * i] < 0 || at[2 * i] >= q->n)
            return mr_invalid("labels batch index must be between 0 and %lld but saw: %lld",
                              (long long)q->n, (long long)at[2 * i]);
        bool ordered = i == 0 || at[2 * i] > at[2 * i - 2] ||
                       (at[2 * i] == at[2 * i - 2] && at[2 * i + 1] > at[2 * i - 1]);
        if (!ordered || at[2 * i + 1] < 0)
            return mr_invalid("indices[%lld] = [%lld,%lld] is out of order or out of bounds",
                              (long long)i, (long long)at[2 * i], (long long)at[2 * i + 1]);
        while (b < at[2 * i])
            q->begin[++b] = i;
    }
    while (b < q->n)
        q->begin[++b] = n;
    return NULL;
}

/* Copies the labels of sequence b that count to out, which has room for all of them, and sets *n to their
 * number. */
static mr_status *clean_labels(const batch *q, int64_t b, int32_t *out, int64_t *n)
{
    const int32_t *labels = q->labels + q->begin[b];
    int64_t count = q->begin[b + 1] - q->begin[b];
    bool ended = false;
    *n = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t v = labels[i];
        if (i > 0 && q->s->collapse && v == labels[i - 1])
            continue;
        bool null = q->s->blank_first ? v == 0 : v >= q->classes - 1;
        if (v < 0)
            return mr_invalid("All labels must be nonnegative integers, batch: %lld label: %d",
                              (long long)b, v);
        if (v >= q->classes && q->s->blank_first)
            return mr_invalid("No label may be greater than num_classes. num_classes: %lld, batch: "
                              "%lld label: %d", (long long)q->classes, (long long)b, v);
        if (!null && ended)
            return mr_invalid("Saw a non-null label (index >= num_classes - 1) following a null "
                              "label, batch: %lld num_classes: %lld", (long long)b,
                              (long long)q->classes);
        ended |= null;
        if (!null)
            out[(*n)++] = v;
    }
    return NULL;
}

static mr_status *check_labels(const batch *q)
{
    mr_status *st = NULL;
    int32_t *room = mr_scratch(q->r, sizeof(int32_t) * (size_t)(q->begin[q->n] + 1));
    if (!room)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for labels");
    for (int64_t b = 0; b < q->n && !st; b++) {
        int64_t n, given = q->begin[b + 1] - q->begin[b];
        st = given == 0 ? mr_invalid("Labels length is zero in batch %lld", (long long)b)
                        : clean_labels(q, b, room, &n);
        if (!st && !q->s->ignore_longer && given > q->lengths[b])
            st = mr_invalid("Not enough time for target transition sequence (required: %lld, "
                            "available: %d)%lldYou can turn this error into a warning by using the "
                            "flag ignore_longer_outputs_than_inputs", (long long)given,
                            q->lengths[b], (long long)b);
    }
    mr_scratch_free(room);
    return st;
}

/* ---- one sequence ---- */

typedef struct lattice {
    int64_t n_u, n_t;  /* labels with blanks; time steps */
    int32_t *u;        /* their classes */
    double *log_y;     /* [time, classes] */
    double *alpha, *beta; /* [time, labels] */
    bool merge;
    int32_t blank;
} lattice;

static double log_add(double a, double b)
{
    if (a == -INFINITY || b == -INFINITY)
        return a == -INFINITY ? b : a;
    return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

static double log_y(const lattice *l, const batch *q, int64_t t, int64_t u)
{
    return l->log_y[t * q->classes + l->u[u]];
}

/* From t to t + 1 a path may stay at label u, go to the next, or skip a blank to the one after it.  The
 * skip between u and `other` is allowed if u is not a blank and, when merging, the two labels differ. */
static bool may_skip(const lattice *l, int64_t u, int64_t other)
{
    return l->u[u] != l->blank && !(l->merge && l->u[u] == l->u[other]);
}

/* The labels [first_u, last_u) at time t that can be reached from the start and from which a path can
 * still reach the end. */
static int64_t first_u(const lattice *l, int64_t t) { return MR_MAX(0, l->n_u - 2 * (l->n_t - t)); }
static int64_t last_u(const lattice *l, int64_t t) { return MR_MIN(l->n_u, 2 * (t + 1)); }

/* Whether to stop because the step was cancelled.  The incomplete result is not used then. */
static bool given_up(const batch *q, int64_t t)
{
    return t % 256 == 0 && q->r->step->cancel && mr_cancel_started(q->r->step->cancel);
}

static void compute_alpha(const lattice *l, const batch *q)
{
    for (int64_t i = 0; i < l->n_t * l->n_u; i++)
        l->alpha[i] = -INFINITY;
    l->alpha[0] = log_y(l, q, 0, 0);
    if (l->n_u > 1)
        l->alpha[1] = log_y(l, q, 0, 1);
    for (int64_t t = 1; t < l->n_t && !given_up(q, t); t++) {
        const double *before = l->alpha + (t - 1) * l->n_u;
        for (int64_t u = first_u(l, t); u < last_u(l, t); u++) {
            double sum = l->merge || l->u[u] == l->blank ? before[u] : -INFINITY;
            if (u > 0)
                sum = log_add(sum, before[u - 1]);
            if (u > 1 && may_skip(l, u, u - 2))
                sum = log_add(sum, before[u - 2]);
            l->alpha[t * l->n_u + u] = sum + log_y(l, q, t, u);
        }
    }
}

static void compute_beta(const lattice *l, const batch *q)
{
    for (int64_t i = 0; i < l->n_t * l->n_u; i++)
        l->beta[i] = -INFINITY;
    for (int64_t u = MR_MAX(0, l->n_u - 2); u < l->n_u; u++)
        l->beta[(l->n_t - 1) * l->n_u + u] = 0;
    for (int64_t t = l->n_t - 2; t >= 0 && !given_up(q, t); t--) {
        const double *after = l->beta + (t + 1) * l->n_u;
        for (int64_t u = first_u(l, t); u < last_u(l, t); u++) {
            double sum = -INFINITY;
            if (l->merge || l->u[u] == l->blank)
                sum = after[u] + log_y(l, q, t + 1, u);
            if (u + 1 < l->n_u)
                sum = log_add(sum, after[u + 1] + log_y(l, q, t + 1, u + 1));
            if (u + 2 < l->n_u && may_skip(l, u, u + 2))
                sum = log_add(sum, after[u + 2] + log_y(l, q, t + 1, u + 2));
            l->beta[t * l->n_u + u] = sum;
        }
    }
}

/* The log softmax of the inputs at time t. */
static void log_softmax_row(const batch *q, int64_t b, int64_t t, double *row)
{
    int64_t at = (t * q->n + b) * q->classes;
    size_t bytes = mr_dtype_size((mr_dtype)q->x->dtype);
    mr_dtype_convert((mr_dtype)q->x->dtype, (const char *)q->x->data + (size_t)at * bytes,
                     MR_DOUBLE, row, q->classes, false);
    double top = row[0], sum = 0;
    for (int64_t c = 1; c < q->classes; c++)
        top = row[c] > top ? row[c] : top;
    for (int64_t c = 0; c < q->classes; c++)
        sum += exp(row[c] - top);
    for (int64_t c = 0; c < q->classes; c++)
        row[c] -= top + log(sum);
}

static void store_number(mr_tensor *t, int64_t i, double v)
{
    if (t->dtype == MR_DOUBLE)
        MR_DATA(double, t)[i] = v;
    else
        MR_DATA(float, t)[i] = (float)v;
}

/* The gradient is y - p: the probability of a class at time t minus the share of the paths that go through
 * it.  `sums` has room for all classes. */
static void store_gradient(const lattice *l, const batch *q, int64_t b, double log_p, double *sums)
{
    for (int64_t t = 0; t < l->n_t; t++) {
        for (int64_t c = 0; c < q->classes; c++)
            sums[c] = -INFINITY;
        for (int64_t u = 0; u < l->n_u; u++)
            sums[l->u[u]] =
                log_add(sums[l->u[u]], l->alpha[t * l->n_u + u] + l->beta[t * l->n_u + u]);
        for (int64_t c = 0; c < q->classes; c++) {
            double own = exp(l->log_y[t * q->classes + c]);
            double paths = log_p == -INFINITY ? 0 : exp(sums[c] - log_p); /* no path: the gradient is y */
            store_number(q->grad, (t * q->n + b) * q->classes + c, own - paths);
        }
    }
}

static void solve_lattice(lattice *l, const batch *q, int64_t b, double *sums)
{
    double log_p = -INFINITY;
    for (int64_t t = 0; t < l->n_t; t++)
        log_softmax_row(q, b, t, l->log_y + t * q->classes);
    compute_alpha(l, q);
    compute_beta(l, q);
    for (int64_t u = 0; u < l->n_u; u++)
        log_p = log_add(log_p, l->alpha[u] + l->beta[u]);
    store_number(q->loss, b, -log_p);
    store_gradient(l, q, b, log_p, sums);
}

/* Fills l->u with the n labels, and blanks before, between and after them. */
static void add_blanks(lattice *l, const int32_t *labels, int64_t n)
{
    l->n_u = 2 * n + 1;
    for (int64_t i = 0; i < n; i++)
        l->u[2 * i + 1] = labels[i];
    for (int64_t i = 0; i <= n; i++)
        l->u[2 * i] = l->blank;
}

static bool solve_sequence(batch *q, int64_t b)
{
    int64_t given = q->begin[b + 1] - q->begin[b], n;
    lattice l = {.n_t = q->lengths[b], .merge = q->s->merge, .blank = (int32_t)q->blank};
    if (l.n_t == 0 || (q->s->ignore_longer && given > l.n_t))
        return true; /* loss and gradient stay 0 */
    size_t cells, rows = (size_t)(l.n_t * q->classes);
    if (!mr_size_mul((size_t)l.n_t * sizeof(double), (size_t)(2 * given + 1), &cells))
        return false;
    int32_t *labels = mr_scratch(q->r, sizeof(int32_t) * (size_t)given);
    double *sums = mr_scratch(q->r, sizeof(double) * (size_t)q->classes);
    l.u = mr_scratch(q->r, sizeof(int32_t) * (size_t)(2 * given + 1));
    l.log_y = mr_scratch(q->r, sizeof(double) * rows);
    l.alpha = mr_scratch(q->r, cells);
    l.beta = mr_scratch(q->r, cells);
    bool made = labels && sums && l.u && l.log_y && l.alpha && l.beta;
    if (made) {
        mr_status_free(clean_labels(q, b, labels, &n)); /* cannot fail: the labels were checked before */
        add_blanks(&l, labels, n);
        solve_lattice(&l, q, b, sums);
    }
    void *all[] = {labels, sums, l.u, l.log_y, l.alpha, l.beta};
    for (int i = 0; i < MR_COUNT(all); i++)
        mr_scratch_free(all[i]);
    return made;
}

static void solve_sequences(void *ctx, int64_t begin, int64_t end)
{
    batch *q = ctx;
    for (int64_t b = begin; b < end; b++)
        if (!solve_sequence(q, b))
            q->no_memory = true;
}

static mr_status *ctc_loss(mr_run *r)
{
    mr_status *st = NULL;
    const mr_tensor *x = mr_in(r, INPUTS);
    batch q = {.s = r->state, .r = r, .x = x, .labels = mr_in(r, VALUES)->data,
               .lengths = mr_in(r, LENGTHS)->data};
    MR_TRY(check_shapes(r));
    q.time = x->dims[0];
    q.n = x->dims[1];
    q.classes = x->dims[2];
    q.blank = q.s->blank_first ? 0 : q.classes - 1;
    if (q.classes > INT32_MAX)
        return mr_invalid("num_classes cannot exceed max int");
    MR_GO(split_labels(&q));
    MR_GO(check_labels(&q));
    MR_GO(mr_run_output(r, 0, 1, &q.n, &q.loss));
    MR_GO(mr_run_output(r, 1, 3, x->dims, &q.grad));
    mr_tensor_zero(q.loss);
    mr_tensor_zero(q.grad);
    mr_run_for(r, q.n, 100.0 * (double)(q.time * q.classes), solve_sequences, &q);
    if (given_up(&q, 0))
        st = mr_error(MR_CANCELLED, "the loss was cancelled");
    else if (q.no_memory)
        st = mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the paths of a sequence");
out:
    mr_scratch_free(q.begin);
    return st;
}

/* ---- shapes and gradient ---- */

static mr_status *infer_ctc_loss(mr_infer *c)
{
    const mr_pshape *x, *i, *v, *n;
    int64_t ignored, batch_size;
    MR_TRY(mr_infer_rank(c, c->in[INPUTS], 3, &x));
    MR_TRY(mr_infer_rank(c, c->in[INDICES], 2, &i));
    MR_TRY(mr_infer_rank(c, c->in[VALUES], 1, &v));
    MR_TRY(mr_infer_rank(c, c->in[LENGTHS], 1, &n));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(i, 0), mr_infer_dim(v, 0), &ignored));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(x, 1), mr_infer_dim(n, 0), &batch_size));
    mr_infer_out_vector(c, 0, batch_size);
    c->out[1] = x;
    return NULL;
}

/* The op computes its gradient as an output.  That output has no derivative, so there is no second order. */
static void ctc_loss_grad(mr_grad *g)
{
    static const char message[] = "Currently there is no way to take the second  derivative of "
                                  "ctc_loss due to the fused implementation's interaction with "
                                  "tf.gradients()";
    mr_out own = mr_emit_with(g->s, "PreventGradient", MR_ATTRS({"message", mr_a_str(message)}),
                              mr_yi(g, 1));
    mr_out dy = mr_emit(g->s, "ExpandDims", mr_dyi(g, 0), mr_const_i32(g->s, -1));
    mr_dxi(g, 0, mr_emit(g->s, "Mul", dy, own));
}

#define ATTRS                                                                            \
    "preprocess_collapse_repeated: bool = false; ctc_merge_repeated: bool = true; "      \
    "ignore_longer_outputs_than_inputs: bool = false"
#define STATE .state_bytes = sizeof(state), .init = init_ctc_loss

MR_OP(CTCLoss,
    .doc      = "minus the log probability of sequences of labels, and its gradient by the logits "
                "[time, batch, classes]; the last class is the blank",
    .sig      = "inputs: T, labels_indices: int64, labels_values: int32, sequence_length: int32 -> "
                "loss: T, gradient: T",
    .attrs    = ATTRS "; T: {float, double} = DT_FLOAT",
    .shape    = infer_ctc_loss,
    .grad     = ctc_loss_grad,
    .kernels  = MR_KERNELS(MR_CPU_ONE(ctc_loss, MR_FLOATS32)),
    STATE,
    .examples = MR_EXAMPLES(
        /* one step and one label of three classes: the loss is that of a softmax */
        "[[[0, 1, 2]]], [[0, 0]], [1], [1] -> [1.4076060], [[[0.0900306, -0.7552715, 0.6652410]]]",
        /* a, then a or a blank: e.g. aa, a-, -a */
        "[[[0, 0]], [[0, 0]]], [[0, 0]], [0], [2] -> [0.2876821], [[[-0.1666667, 0.1666667]], "
        "[[-0.1666667, 0.1666667]]]",
        "ctc_merge_repeated=false: [[[0, 0]], [[0, 0]]], [[0, 0]], [0], [2] -> [0.6931472], "
        "shape(2,1,2)",
        "[[[1, 0, 0.5], [0, 2, 0]], [[0, 1, 0], [1, 0, 0]], [[0.5, 0, 1], [0, 0, 1]]], "
        "[[0, 0], [0, 1], [1, 0]], [0, 1, 1], [3, 2] -> shape(2), shape(3,2,3)",
        "preprocess_collapse_repeated=true: [[[0, 0]], [[0, 0]]], [[0, 0], [0, 1]], [0, 0], [2] -> "
        "[0.2876821], shape(2,1,2)",
        "ignore_longer_outputs_than_inputs=true: [[[0, 0, 0]]], [[0, 0], [0, 1]], [0, 1], [1] -> "
        "[0], [[[0, 0, 0]]]",
        "[[[0, 0, 0]]], [[0, 0], [0, 1]], [0, 1], [1] -> !INVALID_ARGUMENT Not enough time for "
        "target transition sequence (required: 2, available: 1)",
        "[[[0, 0, 0]]], [[0, 0]], [-1], [1] -> !INVALID_ARGUMENT All labels must be nonnegative",
        "[[[0, 0, 0]]], [[1, 0]], [1], [1] -> !INVALID_ARGUMENT labels batch index must be between",
        "[[[0, 0, 0]]], int64 shape(0,2), int32 shape(0), [1] -> !INVALID_ARGUMENT Labels length "
        "is zero in batch 0",
        "[[[0, 0, 0]]], [[0, 0]], [1], [2] -> !INVALID_ARGUMENT sequence_length(0)",
        "[[[0, 0, 0]], [[0, 0, 0]]], [[0, 0], [0, 1]], [2, 1], [2] -> !INVALID_ARGUMENT Saw a "
        "non-null label",
        "[[[0, 0, 0]], [[0, 0, 0]]], [[0, 1], [0, 0]], [0, 1], [2] -> !INVALID_ARGUMENT out of "
        "order",
        "shape(0,1,2), [[0, 0]], [0], [0] -> !INVALID_ARGUMENT inputs must not be empty"));

MR_OP(CTCLossV2,
    .doc      = "CTCLoss with the first class as the blank",
    .sig      = "inputs: float, labels_indices: int64, labels_values: int32, sequence_length: "
                "int32 -> loss: float, gradient: float",
    .attrs    = ATTRS,
    .shape    = infer_ctc_loss,
    .grad     = ctc_loss_grad,
    .kernels  = MR_KERNELS(MR_CPU_ANY(ctc_loss)),
    STATE,
    .examples = MR_EXAMPLES(
        "[[[0, 1, 2]]], [[0, 0]], [1], [1] -> [1.4076060], [[[0.0900306, -0.7552715, 0.6652410]]]",
        "[[[0, 0]], [[0, 0]]], [[0, 0]], [1], [2] -> [0.2876821], [[[0.1666667, -0.1666667]], "
        "[[0.1666667, -0.1666667]]]",
        "[[[0, 0, 0]]], [[0, 0]], [3], [1] -> !INVALID_ARGUMENT No label may be greater"));
