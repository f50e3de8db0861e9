/* ops/control/merge.c -- Merge passes its first live input through.
 *
 * The executor starts a Merge when one input has arrived and sets no other, so the kernel only finds out which one
 * it is. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

/* The possible values of value_index, created once: almost nobody reads it, so it must cost nothing. */
typedef struct indexes {
    int n;
    mr_tensor **t;
} indexes;

static mr_status *merge_init(mr_make *m, void *state)
{
    indexes *s = state;
    if (!(s->t = mr_try_calloc((size_t)m->node->n_in, sizeof(mr_tensor *))))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %d inputs", m->node->n_in);
    for (; s->n < m->node->n_in; s->n++) {
        MR_TRY(mr_tensor_new(NULL, MR_INT32, 0, NULL, &s->t[s->n]));
        *MR_DATA(int32_t, s->t[s->n]) = s->n;
        s->t[s->n]->readonly = true;
    }
    return NULL;
}

static void merge_deinit(void *state)
{
    indexes *s = state;
    for (int i = 0; i < s->n; i++)
        mr_tensor_unref(s->t[i]);
    mr_free(s->t);
}

static mr_status *run_merge(mr_run *r)
{
    const indexes *s = r->state;
    for (int i = 0; i < r->n_in; i++) {
        if (r->in[i].kind != MR_LIVE && r->in[i].kind != MR_REF)
            continue;
        mr_run_pass(r, i, 0);
        mr_run_set(r, 1, mr_tensor_ref(s->t[i]));
        return NULL;
    }
    mr_run_set_dead(r, 0);
    mr_run_set_dead(r, 1);
    return NULL;
}

/* Infers what holds for every input, because any of them may arrive. */
static mr_status *merge_shape(mr_infer *c)
{
    const mr_pshape *s = c->in[0];
    for (int i = 1; i < c->n_in; i++)
        s = mr_pshape_relax(c->arena, s, c->in[i]);
    c->out[0] = s;
    mr_infer_out_scalar(c, 1);
    return NULL;
}

MR_OP(Merge,
    .doc         = "forwards the first live input and tells which one it was",
    .sig         = "inputs: N * T -> output: T, value_index: int32",
    .attrs       = "T: type; N: int >= 1",
    .flags       = MR_CHEAP | MR_NO_FOLD | MR_HOST_ONLY,
    .shape       = merge_shape,
    .state_bytes = sizeof(indexes),
    .init        = merge_init,
    .deinit      = merge_deinit,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_merge)),
    .examples    = MR_EXAMPLES("([1, 2], [3, 4]) -> [1, 2], 0"));

MR_OP(RefMerge,
    .doc         = "Merge for references",
    .sig         = "inputs: Ref(N * T) -> output: Ref(T), value_index: int32",
    .attrs       = "T: type; N: int >= 1",
    .flags       = MR_CHEAP | MR_NO_FOLD | MR_HOST_ONLY,
    .shape       = merge_shape,
    .state_bytes = sizeof(indexes),
    .init        = merge_init,
    .deinit      = merge_deinit,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_merge)));
