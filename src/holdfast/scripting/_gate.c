/* The gate between Python and LuaJIT: `redis.call`, and running a script, without lupa in between.
 *
 * For each call, lupa makes a tuple, a dict and a frame, releases and takes the GIL, and checks for each
 * value whether it is a Python object. That takes several times as long as a command. So the two ways that
 * every script uses are here, for the values that nearly all scripts use: arguments that are texts and
 * numbers; replies that are texts, numbers, nil, OK and arrays of those. All other values go through lupa, as
 * redis.lua does it. If this file is not compiled, every call goes through lupa. Commands that need no
 * admission are called and counted in this file, too.
 *
 * The library of lupa exports the functions of Lua with the interface of Lua 5.1. It does not ship their
 * headers, so the needed declarations are here.
 *
 * Three rules keep this safe:
 *
 * 1. An error of Lua leaves a C function by longjmp, so the function cannot release references then. Each
 *    function that makes a Lua value can raise such an error, for lack of memory. So a Python object that
 *    is passed to Lua has another owner meanwhile: the caller of `run` owns the arguments of a script, and
 *    the gate owns a reply until the next reply.
 * 2. `call` uses Python objects only while `gate_run` is running. Then its thread has the GIL and keeps it:
 *    a Python function that Lua calls through lupa leaves the GIL as it found it. If Lua was entered
 *    through lupa, lupa has released the GIL, and `call` leaves the call to lupa. A Lua state belongs to
 *    one thread.
 * 3. Lua is entered in protected mode only: an error outside of it would end the process. To release a Lua
 *    function may need memory and so may raise an error, and a Held may be freed in the middle of a script.
 *    So a freed Held only notes the number of its function (`drop`). The next call that enters Lua releases
 *    the function (`next_dropped`).
 *
 * Releases are compiled without assertions. tests/scripting/test_gate_assertions.py compiles them in.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <assert.h>
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <time.h>

/* -- Lua ------------------------------------------------------------------------------------ */

typedef struct lua_State lua_State;
typedef int (*lua_CFunction)(lua_State *);

enum { LUA_TNIL, LUA_TBOOLEAN, LUA_TLIGHTUSERDATA, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE };
#define LUA_REGISTRYINDEX (-10000)
#define UPVALUE(i) (-10002 - (i))
#define LUA_MULTRET (-1)
#define LUA_ERRMEM 4
#define LUA_GCCOUNT 3
#define NO_NUMBER (-2) /* a number that luaL_ref never returns */

#define LUA_FUNCTIONS(F)                                                                           \
    F(int, lua_gettop, (lua_State *))                                                              \
    F(void, lua_settop, (lua_State *, int))                                                        \
    F(int, lua_checkstack, (lua_State *, int))                                                     \
    F(int, lua_type, (lua_State *, int))                                                           \
    F(int, lua_toboolean, (lua_State *, int))                                                      \
    F(double, lua_tonumber, (lua_State *, int))                                                    \
    F(const char *, lua_tolstring, (lua_State *, int, size_t *))                                   \
    F(void *, lua_touserdata, (lua_State *, int))                                                  \
    F(size_t, lua_objlen, (lua_State *, int))                                                      \
    F(void, lua_pushnil, (lua_State *))                                                            \
    F(void, lua_pushboolean, (lua_State *, int))                                                   \
    F(void, lua_pushnumber, (lua_State *, double))                                                 \
    F(void, lua_pushlstring, (lua_State *, const char *, size_t))                                  \
    F(void, lua_pushvalue, (lua_State *, int))                                                     \
    F(void, lua_pushlightuserdata, (lua_State *, void *))                                          \
    F(void, lua_pushcclosure, (lua_State *, lua_CFunction, int))                                   \
    F(void, lua_insert, (lua_State *, int))                                                        \
    F(void, lua_createtable, (lua_State *, int, int))                                              \
    F(void, lua_rawget, (lua_State *, int))                                                        \
    F(void, lua_rawgeti, (lua_State *, int, int))                                                  \
    F(void, lua_rawset, (lua_State *, int))                                                        \
    F(void, lua_rawseti, (lua_State *, int, int))                                                  \
    F(void, lua_call, (lua_State *, int, int))                                                     \
    F(int, lua_cpcall, (lua_State *, lua_CFunction, void *))                                       \
    F(int, lua_gc, (lua_State *, int, int))                                                        \
    F(int, luaL_ref, (lua_State *, int))                                                           \
    F(void, luaL_unref, (lua_State *, int, int))

