/* ops/io/remap_test.c -- vocabularies and matrices remapped to other vocabularies. */
#include "ops/io/file_example_fixture.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/str.h"

#define WORDS "WriteFile: \"new\", \"c\\na\\nx\\nb\\n\"; WriteFile: \"old\", \"a\\nb\\nc\\n\"; "

MR_TEST(vocabulary_is_found_in_the_other_one)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("GenerateVocabRemapping",
                  WORDS "new_vocab_offset=0 num_new_vocab=4: \"new\", \"old\" -> [2, 0, -1, 1], 3");
    MR_CHECK_TOLD("GenerateVocabRemapping",
                  WORDS "new_vocab_offset=1 num_new_vocab=2: \"new\", \"old\" -> [0, -1], 1");
    MR_CHECK_TOLD("GenerateVocabRemapping", WORDS "new_vocab_offset=0 num_new_vocab=4 old_vocab_size=1: "
                                                  "\"new\", \"old\" -> [-1, 0, -1, -1], 1");
    MR_CHECK_TOLD("GenerateVocabRemapping",
                  WORDS "WriteFile: \"old\", \"a\\na\\n\"; new_vocab_offset=0 num_new_vocab=4: \"new\", "
                        "\"old\" -> !FAILED_PRECONDITION HashTable has different value for same key. Key "
                        "a has 0 and trying to add value 1");
}

#define MATRIX "SaveV2 dtypes=[float]: \"c\", [\"m\"], [\"\"], (float[[0, 1], [2, 3], [4, 5]]); "

MR_TEST(matrix_is_loaded_in_another_order)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=3 num_cols=2: \"c\", \"m\", [2, -1, 0], [1, 0], "
                                               "[8, 9] -> [[5, 4], [8, 9], [1, 0]]");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=1 num_cols=3: \"c\", \"m\", [1], [-1, 1, -1], "
                                               "[8, 9] -> [[8, 3, 9]]");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=2 num_cols=2: \"c\", \"m\", [1, 2], shape(0), "
                                               "shape(0) -> [[2, 3], [4, 5]]");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=1 num_cols=2: [\"c\"], \"m\", [1], shape(0), shape(0) -> [[2, 3]]");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=1 num_cols=2: [\"c\", \"c\"], \"m\", [1], shape(0), shape(0) -> "
                                               "!INVALID_ARGUMENT must be one string");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=0 num_cols=2: \"c\", \"m\", shape(0), shape(0), "
                                               "shape(0) -> shape(0,2)");
}

MR_TEST(matrix_says_why_it_cannot_be_loaded)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=1 num_cols=2: \"c\", \"m\", [3], shape(0), "
                                               "shape(0) -> !INVALID_ARGUMENT row_remapping[0] is 3");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=2 num_cols=2: \"c\", \"m\", [1, 1], shape(0), "
                                               "shape(0) -> !UNIMPLEMENTED Old ID 1 is mapped to both new "
                                               "ID 0 and 1");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=1 num_cols=2: \"c\", \"m\", [-1], shape(0), [1] "
                                               "-> !INVALID_ARGUMENT initializing_values contained 1 elements, but more missing values remain.");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=1 num_cols=2: \"c\", \"m\", [1], shape(0), [1] "
                                               "-> !INVALID_ARGUMENT initializing_values contained 1 elements, but only 0 elements were used");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=1 num_cols=3: \"c\", \"m\", [1], shape(0), "
                                               "shape(0) -> !INVALID_ARGUMENT Tensor m has shape [3,2], where the size of its 2nd dimension is 2 instead "
                                               "of being equal to num_cols=3");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=1 num_cols=2: \"c\", \"m\", [1, 2], shape(0), shape(0) -> "
                                               "!INVALID_ARGUMENT Size of row_remapping is 2 instead of being equal to num_rows=1");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=1 num_cols=2: \"c\", \"m\", [1], [0], shape(0) -> "
                                               "!INVALID_ARGUMENT Provided col_remapping, but its size is 1 instead of being equal to num_cols=2");
    MR_CHECK_TOLD("LoadAndRemapMatrix", MATRIX "num_rows=1 num_cols=2: \"c\", \"x\", [1], shape(0), "
                                               "shape(0) -> !NOT_FOUND Key x not found");
}

static void check_vocabularies(const char *golden, const char *new_words, const char *old_words)
{
    char *dir = realpath(golden, NULL);
    MR_CHECK(dir != NULL);
    char *text = mr_printf("new_vocab_offset=0 num_new_vocab=4: \"%s/%s\", \"%s/%s\" -> [2, 0, -1, 1], 3", dir, new_words,
                           dir, old_words);
    mr_file_examples_begin();
    MR_CHECK_TOLD("GenerateVocabRemapping", text);
    free(dir);
    mr_free(text);
}

MR_TEST(vocabulary_golden_files_are_read)
{
    check_vocabularies(mr_test_golden(), "vocabulary/new.txt", "vocabulary/old.txt");
}

/* The keywords of TensorFlow's own tests. */
MR_TEST(vocabulary_golden_files_of_tensorflow_are_read)
{
    check_vocabularies(mr_test_tensorflow_golden(), "checkpoint/contrib_bundle/keyword_new.txt",
                       "checkpoint/contrib_bundle/keyword.txt");
}
