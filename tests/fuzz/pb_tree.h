/* tests/fuzz/pb_tree.h -- a protobuf message as a tree that can be changed and written again.
 *
 * Randomly damaged bytes are mostly not a valid message, so they only test the first lines of a parser. A tree is
 * changed field by field, according to the message's descriptor, and lengths are recomputed: the result is well-formed,
 * so it reaches the code that uses the fields. A few changes are deliberately inconsistent (a wrong length, a wrong
 * wire type). */
#ifndef MR_TESTS_FUZZ_PB_TREE_H
#define MR_TESTS_FUZZ_PB_TREE_H

#include "base/arena.h"
#include "base/vec.h"
#include "tests/fuzz/random.h"
#include "wire/reflect.h"

typedef struct fuzz_item { /* one field */
    struct fuzz_item *next;
    struct fuzz_item *child;                 /* of a message: its first field */
    const mr_field *f;                       /* NULL: the descriptor does not know it */
    const ProtobufCMessageDescriptor *owner; /* of the message the field is in */
    uint32_t number, wire;
    bool message;
    uint64_t v;  /* varint, fixed32, fixed64 */
    mr_sv bytes; /* string, bytes, packed numbers, or bytes that could not be parsed */
    size_t size; /* of the content, while writing */
    int lie;     /* added to the length that is written */
} fuzz_item;

typedef struct fuzz_tree fuzz_tree;
struct fuzz_tree {
    mr_arena arena;
    const ProtobufCMessageDescriptor *d;
    fuzz_item root;             /* a message without a tag */
    MR_VEC(fuzz_item **) links; /* pointers to the items; maintained by fuzz_tree_list */
};

/* A target's knowledge of its messages. */
typedef struct fuzz_words {
    /* A valid value for this field, or false. */
    bool (*word)(fuzz_rng *r, const fuzz_tree *t, const fuzz_item *at, mr_sv *out);
    /* Changing or removing this field nearly always makes the message useless: it is done only occasionally. */
    bool (*brittle)(const fuzz_item *at, bool value);
    /* Called after this field was duplicated: makes the copy differ from the original where needed. */
    void (*copied)(fuzz_rng *r, fuzz_tree *t, fuzz_item *copy);
} fuzz_words;

void fuzz_tree_parse(fuzz_tree *t, const ProtobufCMessageDescriptor *d, mr_sv bytes);
void fuzz_tree_deinit(fuzz_tree *t);
void fuzz_tree_write(fuzz_tree *t, mr_str *out);

/* Makes one change; donor (may be NULL) is another tree of the same type, whose parts may be used. */
void fuzz_tree_change(fuzz_rng *r, fuzz_tree *t, fuzz_tree *donor, const fuzz_words *words);

/* The field of that name of a message of that name. */
bool fuzz_item_is(const fuzz_item *i, const char *message, const char *field);
/* Some item with this field of its message, other than `not`; NULL when there is none. */
fuzz_item *fuzz_tree_find(fuzz_rng *r, const fuzz_tree *t, const mr_field *f,
                          const fuzz_item * not );
/* Lists all items again. */
void fuzz_tree_list(fuzz_tree *t);

/* A message of text format, packed; for seeds. */
void fuzz_pack_text(const ProtobufCMessageDescriptor *d, const char *text, mr_str *out);

#endif
