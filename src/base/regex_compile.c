/* base/regex_compile.c -- compiles a tree into a program over bytes.
 *
 * Code is generated from the end to the front: emit_node(node, next) returns where the code of the node starts; it
 * continues at `next`. A set of characters becomes the byte sequences of UTF-8; equal endings of these are shared, so
 * that a class of thousands of characters is some hundred instructions. */
#include "base/memory.h"
#include "base/regex_tree.h"

typedef struct compiler {
    mr_re_program *out;
    bool full;       /* the program is too large: its code is not used */
    int32_t *shared; /* open hash of instructions of sets: place + 1 */
    uint32_t n_shared, cap_shared;
} compiler;

static int32_t add_inst(compiler *c, mr_re_inst i)
{
    if (c->out->code.n >= MR_RE_MAX_PROGRAM) {
        c->full = true;
        return 0;
    }
    mr_vec_push(&c->out->code, i);
    return c->out->code.n - 1;
}

static int32_t add_split(compiler *c, int32_t out, int32_t other)
{
    return add_inst(c, (mr_re_inst){MR_RE_SPLIT, 0, 0, out, other});
}

/* ---- sharing ---- */

static uint32_t hash_inst(mr_re_inst i)
{
    uint64_t h = (uint64_t)i.op << 56 | (uint64_t)i.lo << 48 | (uint64_t)i.hi << 40;
    h = (h ^ (uint64_t)(uint32_t)i.out) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ (uint64_t)(uint32_t)i.other) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(h >> 32);
}

static bool same_inst(mr_re_inst a, mr_re_inst b)
{
    return a.op == b.op && a.lo == b.lo && a.hi == b.hi && a.out == b.out && a.other == b.other;
}

static void grow_shared(compiler *c)
{
    int32_t *old = c->shared;
    uint32_t n = c->cap_shared;
    c->cap_shared = n ? n * 2 : 256;
    c->shared = mr_new_array(int32_t, c->cap_shared);
    for (uint32_t i = 0; i < n; i++) {
        if (!old[i])
            continue;
        uint32_t at = hash_inst(c->out->code.p[old[i] - 1]) & (c->cap_shared - 1);
        while (c->shared[at])
            at = (at + 1) & (c->cap_shared - 1);
        c->shared[at] = old[i];
    }
    mr_free(old);
}

/* The instruction, made now or before. */
static int32_t add_shared(compiler *c, mr_re_inst i)
{
    if (2 * c->n_shared >= c->cap_shared)
        grow_shared(c);
    uint32_t at = hash_inst(i) & (c->cap_shared - 1);
    for (; c->shared[at]; at = (at + 1) & (c->cap_shared - 1))
        if (same_inst(c->out->code.p[c->shared[at] - 1], i))
            return c->shared[at] - 1;
    int32_t made = add_inst(c, i);
    if (!c->full) {
        c->shared[at] = made + 1;
        c->n_shared++;
    }
    return made;
}

/* ---- sets of characters ---- */

typedef struct sequence { /* byte ranges, one after the other */
    uint8_t n, lo[4], hi[4];
} sequence;

typedef MR_VEC(sequence) sequences;

/* All characters of several bytes, in few instructions; includes overlong ones, as in RE2. */
static void add_all_long(sequences *l)
{
    mr_vec_push(l, (sequence){2, {0xc2, 0x80}, {0xdf, 0xbf}});
    mr_vec_push(l, (sequence){3, {0xe0, 0x80, 0x80}, {0xef, 0xbf, 0xbf}});
    mr_vec_push(l, (sequence){4, {0xf0, 0x80, 0x80, 0x80}, {0xf4, 0xbf, 0xbf, 0xbf}});
}

/* By hand, because surrogates may be part of a range. */
static uint8_t encode_utf8(uint32_t c, uint8_t out[4])
{
    uint8_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)(n == 1 ? c : (0xf00u >> n | c));
    return n;
}

/* Splits a range where the number of bytes changes, and so that all bytes after the first one that differs take all
 * values. */
