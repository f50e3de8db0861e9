/* ops/io/checkpoint_v1.c -- Save, SaveSlices, Restore, RestoreSlice: checkpoints of the first format. */
#include "graph/infer.h"
#include "ops/io/name_input.h"
#include "ops/io/restore_v1.h"

/* ---- saving ---- */

static mr_status *check_names(const mr_run *r, int in, const char *what, int n)
{
    const mr_tensor *t = mr_in(r, in);
    if (t->rank == 1 && t->n == n)
        return NULL;
    return mr_invalid("Input %d (%s) must be a vector of %d strings, one per tensor, got shape %s", in,
                      what, n, MR_TENSOR_SHAPE(t));
}

static mr_status *save_one(mr_v1_writer *w, mr_sv name, mr_sv spec, const mr_tensor *t)
{
    mr_shape full = {.rank = t->rank}, part;
    mr_slice slice;
    for (int i = 0; i < t->rank; i++)
        full.dims[i] = t->dims[i];
    mr_slice_all(&slice, t->rank);
    if (spec.n == 0)
        return mr_v1_add(w, name, &full, &slice, t);
    MR_TRY(mr_shape_and_slice_parse(spec, &full, &slice, &part));
    if (!mr_shape_eq(part.rank, part.dims, t->rank, t->dims))
        return mr_invalid("Slice in shape_and_slice specification does not match the shape of the "
                          "tensor to save: %.*s, tensor: %s",
                          MR_SV_ARG(spec), MR_TENSOR_SHAPE(t));
    return mr_v1_add(w, name, &full, &slice, t);
}

/* specs: the input with the slices, or -1; the data begins at input `first`. */
static mr_status *save_all(mr_run *r, int specs, int first)
{
    int n = r->n_in - first;
    char *path = NULL;
    mr_v1_writer *w = NULL;
    mr_status *st = NULL;
    MR_GO(mr_in_path(r, 0, "Input 0 (filename)", &path));
    MR_GO(check_names(r, 1, "tensor_names", n));
    if (specs >= 0)
        MR_GO(check_names(r, specs, "shapes_and_slices", n));
    MR_GO(mr_v1_writer_new(path, &w));
    for (int i = 0; i < n; i++) {
        mr_sv spec = specs < 0 ? MR_SV("") : mr_tensor_str_at(mr_in(r, specs), i);
        MR_GO(save_one(w, mr_tensor_str_at(mr_in(r, 1), i), spec, mr_in(r, first + i)));
    }
    MR_GO(mr_v1_finish(w));
out:
    mr_v1_writer_free(w);
    mr_free(path);
    return st;
}

static mr_status *run_save(mr_run *r) { return save_all(r, -1, 2); }
static mr_status *save_slices(mr_run *r) { return save_all(r, 2, 3); }

static mr_status *save_shape(mr_infer *c)
{
    const mr_pshape *vector;
    /* there are as many tensors as names, and as slices */
    int first = mr_node_is(c->node, "SaveSlices") ? 3 : 2;
    MR_TRY(mr_infer_rank(c, c->in[0], 0, &vector));
    for (int i = 1; i < first; i++) {
        MR_TRY(mr_infer_rank(c, c->in[i], 1, &vector));
        MR_TRY(mr_infer_dim_is(vector->dims[0], c->n_in - first));
    }
    return NULL;
}

MR_OP(Save,
    .doc      = "writes tensors to a checkpoint of the first format; use SaveV2",
    .sig      = "filename: string, tensor_names: string, data: T ->",
    .attrs    = "T: list(type) >= 1",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = save_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_save)),
    .examples = MR_EXAMPLES(
        "T=[float]: \"/nowhere/at/all\", [\"a\"], (float[1]) -> !NOT_FOUND /nowhere/at/all",
        "T=[float]: \"/nowhere/at/all\", [\"a\", \"b\"], (float[1]) -> !INVALID_ARGUMENT "
        "Dimension must be 1 but is 2",
        "T=[float]: [\"a\"], [\"a\"], (float 1) -> !INVALID_ARGUMENT must be rank 0"));

MR_OP(SaveSlices,
    .doc      = "writes tensors, or parts of them, to a checkpoint of the first format; use SaveV2",
    .sig      = "filename: string, tensor_names: string, shapes_and_slices: string, data: T ->",
    .attrs    = "T: list(type) >= 1",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = save_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(save_slices)),
    .examples = MR_EXAMPLES(
        "T=[float]: \"/nowhere/at/all\", [\"a\"], [\"2 0,1\"], (float[1]) -> !NOT_FOUND /nowhere",
        "T=[float]: \"/nowhere/at/all\", [\"a\"], [\"\", \"\"], (float[1]) -> !INVALID_ARGUMENT "
        "Dimension must be 1 but is 2"));

