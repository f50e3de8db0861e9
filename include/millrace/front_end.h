/* millrace/front_end.h -- for front ends in other languages: ending runs from outside, operations whose work is done by functions
 * of the front end, and the protocol messages without generated code.
 *
 * The rules of c_api.h hold. */
#ifndef MILLRACE_FRONT_END_H
#define MILLRACE_FRONT_END_H

#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ending runs ----
 *
 * A front end that is interrupted (by Ctrl-C, say) fires an interrupter: the runs under it end with CANCELLED, the session
 * stays usable. */

typedef struct mr_interrupter mr_interrupter;

MR_EXPORT extern mr_interrupter *mr_interrupter_new(void);
/* No thread may be under it any more. */
MR_EXPORT extern void mr_interrupter_free(mr_interrupter *i);
/* From any thread; not from a signal handler.  Runs that start under it later end at once too, until it is reset. */
MR_EXPORT extern void mr_interrupter_fire(mr_interrupter *i);
/* While nothing runs under it. */
MR_EXPORT extern void mr_interrupter_reset(mr_interrupter *i);
/* Puts the runs that this thread starts from now on (TF_SessionRun, TF_SessionPRun, TFE_Execute) under i; NULL: under
 * none. */
MR_EXPORT extern void mr_run_under(mr_interrupter *i);

/* ---- functions of the front end ----
 *
 * PyFunc, PyFuncStateless and EagerPyFunc hand their inputs to one hook of the process, which finds the function by the
 * operation's token.  The hook may block, also on other functions of the same step: it is called in a thread that is not needed
 * for computing.  It may also finish the call later and in another thread. */

typedef struct mr_function_call mr_function_call;
typedef void mr_function_hook(void *ctx, mr_function_call *call);

/* NULL takes it away; who does so sees to it that nothing runs. */
MR_EXPORT extern void mr_set_function_hook(mr_function_hook *hook, void *ctx);

/* Not NUL-terminated; *length has its length. */
MR_EXPORT extern const char *mr_function_call_token(const mr_function_call *c, size_t *length);
MR_EXPORT extern int mr_function_call_num_inputs(const mr_function_call *c);
/* To be deleted; NULL when there is no such input, or no memory. */
MR_EXPORT extern TF_Tensor *mr_function_call_input(const mr_function_call *c, int i);
MR_EXPORT extern int mr_function_call_num_outputs(const mr_function_call *c);
MR_EXPORT extern TF_DataType mr_function_call_output_type(const mr_function_call *c, int i);
/* Takes the tensor over. */
MR_EXPORT extern void mr_function_call_set_output(mr_function_call *c, int i, TF_Tensor *t);
/* Once; the call is gone afterwards.  status has an error of the function, or OK (NULL too): then an output that was not set, or
 * of another type than the operation's, fails the operation. */
MR_EXPORT extern void mr_function_call_finish(mr_function_call *c, const TF_Status *status);

/* ---- protocol messages ----
 *
 * By their names in the package tensorflow: "GraphDef", "Summary.Value"; enums likewise.  All that proto/ has are known.
 * Buffers are to be deleted; NULL after an error. */

/* A line for each field, in the order of the numbers, its parts between tabs: name, number, "one" or "many" or "map",
 * type ("int32", "float", "string", "bytes", "message", "enum", ..), the name of its message or enum or "", the name of its
 * oneof or "", and 1 when it is written packed. */
MR_EXPORT extern TF_Buffer *mr_message_describe(const char *message, TF_Status *status);
/* A line for each value: name, tab, number. */
MR_EXPORT extern TF_Buffer *mr_enum_describe(const char *name, TF_Status *status);
/* The text format of a message, and back. */
MR_EXPORT extern TF_Buffer *mr_message_to_text(const char *message, const void *proto, size_t proto_len, TF_Status *status);
MR_EXPORT extern TF_Buffer *mr_message_from_text(const char *message, const char *text, size_t text_len, TF_Status *status);

/* ---- files ---- */

/* The checksum of TFRecord files and checkpoints. */
MR_EXPORT extern uint32_t mr_masked_crc32c(const void *data, size_t length);

#ifdef __cplusplus
}
#endif

#endif
