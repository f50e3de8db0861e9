/* millrace/millrace.h -- what Millrace adds to the TensorFlow C API. */
#ifndef MILLRACE_MILLRACE_H
#define MILLRACE_MILLRACE_H

#ifdef __cplusplus
extern "C" {
#endif

/* The library is built with hidden visibility; only what carries this mark leaves it. */
#define MR_EXPORT __attribute__((visibility("default")))

/* The version of Millrace itself, "0.1.0"; TF_Version tells that of the C API. */
MR_EXPORT extern const char *mr_version(void);

#ifdef __cplusplus
}
#endif

#endif
