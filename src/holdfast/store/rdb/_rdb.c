/* The parts of RDB files that process each byte or each key: the checksum, compressed strings,
 * and runs of keys of one form.
 *
 * The same functions in Python: crc64.py, `lzf` in packed.py, `_keys` in primitives.py with the loaders of
 * value_codec.py, `packed_keys` in file_writer.py. A test compares both. */

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

/* -- keys of one form -------------------------------------------------------------------------------------- */

/* As in value_codec.py. */
enum {
    STRING = 0,
    LIST = 1,
    SET = 2,
    HASH = 4,
    ZSET = 5,
    SET_INTSET = 11,
    HASH_LISTPACK = 16,
    ZSET_LISTPACK = 17,
    LIST_QUICKLIST_2 = 18,
    SET_LISTPACK = 20,
};

#define PLAIN_NODE 1
#define PACKED_NODE 2
#define MOST_BYTES (1 << 20) /* of a collection; as in primitives.py */
#define FEW 16 /* elements that are compared with each other */

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

/* The signed number of 1 to 8 bytes. */
static int64_t little_number(const unsigned char *at, int size)
{
    uint64_t bits = at[size - 1] & 0x80 ? ~UINT64_C(0) : 0;
    for (int byte = size - 1; byte >= 0; byte--)
        bits = bits << 8 | at[byte];
    return (int64_t)bits;
}

static PyObject *digits(int64_t number)
{
    char text[20], *start = text + sizeof text;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        *--start = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--start = '-';
    return PyBytes_FromStringAndSize(start, text + sizeof text - start);
}

/* Read a string. Returns NULL without an error if it is incomplete or damaged. So do all functions below
 * that read. */
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
        PyObject *text = digits(little_number(in->at, size));
        in->at += size;
        return text;
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

/* Append an object, which may be NULL, and give it away. Returns whether that went well. */
static int append(PyObject *list, PyObject *object)
{
    int is_done = object != NULL && PyList_Append(list, object) == 0;
    Py_XDECREF(object);
    return is_done;
}

/* Append the elements of a listpack. Returns whether it is sound. */
static int append_listpack(PyObject *list, PyObject *packed)
{
    const unsigned char *data = (const unsigned char *)PyBytes_AS_STRING(packed);
    size_t size = (size_t)PyBytes_GET_SIZE(packed), at = 6;
    for (;;) {
        if (at >= size)
            return 0;
        unsigned code = data[at];
        size_t here = size - at, header, length;
        if (code == 0xFF)
            return 1;
        if (code < 0x80) {
            if (!append(list, digits(code)))
                return 0;
            at += 2;
            continue;
        }
        if (code >= 0xF1) {
            int bytes = code < 0xF4 ? (int)(code - 0xEF) : 8;
            if (code > 0xF4 || here < (size_t)bytes + 1 || !append(list, digits(little_number(data + at + 1, bytes))))
                return 0;
            at += (size_t)bytes + 2;
            continue;
        }
        if (code < 0xC0) {
            header = 1;
            length = code & 0x3F;
        }
        else if (code < 0xF0) {
            if (here < 2)
                return 0;
            if (code < 0xE0) {
                int64_t number = (int64_t)((code & 0x1F) << 8 | data[at + 1]);
                if (!append(list, digits(number >> 12 ? number - (1 << 13) : number)))
                    return 0;
                at += 3;
                continue;
            }
            header = 2;
            length = (size_t)(code & 0x0F) << 8 | data[at + 1];
        }
        else {
            if (here < 5)
                return 0;
            header = 5;
            length = 0;
            for (int byte = 4; byte > 0; byte--)
                length = length << 8 | data[at + (size_t)byte];
        }
        if (length > here || header > here - length)
            return 0;
        if (!append(list, PyBytes_FromStringAndSize((const char *)data + at + header, (Py_ssize_t)length)))
            return 0;
        length += header;
        at += length + 1 + (length >= 128) + (length >= 16383) + (length >= 2097151) + (length >= 268435455);
    }
}

