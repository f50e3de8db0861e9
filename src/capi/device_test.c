/* capi/device_test.c -- simulated devices and placement by cost through the C API. */
#include "millrace/device.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"
#include "capi/graph_fixture.h"

typedef struct bench {
    kit k;
    TF_SessionOptions *o;
    TF_Session *s;
    TF_Output x, y;
} bench;

static const unsigned char by_cost[] = {3 << 3, 5}; /* ConfigProto.placement_period = 5 */

static void open_session(bench *b)
{
    b->s = TF_NewSession(b->k.g, b->o, b->k.s);
    CHECK_OK(b->k.s);
}

/* y = tanh(x) on two simulated devices. */
static void begin(bench *b, bool costs)
{
    *b = (bench){.k = kit_new(), .o = TF_NewSessionOptions()};
    b->x = kit_placeholder(&b->k, "x", TF_FLOAT);
    b->y = kit_unary(&b->k, "Tanh", "y", b->x);
    if (costs)
        TF_SetConfig(b->o, by_cost, sizeof by_cost, b->k.s);
    CHECK_OK(b->k.s);
    mr_session_add_simulated_device(
        b->o, &(mr_simulated_device){sizeof(mr_simulated_device), "GPU", 0, 0, 1e12, 1e12, 1e-6, 1 << 20, 1e-6, 1e12},
        b->k.s);
    CHECK_OK(b->k.s);
    mr_session_simulate(b->o, "SIM:0=op=1us,latency=1us", b->k.s);
    CHECK_OK(b->k.s);
}

static void end(bench *b)
{
    kit_close(&b->k, b->s);
    TF_DeleteSessionOptions(b->o);
    kit_free(&b->k);
}

static void step(bench *b)
{
    TF_Tensor *v = kit_float(0.5f);
    MR_CHECK_NEAR(kit_take_float(kit_run(&b->k, b->s, b->x, v, b->y)), 0.46211716, 1e-6);
    TF_DeleteTensor(v);
}

static char *explain(bench *b)
{
    TF_Buffer *t = mr_session_explain(b->s, &b->x, 1, &b->y, 1, NULL, 0, b->k.s);
    CHECK_OK(b->k.s);
    char *text = t ? mr_strndup(t->data, t->length) : mr_strdup("");
    TF_DeleteBuffer(t);
    return text;
}

MR_TEST(capi_device_simulated_ones_are_listed)
{
    bench b;
    begin(&b, false);
    open_session(&b);
    TF_DeviceList *l = TF_SessionListDevices(b.s, b.k.s);
    MR_CHECK_INT(TF_DeviceListCount(l), 3);
    MR_CHECK_STR(TF_DeviceListName(l, 1, b.k.s), "/job:localhost/replica:0/task:0/device:GPU:0");
    MR_CHECK_STR(TF_DeviceListType(l, 1, b.k.s), "GPU");
    MR_CHECK_INT(TF_DeviceListMemoryBytes(l, 1, b.k.s), 1 << 20);
    TF_DeleteDeviceList(l);
    step(&b);
    end(&b);
}

MR_TEST(capi_device_explain_tells_of_every_device_that_could)
{
    bench b;
    begin(&b, true);
    open_session(&b);
    char *before = explain(&b);
    step(&b);
    char *after = explain(&b);
    MR_CHECK_STR(before, after); /* nothing was measured yet */
    MR_CHECK(strstr(before, "y (Tanh) on /job:localhost/replica:0/task:0/device:"));
    MR_CHECK(strstr(before, "device:CPU:0"));
    MR_CHECK(strstr(before, "device:GPU:0"));
    MR_CHECK(strstr(before, "device:SIM:0"));
    mr_free(before);
    mr_free(after);
    end(&b);
}

MR_TEST(capi_device_explain_works_without_placement_by_cost)
{
    bench b;
    begin(&b, false);
    open_session(&b);
    char *text = explain(&b);
    MR_CHECK(strstr(
        text, "y (Tanh) on /job:localhost/replica:0/task:0/device:GPU:0")); /* the first of the highest priority */
    mr_free(text);
    TF_Output foreign = {b.y.oper, 7};
    MR_CHECK(!mr_session_explain(b.s, NULL, 0, &foreign, 1, NULL, 0, b.k.s));
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "");
    MR_CHECK(!mr_session_explain(b.s, NULL, 0, NULL, 3, NULL, 0, b.k.s));
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "");
    MR_CHECK(!mr_session_explain(NULL, NULL, 0, NULL, 0, NULL, 0, b.k.s));
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "");
    end(&b);
}

