/* tests/fuzz/messages.h -- records and mutates the messages of the cluster's services.
 *
 * A random message does not name an existing session, graph or step, so it is rejected in the first lines of its
 * handler. The messages mutated here were recorded between well-behaved tasks, and a lexicon of the names in them
 * (handles, keys, steps) is used to fill in current names, so that mutants refer to existing objects. */
#ifndef MR_TESTS_FUZZ_MESSAGES_H
#define MR_TESTS_FUZZ_MESSAGES_H

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pb_tree.h"

typedef struct fuzz_method {
    const char *name; /* "/tensorflow.WorkerService/RunGraph" */
    const ProtobufCMessageDescriptor *request, *response;
    bool has_answers;     /* called within a session, and the answer is read */
    const char *seeds[2]; /* requests in text format, for messages that sessions rarely send */
} fuzz_method;

enum { FUZZ_N_METHODS = 28 };
extern const fuzz_method fuzz_methods[FUZZ_N_METHODS];
int fuzz_method_find(const char *name); /* -1 */

typedef enum fuzz_word_kind {
    WORD_SESSION, /* handles */
    WORD_GRAPH,
    WORD_PARTIAL,
    WORD_KEY,  /* of a rendezvous */
    WORD_NAME, /* of nodes and tensors */
    WORD_DEVICE,
    N_WORD_KINDS
} fuzz_word_kind;

typedef enum fuzz_number_kind { NUMBER_STEP, NUMBER_CALLABLE, N_NUMBER_KINDS } fuzz_number_kind;

typedef struct fuzz_lexicon fuzz_lexicon;

fuzz_lexicon *fuzz_lexicon_new(void);
void fuzz_lexicon_free(fuzz_lexicon *l);
/* Records a message of a well-behaved sender. */
void fuzz_hear(fuzz_lexicon *l, int method, bool response, mr_sv bytes);
void fuzz_hear_device(fuzz_lexicon *l, const char *name);
/* A message of a method: a recorded one or a seed, with current names and `changes` changes. False: there is none. */
bool fuzz_mutant(fuzz_rng *r, fuzz_lexicon *l, int method, bool response, int changes, mr_str *out);
/* The same for a given message. */
void fuzz_mutate(fuzz_rng *r, fuzz_lexicon *l, int method, bool response, mr_sv in, int changes,
                 mr_str *out);

#endif
