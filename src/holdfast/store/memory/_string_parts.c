/* Changes a part of the string that a key holds, in place where nothing else refers to the string.
 *
 * In Python a string of bytes never changes, so a command that sets one bit of 100 MB copies 100 MB. Here the
 * string is taken out of the key first. If that leaves one reference, ours, then no other code can see the
 * string, and to change it is the same as to make another one: _PyBytes_Resize of CPython rests on the same
 * rule. A reply that waits to be sent, a batch that is not written yet, a pass of the fold or a view has a
 * reference of its own, and then the string is copied, as string_parts.py does always.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

static PyObject *value_name; /* of the attribute */
static PyObject *empty;

/* A string with one reference that has `length` bytes: the first ones are those of `value`, the others are
 * not set. Takes the reference to `value`. NULL: there is no memory; the key has its string again, or the string
 * is gone. The caller has counted the change by then, so the server reads its data again from the file. */
static PyObject *resized(PyObject *key, PyObject *value, Py_ssize_t length)
{
    Py_ssize_t before = PyBytes_GET_SIZE(value);
#ifdef Py_GIL_DISABLED
    int is_only_one = 0; /* other threads have counts of their own */
#else
    int is_only_one = Py_REFCNT(value) == 1 && before > 1;
#endif
    if (is_only_one) {
        if (length != before && _PyBytes_Resize(&value, length) < 0)
            return NULL; /* the string is gone */
        return value;
    }
    PyObject *copy = PyBytes_FromStringAndSize(NULL, length);
    if (copy != NULL)
        memcpy(PyBytes_AS_STRING(copy), PyBytes_AS_STRING(value), (size_t)(before < length ? before : length));
    else {
        PyObject *type, *error, *traceback;
        PyErr_Fetch(&type, &error, &traceback);
        PyObject_SetAttr(key, value_name, value);
        PyErr_Restore(type, error, traceback);
    }
    Py_DECREF(value);
    return copy;
}

static PyObject *edit(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4 || !PyBytes_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "a key, an offset, bytes and a length are wanted");
        return NULL;
    }
    PyObject *key = args[0], *part = args[2];
    Py_ssize_t offset = PyLong_AsSsize_t(args[1]), length = PyLong_AsSsize_t(args[3]);
    if (PyErr_Occurred())
        return NULL;
    Py_ssize_t size = PyBytes_GET_SIZE(part);
    if (offset < 0 || length < 2 || offset > length || size > length - offset) {
        PyErr_SetString(PyExc_ValueError, "the part is not inside of the string");
        return NULL;
    }
    PyObject *value = PyObject_GetAttr(key, value_name);
    if (value == NULL)
        return NULL;
    if (!PyBytes_CheckExact(value)) {
        Py_DECREF(value);
        PyErr_SetString(PyExc_TypeError, "the key holds no string");
        return NULL;
    }
    Py_ssize_t before = PyBytes_GET_SIZE(value);
    if (PyObject_SetAttr(key, value_name, empty) < 0) {
        Py_DECREF(value);
        return NULL;
    }
    value = resized(key, value, length); /* a copy, if it is the part, too */
    if (value == NULL)
        return NULL;
    char *bytes = PyBytes_AS_STRING(value);
    if (offset > before)
        memset(bytes + before, 0, (size_t)(offset - before));
    memcpy(bytes + offset, PyBytes_AS_STRING(part), (size_t)size);
    if (length > before) {
        Py_ssize_t set = offset + size > before ? offset + size : before;
        memset(bytes + set, 0, (size_t)(length - set));
    }
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
    ((PyBytesObject *)value)->ob_shash = -1; /* the hash of the former bytes, if it was asked for */
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
    int failed = PyObject_SetAttr(key, value_name, value);
    Py_DECREF(value);
    if (failed < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"edit", (PyCFunction)(void (*)(void))edit, METH_FASTCALL,
     "Put bytes into the string that a key holds, and give the string a length."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_string_parts",
    .m_doc = "Parts of strings, changed in place.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__string_parts(void)
{
    value_name = PyUnicode_InternFromString("value");
    empty = value_name == NULL ? NULL : PyBytes_FromStringAndSize(NULL, 0);
    return empty == NULL ? NULL : PyModule_Create(&module);
}
