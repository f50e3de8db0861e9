/* tensorflow/c/tf_file_statistics.h -- what TF_FileStat tells about a file. */
#ifndef TENSORFLOW_C_TF_FILE_STATISTICS_H_
#define TENSORFLOW_C_TF_FILE_STATISTICS_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TF_FileStatistics {
    int64_t length;     /* bytes, -1 when not known */
    int64_t mtime_nsec; /* last change, nanoseconds since 1970 */
    bool is_directory;
} TF_FileStatistics;

#ifdef __cplusplus
}
#endif

#endif
