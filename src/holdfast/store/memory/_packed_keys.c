/* Small keys that wait, each as a few bytes beside its name: a table without Python objects.
 *
 * packed_keys.py has the same class in Python, and says what it is for. Here a key is one record. Records are
 * written one after the other into chunks, which come from the system and go back to it whole. A record that is
 * removed is marked; when a chunk has more removed bytes than others, the others move to the last chunk.
 *
 * The table has many small parts. So no call has to move all keys when the table grows.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __GLIBC__
#include <malloc.h>
#include <unistd.h>
#endif
#include <stdint.h>
#include <string.h>
#ifdef _WIN32
#include <stdlib.h>
#else
#include <sys/mman.h>
#endif

#ifdef __GNUC__
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

#define PARTS 1024u
#define FEWEST_SLOTS 8u
#define OFFSET_BITS 18
#define CHUNK ((size_t)1 << OFFSET_BITS)
#define CHUNK_BITS 24
#define TAG_SHIFT (OFFSET_BITS + CHUNK_BITS)
#define LONGEST 8192 /* bytes of a name, and of a body */
#define STRING 0 /* kinds: the body is the value … */
#define HASH 2   /* … or msgpack: [0, field, value, field, value, …] */
#define MOST_FIELDS 8 /* of a hash that is packed when it is made */
#define LONGEST_WORD 64 /* of its fields and values */
#define AHEAD 16 /* names whose slots are asked for before the first is needed */
#define SLOTS_PER_KEY 64 /* that `forget` looks at, at most */
#define MOST_HEAP (64 << 20) /* bytes that `trim` walks through: in a few milliseconds */
#define MOST_IDLE_SLOTS (8 * PARTS) /* of an empty table: a key that comes and goes needs no memory from the system */
#define EMPTY 0u
#define REMOVED 1u /* no place: chunk 0 does not exist */

/* A record: a byte with its kind and flags, when it was used (4 bytes), the lower half of its hash (4 bytes), its
 * id, the lengths of name and body (numbers of 7 bits a byte), when it expires (8 bytes, if it does), name, body. */
#define KIND 0x0f
#define EXPIRES 0x10
#define IS_DEAD 0x80
#define USED_AT 1
#define HASH_AT 5
#define ID_AT 9

typedef struct {
    uint8_t *bytes; /* NULL: it was given back */
    uint32_t used, live;
} Chunk;

typedef struct {
    uint64_t *slots; /* tag, chunk, offset; or EMPTY, or REMOVED */
    uint32_t size;   /* a power of two, or 0 */
    uint32_t live, filled;
} Part;

typedef struct {
    PyObject_HEAD
    Part *parts; /* NULL while nothing was put */
    Chunk *chunks; /* from 1 on */
    uint32_t chunk_count, chunk_room, last, free_chunk;
    uint32_t part_at, slot_at; /* where `forget` goes on */
    uint64_t slot_count;       /* of all parts */
    int has_dissolved;         /* some chunks are gone, and nothing may be looked up */
    Py_ssize_t count;
    uint64_t nbytes;
} Table;

typedef struct {
    uint8_t *start;
    uint64_t id;
    int64_t expires_at_ms;
    const uint8_t *name, *body;
    uint32_t name_length, body_length, length;
} Record;

/* -- records ---------------------------------------------------------------------------------- */

