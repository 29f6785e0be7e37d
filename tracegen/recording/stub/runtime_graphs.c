/* The runtime interface, libcudart: graphs.
 *
 * A graph that is instantiated is a copy, whose nodes know the nodes that they were copied from. */

#include "graphs.h"
#include "runtime.h"

#include <stdlib.h>

enum { UPDATE_FAILED = 910 };

#define DEPENDENCIES Node *const *before, size_t befores

/* ---- graphs */

API(cudaGraphCreate, Graph **graph, unsigned flags) { return (void)flags, *graph = new_graph(), SUCCESS; }
API(cudaGraphClone, Graph **clone, const Graph *graph) { return *clone = copy_graph(graph), SUCCESS; }
API(cudaGraphNodeFindInClone, Node **node, const Node *origin, const Graph *clone) {
  return done((*node = copy_of_node(clone, origin)) ? SUCCESS : INVALID_VALUE);
}
API(cudaGraphDestroyNode, Node *node) { return drop_node(node), SUCCESS; }
NOTHING(cudaGraphDestroy) /* nodes stay, since an operation may still name a child graph */
NOTHING(cudaGraphExecDestroy)
NOTHING(cudaGraphUpload)
NOTHING(cudaGraphDebugDotPrint)
NOTHING(cudaGraphKernelNodeCopyAttributes)
NOTHING(cudaGraphKernelNodeSetAttribute)
NOTHING(cudaDeviceGraphMemTrim)

API(cudaGraphInstantiate, Graph **executable, const Graph *graph) { return *executable = copy_graph(graph), SUCCESS; }
SAME(cudaGraphInstantiate, cudaGraphInstantiateWithFlags)
SAME(cudaGraphInstantiate, cudaGraphInstantiateWithParams)

API(cudaGraphLaunch, Graph *executable, void *stream) {
  if (!captured_graph(stream)) return done(run_graph(executable));
  return done(ON(stream, defer(&(Operation){.kind = CHILD_NODE, .graph = executable}) ? SUCCESS : INVALID_VALUE));
}
SAME(cudaGraphLaunch, cudaGraphLaunch_ptsz)

