/* group/shm_pipe.h -- what is in a member's segment: its bell, and pipes with one writer.
 *
 *     offset   size
 *          0    128              the bell
 *       4096    n * 64 * (1 + n)  counts of the pipes: a head, then a tail for each rank; pipe i leads to member i, that of
 *                                the owner's own rank to all
 *     the next multiple of 4096: the pipes' bytes, one pipe after the other
 *
 * A pipe is a ring of bytes.  head counts the bytes that were ever put in, each tail those that a reader took out; both only
 * grow, in steps of 64.  Each count has one writer. */
#ifndef MR_GROUP_SHM_PIPE_H
#define MR_GROUP_SHM_PIPE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/status.h"
#include "group/shm.h"

enum { MR_PIPE_LINE = 64, MR_SHM_PAGE = 4096 };

typedef struct mr_shm_bell {
    _Alignas(MR_PIPE_LINE) _Atomic uint32_t rings;  /* what the owner sleeps on */
    _Alignas(MR_PIPE_LINE) _Atomic uint32_t asleep; /* or about to be */
} mr_shm_bell;

typedef struct mr_pipe_count {
    _Alignas(MR_PIPE_LINE) _Atomic uint64_t n;
} mr_pipe_count;

/* One end of a pipe. */
typedef struct mr_pipe {
    mr_pipe_count *head, *tails; /* tails: by rank; a pipe to one member uses only that of its reader */
    char *data;
    size_t bytes;  /* a power of two */
    uint64_t mine; /* the count that this end writes */
    uint64_t seen; /* the other end's count when last read: spares its cache line */
    int reader;    /* -1: all but the writer */
    int writer, size;
} mr_pipe;

size_t mr_pipe_bytes(int size);
/* The pipe in `writer`'s segment that leads to `reader` (-1: the common one), as used by `self`. */
void mr_pipe_init(mr_pipe *p, char *segment, int size, int writer, int reader, int self);

/* ---- writing ---- */
/* Bytes that can be put in one piece at *at, at most `want`; 0: it is full.  MR_PIPE_BROKEN: the counts are invalid. */
size_t mr_pipe_room(mr_pipe *p, size_t want, char **at);
void mr_pipe_put(mr_pipe *p, size_t n);

/* ---- reading ---- */
/* Bytes that can be read in one piece at *at, at most `want`; 0: it is empty.  They stay until mr_pipe_take. */
size_t mr_pipe_ready(mr_pipe *p, size_t want, const char **at);
void mr_pipe_take(mr_pipe *p, size_t n, int self);

#define MR_PIPE_BROKEN SIZE_MAX

#endif
