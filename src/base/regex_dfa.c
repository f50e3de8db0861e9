/* base/regex_dfa.c -- the automaton of regex_dfa.h.
 *
 * A state is the set of places of the program at which threads (regex.c) are after a byte, before any step that reads
 * nothing, together with the kind of that byte. To leave a state, one knows the next byte or that the text ends; so all
 * assertions can be decided, the empty steps taken, and the threads that read the byte collected into the next state.
 * A match is noticed then, too: one byte late, or at the end.
 *
 * Bytes that the program does not tell apart are one class. Rows of the table are made when they are first needed. Both
 * the table and the sets have a limit, after which the automaton refuses to answer: sets may be exponentially many, and
 * the threads themselves take linear time. Making a state takes no longer than a step of all threads. */
#include "base/regex_dfa.h"

#include "base/memory.h"

enum {
    MAX_PLACES = 20000,   /* of the program */
    MAX_TABLE = 1 << 18,  /* entries: 1 MB */
    MAX_SETS = 1 << 18,
    N_BUCKETS = 1 << 12,
};
enum { OPEN = -1, DEAD = -2, MATCHED = -3 }; /* entries that are no row */

typedef struct state {
    int32_t first, n; /* its places, in d->sets */
    int32_t chain;    /* the next state of the bucket; -1: none */
    mr_re_neighbour before;
} state;

struct mr_re_dfa {
    const mr_re_program *p;
    bool full, any_holds, too_large;
    uint8_t class_of[256], byte_of[256]; /* byte_of: one of a class */
    int n_classes;                       /* the last one is the end of the text */
    MR_VEC(int32_t) table;               /* a row for each state: where its next row begins, or OPEN .. */
    MR_VEC(int32_t) sets;
    MR_VEC(state) states;
    int32_t buckets[N_BUCKETS]; /* state + 1 */
    int32_t starts[4];          /* rows by mr_re_neighbour; OPEN */
    /* of making a state: */
    int32_t *stack, *set;
    uint32_t *seen, *chosen; /* by place: the round in which it was */
    uint32_t round;
};

/* ---- neighbours ---- */

mr_re_neighbour mr_re_neighbour_of(uint8_t c)
{
    bool word = c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    return c == '\n' ? MR_RE_NEWLINE : word ? MR_RE_WORD : MR_RE_OTHER;
}

int mr_re_holding(mr_re_neighbour before, mr_re_neighbour after)
{
    int f = (before == MR_RE_WORD) != (after == MR_RE_WORD) ? MR_RE_WORD_EDGE : MR_RE_NO_WORD_EDGE;
    f |= before == MR_RE_EDGE ? MR_RE_BEGIN_TEXT | MR_RE_BEGIN_LINE : before == MR_RE_NEWLINE ? MR_RE_BEGIN_LINE : 0;
    return f | (after == MR_RE_EDGE ? MR_RE_END_TEXT | MR_RE_END_LINE : after == MR_RE_NEWLINE ? MR_RE_END_LINE : 0);
}

/* ---- making an automaton ---- */

/* Bytes are of different classes where a range of the program ends, or the kind of neighbour changes. */
static void find_classes(mr_re_dfa *d)
{
    bool starts[257] = {false}; /* a class may begin here */
    for (int32_t k = 0; k < d->p->code.n; k++) {
        const mr_re_inst *i = &d->p->code.p[k];
        d->any_holds |= i->op == MR_RE_HOLDS;
        if (i->op == MR_RE_BYTES)
            starts[i->lo] = starts[i->hi + 1] = true;
    }
    int n = 0;
    for (int c = 0; c < 256; c++) {
        bool differs = c > 0 && mr_re_neighbour_of((uint8_t)c) != mr_re_neighbour_of((uint8_t)(c - 1));
        n += c > 0 && (starts[c] || (d->any_holds && differs));
        d->class_of[c] = (uint8_t)n;
        d->byte_of[n] = (uint8_t)c;
    }
    d->n_classes = n + 2;
}

