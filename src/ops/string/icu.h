/* ops/string/icu.h -- the interface between libmillrace-icu.so and the rest of the library.
 *
 * Only that library is linked with ICU, whose converters decode the encodings that encoding.c does not: SHIFT-JIS,
 * GB18030, EBCDIC and about two hundred others.  icu_library.c opens it at the first use and looks up one symbol, which
 * returns a table of functions over plain memory.  Both sides must be from the same build. */
#ifndef MR_OPS_STRING_ICU_H
#define MR_OPS_STRING_ICU_H

#include <stdint.h>

#include "base/str.h"

#define MR_ICU_ABI 1

typedef struct mr_icu_converter mr_icu_converter;

typedef struct mr_icu {
    int abi;
    mr_icu_converter *(*open)(const char *name); /* NULL: no such encoding, or no memory */
    void (*close)(mr_icu_converter *c);
    void (*reset)(mr_icu_converter *c); /* before another text */
    /* Decodes the next character and advances *p past its bytes.  *bad: they are malformed or unassigned. */
    uint32_t (*next)(mr_icu_converter *c, const char **p, const char *end, bool *bad);
} mr_icu;

/* Returns the functions; UNIMPLEMENTED, with the reason, if the library cannot be opened. */
mr_status *mr_icu_functions(const mr_icu **out);

/* The one symbol; it returns NULL if the library is from another build. */
#define MR_ICU_SYMBOL "mr_icu_get"
typedef const mr_icu *(*mr_icu_fn)(int abi);

#endif