static uint8_t *put_number(uint8_t *at, uint64_t number)
{
    while (number >= 0x80) {
        *at++ = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    *at++ = (uint8_t)number;
    return at;
}

static const uint8_t *get_number(const uint8_t *at, uint64_t *number)
{
    uint64_t found = 0;
    int shift = 0;
    while (*at & 0x80) {
        found |= (uint64_t)(*at++ & 0x7f) << shift;
        shift += 7;
    }
    *number = found | (uint64_t)*at << shift;
    return at + 1;
}

static Record read_record(uint8_t *start)
{
    Record record = {.start = start, .expires_at_ms = 0};
    uint64_t name_length, body_length;
    const uint8_t *at = get_number(start + ID_AT, &record.id);
    at = get_number(at, &name_length);
    at = get_number(at, &body_length);
    if (*start & EXPIRES) {
        memcpy(&record.expires_at_ms, at, 8);
        at += 8;
    }
    record.name = at;
    record.body = at + name_length;
    record.name_length = (uint32_t)name_length;
    record.body_length = (uint32_t)body_length;
    record.length = (uint32_t)(record.body + body_length - start);
    return record;
}

static uint32_t used_at(const uint8_t *record)
{
    uint32_t seconds;
    memcpy(&seconds, record + USED_AT, 4);
    return seconds;
}

static void use(uint8_t *record, uint32_t seconds)
{
    memcpy(record + USED_AT, &seconds, 4);
}

/* -- chunks ----------------------------------------------------------------------------------- */

static uint8_t *new_bytes(void)
{
#ifdef _WIN32
    return malloc(CHUNK);
#else
    void *bytes = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return bytes == MAP_FAILED ? NULL : bytes;
#endif
}

static void give_back(Chunk *chunk)
{
    if (chunk->bytes != NULL) {
#ifdef _WIN32
        free(chunk->bytes);
#else
        munmap(chunk->bytes, CHUNK);
#endif
    }
    *chunk = (Chunk){NULL, 0, 0};
}

/* Room for so many bytes at the end of the last chunk. NULL: there is no memory; nothing has changed. */
static uint8_t *room_for(Table *self, uint32_t length)
{
    if (self->last && self->chunks[self->last].live == 0)
        self->chunks[self->last].used = 0;
    if (self->last == 0 || self->chunks[self->last].used + length > CHUNK) {
        /* Chunks that were given back leave numbers that can be used again. */
        uint32_t number = self->free_chunk;
        while (number < self->chunk_count && self->chunks[number].bytes != NULL)
            number++;
        if (number >= self->chunk_room) {
            uint32_t room = self->chunk_room ? self->chunk_room * 2 : 16;
            if (room > 1u << CHUNK_BITS)
                return NULL;
            Chunk *chunks = PyMem_RawRealloc(self->chunks, room * sizeof(Chunk));
            if (chunks == NULL)
                return NULL;
            self->chunks = chunks;
            self->chunk_room = room;
        }
        uint8_t *bytes = new_bytes();
        if (bytes == NULL)
            return NULL;
        self->chunks[number] = (Chunk){bytes, 0, 0};
        if (number >= self->chunk_count)
            self->chunk_count = number + 1;
        self->free_chunk = number + 1;
        self->last = number;
    }
    return self->chunks[self->last].bytes + self->chunks[self->last].used;
}

static uint64_t place_of_last(const Table *self, uint32_t offset)
{
    return (uint64_t)self->last << OFFSET_BITS | offset;
}

static uint8_t *record_at(const Table *self, uint64_t slot)
{
    uint32_t chunk = (uint32_t)(slot >> OFFSET_BITS) & ((1u << CHUNK_BITS) - 1);
    return self->chunks[chunk].bytes + (slot & (CHUNK - 1));
}

static uint32_t chunk_of(uint64_t slot)
{
    return (uint32_t)(slot >> OFFSET_BITS) & ((1u << CHUNK_BITS) - 1);
}

/* -- the table -------------------------------------------------------------------------------- */

static uint64_t tag_of(uint64_t hash)
{
    return hash >> TAG_SHIFT << TAG_SHIFT;
}

static Part *part_of(const Table *self, uint32_t hash)
{
    return &self->parts[hash % PARTS];
}

static uint32_t first_slot(const Part *part, uint32_t hash)
{
    return hash / PARTS & (part->size - 1);
}

/* Parts and slots are chosen by this half of a hash. */
static uint32_t hash_of(const uint8_t *record)
{
    uint32_t hash;
    memcpy(&hash, record + HASH_AT, 4);
    return hash;
}

/* The slot of a name, or NULL. */
static uint64_t *find(const Table *self, uint64_t hash, const void *name, Py_ssize_t length)
{
    if (self->count == 0)
        return NULL;
    const Part *part = part_of(self, (uint32_t)hash);
    if (part->live == 0)
        return NULL;
    uint64_t tag = tag_of(hash);
    for (uint32_t at = first_slot(part, (uint32_t)hash); part->slots[at] != EMPTY;
         at = (at + 1) & (part->size - 1)) {
        uint64_t slot = part->slots[at];
        if (slot == REMOVED || tag_of(slot) != tag)
            continue;
        Record record = read_record(record_at(self, slot));
        if (record.name_length == length && memcmp(record.name, name, (size_t)length) == 0)
            return &part->slots[at];
    }
    return NULL;
}

/* The first free slot for a hash; there is one. */
static uint64_t *free_slot(const Part *part, uint32_t hash)
{
    uint32_t at = first_slot(part, hash);
    while (part->slots[at] != EMPTY)
        at = (at + 1) & (part->size - 1);
    return &part->slots[at];
}

/* The slot of the record at a place; there is one. */
static uint64_t *slot_of(const Table *self, uint32_t hash, uint64_t place)
{
    const Part *part = part_of(self, hash);
    uint32_t at = first_slot(part, hash);
    while (part->slots[at] - tag_of(part->slots[at]) != place)
        at = (at + 1) & (part->size - 1);
    return &part->slots[at];
}

/* Make room in a part for one more: it grows, or loses slots of removed keys. False: no memory. */
static int make_room(Table *self, Part *part)
{
    if (part->size && (part->filled + 1) * 8 <= part->size * 7)
        return 1;
    uint32_t size = part->size ? part->size : FEWEST_SLOTS;
    if ((part->live + 1) * 3 > size * 2)
        size *= 2;
    uint64_t *slots = PyMem_RawCalloc(size, sizeof(uint64_t));
    if (slots == NULL)
        return 0;
    Part grown = {slots, size, part->live, part->live};
    for (uint32_t at = 0; at < part->size; at++) {
        uint64_t slot = part->slots[at];
        if (slot == EMPTY || slot == REMOVED)
            continue;
        *free_slot(&grown, hash_of(record_at(self, slot))) = slot;
    }
    self->slot_count += size - part->size;
    PyMem_RawFree(part->slots);
    *part = grown;
    return 1;
}

/* Move the records left in a chunk to the last one, and give it back. If there is no memory it stays. */
static void empty_chunk(Table *self, uint32_t number)
{
    uint32_t offset = 0, used = self->chunks[number].used;
    while (offset < used) {
        uint8_t *start = self->chunks[number].bytes + offset;
        Record record = read_record(start);
        if (!(*start & IS_DEAD)) {
            uint64_t *slot = slot_of(self, hash_of(start), (uint64_t)number << OFFSET_BITS | offset);
            uint8_t *room = room_for(self, record.length);
            if (room == NULL)
                return;
            memcpy(room, start, record.length);
            *start |= IS_DEAD;
            Chunk *last = &self->chunks[self->last];
            *slot = tag_of(*slot) | place_of_last(self, last->used);
            last->used += record.length;
            last->live += record.length;
            self->chunks[number].live -= record.length;
        }
        offset += record.length;
    }
    give_back(&self->chunks[number]);
    if (number < self->free_chunk)
        self->free_chunk = number;
}

static void free_all(Table *self)
{
    for (uint32_t number = 1; number < self->chunk_count; number++)
        give_back(&self->chunks[number]);
    PyMem_RawFree(self->chunks);
    if (self->parts != NULL)
        for (uint32_t number = 0; number < PARTS; number++)
            PyMem_RawFree(self->parts[number].slots);
    PyMem_RawFree(self->parts);
    self->parts = NULL;
    self->chunks = NULL;
    self->chunk_count = self->free_chunk = 1;
    self->chunk_room = self->last = self->part_at = self->slot_at = 0;
    self->slot_count = 0;
    self->has_dissolved = 0;
    self->count = 0;
    self->nbytes = 0;
}

static void remove_slot(Table *self, Part *part, uint64_t *slot)
{
    uint32_t number = chunk_of(*slot);
    Record record = read_record(record_at(self, *slot));
    Chunk *chunk = &self->chunks[number];
    *record.start |= IS_DEAD;
    *slot = REMOVED;
    part->live--;
    self->count--;
    self->nbytes -= record.length;
    chunk->live -= record.length;
    if (self->count == 0 && self->slot_count > MOST_IDLE_SLOTS)
        free_all(self);
    else if (number != self->last && chunk->live < chunk->used / 2)
        empty_chunk(self, number);
}

/* -- methods ---------------------------------------------------------------------------------- */

static int is_name(PyObject *name)
{
    if (PyBytes_CheckExact(name))
        return 1;
    PyErr_SetString(PyExc_TypeError, "a name is bytes");
    return 0;
}

static uint64_t *find_name(Table *self, PyObject *name)
{
    if (self->count == 0)
        return NULL;
    Py_hash_t hash = PyObject_Hash(name);
    return find(self, (uint64_t)hash, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name));
}