mr_re_dfa *mr_re_dfa_new(const mr_re_program *p, bool full)
{
    size_t n = (size_t)p->code.n;
    mr_re_dfa *d = n <= MAX_PLACES ? mr_try_calloc(1, sizeof *d) : NULL;
    if (!d)
        return NULL;
    d->p = p;
    d->full = full;
    d->stack = mr_try_calloc(n, sizeof *d->stack);
    d->set = mr_try_calloc(n, sizeof *d->set);
    d->seen = mr_try_calloc(n, sizeof *d->seen);
    d->chosen = mr_try_calloc(n, sizeof *d->chosen);
    for (int i = 0; i < MR_COUNT(d->starts); i++)
        d->starts[i] = OPEN;
    if (!d->stack || !d->set || !d->seen || !d->chosen) {
        mr_re_dfa_free(d);
        return NULL;
    }
    find_classes(d);
    return d;
}

void mr_re_dfa_free(mr_re_dfa *d)
{
    if (!d)
        return;
    mr_vec_deinit(&d->table);
    mr_vec_deinit(&d->sets);
    mr_vec_deinit(&d->states);
    mr_free(d->stack);
    mr_free(d->set);
    mr_free(d->seen);
    mr_free(d->chosen);
    mr_free(d);
}

/* ---- states ---- */

/* Shell's sort: sets are short, and qsort may call malloc. */
static void sort_places(int32_t *v, int32_t n)
{
    for (int32_t gap = n / 2; gap > 0; gap /= 2)
        for (int32_t i = gap; i < n; i++) {
            int32_t x = v[i], k = i;
            for (; k >= gap && v[k - gap] > x; k -= gap)
                v[k] = v[k - gap];
            v[k] = x;
        }
}

