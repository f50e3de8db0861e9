/* millrace/front_end.h -- support for front ends in other languages.
 *
 * It has these parts: interrupting runs, operations that call functions of the front end, protocol buffer messages
 * without generated code, and small things that the C API of TensorFlow lacks. The rules of tensorflow/c/c_api.h apply. */
#ifndef MILLRACE_FRONT_END_H
#define MILLRACE_FRONT_END_H

#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- interrupting runs ----
 *
 * A front end that is interrupted, for example by Ctrl-C, fires an interrupter. The runs under it end with
 * TF_CANCELLED, and the session stays usable. */

/* Cancels the runs of threads that are under it. */
typedef struct mr_interrupter mr_interrupter;

/* Creates an interrupter that is not fired. */
MR_EXPORT extern mr_interrupter *mr_interrupter_new(void);
/* Frees it. No other thread may be under it any more (mr_run_under). NULL is allowed. */
MR_EXPORT extern void mr_interrupter_free(mr_interrupter *i);
/* Cancels all runs under it. Runs that start under it later end at once, until mr_interrupter_reset. May be called from
 * any thread, but not from a signal handler. */
MR_EXPORT extern void mr_interrupter_fire(mr_interrupter *i);
/* Makes it usable again after it was fired. Nothing may be running under it. */
MR_EXPORT extern void mr_interrupter_reset(mr_interrupter *i);
/* Puts the runs that this thread starts from now on (TF_SessionRun, TF_SessionPRun, TFE_Execute) under i. NULL: under
 * none. */
MR_EXPORT extern void mr_run_under(mr_interrupter *i);

/* ---- functions of the front end ----
 *
 * The operations PyFunc, PyFuncStateless and EagerPyFunc pass their inputs to one hook of the process. The hook finds
 * the function by the operation's token, calls it, and finishes the call, now or later and from any thread. It may
 * block, even on other functions of the same step, because it runs on a thread that is not needed for computing. */

/* A call of such an operation. It is valid until mr_function_call_finish, and belongs to one thread at a time. */
typedef struct mr_function_call mr_function_call;
/* The type of the hook. It must arrange for mr_function_call_finish to be called once for every call. */
typedef void mr_function_hook(void *ctx, mr_function_call *call);

/* Sets the hook of the process. NULL removes it; the caller makes sure that no such operation is running. */
MR_EXPORT extern void mr_set_function_hook(mr_function_hook *hook, void *ctx);

/* Returns the token of the operation and stores its length. The token is not NUL-terminated and is valid as long as the
 * call. */
MR_EXPORT extern const char *mr_function_call_token(const mr_function_call *c, size_t *length);
/* Returns the number of inputs. */
MR_EXPORT extern int mr_function_call_num_inputs(const mr_function_call *c);
/* Returns input i, which the caller deletes and must not write to. NULL if there is no such input, or no memory. */
MR_EXPORT extern TF_Tensor *mr_function_call_input(const mr_function_call *c, int i);
/* Returns the number of outputs. */
MR_EXPORT extern int mr_function_call_num_outputs(const mr_function_call *c);
/* Returns the type that output i must have, 0 if there is no such output. */
MR_EXPORT extern TF_DataType mr_function_call_output_type(const mr_function_call *c, int i);
/* Sets output i and takes ownership of the tensor. Setting it again replaces it. */
MR_EXPORT extern void mr_function_call_set_output(mr_function_call *c, int i, TF_Tensor *t);
/* Ends the call and frees it. An error in status becomes that of the operation. With TF_OK or NULL the operation
 * succeeds if every output is set and has the right type, and fails otherwise. */
MR_EXPORT extern void mr_function_call_finish(mr_function_call *c, const TF_Status *status);

/* ---- protocol buffer messages ----
 *
 * Messages and enums are named as in the package tensorflow, without its name: "GraphDef", "Summary.Value". All that
 * proto/ defines are known. The caller deletes the returned buffers. After an error they are NULL; an unknown name is
 * TF_NOT_FOUND. */

/* Describes the fields of a message, ordered by number, with one line for each. A line has seven parts separated by
 * tabs: the name; the number; "one", "many" or "map"; the type ("int32", "float", "string", "bytes", "message", "enum"
 * and so on); the name of the message or enum, or ""; the name of the oneof, or ""; and 1 if the field is written
 * packed, otherwise 0. */
MR_EXPORT extern TF_Buffer *mr_message_describe(const char *message, TF_Status *status);
/* Describes the values of an enum, with one line for each: the name, a tab, the number. */
MR_EXPORT extern TF_Buffer *mr_enum_describe(const char *name, TF_Status *status);
/* Converts a serialized message to the protocol buffer text format. */
MR_EXPORT extern TF_Buffer *mr_message_to_text(const char *message, const void *proto, size_t proto_len,
                                               TF_Status *status);
/* Converts a message in the text format to its serialized form. */
MR_EXPORT extern TF_Buffer *mr_message_from_text(const char *message, const char *text, size_t text_len,
                                                 TF_Status *status);

/* ---- operations ---- */

/* Returns the position of an operation in its graph: TF_GraphNextOperation returns it when *pos is this number. SIZE_MAX for
 * NULL. */
MR_EXPORT extern size_t mr_operation_index(const TF_Operation *oper);

/* ---- files ---- */

/* Returns the masked CRC-32C of the data, the checksum in TFRecord files and checkpoints. */
MR_EXPORT extern uint32_t mr_masked_crc32c(const void *data, size_t length);

#ifdef __cplusplus
}
#endif

#endif
