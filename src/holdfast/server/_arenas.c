/* Memory for Python's objects in pages of 2 MB, from the beginning.
 *
 * Python asks for it in arenas of 1 MB, of which the kernel makes pages of 4 kB: each of them is an
 * interruption when it is first touched, a tenth of what a server does that is being filled. Here
 * two arenas share a piece of 2 MB, for which one page is wanted. Pieces are parts of a region, of
 * which nothing is memory before it is touched.
 *
 * Of a piece that has lost one arena the other half is given to whoever asks next; one that has lost
 * both is memory of the kernel's again. (To give a half back would break the page into small ones,
 * and the kernel would keep it as a whole until it is short of memory.)
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef MADV_HUGEPAGE

#define PIECE ((size_t)2 << 20)
#define ARENA (PIECE / 2)
#define PIECES 32 /* in a region */
#define REGION (PIECES * PIECE)

enum { FIRST = 1, SECOND = 2, BOTH = FIRST | SECOND };

struct region {
    char *start;
    unsigned char used[PIECES]; /* which of their arenas are */
};

static struct region *regions;
static size_t region_count;

static char *mapped(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* One that begins where a large page can; NULL if there is no room. */
static struct region *new_region(void)
{
    struct region *more = realloc(regions, (region_count + 1) * sizeof(struct region));
    if (more == NULL)
        return NULL;
    regions = more;
    char *memory = mapped(REGION + PIECE);
    if (memory == NULL)
        return NULL;
    size_t before = (size_t)(-(uintptr_t)memory & (PIECE - 1));
    if (before)
        munmap(memory, before);
    munmap(memory + before + REGION, PIECE - before);
    madvise(memory + before, REGION, MADV_HUGEPAGE); /* if not, pages are small */
    struct region *region = &regions[region_count++];
    *region = (struct region){.start = memory + before};
    return region;
}

/* The first piece of which just these arenas are used. */
static char *piece_with(int used, unsigned char **place)
{
    for (size_t number = 0; number < region_count; number++)
        for (size_t at = 0; at < PIECES; at++)
            if (regions[number].used[at] == used) {
                *place = &regions[number].used[at];
                return regions[number].start + at * PIECE;
            }
    return NULL;
}

static void *take_arena(void *Py_UNUSED(context), size_t size)
{
    if (size != ARENA)
        return mapped(size);
    unsigned char *used;
    char *piece = piece_with(FIRST, &used);
    if (piece == NULL)
        piece = piece_with(SECOND, &used);
    if (piece == NULL)
        piece = piece_with(0, &used);
    if (piece == NULL) {
        struct region *region = new_region();
        if (region == NULL)
            return mapped(size); /* there may be room for less */
        piece = region->start;
        used = &region->used[0];
    }
    int half = *used & FIRST ? SECOND : FIRST;
    *used |= half;
    return half == FIRST ? piece : piece + ARENA;
}

static int is_empty(const struct region *region)
{
    for (size_t at = 0; at < PIECES; at++)
        if (region->used[at])
            return 0;
    return 1;
}

static void free_arena(void *Py_UNUSED(context), void *arena, size_t size)
{
    for (size_t number = 0; number < region_count; number++) {
        struct region *region = &regions[number];
        size_t offset = (size_t)((char *)arena - region->start);
        if ((char *)arena < region->start || offset >= REGION)
            continue;
        unsigned char *used = &region->used[offset / PIECE];
        *used &= (unsigned char)~(offset % PIECE ? SECOND : FIRST);
        if (is_empty(region)) {
            munmap(region->start, REGION);
            *region = regions[--region_count];
        } else if (!*used)
            madvise(region->start + offset / PIECE * PIECE, PIECE, MADV_DONTNEED);
        return;
    }
    munmap(arena, size); /* as Python would: it is from before, or of another size */
}

static PyObject *install(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObjectArenaAllocator arenas = {NULL, take_arena, free_arena};
    PyObject_SetArenaAllocator(&arenas);
    Py_RETURN_TRUE;
}

static PyObject *spans(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *all = PyList_New(0);
    /* (Whatever is made here may take an arena, and so a region.) */
    for (size_t number = 0; all != NULL && number < region_count; number++) {
        char *start = regions[number].start;
        PyObject *span = Py_BuildValue("KK", (unsigned long long)(uintptr_t)start,
                                       (unsigned long long)(uintptr_t)(start + REGION));
        if (span == NULL || PyList_Append(all, span) < 0)
            Py_CLEAR(all);
        Py_XDECREF(span);
    }
    return all;
}

#else

static PyObject *install(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    Py_RETURN_FALSE;
}

static PyObject *spans(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyList_New(0);
}

#endif

static PyMethodDef functions[] = {
    {"install", install, METH_NOARGS, "Use them from now on; False where there are none."},
    {"spans", spans, METH_NOARGS, "Where they are: first and last address of each region."},
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