static int wants(Py_ssize_t nargs, Py_ssize_t count)
{
    if (nargs == count)
        return 1;
    PyErr_Format(PyExc_TypeError, "%zd arguments are wanted, not %zd", count, nargs);
    return 0;
}

static PyObject *expiry(const Record *record)
{
    if (*record->start & EXPIRES)
        return PyLong_FromLongLong(record->expires_at_ms);
    Py_RETURN_NONE;
}

/* Add a record. Its length, or 0 after an error. The name must not be there. */
static uint32_t add(Table *self, PyObject *name, uint64_t id, uint8_t kind, uint32_t seconds, const int64_t *expires_at_ms,
                    const void *body, Py_ssize_t body_length)
{
    Py_ssize_t name_length = PyBytes_GET_SIZE(name);
    if (self->has_dissolved)
        free_all(self);
    if (find_name(self, name) != NULL) {
        PyErr_SetString(PyExc_ValueError, "the name is there");
        return 0;
    }
    if (self->parts == NULL) {
        self->parts = PyMem_RawCalloc(PARTS, sizeof(Part));
        if (self->parts == NULL) {
            PyErr_NoMemory();
            return 0;
        }
    }
    uint64_t hash = (uint64_t)PyObject_Hash(name);
    uint32_t half = (uint32_t)hash;
    Part *part = part_of(self, half);
    uint8_t header[ID_AT + 10 + 2 * 5 + 8];
    header[0] = (uint8_t)(kind | (expires_at_ms == NULL ? 0 : EXPIRES));
    use(header, seconds);
    memcpy(header + HASH_AT, &half, 4);
    uint8_t *at = put_number(header + ID_AT, id);
    at = put_number(at, (uint64_t)name_length);
    at = put_number(at, (uint64_t)body_length);
    if (expires_at_ms != NULL) {
        memcpy(at, expires_at_ms, 8);
        at += 8;
    }
    size_t header_length = (size_t)(at - header);
    uint32_t length = (uint32_t)(header_length + (size_t)name_length + (size_t)body_length);
    uint8_t *room = make_room(self, part) ? room_for(self, length) : NULL;
    if (room == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    memcpy(room, header, header_length);
    memcpy(room + header_length, PyBytes_AS_STRING(name), (size_t)name_length);
    memcpy(room + header_length + name_length, body, (size_t)body_length);
    Chunk *chunk = &self->chunks[self->last];
    *free_slot(part, half) = tag_of(hash) | place_of_last(self, chunk->used);
    chunk->used += length;
    chunk->live += length;
    part->live++;
    part->filled++;
    self->count++;
    self->nbytes += length;
    return length;
}

static int get_unsigned(PyObject *number, unsigned long long *value)
{
    *value = PyLong_AsUnsignedLongLong(number);
    return *value != (unsigned long long)-1 || !PyErr_Occurred();
}

static PyObject *put(Table *self, PyObject *const *args, Py_ssize_t nargs)
{
    unsigned long long id, seconds;
    if (!wants(nargs, 6) || !is_name(args[0]) || !get_unsigned(args[1], &id))
        return NULL;
    long kind = PyLong_AsLong(args[2]);
    if ((kind == -1 && PyErr_Occurred()) || !get_unsigned(args[3], &seconds))
        return NULL;
    int64_t expires_at_ms = args[4] == Py_None ? 0 : PyLong_AsLongLong(args[4]);
    if (expires_at_ms == -1 && PyErr_Occurred())
        return NULL;
    if (!PyBytes_CheckExact(args[5])) {
        PyErr_SetString(PyExc_TypeError, "a body is bytes");
        return NULL;
    }
    Py_ssize_t body_length = PyBytes_GET_SIZE(args[5]);
    if (PyBytes_GET_SIZE(args[0]) > LONGEST || body_length > LONGEST || kind < 0 || kind > KIND
        || seconds > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "too long, or no such kind or time");
        return NULL;
    }
    uint32_t length = add(self, args[0], id, (uint8_t)kind, (uint32_t)seconds,
                          args[4] == Py_None ? NULL : &expires_at_ms, PyBytes_AS_STRING(args[5]), body_length);
    return length ? PyLong_FromUnsignedLong(length) : NULL;
}