#define POINTER(result, name, arguments) static result(*name) arguments;
LUA_FUNCTIONS(POINTER)

static int find_lua(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL)
        return 0;
#define FIND(result, name, arguments)                                                              \
    if ((*(void **)&name = dlsym(library, #name)) == NULL)                                         \
        return 0;
    LUA_FUNCTIONS(FIND)
    return 1;
}

/* -- the gate of one Lua -------------------------------------------------------------------- */

#define LARGE_REPLY (1 << 20) /* bytes; for larger replies Python checks whether Lua has memory */
#define MOST_VALUES 200       /* of arguments that are passed one by one */
#define DEEPEST 8             /* arrays in arrays */
#define EXACT 1e16            /* a double below it has all digits of a whole number */

#define SHIFT 8   /* as in latency.py: a slot counts the calls within 256 ns; */
#define SLOTS 256 /* Python counts calls that are too long for all slots */

typedef struct {
    PyObject_HEAD
    int64_t ns;
    uint32_t counts[SLOTS];
} Tally;

typedef struct {
    PyObject *name;    /* of the command, as scripts spell it */
    PyObject *run;     /* takes the list of all arguments, the name first; checks, calls and counts */
    PyObject *handler; /* takes the session and that list; NULL: use `run` */
    PyObject *ended;   /* is called after each call of `handler` that failed or was slow */
    Tally *tally;      /* counts all other calls of `handler` */
    int least, most;   /* number of arguments that `handler` takes */
    int opens;         /* from this level on, a call needs no admission */
} Door;

/* A cache of doors by the address of their names. Lua has each text only once, and keeps the names of doors
 * for ever, so equal names have equal addresses. */
#define SEEN 64

typedef struct {
    const char *name;
    int door;
} Seen;

typedef struct {
    PyObject_HEAD
    lua_State *L;
    PyObject *owner; /* keeps L open */
    PyObject *ok;    /* the Python object of the reply OK */
    PyObject *reply; /* the last reply, or the exception that was raised instead */
    Door *doors;
    int count;
    Seen seen[SEEN]; /* by the address of a name */
    PyObject *session; /* of the running script; its commands run in it */
    int *dropped;      /* numbers of functions whose Held is freed: see rule 3 */
    int drops, most_drops;
    char is_running;   /* `gate_run` is running: see rule 2 */
    int open_to;       /* doors up to this level are open for the script */
    int limit_kb;      /* no call begins while Lua has more memory in use */
    char resp3;        /* the script wants RESP3 replies, of which nearly none is plain */
} Gate;

typedef struct {
    PyObject_HEAD
    Gate *gate;
    int number; /* in Lua's registry */
} Held;

static PyTypeObject GateType, HeldType, TallyType;

/* -- values into Lua ------------------------------------------------------------------------ */

/* The approximate memory that a reply takes in Lua; -1 if the reply is not plain. */
static Py_ssize_t size_of(PyObject *reply, int depth)
{
    if (PyBytes_CheckExact(reply))
        return 16 + PyBytes_GET_SIZE(reply);
    if (PyLong_CheckExact(reply) || reply == Py_None)
        return 16;
    if (depth < DEEPEST && (PyList_CheckExact(reply) || PyTuple_CheckExact(reply))) {
        Py_ssize_t count = PySequence_Fast_GET_SIZE(reply), sum = 16;
        PyObject **items = PySequence_Fast_ITEMS(reply);
        for (Py_ssize_t i = 0; i < count && sum < LARGE_REPLY; i++) {
            Py_ssize_t size = size_of(items[i], depth + 1);
            if (size < 0)
                return -1;
            sum += size;
        }
        return sum;
    }
    return -1;
}

/* Pushes a reply that `size_of` found plain and small. */
static void push(lua_State *L, PyObject *reply)
{
    if (PyBytes_CheckExact(reply)) {
        lua_pushlstring(L, PyBytes_AS_STRING(reply), (size_t)PyBytes_GET_SIZE(reply));
    } else if (reply == Py_None) {
        lua_pushboolean(L, 0);
    } else if (PyLong_CheckExact(reply)) {
        lua_pushnumber(L, PyLong_AsDouble(reply)); /* cannot fail: replies are 64-bit numbers */
    } else {
        Py_ssize_t count = PySequence_Fast_GET_SIZE(reply);
        PyObject **items = PySequence_Fast_ITEMS(reply);
        lua_createtable(L, (int)count, 0);
        for (Py_ssize_t i = 0; i < count; i++) {
            push(L, items[i]);
            lua_rawseti(L, -2, (int)i + 1);
        }
    }
}

/* -- values out of Lua ---------------------------------------------------------------------- */

/* Writes the digits of a number in front of `end`. Returns their start. */
static char *digits_of(uint64_t number, char *end)
{
    do
        *--end = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    return end;
}

/* `%.17g` of a number from 1e9 to 1e15 that is not whole, such as a time. Its fraction has so few bits that
 * a multiplication makes whole digits of it without an error. (The general method, for any number, takes
 * thirty times as long.) */
static PyObject *text_of_time(double number)
{
    char text[40], *point = text + 20, *end = point;
    uint64_t whole = (uint64_t)number;
    char *start = digits_of(whole, point);
    int places = 17 - (int)(point - start);
    double scale = 1;
    for (int i = 0; i < places; i++)
        scale *= 10;
    double behind = nearbyint((number - (double)whole) * scale); /* rounds half to even, as printf does */
    if (behind >= scale) {
        start = digits_of(whole + 1, point);
    } else if (behind > 0) {
        char *first = digits_of((uint64_t)behind, end += 1 + places);
        while (first > point + 1)
            *--first = '0';
        *point = '.';
        while (end[-1] == '0')
            end--;
    }
    return PyBytes_FromStringAndSize(start, end - start);
}

/* A number as Redis writes it among the arguments of a call: `%.17g`. */
static PyObject *text_of(double number)
{
    if (fabs(number) < EXACT && number == (double)(int64_t)number && (number != 0 || !signbit(number))) {
        char text[24], *end = text + sizeof text, *start = digits_of((uint64_t)fabs(number), end);
        if (number < 0)
            *--start = '-';
        return PyBytes_FromStringAndSize(start, end - start);
    }
    if (number >= 1e9 && number < 1e15)
        return text_of_time(number);
    if (isnan(number))
        return PyBytes_FromString(signbit(number) ? "-nan" : "nan");
    char *text = PyOS_double_to_string(number, 'g', 17, 0, NULL); /* does not depend on the locale */
    if (text == NULL)
        return NULL;
    PyObject *bytes = PyBytes_FromString(text);
    PyMem_Free(text);
    return bytes;
}

/* The Python value that lupa would make of a result of a script; but a table becomes a list of its items. */
static PyObject *value_of(lua_State *L, int index)
{
    switch (lua_type(L, index)) {
    case LUA_TSTRING: {
        size_t size;
        const char *text = lua_tolstring(L, index, &size);
        return PyBytes_FromStringAndSize(text, (Py_ssize_t)size);
    }
    case LUA_TNUMBER: {
        double number = lua_tonumber(L, index);
        if (fabs(number) < 9e18 && number == (double)(int64_t)number)
            return PyLong_FromLongLong((int64_t)number);
        return PyFloat_FromDouble(number);
    }
    case LUA_TBOOLEAN:
        return PyBool_FromLong(lua_toboolean(L, index));
    case LUA_TTABLE: {
        int count = (int)lua_objlen(L, index);
        PyObject *list = PyList_New(count);
        for (int i = 0; list != NULL && i < count; i++) {
            lua_rawgeti(L, index, i + 1);
            PyObject *item = value_of(L, lua_gettop(L));
            lua_settop(L, -2);
            if (item == NULL)
                Py_CLEAR(list);
            else
                PyList_SET_ITEM(list, i, item);
        }
        return list;
    }
    default:
        Py_RETURN_NONE;
    }
}

/* -- redis.call ----------------------------------------------------------------------------- */

/* All arguments of a call as a list, the name of the command first. NULL if one is not plain, or if Python
 * lacks memory: `otherwise` then reports the error. */
static PyObject *arguments(lua_State *L, int count, const Door *door)
{
    PyObject *argv = PyList_New(count);
    if (argv == NULL)
        return NULL;
    PyList_SET_ITEM(argv, 0, Py_NewRef(door->name));
    for (int i = 2; i <= count; i++) {
        PyObject *text = NULL;
        int type = lua_type(L, i);
        if (type == LUA_TSTRING) {
            size_t size;
            const char *start = lua_tolstring(L, i, &size);
            text = PyBytes_FromStringAndSize(start, (Py_ssize_t)size);
        } else if (type == LUA_TNUMBER) {
            text = text_of(lua_tonumber(L, i));
        }
        if (text == NULL) {
            PyErr_Clear();
            Py_DECREF(argv);
            return NULL;
        }
        PyList_SET_ITEM(argv, i - 1, text);
    }
    return argv;
}

static PyObject *raised(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

/* The upvalues of `call`. */
enum { DOORS = 1, OTHERWISE, FETCHED, GATE, SMALL_OK, LARGE_OK };

enum { NOT_CALLED, OKAY, PLAIN, TO_BE_FETCHED };

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* The reply of a handler; NULL if it raised an error. This is a copy of `Invoker.timed` and of
 * `ScriptCommand.call` (server/dispatch/invoke.py, server/scripts/script_command.py) for calls that need no
 * admission; tests/scripting/test_gate_counts.py compares the copy with them. */
static PyObject *handled(const Gate *gate, const Door *door, PyObject *argv)
{
    PyObject *ended = door->ended, *arguments[] = {gate->session, argv};
    Tally *tally = door->tally; /* read now: if the handler adds doors, all doors move in memory */
    int64_t start_ns = now_ns();
    PyObject *reply = PyObject_Vectorcall(door->handler, arguments, 2, NULL);
    int64_t ns = now_ns() - start_ns;
    if (reply != NULL && ns < SLOTS << SHIFT) {
        tally->ns += ns;
        tally->counts[ns >> SHIFT]++;
        return reply;
    }
    PyObject *error = reply != NULL ? Py_NewRef(Py_None) : raised();
    PyObject *told = PyObject_CallFunction(ended, "OL", error, (long long)ns);
    if (told == NULL)
        Py_CLEAR(reply);
    else if (reply == NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(told);
    Py_DECREF(error);
    return reply;
}

/* Runs a command. Returns the kind of the reply that the gate has then. */
static int run(Gate *gate, lua_State *L, int count, const Door *door)
{
    PyObject *argv = arguments(L, count, door);
    if (argv == NULL)
        return NOT_CALLED;
    int is_open = gate->open_to >= door->opens && count >= door->least && count <= door->most
        && gate->session != NULL && door->handler != NULL;
    PyObject *reply = is_open ? handled(gate, door, argv) : PyObject_CallOneArg(door->run, argv);
    Py_DECREF(argv);
    int is_reply = reply != NULL;
    Py_XSETREF(gate->reply, is_reply ? reply : raised());
    if (!is_reply || gate->resp3)
        return TO_BE_FETCHED;
    if (reply == gate->ok)
        return OKAY;
    if (PyFloat_CheckExact(reply) && !isnan(PyFloat_AS_DOUBLE(reply))) { /* a score becomes a text */
        PyObject *text = text_of(PyFloat_AS_DOUBLE(reply));
        if (text == NULL) {
            PyErr_Clear();
            return TO_BE_FETCHED;
        }
        Py_SETREF(gate->reply, text);
        return PLAIN;
    }
    Py_ssize_t size = size_of(reply, 0);
    return size >= 0 && size < LARGE_REPLY ? PLAIN : TO_BE_FETCHED;
}

/* The number of the door whose name is the first argument; -1 if there is none. */
static int door_of(Gate *gate, lua_State *L)
{
    const char *name = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, NULL) : NULL;
    Seen *seen = &gate->seen[(uintptr_t)name / 16 % SEEN];
    if (name != NULL && seen->name == name)
        return seen->door;
    lua_pushvalue(L, 1);
    lua_rawget(L, UPVALUE(DOORS));
    int door = (int)lua_tonumber(L, -1) - 1; /* 0 for nil and false */
    lua_settop(L, -2);
    if (door < 0 || door >= gate->count)
        return -1;
    *seen = (Seen){name, door};
    return door;
}

static int call(lua_State *L)
{
    Gate *gate = lua_touserdata(L, UPVALUE(GATE));
    int count = lua_gettop(L), done = NOT_CALLED;
    if (gate->is_running && count >= 1 && count <= MOST_VALUES
        && lua_gc(L, LUA_GCCOUNT, 0) <= gate->limit_kb) {
        assert(PyGILState_Check());
        int door = door_of(gate, L);
        if (door >= 0)
            done = run(gate, L, count, &gate->doors[door]);
    }
    switch (done) {
    case PLAIN:
        push(L, gate->reply);
        return 1;
    case OKAY: /* {ok = "OK"} */
        lua_createtable(L, 0, 1);
        lua_pushvalue(L, UPVALUE(SMALL_OK));
        lua_pushvalue(L, UPVALUE(LARGE_OK));
        lua_rawset(L, -3);
        return 1;
    case TO_BE_FETCHED:
        lua_settop(L, 0);
        lua_pushvalue(L, UPVALUE(FETCHED));
        break;
    default:
        lua_pushvalue(L, UPVALUE(OTHERWISE));
        lua_insert(L, 1);
    }
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

/* Called by Lua: makes a `redis.call`. Takes a table of doors by name, a function for calls whose arguments
 * do not pass, and a function that fetches a reply that does not pass. */
static int new_call(lua_State *L)
{
    lua_settop(L, 3);
    lua_pushvalue(L, UPVALUE(1));
    lua_pushlstring(L, "ok", 2);
    lua_pushlstring(L, "OK", 2);
    lua_pushcclosure(L, call, LARGE_OK);
    return 1;
}

/* Takes the number of a function whose Held is freed; NO_NUMBER if there is none. The caller has the GIL. */
static int next_dropped(Gate *gate)
{
    return gate->drops > 0 ? gate->dropped[--gate->drops] : NO_NUMBER;
}

/* Called by Lua, through lupa: keeps a function, and returns its number. */
static int hold(lua_State *L)
{
    Gate *gate = lua_touserdata(L, UPVALUE(1));
    for (;;) { /* releases other functions: rule 3 */
        PyGILState_STATE gil = PyGILState_Ensure();
        int number = next_dropped(gate);
        PyGILState_Release(gil);
        if (number == NO_NUMBER)
            break;
        luaL_unref(L, LUA_REGISTRYINDEX, number);
    }
    lua_settop(L, 1);
    lua_pushnumber(L, luaL_ref(L, LUA_REGISTRYINDEX));
    return 1;
}

/* Called by Lua, once, with the address of a gate: the gate belongs to this Lua state from now on. */
__attribute__((visibility("default"))) int holdfast_gate(lua_State *L)
{
    Gate *gate = (Gate *)(uintptr_t)lua_tonumber(L, 1);
    gate->L = L;
    lua_pushlightuserdata(L, gate);
    lua_pushcclosure(L, new_call, 1);
    lua_pushlightuserdata(L, gate);
    lua_pushcclosure(L, hold, 1);
    return 2;
}

/* -- for Python ----------------------------------------------------------------------------- */

/* door(name, run, (handler, ended, tally, least, most, opens) | None) -> the number of the new door */
static PyObject *gate_door(Gate *gate, PyObject *args)
{
    PyObject *quick;
    Door door = {0};
    if (!PyArg_ParseTuple(args, "SOO:door", &door.name, &door.run, &quick))
        return NULL;
    if (quick != Py_None
        && !PyArg_ParseTuple(
            quick, "OOO!iii:door", &door.handler, &door.ended, &TallyType, &door.tally, &door.least,
            &door.most, &door.opens))
        return NULL;
    Door *doors = PyMem_Realloc(gate->doors, (size_t)(gate->count + 1) * sizeof(Door));
    if (doors == NULL)
        return PyErr_NoMemory();
    gate->doors = doors;
    Py_INCREF(door.name);
    Py_INCREF(door.run);
    Py_XINCREF(door.handler);
    Py_XINCREF(door.ended);
    Py_XINCREF(door.tally);
    doors[gate->count] = door;
    return PyLong_FromLong(++gate->count);
}

static PyObject *gate_take(Gate *gate, PyObject *Py_UNUSED(nothing))
{
    PyObject *reply = gate->reply;
    gate->reply = NULL;
    return reply != NULL ? reply : Py_NewRef(Py_None);
}

static PyObject *gate_held(Gate *gate, PyObject *number)
{
    long held = PyLong_AsLong(number);
    if (held == -1 && PyErr_Occurred())
        return NULL;
    Held *made = PyObject_GC_New(Held, &HeldType);
    if (made != NULL) {
        made->gate = (Gate *)Py_NewRef(gate);
        made->number = (int)held;
        PyObject_GC_Track(made);
    }
    return (PyObject *)made;
}

static int held_traverse(Held *held, visitproc visit, void *arg)
{
    Py_VISIT(held->gate);
    return 0;
}

/* Notes that a function is to be released when Lua is entered next: rule 3. */
static void drop(Gate *gate, int number)
{
    if (gate->drops == gate->most_drops) {
        int most = 2 * gate->most_drops + 16;
        int *dropped = PyMem_Realloc(gate->dropped, (size_t)most * sizeof(int));
        if (dropped == NULL)
            return; /* Lua keeps this function for ever, because no caller could handle an error */
        gate->dropped = dropped;
        gate->most_drops = most;
    }
    gate->dropped[gate->drops++] = number;
}

static int held_clear(Held *held)
{
    if (held->gate != NULL && held->gate->L != NULL)
        drop(held->gate, held->number);
    Py_CLEAR(held->gate);
    return 0;
}

static void held_dealloc(Held *held)
{
    PyObject_GC_UnTrack(held);
    held_clear(held);
    PyObject_GC_Del(held);
}

/* Pushes texts of a list one by one, or in a table if `as_table`. */
static void push_texts(lua_State *L, PyObject *argv, Py_ssize_t first, Py_ssize_t last, int as_table)
{
    if (as_table)
        lua_createtable(L, (int)(last - first), 0);
    for (Py_ssize_t i = first; i < last; i++) {
        PyObject *text = PyList_GET_ITEM(argv, i);
        lua_pushlstring(L, PyBytes_AS_STRING(text), (size_t)PyBytes_GET_SIZE(text));
        if (as_table)
            lua_rawseti(L, -2, (int)(i - first) + 1);
    }
}

typedef struct {
    Gate *gate;
    int enter, script; /* numbers of Held */
    Py_ssize_t keys;
    PyObject *argv, *result;
} Run;

/* Runs a script, in protected mode: also to push its arguments may raise an error. The result is one value,
 * or a tuple of several. It is made last, when nothing can raise an error any more. */
static int run_script(lua_State *L)
{
    Run *run = lua_touserdata(L, 1);
    Py_ssize_t count = PyList_GET_SIZE(run->argv), first = 3 + run->keys;
    lua_settop(L, 0);
    for (int number; (number = next_dropped(run->gate)) != NO_NUMBER;)
        luaL_unref(L, LUA_REGISTRYINDEX, number);
    if (!lua_checkstack(L, MOST_VALUES + 10))
        return (PyErr_NoMemory(), 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, run->enter);
    lua_rawgeti(L, LUA_REGISTRYINDEX, run->script);
    if (count <= MOST_VALUES) {
        lua_pushnumber(L, (double)run->keys);
        push_texts(L, run->argv, 3, count, 0);
    } else {
        push_texts(L, run->argv, 3, first, 1);
        push_texts(L, run->argv, first, count, 1);
    }
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    int results = lua_gettop(L);
    if (results == 1) {
        run->result = value_of(L, 1);
    } else if ((run->result = PyTuple_New(results)) != NULL) {
        for (int i = 0; i < results; i++) {
            PyObject *item = value_of(L, i + 1);
            if (item == NULL) {
                Py_CLEAR(run->result);
                break;
            }
            PyTuple_SET_ITEM(run->result, i, item);
        }
    }
    return 0;
}

/* run(enter, script, key_count, argv, session, open_to) -> the result of `enter`
 *
 * `argv` are the arguments of EVAL. `enter` is called with the script, the number of keys, and each argument
 * after the first three. If these are many, it is called with the script, a table of the keys and a table of
 * the other arguments. */
static PyObject *gate_run(Gate *gate, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 6 || !Py_IS_TYPE(args[0], &HeldType) || !Py_IS_TYPE(args[1], &HeldType)
        || !PyLong_Check(args[2]) || !PyList_Check(args[3]) || !PyLong_Check(args[5])) {
        PyErr_SetString(
            PyExc_TypeError, "run takes two held functions, a number, a list, anything and a number");
        return NULL;
    }
    PyObject *argv = args[3];
    Py_ssize_t keys = PyLong_AsSsize_t(args[2]), count = PyList_GET_SIZE(argv);
    if (keys < 0 || keys > count - 3) {
        PyErr_SetString(PyExc_ValueError, "there are not as many keys");
        return NULL;
    }
    for (Py_ssize_t i = 3; i < count; i++)
        if (!PyBytes_Check(PyList_GET_ITEM(argv, i))) {
            PyErr_SetString(PyExc_TypeError, "arguments are bytes");
            return NULL;
        }
    lua_State *L = gate->L;
    if (L == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this Lua is closed");
        return NULL;
    }
    if (gate->is_running) {
        PyErr_SetString(PyExc_RuntimeError, "this Lua runs a script already");
        return NULL;
    }
    Run run = {gate, ((Held *)args[0])->number, ((Held *)args[1])->number, keys, argv, NULL};
    gate->session = args[4];
    gate->open_to = (int)PyLong_AsLong(args[5]);
    gate->is_running = 1;
    int top = lua_gettop(L), status = lua_cpcall(L, run_script, &run);
    gate->is_running = 0;
    gate->session = NULL;
    if (status == LUA_ERRMEM) {
        PyErr_NoMemory();
    } else if (status != 0) {
        const char *text = lua_tolstring(L, -1, NULL);
        PyErr_Format(PyExc_RuntimeError, "%s", text != NULL ? text : "an error without a text");
    }
    lua_settop(L, top);
    return run.result;
}

static int gate_init(Gate *gate, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"lua_library", "owner", "ok", "limit_kb", NULL};
    const char *path;
    PyObject *owner, *ok;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "sOOi:Gate", names, &path, &owner, &ok, &gate->limit_kb))
        return -1;
    if (!find_lua(path)) {
        PyErr_Format(PyExc_ImportError, "%s has not all of Lua's functions", path);
        return -1;
    }
    Py_XSETREF(gate->owner, Py_NewRef(owner));
    Py_XSETREF(gate->ok, Py_NewRef(ok));
    return 0;
}

