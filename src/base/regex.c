/* base/regex.c -- matching: all ways through the program at once.
 *
 * A thread is a place in the program with the places in the text that it has saved.  For each byte of
 * the text all threads take one step; no two are ever at the same place in the program, because of two
 * only the one that is preferred can matter.  Threads stand in the order of preference: whoever
 * matches ends all behind it, and those before it may still find a better match.
 *
 * Whether there is a match at all is asked from an automaton first (regex_dfa.c), which is much faster; the threads find
 * out where it is, and answer where the automaton would become too large.
 *
 * The room for threads is kept between calls, one spare a pattern; so are automata. */
#include "base/regex.h"

#include <stdatomic.h>

#include "base/memory.h"
#include "base/regex_dfa.h"

typedef struct threads {
    int32_t *at;   /* places in the program, in the order of preference */
    int32_t n;
    int32_t *index; /* of a place among them, if at[index[place]] is the place */
    size_t *saved;  /* a row for each place in the program */
} threads;

typedef struct stack_entry { /* a place to go to, or a slot to set back */
    int32_t at;
    int32_t slot; /* -1: none */
    size_t old;
} stack_entry;

typedef struct machine {
    threads now, then;
    stack_entry *stack;
    size_t *saved, *best; /* one row each */
    int n_slots;
    int room; /* slots a row has */
} machine;

struct mr_regex {
    mr_re_program program;
    int n_groups;
    _Atomic(machine *) spare;
    _Atomic(mr_re_dfa *) spare_dfa[2]; /* for matches anywhere, for full matches */
};

#define NOWHERE ((size_t)-1)

/* ---- room ---- */

static void free_machine(machine *m)
{
    if (!m)
        return;
    threads *both[] = {&m->now, &m->then};
    for (int i = 0; i < 2; i++) {
        mr_free(both[i]->at);
        mr_free(both[i]->index);
        mr_free(both[i]->saved);
    }
    mr_free(m->stack);
    mr_free(m->saved);
    mr_free(m->best);
    mr_free(m);
}

static bool init_threads(threads *t, size_t n, size_t slots)
{
    t->at = mr_try_calloc(n, sizeof *t->at);
    t->index = mr_try_calloc(n, sizeof *t->index); /* valid indexes from the start */
    t->saved = mr_try_calloc(n * slots + 1, sizeof *t->saved);
    return t->at && t->index && t->saved;
}

/* Room for a match with this many slots, sized by the program. All of it may be refused. */
static mr_status *new_machine(const mr_regex *re, int slots, machine **out)
{
    size_t n = (size_t)re->program.code.n, room = (size_t)slots;
    machine *m = mr_try_calloc(1, sizeof *m);
    bool ok = m && init_threads(&m->now, n, room) && init_threads(&m->then, n, room);
    if (ok) {
        m->stack = mr_try_calloc(2 * n + 2, sizeof *m->stack);
        m->saved = mr_try_calloc(room + 1, sizeof *m->saved);
        m->best = mr_try_calloc(room + 1, sizeof *m->best);
        m->room = slots;
        ok = m->stack && m->saved && m->best;
    }
    if (!ok) {
        free_machine(m);
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to match a pattern");
    }
    *out = m;
    return NULL;
}

static mr_status *take_machine(const mr_regex *re, int slots, machine **out)
{
    machine *m = atomic_exchange(&((mr_regex *)(uintptr_t)re)->spare, NULL);
    if (m && m->room < slots) {
        free_machine(m);
        m = NULL;
    }
    if (!m)
        MR_TRY(new_machine(re, slots, &m));
    m->n_slots = slots;
    *out = m;
    return NULL;
}

static void give_machine(const mr_regex *re, machine *m)
{
    free_machine(atomic_exchange(&((mr_regex *)(uintptr_t)re)->spare, m));
}

/* ---- places in a text ---- */

static int what_holds(mr_sv s, size_t at)
{
    return mr_re_holding(at > 0 ? mr_re_neighbour_of((uint8_t)s.p[at - 1]) : MR_RE_EDGE,
                         at < s.n ? mr_re_neighbour_of((uint8_t)s.p[at]) : MR_RE_EDGE);
}

/* ---- threads ---- */

/* Adds a place of the program to the list; false if it is in the list already. */
static bool add_place(threads *t, int32_t at)
{
    int32_t i = t->index[at];
    if (i < t->n && t->at[i] == at)
        return false;
    t->index[at] = t->n;
    t->at[t->n++] = at;
    return true;
}

static void save_slot(machine *m, stack_entry *top, int *n, const mr_re_inst *i, size_t place)
{
    if (i->other < m->n_slots) { /* set back once all that follows has been looked at */
        top[(*n)++] = (stack_entry){0, i->other, m->saved[i->other]};
        m->saved[i->other] = place;
    }
    top[(*n)++] = (stack_entry){i->out, -1, 0};
}

/* Adds all places that can be reached from one without reading a byte to the list, preferred ones first. m->saved is
 * what the thread has saved; it is unchanged when this returns. */