static void add_sequences(sequences *l, uint32_t lo, uint32_t hi)
{
    static const uint32_t ends[] = {0x7f, 0x7ff, 0xffff};
    for (int i = 0; i < 3; i++)
        if (lo <= ends[i] && hi > ends[i]) {
            add_sequences(l, lo, ends[i]);
            lo = ends[i] + 1;
            if (i == 0 && lo == 0x80 && hi == MR_MAX_CODE) {
                add_all_long(l);
                return;
            }
        }
    for (int i = 1; i < 4 && lo > 0x7f; i++) {
        uint32_t m = (1u << 6 * i) - 1;
        if ((lo & ~m) == (hi & ~m))
            continue;
        if (lo & m) {
            add_sequences(l, lo, lo | m);
            add_sequences(l, (lo | m) + 1, hi);
            return;
        }
        if ((hi & m) != m) {
            add_sequences(l, lo, (hi & ~m) - 1);
            add_sequences(l, hi & ~m, hi);
            return;
        }
    }
    sequence s;
    encode_utf8(lo, s.lo);
    s.n = encode_utf8(hi, s.hi);
    mr_vec_push(l, s);
}

/* Code for bytes `depth` and on of those sequences, which are the same up to there. */
static int32_t emit_sequences(compiler *c, const sequence *s, int n, int depth, int32_t next)
{
    int32_t all = -1;
    for (int end = n; end > 0 && !c->full;) {
        const sequence *last = &s[end - 1];
        int from = end - 1;
        while (from > 0 && s[from - 1].lo[depth] == last->lo[depth] &&
               s[from - 1].hi[depth] == last->hi[depth] && s[from - 1].n == last->n)
            from--;
        int32_t then = last->n == depth + 1
                           ? next
                           : emit_sequences(c, s + from, end - from, depth + 1, next);
        int32_t one = add_shared(
            c, (mr_re_inst){MR_RE_BYTES, last->lo[depth], last->hi[depth], then, 0});
        all = all < 0 ? one : add_shared(c, (mr_re_inst){MR_RE_SPLIT, 0, 0, one, all});
        end = from;
    }
    return all;
}

static int32_t emit_set(compiler *c, const mr_re_node *n, int32_t next)
{
    sequences l = {0};
    for (int i = 0; i < n->n_ranges; i++)
        add_sequences(&l, n->ranges[i].lo, n->ranges[i].hi);
    int32_t at = l.n ? emit_sequences(c, l.p, l.n, 0, next) : add_inst(c, (mr_re_inst){.op = MR_RE_FAIL});
    mr_vec_deinit(&l);
    return at;
}

/* ---- everything else ---- */

static int32_t emit_node(compiler *c, const mr_re_node *n, int32_t next);

static int32_t add_choice(compiler *c, bool lazy, int32_t body, int32_t next)
{
    return lazy ? add_split(c, next, body) : add_split(c, body, next);
}

/* One time or more. */
static int32_t emit_loop(compiler *c, const mr_re_node *n, int32_t next)
{
    int32_t at = add_choice(c, n->lazy, next, next);
    if (c->full)
        return 0;
    int32_t body = emit_node(c, n->child[0], at);
    *(n->lazy ? &c->out->code.p[at].other : &c->out->code.p[at].out) = body;
    return body;
}

/* Any number of times.  A body that may be empty needs a second choice, or that order of preference
 * would get lost in which an empty round is left. */
static int32_t emit_star(compiler *c, const mr_re_node *n, int32_t next)
{
    if (mr_re_nullable(n->child[0]))
        return add_choice(c, n->lazy, emit_loop(c, n, next), next);
    int32_t at = add_choice(c, n->lazy, next, next);
    if (c->full)
        return 0;
    int32_t body = emit_node(c, n->child[0], at);
    *(n->lazy ? &c->out->code.p[at].other : &c->out->code.p[at].out) = body;
    return at;
}

