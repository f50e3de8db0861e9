/* exec/timeline_test.c -- the model of a run, its Chrome trace and its picture. */
#include "exec/timeline.h"

#include "base/wrap.h"
#include "tests/harness/test.h"
#include "wire/json.h"

/* Two tasks: worker:0 computes, sends, and ps:0 applies. */
static void small(mr_timeline *t)
{
    mr_timeline_init(t);
    int worker = mr_timeline_task(t, MR_SV("worker:0")), ps = mr_timeline_task(t, MR_SV("ps:0"));
    int cpu = mr_timeline_lane(t, worker, MR_SV("CPU:0")),
        link = mr_timeline_lane(t, ps, MR_SV("from worker:0"));
    int ps_cpu = mr_timeline_lane(t, ps, MR_SV("CPU:0"));
    int step = 1 + mr_timeline_step_add(t, 7, worker, 1000000, 5000000);
    int conv = mr_timeline_span(t, (mr_span){.name = "net/conv1",
                                             .op = "Conv2D",
                                             .lane = cpu,
                                             .step = step,
                                             .start_ns = 1000000,
                                             .end_ns = 3000000});
    int send = mr_timeline_span(t, (mr_span){.name = "edge_1_conv1",
                                             .op = "_Recv",
                                             .lane = link,
                                             .step = step,
                                             .kind = MR_SPAN_SEND,
                                             .bytes = 4096,
                                             .peer = worker + 1,
                                             .start_ns = 3000000,
                                             .end_ns = 3500000});
    int apply = mr_timeline_span(t, (mr_span){.name = "apply",
                                              .op = "ApplyAdam",
                                              .lane = ps_cpu,
                                              .step = step,
                                              .start_ns = 3500000,
                                              .end_ns = 5000000});
    mr_timeline_arrow(t, conv, send, true);
    mr_timeline_arrow(t, send, apply, false);
    mr_timeline_span(t, (mr_span){.name = "wait",
                                  .lane = ps_cpu,
                                  .step = step,
                                  .kind = MR_SPAN_WAIT,
                                  .start_ns = 1000000,
                                  .end_ns = 3500000});
}

MR_TEST(timeline_draws_lanes_with_names_and_shares)
{
    mr_timeline t;
    mr_str out = {0};
    small(&t);
    mr_timeline_text(&t, &(mr_timeline_text_options){.width = 80}, &out);
    MR_CHECK_STR(
        mr_str_z(&out),
        "                         |0 ms       |1          |2          |3\n"
        "worker:0  CPU:0          [net/conv1==============]                          50 %\n"
        "ps:0      from worker:0                          [>edg\xe2\x80\xa6]                    13 %\n"
        "          CPU:0          ..wait........................[apply============]  38 %\n"
        "                         = compute   > send   . wait\n");
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}

/* One span in a lane of 20 cells; the cells that are drawn. */
static void check_box(const char *name, mr_span_kind kind, int cells, bool ascii, const char *expected)
{
    mr_timeline t;
    mr_str out = {0};
    mr_timeline_init(&t);
    int lane = mr_timeline_lane(&t, mr_timeline_task(&t, MR_SV("a")), MR_SV("b"));
    mr_timeline_span(&t, (mr_span){.name = name, .lane = lane, .kind = kind, .start_ns = 0, .end_ns = 1000 * cells});
    mr_timeline_text_options o = {.width = 32, .to_ns = 20000, .no_shares = true, .ascii = ascii};
    mr_timeline_text(&t, &o, &out);
    const char *line = strstr(mr_str_z(&out), "\na  b  ");
    MR_CHECK(line != NULL);
    mr_sv rest = mr_sv_of(line + 7), drawn = {0};
    mr_sv_cut(&rest, '\n', &drawn);
    if (!mr_sv_is(drawn, expected))
        mr_test_fail(__FILE__, __LINE__, "'%s' in %d cells is\n%.*s, expected\n%s", name, cells, MR_SV_ARG(drawn),
                     expected);
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}

