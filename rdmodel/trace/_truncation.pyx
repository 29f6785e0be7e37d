# The system sends SIGBUS to a process that reads a mapped page behind the end of its file. Nothing can be returned to
# the code that reads, since it may be in the middle of any computation, so the handler says why and ends the process.
"""End the process with a message when a mapped file turns out to be truncated."""

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    enum { RDMODEL_MAPS = 4096, RDMODEL_NAME_BYTES = 1024 };

    #ifndef _WIN32
    #include <signal.h>
    #include <unistd.h>

    typedef struct {
        volatile uintptr_t first;    /* 0: the place is free */
        uintptr_t end;
        char name[RDMODEL_NAME_BYTES];
    } rdmodel_map;

    static rdmodel_map *rdmodel_maps = NULL;
    static volatile int rdmodel_claims_all = 0;
    static int rdmodel_installed = 0;
    static struct sigaction rdmodel_before;

    static void rdmodel_say(const char *text) {
        ssize_t written = write(2, text, strlen(text));
        (void)written;
    }

    static void rdmodel_on_bus_error(int number, siginfo_t *info, void *context) {
        uintptr_t at = (uintptr_t)info->si_addr;
        const char *name = rdmodel_claims_all ? "a mapped file" : NULL;
        int i;
        (void)context;
        if (info->si_code == BUS_ADRERR) {
            for (i = 0; i < RDMODEL_MAPS; i++)
                if (rdmodel_maps[i].first && at >= rdmodel_maps[i].first && at < rdmodel_maps[i].end)
                    name = rdmodel_maps[i].name;
            if (name != NULL) {
                rdmodel_say("rdmodel: error: ");
                rdmodel_say(name);
                rdmodel_say(": was truncated while it was read, or its disk fails\\n");
                _exit(2);
            }
        }
        /* Not ours: the former handler gets the signal, as soon as this one returns. */
        sigaction(number, &rdmodel_before, NULL);
        if (info->si_code <= 0)
            raise(number);
    }

    static int rdmodel_install(rdmodel_map *maps, int claims_all) {
        struct sigaction action;
        rdmodel_claims_all |= claims_all;
        if (rdmodel_installed)
            return 0;
        rdmodel_maps = maps;
        memset(&action, 0, sizeof action);
        action.sa_sigaction = rdmodel_on_bus_error;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        if (sigaction(SIGBUS, &action, &rdmodel_before))
            return -1;
        rdmodel_installed = 1;
        return 0;
    }

    static void rdmodel_set(int place, uintptr_t first, uintptr_t end, const char *name) {
        rdmodel_maps[place].first = 0;
        strncpy(rdmodel_maps[place].name, name, RDMODEL_NAME_BYTES - 1);
        rdmodel_maps[place].end = end;
        __sync_synchronize();
        rdmodel_maps[place].first = first;
    }

    static uintptr_t rdmodel_first(int place) { return rdmodel_maps[place].first; }
    #else
    typedef struct { int unused; } rdmodel_map;
    static int rdmodel_install(rdmodel_map *maps, int claims_all) { (void)maps; (void)claims_all; return -1; }
    static void rdmodel_set(int place, uintptr_t first, uintptr_t end, const char *name) {}
    static uintptr_t rdmodel_first(int place) { return 1; }
    #endif
    static rdmodel_map rdmodel_places[RDMODEL_MAPS];
    """
    enum: RDMODEL_MAPS
    ctypedef struct rdmodel_map:
        pass
    ctypedef unsigned long long uintptr_t
    rdmodel_map* rdmodel_places
    int rdmodel_install(rdmodel_map* maps, int claims_all)
    void rdmodel_set(int place, uintptr_t first, uintptr_t end, const char* name)
    uintptr_t rdmodel_first(int place)


def install(*, bint claims_all=False):
    """Install the handler, once; return whether it is installed.

    It handles faults in the memory that `watch` was given or, with `claims_all`, in every mapped file. All others go
    to the handler that was installed before.
    """
    return rdmodel_install(rdmodel_places, claims_all) == 0


def watch(const unsigned char[::1] memory, bytes name):
    """Name the file of some mapped memory in messages; return a number for `forget`, or -1 if there are too many.

    The handler must be installed. `memory` may not be unmapped before it is forgotten.
    """
    cdef int place
    if memory.shape[0] == 0:
        return -1
    for place in range(RDMODEL_MAPS):
        if rdmodel_first(place) == 0:
            rdmodel_set(place, <uintptr_t>&memory[0], <uintptr_t>&memory[0] + memory.shape[0], name)
            return place
    return -1


def forget(int place):
    """Forget the memory that `watch` returned this number for."""
    if 0 <= place < RDMODEL_MAPS:
        rdmodel_set(place, 0, 0, b"")
