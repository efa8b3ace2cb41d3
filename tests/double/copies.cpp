/* Copies and fills, of streams and at once.  SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "graph.hpp"
#include "inside.hpp"

namespace twin
{

static const char *kind_name(cudaMemcpyKind kind)
{
	static const char *const names[] = {"to host from host", "to device from host",
			"to host from device", "to device from device", "by default"};

	return names[kind];
}

/* A kind that does not fit the pointers is an error, as it is where addresses are unified. */
static bool fits(cudaMemcpyKind kind, const void *sink, const void *source)
{
	bool to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
	bool from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;

	if (kind == cudaMemcpyDefault)
		return true;
	if (to == (side_of(sink) == DEVICE) && from == (side_of(source) == DEVICE))
		return true;
	complain(cudaErrorInvalidValue, "a copy %s is not %s %p from %p", kind_name(kind),
			kind_name(kind), sink, source);
	return false;
}

struct Rows {
	char *sink;
	const char *source;
	size_t sink_pitch, source_pitch, width, height;
};

static const char *called(const Rows &r)
{
	return side_of(r.sink) != DEVICE     ? "a copy to the host"
	       : side_of(r.source) != DEVICE ? "a copy from the host"
					     : "a copy";
}

static size_t extent(size_t pitch, const Rows &r)
{
	return r.height && r.width ? (r.height - 1) * pitch + r.width : 0;
}

static cudaError_t move(const Rows &r, bool host_source, bool host_sink)
{
	if (!host_source && !reachable("a copy reads", r.source, extent(r.source_pitch, r)))
		return cudaErrorIllegalAddress;
	if (!host_sink && !reachable("a copy writes", r.sink, extent(r.sink_pitch, r)))
		return cudaErrorIllegalAddress;
	for (size_t i = 0; i < r.height; i++)
		memmove(r.sink + i * r.sink_pitch, r.source + i * r.source_pitch, r.width);
	return cudaSuccess;
}

static char *pinned_once(const char *from, size_t bytes)
{
	void *p = nullptr;

	mutex.unlock();
	cudaHostAlloc(&p, bytes, 0);
	if (p)
		memcpy(p, from, bytes);
	cudaFreeHost(p);
	mutex.lock();
	return static_cast<char *>(p);
}

/* Faults of copies; true: there is none. */
static bool distort(Rows *r, cudaMemcpyKind *kind, cudaStream_t *s, std::vector<char> *kept)
{
	bool in_capture = *s && known(*s) && (*s)->capture;

	if (r->width >= 4 && planted("a copy is short"))
		r->width -= 4;
	if (planted("a copy goes to where it should not"))
		r->sink += 4;
	if (planted("a copy comes from where it should not"))
		r->source += 4;
	if (*kind == cudaMemcpyHostToDevice && planted("an upload is called a download"))
		*kind = cudaMemcpyDeviceToHost;
	if (*kind == cudaMemcpyDeviceToHost && planted("a download is called an upload"))
		*kind = cudaMemcpyHostToDevice;
	if (planted("a copy is on the default stream"))
		*s = nullptr;
	if (!in_capture && planted("a copy is on another stream"))
		*s = beside(*s);
	if (side_of(r->source) == PINNED && planted("pinned memory is freed before it is read"))
		r->source = pinned_once(r->source, r->width);
	if (in_capture && side_of(r->source) == PINNED &&
			planted("a captured copy is of pageable memory")) {
		kept->assign(r->source, r->source + r->width);
		r->source = kept->data();
	}
	return planted("a copy is missing");
}

