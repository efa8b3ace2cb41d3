/* What the double's files have in common.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_INSIDE_HPP
#define FF_DOUBLE_INSIDE_HPP

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

#include "double.h"

namespace twin
{

using Lock = std::unique_lock<std::mutex>;

/* ---- device.cpp ---- */

extern std::mutex mutex; /* held while anything of the double is looked at */
extern std::condition_variable changed;
extern thread_local bool in_host_function;

/* Says what is wrong on stderr; returns `code`. */
cudaError_t complain(cudaError_t code, const char *format, ...)
		__attribute__((format(printf, 2, 3)));
/* What the device ran into: every call to come returns it. */
cudaError_t fail(cudaError_t code);
cudaError_t failure();
uint32_t draw(uint32_t n); /* below n; 0 where nothing is drawn */
bool drawn();              /* whether anything is */
int device();              /* the calling thread's */
/* Whether kernels of `device` may touch memory of the other. */
bool reaches(int device, int other);
double clock_ms();
/* What events keep: the host's clock, or, with FF_DOUBLE_STEADY, what devices were given to do. */
double device_ms();
void spend(uint64_t n);
/* What cudaGetLastError returns. */
cudaError_t noted(cudaError_t code);

/* Whether the libraries are to have nothing of the kind: FF_DOUBLE_LACKS names it. */
bool lacks(const char *what);

/* plant.cpp: whether this call is the one that is to be wrong so. */
bool planted(const char *what);

/* Whether what devices are given is counted, and not done. */
bool counting();

/* Counts a question to heuristics. */
void asked();

/* An API call: holds the lock, closes device memory at its end.  `code` is what the call
 * returns at once unless it is cudaSuccess. */
struct Call {
	Lock lock;
	cudaError_t code;
	explicit Call(const char *name);
	~Call();
};
/* The beginning of one: `c`, or its end. */
#define CALL(name)                                                                                 \
	Call c(name);                                                                              \
                                                                                                   \
	if (c.code != cudaSuccess)                                                                 \
	return c.code

/* ---- memory.cpp ---- */

/* Opens device memory to this process, or closes it. */
void gate(bool open);
bool gate_is_open();
enum Side { DEVICE, PINNED, PAGEABLE };
Side side_of(const void *p);
/* Whether `bytes` from `p` on are one live piece of device or pinned memory. */
bool reachable(const char *what, const void *p, size_t bytes);
/* Of a kernel's argument: fails for what points to memory of the host alone. */
bool argument(const void *p);
/* Runs `fn` with device memory open; faults of it in there are failures. */
cudaError_t guarded(const char *what, const std::function<cudaError_t()> &fn);
void forget_memory();
void free_first(); /* the oldest piece, as a fault */

/* ---- stream.cpp ---- */

/* A place in a stream that others may wait for. */
struct Moment {
	CUstream_st *stream;
	uint64_t number; /* happened when the stream has done so many */
	bool done;
	double ms;
};

/* A part of something that other streams or processes take part in. */
struct Joint {
	virtual ~Joint() = default;
	virtual cudaError_t meet(Lock &lock) = 0; /* returns when it is done */
	/* Of one that was captured: one that is met in the stream's operation `number`. */
	virtual std::shared_ptr<Joint> again(CUstream_st *stream, uint64_t number) = 0;
	virtual bool ready() = 0; /* whether that is at once, as far as is known */
	virtual bool apart() = 0; /* whether other processes take part */
};

struct Walk; /* graph.hpp: a graph on its way */

struct Op {
	std::string what;
	std::function<cudaError_t(Lock &)> run; /* of a host function: without the lock */
	enum { WORK, HOST, GRAPH } kind = WORK;
	std::shared_ptr<Moment> waits, sets;
	std::shared_ptr<Joint> joint;
	std::shared_ptr<Walk> walk; /* GRAPH */
};

struct Capture;

} // namespace twin

struct CUstream_st {
	int device;
	bool plain; /* not cudaStreamNonBlocking: legacy calls wait for it */
	bool gone;  /* destroyed with work in it */
	std::deque<twin::Op> queue;
	uint64_t done, issued;
	bool busy;
	std::thread::id worker;
	std::shared_ptr<twin::Capture> capture;
	std::set<size_t> frontier; /* in a capture: what comes next waits for these */
};

namespace twin
{

/* Puts work into a stream, or into the graph that is being captured there. */
cudaError_t enqueue(cudaStream_t stream, Op op);
/* Work alone, on memory. */
cudaError_t enqueue(cudaStream_t stream, const char *what, std::function<cudaError_t()> run);
bool known(cudaStream_t stream);
bool hangs(int device);
/* Now and then something runs before anybody waits. */
void hurry(Lock &lock);
/* While one stream waits for another process the others go on, as that may wait for them: with
 * one operation; false: there was none. */
bool go_on_beside(const CUstream_st *waiting, Lock &lock);
/* Runs all streams (`legacy`: those that the legacy stream waits for), in any order. */
void force_all(bool legacy, Lock &lock);
/* Another one of the device, for faults; itself if there is none. */
cudaStream_t beside(cudaStream_t stream);
/* Runs a stream until it has done so many. */
void force(CUstream_st *stream, uint64_t number, Lock &lock);
cudaError_t execute(Op &op, Lock &lock);
/* Whether calls that wait or allocate break a capture now: of this thread's, or of any that
 * looks at all threads. */
bool capturing();
bool any_capture(); /* whatever its mode */
cudaError_t capture_broken(const char *call);
cudaError_t event_captured(const char *call);
/* graph.cpp: what enqueue, record and wait do in a capture. */
cudaError_t captured(CUstream_st *stream, Op op);
void forget_streams();

} // namespace twin

#endif
