/* net/zookeeper/library.c -- the one symbol of libmillrace-zookeeper.so. */
#include "net/zookeeper/zookeeper.h"

#include <zookeeper/zookeeper.h>

const mr_naming_library *mr_naming_library_get(const mr_naming_host *host) __attribute__((visibility("default")));

/* The client would write to stderr by itself; what a handle has to say comes to its own callback. */
const mr_naming_library *mr_naming_library_get(const mr_naming_host *host)
{
    static const mr_naming_library library = {.abi = MR_NAMING_LIBRARY_ABI, .open = mr_zookeeper_open};
    if (host->abi != MR_NAMING_LIBRARY_ABI)
        return NULL;
    mr_log_listen(host->log, NULL);
    if (!host->has_zookeeper)
        zoo_set_debug_level((ZooLogLevel)0);
    return &library;
}