static uint32_t hash_set(const int32_t *v, int32_t n, mr_re_neighbour before)
{
    uint64_t h = (uint64_t)before + 1;
    for (int32_t i = 0; i < n; i++)
        h = (h ^ (uint64_t)(uint32_t)v[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return (uint32_t)(h >> 32) % N_BUCKETS;
}

/* Makes room for `want` elements; the vectors of base/vec.h would end the process without memory. */
static bool try_reserve(void **p, int *cap, int want, size_t elem_bytes)
{
    if (want <= *cap)
        return true;
    int more = MR_MAX(want, 2 * *cap);
    void *grown = mr_try_realloc(*p, (size_t)more * elem_bytes);
    if (!grown)
        return false;
    *p = grown;
    *cap = more;
    return true;
}
#define TRY_RESERVE(v, more) try_reserve((void **)&(v)->p, &(v)->cap, (v)->n + (more), sizeof *(v)->p)

/* The row of the state with the first n places of d->set, which are sorted here. Without room for another state, the
 * automaton is too large and the row is DEAD. */
static int32_t row_of_set(mr_re_dfa *d, int32_t n, mr_re_neighbour before)
{
    sort_places(d->set, n);
    uint32_t bucket = hash_set(d->set, n, before);
    for (int32_t k = d->buckets[bucket] - 1; k >= 0; k = d->states.p[k].chain) {
        const state *s = &d->states.p[k];
        if (s->n == n && s->before == before &&
            (n == 0 || memcmp(d->sets.p + s->first, d->set, (size_t)n * sizeof *d->set) == 0))
            return k * d->n_classes;
    }
    int32_t made = d->states.n;
    if (d->table.n + d->n_classes > MAX_TABLE || d->sets.n + n > MAX_SETS || !TRY_RESERVE(&d->table, d->n_classes) ||
        !TRY_RESERVE(&d->sets, n) || !TRY_RESERVE(&d->states, 1)) {
        d->too_large = true;
        return DEAD;
    }
    mr_vec_push(&d->states, (state){d->sets.n, n, d->buckets[bucket] - 1, before});
    for (int32_t i = 0; i < n; i++)
        mr_vec_push(&d->sets, d->set[i]);
    for (int i = 0; i < d->n_classes; i++)
        mr_vec_push(&d->table, OPEN);
    d->buckets[bucket] = made + 1;
    return made * d->n_classes;
}

/* Pushes a place that was not looked at in this round. */
static void visit(mr_re_dfa *d, int32_t *n, int32_t place)
{
    if (d->seen[place] != d->round) {
        d->seen[place] = d->round;
        d->stack[(*n)++] = place;
    }
}

/* Follows a state by a class of bytes; fills in the entry of the table and returns it. */
static int32_t make_entry(mr_re_dfa *d, int32_t row, int class)
{
    state s = d->states.p[row / d->n_classes];
    bool at_end = class == d->n_classes - 1, matched = false;
    uint8_t byte = at_end ? 0 : d->byte_of[class];
    mr_re_neighbour after = at_end ? MR_RE_EDGE : mr_re_neighbour_of(byte);
    int holds = mr_re_holding(s.before, after);
    int32_t n = 0, n_set = 0;
    if (++d->round == 0) { /* the marks of old rounds would count again */
        memset(d->seen, 0, (size_t)d->p->code.n * sizeof *d->seen);
        memset(d->chosen, 0, (size_t)d->p->code.n * sizeof *d->chosen);
        d->round = 1;
    }
    for (int32_t i = 0; i < s.n; i++)
        visit(d, &n, d->sets.p[s.first + i]);
    if (!d->full)
        visit(d, &n, d->p->start); /* a match may begin here */
    while (n > 0) {
        const mr_re_inst *i = &d->p->code.p[d->stack[--n]];
        if (i->op == MR_RE_MATCH)
            matched = true;
        else if (i->op == MR_RE_BYTES && !at_end && byte >= i->lo && byte <= i->hi && d->chosen[i->out] != d->round) {
            d->chosen[i->out] = d->round;
            d->set[n_set++] = i->out;
        } else if (i->op == MR_RE_SPLIT || i->op == MR_RE_SAVE || (i->op == MR_RE_HOLDS && (holds & i->other) == i->other)) {
            visit(d, &n, i->out);
            if (i->op == MR_RE_SPLIT)
                visit(d, &n, i->other);
        }
    }
    int32_t entry;
    if (matched && (at_end || !d->full))
        entry = MATCHED;
    else if (at_end || (d->full && n_set == 0))
        entry = DEAD;
    else
        entry = row_of_set(d, n_set, d->any_holds ? after : MR_RE_OTHER);
    if (!d->too_large)
        d->table.p[row + class] = entry;
    return entry;
}

static int32_t start_row(mr_re_dfa *d, mr_re_neighbour before)
{
    if (!d->any_holds)
        before = MR_RE_OTHER;
    if (d->starts[before] == OPEN) {
        d->set[0] = d->p->start;
        d->starts[before] = row_of_set(d, d->full ? 1 : 0, before);
    }
    return d->starts[before];
}

mr_re_answer mr_re_dfa_run(mr_re_dfa *d, mr_sv s, size_t from)
{
    if (d->too_large)
        return MR_RE_TOO_LARGE;
    int32_t row = start_row(d, from == 0 ? MR_RE_EDGE : mr_re_neighbour_of((uint8_t)s.p[from - 1]));
    const int32_t *table = d->table.p;
    for (size_t i = from; row >= 0 && i <= s.n; i++) {
        int class = i < s.n ? d->class_of[(uint8_t)s.p[i]] : d->n_classes - 1;
        int32_t next = table[row + class];
        if (next == OPEN) {
            next = make_entry(d, row, class);
            table = d->table.p; /* it may have moved */
        }
        row = next;
    }
    if (!d->too_large)
        return row == MATCHED ? MR_RE_YES : MR_RE_NO;
    mr_vec_deinit(&d->table);
    mr_vec_deinit(&d->sets);
    mr_vec_deinit(&d->states);
    return MR_RE_TOO_LARGE;
}
