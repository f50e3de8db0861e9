/* ops/string/string_join.c -- StringJoin: joins strings element by element. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

/* An input with the common shape of all inputs that are not scalars; NULL if all are scalars. */
static mr_status *joined_shape(mr_run *r, const mr_tensor **out)
{
    *out = NULL;
    for (int i = 0; i < r->n_in; i++) {
        const mr_tensor *t = mr_in(r, i);
        if (t->rank == 0)
            continue;
        if (*out && !mr_tensor_same_shape(*out, t))
            return mr_invalid("Input shapes do not match: %s vs. %s", MR_TENSOR_SHAPE(*out),
                              MR_TENSOR_SHAPE(t));
        *out = t;
    }
    return NULL;
}

/* Joins element i of the result in s; false if there is no memory. */
static bool join_element(const mr_run *r, int64_t i, mr_sv separator, mr_str *s)
{
    mr_str_clear(s);
    for (int k = 0; k < r->n_in; k++) {
        const mr_tensor *t = mr_in(r, k);
        mr_sv part = mr_tensor_str_at(t, t->rank == 0 ? 0 : i);
        if (k > 0 && !mr_str_try_append(s, separator.p, separator.n))
            return false;
        if (!mr_str_try_append(s, part.p, part.n))
            return false;
    }
    return true;
}

static mr_status *run_join(mr_run *r)
{
    const mr_tensor *like = NULL;
    mr_sv separator;
    mr_tensor *out;
    mr_str s = {0};
    mr_status *st = NULL;
    MR_TRY(joined_shape(r, &like));
    MR_TRY(mr_node_get_str(r->node, "separator", &separator));
    MR_TRY(mr_run_output(r, 0, like ? like->rank : 0, like ? like->dims : NULL, &out));
    for (int64_t i = 0; i < out->n && !st; i++)
        st = join_element(r, i, separator, &s)
                 ? mr_tensor_set_str(out, i, mr_str_view(&s))
                 : mr_error(MR_RESOURCE_EXHAUSTED, "no memory to join strings");
    mr_str_deinit(&s);
    return st;
}

static mr_status *join_shape(mr_infer *c)
{
    const mr_pshape *s = &mr_pshape_unknown;
    bool all_scalar = true, all_ranks = true;
    for (int i = 0; i < c->n_in; i++) {
        all_ranks = all_ranks && c->in[i]->rank >= 0;
        if (c->in[i]->rank == 0)
            continue;
        all_scalar = false;
        if (c->in[i]->rank > 0)
            MR_TRY(mr_infer_merge(c, s, c->in[i], &s));
    }
    /* An input of unknown rank may be a scalar, so it adds no information; the shape of the others
     * still holds. */
    c->out[0] = all_scalar && all_ranks ? &mr_pshape_scalar : s;
    return NULL;
}

MR_OP(StringJoin,
    .doc      = "joins strings element by element; scalars are repeated",
    .sig      = "inputs: N * string -> output: string",
    .attrs    = "N: int >= 1; separator: string = \"\"",
    .flags    = MR_NO_GRADIENT,
    .shape    = join_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_join)),
    .examples = MR_EXAMPLES(
        "([\"a\", \"b\"], [\"c\", \"d\"]) -> [\"ac\", \"bd\"]",
        "separator=\", \": (\"x\", [\"a\", \"b\"], \"y\") -> [\"x, a, y\", \"x, b, y\"]",
        "(\"a\") -> \"a\"", "(\"a\", \"b\") -> \"ab\"",
        "(string shape(0), \"a\") -> string shape(0)",
        "([\"a\"], [\"b\", \"c\"]) -> !INVALID_ARGUMENT must be equal",
        "x = PlaceholderWithDefault dtype=string shape=?: string[\"a\"]; : ([\"b\", \"c\"], x) -> "
        "!INVALID_ARGUMENT Input shapes do not match: [2] vs. [1]"));
