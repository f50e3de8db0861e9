/* ops/array/check_numerics.c -- CheckNumerics: NaN and infinity are errors.
 *
 * Infinities and NaNs have all exponent bits set. The first pass looks only for that, with integer operations,
 * which vectorises; the second pass finds out which of the two occurred. */
#include "base/simd.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

enum { SAW_INF = 1, SAW_NAN = 2 };

typedef struct check {
    const mr_tensor *t;
    int saw; /* atomic */
} check;

/* BITS: the unsigned type of the same size, EXP: the exponent's bits. */
#define LOOK(name, BITS, EXP)                                              \
    static int look_##name(const void *data, int64_t begin, int64_t end)   \
    {                                                                      \
        const BITS *v = data;                                              \
        bool bad = false;                                                  \
        int saw = 0;                                                       \
        for (int64_t i = begin; i < end; i++)                              \
            bad |= (v[i] & EXP) == EXP;                                    \
        for (int64_t i = begin; bad && i < end; i++)                       \
            if ((v[i] & EXP) == EXP)                                       \
                saw |= (v[i] & (EXP - 1) & ~EXP) ? SAW_NAN : SAW_INF;      \
        return saw;                                                        \
    }
LOOK(half, uint16_t, 0x7c00)
LOOK(bfloat16, uint16_t, 0x7f80)
LOOK(float, uint32_t, 0x7f800000u)
LOOK(double, uint64_t, 0x7ff0000000000000u)

static void look_at_range(void *ctx, int64_t begin, int64_t end)
{
    check *c = ctx;
    int saw;
    switch (c->t->dtype) {
    case MR_HALF: saw = look_half(c->t->data, begin, end); break;
    case MR_BFLOAT16: saw = look_bfloat16(c->t->data, begin, end); break;
    case MR_FLOAT: saw = look_float(c->t->data, begin, end); break;
    default: saw = look_double(c->t->data, begin, end); break;
    }
    if (saw)
        __atomic_fetch_or(&c->saw, saw, __ATOMIC_RELAXED);
}

static mr_status *check_numerics(mr_run *r)
{
    static const char *const names[] = {"", "Inf", "NaN", "Inf and NaN"};
    check c = {mr_in(r, 0), 0};
    mr_sv message;
    mr_run_for(r, c.t->n, 0.3, look_at_range, &c);
    if (c.saw) {
        MR_TRY(mr_node_get_str(r->node, "message", &message));
        return mr_invalid("%.*s : Tensor had %s values", MR_SV_ARG(message), names[c.saw]);
    }
    mr_run_pass(r, 0, 0);
    return NULL;
}

static void check_numerics_backward(mr_grad *g)
{
    mr_sv message = MR_SV("");
    mr_status_free(mr_node_get_str(g->node, "message", &message));
    char *text = mr_printf("Not a number (NaN) or infinity (Inf) values detected in gradient. %.*s",
                           MR_SV_ARG(message));
    mr_dxi(
        g, 0,
        mr_emit_with(g->s, "CheckNumerics", MR_ATTRS({"message", mr_a_str(text)}), mr_dyi(g, 0)));
    mr_free(text);
}

MR_OP(CheckNumerics,
    .doc      = "its input; an error if an element is infinite or not a number",
    .sig      = "tensor: T -> output: T",
    .attrs    = "T: {bfloat16, half, float, double}; message: string",
    .flags    = MR_STATEFUL,
    .shape    = mr_shape_same,
    .grad     = check_numerics_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(check_numerics, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "message=\"m\": [1, -2] -> [1, -2]", "message=\"m\": shape(0) -> shape(0)",
        "message=\"m\": [1, nan] -> !INVALID_ARGUMENT m : Tensor had NaN values",
        "message=\"m\": [[-inf]] -> !INVALID_ARGUMENT m : Tensor had Inf values",
        "message=\"m\": [inf, nan] -> !INVALID_ARGUMENT m : Tensor had Inf and NaN values"));
