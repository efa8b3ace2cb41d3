/* Streams and events: queues that run when somebody waits.  SPDX-License-Identifier: Apache-2.0 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <unistd.h>

#include "graph.hpp"
#include "inside.hpp"

struct CUevent_st {
	unsigned int flags;
	int device;
	std::shared_ptr<twin::Moment> moment; /* of the last record */
	std::shared_ptr<twin::Capture> capture;
	std::set<size_t> frontier;
};

namespace twin
{

static std::vector<CUstream_st *> &streams()
{
	static auto *v = new std::vector<CUstream_st *>;

	return *v;
}

static std::set<CUevent_st *> &events()
{
	static auto *v = new std::set<CUevent_st *>;

	return *v;
}

bool known(cudaStream_t stream)
{
	for (const CUstream_st *s : streams())
		if (s == stream && !s->gone)
			return true;
	return false;
}

cudaStream_t beside(cudaStream_t stream)
{
	for (CUstream_st *s : streams())
		if (s != stream && !s->gone && s->device == stream->device &&
				s->capture == stream->capture)
			return s;
	return stream;
}

/* What streams were given, by name. */
static std::map<std::string, uint64_t> given;

/* ---- running ---- */

static cudaError_t run_host(Op &op, Lock &lock)
{
	cudaError_t code;

	gate(false);
	lock.unlock();
	in_host_function = true;
	code = op.run(lock);
	in_host_function = false;
	lock.lock();
	return code;
}

/* On a device that has failed nothing runs any more, but everything gets done. */
cudaError_t execute(Op &op, Lock &lock)
{
	cudaError_t code = failure();

	if (counting() && op.kind == Op::WORK)
		return code;
	if (code == cudaSuccess && op.joint)
		code = op.joint->meet(lock);
	else if (code == cudaSuccess && op.run && op.kind == Op::HOST)
		code = run_host(op, lock);
	else if (code == cudaSuccess && op.run && op.kind == Op::GRAPH)
		code = op.run(lock);
	else if (code == cudaSuccess && op.run)
		code = guarded(op.what.c_str(), [&] { return op.run(lock); });
	return code == cudaSuccess ? code : fail(code);
}

/* The first in the queue; the stream is not busy. */
static void step(CUstream_st *s, Lock &lock)
{
	Op &op = s->queue.front();

	s->busy = true;
	s->worker = std::this_thread::get_id();
	if (op.waits && !op.waits->done)
		force(op.waits->stream, op.waits->number, lock);
	execute(op, lock);
	spend(0);
	if (op.sets) {
		op.sets->done = true;
		op.sets->ms = device_ms();
	}
	s->queue.pop_front();
	s->done++;
	s->busy = false;
	changed.notify_all();
}

/* Whether its first could run without anything else. */
static bool ready(const CUstream_st *s)
{
	return !s->busy && !s->queue.empty() && !s->queue.front().joint &&
	       s->queue.front().kind == Op::WORK &&
	       (!s->queue.front().waits || s->queue.front().waits->done);
}

/* One of what else could run; false when nothing could.  Host functions may wait for what the
 * host does only later, so they run when they have to. */
static bool step_other(const CUstream_st *not_this, Lock &lock)
{
	std::vector<CUstream_st *> can;

	for (CUstream_st *s : streams())
		if (s != not_this && ready(s))
			can.push_back(s);
	if (can.empty())
		return false;
	step(can[draw(uint32_t(can.size()))], lock);
	return true;
}

static bool comes(const CUstream_st *s)
{
	if (s->busy || s->queue.empty() ||
			(s->queue.front().waits && !s->queue.front().waits->done))
		return false;
	const auto &joint = s->queue.front().joint;

	return joint ? joint->apart() && joint->ready() : s->queue.front().kind == Op::WORK;
}

bool go_on_beside(const CUstream_st *waiting, Lock &lock)
{
	for (CUstream_st *s : streams())
		if (s != waiting && comes(s)) {
			step(s, lock);
			return true;
		}
	return false;
}

/* Streams that were destroyed go when they are empty. */
static void sweep()
{
	auto &all = streams();

	for (size_t i = 0; i < all.size();)
		if (all[i]->gone && all[i]->queue.empty() && !all[i]->busy) {
			delete all[i];
			all.erase(all.begin() + long(i));
		} else {
			i++;
		}
}

/* One operation that the stream waits for, unless it would wait for another process: who asks
 * again and again gets there.  Now and then something else runs. */
static void try_step(CUstream_st *s, Lock &lock)
{
	while (!s->busy && !s->queue.empty() && s->queue.front().waits &&
			!s->queue.front().waits->done)
		s = s->queue.front().waits->stream;
	if (drawn() && draw(4) == 0 && step_other(s, lock))
		return;
	if (s->busy || s->queue.empty())
		return;
	if (failure() == cudaSuccess && s->queue.front().walk && !s->queue.front().walk->over()) {
		s->busy = true;
		s->worker = std::this_thread::get_id();
		s->queue.front().walk->advance(lock);
		s->busy = false;
		changed.notify_all();
		return;
	}
	if (failure() != cudaSuccess || !s->queue.front().joint || s->queue.front().joint->ready())
		step(s, lock);
	else if (!go_on_beside(s, lock))
		usleep(50);
}

void force(CUstream_st *s, uint64_t number, Lock &lock)
{
	/* others lag, run a little, or run ahead */
	uint32_t mood = draw(4);

	while (mood == 3 && s->done < number && step_other(s, lock)) {
	}
	while (s->done < number) {
		if (s->busy && s->worker == std::this_thread::get_id()) {
			fail(complain(cudaErrorLaunchFailure,
					"streams wait for each other in a circle"));
			return;
		}
		if (s->busy || s->queue.empty()) {
			changed.wait(lock);
			continue;
		}
		if (mood == 2 && draw(4) == 0)
			step_other(s, lock);
		else
			step(s, lock);
	}
}

void force_all(bool legacy, Lock &lock)
{
	std::vector<CUstream_st *> left;

	for (CUstream_st *s : streams())
		if ((!legacy || s->plain) && s->device == device())
			left.push_back(s);
	while (!left.empty()) {
		uint32_t i = draw(uint32_t(left.size()));

		force(left[i], left[i]->issued, lock);
		left.erase(left.begin() + i);
	}
	sweep();
}

void hurry(Lock &lock)
{
	if (drawn() && draw(16) == 0)
		for (uint32_t n = 1 + draw(4); n > 0 && step_other(nullptr, lock); n--) {
		}
}

cudaError_t enqueue(cudaStream_t s, Op op)
{
	if (!s || s == cudaStreamLegacy || s == cudaStreamPerThread)
		return complain(cudaErrorInvalidResourceHandle,
				"%s goes to the default stream, which waits for others behind "
				"one's back: use a stream of one's own",
				op.what.c_str());
	if (!known(s))
		return complain(cudaErrorInvalidResourceHandle, "%s goes to no stream",
				op.what.c_str());
	if (counting())
		given[op.what]++;
	if (s->capture)
		return captured(s, std::move(op));
	if (op.sets && planted("an event is recorded before what it is for") && !s->queue.empty() &&
			!s->queue.back().sets) {
		op.sets->done = true; /* by what came before */
		return cudaSuccess;
	}
	if (op.sets)
		*op.sets = {s, s->issued + 1, false, 0};
	s->queue.push_back(std::move(op));
	s->issued++;
	changed.notify_all();
	return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t s, const char *what, std::function<cudaError_t()> run)
{
	Op op;

	op.what = what;
	op.run = [run](Lock &) { return run(); };
	return enqueue(s, std::move(op));
}

void leave(const std::shared_ptr<Capture> &capture)
{
	for (CUstream_st *s : streams())
		if (s->capture == capture) {
			s->capture = nullptr;
			s->frontier.clear();
		}
}

void forget_streams()
{
	for (CUstream_st *s : streams()) {
		s->done += s->queue.size();
		for (Op &op : s->queue)
			if (op.sets)
				op.sets->done = true;
		s->queue.clear();
		s->capture = nullptr;
	}
	forget_captures();
	sweep();
}

/* Whether a device has been given what never ends. */
bool hangs(int device)
{
	for (const CUstream_st *s : streams())
		if (s->device == device && !s->queue.empty() && lacks("abort"))
			return true;
	return false;
}

/* Work left in streams when the process ends was never waited for. */
static struct Last {
	~Last()
	{
		FILE *f = counting() ? fopen(getenv("FF_DOUBLE_COUNTS"), "w") : nullptr;

		for (const auto &k : given)
			if (f)
				fprintf(f, "%llu %s\n", static_cast<unsigned long long>(k.second),
						k.first.c_str());
		if (f)
			fclose(f);
		for (const CUstream_st *s : streams())
			if (!s->queue.empty() && !lacks("abort"))
				complain(cudaErrorNotReady,
						"nobody waited for %zu operations of a stream, "
						"first: %s",
						s->queue.size(), s->queue.front().what.c_str());
	}
} last;

} // namespace twin

