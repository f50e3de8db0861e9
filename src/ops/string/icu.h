/* ops/string/icu.h -- what libmillrace-icu.so and the rest of the library know of each other.
 *
 * That library alone knows ICU, whose converters read the encodings that encoding.c does not: SHIFT-JIS, GB18030,
 * EBCDIC and
 * some two hundred others.  It is opened at the first use (icu_library.c), asked for one symbol, and gives a table of
 * functions over plain memory.  Both sides are of one build. */
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
    /* The character that begins at *p, which moves behind it; *bad: the bytes are malformed or mean nothing. */
    uint32_t (*next)(mr_icu_converter *c, const char **p, const char *end, bool *bad);
} mr_icu;

/* The functions; UNIMPLEMENTED, saying what is missing, where the library is not there. */
mr_status *mr_icu_functions(const mr_icu **out);

/* The one symbol; NULL when it is of another build. */
#define MR_ICU_SYMBOL "mr_icu_get"
typedef const mr_icu *(*mr_icu_fn)(int abi);

#endif
