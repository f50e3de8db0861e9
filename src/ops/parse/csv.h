/* ops/parse/csv.h -- one record of comma-separated values, taken apart as TensorFlow does (RFC 4180).
 *
 * A field may stand in quotes; then it may hold delimiters and line ends, and quotes as "".  Line ends
 * before a field are passed over. */
#ifndef MR_OPS_PARSE_CSV_H
#define MR_OPS_PARSE_CSV_H

#include "base/str.h"
#include "base/vec.h"

typedef struct mr_csv {
    char delim;
    bool quotes;         /* else a quote is a character like others */
    int n_cols;          /* 0: all columns */
    const int64_t *cols; /* else these, ascending */
} mr_csv;

typedef struct mr_csv_fields { /* all zeros: empty */
    mr_str text;               /* of all fields, without their quotes */
    MR_VEC(size_t) ends;       /* of each in text */
} mr_csv_fields;

/* The wanted fields of a record.  INVALID_ARGUMENT. */
mr_status *mr_csv_split(const mr_csv *csv, mr_sv record, mr_csv_fields *out);
mr_sv mr_csv_field(const mr_csv_fields *f, int i);
void mr_csv_fields_deinit(mr_csv_fields *f);

#endif
