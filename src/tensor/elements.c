/* tensor/elements.c -- copies, compares and clears arrays of elements by their type.
 *
 * Plain types are bytes. A string of ours is SMALL or LARGE, as set here. Strings of clients may be
 * of any kind and at any address: they are copied before they are read, and an OFFSET string, which
 * points up to 4 GiB after itself, is checked against the memory that it must be in. */
#include "tensor/buffer.h"

#include "base/memory.h"

mr_sv mr_element_str(const void *at, const char *lo, const char *hi)
{
    TF_TString s;
    memcpy(&s, at, sizeof(s));
    size_t n = TF_TString_GetSize(&s);
    uintptr_t p;
    switch (TF_TString_GetType(&s)) {
    case TF_TSTR_SMALL:
        return (mr_sv){(const char *)at + offsetof(TF_TString_Small, str), n};
    case TF_TSTR_OFFSET:
        p = (uintptr_t)at + s.u.offset.offset; /* as a number: it may be no pointer at all */
        if (p < (uintptr_t)lo || p > (uintptr_t)hi || n > (uintptr_t)hi - p)
            return MR_SV("");
        return (mr_sv){(const char *)at + s.u.offset.offset, n};
    default: /* LARGE and VIEW may point anywhere, which cannot be checked */
        return n ? (mr_sv){TF_TString_GetDataPointer(&s), n} : MR_SV("");
    }
}

/* v may be part of the text of dst. Memory comes from mr_try_alloc, which is malloc: clients free
 * LARGE strings themselves. */
mr_status *mr_element_set_str(TF_TString *dst, mr_sv v)
{
    if (v.n <= TF_TString_SmallCapacity) {
        TF_TString_Copy(dst, v.p, v.n);
        return NULL;
    }
    size_t cap = v.n <= TF_TSTR_MAX_SIZE ? TF_TString_RoundCapacity(v.n) : 0;
    char *p = cap ? mr_try_alloc(cap + 1) : NULL;
    if (!p)
        return mr_error(MR_RESOURCE_EXHAUSTED, "OOM when allocating a string of %zu bytes", v.n);
    memcpy(p, v.p, v.n);
    p[v.n] = '\0';
    TF_TString_Dealloc(dst); /* not before the copy: v may be in there */
    dst->u.large.size = TF_TString_ToInternalSizeT(v.n, TF_TSTR_LARGE);
    dst->u.large.cap = cap;
    dst->u.large.ptr = p;
    return NULL;
}

/* The new reference is taken before the old one is dropped, because both may refer to the same object. */
static void copy_handles(mr_object **dst, const char *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        mr_object *o, *old = dst[i];
        memcpy(&o, src + (size_t)i * sizeof(o), sizeof(o));
        dst[i] = mr_object_ref(o);
        mr_object_unref(old);
    }
}

mr_status *mr_elements_copy(mr_dtype dtype, void *dst, const void *src, int64_t n, const char *lo,
                            const char *hi)
{
    if (n == 0)
        return NULL;
    switch (dtype) {
    case MR_STRING:
        for (int64_t i = 0; i < n; i++) {
            const char *at = (const char *)src + (size_t)i * sizeof(TF_TString);
            MR_TRY(mr_element_set_str((TF_TString *)dst + i, mr_element_str(at, lo, hi)));
        }
        break;
    case MR_RESOURCE:
    case MR_VARIANT:
        copy_handles(dst, src, n);
        break;
    default:
        memcpy(dst, src, (size_t)n * mr_dtype_size(dtype));
    }
    return NULL;
}

void mr_elements_clear(mr_dtype dtype, void *p, int64_t n)
{
    if (n == 0)
        return;
    if (dtype == MR_STRING)
        for (int64_t i = 0; i < n; i++)
            TF_TString_Dealloc((TF_TString *)p + i);
    else if (!mr_dtype_is_plain(dtype)) /* handles begin with an mr_object */
        for (int64_t i = 0; i < n; i++)
            mr_object_unref(((mr_object **)p)[i]);
    memset(p, 0, (size_t)n * mr_dtype_size(dtype));
}
