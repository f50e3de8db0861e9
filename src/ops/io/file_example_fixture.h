/* ops/io/file_example_fixture.h -- examples that leave files behind: told as an op's are (ops/example.h), run in a
 * folder of the test's own.  For tests only. */
#ifndef MR_OPS_IO_FILE_EXAMPLE_FIXTURE_H
#define MR_OPS_IO_FILE_EXAMPLE_FIXTURE_H

#include "tests/harness/test.h"

/* The example of an op gives what it says, in every type the op has kernels for. */
void mr_check_file_example(const char *file, int line, const char *op, const char *text);
#define MR_CHECK_TOLD(op, text) mr_check_file_example(__FILE__, __LINE__, op, text)
/* The current folder becomes an empty one. */
void mr_file_examples_begin(void);

#endif
