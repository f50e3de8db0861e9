/* ops/io/reader_test.c -- readers over files, and readers that wait. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/busy_threads_fixture.h"
#include "base/memory.h"
#include "ops/io/file_example_fixture.h"
#include "ops/queue/calls_fixture.h"
#include "ops/table.h"
#include "store/lmdb_writer_fixture.h"
#include "store/record.h"

/* ---- files ---- */

#define FILES "WriteFile: \"one\", \"a\\x0d\\nb\\n\"; WriteFile: \"none\", \"\"; WriteFile: \"two\", \"c\"; "
#define QUEUE(...)                                                                             \
    "q = FIFOQueueV2 component_types=[string] shapes=[[]] shared_name=\"q\"; "                 \
    "QueueEnqueueManyV2 Tcomponents=[string]: q, ([" __VA_ARGS__ "]); QueueCloseV2: q; "
#define READ "ReaderReadV2: r, q; "

MR_TEST(reader_of_lines_goes_from_file_to_file)
{
#define LINES FILES "r = TextLineReaderV2 shared_name=\"r\"; " QUEUE("\"one\", \"none\", \"two\"")
    mr_file_examples_begin();
    MR_CHECK_TOLD("ReaderReadV2", LINES ": r, q -> \"one:1\", \"a\"");
    MR_CHECK_TOLD("ReaderReadV2", LINES READ ": r, q -> \"one:2\", \"b\"");
    MR_CHECK_TOLD("ReaderReadV2", LINES READ READ ": r, q -> \"two:1\", \"c\"");
    MR_CHECK_TOLD("ReaderReadV2", LINES READ READ READ ": r, q -> !OUT_OF_RANGE is closed");
    MR_CHECK_TOLD("ReaderNumWorkUnitsCompletedV2", LINES READ READ READ ": r -> 2");
    MR_CHECK_TOLD("ReaderReadUpToV2", LINES ": r, q, 9 -> [\"one:1\", \"one:2\"], [\"a\", \"b\"]");
    MR_CHECK_TOLD("ReaderReadUpToV2", LINES READ ": r, q, 1 -> [\"one:2\"], [\"b\"]");
    MR_CHECK_TOLD("ReaderReadUpToV2", LINES READ READ ": r, q, 9 -> [\"two:1\"], [\"c\"]");
}

MR_TEST(reader_of_lines_skips_headers)
{
#define SKIP FILES "r = TextLineReaderV2 skip_header_lines=1 shared_name=\"r\"; "
    mr_file_examples_begin();
    MR_CHECK_TOLD("ReaderReadV2", SKIP QUEUE("\"none\", \"two\", \"one\"") ": r, q -> \"one:2\", \"b\"");
}

MR_TEST(reader_of_whole_files_and_of_nothing)
{
#define WHOLE FILES "r = WholeFileReaderV2 shared_name=\"r\"; "
    mr_file_examples_begin();
    MR_CHECK_TOLD("ReaderReadV2", WHOLE QUEUE("\"one\", \"two\"") READ ": r, q -> \"two\", \"c\"");
    MR_CHECK_TOLD("ReaderReadV2", WHOLE QUEUE("\"x\", \"two\"") ": r, q -> !NOT_FOUND x");
    MR_CHECK_TOLD("ReaderReadV2", "r = IdentityReaderV2 shared_name=\"r\"; " QUEUE("\"a\\x00b\"")
                                  ": r, q -> \"a\\x00b\", \"a\\x00b\"");
}

#define FIXED(attrs, bytes)                                                                    \
    "WriteFile: \"f\", \"" bytes "\"; r = FixedLengthRecordReaderV2 shared_name=\"r\" " attrs  \
    "; " QUEUE("\"f\"")