/* A new hash, of the fields and values that follow the name in a request: (argv, id, seconds). Returns 0 if it is not
 * small, or has a field twice. */
static PyObject *put_hash(Table *self, PyObject *const *args, Py_ssize_t nargs)
{
    unsigned long long id, seconds;
    if (!wants(nargs, 3) || !get_unsigned(args[1], &id) || !get_unsigned(args[2], &seconds))
        return NULL;
    if (!PyList_CheckExact(args[0]) || PyList_GET_SIZE(args[0]) < 4 || PyList_GET_SIZE(args[0]) % 2
        || seconds > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "no new hash, or no such time");
        return NULL;
    }
    PyObject **words = ((PyListObject *)args[0])->ob_item + 1; /* the name, then fields and values */
    Py_ssize_t count = PyList_GET_SIZE(args[0]) - 2;
    uint8_t body[4 + 2 * MOST_FIELDS * (2 + LONGEST_WORD)];
    if (!is_name(words[0]))
        return NULL;
    if (count > 2 * MOST_FIELDS || PyBytes_GET_SIZE(words[0]) > LONGEST)
        return PyLong_FromLong(0);
    uint8_t *at = body;
    if (count + 1 <= 15)
        *at++ = (uint8_t)(0x90 | (count + 1));
    else {
        *at++ = 0xdc;
        *at++ = 0;
        *at++ = (uint8_t)(count + 1);
    }
    *at++ = 0;
    for (Py_ssize_t number = 1; number <= count; number++) {
        PyObject *word = words[number];
        if (!is_name(word))
            return NULL;
        Py_ssize_t length = PyBytes_GET_SIZE(word);
        if (length > LONGEST_WORD)
            return PyLong_FromLong(0);
        for (Py_ssize_t before = number - 2; number % 2 && before >= 1; before -= 2)
            if (PyBytes_GET_SIZE(words[before]) == length
                && memcmp(PyBytes_AS_STRING(words[before]), PyBytes_AS_STRING(word), (size_t)length) == 0)
                return PyLong_FromLong(0);
        *at++ = 0xc4;
        *at++ = (uint8_t)length;
        memcpy(at, PyBytes_AS_STRING(word), (size_t)length);
        at += length;
    }
    uint32_t length = add(self, words[0], id, HASH, (uint32_t)seconds, NULL, body, at - body);
    return length ? PyLong_FromUnsignedLong(length) : NULL;
}

