/* Whole numbers as real ones.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/core/kernel.h"
#include "cpu/core/real.h"

struct cast {
	enum ff_dtype type;
	int64_t n;
};

FF_REAL_LOOP void convert(enum ff_dtype type, const int32_t *from, void *to, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		ff_real_put(type, to, i, (float)from[i]);
}

static int run(const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct cast *c = k->state;

	(void)err;
	FF_REAL_CALL(c->type, convert, io->in[0], io->out[0], c->n);
	return FF_OK;
}

int ff_cpu_cast_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct cast *c = ff_kernel_state(k, sizeof(*c), err);

	if (!c)
		return FF_E_NOMEM;
	*c = (struct cast){w->node->out_map[0].dtype, ff_region_volume(&w->out[0])};
	k->run = w->pass == FF_FORWARD ? run : ff_kernel_run_nothing;
	return FF_OK;
}
