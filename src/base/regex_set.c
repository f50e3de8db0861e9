/* base/regex_set.c -- sets of characters, as ranges. */
#include <stdlib.h>

#include "base/regex_tree.h"

void mr_re_set_add(void *set, uint32_t lo, uint32_t hi)
{
    mr_re_set *s = set;
    if (lo <= hi)
        mr_vec_push(&s->r, (mr_re_range){lo, hi});
}

static int by_start(const void *a, const void *b)
{
    const mr_re_range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Sorts the ranges and merges those that overlap or touch. */
void mr_re_set_tidy(mr_re_set *s)
{
    int n = 0;
    if (s->r.n == 0)
        return;
    qsort(s->r.p, (size_t)s->r.n, sizeof *s->r.p, by_start);
    for (int i = 1; i < s->r.n; i++) {
        mr_re_range *last = &s->r.p[n], r = s->r.p[i];
        if (r.lo > last->hi && r.lo - last->hi > 1)
            s->r.p[++n] = r;
        else
            last->hi = MR_MAX(last->hi, r.hi);
    }
    s->r.n = n + 1;
}

/* Few characters have more than one other form, and none more than three. */
void mr_re_set_fold(mr_re_set *s)
{
    mr_re_set_tidy(s);
    if (s->r.n == 1 && s->r.p[0].lo == 0 && s->r.p[0].hi == MR_MAX_CODE)
        return;
    for (int round = 0; round < 3; round++) {
        int n = s->r.n;
        for (int i = 0; i < n; i++) {
            mr_re_range r = s->r.p[i];
            mr_unicode_fold_range(r.lo, r.hi, mr_re_set_add, s);
        }
        mr_re_set_tidy(s);
    }
}

void mr_re_set_negate(mr_re_set *s)
{
    mr_re_set not = {0};
    uint32_t next = 0;
    mr_re_set_tidy(s);
    for (int i = 0; i < s->r.n; i++) {
        if (s->r.p[i].lo > next)
            mr_re_set_add(&not, next, s->r.p[i].lo - 1);
        next = s->r.p[i].hi + 1;
    }
    mr_re_set_add(&not, next, MR_MAX_CODE); /* empty when next is beyond */
    mr_vec_deinit(&s->r);
    *s = not;
}

/* ---- classes with a name ---- */

static const struct {
    const char *name, *ranges; /* pairs of characters */
} classes[] = {
    {"\\d", "09"},
    {"\\s", "\t\n\f\r  "},
    {"\\w", "09AZ__az"},
    {"[:alnum:]", "09AZaz"},
    {"[:alpha:]", "AZaz"},
    {"[:ascii:]", "\1\x7f"}, /* and NUL, below */
    {"[:blank:]", "\t\t  "},
    {"[:cntrl:]", "\1\x1f\x7f\x7f"}, /* and NUL */
    {"[:digit:]", "09"},
    {"[:graph:]", "!~"},
    {"[:lower:]", "az"},
    {"[:print:]", " ~"},
    {"[:punct:]", "!/:@[`{~"},
    {"[:space:]", "\t\r  "},
    {"[:upper:]", "AZ"},
    {"[:word:]", "09AZaz__"},
    {"[:xdigit:]", "09AFaf"},
};

bool mr_re_set_named(mr_re_set *s, mr_sv name)
{
    for (int i = 0; i < MR_COUNT(classes); i++) {
        if (!mr_sv_is(name, classes[i].name))
            continue;
        for (const char *p = classes[i].ranges; *p; p += 2)
            mr_re_set_add(s, (uint8_t)p[0], (uint8_t)p[1]);
        if (classes[i].ranges[0] == '\1')
            mr_re_set_add(s, 0, 0);
        return true;
    }
    return false;
}
