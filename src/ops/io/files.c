/* ops/io/files.c -- ReadFile, WriteFile, MatchingFiles, ShardedFilespec. */
#include "base/file.h"
#include "graph/infer.h"
#include "ops/io/name_input.h"
#include "store/matching.h"

static mr_status *infer_scalars(mr_infer *c)
{
    const mr_pshape *ignored;
    for (int i = 0; i < c->n_in; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 0, &ignored));
    return mr_shape_scalar(c);
}

/* ---- ReadFile, WriteFile ---- */

static mr_status *read_file(mr_run *r)
{
    char *path = NULL;
    mr_str s = {0};
    mr_tensor *out;
    mr_status *st = NULL;
    MR_GO(mr_in_path(r, 0, "Input filename tensor", &path));
    MR_GO(mr_file_read_all(path, &s));
    MR_GO(mr_run_output(r, 0, 0, NULL, &out));
    MR_GO(mr_tensor_set_str(out, 0, mr_str_view(&s)));
out:
    mr_str_deinit(&s);
    mr_free(path);
    return st;
}

MR_OP(ReadFile,
    .doc      = "the contents of a file",
    .sig      = "filename: string -> contents: string",
    .flags    = MR_BLOCKS | MR_NO_GRADIENT | MR_NO_FOLD, /* a file can change */
    .shape    = infer_scalars,
    .kernels  = MR_KERNELS(MR_CPU_ANY(read_file)),
    .examples = MR_EXAMPLES("\"/dev/null\" -> \"\"",
                            "\"/nowhere/at/all\" -> !NOT_FOUND /nowhere/at/all",
                            "[\"a\"] -> !INVALID_ARGUMENT must be rank 0"));

static mr_status *make_folder_of(const char *path)
{
    mr_sv dir = mr_path_dirname(path);
    if (dir.n == 0)
        return NULL;
    char *d = mr_strndup(dir.p, dir.n);
    mr_status *st = mr_dir_exists(d) ? NULL : mr_dir_make(d);
    mr_free(d);
    return st;
}

static mr_status *write_file(mr_run *r)
{
    char *path = NULL;
    mr_writer *w = NULL;
    mr_sv contents = MR_SV("");
    mr_status *st = NULL;
    MR_GO(mr_in_path(r, 0, "Input filename tensor", &path));
    MR_GO(mr_in_scalar_str(r, 1, "Contents tensor", &contents));
    MR_GO(make_folder_of(path));
    MR_GO(mr_writer_open(path, &w));
    MR_GO(mr_writer_write(w, contents.p, contents.n));
    MR_GO(mr_writer_commit(w));
out:
    mr_writer_free(w);
    mr_free(path);
    return st;
}

MR_OP(WriteFile,
    .doc      = "writes a file, with its folder; it appears whole or not at all",
    .sig      = "filename: string, contents: string ->",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = infer_scalars,
    .kernels  = MR_KERNELS(MR_CPU_ANY(write_file)),
    .examples = MR_EXAMPLES("\"/proc/no/such/folder\", \"a\" -> !NOT_FOUND /proc/no",
                            "\"a\", [\"b\"] -> !INVALID_ARGUMENT must be rank 0"));

/* ---- MatchingFiles ---- */

static bool is_cancelled(void *ctx)
{
    const mr_cancel *c = ((mr_run *)ctx)->step->cancel;
    return c && mr_cancel_started(c);
}

static mr_status *matching_files(mr_run *r)
{
    const mr_tensor *patterns = mr_in(r, 0);
    mr_file_names names = {.stopped = is_cancelled, .ctx = r};
    mr_tensor *out;
    mr_status *st = NULL;
    if (patterns->rank > 1)
        return mr_invalid("Input patterns tensor must be scalar or vector, but had shape: %s",
                          MR_TENSOR_SHAPE(patterns));
    for (int64_t i = 0; i < patterns->n; i++)
        MR_GO(mr_files_match(mr_tensor_str_at(patterns, i), &names));
    mr_file_names_sort(&names);
    MR_GO(mr_run_output(r, 0, 1, (int64_t[]){names.v.n}, &out));
    for (int i = 0; i < names.v.n; i++)
        MR_GO(mr_tensor_set_str(out, i, mr_sv_of(names.v.p[i])));
out:
    mr_file_names_deinit(&names);
    return st;
}

static mr_status *matching_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank_at_most(c, c->in[0], 1, &ignored));
    mr_infer_out_vector(c, 0, -1);
    return NULL;
}

MR_OP(MatchingFiles,
    .doc      = "the files that match one of some patterns, sorted",
    .sig      = "pattern: string -> filenames: string",
    .flags    = MR_BLOCKS | MR_NO_GRADIENT | MR_NO_FOLD,
    .shape    = matching_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(matching_files)),
    .examples = MR_EXAMPLES(
        "\"/dev/nul[l]\" -> [\"/dev/null\"]", "\"/d?v/null\" -> [\"/dev/null\"]",
        "[\"/dev/zer[o]\", \"/dev/null\", \"/nowhere/*\"] -> [\"/dev/null\", \"/dev/zero\"]",
        "\"file:///dev/nul?\" -> [\"file:///dev/null\"]", "\"/nowhere/at/all\" -> shape(0)",
        "shape(0) -> shape(0)", "\"\" -> shape(0)",
        "[[\"a\"]] -> !INVALID_ARGUMENT must be at most rank 1"));

/* ---- ShardedFilespec ---- */

static mr_status *sharded_filespec(mr_run *r)
{
    mr_sv base = MR_SV("");
    int64_t n;
    mr_tensor *out;
    mr_str s = {0};
    MR_TRY(mr_in_scalar_str(r, 0, "basename", &base));
    MR_TRY(mr_in_scalar_int(r, 1, "num_shards", &n));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    mr_str_append(&s, base.p, base.n);
    mr_str_printf(&s, "-\?\?\?\?\?-of-%05d", (int)n);
    mr_status *st = mr_tensor_set_str(out, 0, mr_str_view(&s));
    mr_str_deinit(&s);
    return st;
}

MR_OP(ShardedFilespec,
    .doc      = "the pattern of all files that ShardedFilename names",
    .sig      = "basename: string, num_shards: int32 -> filename: string",
    .flags    = MR_NO_GRADIENT,
    .shape    = infer_scalars,
    .kernels  = MR_KERNELS(MR_CPU_ANY(sharded_filespec)),
    .examples = MR_EXAMPLES("\"model\", 10 -> \"model-\?\?\?\?\?-of-00010\"",
                            "\"\", 123456 -> \"-\?\?\?\?\?-of-123456\"",
                            "\"m\", [1] -> !INVALID_ARGUMENT must be rank 0"));
