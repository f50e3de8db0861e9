/* tests/capi/start.c -- what a program that never leaves its process has to bear: a session maps no gRPC and no OpenCL driver, and
 * the library is there within 5 ms. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

enum { STARTS = 20 };

static void run_a_session(void)
{
    TF_Status *s = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    TF_Output x = placeholder(g, TF_FLOAT, "x", s), y = unary(g, "Neg", x, "y", s);
    TF_Session *session = session_on(g, s);
    TF_Tensor *in = float_of(3), *out = NULL;
    TF_SessionRun(session, NULL, &x, &in, 1, &y, &out, 1, NULL, 0, NULL, s);
    CHECK_OK(s);
    CHECK(*(float *)TF_TensorData(out) == -3);
    TF_DeleteTensor(in);
    TF_DeleteTensor(out);
    end_session(session, s);
    TF_DeleteGraph(g);
    TF_DeleteStatus(s);
}

static void check_maps(void)
{
    static const char *const foreign[] = {"libgrpc", "libgpr", "libssl", "libcrypto", "libabsl", "libmillrace-net",
                                          "libprotobuf.so", "libclblast", "libpocl", "libmillrace-opencl", "libjpeg",
                                          "libmillrace-image", "libicu", "libmillrace-icu",
                                          "liblapack", "libmillrace-lapack", "libmillrace-crypto"};
    char line[4096];
    int ours = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    CHECK(f);
    while (fgets(line, sizeof(line), f)) {
        ours |= strstr(line, "libtensorflow") != NULL;
        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
            if (strstr(line, foreign[i])) {
                fprintf(stderr, "a plain session maps %s", line);
                exit(1);
            }
    }
    fclose(f);
    CHECK(ours);
}

/* CPU time of a program that does nothing, ms; the best of many, for others use the machine too. */
static double start_ms(const char *program)
{
    double best = 1e9;
    for (int i = 0; i < STARTS; i++) {
        struct rusage use;
        int how;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            execl(program, program, "--nothing", NULL);
            _exit(127);
        }
        CHECK(wait4(pid, &how, 0, &use) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 0);
        double ms = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
                    (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
        best = ms < best ? ms : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--nothing") == 0)
        return TF_Version() == NULL;
    run_a_session();
    check_maps();
    double with = start_ms("/proc/self/exe"), without = start_ms("/bin/true");
    printf("start with the library %.2f ms, without %.2f ms\n", with, without);
#ifndef SANITIZED
    CHECK(with - without < 5);
#endif
    return 0;
}
