/* run/fused.c -- which nodes can be members of a fused node. */
#include "run/fused.h"

static bool is_plain(int type) { return !mr_dtype_is_ref(type) && mr_dtype_is_plain((mr_dtype)type); }

mr_each_form mr_fused_form(const mr_node *n)
{
    if (n->n_out != 1 || n->n_in < 1 || n->n_in > MR_FUSED_MAX_INPUTS || !n->def->op || (n->def->flags & MR_STATEFUL) ||
        !is_plain(n->out_types[0]))
        return MR_FORM_NONE;
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i].node || !is_plain(n->in_types[i]) || mr_dtype_is_ref(mr_out_type(n->in[i])))
            return MR_FORM_NONE;
    const mr_kernel *k = mr_kernel_find(n, mr_device_cpu.name);
    if (!k || !k->run || k->blocks || (n->def->flags & MR_BLOCKS))
        return MR_FORM_NONE;
    if (k->form == MR_FORM_CAST && !mr_dtype_convert((mr_dtype)n->in_types[0], NULL, (mr_dtype)n->out_types[0], NULL, 0, false))
        return MR_FORM_NONE;
    return k->form;
}
