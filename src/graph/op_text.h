/* graph/op_text.h -- the cursor over an op's text, and the values of attr defaults; private to graph/. */
#ifndef MR_GRAPH_OP_TEXT_H
#define MR_GRAPH_OP_TEXT_H

#include "graph/op.h"

/* Each function moves *s past the text it read, and skips space before it. */
void mr_spec_space(mr_sv *s);
bool mr_spec_eat(mr_sv *s,
                 const char *token); /* false if it does not follow; then only space is skipped */
char mr_spec_peek(mr_sv *s);         /* '\0' at the end */
mr_sv mr_spec_word(mr_sv *s);        /* letters, digits and '_'; may be empty */
mr_status *mr_spec_string(mr_sv *s, mr_arena *a,
                          mr_sv *out); /* in either quotes, with C's escapes */

/* A default value of this kind (op_value.c).  Single numbers, bools and types need no arena. */
mr_status *mr_spec_value(mr_sv *s, mr_arena *a, mr_attr_kind kind, bool is_list, mr_attr *out);

mr_attr_kind mr_attr_kind_from_name(mr_sv name); /* "int", not "list(int)"; MR_ATTR_NONE */

#endif
