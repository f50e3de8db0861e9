/* ops/string/icu.h -- the interface between libmillrace-icu.so and the rest of the library.
 *
 * Only that library is linked with ICU, whose converters read the encodings that encoding.c does not: SHIFT-JIS,
 * GB18030, EBCDIC and some two hundred others.  icu_library.c opens it at the first use and looks up one symbol, which
 * returns a table of functions over plain memory.  Both sides must be of the same build. */
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
    void (*reset)(mr_icu_converter *c); /* for another text */
    /* The next character; *p moves behind its bytes.  *bad: they are malformed or have no meaning. */
    uint32_t (*next)(mr_icu_converter *c, const char **p, const char *end, bool *bad);
} mr_icu;

/* The functions; UNIMPLEMENTED, with the reason, if the library cannot be opened. */
mr_status *mr_icu_functions(const mr_icu **out);

/* The one symbol; it returns NULL if the library is of another build. */
#define MR_ICU_SYMBOL "mr_icu_get"
typedef const mr_icu *(*mr_icu_fn)(int abi);

#endif
