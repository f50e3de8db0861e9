/* base/unicode.c -- see unicode.h.
 *
 * Categories and scripts are runs: a sorted list of where each begins, so a lookup is a binary
 * search.  Case mappings are runs too, {first, last, step, by}: every step-th code point from first to
 * last maps to itself plus `by`.  No two runs of one table interleave. */
#include "base/unicode.h"

#include "base/memory.h"

typedef struct code_run {
    uint32_t first, last;
    int step;
    int32_t by; /* or PAIRS: first and its neighbour map to each other, and so on */
} code_run;
#define PAIRS 0x200000

typedef struct long_case {
    uint32_t c;
    uint16_t to[3]; /* ended by 0 */
} long_case;

typedef struct script_name {
    const char *name;
    uint8_t number;
} script_name;

#include "base/unicode_tables.inc"

/* ---- UTF-8 ---- */

/* Bytes of a character by its first one; 0: none begins so. */
static size_t lead_bytes(uint8_t b)
{
    return b < 0x80 ? 1 : b < 0xc2 ? 0 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : b < 0xf5 ? 4 : 0;
}

/* The range of the second byte excludes overlong forms, surrogates and values above the last code point. */
static bool second_fits(uint8_t lead, uint8_t b)
{
    uint8_t lo = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t hi = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    return b >= lo && b <= hi;
}

size_t mr_utf8_next(const char *p, size_t n, uint32_t *c)
{
    uint8_t lead = (uint8_t)p[0];
    size_t want = lead_bytes(lead), i = 1;
    *c = MR_NO_CODE;
    if (want <= 1) {
        if (want == 1)
            *c = lead;
        return 1;
    }
    uint32_t v = lead & (0x7fu >> want);
    for (; i < want && i < n; i++) {
        uint8_t b = (uint8_t)p[i];
        if (i == 1 ? !second_fits(lead, b) : (b & 0xc0) != 0x80)
            return i;
        v = v << 6 | (b & 0x3f);
    }
    if (i == want)
        *c = v;
    return i;
}

size_t mr_utf8_put(uint32_t c, char out[4])
{
    MR_ASSERT(mr_code_valid(c));
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (n == 1) {
        out[0] = (char)c;
        return 1;
    }
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(0xf00u >> n | c); /* n ones, then a zero */
    return n;
}

/* ---- runs of a property ---- */

static int run_of(const uint32_t *runs, int n, uint32_t c)
{
    int lo = 0, hi = n; /* runs[lo] begins at or before c */
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (runs[mid] >> 8 <= c)
            lo = mid;
        else
            hi = mid;
    }
    return (int)(runs[lo] & 0xff);
}

int mr_unicode_script(uint32_t c) { return run_of(script_runs, MR_COUNT(script_runs), c); }

const char *mr_unicode_category(uint32_t c)
{
    return category_names[run_of(category_runs, MR_COUNT(category_runs), c)];
}

typedef struct listing {
    void (*fn)(void *ctx, uint32_t lo, uint32_t hi);
    void *ctx;
} listing;

/* Runs whose number is in `wanted`, a set of bits. */
static void list_runs(const uint32_t *runs, int n, const bool wanted[256], const listing *l)
{
    for (int i = 0; i < n; i++) {
        if (!wanted[runs[i] & 0xff])
            continue;
        uint32_t lo = runs[i] >> 8, hi;
        while (i + 1 < n && wanted[runs[i + 1] & 0xff]) /* neighbours are one range */
            i++;
        hi = i + 1 < n ? (runs[i + 1] >> 8) - 1 : MR_MAX_CODE;
        l->fn(l->ctx, lo, hi);
    }
}

static bool list_categories(mr_sv name, const listing *l)
{
    bool wanted[256] = {0}, any = false;
    for (int i = 1; i < MR_COUNT(category_names); i++) /* 0, the unassigned, has no name */
        if (name.n <= 2 && memcmp(category_names[i], name.p, name.n) == 0)
            any = wanted[i] = true;
    if (any)
        list_runs(category_runs, MR_COUNT(category_runs), wanted, l);
    return any;
}

