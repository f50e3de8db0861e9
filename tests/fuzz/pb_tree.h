/* tests/fuzz/pb_tree.h -- a protobuf message taken apart, changed, and put together again.
 *
 * Bytes damaged at random are mostly no message any more, so they only try the first lines of a
 * parser.  A tree is changed field by field, by the message's descriptor, and lengths are written
 * anew: what comes out is well-formed, so it reaches the code that looks at what the fields say.  A
 * few changes lie on purpose (a length too long, a wire type of another kind). */
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
    mr_sv bytes; /* string, bytes, packed numbers, what could not be taken apart */
    size_t size; /* of the content, while writing */
    int lie;     /* added to the length that is written */
} fuzz_item;

typedef struct fuzz_tree fuzz_tree;
struct fuzz_tree {
    mr_arena arena;
    const ProtobufCMessageDescriptor *d;
    fuzz_item root;             /* a message without a tag */
    MR_VEC(fuzz_item **) links; /* where each item hangs; kept by fuzz_tree_list */
};

/* What a target knows of its messages. */
typedef struct fuzz_words {
    /* A word that may stand in this field, or false. */
    bool (*word)(fuzz_rng *r, const fuzz_tree *t, const fuzz_item *at, mr_sv *out);
    /* Changing this field (its value, or that it is there at all) nearly always makes the message
     * useless: it is done only now and then. */
    bool (*brittle)(const fuzz_item *at, bool value);
    /* A copy was made of this field: what should differ from the original? */
    void (*copied)(fuzz_rng *r, fuzz_tree *t, fuzz_item *copy);
} fuzz_words;

void fuzz_tree_parse(fuzz_tree *t, const ProtobufCMessageDescriptor *d, mr_sv bytes);
void fuzz_tree_deinit(fuzz_tree *t);
void fuzz_tree_write(fuzz_tree *t, mr_str *out);

/* One change; donor (may be NULL) is another tree of the same kind, whose parts may be taken over.
 */
void fuzz_tree_change(fuzz_rng *r, fuzz_tree *t, fuzz_tree *donor, const fuzz_words *words);

/* The field of that name of a message of that name. */
bool fuzz_item_is(const fuzz_item *i, const char *message, const char *field);
/* Some item with this field of its message, other than `not`; NULL when there is none. */
fuzz_item *fuzz_tree_find(fuzz_rng *r, const fuzz_tree *t, const mr_field *f,
                          const fuzz_item * not );
/* Lists all items anew. */
void fuzz_tree_list(fuzz_tree *t);

/* A message of text format, packed; for seeds. */
void fuzz_pack_text(const ProtobufCMessageDescriptor *d, const char *text, mr_str *out);

#endif
