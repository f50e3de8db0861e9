/* base/regex.h -- regular expressions in the syntax and with the meaning of RE2.
 *
 * Matching takes time linear in the text and memory linear in the pattern, for any input: there is no backtracking, and
 * so no back references and no lookaround. Text and pattern are UTF-8; a byte of the text that is not part of a
 * character matches only \C. */
#ifndef MR_BASE_REGEX_H
#define MR_BASE_REGEX_H

#include "base/str.h"

typedef struct mr_regex mr_regex;

/* INVALID_ARGUMENT with the message of RE2: "missing ): (a"; RESOURCE_EXHAUSTED. */
mr_status *mr_regex_new(mr_sv pattern, mr_regex **out);
void mr_regex_free(mr_regex *re); /* NULL is fine */
int mr_regex_groups(const mr_regex *re); /* without the whole match */

/* Where a group matched; p NULL: it did not. */
typedef mr_sv mr_regex_match;

/* The leftmost match at or after `from`, of several, the one that the pattern prefers, as in Perl. m[0] is the whole
 * match, m[i] group i, for the first n of them. *found: whether there is a match. RESOURCE_EXHAUSTED. May be called
 * from several threads. */
mr_status *mr_regex_find(const mr_regex *re, mr_sv text, size_t from, mr_regex_match *m, int n,
                         bool *found);
/* The whole text matches. */
mr_status *mr_regex_is_full(const mr_regex *re, mr_sv text, bool *out);
/* Puts text at the end of out, with the first or all matches replaced by `rewrite`, in which \0 to \9 are groups and \\
 * a backslash. A rewrite with a group that does not exist changes nothing. */
mr_status *mr_regex_replace(const mr_regex *re, mr_sv text, mr_sv rewrite, bool all, mr_str *out);

#endif
