/* Graphs of operations: their nodes, their execution, and their capture from streams. */

#include "graphs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread Graph *inside;    /* the graph that operations of this thread are added to */
static __thread Node *inside_node; /* the node; NULL: the first operation makes one */

/* ---- nodes */

Graph *new_graph(void) { return calloc(1, sizeof(Graph)); }

Node *new_node(Graph *graph, int kind, Node *const *before, size_t befores) {
  Node *node = calloc(1, sizeof *node);
  node->kind = kind, node->graph = graph;
  add_edges(node, before, befores);
  pthread_mutex_lock(&lock);
  if (graph->last)
    graph->last->next = node;
  else
    graph->first = node;
  graph->last = node;
  pthread_mutex_unlock(&lock);
  return node;
}

void add_edges(Node *node, Node *const *before, size_t befores) {
  if (!befores) return;
  node->before = realloc(node->before, (node->befores + befores) * sizeof *before);
  memcpy(node->before + node->befores, before, befores * sizeof *before);
  node->befores += befores;
}

void drop_node(Node *node) {
  Graph *graph = node->graph;
  Node *last = NULL;
  for (Node **at = &graph->first; *at;) {
    if (*at == node) {
      *at = node->next;
      continue;
    }
    for (size_t n = 0; n < (*at)->befores; n++)
      if ((*at)->before[n] == node) (*at)->before[n] = (*at)->before[--(*at)->befores];
    last = *at;
    at = &(*at)->next;
  }
  graph->last = last;
}

int defer(const Operation *operation) {
  if (!inside) return 0;
  if (!inside_node) inside_node = new_node(inside, operation->kind, NULL, 0);
  Operation *added = malloc(sizeof *added);
  *added = *operation;
  added->next = NULL;
  if (inside_node->last)
    inside_node->last->next = added;
  else
    inside_node->first = added;
  inside_node->last = added;
  return 1;
}

void enter_node(Node *node) {
  node->first = node->last = NULL;
  inside = node->graph, inside_node = node;
}

void enter_stream(void *stream) { inside = captured_graph(stream), inside_node = NULL; }

int leave_graph(int result) {
  inside = NULL, inside_node = NULL;
  return result;
}

/* ---- copies and execution */

Node *copy_of_node(const Graph *graph, const Node *origin) {
  for (Node *node = graph->first; node; node = node->next)
    if (node->origin == origin) return node;
  return NULL;
}

Graph *copy_graph(const Graph *graph) {
  Graph *copy = new_graph();
  for (Node *node = graph->first; node; node = node->next) {
    Node *made = new_node(copy, node->kind, NULL, 0);
    made->origin = node, made->disabled = node->disabled;
    made->first = node->first, made->last = node->last; /* operations are replaced, but never changed */
  }
  for (Node *node = graph->first; node; node = node->next)
    for (size_t n = 0; n < node->befores; n++) {
      Node *before = copy_of_node(copy, node->before[n]);
      if (before) add_edges(copy_of_node(copy, node), &before, 1);
    }
  return copy;
}

static int run_operation(const Operation *operation) {
  switch (operation->kind) {
    case KERNEL_NODE:
      return submit_kernel(operation);
    case COPY_NODE:
      return copy_memory(operation->to, operation->from, operation->bytes);
    case FILL_NODE:
      return fill_memory(operation->to, operation->value, operation->element, operation->bytes);
    case HOST_NODE:
      return host_function(operation->callback, operation->to);
    default:
      return run_graph(operation->graph);
  }
}

static int is_ready(const Node *node) {
  for (size_t n = 0; n < node->befores; n++)
    if (!node->before[n]->done) return 0;
  return 1;
}

/* Run all nodes, each after those before it, and otherwise in the order in which they were added. */
int run_graph(Graph *graph) {
  int left = 0;
  for (Node *node = graph->first; node; node = node->next) node->done = 0, left++;
  while (left) {
    Node *node = graph->first;
    while (node && (node->done || !is_ready(node))) node = node->next;
    if (!node) return INVALID_VALUE; /* a circle */
    /* Go on behind this node; an earlier one may be ready only now, and is found by the next turn. */
    for (; node; node = node->next) {
      if (node->done || !is_ready(node)) continue;
      for (Operation *at = node->disabled ? NULL : node->first; at; at = at->next) {
        int result = run_operation(at);
        if (result) return result;
      }
      node->done = 1, left--;
    }
  }
  return SUCCESS;
}

int host_function(void (*callback)(void *), void *data) {
  if (defer(&(Operation){.kind = HOST_NODE, .callback = callback, .to = data})) return SUCCESS;
  int result = flush();
  if (!result) callback(data);
  return result;
}

/* ---- capture */

typedef struct Capture {
  void *stream;
  Graph *graph;
  struct Capture *next;
} Capture;

static Capture *captures;

Graph *captured_graph(void *stream) {
  Graph *graph = NULL;
  if (!captures) return NULL;
  pthread_mutex_lock(&lock);
  for (Capture *at = captures; at && !graph; at = at->next)
    if (at->stream == stream) graph = at->graph;
  pthread_mutex_unlock(&lock);
  return graph;
}

int begin_capture(void *stream, Graph *graph) {
  if (!stream || captured_graph(stream)) return INVALID_VALUE; /* the default stream cannot be captured */
  Capture *capture = malloc(sizeof *capture);
  pthread_mutex_lock(&lock);
  *capture = (Capture){stream, graph ? graph : new_graph(), captures};
  captures = capture;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

/* End the capture of a stream, and of all streams that have joined it. */
int end_capture(void *stream, Graph **graph) {
  *graph = captured_graph(stream);
  if (!*graph) return INVALID_VALUE;
  pthread_mutex_lock(&lock);
  for (Capture **at = &captures; *at;)
    if ((*at)->graph == *graph)
      *at = (*at)->next;
    else
      at = &(*at)->next;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

void record_event(Event *event, void *stream) {
  event->graph = captured_graph(stream);
  if (!event->graph) event->seconds = seconds_now();
}

/* A stream that waits for a captured event joins its capture. */
void wait_event(void *stream, const Event *event) {
  if (event && event->graph && !captured_graph(stream)) {
    int open = 0;
    pthread_mutex_lock(&lock);
    for (Capture *at = captures; at; at = at->next) open |= at->graph == event->graph;
    pthread_mutex_unlock(&lock);
    if (open) begin_capture(stream, event->graph);
  }
}