static int gate_traverse(Gate *gate, visitproc visit, void *arg)
{
    Py_VISIT(gate->owner);
    Py_VISIT(gate->reply);
    for (int i = 0; i < gate->count; i++) {
        Py_VISIT(gate->doors[i].run);
        Py_VISIT(gate->doors[i].handler);
        Py_VISIT(gate->doors[i].ended);
    }
    return 0;
}

static int gate_clear(Gate *gate)
{
    int count = gate->count;
    gate->count = 0;
    for (int i = 0; i < count; i++) {
        Py_DECREF(gate->doors[i].name);
        Py_DECREF(gate->doors[i].run);
        Py_XDECREF(gate->doors[i].handler);
        Py_XDECREF(gate->doors[i].ended);
        Py_XDECREF(gate->doors[i].tally);
    }
    Py_CLEAR(gate->ok);
    Py_CLEAR(gate->reply);
    gate->L = NULL; /* the owner kept it open until now */
    Py_CLEAR(gate->owner);
    return 0;
}

static void gate_dealloc(Gate *gate)
{
    PyObject_GC_UnTrack(gate);
    gate_clear(gate);
    PyMem_Free(gate->doors);
    PyMem_Free(gate->dropped);
    Py_TYPE(gate)->tp_free((PyObject *)gate);
}

