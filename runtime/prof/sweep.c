/* Caches as training has them.  A kernel in a loop of its own finds all its data in
 * the cache; in a step it finds what the task before it wrote, and everything else
 * has gone by.  So before every sample as many bytes go by as a step touches, and
 * then what would just have been written is read.  SPDX-License-Identifier: Apache-2.0 */
#include "prof.h"

#include <unistd.h>

/* Cache beyond which more makes nothing colder, where the system does not say. */
#define PRESET_CACHE ((int64_t)32 << 20)

/* Bytes that a device touches in a step: activations and their gradients; weights,
 * gradients and an optimizer's states.  As data parallelism has it, near enough for any split. */
static int64_t step_bytes(const struct ff_prof *p)
{
	int64_t bytes = 0;

	for (uint32_t i = 0; i < p->graph.n_values; i++) {
		const struct ff_value *t = &p->graph.values[i];
		int64_t n = 1;

		for (uint32_t d = 0; d < t->rank; d++)
			n *= t->shape[d];
		bytes += 2 * n * ff_dtype_bytes(t->dtype) / p->machine.n_devices;
	}
	return bytes + ff_optimizer_bytes(ff_optimizer_preset(), p->graph.dtype,
				       ff_graph_parameters(&p->graph) * FF_F32_BYTES);
}

int ff_prof_sweep_open(struct ff_prof *p, struct ff_error *err)
{
	long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
	int64_t most = 2 * (level3 > 0 ? (int64_t)level3 : PRESET_CACHE), bytes = step_bytes(p);
	int code = FF_OK;

	p->sweep_bytes = (bytes < most ? bytes : most) / 2;
	for (int i = 0; i < 2 && code == FF_OK; i++)
		code = p->backend->alloc(p->dev, (size_t)p->sweep_bytes, &p->sweep[i], err);
	return code;
}

void ff_prof_sweep_close(struct ff_prof *p)
{
	for (int i = 0; i < 2; i++)
		if (p->sweep[i])
			p->backend->free(p->dev, p->sweep[i]);
}

/* The first `bytes` of `from` go by: a copy reads them and as many others. */
static int pass_by(
		struct ff_prof *p, const void *from, int64_t bytes, bool add, struct ff_error *err)
{
	struct ff_region r = {.rank = 1};
	struct ff_copy copy = {
			.source = from, .sink = p->sweep[1], .order = ff_order_plain, .add = add};

	r.hi[0] = (int32_t)((bytes < p->sweep_bytes ? bytes : p->sweep_bytes) / FF_F32_BYTES);
	copy.source_region = copy.sink_region = copy.region = r;
	return r.hi[0] ? p->backend->copy(p->stream, &copy, err) : FF_OK;
}

int ff_prof_sweep(struct ff_prof *p, const void *hot, int64_t hot_bytes, double *us,
		struct ff_error *err)
{
	double start = ff_clock_us();
	int code = pass_by(p, p->sweep[0], p->sweep_bytes, true, err);

	if (code == FF_OK)
		code = p->backend->drain(p->stream, err);
	*us = ff_clock_us() - start;
	ff_baseline_add(&p->reference.memory, *us);
	if (code == FF_OK && hot)
		code = pass_by(p, hot, hot_bytes, false, err);
	return code == FF_OK ? p->backend->drain(p->stream, err) : code;
}
