/* tests/fuzz/bytes.c -- damages bytes without knowledge of their format. */
#include "tests/fuzz/bytes.h"

#include "base/memory.h"

enum { MOST_BYTES = 1 << 18 }; /* limits repeated growth */

static void insert(mr_str *s, size_t at, mr_sv what)
{
    if (s->n + what.n > MOST_BYTES)
        return;
    char *copy = mr_strndup(what.p, what.n); /* it may be a part of s */
    mr_str_append(s, copy, what.n);
    memmove(s->p + at + what.n, s->p + at, s->n - what.n - at);
    memcpy(s->p + at, copy, what.n);
    mr_free(copy);
}

static void lose(mr_str *s, size_t at, size_t n)
{
    memmove(s->p + at, s->p + at + n, s->n - at - n);
    s->n -= n;
    s->p[s->n] = '\0';
}

void fuzz_damage(fuzz_rng *r, mr_str *s)
{
    static const unsigned char edges[] = {0, 1, 2, 7, 8, 0x0a, 0x12, 0x22, 0x7f, 0x80, 0xfe, 0xff};
    if (!s->n) {
        mr_str_appendc(s, (char)fuzz_u64(r));
        return;
    }
    size_t at = fuzz_below(r, s->n), n = 1 + fuzz_below(r, fuzz_once_in(r, 4) ? 64 : 8), from;
    n = MR_MIN(n, s->n - at);
    switch (fuzz_below(r, 8)) {
    case 0: s->p[at] = (char)(s->p[at] ^ 1 << fuzz_below(r, 8)); break;
    case 1: s->p[at] = (char)fuzz_pick(r, edges); break;
    case 2: s->p[at] = (char)(s->p[at] + fuzz_between(r, -2, 2)); break;
    case 3:
        from = fuzz_below(r, s->n - n + 1);
        memmove(s->p + at, s->p + from, n);
        break;
    case 4: lose(s, at, n); break;
    case 5: insert(s, fuzz_below(r, s->n + 1), (mr_sv){s->p + at, n}); break;
    case 6: insert(s, at, (mr_sv){(const char *)&(char){(char)fuzz_u64(r)}, 1}); break;
    default: /* cut short */
        if (fuzz_once_in(r, 4))
            lose(s, at, s->n - at);
        else
            s->p[at] = (char)fuzz_u64(r);
    }
}

mr_sv fuzz_exact(mr_sv bytes)
{
    char *p = mr_alloc(bytes.n ? bytes.n : 1);
    memcpy(p, bytes.p, bytes.n);
    return (mr_sv){p, bytes.n};
}
