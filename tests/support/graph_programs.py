"""A CUDA program that captures, builds, changes and launches graphs, for the kernels of `recorded_programs`."""

from __future__ import annotations

GRAPH_PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef struct { unsigned x, y, z; } dim3;
typedef struct { void *f; dim3 grid, block; unsigned shared; void **arguments, **extra; } Kernel;
typedef struct { void *to; size_t pitch; unsigned value, element; size_t width, height; } Fill;
typedef struct { void (*f)(void *); void *data; } Host;
typedef void *P;
P *__cudaRegisterFatBinary(P);
void __cudaRegisterFatBinaryEnd(P *);
void __cudaRegisterFunction(P *, const char *, char *, const char *, int, P, P, P, P, int *);
void __cudaRegisterVar(P *, char *, char *, const char *, int, size_t, int, int);
int cudaLaunchKernel(const void *, dim3, dim3, P *, size_t, P), cudaMalloc(P, size_t), cudaGetLastError(void);
int cudaMemcpy(P, const void *, size_t, int), cudaMemcpyAsync(P, const void *, size_t, int, P);
int cudaMemsetAsync(P, int, size_t, P), cudaLaunchHostFunc(P, void (*)(P), P), cudaStreamCreate(P *);
int cudaMemcpyToSymbolAsync(const void *, const void *, size_t, size_t, int, P);
int cudaEventCreate(P *), cudaEventRecord(P, P), cudaStreamWaitEvent(P, P, unsigned), cudaStreamSynchronize(P);
int cudaStreamBeginCapture(P, int), cudaStreamEndCapture(P, P *), cudaStreamIsCapturing(P, int *);
int cudaGraphCreate(P *, unsigned), cudaGraphInstantiate(P *, P, unsigned long long), cudaGraphLaunch(P, P);
int cudaGraphAddKernelNode(P *, P, P *, size_t, const Kernel *), cudaGraphAddEmptyNode(P *, P, P *, size_t);
int cudaGraphAddMemcpyNode1D(P *, P, P *, size_t, P, const void *, size_t, int);
int cudaGraphAddMemcpyNodeToSymbol(P *, P, P *, size_t, const void *, const void *, size_t, size_t, int);
int cudaGraphAddMemsetNode(P *, P, P *, size_t, const Fill *), cudaGraphAddHostNode(P *, P, P *, size_t, const Host *);
int cudaGraphAddChildGraphNode(P *, P, P *, size_t, P), cudaGraphGetNodes(P, P *, size_t *);
int cudaGraphGetRootNodes(P, P *, size_t *), cudaGraphAddDependencies(P, P *, P *, size_t);
int cudaGraphKernelNodeGetParams(P, Kernel *), cudaGraphExecKernelNodeSetParams(P, P, const Kernel *);
int cudaGraphNodeSetEnabled(P, P, unsigned), cudaGraphExecUpdate(P, P, int *), cudaGraphDestroyNode(P);
int cudaGraphExecMemcpyNodeSetParams1D(P, P, P, const void *, size_t, int), cudaGraphNodeGetType(P, int *);
int cudaMallocAsync(P, size_t, P), cudaFreeAsync(P, P), cudaFree(P), cuGraphLaunch(P, P), cuMemAlloc_v2(P, size_t);
int cuModuleLoadData(P *, const void *), cuModuleGetFunction(P *, P, const char *), cuStreamCreate(P *, unsigned);
int cuLaunchKernel(P, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, P, P *, P *);
int cuStreamBeginCapture_v2(P, int), cuStreamEndCapture(P, P *), cuStreamIsCapturing(P, int *);
int cuMemcpyDtoHAsync_v2(P, P, size_t, P), cuGraphInstantiateWithFlags(P *, P, unsigned long long);
int cuLaunchHostFunc(P, void (*)(P), P);