static PyMethodDef gate_methods[] = {
    {"door", (PyCFunction)gate_door, METH_VARARGS, "The number of a new door, to a command."},
    {"take", (PyCFunction)gate_take, METH_NOARGS, "The reply that did not pass, or the exception."},
    {"held", (PyCFunction)gate_held, METH_O, "The Lua function that `hold` kept under a number."},
    {"run", (PyCFunction)(void (*)(void))gate_run, METH_FASTCALL, "Run a script."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef gate_members[] = {
    {"resp3", T_BOOL, offsetof(Gate, resp3), 0, "Whether scripts get replies in the form of RESP3."},
    {"open_to", T_INT, offsetof(Gate, open_to), 0, "Doors up to this level are open now."},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject GateType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast.scripting._gate.Gate",
    .tp_doc = "The gate between Python and one Lua state. It must outlive the scripts of that state.",
    .tp_basicsize = sizeof(Gate),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = (traverseproc)gate_traverse,
    .tp_clear = (inquiry)gate_clear,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)gate_init,
    .tp_dealloc = (destructor)gate_dealloc,
    .tp_methods = gate_methods,
    .tp_members = gate_members,
};

static PyTypeObject HeldType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast.scripting._gate.Held",
    .tp_doc = "Keeps one Lua function alive.",
    .tp_basicsize = sizeof(Held),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = (traverseproc)held_traverse,
    .tp_clear = (inquiry)held_clear,
    .tp_dealloc = (destructor)held_dealloc,
};

