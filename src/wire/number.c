/* wire/number.c -- floating point numbers as text.
 *
 * snprintf and strtod follow the locale, and a host may have set one where 0.5 is written 0,5.  So
 * both run with the C locale in force for this thread only. */
#include "wire/number.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

static locale_t c_locale; /* 0 if there was no memory for it: then the locale of the host is used */
static pthread_once_t c_locale_made = PTHREAD_ONCE_INIT;

static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

static locale_t enter_c_locale(void)
{
    pthread_once(&c_locale_made, make_c_locale);
    return uselocale(c_locale); /* a locale of 0 only queries */
}

static int print_named(double v, char *out)
{
    return snprintf(out, MR_NUMBER_BYTES, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
}

/* Does the text read back as v?  As in C++, a number too small to be read without loss does not. */
static bool reads_back(const char *text, double v, bool is_float)
{
    errno = 0;
    double back = is_float ? (double)strtof(text, NULL) : strtod(text, NULL);
    return errno == 0 && back == v;
}

/* Two tries are enough: 9 digits tell any two floats apart, 17 any two doubles. errno is restored.
 * */
static int print_digits(double v, bool is_float, char *out)
{
    if (!isfinite(v))
        return print_named(v, out);
    int saved = errno;
    locale_t before = enter_c_locale();
    int n = snprintf(out, MR_NUMBER_BYTES, "%.*g", is_float ? FLT_DIG : DBL_DIG, v);
    if (!reads_back(out, v, is_float))
        n = snprintf(out, MR_NUMBER_BYTES, "%.*g", is_float ? FLT_DIG + 3 : DBL_DIG + 2, v);
    uselocale(before);
    errno = saved;
    return n;
}

int mr_float_text(float v, char out[MR_NUMBER_BYTES]) { return print_digits(v, true, out); }
int mr_double_text(double v, char out[MR_NUMBER_BYTES]) { return print_digits(v, false, out); }

/* strtod needs a NUL after the number, but the view is part of a longer text. So it is copied; only
 * unusually long numbers need the heap. */
bool mr_text_to_double(mr_sv text, double *out)
{
    char small[64];
    char *z = text.n < sizeof(small) ? small : mr_try_alloc(text.n + 1);
    if (!z)
        return false;
    memcpy(z, text.p, text.n);
    z[text.n] = '\0';
    char *end;
    int saved = errno;
    locale_t before = enter_c_locale();
    double v = strtod(z, &end); /* a number that is too large gives inf, one that is too small gives 0 */
    uselocale(before);
    errno = saved;
    bool whole = text.n > 0 && end == z + text.n;
    if (whole)
        *out = v;
    if (z != small)
        mr_free(z);
    return whole;
}
