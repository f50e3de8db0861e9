/* base/regex_tree.h -- shared by the parts of regex: the tree of a pattern, and the program made from it. */
#ifndef MR_BASE_REGEX_TREE_H
#define MR_BASE_REGEX_TREE_H

#include "base/arena.h"
#include "base/regex.h"
#include "base/unicode.h"
#include "base/vec.h"

enum {
    MR_RE_MAX_REPEAT = 1000,
    MR_RE_MAX_DEPTH = 1000,   /* groups in groups: code walks the tree by recursion */
    MR_RE_MAX_PROGRAM = 170000 /* instructions; about what RE2 makes in its 8 MB */
};

/* ---- sets of characters ---- */

typedef struct mr_re_range {
    uint32_t lo, hi;
} mr_re_range;

typedef struct mr_re_set {
    MR_VEC(mr_re_range) r; /* in any order until mr_re_set_tidy */
} mr_re_set;

void mr_re_set_add(void *set, uint32_t lo, uint32_t hi);
void mr_re_set_tidy(mr_re_set *s);   /* sorted, none touching another */
void mr_re_set_fold(mr_re_set *s);   /* adds what differs only in case; tidies */
void mr_re_set_negate(mr_re_set *s); /* of all code points; tidies */
/* Adds a class of Perl ("\\d") or of POSIX ("[:alpha:]"); false: no such class. */
bool mr_re_set_named(mr_re_set *s, mr_sv name);

/* ---- the tree; all of it in the parser's arena ---- */

typedef enum mr_re_kind {
    MR_RE_EMPTY,
    MR_RE_SET,     /* one character of a set */
    MR_RE_BYTE,    /* any byte: \C */
    MR_RE_CAT,
    MR_RE_ALT,
    MR_RE_REPEAT,  /* child 0, min..max times; max -1: any number */
    MR_RE_GROUP,   /* child 0, number `index` */
    MR_RE_ASSERT,  /* `flags` of mr_re_place hold here */
} mr_re_kind;

enum mr_re_place { /* what can hold at a place in a text */
    MR_RE_BEGIN_LINE = 1,
    MR_RE_END_LINE = 2,
    MR_RE_BEGIN_TEXT = 4,
    MR_RE_END_TEXT = 8,
    MR_RE_WORD_EDGE = 16,
    MR_RE_NO_WORD_EDGE = 32,
};

typedef struct mr_re_node mr_re_node;
struct mr_re_node {
    mr_re_kind kind;
    bool lazy;           /* of a repetition */
    int min, max;
    int index, flags;
    int weight;          /* the largest product of repetitions from here down */
    int n;
    mr_re_node **child;
    int n_ranges;
    mr_re_range *ranges; /* tidy */
};

typedef struct mr_re_tree {
    mr_arena arena;
    mr_re_node *root;
    int n_groups;
} mr_re_tree;

/* A zeroed tree is an empty one; deinit after errors too. */
mr_status *mr_re_parse(mr_sv pattern, mr_re_tree *out);
void mr_re_tree_deinit(mr_re_tree *t);
/* Matches the empty string, perhaps only at some places. */
bool mr_re_nullable(const mr_re_node *n);

/* ---- the program, over bytes ---- */

typedef enum mr_re_op {
    MR_RE_FAIL,
    MR_RE_MATCH,
    MR_RE_SPLIT,   /* out is tried first, then other */
    MR_RE_BYTES,   /* a byte of lo..hi */
    MR_RE_SAVE,    /* the place into slot `other` */
    MR_RE_HOLDS,   /* flags `other` hold */
} mr_re_op;

typedef struct mr_re_inst {
    uint8_t op, lo, hi;
    int32_t out, other;
} mr_re_inst;

typedef struct mr_re_program {
    MR_VEC(mr_re_inst) code;
    int32_t start;
    bool first[256]; /* bytes a match may begin with */
    bool any_first;  /* it may begin anywhere: with nothing, or where something holds */
} mr_re_program;

/* INVALID_ARGUMENT "pattern too large - compile failed". */
mr_status *mr_re_compile(const mr_re_tree *t, mr_re_program *out);

#endif