static void follow_empty_edges(const mr_re_program *p, machine *m, threads *t, int32_t from, mr_sv s, size_t place)
{
    stack_entry *top = m->stack;
    int n = 0, holds = -1;
    top[n++] = (stack_entry){from, -1, 0};
    while (n > 0) {
        stack_entry e = top[--n];
        if (e.slot >= 0) {
            m->saved[e.slot] = e.old;
            continue;
        }
        const mr_re_inst *i = &p->code.p[e.at];
        if (!add_place(t, e.at))
            continue;
        switch (i->op) {
        case MR_RE_SPLIT:
            top[n++] = (stack_entry){i->other, -1, 0};
            top[n++] = (stack_entry){i->out, -1, 0};
            break;
        case MR_RE_SAVE: save_slot(m, top, &n, i, place); break;
        case MR_RE_HOLDS:
            holds = holds < 0 ? what_holds(s, place) : holds;
            if ((holds & i->other) == i->other)
                top[n++] = (stack_entry){i->out, -1, 0};
            break;
        default: /* waits here for a byte, or for the end */
            memcpy(t->saved + (size_t)e.at * (size_t)m->room, m->saved,
                   (size_t)m->n_slots * sizeof(size_t));
        }
    }
}

/* Every thread reads a byte, or at the end of the text none.  true when one has matched. */
static bool step_machine(const mr_re_program *p, machine *m, mr_sv s, size_t place, bool full)
{
    bool matched = false;
    m->then.n = 0;
    for (int32_t k = 0; k < m->now.n && !matched; k++) {
        int32_t at = m->now.at[k];
        const mr_re_inst *i = &p->code.p[at];
        size_t *saved = m->now.saved + (size_t)at * (size_t)m->room;
        if (i->op == MR_RE_MATCH && (!full || place == s.n)) {
            memcpy(m->best, saved, (size_t)m->n_slots * sizeof(size_t));
            matched = true; /* later threads have lower preference */
        } else if (i->op == MR_RE_BYTES && place < s.n && (uint8_t)s.p[place] >= i->lo &&
                   (uint8_t)s.p[place] <= i->hi) {
            memcpy(m->saved, saved, (size_t)m->n_slots * sizeof(size_t));
            follow_empty_edges(p, m, &m->then, i->out, s, place + 1);
        }
    }
    threads t = m->now;
    m->now = m->then;
    m->then = t;
    return matched;
}

static void start_thread(const mr_re_program *p, machine *m, mr_sv s, size_t place)
{
    for (int i = 0; i < m->n_slots; i++)
        m->saved[i] = NOWHERE;
    follow_empty_edges(p, m, &m->now, p->start, s, place);
}

/* The next place where a match may begin, when none has begun. */
static size_t find_start(const mr_re_program *p, mr_sv s, size_t place)
{
    if (p->any_first)
        return place;
    while (place < s.n && !p->first[(uint8_t)s.p[place]])
        place++;
    return place;
}

/* Runs all threads over the text. A thread starts at each place until a match is found; with `full`, only at the first.
 * */
static bool search_from(const mr_re_program *p, machine *m, mr_sv s, size_t from, bool full)
{
    bool found = false;
    m->now.n = 0;
    for (size_t place = from;; place++) {
        if (m->now.n == 0 && !found && !full)
            place = find_start(p, s, place);
        if (!found && (!full || place == from))
            start_thread(p, m, s, place); /* after all threads that began earlier */
        if (m->now.n == 0)
            return found;
        found |= step_machine(p, m, s, place, full);
        if (place >= s.n)
            return found;
    }
}

/* ---- the automaton ---- */

/* Asks a spare automaton, or a new one. */
static mr_re_answer ask_dfa(const mr_regex *re, mr_sv s, size_t from, bool full)
{
    _Atomic(mr_re_dfa *) *spare = &((mr_regex *)(uintptr_t)re)->spare_dfa[full];
    mr_re_dfa *d = atomic_exchange(spare, NULL);
    if (!d)
        d = mr_re_dfa_new(&re->program, full);
    if (!d)
        return MR_RE_TOO_LARGE;
    mr_re_answer a = mr_re_dfa_run(d, s, from);
    mr_re_dfa_free(atomic_exchange(spare, d));
    return a;
}

/* ---- the interface ---- */

mr_status *mr_regex_new(mr_sv pattern, mr_regex **out)
{
    mr_re_tree t = {0};
    mr_status *st = NULL;
    mr_regex *re = mr_new(mr_regex);
    MR_GO(mr_re_parse(pattern, &t));
    MR_GO(mr_re_compile(&t, &re->program));
    re->n_groups = t.n_groups;
    *out = re;
    re = NULL;
out:
    mr_re_tree_deinit(&t);
    mr_regex_free(re);
    return st;
}

void mr_regex_free(mr_regex *re)
{
    if (!re)
        return;
    free_machine(atomic_load(&re->spare));
    mr_re_dfa_free(atomic_load(&re->spare_dfa[0]));
    mr_re_dfa_free(atomic_load(&re->spare_dfa[1]));
    mr_vec_deinit(&re->program.code);
    mr_free(re);
}

int mr_regex_groups(const mr_regex *re) { return re->n_groups; }

