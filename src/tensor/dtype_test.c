#include "tensor/dtype.h"

#include "tests/harness/test.h"

MR_TEST(dtype_numbers_are_those_of_types_proto)
{
    MR_CHECK_INT(MR_FLOAT, 1);
    MR_CHECK_INT(MR_STRING, 7);
    MR_CHECK_INT(MR_COMPLEX128, 18);
    MR_CHECK_INT(MR_HALF, 19);
    MR_CHECK_INT(MR_UINT64, 23);
}

MR_TEST(dtype_sizes_are_those_in_memory)
{
    MR_CHECK_INT(mr_dtype_size(MR_HALF), 2);
    MR_CHECK_INT(mr_dtype_size(MR_BOOL), 1);
    MR_CHECK_INT(mr_dtype_size(MR_COMPLEX128), 16);
    MR_CHECK_INT(mr_dtype_size(MR_STRING), 24);
    MR_CHECK_INT(mr_dtype_size(MR_RESOURCE), 8);
    MR_CHECK_INT(mr_dtype_size(MR_INT4), 1);
    MR_CHECK_INT(mr_dtype_size(MR_INVALID), 0);
    MR_CHECK_INT(mr_dtype_size((mr_dtype)101), 0);
}

MR_TEST(dtype_valid_knows_the_gaps_and_the_ends)
{
    MR_CHECK(!mr_dtype_valid(0));
    MR_CHECK(!mr_dtype_valid(-1));
    MR_CHECK(!mr_dtype_valid(26));
    MR_CHECK(!mr_dtype_valid(31));
    MR_CHECK(!mr_dtype_valid(101)); /* a reference is not a base type */
    MR_CHECK(mr_dtype_valid(MR_UINT4));
}

MR_TEST(dtype_names_of_types_and_references)
{
    MR_CHECK_STR(mr_dtype_name(MR_FLOAT), "float");
    MR_CHECK_STR(mr_dtype_name(MR_BOOL), "bool");
    MR_CHECK_STR(mr_dtype_name(mr_dtype_ref(MR_INT32)), "int32_ref");
    MR_CHECK_STR(mr_dtype_name(77), "invalid");
    MR_CHECK_STR(mr_dtype_name(177), "invalid");
    MR_CHECK_STR(mr_dtype_enum_name(MR_QINT8), "DT_QINT8");
    MR_CHECK_STR(mr_dtype_enum_name(mr_dtype_ref(MR_INT32)), "DT_INT32_REF");
    MR_CHECK_STR(mr_dtype_enum_name(0), "DT_INVALID");
}

MR_TEST(dtype_every_name_is_read_back)
{
    for (int t = 1; t < 200; t++) {
        if (!mr_dtype_valid(mr_dtype_base(t)))
            continue;
        MR_CHECK_INT(mr_dtype_from_name(mr_sv_of(mr_dtype_name(t))), t);
        MR_CHECK_INT(mr_dtype_from_name(mr_sv_of(mr_dtype_enum_name(t))), t);
    }
    MR_CHECK_INT(mr_dtype_from_name(MR_SV("float32")), MR_FLOAT);
    MR_CHECK_INT(mr_dtype_from_name(MR_SV("float64")), MR_DOUBLE);
    MR_CHECK_INT(mr_dtype_from_name(MR_SV("float3")), MR_INVALID);
    MR_CHECK_INT(mr_dtype_from_name(MR_SV("")), MR_INVALID);
}

MR_TEST(dtype_families)
{
    MR_CHECK(mr_dtype_is_floating(MR_BFLOAT16) && !mr_dtype_is_floating(MR_COMPLEX64));
    MR_CHECK(mr_dtype_is_complex(MR_COMPLEX128) && !mr_dtype_is_complex(MR_DOUBLE));
    MR_CHECK(mr_dtype_is_integer(MR_UINT64) && !mr_dtype_is_integer(MR_QINT32));
    MR_CHECK(!mr_dtype_is_integer(MR_BOOL));
    MR_CHECK(mr_dtype_is_plain(MR_FLOAT8_E5M2) && !mr_dtype_is_plain(MR_STRING));
    MR_CHECK(mr_dtype_is_trainable(MR_RESOURCE) && mr_dtype_is_trainable(MR_HALF));
    MR_CHECK(!mr_dtype_is_trainable(MR_INT32) && !mr_dtype_is_trainable(MR_STRING));
}
