/* ops/io/checkpoint.c -- SaveV2, RestoreV2, MergeV2Checkpoints, on the bundles of store/. */
#include "graph/infer.h"
#include "run/run.h"
#include "base/file.h"
#include "ops/io/restore_v1.h"
#include "store/bundle.h"

/* ---- inputs that all three ops have ---- */

static mr_status *prefix_of(const mr_run *r, int i, char **out)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->n != 1)
        return mr_invalid("Input %d (the prefix) must be a scalar string, got shape %s", i, MR_TENSOR_SHAPE(t));
    mr_sv s = mr_tensor_str_at(t, 0);
    *out = mr_strndup(s.p, s.n);
    return NULL;
}

static mr_status *check_names(const mr_run *r, int n)
{
    for (int i = 1; i <= 2; i++) {
        const mr_tensor *t = mr_in(r, i);
        if (t->rank != 1 || t->n != n)
            return mr_invalid("%s must be a vector of %d strings, one per tensor, got shape %s",
                              i == 1 ? "tensor_names" : "shape_and_slices", n, MR_TENSOR_SHAPE(t));
    }
    return NULL;
}

/* ---- saving ---- */

static mr_status *save_one(mr_bundle_writer *w, mr_sv name, mr_sv spec, const mr_tensor *t)
{
    mr_shape full, part;
    mr_slice slice;
    if (spec.n == 0)
        return mr_bundle_add(w, name, t);
    MR_TRY(mr_shape_and_slice_parse(spec, &full, &slice, &part));
    if (!mr_shape_eq(part.rank, part.dims, t->rank, t->dims))
        return mr_invalid("Slice in shape_and_slice specification does not match the shape of the tensor to save: %.*s, "
                          "tensor: %s",
                          MR_SV_ARG(spec), MR_TENSOR_SHAPE(t));
    return mr_bundle_add_slice(w, name, &full, &slice, t);
}

static mr_status *run_save(mr_run *r)
{
    mr_status *st = NULL;
    char *prefix = NULL;
    mr_bundle_writer *w = NULL;
    int n = r->n_in - 3;
    MR_GO(prefix_of(r, 0, &prefix));
    MR_GO(check_names(r, n));
    MR_GO(mr_bundle_writer_new(prefix, &w));
    for (int i = 0; i < n; i++)
        MR_GO(save_one(w, mr_tensor_str_at(mr_in(r, 1), i), mr_tensor_str_at(mr_in(r, 2), i), mr_in(r, 3 + i)));
    MR_GO(mr_bundle_finish(w));
out:
    mr_bundle_writer_free(w);
    mr_free(prefix);
    return st;
}

static mr_status *save_shape(mr_infer *c)
{
    const mr_pshape *s;
    MR_TRY(mr_infer_rank(c, c->in[0], 0, &s));
    for (int i = 1; i <= 2; i++) {
        MR_TRY(mr_infer_rank(c, c->in[i], 1, &s));
        MR_TRY(mr_infer_dim_is(s->dims[0], c->n_in - 3));
    }
    return NULL;
}

MR_OP(SaveV2,
    .doc      = "writes tensors to a checkpoint",
    .sig      = "prefix: string, tensor_names: string, shape_and_slices: string, tensors: dtypes ->",
    .attrs    = "dtypes: list(type) >= 1",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = save_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_save)),
    .examples = MR_EXAMPLES("dtypes=[float]: \"/nowhere/at/all\", [\"a\", \"b\"], [\"\", \"\"], (float[1]) -> "
                            "!INVALID_ARGUMENT Dimension must be 1 but is 2",
                            "n = PlaceholderWithDefault dtype=string shape=?: string[\"a\", \"b\"]; dtypes=[float]: "
                            "\"/nowhere/at/all\", n, [\"\"], (float[1]) -> !INVALID_ARGUMENT tensor_names must be a "
                            "vector of 1"));

/* ---- restoring ---- */

static mr_status *restore_one(mr_run *r, mr_bundle *b, int i)
{
    mr_sv name = mr_tensor_str_at(mr_in(r, 1), i), spec = mr_tensor_str_at(mr_in(r, 2), i);
    mr_bundle_entry *e = mr_new(mr_bundle_entry);
    mr_tensor *t = NULL;
    mr_status *st = NULL;
    MR_GO(mr_bundle_lookup(b, name, e));
    if (e->dtype != mr_out_dtype(r, i))
        MR_GO(mr_invalid("tensor_name = %.*s; expected dtype %s does not equal original dtype %s", MR_SV_ARG(name),
                         mr_dtype_name(mr_out_dtype(r, i)), mr_dtype_name(e->dtype)));
    if (spec.n == 0) {
        MR_GO(mr_bundle_read(b, name, mr_run_allocator(r), &t));
    } else {
        mr_shape full, part;
        mr_slice slice;
        MR_GO(mr_shape_and_slice_parse(spec, &full, &slice, &part));
        if (!mr_shape_eq(full.rank, full.dims, e->shape.rank, e->shape.dims))
            MR_GO(mr_invalid("tensor_name = %.*s; shape in shape_and_slice spec %s does not match the shape stored in "
                             "checkpoint: %s",
                             MR_SV_ARG(name), MR_SHAPE_TEXT(full.rank, full.dims),
                             MR_SHAPE_TEXT(e->shape.rank, e->shape.dims)));
        MR_GO(mr_bundle_read_slice(b, name, &slice, mr_run_allocator(r), &t));
    }
    mr_run_set(r, i, t);
out:
    mr_free(e);
    return st;
}

