/* ops/string/regex_ops.c -- RegexFullMatch, RegexReplace, and their forms with a fixed pattern.
 *
 * A pattern that is an input is nearly always the same, so the last compiled one is kept. */
#include "base/memory.h"
#include "base/regex.h"
#include "graph/infer.h"
#include "ops/string/strings.h"

/* ---- patterns ---- */

typedef struct shared_regex {
    mr_refs refs;
    mr_regex *re;
    mr_str pattern;
} shared_regex;

typedef struct matching {
    bool all;          /* replace_global */
    mr_str rewrite;    /* only in the static form */
    mr_mutex mu;
    bool ready;        /* mu is initialized */
    shared_regex *last MR_GUARDED_BY(mu);
} matching;

static void drop_regex(shared_regex *s)
{
    if (!s || !mr_refs_drop(&s->refs))
        return;
    mr_regex_free(s->re);
    mr_str_deinit(&s->pattern);
    mr_free(s);
}

static mr_status *make_regex(mr_sv pattern, shared_regex **out)
{
    mr_regex *re;
    mr_status *st = mr_regex_new(pattern, &re);
    if (st)
        return mr_status_prepend(st, "Invalid pattern: %.*s, error: ", (int)MR_MIN(pattern.n, 1000),
                                 pattern.p);
    shared_regex *s = mr_new(shared_regex);
    mr_refs_init(&s->refs);
    s->re = re;
    mr_str_append(&s->pattern, pattern.p, pattern.n);
    *out = s;
    return NULL;
}

static shared_regex *last_regex(matching *m)
{
    mr_lock(&m->mu);
    shared_regex *s = m->last;
    if (s)
        mr_refs_take(&s->refs);
    mr_unlock(&m->mu);
    return s;
}

static void keep_regex(matching *m, shared_regex *s)
{
    mr_refs_take(&s->refs);
    mr_lock(&m->mu);
    shared_regex *old = m->last;
    m->last = s;
    mr_unlock(&m->mu);
    drop_regex(old);
}

/* Returns the compiled pattern, from the cache if it is the last one; the caller drops the reference. */
static mr_status *regex_for(matching *m, mr_sv pattern, shared_regex **out)
{
    *out = last_regex(m);
    if (*out && mr_sv_eq(mr_str_view(&(*out)->pattern), pattern))
        return NULL;
    drop_regex(*out);
    MR_TRY(make_regex(pattern, out));
    keep_regex(m, *out);
    return NULL;
}

static mr_status *init_matching(mr_make *m, void *p)
{
    matching *x = p;
    const mr_attr *all = mr_node_attr(m->node, "replace_global");
    mr_mutex_init(&x->mu);
    x->ready = true;
    x->all = all && all->b;
    return NULL;
}

/* The static forms have their pattern as an attr, so it is compiled when the kernel is created. */
static mr_status *init_static(mr_make *m, void *p)
{
    matching *x = p;
    mr_sv pattern;
    MR_TRY(init_matching(m, p));
    MR_TRY(mr_node_get_str(m->node, "pattern", &pattern));
    const mr_attr *rewrite = mr_node_attr(m->node, "rewrite");
    if (rewrite)
        mr_str_append(&x->rewrite, rewrite->s.p, rewrite->s.n);
    return make_regex(pattern, &x->last);
}

static void deinit_matching(void *p)
{
    matching *x = p;
    drop_regex(x->last);
    mr_str_deinit(&x->rewrite);
    if (x->ready)
        mr_mutex_deinit(&x->mu);
}

static mr_status *pattern_of(mr_run *r, shared_regex **out)
{
    const mr_tensor *t = mr_in(r, 1);
    if (t->rank != 0)
        return mr_invalid("Pattern must be scalar, but received %s", MR_TENSOR_SHAPE(t));
    return regex_for(r->state, mr_tensor_str_at(t, 0), out);
}

/* ---- matching ---- */

static mr_status *match_all(mr_run *r, const mr_regex *re)
{
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, in->rank, in->dims, &out));
    for (int64_t i = 0; i < in->n; i++)
        MR_TRY(mr_regex_is_full(re, mr_tensor_str_at(in, i), &MR_DATA(bool, out)[i]));
    return NULL;
}

static mr_status *run_match(mr_run *r)
{
    shared_regex *s;
    MR_TRY(pattern_of(r, &s));
    mr_status *st = match_all(r, s->re);
    drop_regex(s);
    return st;
}

static mr_status *run_static_match(mr_run *r)
{
    return match_all(r, ((matching *)r->state)->last->re);
}

static mr_status *match_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    c->out[0] = c->in[0];
    return NULL;
}

