/* ops/io/files_test.c -- files are written, read and matched. */
#include "ops/io/file_example_fixture.h"

MR_TEST(file_that_was_written_is_read)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("ReadFile", "WriteFile: \"a/b/c\", \"x\\x00y\"; : \"a/b/c\" -> \"x\\x00y\"");
    MR_CHECK_TOLD("ReadFile", "WriteFile: \"f\", \"one\"; WriteFile: \"f\", \"\"; : \"f\" -> \"\"");
    MR_CHECK_TOLD("ReadFile", ": \"a\" -> !FAILED_PRECONDITION Is a directory");
}

MR_TEST(files_are_found_by_patterns_in_all_folders)
{
#define FILES "WriteFile: \"a/x1\", \"\"; WriteFile: \"b/x2\", \"\"; WriteFile: \"b/.x\", \"\"; "
    mr_file_examples_begin();
    MR_CHECK_TOLD("MatchingFiles", FILES ": \"*/x?\" -> [\"a/x1\", \"b/x2\"]");
    MR_CHECK_TOLD("MatchingFiles", FILES ": \"b/*\" -> [\"b/.x\", \"b/x2\"]");
    MR_CHECK_TOLD("MatchingFiles", FILES ": [\"b/x[0-9]\", \"a/x1\"] -> [\"a/x1\", \"b/x2\"]");
    MR_CHECK_TOLD("MatchingFiles", FILES ": \"?\" -> [\"a\", \"b\"]");
    MR_CHECK_TOLD("MatchingFiles", FILES ": \"*\\x5c*\" -> shape(0)");
    MR_CHECK_TOLD("MatchingFiles", FILES ": \"a/x1/*\" -> shape(0)");
}
