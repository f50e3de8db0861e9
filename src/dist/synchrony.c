/* dist/synchrony.c -- parses the user's choice of synchrony. */
#include "dist/synchrony.h"

#include "base/memory.h"

enum { MOST = 1000000 };

/* Parses ":" and a number up to MOST, after the name; false: something else. */
static bool read_number(mr_sv rest, int64_t *out)
{
    if (rest.n < 2 || rest.n > 8 || rest.p[0] != ':')
        return false;
    *out = 0;
    for (size_t i = 1; i < rest.n; i++) {
        if (rest.p[i] < '0' || rest.p[i] > '9')
            return false;
        *out = 10 * *out + (rest.p[i] - '0');
    }
    return *out <= MOST;
}

/* A name with a number sets n, the name alone means adaptive. */
mr_status *mr_synchrony_parse(mr_sv text, mr_synchrony *out)
{
    static const char *const names[] = {"backup", "bounded"};
    *out = (mr_synchrony){.together = mr_sv_is(text, "sync"), .all_reduce = mr_sv_is(text, "all_reduce")};
    if (out->together || out->all_reduce || mr_sv_is(text, "async"))
        return NULL;
    for (int i = 0; i < MR_COUNT(names); i++) {
        size_t n = strlen(names[i]);
        if (text.n < n || memcmp(text.p, names[i], n) != 0)
            continue;
        *out = (mr_synchrony){.together = i == 0, .bounded = i == 1, .adaptive = text.n == n};
        if (out->adaptive || read_number((mr_sv){text.p + n, text.n - n}, &out->n))
            return NULL;
    }
    return mr_invalid("Synchrony '%.*s' is none of async, sync, backup, backup:K, bounded, bounded:T, all_reduce",
                      (int)MR_MIN(text.n, 100), text.p);
}