#define STATE .state_bytes = sizeof(matching), .deinit = deinit_matching, .flags = MR_NO_GRADIENT
MR_OP(RegexFullMatch,
    .doc      = "whether each string as a whole matches a pattern of RE2",
    .sig      = "input: string, pattern: string -> output: bool",
    .shape    = match_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_match)), STATE, .init = init_matching,
    .examples = MR_EXAMPLES(
        "[\"abaaba\", \"abcdabcde\"], \"a.*a\" -> [true, false]", "\"x\", \"\" -> false",
        "\"\xc3\xa4\", \".\" -> true", "\"\xff\", \".\" -> false", "\"Ab\", \"(?i)aB\" -> true",
        "\"\xce\xb1\", \"\\\\p{Greek}\" -> true", "shape(0,2), \"a\" -> shape(0,2)",
        "\"a\", [\"a\"] -> !INVALID_ARGUMENT must be rank 0",
        "\"a\", \"a**\" -> !INVALID_ARGUMENT Invalid pattern: a**, error: bad repetition operator: **",
        "\"a\", \"(a\" -> !INVALID_ARGUMENT Invalid pattern: (a, error: missing ): (a"));
MR_OP(StaticRegexFullMatch,
    .doc      = "RegexFullMatch with a pattern that is fixed",
    .sig      = "input: string -> output: bool",
    .attrs    = "pattern: string",
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_static_match)), STATE, .init = init_static,
    .examples = MR_EXAMPLES(
        "pattern=\"a.*a\": [\"abaaba\", \"abcdabcde\"] -> [true, false]",
        "pattern=\"a\": shape(0,2) -> shape(0,2)",
        "pattern=\"[b\": \"a\" -> !INVALID_ARGUMENT Invalid pattern: [b, error: missing ]: [b"));

/* ---- replacing ---- */

typedef struct replacing {
    const mr_regex *re;
    mr_sv rewrite;
    bool all;
} replacing;

static mr_status *replace_matches(void *ctx, mr_sv in, mr_str *out)
{
    const replacing *x = ctx;
    return mr_regex_replace(x->re, in, x->rewrite, x->all, out);
}

static mr_status *run_replace(mr_run *r)
{
    const mr_tensor *rewrite = mr_in(r, 2);
    shared_regex *s;
    if (rewrite->rank != 0)
        return mr_invalid("Rewrite must be scalar, but received %s", MR_TENSOR_SHAPE(rewrite));
    MR_TRY(pattern_of(r, &s));
    replacing x = {s->re, mr_tensor_str_at(rewrite, 0), ((matching *)r->state)->all};
    mr_status *st = mr_map_strings(r, replace_matches, &x);
    drop_regex(s);
    return st;
}

static mr_status *run_static_replace(mr_run *r)
{
    const matching *m = r->state;
    replacing x = {m->last->re, mr_str_view(&m->rewrite), m->all};
    return mr_map_strings(r, replace_matches, &x);
}

static mr_status *replace_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    return match_shape(c);
}

MR_OP(RegexReplace,
    .doc      = "matches of a pattern of RE2 replaced by a text, in which \\1 to \\9 are its groups",
    .sig      = "input: string, pattern: string, rewrite: string -> output: string",
    .attrs    = "replace_global: bool = true",
    .shape    = replace_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_replace)), STATE, .init = init_matching,
    .examples = MR_EXAMPLES(
        "[\"abaabbb\", \"x\"], \"a\", \"<\\\\0>\" -> [\"<a>b<a><a>bbb\", \"x\"]",
        "replace_global=false: \"aa\", \"a\", \"b\" -> \"ba\"",
        "\"key=value\", \"(\\\\w+)=(\\\\w+)\", \"\\\\2:\\\\1\" -> \"value:key\"",
        "\"abc\", \"\", \"-\" -> \"-a-b-c-\"", "\"aa\", \"a*?\", \"-\" -> \"-a-a-\"",
        "\"aa\", \"a\", \"\\\\1\" -> \"aa\"", "\"\", \"x*\", \"y\" -> \"y\"",
        "\"\xc3\xa4\x62\", \"\", \".\" -> \".\xc3\xa4.b.\"", "shape(0), \"a\", \"b\" -> shape(0)",
        "\"a\", \"a\", [\"b\"] -> !INVALID_ARGUMENT must be rank 0",
        "\"a\", \"\\\\\", \"b\" -> !INVALID_ARGUMENT Invalid pattern: \\, error: trailing \\"));
MR_OP(StaticRegexReplace,
    .doc      = "RegexReplace with pattern and rewrite that are fixed",
    .sig      = "input: string -> output: string",
    .attrs    = "pattern: string; rewrite: string; replace_global: bool = true",
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_static_replace)), STATE, .init = init_static,
    .examples = MR_EXAMPLES(
        "pattern=\"[^a-z]\" rewrite=\"\": [\"a1b2\", \"\"] -> [\"ab\", \"\"]",
        "pattern=\"b+\" rewrite=\"x\" replace_global=false: \"abbabb\" -> \"axabb\"",
        "pattern=\"a{1001}\" rewrite=\"\": \"a\" -> !INVALID_ARGUMENT invalid repetition size: {1001}"));
