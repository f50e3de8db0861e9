/* board/http_library.c -- opens libmillrace-board.so. */
#include <dlfcn.h>

#include "base/beside.h"
#include "base/memory.h"
#include "board/http.h"

#define FILE_NAME "libmillrace-board.so"

/* One command opens it, once; it stays open until the process ends. */
mr_status *mr_board_http_library(const mr_board_http **out)
{
    mr_str path = {0};
    mr_status *st = NULL;
    *out = NULL;
    mr_find_beside(FILE_NAME, "MILLRACE_BOARD_LIB", &path);
    void *lib = dlopen(mr_str_z(&path), RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        st = mr_error(MR_UNIMPLEMENTED,
                      "the web server is not available: %s.  It needs " FILE_NAME
                      " (MILLRACE_BOARD_LIB sets its path); building that "
                      "needs the package libmicrohttpd-dev, running it libmicrohttpd12",
                      dlerror());
    } else {
        mr_board_http_fn get = (mr_board_http_fn)(uintptr_t)dlsym(lib, MR_BOARD_HTTP_SYMBOL);
        *out = get ? get(MR_BOARD_HTTP_ABI) : NULL;
        if (!*out)
            st = mr_error(MR_UNIMPLEMENTED, "%s is not of this build of the library", mr_str_z(&path));
    }
    mr_str_deinit(&path);
    return st;
}
