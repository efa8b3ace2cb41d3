/* The null backend: moves everything, computes nothing.  Every tensor has a
 * known value at every element, kernels write it and check that what reaches
 * them is that value, so a message that goes astray is found where it arrives.
 * Memory, streams and copies are the CPU's.  SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"

#include <stdlib.h>

static const struct ff_backend *const host = &ff_backend_cpu;

struct ff_device {
	struct ff_device *cpu; /* opaque: the CPU backend's own */
	const struct ff_schedule *s;
};

struct ff_kernel {
	struct ff_pattern pattern;
	struct ff_kernel_io io; /* of the run under way */
};

static int null_open(uint32_t ordinal, struct ff_device **ret, struct ff_error *err)
{
	struct ff_device *dev = calloc(1, sizeof(*dev));
	int code;

	if (!dev)
		return ff_fail_memory(err);
	code = host->device.open(ordinal, &dev->cpu, err);
	if (code < 0) {
		free(dev);
		return code;
	}
	*ret = dev;
	return FF_OK;
}

static void null_close(struct ff_device *dev)
{
	if (!dev)
		return;
	host->device.close(dev->cpu);
	free(dev);
}

/* It only writes patterns, of any type. */
static int null_computes(struct ff_device *dev, enum ff_dtype type, struct ff_error *err)
{
	(void)dev, (void)type, (void)err;
	return FF_OK;
}

static void null_observe(struct ff_device *dev, const struct ff_schedule *s)
{
	dev->s = s;
}

static int null_alloc(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err)
{
	return host->memory.alloc(dev->cpu, bytes, ret, err);
}

static void null_free(struct ff_device *dev, void *memory)
{
	host->memory.free(dev->cpu, memory);
}

static int null_stream(
		struct ff_device *dev, bool own, struct ff_stream **ret, struct ff_error *err)
{
	return host->stream.open(dev->cpu, own, ret, err);
}

static int null_beside(struct ff_device *dev, enum ff_beside by, struct ff_stream *with,
		struct ff_stream **ret, struct ff_error *err)
{
	return host->stream.beside(dev->cpu, by, with, ret, err);
}

static void null_go_on(struct ff_stream *s)
{
	host->stream.go_on(s);
}

static void null_stream_close(struct ff_stream *s)
{
	host->stream.close(s);
}

static int null_event(struct ff_device *dev, struct ff_event **ret, struct ff_error *err)
{
	return host->event.open(dev->cpu, ret, err);
}

static void null_event_close(struct ff_event *ev)
{
	host->event.close(ev);
}

static int null_record(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	return host->event.record(s, ev, err);
}

static int null_wait(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	return host->event.wait(s, ev, err);
}

static int null_drain(struct ff_stream *s, struct ff_error *err)
{
	return host->stream.drain(s, err);
}

static int null_call(struct ff_stream *s, int (*fn)(void *arg, struct ff_error *err), void *arg,
		struct ff_error *err)
{
	return host->stream.call(s, fn, arg, err);
}

static int null_upload(struct ff_stream *s, void *device, const void *from, size_t bytes,
		struct ff_error *err)
{
	return host->move.upload(s, device, from, bytes, err);
}

static int null_download(struct ff_stream *s, void *to, const void *device, size_t bytes,
		struct ff_error *err)
{
	return host->move.download(s, to, device, bytes, err);
}

static int null_copy(struct ff_stream *s, const struct ff_copy *copy, struct ff_error *err)
{
	return host->move.copy(s, copy, err);
}

static int null_fill(struct ff_stream *s, void *memory, enum ff_dtype type, int64_t n,
		uint32_t bits, struct ff_error *err)
{
	return host->move.fill(s, memory, type, n, bits, err);
}

static int null_update(
		struct ff_stream *s, const struct ff_update *u, uint32_t n, struct ff_error *err)
{
	(void)s, (void)u, (void)n, (void)err;
	return FF_OK;
}

static int null_scale(
		struct ff_stream *s, float *values, int64_t n, float factor, struct ff_error *err)
{
	return host->math.scale(s, values, n, factor, err);
}

static int null_encode(struct ff_stream *s, const struct ff_coding *c, struct ff_error *err)
{
	return host->math.encode(s, c, err);
}

static int null_decode(struct ff_stream *s, const struct ff_coding *c, struct ff_error *err)
{
	return host->math.decode(s, c, err);
}

static int null_norm(struct ff_stream *s, const struct ff_squares *n, struct ff_error *err)
{
	(void)s, (void)n, (void)err;
	return FF_OK;
}

static void null_kernel_close(struct ff_kernel *k)
{
	if (!k)
		return;
	ff_pattern_finish(&k->pattern);
	free(k);
}

static int null_kernel(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err)
{
	struct ff_kernel *k = calloc(1, sizeof(*k));
	int code;

	if (!k)
		return ff_fail_memory(err);
	code = ff_pattern_init(&k->pattern, w, dev->s, err);
	if (code < 0) {
		null_kernel_close(k);
		return code;
	}
	*ret = k;
	return FF_OK;
}

static int64_t null_workspace(const struct ff_kernel *k)
{
	(void)k;
	return 0;
}

static int run_now(void *arg, struct ff_error *err)
{
	struct ff_kernel *k = arg;

	return k->pattern.work.pass == FF_FORWARD ? ff_pattern_forward(&k->pattern, &k->io, err)
						  : ff_pattern_backward(&k->pattern, &k->io, err);
}

static int null_run(struct ff_stream *s, struct ff_kernel *k, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	k->io = *io;
	return host->stream.call(s, run_now, k, err);
}

const struct ff_backend ff_backend_null = {
		.name = "null",
		.help = "checks what is sent where, computes nothing",
		.device.open = null_open,
		.device.close = null_close,
		.device.computes = null_computes,
		.device.observe = null_observe,
		.memory.alloc = null_alloc,
		.memory.free = null_free,
		.memory.of_host = true,
		.stream.open = null_stream,
		.stream.apart = true,
		.stream.beside = null_beside,
		.stream.go_on = null_go_on,
		.stream.close = null_stream_close,
		.stream.drain = null_drain,
		.stream.call = null_call,
		.event.open = null_event,
		.event.close = null_event_close,
		.event.record = null_record,
		.event.wait = null_wait,
		.move.upload = null_upload,
		.move.download = null_download,
		.move.copy = null_copy,
		.move.fill = null_fill,
		.math.update = null_update,
		.math.squares = null_norm,
		.math.scale = null_scale,
		.math.encode = null_encode,
		.math.decode = null_decode,
		.kernel.open = null_kernel,
		.kernel.workspace = null_workspace,
		.kernel.run = null_run,
		.kernel.close = null_kernel_close,
};
