/* ops/string/string_format.c -- StringFormat: prints tensors into the placeholders of a template. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/string/strings.h"

typedef struct form {
    mr_sv *pieces; /* the template's text between placeholders: one more than inputs */
    int n_pieces;
    char *text;    /* the memory that they point into */
    int64_t summarize;
} form;

static void count_pieces(mr_sv text, mr_sv mark, form *f)
{
    const char *at;
    f->n_pieces = 0;
    for (;; f->n_pieces++) {
        at = mark.n ? memmem(text.p, text.n, mark.p, mark.n) : NULL;
        if (f->pieces)
            f->pieces[f->n_pieces] = (mr_sv){text.p, at ? (size_t)(at - text.p) : text.n};
        if (!at)
            break;
        text = (mr_sv){at + mark.n, text.n - (size_t)(at - text.p) - mark.n};
    }
    f->n_pieces++;
}

static mr_status *check_pieces(const form *f, int n_in)
{
    return f->n_pieces == n_in + 1 ? NULL
                                   : mr_invalid("num placeholders in template and num inputs must match: %d vs. %d",
                                                f->n_pieces - 1, n_in);
}

static mr_status *init_format(mr_make *m, void *p)
{
    form *f = p;
    mr_sv text, mark;
    MR_TRY(mr_node_get_str(m->node, "template", &text));
    MR_TRY(mr_node_get_str(m->node, "placeholder", &mark));
    MR_TRY(mr_node_get_int(m->node, "summarize", &f->summarize));
    f->text = mr_strndup(text.p, text.n);
    text.p = f->text;
    count_pieces(text, mark, f);
    f->pieces = mr_new_array(mr_sv, f->n_pieces);
    count_pieces(text, mark, f);
    return check_pieces(f, m->node->n_in);
}

/* Checks the number of placeholders when the node is created. */
static mr_status *format_shape(mr_infer *c)
{
    form f = {0};
    mr_sv text, mark;
    MR_TRY(mr_node_get_str(c->node, "template", &text));
    MR_TRY(mr_node_get_str(c->node, "placeholder", &mark));
    count_pieces(text, mark, &f);
    MR_TRY(check_pieces(&f, c->n_in));
    return mr_shape_scalar(c);
}

static void deinit_format(void *p)
{
    form *f = p;
    mr_free(f->pieces);
    mr_free(f->text);
}

/* ---- a tensor as rows in brackets ---- */

static mr_status *print_element(const mr_tensor *flat, int64_t i, mr_str *out)
{
    const char *quote = flat->dtype == MR_STRING ? "\"" : "";
    mr_tensor *one;
    MR_TRY(mr_tensor_rows(flat, i, 1, &one));
    mr_str_appendz(out, quote);
    mr_tensor_summarize(one, -1, out);
    mr_str_appendz(out, quote);
    mr_tensor_unref(one);
    return NULL;
}

typedef struct printing {
    const mr_tensor *t, *flat;
    int64_t edge; /* how many entries to print at each end of a dimension */
    mr_str *out;
} printing;

/* Prints the separator between entries of dimension d: a space, or new lines and the indentation of its bracket. */
static void print_gap(const printing *p, int d)
{
    for (int k = d + 1; k < p->t->rank; k++)
        mr_str_appendc(p->out, '\n');
    for (int k = 0; k <= (d + 1 == p->t->rank ? 0 : d); k++)
        mr_str_appendc(p->out, ' ');
}

/* Prints dimension d of the part of `n` elements that starts at element `at`. */
static mr_status *print_part(const printing *p, int d, int64_t at, int64_t n)
{
    if (d == p->t->rank)
        return print_element(p->flat, at, p->out);
    int64_t count = p->t->dims[d], step = count ? n / count : 0;
    int64_t tail = MR_MAX(p->edge, count - p->edge);
    mr_str_appendc(p->out, '[');
    for (int64_t i = 0; i < count; i++) {
        if (i == p->edge && i < tail) {
            print_gap(p, d);
            mr_str_appendz(p->out, "...");
            i = tail;
        }
        if (i == count)
            break;
        if (i > 0)
            print_gap(p, d);
        MR_TRY(print_part(p, d + 1, at + i * step, step));
    }
    mr_str_appendc(p->out, ']');
    return NULL;
}

static mr_status *print_tensor(const mr_tensor *t, int64_t summarize, mr_str *out)
{
    mr_tensor *flat;
    MR_TRY(mr_tensor_view(t, t->dtype, 1, &t->n, &flat));
    printing p = {t, flat, summarize < 0 ? INT64_MAX : summarize, out};
    mr_status *st = print_part(&p, 0, 0, t->n);
    mr_tensor_unref(flat);
    return st;
}

static mr_status *run_format(mr_run *r)
{
    const form *f = r->state;
    mr_tensor *out;
    mr_str s = {0};
    mr_status *st = NULL;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    for (int i = 0; i < f->n_pieces; i++) {
        MR_GO(mr_string_add(&s, f->pieces[i].p, f->pieces[i].n));
        if (i < r->n_in)
            MR_GO(print_tensor(mr_in(r, i), f->summarize, &s));
    }
    MR_GO(mr_tensor_set_str(out, 0, mr_str_view(&s)));
out:
    mr_str_deinit(&s);
    return st;
}

MR_OP(StringFormat,
    .doc      = "a template whose placeholders are replaced by the values of tensors",
    .sig      = "inputs: T -> output: string",
    .attrs    = "T: list(type) >= 0; template: string = '%s'; placeholder: string = '%s'; "
                "summarize: int = 3",
    .flags    = MR_NO_GRADIENT,
    .shape    = format_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_format)),
    .state_bytes = sizeof(form), .init = init_format, .deinit = deinit_format,
    .examples = MR_EXAMPLES(
        "T=[int32] template=\"x = {}.\" placeholder=\"{}\": (int32[1, 2]) -> \"x = [1 2].\"",
        "T=[float, string]: (float 0.5, string[\"a\", \"b\"]) -> !INVALID_ARGUMENT num placeholders "
        "in template and num inputs must match: 1 vs. 2",
        "T=[float, string] template=\"%s, %s\": (float 0.5, string[\"a\", \"b\"]) -> "
        "\"0.5, [\\\"a\\\" \\\"b\\\"]\"",
        "T=[int32]: (int32[1, 2, 3, 4, 5, 6, 7, 8]) -> \"[1 2 3 ... 6 7 8]\"",
        "T=[int32] summarize=-1: (int32[1, 2, 3, 4, 5, 6, 7]) -> \"[1 2 3 4 5 6 7]\"",
        "T=[int32]: (int32[[1, 2], [3, 4]]) -> \"[[1 2]\\n [3 4]]\"",
        "T=[] template=\"plain\": () -> \"plain\"",
        "T=[bool] template=\"\": (bool true) -> !INVALID_ARGUMENT must match: 0 vs. 1"));
