/* The CPU backend: host memory, streams, and kernels on oneDNN.  Threads within
 * a kernel are OpenMP's; OMP_NUM_THREADS is the caller's choice.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cpu/core/coding.h"
#include "cpu/core/copy.h"
#include "cpu/core/engine.h"
#include "cpu/core/kernel.h"
#include "cpu/core/stream.h"
#include "cpu/core/update.h"
#include "kernels.h"

static void cpu_close(struct ff_device *dev)
{
	if (!dev)
		return;
	ff_dnnl_close(dev->dnnl);
	free(dev);
}

/* All ordinals are the one CPU that the process may use. */
static int cpu_open(uint32_t ordinal, struct ff_device **ret, struct ff_error *err)
{
	struct ff_device *dev = calloc(1, sizeof(*dev));
	int code;

	(void)ordinal;
	if (!dev)
		return ff_fail_memory(err);
	code = ff_dnnl_open(&dev->dnnl, err);
	if (code < 0) {
		cpu_close(dev);
		return code;
	}
	*ret = dev;
	return FF_OK;
}

static int cpu_computes(struct ff_device *dev, enum ff_dtype type, struct ff_error *err)
{
	return ff_dnnl_computes(dev->dnnl, type, err);
}

/* As /proc/cpuinfo calls it; processors that have no name there go by architecture. */
static void find_model(char *text, size_t size)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	struct utsname host;
	char line[256];

	snprintf(text, size, "%s", uname(&host) == 0 ? host.machine : "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		const char *value = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || !value)
			continue;
		value += 1 + strspn(value + 1, " \t");
		snprintf(text, size, "%.*s", (int)strcspn(value, "\n"), value);
		break;
	}
	if (f)
		fclose(f);
}

static void cpu_describe(struct ff_device *dev, struct ff_device_info *ret)
{
	uint32_t threads = 0;
	long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);

	(void)dev;
	find_model(ret->processor, sizeof(ret->processor));
	ff_dnnl_version(ret->kernels, sizeof(ret->kernels));
#pragma omp parallel reduction(+ : threads)
	threads++;
	ret->threads = threads;
	ret->cache_bytes = cache > 0 ? (int64_t)cache : 0;
}

/* Memory of this size and more lies on large pages where the kernel has any.  A kernel that reads
 * what was last touched a step ago misses the TLB at every page, which under virtualisation costs
 * as much as the data. */
#define LARGE_PAGE ((size_t)2 << 20)
#define CACHE_LINE ((size_t)64)

static int cpu_alloc(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err)
{
	size_t size = bytes ? bytes : 1;
	bool large = size >= LARGE_PAGE;
	void *memory;

	(void)dev;
	if (posix_memalign(&memory, large ? LARGE_PAGE : CACHE_LINE, size))
		return ff_fail(err, FF_E_NOMEM,
				"the host cannot provide %zu bytes of device memory", bytes);
	if (large) /* what does not fill one stays on small pages; a kernel may have no others */
		madvise(memory, size / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
	*ret = memset(memory, 0, size);
	return FF_OK;
}

static void cpu_free(struct ff_device *dev, void *memory)
{
	(void)dev;
	free(memory);
}

static int cpu_stream(struct ff_device *dev, bool own, struct ff_stream **ret, struct ff_error *err)
{
	(void)dev;
	return ff_stream_create(own ? FF_STREAM_WORKER : FF_STREAM_CALLER, NULL, ret, err);
}

static int cpu_beside(struct ff_device *dev, enum ff_beside by, struct ff_stream *with,
		struct ff_stream **ret, struct ff_error *err)
{
	static const enum ff_stream_kind kinds[FF_BESIDE_COUNT] = {
			[FF_BESIDE_THREAD] = FF_STREAM_WORKER, [FF_BESIDE_TASKS] = FF_STREAM_GUEST};

	(void)dev;
	return ff_stream_create(kinds[by], with, ret, err);
}

static int cpu_event(struct ff_device *dev, struct ff_event **ret, struct ff_error *err)
{
	(void)dev;
	return ff_event_create(false, ret, err);
}

static int cpu_timer(struct ff_device *dev, struct ff_event **ret, struct ff_error *err)
{
	(void)dev;
	return ff_event_create(true, ret, err);
}

struct call_job {
	int (*fn)(void *arg, struct ff_error *err);
	void *arg;
};

static int run_call(void *payload, struct ff_error *err)
{
	const struct call_job *j = payload;

	return j->fn(j->arg, err);
}

static int cpu_call(struct ff_stream *s, int (*fn)(void *arg, struct ff_error *err), void *arg,
		struct ff_error *err)
{
	struct call_job j = {fn, arg};

	return ff_stream_push(s, run_call, &j, sizeof(j), err);
}

struct move_job {
	void *sink;
	const void *source;
	size_t bytes;
};

static int run_move(void *payload, struct ff_error *err)
{
	const struct move_job *j = payload;

	(void)err;
	if (j->bytes)
		memcpy(j->sink, j->source, j->bytes);
	return FF_OK;
}

static int cpu_upload(struct ff_stream *s, void *device, const void *host, size_t bytes,
		struct ff_error *err)
{
	struct move_job j = {device, host, bytes};

	return ff_stream_push(s, run_move, &j, sizeof(j), err);
}

static int cpu_download(struct ff_stream *s, void *host, const void *device, size_t bytes,
		struct ff_error *err)
{
	return cpu_upload(s, host, device, bytes, err);
}

struct fill_job {
	void *memory;
	int64_t n, size;
	uint32_t bits;
};

static int run_fill(void *payload, struct ff_error *err)
{
	const struct fill_job *j = payload;
	uint32_t *words = j->memory;
	uint16_t *halves = j->memory;

	(void)err;
	if (j->n && (j->bits == 0 || j->size == 1))
		memset(j->memory, (int)(j->bits & 0xff), (size_t)(j->n * j->size));
	else if (j->size == 2)
		for (int64_t i = 0; i < j->n; i++)
			halves[i] = (uint16_t)j->bits;
	else
		for (int64_t i = 0; i < j->n; i++)
			words[i] = j->bits;
	return FF_OK;
}

static int cpu_fill(struct ff_stream *s, void *memory, enum ff_dtype type, int64_t n, uint32_t bits,
		struct ff_error *err)
{
	struct fill_job j = {memory, n, ff_dtype_bytes(type), bits};

	return ff_stream_push(s, run_fill, &j, sizeof(j), err);
}

static int run_copy(void *payload, struct ff_error *err)
{
	(void)err;
	ff_region_copy(payload);
	return FF_OK;
}

static int cpu_copy(struct ff_stream *s, const struct ff_copy *copy, struct ff_error *err)
{
	struct ff_copy c = *copy;

	if (c.add && !ff_reduce_takes(c.reduce, c.type))
		return ff_fail(err, FF_E_RUN, "elements of type %s are not reduced by %s",
				ff_dtype_name(c.type), ff_reduce_name(c.reduce));
	return ff_stream_push(s, run_copy, &c, sizeof(c), err);
}

static int run_update(void *payload, struct ff_error *err)
{
	(void)err;
	ff_cpu_update(payload);
	return FF_OK;
}

static int cpu_update(
		struct ff_stream *s, const struct ff_update *u, uint32_t n, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		struct ff_update own = u[i];

		code = ff_stream_push(s, run_update, &own, sizeof(own), err);
	}
	return code;
}