MR_TEST(timeline_boxes_have_the_name_that_fits)
{
    check_box("net/conv1/MatMul", MR_SPAN_COMPUTE, 18, true, "[net/conv1/MatMul]");
    check_box("net/conv1/MatMul", MR_SPAN_COMPUTE, 17, true, "[conv1/MatMul===]");
    check_box("net/conv1/MatMul", MR_SPAN_COMPUTE, 13, true, "[MatMul=====]");
    check_box("net/conv1/MatMul", MR_SPAN_COMPUTE, 8, true, "[MatMul]");
    check_box("net/conv1/MatMul", MR_SPAN_COMPUTE, 7, true, "[MatM~]");
    check_box("net/conv1/MatMul", MR_SPAN_COMPUTE, 6, true, "[Mat~]");
    check_box("net/conv1/MatMul", MR_SPAN_COMPUTE, 5, true, "[===]"); /* two letters say nothing */
    check_box("x", MR_SPAN_COMPUTE, 3, true, "[x]");
    check_box("", MR_SPAN_COMPUTE, 10, true, "[========]");
    check_box("net/", MR_SPAN_COMPUTE, 6, true, "[net/]");
    check_box("network/", MR_SPAN_COMPUTE, 8, true, "[======]"); /* nothing after the slash to show */
    check_box("x", MR_SPAN_COMPUTE, 2, true, "==");
    check_box("net/x", MR_SPAN_SEND, 4, true, "[>x]");
    check_box("MatMul", MR_SPAN_SEND, 7, true, "[>Mat~]");
    check_box("MatMul", MR_SPAN_SEND, 7, false, "[>Mat\xe2\x80\xa6]");
}

MR_TEST(timeline_color_is_that_of_the_lane_or_of_the_kind)
{
    mr_timeline t;
    mr_str out = {0};
    small(&t);
    mr_timeline_text(&t, &(mr_timeline_text_options){.width = 80, .color = true}, &out);
    const char *text = mr_str_z(&out);
    MR_CHECK(strstr(text, "\x1b[36mCPU:0\x1b[0m          \x1b[30;46m[net/conv1              ]\x1b[0m "));
    MR_CHECK(strstr(text, "\x1b[97;41m[>edg\xe2\x80\xa6]\x1b[0m ")); /* a transfer: red */
    MR_CHECK(strstr(text, "\x1b[32mCPU:0\x1b[0m          \x1b[97;100m..wait"));
    MR_CHECK(strstr(text, ".\x1b[0m\x1b[30;42m[apply            ]\x1b[0m "));
    MR_CHECK(strstr(text, "\x1b[30;46m \x1b[0m compute   \x1b[97;41m>\x1b[0m send   \x1b[97;100m.\x1b[0m wait\n"));
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}

MR_TEST(timeline_text_shortens_long_labels_to_fit_a_narrow_terminal)
{
    mr_timeline t;
    mr_str out = {0};
    mr_timeline_init(&t);
    int task = mr_timeline_task(&t, MR_SV("/job:worker/replica:0/task:17"));
    int lane = mr_timeline_lane(&t, task, MR_SV("from /job:ps/replica:0/task:3"));
    mr_timeline_span(&t, (mr_span){.name = "x", .lane = lane, .end_ns = 10});
    for (int width = 42; width < 120; width++) {
        mr_str_clear(&out);
        mr_timeline_text(&t, &(mr_timeline_text_options){.width = width}, &out);
        for (mr_sv rest = mr_str_view(&out), line; mr_sv_cut(&rest, '\n', &line);)
            MR_CHECK(mr_text_columns(line) <= width);
    }
    mr_str_clear(&out);
    mr_timeline_text(&t, &(mr_timeline_text_options){.width = 60, .ascii = true}, &out);
    MR_CHECK(strstr(mr_str_z(&out), "\n~task:17         ~task:3          [x=================] 100 %\n"));
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}

