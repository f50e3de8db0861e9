/* base/regex_dfa.h -- whether a text matches, by an automaton that is made while it runs.
 *
 * It tells only whether there is a match, not where; so one table look-up a byte is enough. */
#ifndef MR_BASE_REGEX_DFA_H
#define MR_BASE_REGEX_DFA_H

#include "base/regex_tree.h"

typedef struct mr_re_dfa mr_re_dfa;

typedef enum mr_re_answer {
    MR_RE_NO,
    MR_RE_YES,
    MR_RE_TOO_LARGE, /* or no memory: the question is open, and will be for other texts */
} mr_re_answer;

/* An automaton for full matches, or for matches that begin anywhere. The program is borrowed. NULL without memory, or
 * when the program is too large for it to pay. Used by one thread at a time. */
mr_re_dfa *mr_re_dfa_new(const mr_re_program *p, bool full);
void mr_re_dfa_free(mr_re_dfa *d); /* NULL is fine */
/* Is there a match at or after `from`; for a full match, of all from there on? */
mr_re_answer mr_re_dfa_run(mr_re_dfa *d, mr_sv s, size_t from);

/* What holds between two characters, given as mr_re_neighbour. */
typedef enum mr_re_neighbour { MR_RE_EDGE, MR_RE_NEWLINE, MR_RE_WORD, MR_RE_OTHER } mr_re_neighbour;
mr_re_neighbour mr_re_neighbour_of(uint8_t c);
int mr_re_holding(mr_re_neighbour before, mr_re_neighbour after);

#endif
