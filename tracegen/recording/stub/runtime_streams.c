/* The runtime interface, libcudart: streams, events and the capture of streams. */

#include "graphs.h"
#include "runtime.h"

#include <stdlib.h>

API(cudaStreamCreate, void **stream) { return *stream = new_handle(), SUCCESS; }
API(cudaStreamCreateWithFlags, void **stream, unsigned flags) { return (void)flags, *stream = new_handle(), SUCCESS; }
API(cudaStreamCreateWithPriority, void **stream, unsigned flags, int priority) {
  return (void)flags, (void)priority, *stream = new_handle(), SUCCESS;
}
API(cudaStreamSynchronize, void *stream) { return (void)stream, done(synchronize()); }
SAME(cudaStreamSynchronize, cudaStreamSynchronize_ptsz)
SAME(cudaStreamSynchronize, cudaStreamQuery)
SAME(cudaStreamSynchronize, cudaEventSynchronize)
SAME(cudaStreamSynchronize, cudaEventQuery)
API(cudaStreamGetFlags, void *stream, unsigned *flags) { return (void)stream, *flags = 0, SUCCESS; }
API(cudaStreamGetPriority, void *stream, int *priority) { return (void)stream, *priority = 0, SUCCESS; }
API(cudaStreamWaitEvent, void *stream, const Event *event, unsigned flags) {
  return (void)flags, wait_event(stream, event), SUCCESS;
}
SAME(cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz)
NOTHING(cudaStreamDestroy)
NOTHING(cudaStreamAttachMemAsync)
NOTHING(cudaStreamSetAttribute)

API(cudaEventCreate, Event **event) { return *event = calloc(1, sizeof **event), SUCCESS; }
API(cudaEventCreateWithFlags, Event **event, unsigned flags) { return (void)flags, cudaEventCreate(event); }
API(cudaEventRecord, Event *event, void *stream) { return record_event(event, stream), SUCCESS; }
SAME(cudaEventRecord, cudaEventRecord_ptsz)
API(cudaEventRecordWithFlags, Event *event, void *stream, unsigned flags) {
  return (void)flags, cudaEventRecord(event, stream);
}
API(cudaEventElapsedTime, float *milliseconds, const Event *start, const Event *end) {
  return *milliseconds = (float)(1000 * (end->seconds - start->seconds)) + 1e-6f, SUCCESS;
}
SAME(cudaEventElapsedTime, cudaEventElapsedTime_v2)
API(cudaEventDestroy, Event *event) { return free(event), SUCCESS; }

API(cudaLaunchHostFunc, void *stream, void (*function)(void *), void *data) {
  return done(ON(stream, host_function(function, data)));
}
SAME(cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz)

API(cudaStreamAddCallback, void *stream, void (*function)(void *, int, void *), void *data, unsigned flags) {
  (void)flags;
  int result = flush();
  if (!result) function(stream, SUCCESS, data);
  return done(result);
}

/* ---- capture */

API(cudaStreamBeginCapture, void *stream, int mode) { return (void)mode, done(begin_capture(stream, NULL)); }
SAME(cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz)
API(cudaStreamBeginCaptureToGraph, void *stream, Graph *graph, Node *const *before, const void *edges, size_t befores,
    int mode) {
  return (void)before, (void)edges, (void)befores, (void)mode, done(begin_capture(stream, graph));
}
API(cudaStreamEndCapture, void *stream, Graph **graph) { return done(end_capture(stream, graph)); }
SAME(cudaStreamEndCapture, cudaStreamEndCapture_ptsz)
API(cudaStreamIsCapturing, void *stream, int *status) { return *status = captured_graph(stream) != NULL, SUCCESS; }
SAME(cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz)

API(cudaStreamGetCaptureInfo_v2, void *stream, int *status, unsigned long long *id, Graph **graph, Node *const **before,
    size_t *befores) {
  Graph *found = captured_graph(stream);
  *status = found != NULL;
  if (id) *id = (uintptr_t)found;
  if (graph) *graph = found;
  if (before) *before = found ? &found->last : NULL;
  if (befores) *befores = found && found->last;
  return SUCCESS;
}

API(cudaStreamGetCaptureInfo_v3, void *stream, int *status, unsigned long long *id, Graph **graph, Node *const **before,
    const void **edges, size_t *befores) {
  if (edges) *edges = NULL;
  return cudaStreamGetCaptureInfo_v2(stream, status, id, graph, before, befores);
}

#if CUDART_MAJOR < 13
API(cudaStreamGetCaptureInfo, void *stream, int *status, unsigned long long *id) {
  return cudaStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}
#else
SAME(cudaStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo)
#endif

API(cudaThreadExchangeStreamCaptureMode, int *mode) { return *mode = 0, SUCCESS; }
