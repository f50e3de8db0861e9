/* exec/opencl/library.c -- opens libmillrace-opencl.so if there is a reason to.
 *
 * Without MILLRACE_OPENCL nothing is loaded unless the machine announces an OpenCL driver other than pocl.
 * The library is opened once and never closed: OpenCL drivers do not survive being unloaded. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <strings.h>

#include "base/beside.h"
#include "base/memory.h"
#include "exec/opencl/opencl.h"

#define FILE_NAME "libmillrace-opencl.so"
#define VENDORS "/etc/OpenCL/vendors"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static const mr_cl_driver *opened MR_GUARDED_BY(mu);

/* ---- whether to open it ---- */

/* Files of /etc/OpenCL/vendors end in .icd and are named after the driver. */
static bool names_a_driver(const char *file)
{
    size_t n = strlen(file);
    return n > 4 && strcmp(file + n - 4, ".icd") == 0 && !strstr(file, "pocl");
}

/* Drivers announce themselves by a file. pocl is skipped: it computes on the host's CPU, where our own
 * kernels are faster. */
static bool look_for_drivers(void)
{
    const char *said = getenv("OCL_ICD_VENDORS"), *folder = said && said[0] ? said : VENDORS;
    DIR *d = opendir(folder);
    bool found = !d && names_a_driver(folder); /* the variable may name a file instead */
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = names_a_driver(e->d_name);
    if (d)
        closedir(d);
    return found;
}

/* MILLRACE_OPENCL decides; if it is not set, the drivers that the machine announces. */
bool mr_opencl_wanted(const char **want)
{
    const char *said = getenv("MILLRACE_OPENCL");
    *want = NULL;
    if (!said || !said[0])
        return look_for_drivers();
    if (strcasecmp(said, "off") == 0 || strcmp(said, "0") == 0)
        return false;
    *want = said;
    return true;
}

/* ---- opening it ---- */

/* Needs mu. Fails if the library, OpenCL or CLBlast is missing, or if the library is of another build. */
static mr_status *open_at(const char *path) MR_REQUIRES(mu)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return mr_error(MR_FAILED_PRECONDITION,
                        "Cannot open OpenCL: %s. Install " FILE_NAME
                        " (or set MILLRACE_OPENCL_LIB to its path) and the packages ocl-icd-libopencl1 and libclblast1",
                        dlerror());
    mr_cl_driver_fn get = (mr_cl_driver_fn)(uintptr_t)dlsym(lib, MR_CL_DRIVER_SYMBOL);
    const mr_cl_driver *d = get ? get(MR_CL_DRIVER_ABI) : NULL;
    if (!d) {
        dlclose(lib);
        return mr_error(MR_FAILED_PRECONDITION, "%s is not of this build of the library", path);
    }
    opened = d;
    return NULL;
}

/* A failure is not kept: the next call tries again. */
mr_status *mr_opencl_driver(const mr_cl_driver **out)
{
    mr_status *st = NULL;
    mr_lock(&mu);
    if (!opened) {
        mr_str path = {0};
        mr_find_beside(FILE_NAME, "MILLRACE_OPENCL_LIB", &path);
        st = open_at(mr_str_z(&path));
        mr_str_deinit(&path);
    }
    *out = opened;
    mr_unlock(&mu);
    return st;
}
