/* Memory for Python's objects in pages of 2 MB, from the beginning.
 *
 * Python asks for it in arenas of 1 MB, of which the kernel makes pages of 4 kB: each of them is an
 * interruption when it is first touched, a tenth of what a server does that is being filled. Here
 * neighbouring arenas share a piece of 2 MB for which one page is wanted.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <sys/mman.h>

#ifdef MADV_HUGEPAGE

#define PIECE ((size_t)2 << 20)

static char *rest; /* of the last piece, which no arena has yet */
static size_t rest_bytes;

static char *mapped(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* One that begins where a large page can. */
static char *new_piece(void)
{
    char *memory = mapped(2 * PIECE);
    if (memory == NULL)
        return NULL;
    size_t before = (size_t)(-(uintptr_t)memory & (PIECE - 1));
    if (before)
        munmap(memory, before);
    memory += before;
    munmap(memory + PIECE, PIECE - before);
    madvise(memory, PIECE, MADV_HUGEPAGE); /* if not, pages are small */
    return memory;
}

static void *take_arena(void *Py_UNUSED(context), size_t size)
{
    if (PIECE % size != 0)
        return mapped(size);
    if (rest_bytes < size) {
        rest = new_piece();
        rest_bytes = rest == NULL ? 0 : PIECE;
        if (rest == NULL)
            return mapped(size); /* there may be room for less */
    }
    char *arena = rest;
    rest += size;
    rest_bytes -= size;
    return arena;
}

/* Also one that Python had before it asked us: it maps arenas as we do. */
static void free_arena(void *Py_UNUSED(context), void *arena, size_t size)
{
    munmap(arena, size);
}

static PyObject *install(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObjectArenaAllocator arenas = {NULL, take_arena, free_arena};
    PyObject_SetArenaAllocator(&arenas);
    Py_RETURN_TRUE;
}

#else

static PyObject *install(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    Py_RETURN_FALSE;
}

#endif

static PyMethodDef functions[] = {
    {"install", install, METH_NOARGS, "Use them from now on; False where there are none."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_arenas",
    .m_doc = "Memory for Python's objects in pages of 2 MB.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__arenas(void)
{
    return PyModule_Create(&module);
}