MR_TEST(reader_of_fixed_length_knows_header_footer_and_hop)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("ReaderReadUpToV2", FIXED("record_bytes=2", "aabbc") ": r, q, 9 -> [\"f:0\", \"f:1\"], "
                                                                       "[\"aa\", \"bb\"]");
    MR_CHECK_TOLD("ReaderReadUpToV2", FIXED("record_bytes=2 header_bytes=1 footer_bytes=1", "haabbf")
                                      ": r, q, 9 -> [\"f:0\", \"f:1\"], [\"aa\", \"bb\"]");
    MR_CHECK_TOLD("ReaderReadUpToV2", FIXED("record_bytes=2 hop_bytes=1", "abc")
                                      ": r, q, 9 -> [\"f:0\", \"f:1\"], [\"ab\", \"bc\"]");
    MR_CHECK_TOLD("ReaderReadUpToV2", FIXED("record_bytes=1 hop_bytes=3", "abcdef")
                                      ": r, q, 9 -> [\"f:0\", \"f:1\"], [\"a\", \"d\"]");
    MR_CHECK_TOLD("ReaderReadV2", FIXED("record_bytes=9223372036854775807 "
                                        "footer_bytes=9223372036854775807", "abc")
                                  ": r, q -> !OUT_OF_RANGE is closed");
    MR_CHECK_TOLD("ReaderReadUpToV2",
                  FIXED("record_bytes=2 encoding=\"ZLIB\"",
                        "x\\x9cKLLJ\\x02\\x00\\x03\\xd1\\x01\\x87")
                  ": r, q, 9 -> [\"f:0\", \"f:1\"], [\"aa\", \"bb\"]");
}

MR_TEST(reader_of_records_says_where_each_begins)
{
    mr_writer *f;
    mr_record_writer *w;
    mr_file_examples_begin();
    MR_CHECK_OK(mr_writer_open("f", &f));
    MR_CHECK_OK(mr_record_writer_new(f, MR_GZIP, &w));
    MR_CHECK_OK(mr_record_write(w, MR_SV("one")));
    MR_CHECK_OK(mr_record_write(w, MR_SV("")));
    MR_CHECK_OK(mr_record_finish(w));
    MR_CHECK_OK(mr_writer_commit(f));
    mr_record_writer_free(w);
    mr_writer_free(f);
    MR_CHECK_TOLD("ReaderReadUpToV2",
                  "r = TFRecordReaderV2 shared_name=\"r\" compression_type=\"GZIP\"; " QUEUE("\"f\"")
                  ": r, q, 9 -> [\"f:0\", \"f:19\"], [\"one\", \"\"]");
    MR_CHECK_TOLD("ReaderReadV2", "r = TFRecordReaderV2 shared_name=\"r\"; " QUEUE("\"f\"")
                                  ": r, q -> !DATA_LOSS corrupted record at 0");
}

MR_TEST(reader_state_is_restored_between_files)
{
    mr_file_examples_begin();
#define RESTORED(kind, bytes) FILES "r = " kind " shared_name=\"r\"; ReaderRestoreStateV2: r, \"" bytes "\"; "
#define AFTER_TWO "\\x08\\x02\\x10\\x02\\x18\\x05\\x22\\x03two"
    MR_CHECK_TOLD("ReaderReadV2", RESTORED("WholeFileReaderV2", AFTER_TWO) QUEUE("\"one\"") ": r, q -> \"one\", \"a\\x0d\\nb\\n\"");
    MR_CHECK_TOLD("ReaderReadV2", RESTORED("IdentityReaderV2", AFTER_TWO) QUEUE("\"one\"") ": r, q -> \"one\", \"one\"");
    MR_CHECK_TOLD("ReaderNumRecordsProducedV2", RESTORED("IdentityReaderV2", AFTER_TWO) ": r -> 5");
    MR_CHECK_TOLD("ReaderNumWorkUnitsCompletedV2", RESTORED("IdentityReaderV2", AFTER_TWO) ": r -> 2");
    MR_CHECK_TOLD("ReaderSerializeStateV2", RESTORED("IdentityReaderV2", AFTER_TWO) ": r -> \"" AFTER_TWO "\"");
    MR_CHECK_TOLD("ReaderNumRecordsProducedV2", RESTORED("IdentityReaderV2", AFTER_TWO) "ReaderResetV2: r; : r -> 0");
    MR_CHECK_TOLD("ReaderRestoreStateV2", "r = IdentityReaderV2 shared_name=\"r\"; : r, "
                  "\"\\x08\\x03\\x10\\x02\\x22\\x01a\" -> !INVALID_ARGUMENT work_started: 3\nwork_finished: 2\ncurrent_work: \"a\"");
}

/* ---- waiting ---- */

typedef struct rig {
    mr_calls calls;
    mr_callee reader, queue, read, reset, enqueue, close;
    mr_tensor *r, *q;
} rig;

static mr_tensor *made(rig *g, const mr_callee *k)
{
    mr_tensor *t;
    mr_call *c = mr_call_new(&g->calls, k, 0, NULL);
    mr_call_begin(c);
    MR_CHECK_OK(mr_call_end(c, &t));
    return t;
}

