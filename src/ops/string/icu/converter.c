/* ops/string/icu/converter.c -- the table of functions that the library exports: converters of ICU.
 *
 * ICU reports malformed bytes to a callback, which notes them and then substitutes as ICU does by default.  So ICU
 * decides how many bytes count as one malformed character, as in TensorFlow. */
#include <unicode/ucnv.h>

#include "ops/string/icu.h"

/* The one symbol that the version script exports. */
__attribute__((visibility("default"))) const mr_icu *mr_icu_get(int abi);

/* The context is the `bad` of the call of next_character that is under way.  ICU also calls this on a reset or close,
 * when that no longer exists: then it must not be touched. */
static void note_error(const void *context, UConverterToUnicodeArgs *args, const char *bytes, int32_t n,
                       UConverterCallbackReason reason, UErrorCode *err)
{
    if (reason == UCNV_UNASSIGNED || reason == UCNV_ILLEGAL || reason == UCNV_IRREGULAR)
        *(bool *)(uintptr_t)context = true;
    UCNV_TO_U_CALLBACK_SUBSTITUTE(NULL, args, bytes, n, reason, err);
}

static mr_icu_converter *open_converter(const char *name)
{
    UErrorCode err = U_ZERO_ERROR;
    UConverter *c = ucnv_open(name, &err);
    if (U_SUCCESS(err))
        return (mr_icu_converter *)c;
    ucnv_close(c);
    return NULL;
}

static void close_converter(mr_icu_converter *c) { ucnv_close((UConverter *)c); }
static void reset_converter(mr_icu_converter *c) { ucnv_reset((UConverter *)c); }

/* An mr_icu_converter is a UConverter.  Bytes that end without a character (an escape sequence) are an error, and end
 * the text with U+FFFF, as in TensorFlow. */
static uint32_t next_character(mr_icu_converter *c, const char **p, const char *end, bool *bad)
{
    UErrorCode err = U_ZERO_ERROR;
    UConverterToUCallback old;
    const void *old_context;
    *bad = false;
    ucnv_setToUCallBack((UConverter *)c, note_error, bad, &old, &old_context, &err);
    UChar32 ch = ucnv_getNextUChar((UConverter *)c, p, end, &err);
    if (U_FAILURE(err)) {
        *p = end;
        ch = 0xffff;
    }
    return (uint32_t)ch;
}

const mr_icu *mr_icu_get(int abi)
{
    static const mr_icu table = {MR_ICU_ABI, open_converter, close_converter, reset_converter, next_character};
    return abi == MR_ICU_ABI ? &table : NULL;
}