/* Append the numbers of an intset. Returns whether it is sound. */
static int append_intset(PyObject *list, PyObject *packed)
{
    const unsigned char *data = (const unsigned char *)PyBytes_AS_STRING(packed);
    size_t size = (size_t)PyBytes_GET_SIZE(packed);
    if (size < 8)
        return 0;
    uint64_t bytes = little_64(data) & 0xFFFFFFFF, count = little_64(data) >> 32;
    if ((bytes != 2 && bytes != 4 && bytes != 8) || size != 8 + bytes * count)
        return 0;
    for (size_t at = 8; at < size; at += bytes)
        if (!append(list, digits(little_number(data + at, (int)bytes))))
            return 0;
    return 1;
}

/* Append so many strings. Returns whether all are there and sound. */
static int append_strings(PyObject *list, struct input *in, uint64_t count)
{
    if (count > (uint64_t)(in->end - in->at)) /* each takes a byte */
        return 0;
    for (; count > 0; count--)
        if (!append(list, read_string(in)))
            return 0;
    return 1;
}

static int append_packed(PyObject *list, struct input *in, int (*unpack)(PyObject *, PyObject *))
{
    PyObject *packed = read_string(in);
    int is_sound = packed != NULL && unpack(list, packed);
    Py_XDECREF(packed);
    return is_sound;
}

static int append_nodes(PyObject *list, struct input *in)
{
    uint64_t count, kind;
    int unused;
    if (!read_length(in, &count, &unused))
        return 0;
    for (; count > 0; count--) {
        if (!read_length(in, &kind, &unused))
            return 0;
        if (kind == PLAIN_NODE ? !append(list, read_string(in))
                               : kind != PACKED_NODE || !append_packed(list, in, append_listpack))
            return 0;
    }
    return 1;
}

static int append_scored(PyObject *list, struct input *in, uint64_t count)
{
    for (; count > 0; count--) {
        if (!append(list, read_string(in)) || in->end - in->at < 8)
            return 0;
        uint64_t bits = little_64(in->at);
        double score;
        memcpy(&score, &bits, sizeof score);
        in->at += 8;
        if (score != score || !append(list, PyFloat_FromDouble(score)))
            return 0;
    }
    return 1;
}

/* Append all elements of a collection: of hashes names and values in turn, of sorted sets members and
 * scores. The scores of listpacks are texts. */
static int append_elements(PyObject *list, struct input *in, long form)
{
    uint64_t count;
    int unused;
    switch (form) {
    case SET_INTSET:
        return append_packed(list, in, append_intset);
    case HASH_LISTPACK:
    case ZSET_LISTPACK:
    case SET_LISTPACK:
        return append_packed(list, in, append_listpack);
    case LIST_QUICKLIST_2:
        return append_nodes(list, in);
    }
    if (!read_length(in, &count, &unused) || count > (uint64_t)(in->end - in->at))
        return 0;
    switch (form) {
    case LIST:
    case SET:
        return append_strings(list, in, count);
    case HASH:
        return append_strings(list, in, 2 * count);
    case ZSET:
        return append_scored(list, in, count);
    }
    return 0;
}

static int is_same(PyObject *one, PyObject *other)
{
    Py_ssize_t size = PyBytes_GET_SIZE(one);
    return size == PyBytes_GET_SIZE(other)
        && memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), (size_t)size) == 0;
}

/* Whether each element with such a step is there once. */
static int are_distinct(PyObject *list, Py_ssize_t step)
{
    Py_ssize_t size = PyList_GET_SIZE(list);
    if (size <= FEW * step) {
        for (Py_ssize_t at = step; at < size; at += step)
            for (Py_ssize_t before = 0; before < at; before += step)
                if (is_same(PyList_GET_ITEM(list, at), PyList_GET_ITEM(list, before)))
                    return 0;
        return 1;
    }
    PyObject *names = PySet_New(NULL);
    if (names == NULL)
        return 0;
    int is_done = 1;
    for (Py_ssize_t at = 0; is_done && at < size; at += step)
        is_done = PySet_Add(names, PyList_GET_ITEM(list, at)) == 0;
    is_done = is_done && PySet_GET_SIZE(names) * step == size;
    Py_DECREF(names);
    return is_done;
}

