/* cli/op_page.h -- descriptions of ops for `millrace ops` and for the pages of docs/ops/. */
#ifndef MR_CLI_OP_PAGE_H
#define MR_CLI_OP_PAGE_H

#include "graph/op.h"

/* "MatMul(a: T, b: T) -> (product: T)" */
void mr_op_signature(const mr_op_def *d, mr_str *out);
/* "{half, float} = DT_FLOAT": what values an attr may have, and its default. */
void mr_attr_rule(const mr_attr_def *a, mr_str *out);
/* "CPU: half, float": the devices that run it, and for which types; "none" without a kernel. */
void mr_op_devices(const mr_op_def *d, mr_str *out);
/* "yes", "stops here" (backpropagation ends at the op without an error) or "none" (it is an error). */
const char *mr_op_gradient(const mr_op_def *d);

/* Writes the op reference as Markdown into a folder, which is created if it does not exist: README.md (the families,
 * coverage of TensorFlow), tensorflow.md (TensorFlow's ops one by one) and a page per family. The family of an op is
 * the folder of its source file under src/ops. */
mr_status *mr_op_pages_write(const char *folder);

#endif
