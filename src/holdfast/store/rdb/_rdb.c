/* The parts of RDB files that process each byte or each key: the checksum, compressed strings,
 * and runs of keys that hold strings.
 *
 * The same functions in Python: crc64.py, `lzf` in packed.py, `_strings` in primitives.py,
 * `packed_strings` in file_writer.py. A test compares both. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

/* -- the checksum ------------------------------------------------------------------------------------------ */

#define POLYNOMIAL UINT64_C(0x95AC9329AC4BC9B5) /* reflected: the lowest bit is the top power */

static uint64_t tables[8][256]; /* for each of eight bytes in a row, its part of the checksum */

static void make_tables(void)
{
    for (int byte = 0; byte < 256; byte++) {
        uint64_t crc = (uint64_t)byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        tables[0][byte] = crc;
    }
    for (int next = 1; next < 8; next++)
        for (int byte = 0; byte < 256; byte++)
            tables[next][byte] = tables[next - 1][byte] >> 8 ^ tables[0][tables[next - 1][byte] & 0xFF];
}

static uint64_t little_64(const unsigned char *at)
{
    uint64_t word = 0;
    for (int byte = 7; byte >= 0; byte--) /* compilers make one load of it */
        word = word << 8 | at[byte];
    return word;
}

static PyObject *crc64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "bytes and a checksum are wanted");
        return NULL;
    }
    uint64_t crc = PyLong_AsUnsignedLongLong(args[1]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer data;
    if (PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    const unsigned char *at = data.buf, *end = at + data.len;
    for (; end - at >= 8; at += 8) {
        crc ^= little_64(at);
        crc = tables[7][crc & 0xFF] ^ tables[6][crc >> 8 & 0xFF] ^ tables[5][crc >> 16 & 0xFF]
            ^ tables[4][crc >> 24 & 0xFF] ^ tables[3][crc >> 32 & 0xFF] ^ tables[2][crc >> 40 & 0xFF]
            ^ tables[1][crc >> 48 & 0xFF] ^ tables[0][crc >> 56];
    }
    for (; at < end; at++)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xFF];
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLongLong(crc);
}

/* -- compressed strings ------------------------------------------------------------------------------------ */

/* Decompress the input into `out`. Returns whether the result has exactly `whole` bytes. */
static int decompress_lzf(const unsigned char *in, size_t size, unsigned char *out, size_t whole)
{
    size_t at = 0, done = 0;
    while (at < size) {
        size_t code = in[at++];
        if (code < 32) { /* so many bytes follow, and one more */
            size_t count = code + 1;
            if (count > size - at || count > whole - done)
                return 0;
            memcpy(out + done, in + at, count);
            at += count;
            done += count;
            continue;
        }
        size_t count = (code >> 5) + 2;
        if (code >= 0xE0) {
            if (at >= size)
                return 0;
            count += in[at++];
        }
        if (at >= size)
            return 0;
        size_t back = ((code & 31) << 8 | in[at++]) + 1;
        if (back > done || count > whole - done)
            return 0;
        for (; count > 0; count--, done++) /* byte by byte, because the part may reach into itself */
            out[done] = out[done - back];
    }
    return done == whole;
}

static PyObject *lzf(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2 || !PyBytes_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "bytes and a length are wanted");
        return NULL;
    }
    Py_ssize_t whole = PyLong_AsSsize_t(args[1]);
    if (whole == -1 && PyErr_Occurred())
        return NULL;
    if (whole < 0) {
        PyErr_SetString(PyExc_ValueError, "not of the length that it says");
        return NULL;
    }
    PyObject *text = PyBytes_FromStringAndSize(NULL, whole);
    if (text == NULL)
        return NULL;
    if (!decompress_lzf((const unsigned char *)PyBytes_AS_STRING(args[0]), (size_t)PyBytes_GET_SIZE(args[0]),
                        (unsigned char *)PyBytes_AS_STRING(text), (size_t)whole)) {
        Py_DECREF(text);
        PyErr_SetString(PyExc_ValueError, "not of the length that it says");
        return NULL;
    }
    return text;
}

/* -- keys that are strings --------------------------------------------------------------------------------- */