MR_TEST(capi_device_costs_go_to_a_file_and_back)
{
    bench b;
    mr_str text = {0}, again = {0};
    char *path = mr_printf("%s/costs", mr_test_dir());
    begin(&b, true);
    open_session(&b);
    for (int i = 0; i < 5; i++)
        step(&b);
    mr_session_save_costs(b.s, path, b.k.s);
    CHECK_OK(b.k.s);
    kit_close(&b.k, b.s);
    open_session(&b);
    mr_session_load_costs(b.s, path, b.k.s);
    CHECK_OK(b.k.s);
    MR_CHECK_OK(mr_file_read_all(path, &text));
    MR_CHECK(strstr(mr_str_z(&text), "\ty\t"));
    mr_session_save_costs(b.s, path, b.k.s);
    MR_CHECK_OK(mr_file_read_all(path, &again));
    MR_CHECK_STR(mr_str_z(&text), mr_str_z(&again));
    mr_session_load_costs(b.s, "/nowhere/costs", b.k.s);
    CHECK_CODE(b.k.s, TF_NOT_FOUND, "");
    end(&b);
    begin(&b, false);
    open_session(&b);
    mr_session_save_costs(b.s, path, b.k.s);
    CHECK_CODE(b.k.s, TF_FAILED_PRECONDITION, "placement_period");
    end(&b);
    mr_str_deinit(&text);
    mr_str_deinit(&again);
    mr_free(path);
}

MR_TEST(capi_device_costs_of_the_environment_are_kept)
{
    bench b;
    mr_str text = {0};
    char *path = mr_printf("%s/costs", mr_test_dir());
    setenv("MILLRACE_COSTS", path, 1);
    begin(&b, true);
    open_session(&b);
    for (int i = 0; i < 5; i++)
        step(&b);
    end(&b);
    MR_CHECK_OK(mr_file_read_all(path, &text));
    MR_CHECK(strstr(mr_str_z(&text), "\ty\t"));
    begin(&b, true);
    open_session(&b);
    step(&b);
    end(&b);
    mr_str again = {0};
    MR_CHECK_OK(mr_file_read_all(path, &again));
    MR_CHECK_STR(mr_str_z(&text), mr_str_z(&again));
    unsetenv("MILLRACE_COSTS");
    mr_str_deinit(&text);
    mr_str_deinit(&again);
    mr_free(path);
}

/* It may have been named by mistake, and be something dear to somebody. */
MR_TEST(capi_device_a_file_that_has_no_costs_is_left_alone)
{
    static const char theirs[] = "device\tnode\t1\t0.5\nDear diary,\n";
    bench b;
    mr_str text = {0};
    char *path = mr_printf("%s/diary", mr_test_dir());
    mr_writer *w = NULL;
    MR_CHECK_OK(mr_writer_open(path, &w));
    MR_CHECK_OK(mr_writer_write(w, theirs, sizeof theirs - 1));
    MR_CHECK_OK(mr_writer_commit(w));
    mr_writer_free(w);
    setenv("MILLRACE_COSTS", path, 1);
    begin(&b, true);
    MR_CHECK(!TF_NewSession(b.k.g, b.o, b.k.s));
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "diary:2");
    unsetenv("MILLRACE_COSTS");
    MR_CHECK_OK(mr_file_read_all(path, &text));
    MR_CHECK_STR(mr_str_z(&text), theirs);
    open_session(&b);
    end(&b);
    mr_str_deinit(&text);
    mr_free(path);
}

MR_TEST(capi_device_a_text_that_cannot_be_read_adds_nothing)
{
    bench b;
    begin(&b, false);
    mr_session_simulate(b.o, "NEW:0; NEW:0-CPU:0=link=1G; NEW:1=speed=much", b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "speed=much");
    mr_session_simulate(b.o, "NEW:0; NEW:0-CPU:0=link=1G; NEW:1=speed=1G", b.k.s);
    CHECK_OK(b.k.s);
    open_session(&b);
    end(&b);
}

