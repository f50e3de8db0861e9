/* signals.c -- Ctrl-C ends a step.
 *
 * The interpreter notes a signal and looks at it between two instructions of Python, of which there are none while a run waits.
 * But its handler writes a byte to a file descriptor if it is told one (signal.set_wakeup_fd), and here a thread reads it: when
 * the byte is SIGINT and the main thread is in a run, it fires the interrupter that these runs are under.  The run ends with
 * CANCELLED, and the interpreter raises KeyboardInterrupt.  A program that has a wake-up descriptor of its own keeps it, and
 * its runs then end as they like.
 *
 * A wait takes no lock.  The watching thread sets `fired` and then looks at `waiting`, and a wait that ends clears `waiting` and
 * then looks at `fired`.  So at least one of them sees what the other did: no run is interrupted after the wait that it was
 * meant for.
 *
 * A process that is forked has no such thread, and the pipe is its parent's: it forgets both, and watches anew when asked. */
#include "core.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static mr_interrupter *interrupter; /* of the main thread */
static int pipe_ends[2] = {-1, -1};
static unsigned long main_thread;
static bool watching;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int depth;            /* of waits of the main thread, which alone uses it */
static _Atomic bool waiting; /* depth > 0; written by the main thread */
static _Atomic bool fired;   /* written under mu */

static void *watch(void *unused)
{
    (void)unused;
    unsigned char byte;
    while (read(pipe_ends[0], &byte, 1) == 1) {
        if (byte != SIGINT)
            continue;
        pthread_mutex_lock(&mu);
        if (!atomic_exchange(&fired, true)) {
            if (atomic_load(&waiting))
                mr_interrupter_fire(interrupter);
            else
                atomic_store(&fired, false);
        }
        pthread_mutex_unlock(&mu);
    }
    return NULL;
}

static bool start_watching(void)
{
    pthread_t thread;
    interrupter = mr_interrupter_new();
    if (!interrupter || pthread_create(&thread, NULL, watch, NULL) != 0)
        return false;
    pthread_detach(thread);
    mr_run_under(interrupter);
    return true;
}

/* In the child of a fork; the interrupter is left as it is, for another thread may have been in it. */
static void forget(void)
{
    pthread_mutex_init(&mu, NULL);
    for (int i = 0; watching && i < 2; i++)
        close(pipe_ends[i]);
    watching = false;
    atomic_store(&waiting, false);
    atomic_store(&fired, false);
    depth = 0;
}

/* watch_signals(): called in the main thread; the descriptor for signal.set_wakeup_fd, or -1. */
static PyObject *watch_signals(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    static bool forks;
    if (!forks)
        forks = pthread_atfork(NULL, NULL, forget) == 0;
    if (!watching && pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) == 0) {
        fcntl(pipe_ends[0], F_SETFL, 0); /* the reader waits; a writer in a signal handler never does */
        main_thread = PyThread_get_thread_ident();
        watching = start_watching();
    }
    return PyLong_FromLong(watching ? pipe_ends[1] : -1);
}

static bool is_main(void) { return watching && PyThread_get_thread_ident() == main_thread; }

void py_waits(void)
{
    if (is_main() && depth++ == 0)
        atomic_store_explicit(&waiting, true, memory_order_release);
}

void py_waited(void)
{
    if (!is_main() || depth == 0 || --depth > 0)
        return;
    atomic_store(&waiting, false);
    if (!atomic_load(&fired))
        return;
    pthread_mutex_lock(&mu); /* now the watching thread has fired, or has seen that it is too late */
    bool reset = atomic_exchange(&fired, false);
    pthread_mutex_unlock(&mu);
    if (reset)
        mr_interrupter_reset(interrupter);
}

PyMethodDef py_signal_methods[] = {
    {"watch_signals", watch_signals, METH_NOARGS, "The descriptor for signal.set_wakeup_fd, or -1."}, {0}};