#define LZF_MOST 88 /* the most bytes of output for one byte of input */

struct input {
    const unsigned char *at, *end;
};

/* Read a length. Returns 0 if it is incomplete, or if it is a special encoding of a string. Then
 * `*special` is the number of the encoding, otherwise -1. */
static int read_length(struct input *in, uint64_t *length, int *special)
{
    *special = -1;
    size_t here = (size_t)(in->end - in->at);
    if (here < 1)
        return 0;
    unsigned first = in->at[0];
    size_t size = 1;
    if (first < 0x40)
        *length = first;
    else if (first < 0x80) {
        size = 2;
        if (here < size)
            return 0;
        *length = (uint64_t)(first & 0x3F) << 8 | in->at[1];
    }
    else if (first >= 0xC0) {
        *special = (int)(first & 0x3F);
        in->at++;
        return 0;
    }
    else if (first == 0x80 || first == 0x81) {
        size = first == 0x80 ? 5 : 9;
        if (here < size)
            return 0;
        *length = 0;
        for (size_t byte = 1; byte < size; byte++)
            *length = *length << 8 | in->at[byte];
    }
    else
        return 0;
    in->at += size;
    return 1;
}

/* Read a string. Returns NULL without an error if it is incomplete or damaged. */
static PyObject *read_string(struct input *in)
{
    uint64_t length;
    int special;
    if (read_length(in, &length, &special)) {
        if (length > (uint64_t)(in->end - in->at))
            return NULL;
        PyObject *text = PyBytes_FromStringAndSize((const char *)in->at, (Py_ssize_t)length);
        in->at += length;
        return text;
    }
    if (special >= 0 && special < 3) {
        int size = 1 << special;
        if (in->end - in->at < size)
            return NULL;
        uint32_t bits = 0;
        for (int byte = size - 1; byte >= 0; byte--)
            bits = bits << 8 | in->at[byte];
        in->at += size;
        int32_t number = size == 1 ? (int8_t)bits : size == 2 ? (int16_t)bits : (int32_t)bits;
        return PyBytes_FromFormat("%d", number);
    }
    uint64_t size, whole;
    int unused;
    if (special != 3 || !read_length(in, &size, &unused) || !read_length(in, &whole, &unused))
        return NULL;
    if (size > (uint64_t)(in->end - in->at) || whole > size * LZF_MOST)
        return NULL;
    PyObject *text = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)whole);
    if (text == NULL)
        return NULL;
    if (!decompress_lzf(in->at, (size_t)size, (unsigned char *)PyBytes_AS_STRING(text), (size_t)whole)) {
        Py_DECREF(text);
        return NULL;
    }
    in->at += size;
    return text;
}

/* strings(data, at, form, expiry) -> (names, values, times, at). `form` begins a string, `expiry` a time. */
static PyObject *strings(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4 || !PyBytes_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "bytes and three numbers are wanted");
        return NULL;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(args[0]), start = PyLong_AsSsize_t(args[1]);
    long form = PyLong_AsLong(args[2]), expiry = PyLong_AsLong(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (start < 0 || start > size) {
        PyErr_SetString(PyExc_ValueError, "the place is not in the bytes");
        return NULL;
    }
    const unsigned char *data = (const unsigned char *)PyBytes_AS_STRING(args[0]);
    struct input in = {data + start, data + size};
    const unsigned char *taken = in.at;
    PyObject *names = PyList_New(0), *values = PyList_New(0), *times = PyList_New(0);
    if (names == NULL || values == NULL || times == NULL)
        goto failed;
    while (in.at < in.end) {
        PyObject *time = NULL;
        if (*in.at == expiry) {
            if (in.end - in.at < 10)
                break;
            time = PyLong_FromLongLong((int64_t)little_64(in.at + 1));
            if (time == NULL)
                goto failed;
            in.at += 9;
        }
        if (*in.at != form) {
            Py_XDECREF(time);
            break;
        }
        in.at++;
        PyObject *name = read_string(&in);
        PyObject *value = name == NULL ? NULL : read_string(&in);
        int is_taken = value != NULL;
        if (is_taken && (PyList_Append(names, name) < 0 || PyList_Append(values, value) < 0
                         || PyList_Append(times, time == NULL ? Py_None : time) < 0))
            is_taken = 0;
        Py_XDECREF(name);
        Py_XDECREF(value);
        Py_XDECREF(time);
        if (!is_taken) {
            if (PyErr_Occurred())
                goto failed;
            break;
        }
        taken = in.at;
    }
    return Py_BuildValue("NNNn", names, values, times, (Py_ssize_t)(taken - data));
failed:
    Py_XDECREF(names);
    Py_XDECREF(values);
    Py_XDECREF(times);
    return NULL;
}