static void begin_with(rig *g, const char *reader)
{
    static const int string[] = {MR_STRING};
    const mr_named_attr types[] = {{"component_types", mr_a_types(1, string)}};
    mr_ops_register();
    mr_calls_init(&g->calls);
    g->reader = mr_callee_make(&g->calls, reader, NULL, 0, MR_NO_OUT, 0, NULL);
    g->queue = mr_callee_make(&g->calls, "FIFOQueueV2", types, 1, MR_NO_OUT, 0, NULL);
    mr_out r = {g->reader.node, 0}, q = {g->queue.node, 0};
    g->read = mr_callee_make(&g->calls, "ReaderReadV2", NULL, 0, r, MR_TYPES(MR_RESOURCE));
    g->reset = mr_callee_make(&g->calls, "ReaderResetV2", NULL, 0, r, 0, NULL);
    g->enqueue = mr_callee_make(&g->calls, "QueueEnqueueV2", NULL, 0, q, MR_TYPES(MR_STRING));
    g->close = mr_callee_make(&g->calls, "QueueCloseV2", NULL, 0, q, 0, NULL);
    g->r = made(g, &g->reader);
    g->q = made(g, &g->queue);
}

static void begin(rig *g) { begin_with(g, "IdentityReaderV2"); }

static void end(rig *g)
{
    mr_tensor_unref(g->r);
    mr_tensor_unref(g->q);
    mr_callee_deinit(&g->read);
    mr_callee_deinit(&g->reset);
    mr_callee_deinit(&g->enqueue);
    mr_callee_deinit(&g->close);
    mr_callee_deinit(&g->queue);
    mr_callee_deinit(&g->reader);
    mr_calls_deinit(&g->calls);
}

static mr_call *start_read(rig *g)
{
    mr_call *c = mr_call_new(&g->calls, &g->read,
                             MR_VALUES(mr_live(mr_tensor_ref(g->r)), mr_live(mr_tensor_ref(g->q))));
    mr_call_begin(c);
    return c;
}

static void put(rig *g, const char *name)
{
    mr_call *c = mr_call_new(&g->calls, &g->enqueue,
                             MR_VALUES(mr_live(mr_tensor_ref(g->q)),
                                       mr_live(mr_tensor_scalar_str(mr_sv_of(name)))));
    mr_call_begin(c);
    MR_CHECK_OK(mr_call_end(c, NULL));
}

static void check_read(mr_call *c, const char *name)
{
    mr_tensor *out[2];
    MR_CHECK_OK(mr_call_end(c, out)); /* the read runs on another thread */
    MR_CHECK(mr_sv_is(mr_tensor_str_at(out[1], 0), name));
    mr_tensor_unref(out[0]);
    mr_tensor_unref(out[1]);
}

MR_TEST(reader_waits_for_its_queue_and_serves_in_order)
{
    rig g;
    begin(&g);
    mr_call *a = start_read(&g), *b = start_read(&g), *c = start_read(&g);
    MR_CHECK(!mr_call_ended(a) && !mr_call_ended(b));
    put(&g, "x");
    check_read(a, "x");
    MR_CHECK(!mr_call_ended(b));
    put(&g, "y");
    check_read(b, "y");
    put(&g, "z");
    check_read(c, "z");
    end(&g);
}

MR_TEST(reader_lets_cancelled_ones_go_first_or_last_in_line)
{
    rig g;
    begin(&g);
    mr_call *a = start_read(&g), *b = start_read(&g), *c = start_read(&g);
    mr_call_cancel(b); /* waits for the reader */
    MR_CHECK(mr_call_ended(b));
    MR_CHECK_ERR(mr_call_end(b, NULL), MR_CANCELLED, "Waiting for a reader was cancelled");
    mr_call_cancel(a); /* waits for the queue */
    MR_CHECK(mr_call_ended(a));
    MR_CHECK_ERR(mr_call_end(a, NULL), MR_CANCELLED, "Dequeue operation was cancelled");
    put(&g, "x");
    check_read(c, "x");
    end(&g);
}

MR_TEST(reader_ends_all_that_wait_when_the_queue_is_closed)
{
    rig g;
    begin(&g);
    mr_call *a = start_read(&g), *b = start_read(&g);
    mr_call *c = mr_call_new(&g.calls, &g.close, MR_VALUES(mr_live(mr_tensor_ref(g.q))));
    mr_call_begin(c);
    MR_CHECK_OK(mr_call_end(c, NULL));
    MR_CHECK_ERR(mr_call_end(a, NULL), MR_OUT_OF_RANGE, "insufficient elements");
    MR_CHECK_ERR(mr_call_end(b, NULL), MR_OUT_OF_RANGE, "insufficient elements");
    end(&g);
}

