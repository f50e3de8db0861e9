/* wire/json.h -- JSON read by a cursor, without a tree.
 *
 *     mr_json j;
 *     mr_json_init(&j, text);
 *     mr_json_begin(&j, '{');
 *     while (mr_json_key(&j, &key))
 *         if (strcmp(mr_str_z(&key), "tasks") == 0)
 *             n = mr_json_int(&j);
 *         else
 *             mr_json_skip(&j);
 *     return mr_json_status(&j, "TF_CONFIG");
 *
 * Keeps its first error; after it all loops end and all values are empty, so only the end needs a check.  Strict (RFC 8259),
 * at most 64 levels deep. */
#ifndef MR_WIRE_JSON_H
#define MR_WIRE_JSON_H

#include "base/str.h"

typedef struct mr_json {
    const char *begin, *at, *end;
    const char *error; /* a constant text */
    int depth;
    bool fresh; /* nothing of the innermost list or object was read yet */
} mr_json;

void mr_json_init(mr_json *j, mr_sv text);
/* INVALID_ARGUMENT "WHAT: bad JSON at byte 17: WHY"; also when something follows the value. */
mr_status *mr_json_status(mr_json *j, const char *what);

/* The kind of the next value: one of { [ " 0 (a number) t f n, or 0 after an error. */
char mr_json_peek(mr_json *j);
void mr_json_begin(mr_json *j, char bracket); /* '{' or '[' */
/* The next key of an object into `key`; false at its end, which is passed. */
bool mr_json_key(mr_json *j, mr_str *key);
/* There is one more element of a list; false at its end, which is passed. */
bool mr_json_more(mr_json *j);
void mr_json_string(mr_json *j, mr_str *out); /* UTF-8; escapes resolved, no NUL */
int64_t mr_json_int(mr_json *j);              /* a number without fraction and exponent */
double mr_json_number(mr_json *j);
bool mr_json_bool(mr_json *j);
void mr_json_skip(mr_json *j); /* a value of any kind */

/* Appends a string with quotes and escapes. */
void mr_json_quote(mr_str *out, mr_sv text);

#endif