/* What the host may reuse at once is read at once; what the stream may read late it does. */
static cudaError_t copy(Rows r, cudaMemcpyKind kind, cudaStream_t s, Lock &lock)
{
	bool host_source, host_sink;
	auto staged = std::make_shared<std::vector<char>>();
	cudaError_t code;

	if (distort(&r, &kind, &s, staged.get()))
		return cudaSuccess;
	host_source = side_of(r.source) == PAGEABLE;
	host_sink = side_of(r.sink) == PAGEABLE;
	if (!fits(kind, r.sink, r.source))
		return cudaErrorInvalidValue;
	/* a graph's copy reads and writes at each launch, whatever became of the memory until then;
	 * what is pinned is looked up then ("Graph Memory Nodes" and cudaMemcpyAsync, CUDA Runtime
	 * API) */
	if (s && known(s) && s->capture && (host_source || host_sink))
		return complain(cudaErrorStreamCaptureUnsupported,
				"a captured copy is of host memory that is not pinned");
	if (r.width > r.sink_pitch || r.width > r.source_pitch)
		return complain(cudaErrorInvalidValue, "a copy's rows are longer than its pitch");
	if (host_source && !(s && known(s) && s->capture)) {
		staged->resize(r.width * r.height);
		for (size_t i = 0; i < r.height; i++)
			memcpy(staged->data() + i * r.width, r.source + i * r.source_pitch,
					r.width);
		r.source = staged->data();
		r.source_pitch = r.width;
	}
	code = enqueue(s, called(r), [=] {
		(void)staged->size();
		return move(r, host_source, host_sink);
	});
	if (code == cudaSuccess && host_sink && !s->capture) {
		force(s, s->issued, lock);
		code = failure();
	}
	return code;
}

/* The legacy stream's copies and fills wait for blocking streams alone. */
static cudaError_t at_once(const char *what, Lock &lock, std::function<cudaError_t()> run)
{
	cudaError_t code;

	if (capturing())
		return capture_broken(what);
	force_all(true, lock);
	code = failure() == cudaSuccess ? guarded(what, run) : failure();
	return code == cudaSuccess ? code : fail(code);
}

static cudaError_t set(void *memory, int value, size_t bytes)
{
	if (!reachable("a fill", memory, bytes))
		return cudaErrorIllegalAddress;
	memset(memory, value, bytes);
	return cudaSuccess;
}

} // namespace twin

using namespace twin;

extern "C" {

cudaError_t cudaMemcpyAsync(
		void *sink, const void *source, size_t n, cudaMemcpyKind kind, cudaStream_t s)
{
	CALL("cudaMemcpyAsync");
	hurry(c.lock);
	return copy({static_cast<char *>(sink), static_cast<const char *>(source), n, n, n, 1},
			kind, s, c.lock);
}

cudaError_t cudaMemcpyPeerAsync(void *sink, int, const void *source, int, size_t n, cudaStream_t s)
{
	return cudaMemcpyAsync(sink, source, n, cudaMemcpyDeviceToDevice, s);
}

cudaError_t cudaMemcpy2DAsync(void *sink, size_t sink_pitch, const void *source,
		size_t source_pitch, size_t width, size_t height, cudaMemcpyKind kind,
		cudaStream_t s)
{
	CALL("cudaMemcpy2DAsync");
	hurry(c.lock);
	return copy({static_cast<char *>(sink), static_cast<const char *>(source), sink_pitch,
				    source_pitch, width, height},
			kind, s, c.lock);
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t s)
{
	CALL("cudaMemsetAsync");
	hurry(c.lock);
	if (planted("a fill is missing"))
		return cudaSuccess;
	if (planted("a fill is short"))
		bytes -= bytes < 4 ? bytes : 4;
	if (planted("a fill has another value"))
		value ^= 0x40;
	if (planted("a fill runs over"))
		bytes += 256;
	if (planted("a fill is on another stream"))
		s = beside(s);
	return enqueue(s, "a fill", [=] { return set(memory, value, bytes); });
}

cudaError_t cudaMemcpy(void *sink, const void *source, size_t n, cudaMemcpyKind kind)
{
	CALL("cudaMemcpy");
	Rows r = {static_cast<char *>(sink), static_cast<const char *>(source), n, n, n, 1};

	if (!fits(kind, sink, source))
		return cudaErrorInvalidValue;
	return at_once("cudaMemcpy", c.lock, [&] {
		return move(r, side_of(source) == PAGEABLE, side_of(sink) == PAGEABLE);
	});
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
	CALL("cudaMemset");
	return at_once("cudaMemset", c.lock, [&] { return set(memory, value, bytes); });
}

} // extern "C"