static PyObject *row(Table *self, PyObject *name)
{
    if (!is_name(name))
        return NULL;
    uint64_t *slot = find_name(self, name);
    if (slot == NULL)
        Py_RETURN_NONE;
    Record record = read_record(record_at(self, *slot));
    return Py_BuildValue("KiN", (unsigned long long)record.id, *record.start & KIND, expiry(&record));
}

static PyObject *take(Table *self, PyObject *name)
{
    if (!is_name(name))
        return NULL;
    uint64_t *slot = find_name(self, name);
    if (slot == NULL)
        Py_RETURN_NONE;
    Record record = read_record(record_at(self, *slot));
    PyObject *taken = Py_BuildValue("KiINy#", (unsigned long long)record.id, *record.start & KIND,
                                    (unsigned int)used_at(record.start), expiry(&record),
                                    (const char *)record.body, (Py_ssize_t)record.body_length);
    if (taken != NULL)
        remove_slot(self, part_of(self, hash_of(record.start)), slot);
    return taken;
}

static PyObject *string(Table *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!wants(nargs, 3) || !is_name(args[0]))
        return NULL;
    uint64_t *slot = find_name(self, args[0]);
    if (slot == NULL)
        Py_RETURN_NONE;
    Record record = read_record(record_at(self, *slot));
    if (*record.start & KIND)
        Py_RETURN_NONE;
    if (*record.start & EXPIRES) {
        long long now_ms = PyLong_AsLongLong(args[1]);
        if (now_ms == -1 && PyErr_Occurred())
            return NULL;
        if (record.expires_at_ms <= now_ms)
            Py_RETURN_NONE;
    }
    unsigned long long seconds = PyLong_AsUnsignedLongLong(args[2]);
    if (seconds == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    use(record.start, (uint32_t)seconds);
    return PyBytes_FromStringAndSize((const char *)record.body, record.body_length);
}

/* -- new keys, for the fold ------------------------------------------------------------------- */

enum { STRING_IDS, STRING_NAMES, STRINGS, HASH_IDS, HASH_NAMES, FIELD_IDS, FIELDS, VALUES, ORDINALS, MISSING, COLUMNS };

/* Append an object that is new, or NULL after an error; takes it in any case. */
static int append(PyObject *column, PyObject *made)
{
    if (made == NULL)
        return 0;
    int failed = PyList_Append(column, made);
    Py_DECREF(made);
    return !failed;
}

