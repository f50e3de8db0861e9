/* ops/summary/writer_test.c -- the event files that the writing ops produce. */
#include "ops/io/file_example_fixture.h"

#include "base/file.h"
#include "base/memory.h"
#include "proto/event.pb-c.h"
#include "store/events.h"
#include "wire/message.h"

static mr_status *keep_name(void *ctx, const char *name)
{
    mr_str *s = ctx;
    mr_str_clear(s);
    mr_str_printf(s, "log/%s", name);
    return NULL;
}

/* The Summary of event `n` (0 is the version) of the one file in log/, to be freed. */
static Tensorflow__Summary *summary_at(int n, int64_t step)
{
    mr_str path = {0};
    mr_events_reader *r;
    mr_event e;
    ProtobufCMessage *m;
    MR_CHECK_OK(mr_dir_each("log", keep_name, &path));
    MR_CHECK_OK(mr_events_reader_open(mr_str_z(&path), &r));
    for (int i = 0; i <= n; i++)
        MR_CHECK_OK(mr_events_read(r, &e));
    MR_CHECK_INT(e.kind, MR_EVENT_SUMMARY);
    MR_CHECK_INT(e.step, step);
    MR_CHECK_OK(mr_message_unpack(&tensorflow__summary__descriptor, e.body, "Summary", &m));
    mr_events_reader_close(r);
    mr_str_deinit(&path);
    return (Tensorflow__Summary *)m;
}

#define LOG                                                                                      \
    "w = SummaryWriter shared_name=\"w\"; CreateSummaryFileWriter: w, \"log\", 10, 100000, \".v2\"; "

MR_TEST(summary_scalar_is_in_the_file_after_a_flush)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("FlushSummaryWriter",
                  LOG "WriteScalarSummary T=double: w, 7, \"loss\", double 0.5; : w ->");
    Tensorflow__Summary *s = summary_at(1, 7);
    MR_CHECK_INT(s->n_value, 1);
    MR_CHECK_STR(s->value[0]->tag, "loss");
    MR_CHECK(s->value[0]->simple_value == 0.5f);
    mr_message_free(&s->base);
}

MR_TEST(summary_writer_may_be_made_twice_and_writes_one_file)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("CloseSummaryWriter", LOG "CreateSummaryFileWriter: w, \"log\", 10, 1000, \"\"; "
                                            "WriteScalarSummary T=float: w, 1, \"a\", 1; : w ->");
    Tensorflow__Summary *s = summary_at(1, 1); /* of the last of the files in log/ */
    MR_CHECK_STR(s->value[0]->tag, "a");
    mr_message_free(&s->base);
}

MR_TEST(summary_tensor_and_histogram_are_in_the_file)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("CloseSummaryWriter",
                  LOG "WriteSummary T=int32: w, 1, int32[3, 4], \"t\", \"\\x12\\x01n\"; "
                      "WriteHistogramSummary T=bool: w, 2, \"h\", bool[true, false, true]; : w ->");
    Tensorflow__Summary *s = summary_at(1, 1);
    MR_CHECK_INT(s->value[0]->tensor->tensor_content.len, 8);
    MR_CHECK_STR(s->value[0]->metadata->display_name, "n");
    mr_message_free(&s->base);
    s = summary_at(2, 2);
    MR_CHECK(s->value[0]->histo->num == 3 && s->value[0]->histo->sum == 2);
    mr_message_free(&s->base);
}

MR_TEST(summary_messages_go_to_the_file_as_they_are)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("CloseSummaryWriter",
                  LOG "WriteRawProtoSummary: w, 3, [\"\\n\\x03\\n\\x01a\", \"\\n\\x03\\n\\x01b\"]; "
                      "ImportEvent: w, \"\\x10\\x05*\\x00\"; WriteGraphSummary: w, 6, \"\"; : w ->");
    Tensorflow__Summary *s = summary_at(1, 3);
    MR_CHECK_INT(s->n_value, 2);
    MR_CHECK_STR(s->value[1]->tag, "b");
    mr_message_free(&s->base);
    s = summary_at(2, 5);
    MR_CHECK_INT(s->n_value, 0);
    mr_message_free(&s->base);
}

MR_TEST(summary_writer_is_gone_when_it_is_closed)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("FlushSummaryWriter", LOG "CloseSummaryWriter: w; : w -> !NOT_FOUND does not exist");
}

MR_TEST(summary_writer_says_that_its_folder_is_a_file)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("CreateSummaryFileWriter",
                  "WriteFile: \"log\", \"\"; w = SummaryWriter; : w, \"log\", 10, 1000, \"\" -> "
                  "!FAILED_PRECONDITION log");
}

MR_TEST(summary_images_and_sounds_are_in_the_file)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("CloseSummaryWriter",
                  LOG "WriteImageSummary T=float: w, 1, \"i\", float[[[[1], [2]]]], [255, 0, 0, 255]; "
                      "WriteAudioSummary max_outputs=1: w, 2, \"s\", [[0.5, 1]], 10; : w ->");
    Tensorflow__Summary *s = summary_at(1, 1);
    MR_CHECK_STR(s->value[0]->tag, "i/image/0");
    MR_CHECK_INT(s->value[0]->image->width, 2);
    mr_message_free(&s->base);
    s = summary_at(2, 2);
    MR_CHECK_STR(s->value[0]->tag, "s/audio");
    MR_CHECK_INT(s->value[0]->audio->length_frames, 2);
    mr_message_free(&s->base);
}
