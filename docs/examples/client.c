/* Ask `rdmodel serve` for the block shape with the fewest L1 misses, with C11 and POSIX only.
 *
 *     cc -std=c11 -Wall -Wextra -o client client.c
 *     ./client rdmodel serve
 *
 * The arguments are the command of the service. The exit status is 0, or 1 with a message on stderr.
 */
#define _POSIX_C_SOURCE 200809L

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* The kernel sums the rows of a matrix; each thread reads one row. */
static const char REQUEST[] =
    "{\"id\": 1, \"op\": \"rank\", \"objective\": \"misses\", \"gpu\": \"gtx470-16k\","
    " \"tiles\": {\"block\": [[64, 1], [128, 1], [256, 1]]},"
    " \"kernel\": {\"name\": \"rows\", \"parameters\": {\"N\": 512},"
    "  \"arrays\": {\"A\": [\"N\", \"N\"], \"sum\": [\"N\"]}, \"threads\": [\"N\"], \"block\": [256],"
    "  \"body\": [{\"if\": \"x < N\", \"do\": ["
    "   {\"for\": \"j\", \"to\": \"N\", \"do\": [{\"load\": \"A\", \"at\": [\"x\", \"j\"]}]},"
    "   {\"store\": \"sum\", \"at\": \"x\"}]}]}}\n";

struct service {
    pid_t pid;
    int in;        /* requests go here */
    int out;       /* answers come from here */
    char *held;    /* bytes that were read and not returned yet */
    size_t length; /* number of these bytes */
    size_t room;   /* size of the buffer in bytes */
};

static void fail(const char *what)
{
    fprintf(stderr, "client: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static struct service start(char **command)
{
    struct service service = {0};
    int requests[2], answers[2];
    if (pipe(requests) < 0 || pipe(answers) < 0)
        fail("pipe");
    service.pid = fork();
    if (service.pid < 0)
        fail("fork");
    if (service.pid == 0) {
        if (dup2(requests[0], STDIN_FILENO) < 0 || dup2(answers[1], STDOUT_FILENO) < 0)
            fail("dup2");
        close(requests[0]);
        close(requests[1]);
        close(answers[0]);
        close(answers[1]);
        execvp(command[0], command);
        fail(command[0]);
    }
    /* The service sees the end of its input only when no other process has the pipe open. */
    close(requests[0]);
    close(answers[1]);
    service.in = requests[1];
    service.out = answers[0];
    return service;
}

/* Write the whole text: one write to a pipe may take only a part of it. */
static void send_text(struct service *service, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t written = write(service->in, text, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            fail("write");
        text += written;
        left -= (size_t)written;
    }
}

/* Return the next line without its end, or NULL at the end of the answers; the caller frees it. One read may return a
 * part of a line or several lines: bytes after the line are stored for the next call. */
static char *receive_line(struct service *service)
{
    for (size_t seen = 0;;) {
        char *end = service->length > seen ? memchr(service->held + seen, '\n', service->length - seen) : NULL;
        if (end != NULL) {
            size_t length = (size_t)(end - service->held);
            char *line = malloc(length + 1);
            if (line == NULL)
                fail("malloc");
            memcpy(line, service->held, length);
            line[length] = '\0';
            service->length -= length + 1;
            memmove(service->held, end + 1, service->length);
            return line;
        }
        seen = service->length;
        if (service->length == service->room) {
            service->room = service->room ? 2 * service->room : 4096;
            service->held = realloc(service->held, service->room);
            if (service->held == NULL)
                fail("realloc");
        }
        ssize_t got = read(service->out, service->held + service->length, service->room - service->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            fail("read");
        if (got == 0)
            return NULL;
        service->length += (size_t)got;
    }
}

/* Return a pointer to the value of the first member with this name, or NULL. This suffices for names that do not occur
 * in the texts of the answer; a compiler would use a JSON parser. */
static const char *member(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strchr(text, '"'); at != NULL; at = strchr(at + 1, '"')) {
        if (strncmp(at + 1, name, length) == 0 && at[length + 1] == '"' && at[length + 2] == ':') {
            at += length + 3;
            while (isspace((unsigned char)*at))
                at++;
            return at;
        }
    }
    return NULL;
}

static int stop(struct service *service)
{
    int status;
    close(service->in);
    close(service->out);
    free(service->held);
    while (waitpid(service->pid, &status, 0) < 0)
        if (errno != EINTR)
            fail("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "client: the command of the service is missing: client rdmodel serve\n");
        return EXIT_FAILURE;
    }
    /* If the service is gone, write fails with EPIPE instead of ending this program. */
    signal(SIGPIPE, SIG_IGN);
    struct service service = start(argv + 1);
    send_text(&service, REQUEST);
    char *answer = receive_line(&service);
    if (answer == NULL) {
        fprintf(stderr, "client: the service ended without an answer\n");
        stop(&service);
        return EXIT_FAILURE;
    }
    int done = EXIT_FAILURE;
    const char *error = member(answer, "error");
    const char *block = member(answer, "block");
    const char *value = member(answer, "value");
    long x, y;
    if (error != NULL)
        fprintf(stderr, "client: %s\n", error);
    else if (block == NULL || value == NULL || sscanf(block, "[%ld,%ld]", &x, &y) != 2)
        fprintf(stderr, "client: this is no ranking: %.200s\n", answer);
    else {
        printf("best block: %ld x %ld, %.0f misses\n", x, y, strtod(value, NULL));
        done = EXIT_SUCCESS;
    }
    free(answer);
    return stop(&service) == EXIT_SUCCESS ? done : EXIT_FAILURE;
}
