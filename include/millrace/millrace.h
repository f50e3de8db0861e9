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

/* Calls the listener with each line that the library logs, from any thread, one line at a time: level 0 is information,
 * 1 a warning, 2 an error.  The library itself never prints.  Unlike TF_RegisterLogListener it gets the
 * level.  A listener stays for the life of the process. */
MR_EXPORT extern void mr_register_log_listener(void (*listener)(int level, const char *text));

#ifdef __cplusplus
}
#endif

#endif
