#include "tensor/shape.h"

#include "base/memory.h"
#include "tests/harness/test.h"

#define DIMS(...) (int64_t[]){__VA_ARGS__}

static int64_t elements(int rank, const int64_t *dims)
{
    int64_t n = -1;
    MR_CHECK_OK(mr_shape_elements(rank, dims, &n));
    return n;
}

MR_TEST(shape_elements_is_the_product)
{
    MR_CHECK_INT(elements(0, NULL), 1);
    MR_CHECK_INT(elements(3, DIMS(2, 3, 4)), 24);
    MR_CHECK_INT(elements(2, DIMS(0, 5)), 0);
    MR_CHECK_INT(elements(1, DIMS(INT64_MAX)), INT64_MAX);
}

MR_TEST(shape_elements_refuses_what_does_not_fit)
{
    int64_t n;
    MR_CHECK_ERR(mr_shape_elements(2, DIMS(2, -1), &n), MR_INVALID_ARGUMENT, "[2,-1]");
    MR_CHECK_ERR(mr_shape_elements(2, DIMS(INT64_MAX, 2), &n), MR_INVALID_ARGUMENT, "too many");
    MR_CHECK_ERR(mr_shape_elements(3, DIMS(0, INT64_MAX, 2), &n), MR_INVALID_ARGUMENT, "too many");
    MR_CHECK_ERR(mr_shape_elements(3, DIMS(INT64_MAX, 2, 0), &n), MR_INVALID_ARGUMENT, "too many");
    int64_t ones[MR_MAX_RANK + 1];
    for (int i = 0; i <= MR_MAX_RANK; i++)
        ones[i] = 1;
    MR_CHECK_INT(elements(MR_MAX_RANK, ones), 1);
    MR_CHECK_ERR(mr_shape_elements(MR_MAX_RANK + 1, ones, &n), MR_INVALID_ARGUMENT, "254");
    MR_CHECK_ERR(mr_shape_elements(-1, NULL, &n), MR_INVALID_ARGUMENT, "-1");
}

MR_TEST(shape_push_stops_at_rank_254)
{
    mr_shape s = {0};
    for (int i = 0; i < MR_MAX_RANK; i++)
        MR_CHECK_OK(mr_shape_push(&s, i));
    MR_CHECK_INT(s.dims[253], 253);
    MR_CHECK_ERR(mr_shape_push(&s, 1), MR_INVALID_ARGUMENT, "254");
}

MR_TEST(shape_text_is_tensorflows)
{
    mr_str out = {0};
    mr_shape_print(&out, 2, DIMS(2, 3));
    mr_shape_print(&out, 0, NULL);
    MR_CHECK_STR(mr_str_z(&out), "[2,3][]");
    mr_str_deinit(&out);
    MR_CHECK_STR(MR_SHAPE_TEXT(2, DIMS(2, 3)), "[2,3]");
    MR_CHECK_STR(MR_SHAPE_TEXT(0, NULL), "[]");
}

MR_TEST(shape_text_is_cut_to_the_buffer)
{
    int64_t dims[MR_MAX_RANK];
    for (int i = 0; i < MR_MAX_RANK; i++)
        dims[i] = 1000 + i;
    char buf[64];
    for (size_t n = 1; n <= sizeof(buf); n++) {
        memset(buf, 'x', sizeof(buf));
        mr_shape_text(buf, n, MR_MAX_RANK, dims);
        MR_CHECK(strlen(buf) < n);
        MR_CHECK(n == sizeof(buf) || buf[n] == 'x');
    }
    MR_CHECK_STR(mr_shape_text(buf, 16, MR_MAX_RANK, dims), "[1000,1001..]");
    MR_CHECK_STR(mr_shape_text(buf, 10, 1, DIMS(12345)), "[12345]");
}

