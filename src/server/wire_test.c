/* server/wire_test.c -- tensors in messages. */
#include "server/wire.h"

#include "base/memory.h"
#include "tests/harness/test.h"

static mr_tensor *floats(int64_t n)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(mr_cpu_allocator(), MR_FLOAT, 2, (int64_t[]){1, n}, &t));
    for (int64_t i = 0; i < n; i++)
        MR_DATA(float, t)[i] = (float)i;
    return t;
}

/* The same bytes in pieces of at most n. */
static void chop(mr_bytes *b, size_t n)
{
    mr_bytes out = {0};
    mr_sv flat;
    MR_CHECK_OK(mr_bytes_flat(b, &flat));
    for (size_t at = 0; at < flat.n; at += n)
        mr_bytes_add_copy(&out, flat.p + at, MR_MIN(n, flat.n - at));
    mr_bytes_deinit(b);
    *b = out;
}

static void there_and_back(const mr_tensor *t, size_t piece)
{
    mr_bytes b;
    mr_tensor *back;
    bool dead;
    MR_CHECK_OK(mr_wire_recv_encode(t, false, 17, &b));
    if (piece)
        chop(&b, piece);
    MR_CHECK_OK(mr_wire_recv_decode(&b, mr_cpu_allocator(), &back, &dead));
    MR_CHECK(!dead && mr_tensor_equal(t, back));
    mr_tensor_unref(back);
    mr_bytes_deinit(&b);
}

MR_TEST(wire_tensors_travel_in_any_pieces)
{
    const int64_t sizes[] = {0, 1, 5, 1000, 1024, 1025, 100000};
    for (int i = 0; i < MR_COUNT(sizes); i++) {
        mr_tensor *t = floats(sizes[i]);
        const size_t pieces[] = {0, 7, 600, 5000, 1 << 20};
        for (int k = 0; k < MR_COUNT(pieces); k++)
            there_and_back(t, pieces[k]);
        mr_tensor_unref(t);
    }
    mr_tensor *s = mr_tensor_vector_str(2, (const char *const[]){"a", "bcd"});
    there_and_back(s, 0);
    mr_tensor_unref(s);
}

MR_TEST(wire_sends_the_memory_of_a_tensor)
{
    mr_tensor *t = floats(5000);
    mr_bytes b;
    MR_CHECK_OK(mr_wire_recv_encode(t, false, 0, &b));
    MR_CHECK_INT(b.pieces.n, 2);
    MR_CHECK(b.pieces.p[1].data == t->data);
    mr_bytes_deinit(&b);
    mr_tensor_unref(t);
}

MR_TEST(wire_dead_values_travel)
{
    mr_bytes b;
    mr_tensor *t;
    bool dead;
    MR_CHECK_OK(mr_wire_recv_encode(NULL, true, 0, &b));
    MR_CHECK_OK(mr_wire_recv_decode(&b, mr_cpu_allocator(), &t, &dead));
    MR_CHECK(dead && !t);
    mr_bytes_deinit(&b);
}

/* A large content that does not fit its shape, and bytes that end early. */
MR_TEST(wire_refuses_content_that_does_not_fit)
{
    mr_tensor *t = floats(2000), *back;
    mr_bytes b;
    mr_sv flat;
    bool dead;
    MR_CHECK_OK(mr_wire_recv_encode(t, false, 0, &b));
    MR_CHECK_OK(mr_bytes_flat(&b, &flat));
    for (size_t n = 0; n < flat.n; n += n < 64 ? 1 : 777) {
        mr_bytes part = {0};
        mr_bytes_add_copy(&part, flat.p, n);
        mr_status *st = mr_wire_recv_decode(&part, mr_cpu_allocator(), &back, &dead);
        MR_CHECK(st && !back);
        mr_status_free(st);
        mr_bytes_deinit(&part);
    }
    mr_bytes_deinit(&b);
    mr_tensor_unref(t);
}

MR_TEST(wire_tells_what_is_derived)
{
    mr_status *st = mr_status_mark_derived(mr_error(MR_ABORTED, "peer"));
    char *text = mr_wire_error_text(st);
    MR_CHECK_STR(text, "[_Derived_]peer");
    mr_status *back = mr_wire_error(MR_ABORTED, mr_sv_of(text));
    MR_CHECK(mr_status_is_derived(back) && mr_status_code(back) == MR_ABORTED);
    MR_CHECK_STR(mr_status_message(back), "peer");
    mr_status_free(st);
    mr_status_free(back);
    mr_free(text);
    MR_CHECK(!mr_wire_error(0, MR_SV("")));
}
