/* sim/reader.h -- reads JSON objects by tables: every key has a type, a range, a default value and a place in a struct.
 *
 * The reader keeps its first error, which names the path of the wrong value: `plan.json: devices[1].speedup: ...`. */
#ifndef MR_SIM_READER_H
#define MR_SIM_READER_H

#include "base/arena.h"
#include "wire/json.h"

typedef struct mr_sim_reader {
    mr_json j;
    const char *name;
    mr_str path, text; /* the current path; the last string */
    mr_status *st;
    mr_arena *arena;
} mr_sim_reader;

typedef enum mr_sim_kind_of {
    MR_SIM_NUMBER, /* double */
    MR_SIM_WHOLE,  /* int64_t */
    MR_SIM_FLAG,   /* bool */
    MR_SIM_TEXT,   /* const char *; NULL if it is not given */
    MR_SIM_WORD,   /* int: which of `words` */
    MR_SIM_OTHER,  /* by `read` */
} mr_sim_kind_of;

typedef struct mr_sim_field {
    const char *key; /* NULL ends a table */
    mr_sim_kind_of kind;
    size_t at;       /* in the struct */
    double low, high, usual; /* as written in the file; usual NAN: `about` explains the default */
    double unit;     /* the struct holds the number times this; 0: 1 */
    const char *words; /* separated by spaces */
    void (*read)(mr_sim_reader *r, void *object);
    const char *about;
} mr_sim_field;

void mr_sim_reader_init(mr_sim_reader *r, mr_sv text, const char *name, mr_arena *arena);
/* The first error, or an error if text follows the object. */
mr_status *mr_sim_reader_end(mr_sim_reader *r);
/* "NAME: PATH: ..."; the first error is kept. */
void mr_sim_reader_fail(mr_sim_reader *r, const char *fmt, ...) MR_PRINTF(2, 3);

void mr_sim_object_init(const mr_sim_field *fields, void *object); /* sets default values */
/* Reads an object. other, if not NULL, is called for keys that are not in the table: it reads the value, or returns
 * false. */
void mr_sim_read_object(mr_sim_reader *r, const mr_sim_field *fields, void *object,
                        bool (*other)(mr_sim_reader *r, void *object, mr_sv key));
/* Elements of a list, one call each, at most `most`. */
void mr_sim_read_list(mr_sim_reader *r, int most, void *arg, void (*element)(mr_sim_reader *r, void *arg));
const char *mr_sim_read_text(mr_sim_reader *r); /* in the arena; "" after an error */
double mr_sim_read_number(mr_sim_reader *r, double low, double high);
int64_t mr_sim_read_whole(mr_sim_reader *r, int64_t low, int64_t high);
int mr_sim_read_word(mr_sim_reader *r, const char *words);
/* The i-th of words; empty if there are fewer. */
mr_sv mr_sim_word(const char *words, int i);

/* Ends a message about an unknown word: " (did you mean 'x'?); expected one of x, y". */
void mr_sim_put_known(mr_sv written, const char *const *words, int n, mr_str *out);

/* One line of a table for each field: | key | type | usual | meaning |. */
void mr_sim_print_fields(const mr_sim_field *fields, const char *prefix, mr_str *out);

#endif
