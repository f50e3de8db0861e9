/* group/shm_pipe_test.c -- counts that the other end of a pipe may have written. */
#include "group/shm_pipe.h"

#include <stdlib.h>

#include "tests/harness/test.h"

typedef struct ends { /* a pipe from member 0 to member 1 of two */
    char *segment;
    mr_pipe writer, reader;
} ends;

static void ends_init(ends *e)
{
    size_t bytes = mr_shm_file_bytes(2);
    e->segment = aligned_alloc(MR_SHM_PAGE, bytes);
    memset(e->segment, 0, bytes);
    mr_pipe_init(&e->writer, e->segment, 2, 0, 1, 0);
    mr_pipe_init(&e->reader, e->segment, 2, 0, 1, 1);
}

static void fill(ends *e)
{
    char *at;
    size_t room;
    while ((room = mr_pipe_room(&e->writer, e->writer.bytes, &at)))
        mr_pipe_put(&e->writer, room);
}

MR_TEST(shm_pipe_takes_no_tail_within_a_line)
{
    ends e;
    char *at;
    ends_init(&e);
    fill(&e);
    atomic_store(&e.writer.tails[1].n, 3); /* a head would be written across the end of the pipe */
    MR_CHECK(mr_pipe_room(&e.writer, MR_PIPE_LINE, &at) == MR_PIPE_BROKEN);
    free(e.segment);
}

MR_TEST(shm_pipe_takes_no_head_within_a_line)
{
    ends e;
    const char *at;
    ends_init(&e);
    atomic_store(&e.reader.head->n, MR_PIPE_LINE - 1);
    MR_CHECK(mr_pipe_ready(&e.reader, MR_PIPE_LINE, &at) == MR_PIPE_BROKEN);
    free(e.segment);
}

MR_TEST(shm_pipe_takes_no_tail_before_the_head)
{
    ends e;
    char *at;
    ends_init(&e);
    fill(&e);
    atomic_store(&e.writer.tails[1].n, e.writer.mine + MR_PIPE_LINE);
    MR_CHECK(mr_pipe_room(&e.writer, MR_PIPE_LINE, &at) == MR_PIPE_BROKEN);
    free(e.segment);
}

MR_TEST(shm_pipe_takes_no_head_that_falls_or_is_too_far)
{
    ends e;
    const char *at;
    ends_init(&e);
    atomic_store(&e.reader.head->n, 2 * MR_PIPE_LINE);
    MR_CHECK(mr_pipe_ready(&e.reader, MR_PIPE_LINE, &at) == MR_PIPE_LINE);
    atomic_store(&e.reader.head->n, MR_PIPE_LINE);
    MR_CHECK(mr_pipe_ready(&e.reader, 4 * MR_PIPE_LINE, &at) == MR_PIPE_BROKEN);
    atomic_store(&e.reader.head->n, e.reader.bytes + MR_PIPE_LINE);
    MR_CHECK(mr_pipe_ready(&e.reader, 4 * MR_PIPE_LINE, &at) == MR_PIPE_BROKEN);
    free(e.segment);
}
