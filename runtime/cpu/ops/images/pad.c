/* A number around a tensor, or less of it: what a part reads is in what it writes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/indices.h"

#include "cpu/core/copy.h"
#include "cpu/core/kernel.h"
#include "cpu/core/real.h"
#include "resample.h"

struct pad {
	struct ff_padding p;
	float value;
};

FF_REAL_LOOP void fill(enum ff_dtype type, float value, void *to, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		ff_real_put(type, to, i, value);
}

static int run(const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pad *s = k->state;
	const struct ff_copy copy = ff_padding_copy(&s->p, io);

	(void)err;
	if (s->p.pass == FF_FORWARD && s->p.fill)
		FF_REAL_CALL(s->p.type, fill, s->value, io->out[0], s->p.fill);
	if (ff_region_volume(&s->p.in))
		ff_region_copy(&copy);
	return FF_OK;
}

/* Of its own elements: what is linear along every axis. */
static int prepare_own(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct ff_resample r;

	k->run = ff_kernel_run_nothing;
	if (w->pass == FF_BACKWARD && !w->need_din[0])
		return FF_OK;
	ff_resample_pad(w, &r);
	return ff_cpu_resample(k, w, &r, err);
}

int ff_cpu_pad_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct pad *s;

	if (w->node->attrs.pad.mode != FF_PAD_CONSTANT)
		return prepare_own(k, w, err);
	s = ff_kernel_state(k, sizeof(*s), err);
	if (!s)
		return FF_E_NOMEM;
	ff_padding_fill(w, &s->p);
	s->value = (float)w->node->attrs.pad.value;
	k->run = w->pass == FF_FORWARD || w->need_din[0] ? run : ff_kernel_run_nothing;
	return FF_OK;
}