enum { N = 256, BYTES = 4 * N };
static struct { uint32_t magic, version; const void *data; P more; } wrapper = {0x466243b1, 1, 0, 0};
static char weight, counter;
static void order(void) {}
static void gather(void) {}
static dim3 grid = {2, 1, 1}, block = {N / 2, 1, 1};
static struct { uint64_t unused; unsigned *to; } places;
static unsigned host[N], back[N], *index_, *x, *y, n = N, three = 3, calls;
static P order_arguments[] = {&index_, &n}, gather_arguments[] = {&index_, &x, &places};
static Kernel order_node = {order, {2, 1, 1}, {N / 2, 1, 1}, 0, order_arguments, 0};
static Kernel gather_node = {gather, {2, 1, 1}, {N / 2, 1, 1}, 0, gather_arguments, 0};

static void called(P data) { ++*(unsigned *)data; }
static unsigned sum(void) {
  unsigned all = 0;
  for (int i = 0; i < N; i++) all += back[i];
  return all;
}
static void launch(P graph, P stream) {
  cudaGraphLaunch(graph, stream);
  cudaStreamSynchronize(stream);
  printf("%u %u\n", sum(), calls);
}

static void captured(void) {
  P s, t, fork, join, graph, ready;
  int capturing, inside, idle;
  size_t count = 0;
  cudaStreamCreate(&s), cudaStreamCreate(&t), cudaEventCreate(&fork), cudaEventCreate(&join);
  int refused = cudaStreamBeginCapture(0, 0);
  printf("%d %d\n", refused, cudaGetLastError());
  cudaStreamBeginCapture(s, 0);
  cudaMemcpyToSymbolAsync(&weight, &three, 4, 0, 1, s);
  cudaMemcpyAsync(x, host, BYTES, 1, s);
  cudaEventRecord(fork, s), cudaStreamWaitEvent(t, fork, 0);
  cudaStreamIsCapturing(t, &capturing);
  cudaMemsetAsync(y, 0, BYTES, t);
  cudaLaunchKernel(order, grid, block, order_arguments, 0, t);
  cudaEventRecord(join, t), cudaStreamWaitEvent(s, join, 0);
  cudaLaunchKernel(gather, grid, block, gather_arguments, 0, s);
  cudaMemcpyAsync(back, y, BYTES, 2, s);
  cudaLaunchHostFunc(s, called, &calls);
  cudaStreamEndCapture(s, &graph);
  cudaStreamIsCapturing(t, &idle);
  cudaGraphGetNodes(graph, 0, &count);
  cudaGraphInstantiate(&ready, graph, 0);
  printf("%d %d %zu %u %u\n", capturing, idle, count, sum(), calls);
  launch(ready, s);
  for (int i = 0; i < N; i++) host[i] *= 2;
  launch(ready, s);
}

static void built(void) {
  P graph, child, ready, nodes[8], made[8], whole, outer;
  size_t count = 8, roots = 0;
  int kinds[8], result;
  Fill fill = {y, BYTES, 0, 4, N, 1};
  Host call = {called, &calls};
  Kernel found;
  cudaGraphCreate(&graph, 0);
  /* The nodes are added in the opposite order of their dependencies. */
  cudaGraphAddHostNode(&nodes[6], graph, 0, 0, &call);
  cudaGraphAddMemcpyNode1D(&nodes[5], graph, 0, 0, back, y, BYTES, 2);
  cudaGraphAddKernelNode(&nodes[4], graph, 0, 0, &gather_node);
  cudaGraphAddKernelNode(&nodes[3], graph, 0, 0, &order_node);
  cudaGraphAddMemcpyNodeToSymbol(&nodes[2], graph, 0, 0, &weight, &three, 4, 0, 1);
  cudaGraphAddMemcpyNode1D(&nodes[1], graph, 0, 0, x, host, BYTES, 1);
  cudaGraphAddMemsetNode(&nodes[0], graph, 0, 0, &fill);
  cudaGraphAddDependencies(graph, nodes, nodes + 1, 6);
  cudaGraphGetNodes(graph, made, &count), cudaGraphGetRootNodes(graph, 0, &roots);
  for (int i = 0; i < 7; i++) cudaGraphNodeGetType(made[i], &kinds[i]);
  printf("%zu %zu %d %d %d %d\n", count, roots, kinds[0], kinds[1], kinds[2], kinds[6]);
  cudaGraphInstantiate(&ready, graph, 0);
  launch(ready, 0);
  /* Another length of the list changes what the executable graph gathers, but not the graph. */
  cudaGraphKernelNodeGetParams(nodes[3], &found);
  unsigned half = N / 2;
  found.arguments[1] = &half;
  cudaGraphExecKernelNodeSetParams(ready, nodes[3], &found);
  launch(ready, 0);
  cudaGraphNodeSetEnabled(ready, nodes[6], 0), cudaGraphNodeSetEnabled(ready, nodes[4], 0);
  launch(ready, 0);
  cudaGraphNodeSetEnabled(ready, nodes[4], 1), cudaGraphExecUpdate(ready, graph, &result);
  launch(ready, 0);
  cudaGraphCreate(&outer, 0);
  cudaGraphAddChildGraphNode(&child, outer, 0, 0, graph);
  cudaGraphAddChildGraphNode(&nodes[7], outer, &child, 1, graph);
  cudaGraphInstantiate(&whole, outer, 0);
  launch(whole, 0);
  cudaGraphExecUpdate(ready, outer, &result), printf("%d ", result);
  cudaGraphAddDependencies(graph, nodes + 6, nodes, 1);
  cudaGraphInstantiate(&whole, graph, 0);
  printf("%d ", cudaGraphLaunch(whole, 0));
  cudaGraphDestroyNode(nodes[6]);
  cudaGraphInstantiate(&whole, graph, 0);
  printf("%d\n", cudaGraphLaunch(whole, 0));
}

