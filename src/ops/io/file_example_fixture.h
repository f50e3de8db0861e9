/* ops/io/file_example_fixture.h -- examples that write files: in the language of op examples (ops/example.h), run
 * in a temporary directory. For tests only. */
#ifndef MR_OPS_IO_FILE_EXAMPLE_FIXTURE_H
#define MR_OPS_IO_FILE_EXAMPLE_FIXTURE_H

#include "tests/harness/test.h"

/* Checks the example of an op in every type for which the op has kernels. */
void mr_check_file_example(const char *file, int line, const char *op, const char *text);
#define MR_CHECK_TOLD(op, text) mr_check_file_example(__FILE__, __LINE__, op, text)
/* Changes to an empty directory. */
void mr_file_examples_begin(void);

#endif
