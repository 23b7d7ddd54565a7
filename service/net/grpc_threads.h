// The threads of gRPC, started before a server listens.
//
// gRPC 1.51 starts threads of its executor when work waits. It does not look whether one has
// started: where memory or the number of threads is bounded, work goes to a thread that is not
// there, and its call never ends. A process that has them all at the start cannot meet that.
#ifndef RECOLLECT_SERVICE_NET_GRPC_THREADS_H_
#define RECOLLECT_SERVICE_NET_GRPC_THREADS_H_

namespace recollect::service {

// Starts all threads that the executor of gRPC may have, two for each CPU, and returns when they
// are there. Call it once a server is built, since gRPC ends them with the last object of its own,
// before that server takes connections, and outside gRPC's callbacks.
void StartGrpcThreads();

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_NET_GRPC_THREADS_H_
