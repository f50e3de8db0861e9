/* cli/op_page.h -- what `millrace ops` says of an op, and the page docs/ops.md. */
#ifndef MR_CLI_OP_PAGE_H
#define MR_CLI_OP_PAGE_H

#include "graph/op.h"

/* "MatMul(a: T, b: T) -> (product: T)" */
void mr_op_signature(const mr_op_def *d, mr_str *out);
/* "{half, float} = DT_FLOAT": what values an attr may have, and its default. */
void mr_attr_rule(const mr_attr_def *a, mr_str *out);
/* "CPU: half, float": the devices that run it, and in which types. */
void mr_op_devices(const mr_op_def *d, mr_str *out);
/* "yes", or why not. */
const char *mr_op_gradient(const mr_op_def *d);

/* All ops, and how far they go beside TensorFlow's, as Markdown. */
void mr_op_page(mr_str *out);

#endif
