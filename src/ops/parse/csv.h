/* ops/parse/csv.h -- splits one record of comma-separated values as TensorFlow does (RFC 4180).
 *
 * A field may be quoted; then it may contain delimiters and line ends, and quotes as "".  Line ends
 * before a field are skipped. */
#ifndef MR_OPS_PARSE_CSV_H
#define MR_OPS_PARSE_CSV_H

#include "base/str.h"
#include "base/vec.h"

typedef struct mr_csv {
    char delim;
    bool quotes;         /* if false, a quote is an ordinary character */
    int n_cols;          /* 0: all columns */
    const int64_t *cols; /* the wanted columns, ascending, if n_cols > 0 */
} mr_csv;

typedef struct mr_csv_fields { /* all zeros: empty */
    mr_str text;               /* the text of all fields, without their quotes */
    MR_VEC(size_t) ends;       /* where each field ends in text */
} mr_csv_fields;

/* Reads the wanted fields of a record; INVALID_ARGUMENT if it is malformed. */
mr_status *mr_csv_split(const mr_csv *csv, mr_sv record, mr_csv_fields *out);
mr_sv mr_csv_field(const mr_csv_fields *f, int i);
void mr_csv_fields_deinit(mr_csv_fields *f);

#endif