MR_TEST(timeline_text_tells_lanes_that_have_no_room)
{
    mr_timeline t;
    mr_str out = {0};
    small(&t);
    mr_timeline_text(&t, &(mr_timeline_text_options){.width = 60, .max_lanes = 1}, &out);
    MR_CHECK(strstr(mr_str_z(&out), "... and 2 more lanes, busy 25 % of the time\n"));
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}

MR_TEST(timeline_text_shows_what_is_shorter_than_a_cell)
{
    mr_timeline t;
    mr_str out = {0};
    mr_timeline_init(&t);
    int lane = mr_timeline_lane(&t, mr_timeline_task(&t, MR_SV("a")), MR_SV("b"));
    mr_timeline_span(&t, (mr_span){.name = "tiny", .lane = lane, .start_ns = 500, .end_ns = 500});
    mr_timeline_mark(&t, lane, 1000, "crash");
    mr_timeline_mark(&t, lane, 0, "began");
    mr_timeline_text(&t, &(mr_timeline_text_options){.width = 32}, &out);
    MR_CHECK_STR(mr_str_z(&out), "      |0 us     |0.5\n"
                                 "a  b  !         =        !   0 %\n"
                                 "      = compute\n"
                                 "! 1.00 us  a: crash\n"
                                 "! 0 ns  a: began\n");
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}

MR_TEST(timeline_of_nothing_is_a_text_too)
{
    mr_timeline t;
    mr_str out = {0};
    mr_timeline_init(&t);
    mr_timeline_text(&t, NULL, &out);
    MR_CHECK_STR(mr_str_z(&out), "(the timeline is empty)\n");
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}

MR_TEST(timeline_free_lane_takes_the_first_with_room)
{
    mr_timeline t;
    mr_timeline_init(&t);
    int task = mr_timeline_task(&t, MR_SV("a"));
    int one = mr_timeline_free_lane(&t, task, MR_SV("waits"), 0);
    mr_timeline_span(&t, (mr_span){.name = "x", .lane = one, .start_ns = 0, .end_ns = 10});
    int two = mr_timeline_free_lane(&t, task, MR_SV("waits"), 5);
    mr_timeline_span(&t, (mr_span){.name = "y", .lane = two, .start_ns = 5, .end_ns = 20});
    MR_CHECK_STR(t.lanes.p[two].name, "waits 2");
    MR_CHECK_INT(mr_timeline_free_lane(&t, task, MR_SV("waits"), 10), one);
    mr_timeline_deinit(&t);
}

MR_TEST(timeline_durations_are_for_people)
{
    mr_str s = {0};
    const double ns[] = {0, 812, 41.23e6, 830e3, 2.5e9, 90e9, 600e9, 4e15};
    for (int i = 0; i < 8; i++) {
        mr_put_duration(&s, ns[i]);
        mr_str_appendc(&s, ' ');
    }
    MR_CHECK_STR(mr_str_z(&s), "0 ns 812 ns 41.2 ms 830 us 2.50 s 90.0 s 10.0 min 1111 h ");
    mr_str_deinit(&s);
}

/* ---- Chrome ---- */

MR_TEST(timeline_chrome_binds_arrows_inside_of_their_spans)
{
    mr_timeline t;
    mr_str out = {0};
    mr_chrome c;
    small(&t);
    mr_chrome_init(&c, &out);
    mr_timeline_to_chrome(&t, &c);
    MR_CHECK_OK(mr_chrome_end(&c));
    const char *json = mr_str_z(&out);
    MR_CHECK(strstr(
        json,
        "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"name\":\"net/conv1\",\"cat\":\"compute\",\"ts\":0.000,"
        "\"dur\":2000.000,\"args\":{\"op\":\"Conv2D\",\"step\":7}}"));
    MR_CHECK(strstr(
        json,
        "{\"ph\":\"s\",\"pid\":1,\"tid\":1,\"name\":\"edge_1_conv1\",\"cat\":\"flow\",\"id\":1,"
        "\"ts\":1999.999}"));
    MR_CHECK(strstr(
        json,
        "{\"ph\":\"f\",\"pid\":2,\"tid\":2,\"name\":\"edge_1_conv1\",\"cat\":\"flow\",\"id\":1,"
        "\"bp\":\"e\",\"ts\":2000.000}"));
    MR_CHECK(!strstr(json, "\"id\":2")); /* the other arrow is not drawn */
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}

