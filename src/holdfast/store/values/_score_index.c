/* The entries of a sorted set in their order: functions that find, insert and remove an entry.
 *
 * The scores are a Python array of doubles, the members a Python list of bytes. Without this
 * file, `bisect` makes an object of each number that it compares, and each change of the array
 * or the list calls a method by name: that was a third of a ZADD. score_index.py has the same
 * functions in Python. They are used for scores in another form, and for all scores if this file
 * is not compiled. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

static PyObject *array_insert; /* the method of array.array */

static int is_before(PyObject *one, PyObject *other)
{
    Py_ssize_t length = PyBytes_GET_SIZE(one), other_length = PyBytes_GET_SIZE(other);
    int order = memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other),
                       (size_t)(length < other_length ? length : other_length));
    return order ? order < 0 : length < other_length;
}

/* The first place whose entry is not before the given entry, or -1 after an error. It also tells
 * whether the entry there has the same score. The member None comes after all members of its
 * score. */
static Py_ssize_t place_of(PyObject *const *args, Py_ssize_t nargs, int *is_same_score)
{
    if (nargs != 4 || !PyList_CheckExact(args[1])
        || !(args[3] == Py_None || PyBytes_Check(args[3]))) {
        PyErr_SetString(PyExc_TypeError, "an array, a list, a number and bytes are wanted");
        return -1;
    }
    PyObject *members = args[1], *member = args[3];
    double score = PyFloat_AsDouble(args[2]);
    Py_buffer view;
    if ((score == -1.0 && PyErr_Occurred()) || PyObject_GetBuffer(args[0], &view, PyBUF_FORMAT) < 0)
        return -1;
    Py_ssize_t count = PyList_GET_SIZE(members), low = -1;
    if (view.format == NULL || strcmp(view.format, "d") != 0
        || view.len != count * (Py_ssize_t)sizeof(double)) {
        PyErr_SetString(PyExc_ValueError, "not as many doubles as members");
        goto done;
    }
    const double *scores = view.buf;
    Py_ssize_t high = count;
    low = 0;
    while (low < high) {
        Py_ssize_t middle = (low + high) >> 1;
        int is_past = scores[middle] < score;
        if (scores[middle] == score) {
            PyObject *other = PyList_GET_ITEM(members, middle);
            if (!PyBytes_Check(other)) {
                PyErr_SetString(PyExc_TypeError, "members are bytes");
                low = -1;
                goto done;
            }
            is_past = member == Py_None || is_before(other, member);
        }
        if (is_past)
            low = middle + 1;
        else
            high = middle;
    }
    *is_same_score = low < count && scores[low] == score;
done:
    PyBuffer_Release(&view);
    return low;
}

static PyObject *find(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    int is_same_score;
    Py_ssize_t place = place_of(args, nargs, &is_same_score);
    return place < 0 ? NULL : PyLong_FromSsize_t(place);
}

static PyObject *insert(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    int is_same_score;
    Py_ssize_t place = place_of(args, nargs, &is_same_score);
    if (place >= 0 && args[3] == Py_None) {
        PyErr_SetString(PyExc_TypeError, "None is no member");
        return NULL;
    }
    PyObject *number = place < 0 ? NULL : PyLong_FromSsize_t(place);
    if (number == NULL)
        return NULL;
    PyObject *members = args[1], *member = args[3];
    Py_ssize_t count = PyList_GET_SIZE(members);
    if (PyList_Append(members, member) < 0) {
        Py_DECREF(number);
        return NULL;
    }
    PyObject *const arguments[] = {args[0], number, args[2]};
    PyObject *done = PyObject_Vectorcall(array_insert, arguments, 3, NULL);
    Py_DECREF(number);
    if (done == NULL) {
        PyList_SetSlice(members, count, count + 1, NULL);
        return NULL;
    }
    PyObject **items = ((PyListObject *)members)->ob_item;
    memmove(items + place + 1, items + place, (size_t)(count - place) * sizeof *items);
    items[place] = member;
    return done;
}

/* Removes the score and the member at a place, which must exist. Returns the member as a new reference. */
static PyObject *taken(PyObject *scores, PyObject *members, Py_ssize_t place)
{
    PyObject *member = Py_NewRef(PyList_GET_ITEM(members, place));
    if (PySequence_DelItem(scores, place) < 0
        || PyList_SetSlice(members, place, place + 1, NULL) < 0)
        Py_CLEAR(member);
    return member;
}

static PyObject *take(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    int is_same_score;
    Py_ssize_t place = place_of(args, nargs, &is_same_score);
    if (place < 0)
        return NULL;
    if (!is_same_score || args[3] == Py_None || is_before(args[3], PyList_GET_ITEM(args[1], place))) {
        PyErr_SetString(PyExc_ValueError, "the entry is not there");
        return NULL;
    }
    return taken(args[0], args[1], place);
}

static PyObject *pop(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || !PyList_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "an array, a list and a place are wanted");
        return NULL;
    }
    Py_ssize_t place = PyLong_AsSsize_t(args[2]);
    if (place == -1 && PyErr_Occurred())
        return NULL;
    if (place < 0 || place >= PyList_GET_SIZE(args[1])) {
        PyErr_SetString(PyExc_IndexError, "there is no such place");
        return NULL;
    }
    PyObject *score = PySequence_GetItem(args[0], place);
    PyObject *member = score == NULL ? NULL : taken(args[0], args[1], place);
    PyObject *entry = member == NULL ? NULL : PyTuple_Pack(2, score, member);
    Py_XDECREF(score);
    Py_XDECREF(member);
    return entry;
}

#define FUNCTION(name, doc) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, doc}

static PyMethodDef functions[] = {
    FUNCTION(find, "The first place whose entry is not before the given entry."),
    FUNCTION(insert, "Put an entry in its place."),
    FUNCTION(take, "Remove an entry, which must exist, and return its member."),
    FUNCTION(pop, "Remove and return the entry at a place."),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_score_index",
    .m_doc = "Entries of a sorted set in their order.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__score_index(void)
{
    PyObject *arrays = PyImport_ImportModule("array");
    PyObject *type = arrays == NULL ? NULL : PyObject_GetAttrString(arrays, "array");
    array_insert = type == NULL ? NULL : PyObject_GetAttrString(type, "insert");
    Py_XDECREF(arrays);
    Py_XDECREF(type);
    return array_insert == NULL ? NULL : PyModule_Create(&module);
}
