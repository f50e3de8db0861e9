/* millrace/millrace.h -- definitions that all Millrace headers share: the export macro, the version and the log.
 *
 * The other headers of this folder add to the TensorFlow C API (tensorflow/c/c_api.h):
 *
 *     train.h        models, layers, losses, optimizers, gradients and checkpoints
 *     cluster.h      training on several devices and processes
 *     saved_model.h  exporting SavedModels
 *     device.h       simulated devices, placement by cost, device plug-ins
 *     trace.h        what the nodes of a step did, and when
 *     progress.h     progress bars
 *     data.h         the MNIST digits
 *     group.h        all-reduce and other collective operations between processes
 *     ps.h           a parameter server with key-value tables
 *     distbelief.h   Downpour SGD and Sandblaster L-BFGS
 *     batch.h        iterative map-reduce training, as a baseline
 *     federated.h    federated averaging
 *     sketch.h       approximate counts of many keys
 *     front_end.h    support for front ends in other languages
 *
 * Conventions in all of them:
 *
 *   - A function that can fail has a TF_Status *, which must not be NULL, and sets it on every call.
 *   - The result of a function named _new, _start, _connect or _join belongs to the caller, who frees it with the
 *     matching _free. Every _free accepts NULL.
 *   - Pointer arguments are borrowed for the duration of the call unless the comment says otherwise.
 *   - A struct of options or results starts with its own size, which lets old programs run with newer libraries.
 *     Options may be NULL unless the comment says otherwise; zero in a field selects the default, which its comment
 *     gives as "0: default".
 *   - unsigned char stands for a boolean. */
#ifndef MILLRACE_MILLRACE_H
#define MILLRACE_MILLRACE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Marks an exported function. The library is built with hidden visibility, so that nothing else is exported. */
#define MR_EXPORT __attribute__((visibility("default")))

/* Returns the version of Millrace, for example "0.1.0". TF_Version returns the version of the C API. */
MR_EXPORT extern const char *mr_version(void);

/* Registers a function that receives every line the library logs. The level is 0 for information, 1 for a warning and 2
 * for an error. The listener is called from any thread, but by one thread at a time, and stays registered until the
 * process ends. The library itself prints nothing. TF_RegisterLogListener does the same without the level. */
MR_EXPORT extern void mr_register_log_listener(void (*listener)(int level, const char *text));

#ifdef __cplusplus
}
#endif

#endif