MR_TEST(shape_broadcast_follows_numpy)
{
    mr_shape s;
    MR_CHECK_OK(mr_shape_broadcast(3, DIMS(8, 1, 6), 2, DIMS(7, 1), &s));
    MR_CHECK(mr_shape_eq(s.rank, s.dims, 3, DIMS(8, 7, 6)));
    MR_CHECK_OK(mr_shape_broadcast(0, NULL, 2, DIMS(3, 2), &s));
    MR_CHECK(mr_shape_eq(s.rank, s.dims, 2, DIMS(3, 2)));
    MR_CHECK_OK(mr_shape_broadcast(1, DIMS(0), 1, DIMS(1), &s));
    MR_CHECK(mr_shape_eq(s.rank, s.dims, 1, DIMS(0)));
}

MR_TEST(shape_broadcast_rejects_2_against_3)
{
    mr_shape s;
    MR_CHECK_ERR(mr_shape_broadcast(1, DIMS(2), 1, DIMS(3), &s), MR_INVALID_ARGUMENT,
                 "Incompatible shapes: [2] vs. [3]");
    MR_CHECK_ERR(mr_shape_broadcast(1, DIMS(0), 1, DIMS(2), &s), MR_INVALID_ARGUMENT,
                 "[0] vs. [2]");
}

MR_TEST(shape_broadcast_may_write_over_its_argument)
{
    mr_shape s;
    mr_shape_set(&s, 2, DIMS(1, 3));
    MR_CHECK_OK(mr_shape_broadcast(s.rank, s.dims, 4, DIMS(2, 5, 4, 1), &s));
    MR_CHECK_STR(MR_SHAPE_TEXT(s.rank, s.dims), "[2,5,4,3]");
}

MR_TEST(axis_counts_from_both_ends)
{
    int axis;
    MR_CHECK_OK(mr_axis_resolve(-1, 3, &axis));
    MR_CHECK_INT(axis, 2);
    MR_CHECK_OK(mr_axis_resolve(0, 3, &axis));
    MR_CHECK_INT(axis, 0);
    MR_CHECK_ERR(mr_axis_resolve(3, 3, &axis), MR_INVALID_ARGUMENT, "axis 3 is not in [-3, 3)");
    MR_CHECK_ERR(mr_axis_resolve(-4, 3, &axis), MR_INVALID_ARGUMENT, "-4");
    MR_CHECK_ERR(mr_axis_resolve(0, 0, &axis), MR_INVALID_ARGUMENT, "[0, 0)");
    MR_CHECK_ERR(mr_axis_resolve(INT64_MIN, 3, &axis), MR_INVALID_ARGUMENT, "axis");
}

MR_TEST(pshape_text_shows_what_is_unknown)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    MR_CHECK_STR(MR_PSHAPE_TEXT(mr_pshape_matrix(&a, -1, 3)), "[?,3]");
    MR_CHECK_STR(MR_PSHAPE_TEXT(&mr_pshape_unknown), "<unknown>");
    MR_CHECK_STR(MR_PSHAPE_TEXT(&mr_pshape_scalar), "[]");
    mr_arena_deinit(&a);
}

MR_TEST(pshape_full_needs_rank_and_all_dims)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    MR_CHECK(mr_pshape_full(&mr_pshape_scalar));
    MR_CHECK(!mr_pshape_full(&mr_pshape_unknown));
    MR_CHECK(!mr_pshape_full(mr_pshape_new(&a, 2)));
    MR_CHECK(mr_pshape_full(mr_pshape_vector(&a, 0)));
    mr_arena_deinit(&a);
}

MR_TEST(pshape_merge_joins_knowledge)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    const mr_pshape *x = mr_pshape_matrix(&a, 2, -1), *y = mr_pshape_matrix(&a, -1, 3), *m;
    MR_CHECK(mr_pshape_compatible(x, y));
    MR_CHECK_OK(mr_pshape_merge(&a, x, y, &m));
    MR_CHECK_STR(MR_PSHAPE_TEXT(m), "[2,3]");
    MR_CHECK_OK(mr_pshape_merge(&a, &mr_pshape_unknown, x, &m));
    MR_CHECK(m == x); /* nothing new, nothing made */
    mr_arena_deinit(&a);
}