/* Without an index file it may be a checkpoint of the first format. */
static mr_status *restore_v1(mr_run *r, const char *prefix)
{
    mr_v1_reader *v1 = NULL;
    mr_status *st = NULL;
    MR_GO(mr_v1_open(mr_sv_of(prefix), &v1));
    for (int i = 0; i < r->n_out; i++)
        MR_GO(mr_restore_v1(r, i, v1, mr_tensor_str_at(mr_in(r, 1), i), mr_tensor_str_at(mr_in(r, 2), i)));
out:
    mr_v1_close(v1);
    return st;
}

static mr_status *run_restore(mr_run *r)
{
    mr_status *st = NULL;
    char *prefix = NULL;
    mr_bundle *b = NULL;
    MR_GO(prefix_of(r, 0, &prefix));
    MR_GO(check_names(r, r->n_out));
    if (!mr_bundle_exists(prefix)) {
        st = restore_v1(r, prefix);
        goto out;
    }
    MR_GO(mr_bundle_open(prefix, &b));
    for (int i = 0; i < r->n_out; i++)
        MR_GO(restore_one(r, b, i));
out:
    mr_bundle_close(b);
    mr_free(prefix);
    return st;
}

/* There must be as many slices as names; slices that are known when the graph is built determine the shapes. */
static mr_status *restore_shape(mr_infer *c)
{
    const mr_pshape *ignored, *names, *slices;
    MR_TRY(mr_infer_rank(c, c->in[0], 0, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &names));
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &slices));
    MR_TRY(mr_infer_merge(c, names, slices, &ignored));
    const mr_tensor *specs = mr_infer_const(c, 2);
    if (specs && specs->n != c->n_out)
        return mr_invalid("The number of shape_and_slice doesn't match tensor outputs.");
    for (int i = 0; specs && i < c->n_out; i++) {
        mr_sv spec = mr_tensor_str_at(specs, i);
        mr_shape full, part;
        mr_slice slice;
        if (spec.n == 0)
            continue;
        MR_TRY(mr_shape_and_slice_parse(spec, &full, &slice, &part));
        c->out[i] = mr_pshape_of(c->arena, part.rank, part.dims);
    }
    return NULL;
}

MR_OP(RestoreV2,
    .doc      = "reads tensors from a checkpoint, of either format",
    .sig      = "prefix: string, tensor_names: string, shape_and_slices: string -> tensors: dtypes",
    .attrs    = "dtypes: list(type) >= 1",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = restore_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_restore)),
    .examples = MR_EXAMPLES("dtypes=[float]: \"/nowhere/at/all\", [\"a\"], [\"\"] -> "
                            "!NOT_FOUND Failed to find any matching files for /nowhere/at/all",
                            "dtypes=[float]: \"f\", [\"a\", \"b\"], [\"\"] -> !INVALID_ARGUMENT Dimension 0 in both "
                            "shapes must be equal, but are 2 and 1",
                            "dtypes=[float]: \"f\", [\"a\", \"b\"], [\"\", \"\"] -> !INVALID_ARGUMENT The number of "
                            "shape_and_slice doesn't match tensor outputs.",
                            "dtypes=[float]: [\"f\"], [\"a\"], [\"\"] -> !INVALID_ARGUMENT Shape must be rank 0 but "
                            "is rank 1"));

/* ---- merging ---- */

/* Removes the directories of the parts, if they are empty. */
static void remove_folders(const mr_tensor *prefixes)
{
    for (int64_t i = 0; i < prefixes->n; i++) {
        mr_sv s = mr_tensor_str_at(prefixes, i);
        char *p = mr_strndup(s.p, s.n);
        mr_sv dir = mr_path_dirname(p);
        char *d = mr_strndup(dir.p, dir.n);
        mr_status_free(mr_dir_remove(d)); /* not empty, or removed with an earlier part */
        mr_free(d);
        mr_free(p);
    }
}

static mr_status *run_merge(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0);
    bool delete_dirs;
    char *to = NULL;
    char **from = mr_new_array(char *, in->n + 1);
    mr_status *st = NULL;
    MR_GO(mr_node_get_bool(r->node, "delete_old_dirs", &delete_dirs));
    if (in->rank != 1)
        MR_GO(mr_invalid("checkpoint_prefixes must be a vector, got shape %s", MR_TENSOR_SHAPE(in)));
    MR_GO(prefix_of(r, 1, &to));
    for (int64_t i = 0; i < in->n; i++) {
        mr_sv s = mr_tensor_str_at(in, i);
        from[i] = mr_strndup(s.p, s.n);
    }
    MR_GO(mr_bundle_merge((const char *const *)from, (int)in->n, to));
    if (delete_dirs)
        remove_folders(in);
out:
    for (int64_t i = 0; i < in->n; i++)
        mr_free(from[i]);
    mr_free(from);
    mr_free(to);
    return st;
}

static mr_status *merge_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &ignored));
    return mr_infer_rank(c, c->in[1], 0, &ignored);
}

MR_OP(MergeV2Checkpoints,
    .doc      = "makes one checkpoint of several; their files are moved",
    .sig      = "checkpoint_prefixes: string, destination_prefix: string ->",
    .attrs    = "delete_old_dirs: bool = true",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = merge_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_merge)),
    .examples = MR_EXAMPLES("\"a\", \"b\" -> !INVALID_ARGUMENT Shape must be rank 1 but is rank 0",
                            "[\"/nowhere/at/all\"], \"/nowhere/else\" -> !NOT_FOUND /nowhere/at/all.index"));
