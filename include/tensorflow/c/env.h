/* tensorflow/c/env.h -- files, clocks, threads and shared libraries, for kernels and plugins.
 *
 * Paths are local; a leading "file://" is dropped. */
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

typedef struct TF_WritableFileHandle TF_WritableFileHandle;
typedef struct TF_StringStream TF_StringStream;
typedef struct TF_Thread TF_Thread;

typedef struct TF_ThreadOptions {
    size_t stack_size; /* bytes, 0: the system's default */
    size_t guard_size; /* bytes, 0: the system's default */
    int numa_node;     /* a hint, -1: none */
} TF_ThreadOptions;

/* ---- directories and files ---- */

/* Makes one directory, whose parent exists.  ALREADY_EXISTS when the name is taken. */
TF_CAPI_EXPORT extern void TF_CreateDir(const char *dirname, TF_Status *status);

/* Removes an empty directory. */
TF_CAPI_EXPORT extern void TF_DeleteDir(const char *dirname, TF_Status *status);

/* Removes a directory and all below it; symbolic links are removed, not followed.  Goes on after
 * an error: the counts say what is left and the status tells the first error.  NOT_FOUND, counted
 * as one directory, when dirname does not exist. */
TF_CAPI_EXPORT extern void TF_DeleteRecursively(const char *dirname, int64_t *undeleted_file_count,
                                                int64_t *undeleted_dir_count, TF_Status *status);

/* Fills stats on success. */
TF_CAPI_EXPORT extern void TF_FileStat(const char *filename, TF_FileStatistics *stats,
                                       TF_Status *status);

/* Opens a file for writing, empty.  *handle is NULL on error; TF_CloseWritableFile ends it. */
TF_CAPI_EXPORT extern void TF_NewWritableFile(const char *filename, TF_WritableFileHandle **handle,
                                              TF_Status *status);

/* Writes what is buffered, closes the file and frees the handle, also when that fails. */
TF_CAPI_EXPORT extern void TF_CloseWritableFile(TF_WritableFileHandle *handle, TF_Status *status);

/* Writes what is buffered and waits until it is on the disk. */
TF_CAPI_EXPORT extern void TF_SyncWritableFile(TF_WritableFileHandle *handle, TF_Status *status);

/* Writes what is buffered, so that others can read it. */
TF_CAPI_EXPORT extern void TF_FlushWritableFile(TF_WritableFileHandle *handle, TF_Status *status);

TF_CAPI_EXPORT extern void TF_AppendWritableFile(TF_WritableFileHandle *handle, const char *data,
                                                 size_t length, TF_Status *status);

TF_CAPI_EXPORT extern void TF_DeleteFile(const char *filename, TF_Status *status);

/* ---- lists of names ---- */

/* Sets *result to the next string, owned by the list; false and NULL at the end. */
TF_CAPI_EXPORT extern bool TF_StringStreamNext(TF_StringStream *list, const char **result);

/* Frees the list.  NULL is fine. */
TF_CAPI_EXPORT extern void TF_StringStreamDone(TF_StringStream *list);

/* The names in a directory, without . and .., in no order.  NULL on error; the caller ends the
 * list with TF_StringStreamDone. */
TF_CAPI_EXPORT extern TF_StringStream *TF_GetChildren(const char *filename, TF_Status *status);

/* Directories for temporary files, the preferred one first; each ends in a slash. */
TF_CAPI_EXPORT extern TF_StringStream *TF_GetLocalTempDirectories(void);

/* Makes an empty file with a fresh name that ends in .extension and returns its path, which the
 * caller frees with free(); NULL when none could be made. */
TF_CAPI_EXPORT extern char *TF_GetTempFileName(const char *extension);

/* ---- time since 1970 ---- */

TF_CAPI_EXPORT extern uint64_t TF_NowNanos(void);
TF_CAPI_EXPORT extern uint64_t TF_NowMicros(void);
TF_CAPI_EXPORT extern uint64_t TF_NowSeconds(void);

/* ---- threads ---- */

TF_CAPI_EXPORT extern void TF_DefaultThreadOptions(TF_ThreadOptions *options);

/* Runs work_func(param) in a new thread; the name is copied.  NULL when the system refuses.  The
 * caller joins it. */
TF_CAPI_EXPORT extern TF_Thread *TF_StartThread(const TF_ThreadOptions *options,
                                                const char *thread_name, void (*work_func)(void *),
                                                void *param);

/* Waits for the thread to end and frees the handle.  NULL is fine. */
TF_CAPI_EXPORT extern void TF_JoinThread(TF_Thread *thread);

/* ---- shared libraries ---- */

/* Opens a shared library for TF_GetSymbolFromLibrary.  It stays loaded.  NULL on error. */
TF_CAPI_EXPORT extern void *TF_LoadSharedLibrary(const char *library_filename, TF_Status *status);

/* The address of a symbol; NULL and NOT_FOUND when there is none. */
TF_CAPI_EXPORT extern void *TF_GetSymbolFromLibrary(void *handle, const char *symbol_name,
                                                    TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
