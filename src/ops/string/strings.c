/* ops/string/strings.c -- see strings.h. */
#include "ops/string/strings.h"

mr_status *mr_string_room(bool ok)
{
    return ok ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a string");
}

mr_status *mr_map_strings(mr_run *r, mr_string_fn fn, void *ctx)
{
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *out;
    mr_str s = {0};
    mr_status *st = NULL;
    MR_TRY(mr_run_output(r, 0, in->rank, in->dims, &out));
    for (int64_t i = 0; i < in->n; i++) {
        mr_str_clear(&s);
        MR_GO(fn(ctx, mr_tensor_str_at(in, i), &s));
        MR_GO(mr_tensor_set_str(out, i, mr_str_view(&s)));
    }
out:
    mr_str_deinit(&s);
    return st;
}