/* ---- restoring ---- */

mr_status *mr_restore_v1(mr_run *r, int i, mr_v1_reader *from, mr_sv name, mr_sv spec)
{
    mr_dtype dtype, want = mr_out_dtype(r, i);
    const mr_shape *saved;
    mr_shape full, part;
    mr_slice slice;
    mr_tensor *t;
    if (!mr_v1_lookup(from, name, &dtype, &saved))
        return mr_error(MR_NOT_FOUND, "Tensor name \"%.*s\" not found in checkpoint files",
                        MR_SV_ARG(name));
    if (dtype != want)
        return mr_invalid("Expected to restore a tensor of type %s, got a tensor of type %s instead: "
                          "tensor_name = %.*s",
                          mr_dtype_name(want), mr_dtype_name(dtype), MR_SV_ARG(name));
    if (spec.n > 0) {
        MR_TRY(mr_shape_and_slice_parse(spec, &full, &slice, &part));
        if (!mr_shape_eq(full.rank, full.dims, saved->rank, saved->dims))
            return mr_invalid("Shape in shape_and_slice spec does not match the shape in the save file: "
                              "%s, save file shape: %s",
                              MR_SHAPE_TEXT(full.rank, full.dims),
                              MR_SHAPE_TEXT(saved->rank, saved->dims));
    }
    MR_TRY(mr_v1_read(from, name, spec.n > 0 ? &slice : NULL, mr_run_allocator(r), &t));
    mr_run_set(r, i, t);
    return NULL;
}

static mr_status *restore_one(mr_run *r, bool slices)
{
    mr_sv pattern = MR_SV(""), name = MR_SV(""), spec = MR_SV("");
    mr_v1_reader *from;
    MR_TRY(mr_in_scalar_str(r, 0, "Input 0 (file_pattern)", &pattern));
    MR_TRY(mr_in_scalar_str(r, 1, "Input 1 (tensor_name)", &name));
    if (slices)
        MR_TRY(mr_in_scalar_str(r, 2, "Input 2 (shape_and_slice)", &spec));
    MR_TRY(mr_v1_open(pattern, &from));
    mr_status *st = mr_restore_v1(r, 0, from, name, spec);
    mr_v1_close(from);
    return st;
}

static mr_status *run_restore(mr_run *r) { return restore_one(r, false); }
static mr_status *restore_slice(mr_run *r) { return restore_one(r, true); }

static mr_status *restore_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    mr_shape full, part;
    mr_slice slice;
    for (int i = 0; i < c->n_in; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 0, &ignored));
    const mr_tensor *spec = c->n_in > 2 ? mr_infer_const(c, 2) : NULL;
    if (!spec || spec->n != 1 || mr_tensor_str_at(spec, 0).n == 0)
        return NULL;
    MR_TRY(mr_shape_and_slice_parse(mr_tensor_str_at(spec, 0), &full, &slice, &part));
    c->out[0] = mr_pshape_of(c->arena, part.rank, part.dims);
    return NULL;
}

#define NOWHERE "!NOT_FOUND Failed to find any matching files for /nowhere/at/all"

MR_OP(Restore,
    .doc      = "reads a tensor from a checkpoint of the first format; use RestoreV2",
    .sig      = "file_pattern: string, tensor_name: string -> tensor: dt",
    .attrs    = "dt: type; preferred_shard: int = -1",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = restore_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_restore)),
    .examples = MR_EXAMPLES("dt=float: \"/nowhere/at/all\", \"a\" -> " NOWHERE,
                            "dt=float: [\"a\"], \"a\" -> !INVALID_ARGUMENT must be rank 0"));

MR_OP(RestoreSlice,
    .doc      = "reads a part of a tensor from a checkpoint of the first format; use RestoreV2",
    .sig      = "file_pattern: string, tensor_name: string, shape_and_slice: string -> tensor: dt",
    .attrs    = "dt: type; preferred_shard: int = -1",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = restore_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(restore_slice)),
    .examples = MR_EXAMPLES("dt=float: \"/nowhere/at/all\", \"a\", \"\" -> " NOWHERE,
                            "dt=float: \"/nowhere/at/all\", \"a\", \"4 2,2\" -> " NOWHERE,
                            "dt=float: \"a\", \"a\", \"4 x,2\" -> !INVALID_ARGUMENT Expected a pair of "
                            "numbers"));