static PyObject *score_of(PyObject *object)
{
    if (PyFloat_CheckExact(object))
        return Py_NewRef(object);
    PyObject *score = PyFloat_FromString(object);
    if (score == NULL) {
        if (PyErr_ExceptionMatches(PyExc_ValueError))
            PyErr_Clear();
        return NULL;
    }
    if (PyFloat_AS_DOUBLE(score) == PyFloat_AS_DOUBLE(score))
        return score;
    Py_DECREF(score);
    return NULL;
}

/* Read a value: see `Plain` in plain.py. */
static PyObject *read_value(struct input *in, long form)
{
    if (form == STRING)
        return read_string(in);
    int is_hash = form == HASH || form == HASH_LISTPACK, is_zset = form == ZSET || form == ZSET_LISTPACK;
    int is_list = form == LIST || form == LIST_QUICKLIST_2;
    Py_ssize_t step = is_hash || is_zset ? 2 : 1;
    PyObject *flat = PyList_New(0), *rows = NULL;
    if (flat == NULL || !append_elements(flat, in, form))
        goto failed;
    Py_ssize_t size = PyList_GET_SIZE(flat);
    if (size == 0 || size % step != 0 || (!is_list && !are_distinct(flat, step)))
        goto failed;
    if (step == 1)
        return flat;
    rows = PyList_New(size / 2);
    if (rows == NULL)
        goto failed;
    for (Py_ssize_t at = 0; at < size; at += 2) {
        PyObject *name = PyList_GET_ITEM(flat, at), *value = PyList_GET_ITEM(flat, at + 1), *row;
        if (is_hash)
            row = PyTuple_Pack(3, name, value, Py_None);
        else {
            PyObject *score = score_of(value);
            row = score == NULL ? NULL : PyTuple_Pack(2, name, score);
            Py_XDECREF(score);
        }
        if (row == NULL)
            goto failed;
        PyList_SET_ITEM(rows, at / 2, row);
    }
    Py_DECREF(flat);
    return rows;
failed:
    Py_XDECREF(flat);
    Py_XDECREF(rows);
    return NULL;
}