MR_TEST(capi_device_slowing_finds_the_device)
{
    bench b;
    begin(&b, false);
    open_session(&b);
    mr_session_slow_device(b.s, "GPU:0", 2, b.k.s);
    CHECK_OK(b.k.s);
    mr_session_slow_device(b.s, "/job:localhost/replica:0/task:0/device:SIM:0", 0.5, b.k.s);
    CHECK_OK(b.k.s);
    mr_session_slow_device(b.s, "GPU:1", 2, b.k.s);
    CHECK_CODE(b.k.s, TF_NOT_FOUND, "GPU:1");
    mr_session_slow_device(b.s, "CPU:0", 2, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "not a simulated device");
    mr_session_slow_device(b.s, "GPU:0", -2, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "-2");
    mr_session_slow_device(b.s, "\377", 2, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "");
    mr_session_slow_device(b.s, NULL, 2, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "");
    end(&b);
}

MR_TEST(capi_device_wrong_structs_are_refused)
{
    bench b;
    struct {
        mr_simulated_device d;
        char more[16];
    } longer = {{sizeof longer, "NEW", 0, 0, 0, 0, 0, 0, 0, 0}, ""};
    begin(&b, false);
    mr_session_add_simulated_device(b.o, NULL, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "");
    mr_session_add_simulated_device(b.o, &(mr_simulated_device){.type = "GPU"}, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "struct_size");
    mr_session_add_simulated_device(b.o, &(mr_simulated_device){.struct_size = SIZE_MAX, .type = "GPU"}, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "struct_size");
    mr_session_add_simulated_device(b.o, &(mr_simulated_device){.struct_size = sizeof(mr_simulated_device)}, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "type");
    mr_session_add_simulated_device(b.o, &longer.d, b.k.s); /* says nothing we do not know */
    CHECK_OK(b.k.s);
    longer.more[15] = 1;
    longer.d.id = 1;
    mr_session_add_simulated_device(b.o, &longer.d, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "older than its caller");
    mr_session_add_simulated_device(
        NULL, &(mr_simulated_device){.struct_size = sizeof(mr_simulated_device), .type = "A"}, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "options");
    mr_session_add_simulated_link(b.o, &(mr_simulated_link){sizeof(mr_simulated_link), "GPU:0", NULL, 0, 0}, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "link");
    mr_session_add_simulated_link(b.o, &(mr_simulated_link){sizeof(mr_simulated_link), "GPU:0", "CPU:0", -1, 0}, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "-1");
    mr_session_add_simulated_link(b.o, &(mr_simulated_link){sizeof(mr_simulated_link), "GPU:0", "CPU:0", 1e-3, 0},
                                  b.k.s);
    CHECK_OK(b.k.s);
    mr_session_simulate(b.o, NULL, b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "");
    mr_session_simulate(b.o, "GPU:9=speed=much", b.k.s);
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "speed=much");
    open_session(&b);
    step(&b);
    end(&b);
}

MR_TEST(capi_device_simulated_ones_are_not_of_other_processes)
{
    bench b;
    begin(&b, false);
    TF_SetTarget(b.o, "grpc://localhost:1");
    MR_CHECK(!TF_NewSession(b.k.g, b.o, b.k.s));
    CHECK_CODE(b.k.s, TF_INVALID_ARGUMENT, "only for sessions in this process");
    TF_DeleteSessionOptions(b.o);
    kit_free(&b.k);
}

MR_TEST(capi_device_options_serve_sessions_again_and_again)
{
    bench b;
    begin(&b, false);
    for (int i = 0; i < 3; i++) {
        open_session(&b);
        step(&b);
        kit_close(&b.k, b.s);
    }
    open_session(&b);
    TF_SetConfig(b.o, by_cost, sizeof by_cost, b.k.s); /* the devices stay */
    kit_close(&b.k, b.s);
    open_session(&b);
    TF_DeviceList *l = TF_SessionListDevices(b.s, b.k.s);
    MR_CHECK_INT(TF_DeviceListCount(l), 3);
    TF_DeleteDeviceList(l);
    end(&b);
}
