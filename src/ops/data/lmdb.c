/* ops/data/lmdb.c -- LMDBDataset: the keys and values of LMDB files, file after file. */
#include "base/memory.h"
#include "ops/data/dataset.h"
#include "store/lmdb.h"

typedef struct files {
    mr_dataset base;
    mr_tensor *names; /* held */
} files;

typedef struct reading {
    mr_iterator base;
    int64_t file; /* index of the file that is open, or comes next */
    mr_lmdb *open;
} reading;

static void reading_close(mr_iterator *it) { mr_lmdb_close(((reading *)it)->open); }

static mr_status *open_next(reading *p, const files *d)
{
    mr_sv name = mr_tensor_str_at(d->names, p->file);
    if (memchr(name.p, '\0', name.n))
        return mr_invalid("A file name contains a NUL byte");
    char *path = mr_strndup(name.p, name.n);
    mr_status *st = mr_lmdb_open(path, &p->open);
    mr_free(path);
    return st;
}

static mr_status *give_string(mr_sv text, mr_tensor **out)
{
    MR_TRY(mr_tensor_new(NULL, MR_STRING, 0, NULL, out));
    return mr_tensor_set_str(*out, 0, text);
}

/* As in TensorFlow, the call after an error opens the same file again if it could not be opened, and continues
 * after the damaged part if it could: a caller that ignores errors must decide when to stop. */
static mr_status *lmdb_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const files *d = (files *)it->dataset;
    reading *p = (reading *)it;
    mr_sv key, value;
    bool at_end;
    for (; p->file < d->names->n; p->file++) {
        if (!p->open)
            MR_TRY(open_next(p, d));
        MR_TRY(mr_lmdb_next(p->open, &key, &value, &at_end));
        if (!at_end) {
            MR_TRY(give_string(key, &out[0]));
            return give_string(value, &out[1]);
        }
        mr_lmdb_close(p->open);
        p->open = NULL;
    }
    *end = true;
    return NULL;
}

static const mr_dataset_kind lmdb_kind = {"LMDB", sizeof(files), sizeof(reading), NULL, lmdb_next, reading_close};

static mr_status *lmdb_dataset(mr_run *r)
{
    const mr_pshape *scalars[] = {&mr_pshape_scalar, &mr_pshape_scalar};
    files *d;
    if (mr_in(r, 0)->rank > 1)
        return mr_invalid("`filenames` must be a scalar or a vector.");
    MR_TRY(mr_dataset_new(r, &lmdb_kind, 0, 0, &d));
    mr_dataset_set_types(&d->base, 2, (int[]){MR_STRING, MR_STRING}, scalars);
    d->names = mr_dataset_keep(&d->base, mr_in(r, 0));
    return mr_dataset_give(r, d, NULL);
}

#define PAIRS "output_types=[string, string] output_shapes=[[], []]: "
MR_OP(LMDBDataset,
    .doc      = "the keys and values of LMDB files, in the order of the keys",
    .sig      = "filenames: string -> handle: variant",
    .attrs    = MR_DATASET_TYPES,
    .flags    = MR_STATEFUL | MR_NO_GRADIENT, MR_DATASET(lmdb_dataset),
    .examples = MR_EXAMPLES(PAIRS "[\"a\", \"b\"] -> shape()", PAIRS "\"a\" -> shape()",
                            PAIRS "[[\"a\"]] -> !INVALID_ARGUMENT"));