mr_status *mr_regex_find(const mr_regex *re, mr_sv text, size_t from, mr_regex_match *m, int n,
                         bool *found)
{
    machine *x;
    int known = MR_MIN(n, re->n_groups + 1);
    if (ask_dfa(re, text, from, false) == MR_RE_NO) {
        *found = false;
        memset(m, 0, (size_t)n * sizeof *m);
        return NULL;
    }
    MR_TRY(take_machine(re, 2 * known, &x));
    *found = search_from(&re->program, x, text, from, false);
    for (int i = 0; i < n; i++) {
        bool is = *found && i < known && x->best[2 * i] != NOWHERE && x->best[2 * i + 1] != NOWHERE;
        m[i] = is ? (mr_sv){text.p + x->best[2 * i], x->best[2 * i + 1] - x->best[2 * i]}
                  : (mr_sv){NULL, 0};
    }
    give_machine(re, x);
    return NULL;
}

mr_status *mr_regex_is_full(const mr_regex *re, mr_sv text, bool *out)
{
    machine *x;
    mr_re_answer a = ask_dfa(re, text, 0, true);
    if (a != MR_RE_TOO_LARGE) {
        *out = a == MR_RE_YES;
        return NULL;
    }
    MR_TRY(take_machine(re, 0, &x));
    *out = search_from(&re->program, x, text, 0, true);
    give_machine(re, x);
    return NULL;
}

/* ---- replacing ---- */

/* The highest group number in a rewrite. */
static int rewrite_groups(mr_sv r)
{
    int most = 0;
    for (size_t i = 0; i + 1 < r.n; i++)
        if (r.p[i] == '\\') {
            i++;
            if (r.p[i] >= '0' && r.p[i] <= '9')
                most = MR_MAX(most, r.p[i] - '0');
        }
    return most;
}

/* false: no memory. A backslash before any other character ends the text and sets *bad. */
static bool append_rewrite(mr_sv r, const mr_regex_match *m, mr_str *out, bool *bad)
{
    *bad = false;
    for (size_t i = 0; i < r.n; i++) {
        mr_sv piece = {r.p + i, 1};
        if (r.p[i] == '\\') {
            i++;
            if (i < r.n && r.p[i] >= '0' && r.p[i] <= '9')
                piece = m[r.p[i] - '0'];
            else if (i < r.n && r.p[i] == '\\')
                piece = MR_SV("\\");
            else
                return *bad = true;
        }
        if (piece.n > 0 && !mr_str_try_append(out, piece.p, piece.n))
            return false;
    }
    return true;
}

static mr_status *append_or_fail(mr_str *out, const char *p, size_t n)
{
    return mr_str_try_append(out, p, n)
               ? NULL
               : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a string");
}

/* An empty match directly after the last one does not count: one character is skipped. */
static size_t passed_over(mr_sv text, size_t at)
{
    uint32_t c;
    size_t n = at < text.n ? mr_utf8_next(text.p + at, text.n - at, &c) : 0;
    return n > 0 && c == MR_NO_CODE ? 1 : n;
}

typedef struct replacing {
    const mr_regex *re;
    mr_sv text, by;
    int n_groups;
    mr_str *out;
    size_t at, last_end; /* last_end NOWHERE: no match yet */
} replacing;

/* Copies the text up to the next match, then its rewrite. *ended: there was no further match. */
static mr_status *replace_next(replacing *x, bool *ended)
{
    mr_regex_match m[10];
    bool found, bad;
    MR_TRY(mr_regex_find(x->re, x->text, x->at, m, x->n_groups, &found));
    *ended = !found;
    if (!found)
        return NULL;
    size_t start = (size_t)(m[0].p - x->text.p);
    MR_TRY(append_or_fail(x->out, x->text.p + x->at, start - x->at));
    if (m[0].n == 0 && start == x->last_end) {
        size_t n = passed_over(x->text, start);
        MR_TRY(append_or_fail(x->out, x->text.p + start, n));
        x->at = start + n;
        *ended = n == 0;
        return NULL;
    }
    if (!append_rewrite(x->by, m, x->out, &bad))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a string");
    x->at = x->last_end = start + m[0].n;
    return NULL;
}

/* Whether the first match can be replaced at all; RE2 leaves the text as it is when not. */
static bool rewrite_is_good(mr_sv by)
{
    for (size_t i = 0; i < by.n; i++)
        if (by.p[i] == '\\' && (++i == by.n || (by.p[i] != '\\' && !(by.p[i] >= '0' && by.p[i] <= '9'))))
            return false;
    return true;
}

mr_status *mr_regex_replace(const mr_regex *re, mr_sv text, mr_sv by, bool all, mr_str *out)
{
    replacing x = {re, text, by, rewrite_groups(by) + 1, out, 0, NOWHERE};
    bool ended = x.n_groups > re->n_groups + 1 || (!all && !rewrite_is_good(by));
    while (!ended && x.at <= text.n) {
        MR_TRY(replace_next(&x, &ended));
        ended |= !all;
    }
    return append_or_fail(out, text.p + x.at, text.n - x.at);
}
