/* web/wasm/no_dnnl.c -- in the place of ops/dnnl.c, ops/dnnl_conv.c and ops/nn/conv_float.c.
 *
 * The page computes values only to fold constants, and there is no oneDNN for WebAssembly. So all convolutions take the
 * plain loops (ops/nn/conv_plain.c), as those do that oneDNN does not support. */
#include "ops/dnnl_conv.h"
#include "ops/nn/conv_float.h"

mr_dnnl_convs *mr_dnnl_convs_new(void) { return NULL; }
void mr_dnnl_convs_free(mr_dnnl_convs *kept) { (void)kept; }
bool mr_dnnl_conv_fits(const mr_conv *c) { return (void)c, false; }

mr_status *mr_conv_float(mr_run *r, mr_dnnl_convs *kept, mr_conv_pass pass, const mr_conv *c, const float *a,
                         const float *b, float *out, const mr_tensor *constant)
{
    (void)r, (void)kept, (void)pass, (void)c, (void)a, (void)b, (void)out, (void)constant;
    return mr_error(MR_UNIMPLEMENTED, "there is no oneDNN");
}