MR_TEST(pshape_merge_refuses_contradiction)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    const mr_pshape *m;
    MR_CHECK(!mr_pshape_compatible(mr_pshape_vector(&a, 2), mr_pshape_vector(&a, 3)));
    MR_CHECK_ERR(mr_pshape_merge(&a, mr_pshape_vector(&a, 2), mr_pshape_vector(&a, 3), &m),
                 MR_INVALID_ARGUMENT, "[2] and [3]");
    MR_CHECK_ERR(mr_pshape_merge(&a, mr_pshape_vector(&a, 2), &mr_pshape_scalar, &m),
                 MR_INVALID_ARGUMENT, "equal rank");
    mr_arena_deinit(&a);
}

MR_TEST(pshape_relax_keeps_what_holds_for_both)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    const mr_pshape *x = mr_pshape_matrix(&a, 2, 3), *y = mr_pshape_matrix(&a, 2, 4);
    MR_CHECK_STR(MR_PSHAPE_TEXT(mr_pshape_relax(&a, x, y)), "[2,?]");
    MR_CHECK(mr_pshape_relax(&a, x, x) == x);
    MR_CHECK_INT(mr_pshape_relax(&a, x, &mr_pshape_scalar)->rank, -1);
    mr_arena_deinit(&a);
}

static const mr_pshape *there_and_back(mr_arena *a, const mr_pshape *s)
{
    mr_str bytes = {0};
    const mr_pshape *out = NULL;
    mr_pshape_encode(s, &bytes);
    MR_CHECK_OK(mr_pshape_decode(a, mr_str_view(&bytes), &out));
    mr_str_deinit(&bytes);
    return out;
}

MR_TEST(pshape_proto_round_trip)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    int64_t dims[MR_MAX_RANK];
    for (int i = 0; i < MR_MAX_RANK; i++)
        dims[i] = i % 3 == 0 ? -1 : i % 3 == 1 ? 0 : INT64_MAX - i;
    for (int rank = -1; rank <= MR_MAX_RANK; rank++) {
        const mr_pshape *s = mr_pshape_of(&a, rank, dims);
        MR_CHECK(mr_pshape_eq(there_and_back(&a, s), s));
    }
    mr_arena_deinit(&a);
}

MR_TEST(shape_proto_bytes_are_protobufs)
{
    mr_str bytes = {0};
    mr_shape_encode(3, DIMS(5, 0, 300), &bytes);
    static const char expected[] = "\x12\x02\x08\x05\x12\x00\x12\x03\x08\xac\x02";
    MR_CHECK(mr_sv_eq(mr_str_view(&bytes), MR_SV(expected)));
    mr_str_deinit(&bytes);
}

MR_TEST(shape_decode_refuses_bad_protos)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    const mr_pshape *p;
    mr_shape s;
    mr_sv unknown = MR_SV("\x18\x01"), both = MR_SV("\x12\x00\x18\x01");
    mr_sv minus_1 = MR_SV("\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    mr_sv minus_2 = MR_SV("\x12\x0b\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    MR_CHECK_OK(mr_pshape_decode(&a, minus_1, &p));
    MR_CHECK_ERR(mr_pshape_decode(&a, minus_2, &p), MR_INVALID_ARGUMENT, "-2");
    MR_CHECK_ERR(mr_pshape_decode(&a, both, &p), MR_INVALID_ARGUMENT, "unknown rank");
    MR_CHECK_ERR(mr_shape_decode(unknown, &s), MR_INVALID_ARGUMENT, "rank is not known");
    MR_CHECK_ERR(mr_shape_decode(minus_1, &s), MR_INVALID_ARGUMENT, "-1");
    MR_CHECK_ERR(mr_shape_decode(MR_SV("\x12\x05\x08"), &s), MR_INVALID_ARGUMENT,
                 "TensorShapeProto");
    mr_str many = {0};
    for (int i = 0; i < 255; i++)
        mr_str_append(&many, "\x12\x02\x08\x01", 4);
    MR_CHECK_ERR(mr_shape_decode(mr_str_view(&many), &s), MR_INVALID_ARGUMENT, "254");
    mr_str_deinit(&many);
    mr_arena_deinit(&a);
}
