/* ops/parse/csv.c -- see csv.h. */
#include "ops/parse/csv.h"

typedef struct cursor {
    const mr_csv *csv;
    const char *at, *end;
    mr_str *text;
    bool include; /* the current field is wanted */
    bool failed;  /* out of memory */
} cursor;

static void put_char(cursor *c, char ch)
{
    if (c->include && !c->failed)
        c->failed = !mr_str_try_append(c->text, &ch, 1);
}

/* Reads up to the delimiter and skips it. */
static mr_status *plain_field(cursor *c)
{
    for (; c->at < c->end && *c->at != c->csv->delim; c->at++) {
        if ((c->csv->quotes && *c->at == '"') || *c->at == '\n' || *c->at == '\r')
            return mr_invalid("Unquoted fields cannot have quotes/CRLFs inside");
        put_char(c, *c->at);
    }
    c->at += c->at < c->end;
    return NULL;
}

/* The cursor is after the opening quote. */
static mr_status *quoted_field(cursor *c)
{
    char delim = c->csv->delim;
    while (c->end - c->at >= 2 && (c->at[0] != '"' || c->at[1] != delim)) {
        if (c->at[0] == '"' && c->at[1] != '"')
            return mr_invalid("Quote inside a string has to be escaped by another quote");
        put_char(c, c->at[0]);
        c->at += c->at[0] == '"' ? 2 : 1;
    }
    if (c->at == c->end || *c->at != '"')
        return mr_invalid("Quoted field has to end with quote followed by delim or end");
    c->at += c->end - c->at >= 2 ? 2 : 1;
    return NULL;
}

static bool is_wanted_column(const mr_csv *csv, const mr_csv_fields *out, int64_t column)
{
    return csv->n_cols == 0 || (out->ends.n < csv->n_cols && csv->cols[out->ends.n] == column);
}

mr_status *mr_csv_split(const mr_csv *csv, mr_sv record, mr_csv_fields *out)
{
    cursor c = {csv, record.p, record.p + record.n, &out->text, false, false};
    int64_t column = 0;
    mr_str_clear(&out->text);
    out->ends.n = 0;
    while (c.at < c.end) {
        if (*c.at == '\n' || *c.at == '\r') {
            c.at++;
            continue;
        }
        bool quoted = csv->quotes && *c.at == '"';
        c.include = is_wanted_column(csv, out, column++);
        c.at += quoted;
        MR_TRY(quoted ? quoted_field(&c) : plain_field(&c));
        if (c.include)
            mr_vec_push(&out->ends, out->text.n);
        if (csv->n_cols > 0 && out->ends.n == csv->n_cols)
            return NULL;
    }
    /* A delimiter at the very end is followed by one more, empty field. */
    if (record.n > 0 && record.p[record.n - 1] == csv->delim && is_wanted_column(csv, out, column))
        mr_vec_push(&out->ends, out->text.n);
    return c.failed ? mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the fields of a record") : NULL;
}

mr_sv mr_csv_field(const mr_csv_fields *f, int i)
{
    size_t begin = i > 0 ? f->ends.p[i - 1] : 0;
    return (mr_sv){mr_str_z(&f->text) + begin, f->ends.p[i] - begin};
}

void mr_csv_fields_deinit(mr_csv_fields *f)
{
    mr_str_deinit(&f->text);
    mr_vec_deinit(&f->ends);
}
