/* Strided copies: one run is CUDA's own; else elements that follow each other on both sides
 * move together, as many as make 16 bytes.  SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"

#include "enter.h"
#include "rows.h"
#include "stream.h"

#define WIDEST 16 /* bytes that a thread moves */

/* Whether units of twice the size serve as well. */
static bool can_widen(
		const struct ff_strided *s, int64_t bytes, const void *source, const void *sink)
{
	uint32_t last = s->rank - 1;

	if (s->source[last] != 1 || s->sink[last] != 1 || s->n[last] % 2 ||
			((uintptr_t)source | (uintptr_t)sink) % (uintptr_t)(2 * bytes))
		return false;
	for (uint32_t i = 0; i < last; i++)
		if (s->source[i] % 2 || s->sink[i] % 2)
			return false;
	return true;
}

static void widen(struct ff_strided *s)
{
	uint32_t last = s->rank - 1;

	s->n[last] /= 2;
	for (uint32_t i = 0; i < last; i++) {
		s->source[i] /= 2;
		s->sink[i] /= 2;
	}
}

cudaError_t ff_cuda_strided(const struct ff_strided *s, enum ff_dtype type, const void *source,
		void *sink, cudaStream_t queue)
{
	int64_t bytes = ff_dtype_bytes(type);
	struct ff_strided n;

	if (ff_strided_volume(s) == 0)
		return cudaSuccess;
	ff_strided_normalise(s, &n);
	if (n.rank == 1 && n.source[0] == 1 && n.sink[0] == 1)
		return ff_cuda_run_of(type, source, sink, n.n[0], queue);
	while (bytes < WIDEST && can_widen(&n, bytes, source, sink)) {
		widen(&n);
		bytes *= 2;
	}
	return ff_launch_copy(&n, bytes, source, sink, queue);
}

cudaError_t ff_cuda_run_of(
		enum ff_dtype type, const void *source, void *sink, int64_t n, cudaStream_t queue)
{
	return n ? cudaMemcpyAsync(sink, source, (size_t)(n * ff_dtype_bytes(type)),
				   cudaMemcpyDefault, queue)
		 : cudaSuccess;
}

/* Elements that only have a meaning together lie together: the last axis is theirs. */
static cudaError_t reduce(const struct ff_strided *s, const struct ff_copy *c, const void *source,
		void *sink, cudaStream_t queue)
{
	struct ff_strided n;

	ff_strided_normalise(s, &n);
	for (uint32_t width = ff_reduce_width(c->reduce); width > 1; width /= 2)
		widen(&n);
	return ff_launch_reduce(&n, c->type, c->reduce, source, sink, queue);
}

cudaError_t ff_cuda_region(const struct ff_copy *c, cudaStream_t queue)
{
	int64_t from, to;
	struct ff_strided s;
	const void *source;
	void *sink;

	if (ff_region_volume(&c->region) == 0)
		return cudaSuccess;
	ff_strided_region(c->order, &c->source_region, &c->sink_region, &c->region, &s, &from, &to);
	source = (const char *)c->source + from * ff_dtype_bytes(c->type);
	sink = (char *)c->sink + to * ff_dtype_bytes(c->type);
	return c->add ? reduce(&s, c, source, sink, queue)
		      : ff_cuda_strided(&s, c->type, source, sink, queue);
}

int ff_cuda_copy(struct ff_stream *s, const struct ff_copy *copy, struct ff_error *err)
{
	struct ff_device *dev = ff_stream_device(s);
	int code;

	if (copy->add && !ff_reduce_takes(copy->reduce, copy->type))
		return ff_fail(err, FF_E_RUN, "elements of type %s are not reduced by %s",
				ff_dtype_name(copy->type), ff_reduce_name(copy->reduce));
	code = ff_cuda_enter(dev, err);
	return code < 0 ? code
			: ff_cuda_check(ff_cuda_region(copy, ff_stream_queue(s)), dev, "copy", err);
}

int ff_cuda_fill(struct ff_stream *s, void *memory, enum ff_dtype type, int64_t n, uint32_t bits,
		struct ff_error *err)
{
	int64_t size = ff_dtype_bytes(type);
	struct ff_device *dev = ff_stream_device(s);
	cudaStream_t queue = ff_stream_queue(s);
	int code = ff_cuda_enter(dev, err);

	if (code < 0 || n == 0)
		return code;
	if (bits == 0 || size == 1)
		return ff_cuda_check(cudaMemsetAsync(memory, (int)(bits & 0xff), (size_t)(n * size),
						     queue),
				dev, "fill", err);
	return ff_cuda_check(ff_launch_fill(memory, size, n, bits, queue), dev, "fill", err);
}
