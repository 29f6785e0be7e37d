/* What an input has reached: edges of compiled code and of Python lines, counted in one map.
 *
 * Compiled modules that are built with -fsanitize-coverage=trace-pc report every basic block (entry.c); a trace
 * function of Python reports every line of the files that are of interest. An edge is a pair of blocks, or of lines,
 * that follow each other; counts go into buckets, as in AFL (Zalewski, technical details of american fuzzy lop). */
#include <Python.h>
#include <frameobject.h>
#include <stdint.h>
#include <string.h>

#define HALF (1u << 16)
#define CODES (1u << 13)
#define PATHS 16

uint8_t feedback_hits[2 * HALF];
uint32_t feedback_last;
static uint8_t seen[2 * HALF];
static uint32_t last_line;

static struct {
    PyCodeObject *code;
    uint32_t id; /* 0: a file that is of no interest */
} codes[CODES];
static uint32_t known;
static const char *paths[PATHS];
static int path_count;

static uint32_t mixed(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* ---- Lines of Python */

static uint32_t id_of_text(PyCodeObject *code) {
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    uint32_t id = 2166136261u;
    int i;
    if (file == NULL) {
        PyErr_Clear();
        return 0;
    }
    for (i = 0; i < path_count; i++) {
        const char *found = strstr(file, paths[i]);
        if (found == NULL)
            continue;
        for (; *found; found++)
            id = (id ^ (uint8_t)*found) * 16777619u;
        return id | 1;
    }
    return 0;
}

static uint32_t id_of(PyCodeObject *code) {
    uint32_t at = mixed((uint32_t)((uintptr_t)code >> 4)) % CODES;
    while (codes[at].code != NULL && codes[at].code != code)
        at = (at + 1) % CODES;
    if (codes[at].code == NULL) {
        if (known >= CODES / 2)
            return 0;
        known++;
        Py_INCREF(code); /* nothing else may get its address */
        codes[at].code = code;
        codes[at].id = id_of_text(code);
    }
    return codes[at].id;
}

static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *argument) {
    if (what == PyTrace_LINE) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        uint32_t id = id_of(code), line, at;
        if (id) {
            line = mixed(id + (uint32_t)PyFrame_GetLineNumber(frame) * 2654435761u);
            at = HALF + ((line ^ last_line) & (HALF - 1));
            if (feedback_hits[at] != 255)
                feedback_hits[at]++;
            last_line = line >> 1;
        }
        Py_DECREF(code);
    }
    return 0;
}

/* Name a part of the paths of the files whose lines are of interest; the text must stay. */
void feedback_watch(const char *path) {
    if (path_count < PATHS)
        paths[path_count++] = path;
}

/* Begin and end an input; both need the GIL. */
void feedback_begin(int lines) {
    feedback_last = last_line = 0;
    if (lines)
        PyEval_SetTrace(on_event, NULL);
}

void feedback_end(void) { PyEval_SetTrace(NULL, NULL); }

/* ---- The map */

static uint8_t bucket(uint8_t count) {
    if (count < 4)
        return (uint8_t)(1 << (count - 1));
    return count < 8 ? 8 : count < 16 ? 16 : count < 32 ? 32 : count < 128 ? 64 : 128;
}

/* Forget the counts of an input; return how many edges, or buckets of their counts, were new. */
int feedback_take(void) {
    int fresh = 0;
    uint32_t i, k;
    for (i = 0; i < 2 * HALF; i += 8) {
        uint64_t eight;
        memcpy(&eight, feedback_hits + i, 8);
        if (!eight)
            continue;
        for (k = i; k < i + 8; k++)
            if (feedback_hits[k]) {
                uint8_t bit = bucket(feedback_hits[k]);
                if (!(seen[k] & bit)) {
                    seen[k] |= bit;
                    fresh++;
                }
                feedback_hits[k] = 0;
            }
    }
    return fresh;
}

/* Forget everything: what modules did while they were imported is no input's. */
void feedback_clear(void) {
    memset(feedback_hits, 0, sizeof feedback_hits);
    memset(seen, 0, sizeof seen);
}

/* Return how many edges have ever been seen: of compiled code (0), of lines (1). */
int feedback_edges(int half) {
    int n = 0;
    uint32_t i;
    for (i = half * HALF; i < (half + 1) * HALF; i++)
        n += seen[i] != 0;
    return n;
}