#if CUDART_MAJOR < 12
API(cudaGraphExecUpdate, Graph *executable, const Graph *graph, Node **node, int *result) {
  *node = NULL;
#else
API(cudaGraphExecUpdate, Graph *executable, const Graph *graph, int *result) {
#endif
  const Node *from = graph->first;
  Node *to = executable->first;
  for (; from && to && from->kind == to->kind; from = from->next, to = to->next)
    to->first = from->first, to->last = from->last;
  *result = from || to ? 2 : 0; /* the topology changed */
  return done(*result ? UPDATE_FAILED : SUCCESS);
}

API(cudaGraphNodeGetType, const Node *node, int *kind) { return *kind = node->kind, SUCCESS; }

static int list_nodes(const Graph *graph, const Node **nodes, size_t *count, int roots) {
  size_t found = 0;
  for (const Node *node = graph->first; node; node = node->next) {
    if (roots && node->befores) continue;
    if (nodes && found < *count) nodes[found] = node;
    found++;
  }
  if (!nodes || found < *count) *count = found;
  return SUCCESS;
}

API(cudaGraphGetNodes, const Graph *graph, const Node **nodes, size_t *count) {
  return list_nodes(graph, nodes, count, 0);
}
API(cudaGraphGetRootNodes, const Graph *graph, const Node **nodes, size_t *count) {
  return list_nodes(graph, nodes, count, 1);
}

static int add_dependencies(Node *const *from, Node *const *to, size_t count) {
  for (size_t at = 0; at < count; at++) add_edges(to[at], &from[at], 1);
  return SUCCESS;
}

API(cudaGraphAddDependencies_v2, Graph *graph, Node *const *from, Node *const *to, const void *edges, size_t count) {
  return (void)graph, (void)edges, add_dependencies(from, to, count);
}
#if CUDART_MAJOR < 13
API(cudaGraphAddDependencies, Graph *graph, Node *const *from, Node *const *to, size_t count) {
  return (void)graph, add_dependencies(from, to, count);
}
#else
SAME(cudaGraphAddDependencies_v2, cudaGraphAddDependencies)
#endif

/* The node of an executable graph that was copied from a node; its changes do not reach the graph itself. */
static int update(Graph *executable, const Node *origin, Node **node) {
  return (*node = copy_of_node(executable, origin)) ? SUCCESS : INVALID_VALUE;
}

API(cudaGraphNodeSetEnabled, Graph *executable, const Node *origin, unsigned enabled) {
  Node *node;
  if (update(executable, origin, &node)) return done(INVALID_VALUE);
  node->disabled = !enabled;
  return SUCCESS;
}
API(cudaGraphNodeGetEnabled, Graph *executable, const Node *origin, unsigned *enabled) {
  Node *node;
  if (update(executable, origin, &node)) return done(INVALID_VALUE);
  return *enabled = !node->disabled, SUCCESS;
}

/* ---- nodes: for each kind, its parameters, and three functions that set them */

#define NODE_FUNCTIONS(Name, kind, Parameters, operations)                                              \
  API(cudaGraphAdd##Name##Node, Node **node, Graph *graph, DEPENDENCIES, const Parameters *parameters) { \
    *node = new_node(graph, kind, before, befores);                                                     \
    return done(INTO(*node, operations(parameters)));                                                   \
  }                                                                                                     \
  API(cudaGraph##Name##NodeSetParams, Node *node, const Parameters *parameters) {                       \
    return done(INTO(node, operations(parameters)));                                                    \
  }                                                                                                     \
  API(cudaGraphExec##Name##NodeSetParams, Graph *executable, const Node *origin, const Parameters *parameters) { \
    Node *node;                                                                                         \
    if (update(executable, origin, &node)) return done(INVALID_VALUE);                                  \
    return done(INTO(node, operations(parameters)));                                                    \
  }

typedef struct {
  const void *function;
  dim3 grid, block;
  unsigned shared;
  void **arguments, **extra;
} KernelParameters;

static int launch_operation(const KernelParameters *p) {
  if (!p->arguments && p->extra) not_provided("cudaGraphAddKernelNode (with packed parameters)");
  return launch(p->function, p->grid, p->block, p->arguments, p->shared, 0, NULL);
}

typedef struct {
  void *to;
  size_t pitch;
  unsigned value, element;
  size_t width, height;
} FillParameters;

static int fill_operations(const FillParameters *p) {
  return fill_rows(p->to, p->pitch, p->value, p->element, p->width, p->height);
}

typedef struct {
  void (*callback)(void *);
  void *data;
} HostParameters;

static int host_operation(const HostParameters *p) { return host_function(p->callback, p->data); }

NODE_FUNCTIONS(Kernel, KERNEL_NODE, KernelParameters, launch_operation)
NODE_FUNCTIONS(Memcpy, COPY_NODE, Copy3D, copy_box)
NODE_FUNCTIONS(Memset, FILL_NODE, FillParameters, fill_operations)
NODE_FUNCTIONS(Host, HOST_NODE, HostParameters, host_operation)

/* The parameters are those of the launch that the node holds; pointers to them stay valid with the node. */
API(cudaGraphKernelNodeGetParams, const Node *node, KernelParameters *found) {
  const Operation *at = node->first;
  if (!at || at->kind != KERNEL_NODE) return done(INVALID_VALUE);
  const Function *function = at->function;
  *found = (KernelParameters){function->host ? function->host : function,
                              {at->shape[0], at->shape[1], at->shape[2]},
                              {at->shape[3], at->shape[4], at->shape[5]},
                              (unsigned)at->shared,
                              calloc(function->parameters + 1, sizeof(void *)),
                              NULL};
  for (int n = 0; n < function->parameters; n++) found->arguments[n] = at->parameters + function->offsets[n];
  return SUCCESS;
}

#define COPY_FUNCTIONS(Suffix, call, ...)                                                                       \
  API(cudaGraphAddMemcpyNode##Suffix, Node **node, Graph *graph, DEPENDENCIES, __VA_ARGS__, int kind) {          \
    *node = new_node(graph, COPY_NODE, before, befores);                                                        \
    return INTO(*node, call);                                                                                   \
  }                                                                                                             \
  API(cudaGraphMemcpyNodeSetParams##Suffix, Node *node, __VA_ARGS__, int kind) { return INTO(node, call); }      \
  API(cudaGraphExecMemcpyNodeSetParams##Suffix, Graph *executable, const Node *origin, __VA_ARGS__, int kind) { \
    Node *node;                                                                                                 \
    if (update(executable, origin, &node)) return done(INVALID_VALUE);                                          \
    return INTO(node, call);                                                                                    \
  }

COPY_FUNCTIONS(1D, ((void)kind, done(copy_memory(to, from, bytes))), void *to, const void *from, size_t bytes)
COPY_FUNCTIONS(ToSymbol, cudaMemcpyToSymbol(symbol, from, bytes, offset, kind), const void *symbol, const void *from,
               size_t bytes, size_t offset)
COPY_FUNCTIONS(FromSymbol, cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind), void *to, const void *symbol,
               size_t bytes, size_t offset)

API(cudaGraphAddEmptyNode, Node **node, Graph *graph, DEPENDENCIES) {
  return *node = new_node(graph, EMPTY_NODE, before, befores), SUCCESS;
}
API(cudaGraphAddEventRecordNode, Node **node, Graph *graph, DEPENDENCIES, void *event) {
  return (void)event, *node = new_node(graph, RECORD_NODE, before, befores), SUCCESS;
}
API(cudaGraphAddEventWaitNode, Node **node, Graph *graph, DEPENDENCIES, void *event) {
  return (void)event, *node = new_node(graph, WAIT_NODE, before, befores), SUCCESS;
}

static int child_operation(Graph *child) {
  return defer(&(Operation){.kind = CHILD_NODE, .graph = child}) ? SUCCESS : INVALID_VALUE;
}

API(cudaGraphAddChildGraphNode, Node **node, Graph *graph, DEPENDENCIES, const Graph *child) {
  *node = new_node(graph, CHILD_NODE, before, befores);
  return done(INTO(*node, child_operation(copy_graph(child))));
}
API(cudaGraphExecChildGraphNodeSetParams, Graph *executable, const Node *origin, const Graph *child) {
  Node *node;
  if (update(executable, origin, &node)) return done(INVALID_VALUE);
  return done(INTO(node, child_operation(copy_graph(child))));
}
API(cudaGraphChildGraphNodeGetGraph, const Node *node, Graph **child) {
  if (node->kind != CHILD_NODE || !node->first) return done(INVALID_VALUE);
  return *child = node->first->graph, SUCCESS;
}

/* Memory of a graph is allocated once, and stays, since later launches use the same addresses. */
typedef struct {
  char pool[88];
  void *access;
  size_t accesses, bytes;
  void *pointer;
} AllocationParameters;

API(cudaGraphAddMemAllocNode, Node **node, Graph *graph, DEPENDENCIES, AllocationParameters *parameters) {
  *node = new_node(graph, ALLOCATION_NODE, before, befores);
  int result = allocate(&parameters->pointer, parameters->bytes, DEVICE_MEMORY);
  return done(result ? result : keep_memory(parameters->pointer));
}
API(cudaGraphAddMemFreeNode, Node **node, Graph *graph, DEPENDENCIES, void *pointer) {
  return (void)pointer, *node = new_node(graph, FREE_NODE, before, befores), SUCCESS;
}
