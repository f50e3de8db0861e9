/* passes/fuse.c -- the passes that replace several nodes by one, in their order, and what they share.
 *
 * Fusing comes after merging equal nodes (cse), so that no fused node computes what another one does, and before
 * partitioning, so that placement by cost can simulate the same graph. A pass that knows more about its nodes comes
 * before one that knows less: what is left then goes to the most general one. */
#include "passes/fuse.h"

bool mr_fuse_on_cpu(const mr_prepare_options *o, const mr_node *n)
{
    if (!n->placed)
        return false;
    for (int i = 0; i < o->n_devices; i++) {
        const mr_device *d = o->devices[i];
        if (strcmp(d->name, n->placed) == 0)
            return strcmp(d->type->name, mr_device_cpu.name) == 0 && !d->accel && !d->type->start;
    }
    return false;
}

mr_node *mr_fuse_sole_consumer(const mr_node *n)
{
    return n->uses.n == 1 && n->uses.p[0].input >= 0 ? n->uses.p[0].node : NULL;
}

void mr_fuse_move_controls(mr_node *from, mr_node *to)
{
    for (int i = from->uses.n - 1; i >= 0; i--)
        if (from->uses.p[i].input < 0) {
            mr_node *user = from->uses.p[i].node;
            mr_node_remove_control(user, from);
            mr_node_add_control(user, to);
        }
}

mr_status *mr_fuse(mr_graph *g, const mr_prepare_options *o)
{
    if (o->no_fuse)
        return NULL;
    MR_TRY(mr_fuse_transpose(g, o));
    MR_TRY(mr_fuse_gelu(g, o));
    MR_TRY(mr_fuse_conv(g, o));
    MR_TRY(mr_fuse_elementwise(g, o));
    return mr_fuse_updates(g, o);
}