static bool list_script(mr_sv name, const listing *l)
{
    bool wanted[256] = {0}, any = false;
    for (int i = 0; i < MR_COUNT(script_names); i++)
        if (mr_sv_is(name, script_names[i].name))
            any = wanted[script_names[i].number] = true;
    if (any)
        list_runs(script_runs, MR_COUNT(script_runs), wanted, l);
    return any;
}

bool mr_unicode_class(mr_sv name, void (*fn)(void *ctx, uint32_t lo, uint32_t hi), void *ctx)
{
    listing l = {fn, ctx};
    if (mr_sv_is(name, "Any")) {
        fn(ctx, 0, MR_MAX_CODE);
        return true;
    }
    return name.n > 0 && (list_categories(name, &l) || list_script(name, &l));
}

/* ---- other case ---- */

/* The run that contains c, or the first one after it; n if there is none. */
static int find_run(const code_run *runs, int n, uint32_t c)
{
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (runs[mid].last < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint32_t map_code(const code_run *runs, int n, uint32_t c)
{
    int i = find_run(runs, n, c);
    if (i == n || c < runs[i].first || (c - runs[i].first) % (uint32_t)runs[i].step)
        return c;
    if (runs[i].by == PAIRS)
        return (c - runs[i].first) % 2 ? c - 1 : c + 1;
    return (uint32_t)((int32_t)c + runs[i].by);
}

static int long_mapping(const long_case *all, int n, uint32_t c, uint32_t out[3])
{
    for (int i = 0; i < n && all[i].c <= c; i++) {
        int k = 0;
        for (; all[i].c == c && k < 3 && all[i].to[k]; k++)
            out[k] = all[i].to[k];
        if (k > 0)
            return k;
    }
    return 0;
}

int mr_unicode_lower(uint32_t c, uint32_t out[3])
{
    if (c < 0x80) {
        out[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
        return 1;
    }
    int n = long_mapping(lower_long, MR_COUNT(lower_long), c, out);
    if (n == 0)
        out[0] = map_code(lower_runs, MR_COUNT(lower_runs), c);
    return n ? n : 1;
}

int mr_unicode_upper(uint32_t c, uint32_t out[3])
{
    if (c < 0x80) {
        out[0] = c >= 'a' && c <= 'z' ? c - 32 : c;
        return 1;
    }
    int n = long_mapping(upper_long, MR_COUNT(upper_long), c, out);
    if (n == 0)
        out[0] = map_code(upper_runs, MR_COUNT(upper_runs), c);
    return n ? n : 1;
}

uint32_t mr_unicode_fold(uint32_t c) { return map_code(fold_runs, MR_COUNT(fold_runs), c); }

/* Runs of pairs and of every other code point are given one by one; they are short. */
static void fold_run(const code_run *r, uint32_t lo, uint32_t hi, const listing *l)
{
    if (r->by != PAIRS && r->step == 1) {
        l->fn(l->ctx, (uint32_t)((int32_t)lo + r->by), (uint32_t)((int32_t)hi + r->by));
        return;
    }
    for (uint32_t c = lo; c <= hi; c++) {
        uint32_t to = mr_unicode_fold(c);
        if (to != c)
            l->fn(l->ctx, to, to);
    }
}

void mr_unicode_fold_range(uint32_t lo, uint32_t hi,
                           void (*fn)(void *ctx, uint32_t lo, uint32_t hi), void *ctx)
{
    listing l = {fn, ctx};
    int n = MR_COUNT(fold_runs);
    for (int i = find_run(fold_runs, n, lo); i < n && fold_runs[i].first <= hi; i++)
        fold_run(&fold_runs[i], MR_MAX(lo, fold_runs[i].first), MR_MIN(hi, fold_runs[i].last), &l);
}
