/* ops/linalg/einsum_spec.c -- reads and writes the terms of an Einsum's equation. */
#include "ops/linalg/einsum_spec.h"

#include <ctype.h>

#include "base/memory.h"

static mr_status *bad(mr_sv equation, const char *what)
{
    return mr_invalid("Einsum equation '%.*s': %s", (int)MR_MIN(equation.n, 200), equation.p, what);
}

/* The term at *at, up to its end or to one of ",-". */
static mr_status *parse_term(mr_sv e, size_t *at, mr_einsum_term *t)
{
    t->n = 0;
    t->dots = -1;
    for (; *at < e.n && e.p[*at] != ',' && e.p[*at] != '-'; ++*at) {
        unsigned char c = (unsigned char)e.p[*at];
        if (c == ' ')
            continue;
        if (c == '.') {
            if (t->dots >= 0 || e.n - *at < 3 || e.p[*at + 1] != '.' || e.p[*at + 2] != '.')
                return bad(e, "a term may have one ellipsis, of three dots");
            t->dots = t->n;
            *at += 2;
        } else if (c < 128 && isalpha(c)) {
            if (t->n == MR_MAX_RANK)
                return bad(e, "a term has too many letters");
            t->letters[t->n++] = c >= 'a' ? c - 'a' : 26 + c - 'A';
        } else {
            return bad(e, "subscripts are letters");
        }
    }
    return NULL;
}

static bool has_letter(const mr_einsum_term *t, int letter)
{
    for (int i = 0; i < t->n; i++)
        if (t->letters[i] == letter)
            return true;
    return false;
}

mr_status *mr_einsum_parse(mr_sv e, int n_inputs, mr_einsum_spec *out)
{
    size_t at = 0;
    if (n_inputs != 1 && n_inputs != 2)
        return mr_invalid("Expecting 1 or 2 input operands to Einsum but got: %d", n_inputs);
    for (out->n_in = 0;;) {
        if (out->n_in == n_inputs)
            return bad(e, "it has more terms than there are inputs");
        MR_TRY(parse_term(e, &at, &out->in[out->n_in++]));
        if (at >= e.n || e.p[at] != ',')
            break;
        at++;
    }
    if (out->n_in != n_inputs)
        return bad(e, "it has fewer terms than there are inputs");
    if (e.n - at < 2 || e.p[at] != '-' || e.p[at + 1] != '>')
        return bad(e, "Expecting exactly one '->' in einsum equation");
    at += 2;
    MR_TRY(parse_term(e, &at, &out->out));
    if (at != e.n)
        return bad(e, "something follows the output's term");
    bool dots = out->in[0].dots >= 0 || (n_inputs == 2 && out->in[1].dots >= 0);
    if (out->out.dots >= 0 && !dots)
        return bad(e, "only the output has an ellipsis");
    for (int i = 0; i < out->out.n; i++)
        if (!has_letter(&out->in[0], out->out.letters[i]) &&
            !(n_inputs == 2 && has_letter(&out->in[1], out->out.letters[i])))
            return bad(e, "a letter of the output is in no input");
    return NULL;
}

mr_status *mr_einsum_labels(const mr_einsum_term *t, int rank, int *labels)
{
    int covered = rank - t->n;
    if (covered < 0 || (t->dots < 0 && covered > 0))
        return mr_invalid("Einsum: a term of %d subscripts%s does not fit an input of rank %d",
                          t->n, t->dots < 0 ? "" : " and an ellipsis", rank);
    for (int i = 0, letter = 0; i < rank; i++) {
        int inside = t->dots < 0 ? -1 : i - t->dots;
        labels[i] = inside >= 0 && inside < covered ? MR_EINSUM_DOTS + covered - 1 - inside
                                                    : t->letters[letter++];
    }
    return NULL;
}

void mr_einsum_print(const mr_einsum_term *t, mr_str *out)
{
    for (int i = 0; i <= t->n; i++) {
        if (t->dots == i)
            mr_str_append(out, "...", 3);
        if (i < t->n) {
            char c = (char)(t->letters[i] < 26 ? 'a' + t->letters[i] : 'A' + t->letters[i] - 26);
            mr_str_append(out, &c, 1);
        }
    }
}
