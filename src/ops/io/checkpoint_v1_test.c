/* ops/io/checkpoint_v1_test.c -- tensors saved in the first format are restored by either reader. */
#include "ops/io/file_example_fixture.h"

#include "base/memory.h"
#include "store/checkpoint_v1.h"

MR_TEST(checkpoint_v1_restores_what_was_saved_in_every_type)
{
    static const char *const types[] = {
        "float",  "double", "half",   "bfloat16",  "int8",       "int16", "int32",   "int64",
        "uint8",  "uint16", "uint32", "uint64",    "bool",       "qint8", "quint8",  "qint16",
        "quint16", "qint32", "complex64", "complex128"};
    mr_file_examples_begin();
    for (int i = 0; i < MR_COUNT(types); i++) {
        char *text = mr_printf("Save T=[%s]: \"c\", [\"t\"], (%s[[1, 0], [0, 1]]); dt=%s: \"c\", \"t\" -> "
                               "%s[[1, 0], [0, 1]]",
                               types[i], types[i], types[i], types[i]);
        MR_CHECK_TOLD("Restore", text);
        mr_free(text);
    }
    MR_CHECK_TOLD("Restore", "Save T=[string]: \"c\", [\"t\"], ([\"a\", \"\", \"bc\"]); dt=string: \"c\", "
                             "\"t\" -> [\"a\", \"\", \"bc\"]");
    MR_CHECK_TOLD("Restore", "Save T=[int32]: \"c\", [\"t\"], (int32 -7); dt=int32: \"c\", \"t\" -> -7");
    MR_CHECK_TOLD("Restore",
                  "Save T=[float]: \"c\", [\"t\"], (float shape(0,3)); dt=float: \"c\", \"t\" -> shape(0,3)");
}

#define TWO_FILES                                                                                 \
    "SaveSlices T=[float, int32]: \"c-00000-of-00002\", [\"t\", \"i\"], [\"3 2 0,2:-\", \"\"], "   \
    "(float[[0, 1], [2, 3]], int32 5); "                                                          \
    "SaveSlices T=[float]: \"c-00001-of-00002\", [\"t\"], [\"3 2 2,1:-\"], (float[[4, 5]]); "

MR_TEST(checkpoint_v1_puts_parts_from_several_files_together)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("Restore", TWO_FILES "dt=float: \"c-*\", \"t\" -> [[0, 1], [2, 3], [4, 5]]");
    MR_CHECK_TOLD("Restore", TWO_FILES "dt=int32: \"c-?\?\?\?\?-of-00002\", \"i\" -> 5");
    MR_CHECK_TOLD("RestoreSlice",
                  TWO_FILES "dt=float: \"c-*\", \"t\", \"3 2 1,2:1,1\" -> [[3], [5]]");
    MR_CHECK_TOLD("RestoreV2", TWO_FILES "dtypes=[float, int32]: \"c-*\", [\"t\", \"i\"], "
                               "[\"3 2 1,1:-\", \"\"] -> float[[2, 3]], int32 5");
}

MR_TEST(checkpoint_v1_says_what_is_wrong)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("Restore", TWO_FILES "dt=float: \"c-*0-of*\", \"t\" -> !NOT_FOUND Parts of tensor t are "
                             "missing");
    MR_CHECK_TOLD("Restore", TWO_FILES "dt=float: \"c-*\", \"u\" -> !NOT_FOUND Tensor name \"u\" not found "
                             "in checkpoint files");
    MR_CHECK_TOLD("Restore", TWO_FILES "dt=int32: \"c-*\", \"t\" -> !INVALID_ARGUMENT Expected to restore a "
                             "tensor of type int32, got a tensor of type float instead: tensor_name = t");
    MR_CHECK_TOLD("RestoreSlice", TWO_FILES "dt=float: \"c-*\", \"t\", \"2 2 -:-\" -> !INVALID_ARGUMENT Shape "
                                  "in shape_and_slice spec does not match the shape in the save file");
    MR_CHECK_TOLD("SaveSlices", "T=[float, float]: \"d\", [\"t\", \"t\"], [\"3 0,2\", \"3 1,2\"], "
                                "(float[0, 1], float[1, 2]) -> !INVALID_ARGUMENT Overlapping slices");
    MR_CHECK_TOLD("SaveSlices", "T=[float]: \"d\", [\"t\"], [\"3 0,2\"], (float[0]) -> !INVALID_ARGUMENT Slice "
                                "in shape_and_slice specification does not match");
    MR_CHECK_TOLD("Restore", "WriteFile: \"bad\", \"no table\"; dt=float: \"bad\", \"t\" -> !DATA_LOSS bad");
}

MR_TEST(checkpoint_v1_lists_what_it_holds)
{
    mr_v1_reader *r;
    mr_dtype type;
    const mr_shape *shape;
    mr_file_examples_begin();
    MR_CHECK_TOLD("Save", "T=[float, int64]: \"c\", [\"b\", \"a\"], (float[1, 2], int64 3) ->");
    MR_CHECK_OK(mr_v1_open(MR_SV("c"), &r));
    MR_CHECK_INT(mr_v1_count(r), 2);
    MR_CHECK(mr_v1_lookup(r, MR_SV("b"), &type, &shape));
    MR_CHECK(type == MR_FLOAT && shape->rank == 1 && shape->dims[0] == 2);
    MR_CHECK(!mr_v1_lookup(r, MR_SV("c"), &type, &shape));
    mr_v1_close(r);
}