using namespace twin;

static cudaError_t no_stream(const char *call)
{
	return complain(cudaErrorInvalidResourceHandle, "%s: there is no such stream", call);
}

static cudaError_t no_event(const char *call)
{
	return complain(cudaErrorInvalidResourceHandle, "%s: there is no such event", call);
}

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret, unsigned int flags)
{
	CALL("cudaStreamCreate");
	*ret = new CUstream_st{};
	(*ret)->device = planted("a stream is another device's") ? device() + 1 : device();
	(*ret)->plain = flags != cudaStreamNonBlocking;
	streams().push_back(*ret);
	return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *ret)
{
	return cudaStreamCreateWithFlags(ret, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned int flags, int)
{
	return cudaStreamCreateWithFlags(ret, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	Call c("cudaStreamDestroy");

	if (!known(s))
		return no_stream("cudaStreamDestroy");
	if (s->capture)
		return capture_broken("cudaStreamDestroy");
	s->gone = true;
	sweep();
	return c.code;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
	CALL("cudaStreamSynchronize");
	if (!known(s))
		return no_stream("cudaStreamSynchronize");
	if (s->capture || capturing())
		return capture_broken("cudaStreamSynchronize");
	if (s->done < s->issued && planted("nobody waits for a stream"))
		return cudaSuccess;
	force(s, s->issued, c.lock);
	return noted(failure());
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
	CALL("cudaStreamQuery");
	if (!known(s))
		return no_stream("cudaStreamQuery");
	if (s->capture)
		return capture_broken("cudaStreamQuery");
	if (s->done < s->issued)
		try_step(s, c.lock);
	return failure() != cudaSuccess ? noted(failure())
	       : s->done < s->issued    ? cudaErrorNotReady
					: cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
	CALL("cudaDeviceSynchronize");
	if (any_capture())
		return capture_broken("cudaDeviceSynchronize");
	force_all(false, c.lock);
	return noted(failure());
}

cudaError_t cudaStreamGetDevice(cudaStream_t s, int *device)
{
	CALL("cudaStreamGetDevice");
	if (!known(s))
		return no_stream("cudaStreamGetDevice");
	*device = s->device;
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned int flags)
{
	CALL("cudaEventCreate");
	*ret = new CUevent_st{};
	(*ret)->flags = flags;
	(*ret)->device = planted("an event is another device's") ? device() + 1 : device();
	events().insert(*ret);
	return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *ret)
{
	return cudaEventCreateWithFlags(ret, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t ev)
{
	Call c("cudaEventDestroy");

	if (!events().erase(ev))
		return no_event("cudaEventDestroy");
	delete ev;
	return c.code;
}

cudaError_t cudaEventRecord(cudaEvent_t ev, cudaStream_t s)
{
	CALL("cudaEventRecord");
	Op op;

	if (!events().count(ev))
		return no_event("cudaEventRecord");
	if (!s || !known(s))
		return no_stream("cudaEventRecord");
	/* "Stream and Event Behavior", CUDA C++ Programming Guide: both are of one device */
	if (ev->device != s->device)
		return complain(cudaErrorInvalidResourceHandle,
				"an event of device %d is recorded in a stream of device %d",
				ev->device, s->device);
	if (planted("an event is not recorded"))
		return cudaSuccess;
	if (planted("an event is recorded in another stream"))
		s = beside(s);
	if (planted("an event is destroyed before it is waited for"))
		events().erase(ev);
	ev->capture = s->capture;
	ev->frontier = s->frontier;
	if (s->capture)
		return noted(s->capture->broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
	op.what = "an event's record";
	op.sets = ev->moment = std::make_shared<Moment>();
	return enqueue(s, std::move(op));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t ev, cudaStream_t s, unsigned int)
{
	return cudaEventRecord(ev, s);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t ev, unsigned int)
{
	CALL("cudaStreamWaitEvent");
	Op op;

	if (!events().count(ev))
		return no_event("cudaStreamWaitEvent");
	if (!s || !known(s))
		return no_stream("cudaStreamWaitEvent");
	if (s->capture || ev->capture ? planted("a captured wait is missing")
				      : ev->moment && !ev->moment->done &&
							planted("a wait is missing"))
		return cudaSuccess;
	if (!s->capture && planted("another stream waits"))
		s = beside(s);
	if (ev->capture || s->capture)
		return join(s, ev->capture, ev->frontier, bool(ev->moment));
	if (!ev->moment)
		return cudaSuccess;
	op.what = "a wait for an event";
	op.waits = ev->moment;
	return enqueue(s, std::move(op));
}

cudaError_t cudaEventSynchronize(cudaEvent_t ev)
{
	CALL("cudaEventSynchronize");
	if (!events().count(ev))
		return no_event("cudaEventSynchronize");
	if (ev->capture)
		return event_captured("cudaEventSynchronize");
	if (capturing())
		return capture_broken("cudaEventSynchronize");
	if (ev->moment && !ev->moment->done && planted("nobody waits for an event"))
		return cudaSuccess;
	if (ev->moment && !ev->moment->done)
		force(ev->moment->stream, ev->moment->number, c.lock);
	return noted(failure());
}

cudaError_t cudaEventQuery(cudaEvent_t ev)
{
	CALL("cudaEventQuery");
	if (!events().count(ev))
		return no_event("cudaEventQuery");
	if (ev->capture)
		return event_captured("cudaEventQuery");
	if (capturing())
		return capture_broken("cudaEventQuery");
	if (!ev->moment || ev->moment->done)
		return cudaSuccess;
	try_step(ev->moment->stream, c.lock);
	return ev->moment->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	CALL("cudaEventElapsedTime");
	if (!events().count(start) || !events().count(end) || !start->moment || !end->moment ||
			(start->flags | end->flags) & cudaEventDisableTiming)
		return complain(cudaErrorInvalidResourceHandle,
				"cudaEventElapsedTime of events that keep no time");
	/* "Stream and Event Behavior", CUDA C++ Programming Guide */
	if (start->device != end->device)
		return complain(cudaErrorInvalidResourceHandle,
				"cudaEventElapsedTime of events of two devices");
	if (start->capture || end->capture)
		return event_captured("cudaEventElapsedTime");
	if (!start->moment->done || !end->moment->done)
		return cudaErrorNotReady;
	*ms = float(end->moment->ms - start->moment->ms);
	return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *arg)
{
	CALL("cudaLaunchHostFunc");
	Op op;

	if (planted("a host function is missing"))
		return cudaSuccess;
	if (planted("a host function is on another stream"))
		s = beside(s);
	if (planted("a host function calls CUDA")) {
		static void *none;

		fn = [](void *) { cudaMalloc(&none, 1); };
	}

	op.what = "a host function";
	op.kind = Op::HOST;
	op.run = [fn, arg](Lock &) {
		fn(arg);
		return cudaSuccess;
	};
	hurry(c.lock);
	return enqueue(s, std::move(op));
}

} // extern "C"