MR_TEST(reader_is_reset_after_the_read_before_it)
{
    rig g;
    begin(&g);
    mr_call *a = start_read(&g);
    mr_call *c = mr_call_new(&g.calls, &g.reset, MR_VALUES(mr_live(mr_tensor_ref(g.r))));
    mr_call_begin(c);
    MR_CHECK(!mr_call_ended(c));
    put(&g, "x");
    check_read(a, "x");
    MR_CHECK_OK(mr_call_end(c, NULL));
    end(&g);
}

/* The first op has a work, the second then gets the reader: neither has a thread to open a file in. */
MR_TEST(reader_ends_when_it_is_cancelled_while_all_threads_are_in_use)
{
    rig g;
    begin(&g);
    mr_call *a = start_read(&g), *b = start_read(&g);
    mr_busy_threads *busy = mr_busy_threads_new();
    put(&g, "x");
    MR_CHECK(!mr_call_ended(a));
    mr_call_cancel(a);
    MR_CHECK(mr_call_ended(a));
    MR_CHECK_ERR(mr_call_end(a, NULL), MR_CANCELLED, "Waiting for a reader was cancelled");
    MR_CHECK(!mr_call_ended(b));
    mr_call_cancel(b);
    MR_CHECK(mr_call_ended(b));
    MR_CHECK_ERR(mr_call_end(b, NULL), MR_CANCELLED, "Waiting for a reader was cancelled");
    mr_busy_threads_free(busy);
    mr_call *c = start_read(&g);
    put(&g, "y");
    check_read(c, "y");
    end(&g);
}

/* Waits until somebody opens the FIFO to read it. */
static void write_fifo(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    MR_CHECK(fd >= 0);
    MR_CHECK_INT(write(fd, text, strlen(text)), (int)strlen(text));
    close(fd);
}

MR_TEST(reader_ends_a_read_before_the_next_one_has_its_file)
{
    rig g;
    char *first = mr_printf("%s/first", mr_test_dir()), *second = mr_printf("%s/second", mr_test_dir());
    MR_CHECK_INT(mkfifo(first, 0600), 0);
    MR_CHECK_INT(mkfifo(second, 0600), 0);
    begin_with(&g, "WholeFileReaderV2");
    mr_call *a = start_read(&g), *b = start_read(&g);
    put(&g, first);
    put(&g, second);
    write_fifo(first, "1");
    check_read(a, "1"); /* although b waits for its FIFO */
    write_fifo(second, "2");
    check_read(b, "2");
    end(&g);
    mr_free(first);
    mr_free(second);
}

/* ---- LMDB ---- */

MR_TEST(reader_of_lmdb_files_gives_their_keys)
{
#define LMDB                                                                                              \
    "r = LMDBReader shared_name=\"r\"; q = FIFOQueue component_types=[string] shapes=[[]] shared_name=\"q\"; " \
    "QueueEnqueueMany Tcomponents=[string]: q, ([\"one\", \"two\"]); QueueClose: q; "
    mr_lmdb_writer w;
    mr_file_examples_begin();
    for (int i = 0; i < 2; i++) {
        mr_lmdb_writer_open(&w, i ? "two" : "one", 0);
        mr_lmdb_put(&w, i ? MR_SV("c") : MR_SV("b"), MR_SV("x"));
        mr_lmdb_put(&w, MR_SV("a"), MR_SV("y"));
        mr_lmdb_commit(&w, false);
        mr_lmdb_writer_close(&w);
    }
    MR_CHECK_TOLD("ReaderRead", LMDB ": r, q -> \"a\", \"y\"");
    MR_CHECK_TOLD("ReaderReadUpTo", LMDB ": r, q, 9 -> [\"a\", \"b\"], [\"y\", \"x\"]");
    MR_CHECK_TOLD("ReaderReadUpTo", LMDB "ReaderReadUpTo: r, q, 9; : r, q, 9 -> [\"a\", \"c\"], [\"y\", \"x\"]");
    MR_CHECK_TOLD("ReaderRead", LMDB "ReaderReadUpTo: r, q, 9; ReaderReadUpTo: r, q, 9; : r, q -> !OUT_OF_RANGE is "
                                     "closed");
    MR_CHECK_TOLD("ReaderSerializeState", LMDB ": r -> !UNIMPLEMENTED");
}
