/* ops/linalg/einsum_spec.c -- parses and prints the terms of an Einsum's equation. */
#include "ops/linalg/einsum_spec.h"

#include <ctype.h>

#include "base/memory.h"

/* Parses the letters of one subscript. An ellipsis is three adjacent dots, at most once. */
static mr_status *parse_term(mr_sv equation, mr_sv term, mr_einsum_term *t)
{
    int dots = 0;
    const char *ellipsis = term.n ? memmem(term.p, term.n, "...", 3) : NULL;
    t->n = 0;
    t->dots = -1;
    for (size_t i = 0; i < term.n; i++)
        dots += term.p[i] == '.';
    if (dots != 0 && dots != 3)
        return mr_invalid("Expected at most one ellipsis (...), but found %d periods (.) in the input subscript: %.*s",
                          dots, MR_SV_ARG(term));
    if (dots == 3 && !ellipsis)
        return mr_invalid("Periods found outside of ellipsis in subscript: %.*s", MR_SV_ARG(term));
    for (size_t i = 0; i < term.n; i++) {
        unsigned char c = (unsigned char)term.p[i];
        if (c == ' ')
            continue;
        if (c == '.') {
            t->dots = t->n;
            i += 2;
        } else if (c < 128 && isalpha(c)) {
            if (t->n == MR_MAX_RANK)
                return mr_invalid("Einsum equation '%.*s': a subscript has more than %d labels", MR_SV_ARG(equation),
                                  MR_MAX_RANK);
            t->letters[t->n++] = c >= 'a' ? c - 'a' : 26 + c - 'A';
        } else {
            return mr_invalid("Einsum equation '%.*s': labels must be letters", MR_SV_ARG(equation));
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

/* Splits the equation at its one "->", and the part before that at its comma. */
mr_status *mr_einsum_parse(mr_sv e, int n_inputs, mr_einsum_spec *out)
{
    mr_sv terms[2];
    int n = 1;
    const char *arrow = e.n ? memmem(e.p, e.n, "->", 2) : NULL;
    if (!arrow || memmem(arrow + 2, (size_t)(e.p + e.n - arrow - 2), "->", 2))
        return mr_invalid("Expecting exactly one '->' in einsum equation: %.*s", MR_SV_ARG(e));
    terms[0] = (mr_sv){e.p, (size_t)(arrow - e.p)};
    for (const char *p = e.p; p < arrow; p++)
        if (*p == ',' && ++n == 2) {
            terms[0].n = (size_t)(p - e.p);
            terms[1] = (mr_sv){p + 1, (size_t)(arrow - p - 1)};
        }
    if (n > 2)
        return mr_invalid("Expecting 1 or 2 input subscripts in equation '%.*s' but got: %d", MR_SV_ARG(e), n);
    if (n_inputs < 1 || n_inputs > 2)
        return mr_invalid("Expected either 1 or 2 inputs but got: %d", n_inputs);
    if (n != n_inputs)
        return mr_invalid("Expected %d inputs for equation %.*s but got: %d", n, MR_SV_ARG(e), n_inputs);
    out->n_in = n;
    for (int i = 0; i < n; i++)
        MR_TRY(parse_term(e, terms[i], &out->in[i]));
    MR_TRY(parse_term(e, (mr_sv){arrow + 2, (size_t)(e.p + e.n - arrow - 2)}, &out->out));
    for (int i = 0; i < out->out.n; i++) {
        int l = out->out.letters[i];
        if (!has_letter(&out->in[0], l) && !(n == 2 && has_letter(&out->in[1], l)))
            return mr_invalid("Einsum output subscripts for equation '%.*s' has label '%c' which is not present in the "
                              "input subscripts",
                              MR_SV_ARG(e), l < 26 ? 'a' + l : 'A' + l - 26);
    }
    return NULL;
}

mr_status *mr_einsum_labels(const mr_einsum_term *t, int input, int rank, int *labels)
{
    int covered = rank - t->n;
    if (covered < 0 || (t->dots < 0 && covered > 0))
        return mr_invalid("Expected input %d to have rank %s%d but got: %d", input, t->dots < 0 ? "" : "at least ",
                          t->n, rank);
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