/* keys(data, at, form, expiry) -> (names, values, times, at). `form` begins a key, `expiry` a time. */
static PyObject *keys(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
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
        const unsigned char *before = in.at;
        PyObject *value = name == NULL ? NULL : read_value(&in, form);
        int is_taken = value != NULL && (form == STRING || in.at - before <= MOST_BYTES);
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

static unsigned char *put_length(unsigned char *out, size_t number)
{
    if (number < 0x40)
        *out++ = (unsigned char)number;
    else if (number < 0x4000) {
        *out++ = (unsigned char)(0x40 | number >> 8);
        *out++ = (unsigned char)number;
    }
    else {
        int bytes = (uint64_t)number >> 32 ? 8 : 4;
        *out++ = bytes == 4 ? 0x80 : 0x81;
        for (int byte = bytes - 1; byte >= 0; byte--)
            *out++ = (unsigned char)((uint64_t)number >> 8 * byte);
    }
    return out;
}

static unsigned char *put_string(unsigned char *out, PyObject *text)
{
    size_t size = (size_t)PyBytes_GET_SIZE(text);
    out = put_length(out, size);
    memcpy(out, PyBytes_AS_STRING(text), size);
    return out + size;
}

static unsigned char *put_little_64(unsigned char *out, uint64_t number)
{
    for (int byte = 0; byte < 8; byte++)
        *out++ = (unsigned char)(number >> 8 * byte);
    return out;
}

#define LENGTH_BYTES 9 /* the most that a length takes */

/* The most bytes that a value takes; -1 with an error if it is not one of such a form. */
static Py_ssize_t most_bytes(PyObject *value, long form)
{
    if (form == STRING && PyBytes_CheckExact(value))
        return LENGTH_BYTES + PyBytes_GET_SIZE(value);
    if ((form != LIST && form != SET && form != HASH && form != ZSET) || !PyList_CheckExact(value))
        goto refused;
    Py_ssize_t most = LENGTH_BYTES, columns = form == HASH ? 3 : 2;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(value); at++) {
        PyObject *name = PyList_GET_ITEM(value, at);
        if (form == HASH || form == ZSET) {
            if (!PyTuple_CheckExact(name) || PyTuple_GET_SIZE(name) != columns)
                goto refused;
            PyObject *other = PyTuple_GET_ITEM(name, 1);
            if (form == HASH ? !PyBytes_CheckExact(other) || PyTuple_GET_ITEM(name, 2) != Py_None
                             : !PyFloat_CheckExact(other))
                goto refused;
            most += form == HASH ? LENGTH_BYTES + PyBytes_GET_SIZE(other) : 8;
            name = PyTuple_GET_ITEM(name, 0);
        }
        if (!PyBytes_CheckExact(name))
            goto refused;
        most += LENGTH_BYTES + PyBytes_GET_SIZE(name);
    }
    return most;
refused:
    PyErr_SetString(PyExc_TypeError, "a value is not of this form");
    return -1;
}

static unsigned char *put_value(unsigned char *out, PyObject *value, long form)
{
    if (form == STRING)
        return put_string(out, value);
    Py_ssize_t count = PyList_GET_SIZE(value);
    out = put_length(out, (size_t)count);
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *item = PyList_GET_ITEM(value, at);
        if (form == LIST || form == SET) {
            out = put_string(out, item);
            continue;
        }
        out = put_string(out, PyTuple_GET_ITEM(item, 0));
        if (form == HASH)
            out = put_string(out, PyTuple_GET_ITEM(item, 1));
        else {
            double score = PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(item, 1));
            uint64_t bits;
            memcpy(&bits, &score, sizeof bits);
            out = put_little_64(out, bits);
        }
    }
    return out;
}

/* packed(names, values, times, form, expiry) -> bytes: what `keys` reads. */
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
        PyObject *name = PyList_GET_ITEM(names, at), *time = PyList_GET_ITEM(times, at);
        if (!PyBytes_CheckExact(name) || (time != Py_None && !PyLong_CheckExact(time))) {
            PyErr_SetString(PyExc_TypeError, "bytes and numbers are wanted");
            return NULL;
        }
        Py_ssize_t nbytes = most_bytes(PyList_GET_ITEM(values, at), form);
        if (nbytes < 0)
            return NULL;
        most += 10 + LENGTH_BYTES + PyBytes_GET_SIZE(name) + nbytes; /* with the bytes of time and form */
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
            out = put_little_64(out, (uint64_t)at_ms);
        }
        *out++ = (unsigned char)form;
        out = put_string(out, PyList_GET_ITEM(names, at));
        out = put_value(out, PyList_GET_ITEM(values, at), form);
    }
    if (_PyBytes_Resize(&result, out - start) < 0)
        return NULL;
    return result;
}

static PyMethodDef functions[] = {
    {"crc64", (PyCFunction)(void (*)(void))crc64, METH_FASTCALL, "The checksum of bytes, after others."},
    {"lzf", (PyCFunction)(void (*)(void))lzf, METH_FASTCALL, "A string that was compressed."},
    {"keys", (PyCFunction)(void (*)(void))keys, METH_FASTCALL, "Keys of one form, in a row."},
    {"packed", (PyCFunction)(void (*)(void))packed, METH_FASTCALL, "The bytes of keys of one form."},
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