MR_TEST(chrome_writes_any_bytes_and_numbers_as_json)
{
    mr_str out = {0};
    mr_chrome c;
    mr_chrome_init(&c, &out);
    mr_chrome_process(&c, 1, MR_SV("a\"b\\c\n\0d"), 1);
    mr_chrome_thread(&c, 1, 1, MR_SV("\xc3\xa4 \xff \xed\xa0\x80 \xc0\x80 \xe2\x82"), 1);
    mr_chrome_arg args[] = {
        {"nan", {NULL, 0}, NAN}, {"inf", {NULL, 0}, INFINITY}, {"text", MR_SV("x"), 0}};
    mr_chrome_span(&c, 1, 1, MR_SV(""), MR_SV("k"), INT64_MIN, -5, args, 3);
    mr_chrome_counter(&c, 1, MR_SV("queue"), -1, 2.5);
    mr_chrome_instant(&c, 1, 1, MR_SV("now"), 1234567);
    MR_CHECK_OK(mr_chrome_end(&c));
    mr_json j;
    mr_json_init(&j, mr_str_view(&out));
    mr_json_skip(&j);
    MR_CHECK_OK(mr_json_status(&j, "trace"));
    const char *json = mr_str_z(&out);
    MR_CHECK(strstr(json, "\"a\\\"b\\\\c\\u000a\xef\xbf\xbd"
                          "d\""));
    MR_CHECK(strstr(json, "\"\xc3\xa4 \xef\xbf\xbd "));
    MR_CHECK(strstr(json, "\"ts\":-9223372036854775.808,\"dur\":0.000,\"args\":{\"nan\":0,\"inf\":"
                          "1e+300,\"text\":\"x\"}"));
    MR_CHECK(strstr(json, "\"ts\":-0.001,\"args\":{\"value\":2.5}"));
    MR_CHECK(strstr(json, "\"ts\":1234.567,\"s\":\"t\""));
    mr_str_deinit(&out);
}

MR_TEST(chrome_file_is_what_goes_into_a_string)
{
    mr_timeline t;
    mr_str out = {0}, file = {0}, path = {0};
    mr_chrome c;
    small(&t);
    for (int i = 0; i < 2000; i++) /* more than one piece */
        mr_timeline_span(
            &t,
            (mr_span){.name = "more", .lane = 0, .start_ns = 6000000 + i, .end_ns = 6000001 + i});
    mr_chrome_init(&c, &out);
    mr_timeline_to_chrome(&t, &c);
    MR_CHECK_OK(mr_chrome_end(&c));
    mr_str_printf(&path, "%s/trace.json", mr_test_dir());
    MR_CHECK_OK(mr_timeline_write_chrome(&t, mr_str_z(&path)));
    MR_CHECK_OK(mr_file_read_all(mr_str_z(&path), &file));
    MR_CHECK(mr_sv_eq(mr_str_view(&file), mr_str_view(&out)));
    MR_CHECK_ERR(mr_timeline_write_chrome(&t, "/nowhere/at/all.json"), MR_NOT_FOUND,
                 "/nowhere/at/all.json");
    mr_str_deinit(&out);
    mr_str_deinit(&file);
    mr_str_deinit(&path);
    mr_timeline_deinit(&t);
}