/* A word of msgpack, as `put_hash` and msgspec write short bytes. NULL if it is none. */
static const uint8_t *get_word(const uint8_t *at, const uint8_t *end, uint32_t *length)
{
    if (end - at < 2 || at[0] != 0xc4 || end - at - 2 < at[1])
        return NULL;
    *length = at[1];
    return at + 2;
}

static int bad_body(void)
{
    PyErr_SetString(PyExc_ValueError, "this is no new hash");
    return 0;
}

static int read_fields(const Record *record, PyObject **columns, Py_ssize_t *rows)
{
    const uint8_t *at = record->body, *end = at + record->body_length;
    uint32_t count, length;
    if (end - at >= 2 && (at[0] & 0xf0) == 0x90) {
        count = at[0] & 0x0fu;
        at++;
    } else if (end - at >= 4 && at[0] == 0xdc) {
        count = (uint32_t)at[1] << 8 | at[2];
        at += 3;
    } else
        return bad_body();
    if (*at++ != 0 || count < 3 || count % 2 == 0)
        return bad_body();
    for (uint32_t number = 1; number < count; number++) {
        const uint8_t *word = get_word(at, end, &length);
        if (word == NULL)
            return bad_body();
        int is_field = number % 2;
        if (!append(columns[is_field ? FIELDS : VALUES], PyBytes_FromStringAndSize((const char *)word, length)))
            return 0;
        if (is_field) {
            if (!append(columns[FIELD_IDS], PyLong_FromUnsignedLongLong(record->id))
                || !append(columns[ORDINALS], PyLong_FromUnsignedLong((number + 1) / 2)))
                return 0;
            ++*rows;
        }
        at = word + length;
    }
    return at == end ? 1 : bad_body();
}

static int read_key(const Record *record, PyObject *name, PyObject **columns, Py_ssize_t *rows)
{
    int is_hash = (*record->start & KIND) == HASH;
    if (!append(columns[is_hash ? HASH_IDS : STRING_IDS], PyLong_FromUnsignedLongLong(record->id))
        || PyList_Append(columns[is_hash ? HASH_NAMES : STRING_NAMES], name) < 0)
        return 0;
    ++*rows;
    if (is_hash)
        return read_fields(record, columns, rows);
    if ((*record->start & KIND) != STRING) {
        PyErr_SetString(PyExc_ValueError, "no new key is of this kind");
        return 0;
    }
    ++*rows;
    return append(columns[STRINGS], PyBytes_FromStringAndSize((const char *)record->body, record->body_length));
}

/* The rows of keys whose ids follow each other: (names, first id, from the name with this number on, most rows, most
 * bytes). Returns the number of the name to go on with, and the columns; see PackedKeysInPython. */
static PyObject *read_new(Table *self, PyObject *const *args, Py_ssize_t nargs)
{
    unsigned long long first_id;
    if (!wants(nargs, 5) || !get_unsigned(args[1], &first_id))
        return NULL;
    Py_ssize_t at = PyLong_AsSsize_t(args[2]), most_rows = PyLong_AsSsize_t(args[3]);
    Py_ssize_t most_bytes = PyLong_AsSsize_t(args[4]);
    if (PyErr_Occurred())
        return NULL;
    if (!PyList_CheckExact(args[0]) || at < 0) {
        PyErr_SetString(PyExc_TypeError, "a list of names is wanted, and a number in it");
        return NULL;
    }
    PyObject *columns[COLUMNS] = {NULL}, *result = NULL;
    for (int number = 0; number < COLUMNS; number++) {
        columns[number] = PyList_New(0);
        if (columns[number] == NULL)
            goto done;
    }
    Py_ssize_t rows = 0, nbytes = 0, asked = at;
    for (; at < PyList_GET_SIZE(args[0]) && rows < most_rows && nbytes < most_bytes; at++) {
        /* Names are anywhere in the table, so the processor is told which slots come next. */
        for (; asked < PyList_GET_SIZE(args[0]) && asked < at + AHEAD; asked++) {
            PyObject *name = PyList_GET_ITEM(args[0], asked);
            if (!is_name(name))
                goto done;
            if (self->count) {
                uint32_t hash = (uint32_t)PyObject_Hash(name);
                const Part *part = part_of(self, hash);
                if (part->size)
                    PREFETCH(&part->slots[first_slot(part, hash)]);
            }
        }
        PyObject *name = PyList_GET_ITEM(args[0], at);
        uint64_t id = first_id + (uint64_t)at, *slot = find_name(self, name);
        if (slot != NULL) {
            Record record = read_record(record_at(self, *slot));
            if (record.id == id) {
                if (!read_key(&record, name, columns, &rows))
                    goto done;
                nbytes += record.length;
                continue;
            }
        }
        if (!append(columns[MISSING], PyLong_FromUnsignedLongLong(id)))
            goto done;
    }
    result = PyTuple_New(1 + COLUMNS);
    if (result != NULL) {
        PyObject *next = PyLong_FromSsize_t(at);
        if (next == NULL)
            Py_CLEAR(result);
        else {
            PyTuple_SET_ITEM(result, 0, next);
            for (int number = 0; number < COLUMNS; number++)
                PyTuple_SET_ITEM(result, 1 + number, Py_NewRef(columns[number]));
        }
    }
done:
    for (int number = 0; number < COLUMNS; number++)
        Py_XDECREF(columns[number]);
    return result;
}

