/* capi/options.c -- copies structs of clients, which may be built with another version of the header. */
#include "capi/internal.h"

/* Compares the size in the first member: a shorter struct is filled up with zeros, and in a longer one the unknown rest
 * must be zero. */
mr_status *mr_capi_take_struct(void *ours, size_t our_size, const void *theirs, size_t least, const char *what)
{
    size_t size;
    if (!theirs)
        return mr_invalid("The %s is NULL", what);
    memcpy(&size, theirs, sizeof size);
    if (size < least || size > (1 << 16))
        return mr_invalid("The struct_size of a %s is %zu, expected %zu", what, size, our_size);
    for (size_t i = our_size; i < size; i++)
        if (((const char *)theirs)[i])
            return mr_invalid("This library is older than its caller: it does not know all fields of a %s of %zu bytes",
                              what, size);
    memset(ours, 0, our_size);
    memcpy(ours, theirs, MR_MIN(size, our_size));
    return NULL;
}

mr_status *mr_capi_take_options(const void *from, void *to, size_t size)
{
    memset(to, 0, size);
    return from ? mr_capi_take_struct(to, size, from, sizeof(size_t), "struct of options") : NULL;
}