static int run_norm(void *payload, struct ff_error *err)
{
	(void)err;
	ff_cpu_squares(payload);
	return FF_OK;
}

static int cpu_norm(struct ff_stream *s, const struct ff_squares *n, struct ff_error *err)
{
	struct ff_squares own = *n;

	return ff_stream_push(s, run_norm, &own, sizeof(own), err);
}

struct scale_job {
	float *values;
	int64_t n;
	float factor;
};

static int run_scale(void *payload, struct ff_error *err)
{
	const struct scale_job *j = payload;

	(void)err;
	ff_cpu_scale(j->values, j->n, j->factor);
	return FF_OK;
}

static int cpu_scale(
		struct ff_stream *s, float *values, int64_t n, float factor, struct ff_error *err)
{
	struct scale_job j = {values, n, factor};

	return ff_stream_push(s, run_scale, &j, sizeof(j), err);
}

static int run_encode(void *payload, struct ff_error *err)
{
	(void)err;
	ff_cpu_encode(payload);
	return FF_OK;
}

static int cpu_encode(struct ff_stream *s, const struct ff_coding *c, struct ff_error *err)
{
	struct ff_coding own = *c;

	return ff_stream_push(s, run_encode, &own, sizeof(own), err);
}

static int run_decode(void *payload, struct ff_error *err)
{
	(void)err;
	ff_cpu_decode(payload);
	return FF_OK;
}

static int cpu_decode(struct ff_stream *s, const struct ff_coding *c, struct ff_error *err)
{
	struct ff_coding own = *c;

	return ff_stream_push(s, run_decode, &own, sizeof(own), err);
}

struct kernel_job {
	const struct ff_kernel *kernel;
	struct ff_kernel_io io;
};

static int run_kernel(void *payload, struct ff_error *err)
{
	const struct kernel_job *j = payload;

	return j->kernel->run(j->kernel, &j->io, err);
}

static int cpu_run(struct ff_stream *s, struct ff_kernel *k, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	struct kernel_job j = {k, *io};

	return ff_stream_push(s, run_kernel, &j, sizeof(j), err);
}

const struct ff_backend ff_backend_cpu = {
		.name = "cpu",
		.help = "this machine's processor, with oneDNN",
		.device.open = cpu_open,
		.device.close = cpu_close,
		.device.computes = cpu_computes,
		.device.describe = cpu_describe,
		.memory.alloc = cpu_alloc,
		.memory.free = cpu_free,
		.memory.of_host = true,
		.stream.open = cpu_stream,
		.stream.apart = true,
		.stream.beside = cpu_beside,
		.stream.go_on = ff_stream_go_on,
		.stream.close = ff_stream_destroy,
		.stream.drain = ff_stream_drain,
		.stream.call = cpu_call,
		.event.open = cpu_event,
		.event.close = ff_event_destroy,
		.event.record = ff_event_record,
		.event.wait = ff_event_wait,
		.event.timer = cpu_timer,
		.event.elapsed = ff_event_elapsed,
		.move.upload = cpu_upload,
		.move.download = cpu_download,
		.move.copy = cpu_copy,
		.move.fill = cpu_fill,
		.math.update = cpu_update,
		.math.squares = cpu_norm,
		.math.scale = cpu_scale,
		.math.encode = cpu_encode,
		.math.decode = cpu_decode,
		.kernel.open = ff_cpu_kernel,
		.kernel.workspace = ff_cpu_workspace,
		.kernel.run = cpu_run,
		.kernel.close = ff_cpu_kernel_close,
};