/* The slot of the record, of so many, that was not used for longest; NULL if there is none. The next call goes on
 * behind them. A table that has lost most of its keys has long runs of empty slots, so slots are counted, too. With
 * `flags`, only records that have one of them count; and only those with ids below one. */
static uint64_t *least_used(Table *self, Py_ssize_t samples, double *looks_left, uint8_t flags, uint64_t below_id,
                            Part **part_of_least)
{
    Py_ssize_t seen = 0;
    uint64_t *least = NULL;
    uint32_t least_used = 0;
    while (seen < samples && seen < self->count && *looks_left > 0) {
        Part *part = &self->parts[self->part_at % PARTS];
        --*looks_left;
        if (self->slot_at >= part->size) {
            self->part_at = (self->part_at + 1) % PARTS;
            self->slot_at = 0;
            continue;
        }
        uint64_t *slot = &part->slots[self->slot_at++];
        if (*slot == EMPTY || *slot == REMOVED)
            continue;
        seen++;
        const uint8_t *record = record_at(self, *slot);
        uint64_t id;
        get_number(record + ID_AT, &id);
        if ((flags && !(*record & flags)) || id >= below_id)
            continue;
        if (least == NULL || used_at(record) < least_used) {
            least = slot;
            least_used = used_at(record);
            *part_of_least = part;
        }
    }
    return least;
}

/* Of each few records with ids below one, the one that was not used for longest, if it was not used since a time. */
static PyObject *forget(Table *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!wants(nargs, 4))
        return NULL;
    Py_ssize_t most = PyLong_AsSsize_t(args[0]), samples = PyLong_AsSsize_t(args[1]);
    if ((most == -1 || samples == -1) && PyErr_Occurred())
        return NULL;
    unsigned long long before_s, below_id;
    if (!get_unsigned(args[2], &before_s) || !get_unsigned(args[3], &below_id))
        return NULL;
    Py_ssize_t gone = 0;
    double looks_left = (double)most * (double)samples * SLOTS_PER_KEY;
    for (; most > 0 && self->count; most--) {
        Part *part = NULL;
        uint64_t *least = least_used(self, samples, &looks_left, 0, below_id, &part);
        if (least == NULL) {
            if (looks_left <= 0)
                break;
            continue; /* the file lacks all keys of this sample */
        }
        if (used_at(record_at(self, *least)) < before_s) {
            remove_slot(self, part, least);
            gone++;
        }
    }
    return PyLong_FromSsize_t(gone);
}

static PyObject *least(Table *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!wants(nargs, 2))
        return NULL;
    Py_ssize_t samples = PyLong_AsSsize_t(args[0]);
    if (samples == -1 && PyErr_Occurred())
        return NULL;
    int only_expiring = PyObject_IsTrue(args[1]);
    if (only_expiring < 0)
        return NULL;
    double looks_left = (double)samples * SLOTS_PER_KEY;
    Part *part = NULL;
    uint64_t *slot = least_used(self, samples, &looks_left, only_expiring ? EXPIRES : 0, UINT64_MAX, &part);
    if (slot == NULL)
        Py_RETURN_NONE;
    Record record = read_record(record_at(self, *slot));
    return PyBytes_FromStringAndSize((const char *)record.name, record.name_length);
}

