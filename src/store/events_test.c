/* store/events_test.c */
#include "store/events.h"

#include "base/memory.h"
#include "tests/harness/test.h"

static mr_events_writer *open_writer(int64_t max_queue, int64_t flush_ms)
{
    mr_events_writer *w;
    char *prefix = mr_printf("%s/events", mr_test_dir());
    MR_CHECK_OK(mr_events_writer_open(prefix, ".v2", max_queue, flush_ms, &w));
    mr_free(prefix);
    return w;
}

static int count_events(const char *path)
{
    mr_events_reader *r;
    mr_event e;
    mr_status *st;
    int n = 0;
    MR_CHECK_OK(mr_events_reader_open(path, &r));
    while (!(st = mr_events_read(r, &e)))
        n++;
    MR_CHECK_ERR(st, MR_OUT_OF_RANGE, "eof");
    mr_events_reader_close(r);
    return n;
}

MR_TEST(events_file_has_its_name_and_begins_with_its_version)
{
    mr_events_writer *w = open_writer(10, 1000000);
    mr_events_reader *r;
    mr_event e;
    const char *path = mr_events_writer_path(w), *name = strrchr(path, '/') + 1;
    MR_CHECK(strncmp(name, "events.out.tfevents.", 20) == 0);
    MR_CHECK(strspn(name + 20, "0123456789") == 10 && name[30] == '.');
    MR_CHECK_STR(name + strlen(name) - 3, ".v2");
    MR_CHECK_OK(mr_events_reader_open(path, &r)); /* on disk at once */
    MR_CHECK_OK(mr_events_read(r, &e));
    MR_CHECK_INT(e.kind, MR_EVENT_FILE_VERSION);
    MR_CHECK(mr_sv_is(e.body, "brain.Event:2"));
    MR_CHECK(e.step == 0 && e.wall_time > 1e9);
    mr_events_reader_close(r);
    mr_events_writer_close(w);
}

MR_TEST(events_are_kept_back_until_there_are_more_than_the_queue_holds)
{
    mr_events_writer *w = open_writer(2, 1000000);
    char *path = mr_strdup(mr_events_writer_path(w));
    MR_CHECK_OK(mr_events_write(w, MR_SV("\x10\x01")));
    MR_CHECK_OK(mr_events_write(w, MR_SV("\x10\x02")));
    MR_CHECK_INT(count_events(path), 1);
    MR_CHECK_OK(mr_events_write(w, MR_SV("\x10\x03")));
    MR_CHECK_INT(count_events(path), 4);
    MR_CHECK_OK(mr_events_write(w, MR_SV("\x10\x04")));
    MR_CHECK_OK(mr_events_flush(w));
    MR_CHECK_INT(count_events(path), 5);
    MR_CHECK_OK(mr_events_write(w, MR_SV("\x10\x05")));
    mr_events_writer_close(w);
    MR_CHECK_INT(count_events(path), 6);
    mr_free(path);
}

MR_TEST(events_are_written_when_the_last_flush_was_long_ago)
{
    mr_events_writer *w = open_writer(1000, 0);
    MR_CHECK_OK(mr_events_write(w, MR_SV("\x10\x01")));
    MR_CHECK_INT(count_events(mr_events_writer_path(w)), 2);
    mr_events_writer_close(w);
}

MR_TEST(event_that_is_none_is_data_loss)
{
    mr_events_writer *w = open_writer(0, 0);
    mr_events_reader *r;
    mr_event e;
    MR_CHECK_OK(mr_events_write(w, MR_SV("no event")));
    MR_CHECK_OK(mr_events_reader_open(mr_events_writer_path(w), &r));
    MR_CHECK_OK(mr_events_read(r, &e));
    MR_CHECK_ERR(mr_events_read(r, &e), MR_DATA_LOSS, "not an Event message");
    mr_events_reader_close(r);
    mr_events_writer_close(w);
}

/* An event is read in all its depth, and put together again to the same bytes; returns the number of summaries. */
static int check_golden_events(const char *golden, const char *file)
{
    mr_events_reader *r;
    mr_event e;
    mr_status *st;
    int n_summaries = 0;
    char *path = mr_printf("%s/events/%s", golden, file);
    MR_CHECK_OK(mr_events_reader_open(path, &r));
    for (int i = 0; !(st = mr_events_read(r, &e)); i++) {
        mr_str s = {0};
        mr_pb_writer w;
        mr_pb_writer_init(&w, &s);
        mr_event_begin(&w, e.wall_time, e.step);
        mr_pb_put_bytes(&w, e.kind, e.body);
        MR_CHECK(mr_sv_eq(mr_str_view(&s), mr_events_record(r)));
        MR_CHECK((i == 0) == (e.kind == MR_EVENT_FILE_VERSION));
        n_summaries += e.kind == MR_EVENT_SUMMARY;
        mr_str_deinit(&s);
    }
    MR_CHECK_ERR(st, MR_OUT_OF_RANGE, "eof");
    mr_events_reader_close(r);
    mr_free(path);
    return n_summaries;
}

MR_TEST(events_golden_file_decodes_and_encodes_to_the_byte)
{
    MR_CHECK_INT(check_golden_events(mr_test_golden(), "events.out.tfevents.1600000000.host"), 13);
}

MR_TEST(events_golden_file_of_tensorflow_decodes_and_encodes_to_the_byte)
{
    MR_CHECK(check_golden_events(mr_test_tensorflow_golden(), "events.out.tfevents.cifar") > 0);
}
