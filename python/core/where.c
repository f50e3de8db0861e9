/* where.c -- where an operation was made: the frames of Python outside of the package, innermost first.
 *
 * Most operations of a program are made at few places, and an operation is rarely asked for its place: so lines are found only
 * then, and operations made one after the other at one place share the record.  Operations that the library makes by itself
 * (an import, gradients) have no object at first, so their place is kept for the range of their numbers. */
#include "core.h"

enum { MOST_FRAMES = 24 };

typedef struct frame {
    PyCodeObject *code; /* owned */
    int at;             /* an offset in the code, or a line before Python 3.11 */
} frame;

struct py_where {
    int refs; /* guarded by the interpreter's lock */
    int n;
    frame frames[];
};

struct py_where_range {
    size_t first, end;
    struct py_where *where;
};

static PyObject *package; /* what file names of the package begin with */

PyObject *py_set_package(PyObject *module, PyObject *prefix)
{
    (void)module;
    if (!PyUnicode_Check(prefix))
        return PyErr_Format(PyExc_TypeError, "A string is expected, not %R", prefix);
    Py_XSETREF(package, Py_NewRef(prefix));
    Py_RETURN_NONE;
}

static int position_of(PyFrameObject *f)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(f);
#else
    return PyFrame_GetLineNumber(f);
#endif
}

static int line_of(const frame *f)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyCode_Addr2Line(f->code, f->at);
#else
    return f->at;
#endif
}

/* The frames outside of the package, with a reference to each code; at most MOST_FRAMES. */
static int walk(frame *to)
{
    int n = 0;
    PyFrameObject *f = PyThreadState_GetFrame(PyThreadState_Get());
    while (f && n < MOST_FRAMES) {
        PyCodeObject *code = PyFrame_GetCode(f);
        if (package && PyUnicode_Tailmatch(code->co_filename, package, 0, PY_SSIZE_T_MAX, -1) == 1)
            Py_DECREF(code);
        else
            to[n++] = (frame){code, position_of(f)};
        PyFrameObject *back = PyFrame_GetBack(f);
        Py_DECREF(f);
        f = back;
    }
    Py_XDECREF(f);
    return n;
}

static bool is_same(const struct py_where *w, const frame *frames, int n)
{
    if (!w || w->n != n)
        return false;
    for (int i = 0; i < n; i++)
        if (w->frames[i].code != frames[i].code || w->frames[i].at != frames[i].at)
            return false;
    return true;
}

struct py_where *py_where_now(struct py_where *same)
{
    frame frames[MOST_FRAMES];
    int n = walk(frames);
    struct py_where *w = is_same(same, frames, n) ? NULL : PyMem_Malloc(sizeof(*w) + (size_t)n * sizeof(frame));
    if (!w) {
        for (int i = 0; i < n; i++)
            Py_DECREF(frames[i].code);
        return is_same(same, frames, n) ? py_where_ref(same) : NULL;
    }
    w->refs = 1;
    w->n = n;
    memcpy(w->frames, frames, (size_t)n * sizeof(frame));
    return w;
}

struct py_where *py_where_ref(struct py_where *w)
{
    if (w)
        w->refs++;
    return w;
}

void py_where_unref(struct py_where *w)
{
    if (!w || --w->refs)
        return;
    for (int i = 0; i < w->n; i++)
        Py_DECREF(w->frames[i].code);
    PyMem_Free(w);
}

PyObject *py_where_list(const struct py_where *w)
{
    PyObject *list = PyList_New(w ? w->n : 0);
    for (int i = 0; list && w && i < w->n; i++) {
        PyObject *one = Py_BuildValue("Oi", w->frames[i].code, line_of(&w->frames[i]));
        if (one)
            PyList_SET_ITEM(list, i, one);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* Without memory the operations have no place: that is no reason to fail. */
void py_where_of_range(py_graph *g, size_t first)
{
    size_t end = first;
    while (TF_GraphNextOperation(g->graph, &end))
        ;
    struct py_where_range *more =
        end == first ? NULL : PyMem_Realloc(g->ranges, (g->n_ranges + 1) * sizeof(*g->ranges));
    if (!more)
        return;
    g->ranges = more;
    more[g->n_ranges++] = (struct py_where_range){first, end, py_where_now(NULL)};
}

/* Ranges are made in the order of their operations, but one that was made while another was being made is within it, and
 * before it in the array. */
struct py_where *py_where_in_ranges(const py_graph *g, size_t index)
{
    for (size_t i = 0; i < g->n_ranges; i++)
        if (g->ranges[i].first <= index && index < g->ranges[i].end)
            return g->ranges[i].where;
    return NULL;
}

void py_where_free_ranges(py_graph *g)
{
    for (size_t i = 0; i < g->n_ranges; i++)
        py_where_unref(g->ranges[i].where);
    PyMem_Free(g->ranges);
    g->ranges = NULL;
    g->n_ranges = 0;
}
