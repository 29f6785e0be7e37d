/* Graphs of operations, and their capture from streams.
 *
 * Copies, fills and launches go through `defer`: while a thread is inside a graph, they become operations of a node
 * instead of being executed. */

#ifndef RDMODEL_RECORDING_GRAPHS_H
#define RDMODEL_RECORDING_GRAPHS_H

#include "core.h"

typedef struct Node Node;
typedef struct Graph Graph;

/* Kinds of nodes, as the interfaces number them. */
enum {
  KERNEL_NODE,
  COPY_NODE,
  FILL_NODE,
  HOST_NODE,
  CHILD_NODE,
  EMPTY_NODE,
  WAIT_NODE,
  RECORD_NODE,
  ALLOCATION_NODE = 10,
  FREE_NODE,
};

typedef struct Operation {
  int kind; /* KERNEL_NODE, COPY_NODE, FILL_NODE, HOST_NODE or CHILD_NODE */
  void *to; /* of a host function: its data */
  const void *from;
  size_t bytes, element; /* of a fill: the number and the size of its elements */
  unsigned value;
  Function *function;
  unsigned shape[6], cluster[3];
  size_t shared;
  int cooperative;
  unsigned char *parameters;
  void (*callback)(void *);
  Graph *graph;
  struct Operation *next;
} Operation;

struct Node {
  int kind, done, disabled;
  Graph *graph;
  Node *origin; /* the node of which this one is a copy */
  Node **before;
  size_t befores;
  Operation *first, *last;
  Node *next;
};

struct Graph {
  Node *first, *last;
};

/* An event, and the graph into which it was captured, if any. */
typedef struct {
  double seconds;
  Graph *graph;
} Event;

#define defer rdmodel_defer
#define new_graph rdmodel_new_graph
#define new_node rdmodel_new_node
#define add_edges rdmodel_add_edges
#define drop_node rdmodel_drop_node
#define copy_graph rdmodel_copy_graph
#define copy_of_node rdmodel_copy_of_node
#define run_graph rdmodel_run_graph
#define enter_node rdmodel_enter_node
#define enter_stream rdmodel_enter_stream
#define leave_graph rdmodel_leave_graph
#define begin_capture rdmodel_begin_capture
#define end_capture rdmodel_end_capture
#define captured_graph rdmodel_captured_graph
#define record_event rdmodel_record_event
#define wait_event rdmodel_wait_event
#define host_function rdmodel_host_function
#define submit_kernel rdmodel_submit_kernel

EXPORT int defer(const Operation *operation); /* 1 if it became part of a graph */
EXPORT Graph *new_graph(void);
EXPORT Node *new_node(Graph *graph, int kind, Node *const *before, size_t befores);
EXPORT void add_edges(Node *node, Node *const *before, size_t befores);
EXPORT void drop_node(Node *node);
EXPORT Graph *copy_graph(const Graph *graph);
EXPORT Node *copy_of_node(const Graph *graph, const Node *origin);
EXPORT int run_graph(Graph *graph);
EXPORT void enter_node(Node *node); /* the next operations of this thread replace those of the node */
EXPORT void enter_stream(void *stream);
EXPORT int leave_graph(int result);
EXPORT int begin_capture(void *stream, Graph *graph);
EXPORT int end_capture(void *stream, Graph **graph);
EXPORT Graph *captured_graph(void *stream);
EXPORT void record_event(Event *event, void *stream);
EXPORT void wait_event(void *stream, const Event *event);
EXPORT int host_function(void (*callback)(void *), void *data);
EXPORT int submit_kernel(const Operation *launch); /* in core.c: launch a kernel with packed parameters */

/* Call a function for a stream: its operations are captured if the stream is. */
#define ON(stream, call) (enter_stream(stream), leave_graph(call))
/* Call a function whose operations become those of a node. */
#define INTO(node, call) (enter_node(node), leave_graph(call))

#endif
