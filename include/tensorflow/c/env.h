/* tensorflow/c/env.h -- files, clocks, threads and shared libraries, for kernels and plug-ins.
 *
 * Paths are local; a leading "file://" is ignored. */
#ifndef TENSORFLOW_C_ENV_H_
#define TENSORFLOW_C_ENV_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_file_statistics.h"
#include "tensorflow/c/tf_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A file open for writing. */
typedef struct TF_WritableFileHandle TF_WritableFileHandle;
/* A list of strings to iterate over. */
typedef struct TF_StringStream TF_StringStream;
/* A running thread. */
typedef struct TF_Thread TF_Thread;

/* Options for a new thread. */
typedef struct TF_ThreadOptions {
    size_t stack_size; /* in bytes; 0: the default of the system */
    size_t guard_size; /* in bytes; 0: the default of the system */
    int numa_node;     /* preferred NUMA node; -1: none */
} TF_ThreadOptions;

/* ---- directories and files ---- */

/* Creates a directory, whose parent must exist. Fails with TF_ALREADY_EXISTS if the name is taken. */
TF_CAPI_EXPORT extern void TF_CreateDir(const char *dirname, TF_Status *status);

/* Removes an empty directory. */
TF_CAPI_EXPORT extern void TF_DeleteDir(const char *dirname, TF_Status *status);

/* Removes a directory and everything in it. Symbolic links are removed, not followed. It continues after an error: the
 * counts say what is left, and status reports the first error. If dirname does not exist, it fails with TF_NOT_FOUND
 * and counts one directory. */
TF_CAPI_EXPORT extern void TF_DeleteRecursively(const char *dirname, int64_t *undeleted_file_count,
                                                int64_t *undeleted_dir_count, TF_Status *status);

/* Stores information about a file in *stats. */
TF_CAPI_EXPORT extern void TF_FileStat(const char *filename, TF_FileStatistics *stats, TF_Status *status);

/* Opens a file for writing and empties it. *handle is NULL after an error. TF_CloseWritableFile frees it. */
TF_CAPI_EXPORT extern void TF_NewWritableFile(const char *filename, TF_WritableFileHandle **handle, TF_Status *status);

/* Writes buffered data, closes the file and frees the handle, even after an error. */
TF_CAPI_EXPORT extern void TF_CloseWritableFile(TF_WritableFileHandle *handle, TF_Status *status);

/* Writes buffered data and waits until it is on the disk. */
TF_CAPI_EXPORT extern void TF_SyncWritableFile(TF_WritableFileHandle *handle, TF_Status *status);

/* Writes buffered data, so that others can read it. */
TF_CAPI_EXPORT extern void TF_FlushWritableFile(TF_WritableFileHandle *handle, TF_Status *status);

/* Appends data to the file. */
TF_CAPI_EXPORT extern void TF_AppendWritableFile(TF_WritableFileHandle *handle, const char *data, size_t length,
                                                 TF_Status *status);

/* Removes a file. */
TF_CAPI_EXPORT extern void TF_DeleteFile(const char *filename, TF_Status *status);

/* ---- lists of names ---- */

/* Sets *result to the next string, which the list owns, and returns true. At the end, sets it to NULL and returns
 * false. */
TF_CAPI_EXPORT extern bool TF_StringStreamNext(TF_StringStream *list, const char **result);

/* Frees the list. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_StringStreamDone(TF_StringStream *list);

/* Returns the names in a directory without . and .., in no particular order. The caller frees the list with
 * TF_StringStreamDone. NULL after an error. */
TF_CAPI_EXPORT extern TF_StringStream *TF_GetChildren(const char *filename, TF_Status *status);

/* Returns directories for temporary files, the preferred one first, each with a slash at its end. The caller frees the
 * list with TF_StringStreamDone. */
TF_CAPI_EXPORT extern TF_StringStream *TF_GetLocalTempDirectories(void);

/* Creates an empty file with a new name that ends in .extension and returns its path, which the caller frees with
 * free(). NULL if it cannot be created. */
TF_CAPI_EXPORT extern char *TF_GetTempFileName(const char *extension);

/* ---- time since 1970-01-01 00:00 UTC ---- */

/* Returns the time in nanoseconds. */
TF_CAPI_EXPORT extern uint64_t TF_NowNanos(void);
/* Returns the time in microseconds. */
TF_CAPI_EXPORT extern uint64_t TF_NowMicros(void);
/* Returns the time in seconds. */
TF_CAPI_EXPORT extern uint64_t TF_NowSeconds(void);

/* ---- threads ---- */

/* Sets all options to their defaults. */
TF_CAPI_EXPORT extern void TF_DefaultThreadOptions(TF_ThreadOptions *options);

/* Runs work_func(param) in a new thread with this name, which is copied. The caller joins it. Returns NULL if the
 * system refuses. */
TF_CAPI_EXPORT extern TF_Thread *TF_StartThread(const TF_ThreadOptions *options, const char *thread_name,
                                                void (*work_func)(void *), void *param);

/* Waits for the thread to end and frees the handle. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_JoinThread(TF_Thread *thread);

/* ---- shared libraries ---- */

/* Loads a shared library for TF_GetSymbolFromLibrary. It stays loaded. NULL after an error. */
TF_CAPI_EXPORT extern void *TF_LoadSharedLibrary(const char *library_filename, TF_Status *status);

/* Returns the address of a symbol. NULL and TF_NOT_FOUND if there is none. */
TF_CAPI_EXPORT extern void *TF_GetSymbolFromLibrary(void *handle, const char *symbol_name, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
