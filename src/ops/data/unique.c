/* ops/data/unique.c -- UniqueDataset: each element only the first time it occurs.
 *
 * Elements are compared by their bytes, which are kept. */
#include "base/map.h"
#include "base/memory.h"
#include "ops/data/dataset.h"

typedef struct unique_iterator {
    mr_iterator base;
    mr_map seen;
} unique_iterator;

/* The length comes first, so that different elements never give the same bytes. */
static mr_status *key_of(const mr_tensor *t, mr_str *out)
{
    if (t->dtype != MR_STRING)
        return mr_str_try_append(out, t->data, mr_tensor_bytes(t)) ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a key");
    for (int64_t i = 0; i < t->n; i++) {
        mr_sv s = mr_tensor_str_at(t, i);
        uint64_t n = s.n;
        if (!mr_str_try_append(out, &n, sizeof n) || !mr_str_try_append(out, s.p, s.n))
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a key");
    }
    return NULL;
}

static mr_status *unique_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    unique_iterator *u = (unique_iterator *)it;
    mr_str key = {0};
    mr_status *st = NULL;
    for (;;) {
        MR_GO(mr_iterator_next(it->input, out, end));
        if (*end)
            goto out;
        mr_str_clear(&key);
        mr_str_printf(&key, "%s ", MR_TENSOR_SHAPE(out[0]));
        MR_GO(key_of(out[0], &key));
        if (!mr_map_put(&u->seen, mr_str_view(&key), u))
            goto out;
        mr_element_drop(out, 1);
    }
out:
    mr_str_deinit(&key);
    return st;
}

static void unique_close(mr_iterator *it) { mr_map_deinit(&((unique_iterator *)it)->seen); }

static const mr_dataset_kind unique_kind = {"Unique", sizeof(mr_dataset), sizeof(unique_iterator), NULL, unique_next, unique_close};

static mr_status *unique_dataset(mr_run *r)
{
    mr_dataset *d;
    MR_TRY(mr_dataset_new(r, &unique_kind, 0, 1, &d));
    mr_status *st = NULL;
    if (d->n != 1)
        st = mr_invalid("UniqueDataset only supports inputs with a single component.");
    else if (d->types[0] != MR_INT32 && d->types[0] != MR_INT64 && d->types[0] != MR_STRING)
        st = mr_invalid("UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` component.");
    return mr_dataset_give(r, d, st);
}

MR_OP(UniqueDataset,
    .doc     = "the elements without those that came before",
    .sig     = "input_dataset: variant -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(unique_dataset),
    .examples = MR_EXAMPLES("r = RangeDataset output_types=[int64] output_shapes=[[]]: 0, 9, 1; output_types=[int64] output_shapes=[[]]: r -> shape()",
                            "t = TensorDataset output_shapes=[[]]: (1.5); output_types=[float] output_shapes=[[]]: t -> "
                            "!INVALID_ARGUMENT UniqueDataset only supports"));
