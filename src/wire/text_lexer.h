/* wire/text_lexer.h -- the tokens of protobuf's text format. */
#ifndef MR_WIRE_TEXT_LEXER_H
#define MR_WIRE_TEXT_LEXER_H

#include "base/str.h"

typedef enum mr_token_kind {
    MR_TOKEN_END,     /* of the text */
    MR_TOKEN_NAME,    /* a letter or _, then letters, digits, _ */
    MR_TOKEN_INTEGER, /* without a sign; 0x and a leading 0 as in C */
    MR_TOKEN_FLOAT,   /* without a sign; a final f belongs to it */
    MR_TOKEN_STRING,  /* with its quotes and escapes */
    MR_TOKEN_SYMBOL,  /* one character */
} mr_token_kind;

typedef struct mr_token {
    mr_token_kind kind;
    mr_sv text;
    int line, column; /* from 1; columns are bytes */
} mr_token;

typedef struct mr_lexer {
    const char *at, *end, *line_start;
    int line;
    mr_token token; /* the one the parser looks at */
} mr_lexer;

void mr_lexer_init(mr_lexer *l, mr_sv text); /* starts before the first token */
/* Moves to the next token.  Errors begin with "LINE:COLUMN: ". */
mr_status *mr_lexer_next(mr_lexer *l);

static inline bool mr_token_is(const mr_token *t, char symbol)
{
    return t->kind == MR_TOKEN_SYMBOL && t->text.p[0] == symbol;
}

/* Appends the value of a string token. */
mr_status *mr_token_unescape(const mr_token *t, mr_str *out);
/* The value of an integer token; false when it exceeds 64 bits or has digits it must not have. */
bool mr_token_to_u64(const mr_token *t, uint64_t *out);
/* The value of a float token, or of an integer token in decimal. */
bool mr_token_to_double(const mr_token *t, double *out);

#endif