/* For a table that is not needed any more: give memory back, up to so many chunks. How many are left. */
static PyObject *dissolve(Table *self, PyObject *most)
{
    Py_ssize_t left = PyLong_AsSsize_t(most);
    if (left == -1 && PyErr_Occurred())
        return NULL;
    self->count = 0;
    self->nbytes = 0;
    self->has_dissolved = 1;
    while (self->chunk_count > 1 && left-- > 0)
        give_back(&self->chunks[--self->chunk_count]);
    if (self->chunk_count == 1)
        free_all(self);
    return PyLong_FromUnsignedLong(self->chunk_count - 1);
}

static PyObject *names(Table *self, PyObject *none)
{
    PyObject *list = PyList_New(0);
    if (list == NULL || self->count == 0) /* a part of it may have dissolved */
        return list;
    for (uint32_t number = 0; number < PARTS; number++) {
        const Part *part = &self->parts[number];
        for (uint32_t at = 0; at < part->size; at++) {
            if (part->slots[at] == EMPTY || part->slots[at] == REMOVED)
                continue;
            Record record = read_record(record_at(self, part->slots[at]));
            PyObject *name = PyBytes_FromStringAndSize((const char *)record.name, record.name_length);
            if (name == NULL || PyList_Append(list, name) < 0) {
                Py_XDECREF(name);
                Py_DECREF(list);
                return NULL;
            }
            Py_DECREF(name);
        }
    }
    return list;
}

static PyObject *get_nbytes(Table *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(self->nbytes);
}

static Py_ssize_t length(Table *self)
{
    return self->count;
}

static int contains(Table *self, PyObject *name)
{
    return is_name(name) ? find_name(self, name) != NULL : -1;
}

static PyObject *new_table(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) || (kwargs != NULL && PyDict_GET_SIZE(kwargs))) {
        PyErr_SetString(PyExc_TypeError, "no arguments are wanted");
        return NULL;
    }
    Table *self = (Table *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->chunk_count = self->free_chunk = 1;
    return (PyObject *)self;
}

static void dealloc(Table *self)
{
    free_all(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef methods[] = {
    {"put", (PyCFunction)(void (*)(void))put, METH_FASTCALL, NULL},
    {"put_hash", (PyCFunction)(void (*)(void))put_hash, METH_FASTCALL, NULL},
    {"read_new", (PyCFunction)(void (*)(void))read_new, METH_FASTCALL, NULL},
    {"row", (PyCFunction)row, METH_O, NULL},
    {"take", (PyCFunction)take, METH_O, NULL},
    {"string", (PyCFunction)(void (*)(void))string, METH_FASTCALL, NULL},
    {"forget", (PyCFunction)(void (*)(void))forget, METH_FASTCALL, NULL},
    {"least", (PyCFunction)(void (*)(void))least, METH_FASTCALL, NULL},
    {"dissolve", (PyCFunction)dissolve, METH_O, NULL},
    {"names", (PyCFunction)names, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"nbytes", (getter)get_nbytes, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PySequenceMethods as_sequence = {
    .sq_length = (lenfunc)length,
    .sq_contains = (objobjproc)contains,
};

static PyTypeObject type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "holdfast.store.memory._packed_keys.PackedKeys",
    .tp_basicsize = sizeof(Table),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = new_table,
    .tp_dealloc = (destructor)dealloc,
    .tp_methods = methods,
    .tp_getset = attributes,
    .tp_as_sequence = &as_sequence,
};

#ifdef __GLIBC__
static char *heap_before; /* the end of the heap when this was imported */
#endif

/* Give free memory back to the system, also from between blocks that are in use. It looks at all free blocks, and
 * holds the lock of the heap meanwhile, so no thread could do it beside the server: 10 to 90 ms for 500 MB. So a
 * large heap is left as it is, unless no client would wait (`is_idle`). Returns whether it was done. */
static PyObject *trim(PyObject *self, PyObject *is_idle)
{
#ifdef __GLIBC__
    int is_free = PyObject_IsTrue(is_idle);
    if (is_free < 0)
        return NULL;
    if (!is_free && (char *)sbrk(0) - heap_before > MOST_HEAP)
        Py_RETURN_FALSE;
    malloc_trim(0);
#endif
    Py_RETURN_TRUE;
}

static PyMethodDef functions[] = {
    {"trim", trim, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "holdfast.store.memory._packed_keys",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__packed_keys(void)
{
#ifdef __GLIBC__
    heap_before = sbrk(0);
#endif
    if (PyType_Ready(&type) < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL)
        return NULL;
    Py_INCREF(&type);
    if (PyModule_AddObject(made, "PackedKeys", (PyObject *)&type) < 0) {
        Py_DECREF(&type);
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