static int32_t emit_repeat(compiler *c, const mr_re_node *n, int32_t next)
{
    int32_t at = next;
    int copies = n->min;
    if (n->max < 0) {
        at = n->min == 0 ? emit_star(c, n, next) : emit_loop(c, n, next);
        copies = MR_MAX(n->min - 1, 0);
    }
    for (int i = n->min; i < n->max && !c->full; i++) /* x(x(x)?)? */
        at = add_choice(c, n->lazy, emit_node(c, n->child[0], at), next);
    for (int i = 0; i < copies && !c->full; i++)
        at = emit_node(c, n->child[0], at);
    return at;
}

static int32_t emit_group(compiler *c, const mr_re_node *n, int32_t next)
{
    int32_t end = add_inst(c, (mr_re_inst){MR_RE_SAVE, 0, 0, next, 2 * n->index + 1});
    int32_t body = emit_node(c, n->child[0], end);
    return add_inst(c, (mr_re_inst){MR_RE_SAVE, 0, 0, body, 2 * n->index});
}

/* Returns where the code for the node starts. After the program has become too large (c->full), nothing is emitted. */
static int32_t emit_node(compiler *c, const mr_re_node *n, int32_t next)
{
    int32_t at = next;
    if (c->full)
        return 0;
    switch (n->kind) {
    case MR_RE_EMPTY: return next;
    case MR_RE_SET: return emit_set(c, n, next);
    case MR_RE_BYTE: return add_inst(c, (mr_re_inst){MR_RE_BYTES, 0, 255, next, 0});
    case MR_RE_ASSERT: return add_inst(c, (mr_re_inst){MR_RE_HOLDS, 0, 0, next, n->flags});
    case MR_RE_GROUP: return emit_group(c, n, next);
    case MR_RE_REPEAT: return emit_repeat(c, n, next);
    case MR_RE_CAT:
        for (int i = n->n - 1; i >= 0; i--)
            at = emit_node(c, n->child[i], at);
        return at;
    case MR_RE_ALT:
        at = emit_node(c, n->child[n->n - 1], next);
        for (int i = n->n - 2; i >= 0; i--)
            at = add_split(c, emit_node(c, n->child[i], next), at);
        return at;
    }
    return next;
}

/* ---- the first byte of a match ---- */

/* Finds the bytes that a match can begin with, so that a search can skip others. Empty matches and assertions allow any
 * byte. */
static void find_first(mr_re_program *p)
{
    bool *seen = mr_new_array(bool, p->code.n);
    MR_VEC(int32_t) todo = {0};
    mr_vec_push(&todo, p->start);
    while (todo.n > 0) {
        int32_t at = mr_vec_pop(&todo);
        const mr_re_inst *i = &p->code.p[at];
        if (seen[at])
            continue;
        seen[at] = true;
        if (i->op == MR_RE_MATCH || i->op == MR_RE_HOLDS)
            p->any_first = true;
        if (i->op == MR_RE_BYTES)
            memset(p->first + i->lo, true, (size_t)(i->hi - i->lo) + 1);
        if (i->op == MR_RE_SPLIT)
            mr_vec_push(&todo, i->other);
        if (i->op == MR_RE_SPLIT || i->op == MR_RE_SAVE)
            mr_vec_push(&todo, i->out);
    }
    mr_vec_deinit(&todo);
    mr_free(seen);
}

mr_status *mr_re_compile(const mr_re_tree *t, mr_re_program *out)
{
    compiler c = {.out = out};
    int32_t end = add_inst(&c, (mr_re_inst){.op = MR_RE_MATCH});
    end = add_inst(&c, (mr_re_inst){MR_RE_SAVE, 0, 0, end, 1});
    int32_t body = emit_node(&c, t->root, end);
    out->start = add_inst(&c, (mr_re_inst){MR_RE_SAVE, 0, 0, body, 0});
    mr_free(c.shared);
    if (c.full)
        return mr_invalid("pattern too large - compile failed");
    find_first(out);
    return NULL;
}