/* take() -> the sum of all ns, and (slot, count) of each slot that is not 0. Sets all of them to 0. */
static PyObject *tally_take(Tally *tally, PyObject *Py_UNUSED(nothing))
{
    PyObject *slots = PyList_New(0);
    for (int slot = 0; slots != NULL && slot < SLOTS && tally->ns > 0; slot++) { /* ns is mostly 0 */
        if (tally->counts[slot] == 0)
            continue;
        PyObject *item = Py_BuildValue("iI", slot, tally->counts[slot]);
        if (item == NULL || PyList_Append(slots, item) < 0)
            Py_CLEAR(slots);
        Py_XDECREF(item);
    }
    PyObject *taken = slots == NULL ? NULL : Py_BuildValue("LN", (long long)tally->ns, slots);
    if (taken != NULL) {
        tally->ns = 0;
        memset(tally->counts, 0, sizeof tally->counts);
    }
    return taken;
}

static PyMethodDef tally_methods[] = {
    {"take", (PyCFunction)tally_take, METH_NOARGS, "The counts since the last call of take."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject TallyType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast.scripting._gate.Tally",
    .tp_doc = "How often a command was called through gates, and how long it took.",
    .tp_basicsize = sizeof(Tally),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_methods = tally_methods,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_gate",
    .m_doc = "The gate between Python and LuaJIT.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__gate(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made != NULL
        && (PyModule_AddType(made, &GateType) < 0 || PyModule_AddType(made, &HeldType) < 0
            || PyModule_AddType(made, &TallyType) < 0
            || PyModule_AddIntConstant(made, "SHIFT", SHIFT) < 0
            || PyModule_AddIntConstant(made, "SLOTS", SLOTS) < 0))
        Py_CLEAR(made);
    return made;
}
