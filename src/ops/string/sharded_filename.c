/* ops/string/sharded_filename.c -- ShardedFilename: the name of one shard of a sharded file. */
#include "graph/infer.h"
#include "run/run.h"

static mr_status *run_sharded_filename(mr_run *r)
{
    const mr_tensor *base = mr_in(r, 0);
    int64_t shard, n_shards;
    mr_tensor *out;
    mr_str name = {0};
    if (base->rank != 0)
        return mr_invalid("basename must be a scalar, got shape %s", MR_TENSOR_SHAPE(base));
    MR_TRY(mr_in_scalar_int(r, 1, "shard", &shard));
    MR_TRY(mr_in_scalar_int(r, 2, "num_shards", &n_shards));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    mr_sv b = mr_tensor_str_at(base, 0);
    mr_str_append(&name, b.p, b.n);
    mr_str_printf(&name, "-%05d-of-%05d", (int)shard, (int)n_shards);
    mr_status *st = mr_tensor_set_str(out, 0, mr_str_view(&name));
    mr_str_deinit(&name);
    return st;
}

static mr_status *three_scalars(mr_infer *c)
{
    const mr_pshape *ignored;
    for (int i = 0; i < c->n_in; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 0, &ignored));
    mr_infer_out_scalar(c, 0);
    return NULL;
}

MR_OP(ShardedFilename,
    .doc      = "basename-00003-of-00010",
    .sig      = "basename: string, shard: int32, num_shards: int32 -> filename: string",
    .flags    = MR_NO_GRADIENT,
    .shape    = three_scalars,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_sharded_filename)),
    .examples = MR_EXAMPLES(
        "\"model\", 3, 10 -> \"model-00003-of-00010\"", "\"\", 0, 1 -> \"-00000-of-00001\"",
        "\"m\", 123456, 1234567 -> \"m-123456-of-1234567\"",
        "[\"m\"], 0, 1 -> !INVALID_ARGUMENT must be rank 0"));