static void memory(void) {
  P s, graph, ready;
  cudaStreamCreate(&s), cudaStreamBeginCapture(s, 0);
  cudaMallocAsync(&index_, BYTES, s);
  cudaLaunchKernel(order, grid, block, order_arguments, 0, s);
  cudaMemcpyAsync(back, index_, BYTES, 2, s);
  cudaFreeAsync(index_, s);
  cudaStreamEndCapture(s, &graph), cudaGraphInstantiate(&ready, graph, 0);
  launch(ready, s);
  for (int i = 0; i < N; i++) back[i] = 0;
  printf("%d\n", cudaFree(index_));
  launch(ready, s);
}

static void driver(P image) {
  P module, function, s, graph, ready;
  int capturing;
  cuModuleLoadData(&module, image), cuModuleGetFunction(&function, module, "order");
  cuMemAlloc_v2(&index_, BYTES), cuStreamCreate(&s, 0);
  cuStreamBeginCapture_v2(s, 0);
  cuLaunchKernel(function, 2, 1, 1, N / 2, 1, 1, 0, s, order_arguments, 0);
  cuMemcpyDtoHAsync_v2(back, index_, BYTES, s), cuLaunchHostFunc(s, called, &calls);
  cuStreamIsCapturing(s, &capturing), cuStreamEndCapture(s, &graph);
  cuGraphInstantiateWithFlags(&ready, graph, 0);
  printf("%d %u %u\n", capturing, sum(), calls);
  cuGraphLaunch(ready, s), cuGraphLaunch(ready, s);
  printf("%u %u\n", sum(), calls);
}

int main(int count, char **words) {
  static char image[1 << 16];
  FILE *file = fopen(words[1], "rb");
  if (!file || !fread(image, 1, sizeof image - 1, file)) return 9;
  wrapper.data = image;
  if (!strcmp(words[2], "driver")) return driver(image), 0;
  P *handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, (char *)order, "order", "order", -1, 0, 0, 0, 0, 0);
  __cudaRegisterFunction(handle, (char *)gather, "gather", "gather", -1, 0, 0, 0, 0, 0);
  __cudaRegisterVar(handle, &weight, "weight", "weight", 0, 4, 1, 0);
  __cudaRegisterFatBinaryEnd(handle);
  cudaMalloc(&index_, BYTES), cudaMalloc(&x, BYTES), cudaMalloc(&y, BYTES);
  places.to = y;
  for (int i = 0; i < N; i++) host[i] = i;
  if (!strcmp(words[2], "captured")) captured();
  if (!strcmp(words[2], "built")) built();
  if (!strcmp(words[2], "memory")) memory();
  return 0;
}
"""
"""A program that reads the image of a module from a file, and does what its second argument says."""
