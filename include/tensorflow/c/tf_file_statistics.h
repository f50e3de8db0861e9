/* tensorflow/c/tf_file_statistics.h -- the result of TF_FileStat. */
#ifndef TENSORFLOW_C_TF_FILE_STATISTICS_H_
#define TENSORFLOW_C_TF_FILE_STATISTICS_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Information about a file. */
typedef struct TF_FileStatistics {
    int64_t length;     /* size in bytes, -1 if unknown */
    int64_t mtime_nsec; /* time of the last change, in nanoseconds since 1970 */
    bool is_directory;
} TF_FileStatistics;

#ifdef __cplusplus
}
#endif

#endif