static unsigned char *put_string(unsigned char *out, PyObject *text)
{
    size_t size = (size_t)PyBytes_GET_SIZE(text);
    if (size < 0x40)
        *out++ = (unsigned char)size;
    else if (size < 0x4000) {
        *out++ = (unsigned char)(0x40 | size >> 8);
        *out++ = (unsigned char)size;
    }
    else {
        int bytes = (uint64_t)size >> 32 ? 8 : 4;
        *out++ = bytes == 4 ? 0x80 : 0x81;
        for (int byte = bytes - 1; byte >= 0; byte--)
            *out++ = (unsigned char)((uint64_t)size >> 8 * byte);
    }
    memcpy(out, PyBytes_AS_STRING(text), size);
    return out + size;
}

/* packed(names, values, times, form, expiry) -> bytes: what `strings` reads. */
static PyObject *packed(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 5 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1]) || !PyList_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "three lists and two numbers are wanted");
        return NULL;
    }
    PyObject *names = args[0], *values = args[1], *times = args[2];
    Py_ssize_t count = PyList_GET_SIZE(names);
    long form = PyLong_AsLong(args[3]), expiry = PyLong_AsLong(args[4]);
    if (PyErr_Occurred())
        return NULL;
    if (PyList_GET_SIZE(values) != count || PyList_GET_SIZE(times) != count) {
        PyErr_SetString(PyExc_ValueError, "the lists must have one length");
        return NULL;
    }
    Py_ssize_t most = 0; /* bytes */
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *name = PyList_GET_ITEM(names, at), *value = PyList_GET_ITEM(values, at);
        PyObject *time = PyList_GET_ITEM(times, at);
        if (!PyBytes_CheckExact(name) || !PyBytes_CheckExact(value) || (time != Py_None && !PyLong_CheckExact(time))) {
            PyErr_SetString(PyExc_TypeError, "bytes and numbers are wanted");
            return NULL;
        }
        most += 28 + PyBytes_GET_SIZE(name) + PyBytes_GET_SIZE(value);
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, most);
    if (result == NULL)
        return NULL;
    unsigned char *start = (unsigned char *)PyBytes_AS_STRING(result), *out = start;
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *time = PyList_GET_ITEM(times, at);
        if (time != Py_None) {
            int64_t at_ms = PyLong_AsLongLong(time);
            if (at_ms == -1 && PyErr_Occurred()) {
                Py_DECREF(result);
                return NULL;
            }
            *out++ = (unsigned char)expiry;
            for (int byte = 0; byte < 8; byte++)
                *out++ = (unsigned char)((uint64_t)at_ms >> 8 * byte);
        }
        *out++ = (unsigned char)form;
        out = put_string(out, PyList_GET_ITEM(names, at));
        out = put_string(out, PyList_GET_ITEM(values, at));
    }
    if (_PyBytes_Resize(&result, out - start) < 0)
        return NULL;
    return result;
}

static PyMethodDef functions[] = {
    {"crc64", (PyCFunction)(void (*)(void))crc64, METH_FASTCALL, "The checksum of bytes, after others."},
    {"lzf", (PyCFunction)(void (*)(void))lzf, METH_FASTCALL, "A string that was compressed."},
    {"strings", (PyCFunction)(void (*)(void))strings, METH_FASTCALL, "Keys that are strings, in a row."},
    {"packed", (PyCFunction)(void (*)(void))packed, METH_FASTCALL, "The bytes of keys that are strings."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_rdb",
    .m_doc = "Parts of RDB files.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__rdb(void)
{
    make_tables();
    return PyModule_Create(&module);
}
