/* ops/array/print.c -- ops that print values: Assert, Print. */
#include <stdio.h>

#include "base/thread.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

/* ---- Assert ---- */

static mr_status *assertion_failed(mr_run *r)
{
    int64_t limit;
    mr_str text = {0};
    MR_TRY(mr_node_get_int(r->node, "summarize", &limit));
    for (int i = 1; i < r->n_in; i++) {
        mr_str_appendz(&text, i > 1 ? " [" : "[");
        mr_tensor_summarize(mr_in(r, i), limit, &text);
        mr_str_appendc(&text, ']');
    }
    mr_status *st = mr_invalid("assertion failed: %s", mr_str_z(&text));
    mr_str_deinit(&text);
    return st;
}

static mr_status *run_assert(mr_run *r)
{
    bool holds;
    MR_TRY(mr_in_scalar_bool(r, 0, "condition", &holds));
    return holds ? NULL : assertion_failed(r);
}

static mr_status *assert_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    return mr_infer_rank(c, c->in[0], 0, &ignored);
}

MR_OP(Assert,
    .doc      = "fails with the data in its message if the condition is false",
    .sig      = "condition: bool, data: T ->",
    .attrs    = "T: list(type) >= 1; summarize: int = 3",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = assert_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_assert)),
    .examples = MR_EXAMPLES(
        "true, (\"x\") ->",
        "false, (\"x must be\", [1, 2]) -> !INVALID_ARGUMENT assertion failed: [x must be] [1 2]",
        "summarize=2: false, (int32[1, 2, 3]) -> !INVALID_ARGUMENT assertion failed: [1 2...]",
        "[true], (\"x\") -> !INVALID_ARGUMENT must be rank 0"));

/* ---- Print ---- */

typedef struct printer {
    int64_t first_n, summarize;
    int64_t printed; /* atomic; runs of this kernel so far, up to the limit */
} printer;

static mr_status *print_init(mr_make *m, void *state)
{
    printer *p = state;
    MR_TRY(mr_node_get_int(m->node, "first_n", &p->first_n));
    return mr_node_get_int(m->node, "summarize", &p->summarize);
}

/* Each line is one write, so that lines of several threads do not mix. */
static mr_status *print_line(mr_run *r)
{
    const printer *p = r->state;
    mr_str line = {0};
    mr_sv message;
    MR_TRY(mr_node_get_str(r->node, "message", &message));
    mr_str_append(&line, message.p, message.n);
    for (int i = 1; i < r->n_in; i++) {
        mr_str_appendc(&line, '[');
        mr_tensor_summarize(mr_in(r, i), p->summarize, &line);
        mr_str_appendc(&line, ']');
    }
    mr_str_appendc(&line, '\n');
    fwrite(line.p, 1, line.n, stderr);
    mr_str_deinit(&line);
    return NULL;
}

static mr_status *run_print(mr_run *r)
{
    printer *p = r->state;
    bool due = p->first_n < 0;
    if (!due && __atomic_load_n(&p->printed, __ATOMIC_RELAXED) < p->first_n)
        due = __atomic_fetch_add(&p->printed, 1, __ATOMIC_RELAXED) < p->first_n;
    if (due)
        MR_TRY(print_line(r));
    mr_run_pass(r, 0, 0);
    return NULL;
}

static void print_backward(mr_grad *g) { mr_dxi(g, 0, mr_dyi(g, 0)); }

MR_OP(Print,
    .doc         = "its input; writes a line with the data to stderr",
    .sig         = "input: T, data: U -> output: T",
    .attrs       = "T: type; U: list(type) >= 0; message: string = \"\"; first_n: int = -1; "
                   "summarize: int = 3",
    .flags       = MR_STATEFUL,
    .shape       = mr_shape_same,
    .grad        = print_backward,
    .state_bytes = sizeof(printer),
    .init        = print_init,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_print)),
    .examples    = MR_EXAMPLES(
        "first_n=0: [1, 0], ([1, 2], \"a\") -> [1, 0]", "first_n=0: 1, () -> 1"));
