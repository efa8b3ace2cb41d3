/* Images of another size.  SPDX-License-Identifier: Apache-2.0 */
#include "resample.h"

static int prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct ff_resample r;

	if (w->pass == FF_BACKWARD && !w->need_din[0]) {
		k->run = ff_kernel_run_nothing;
		return FF_OK;
	}
	ff_resample_resize(w, &r);
	return ff_cpu_resample(k, w, &r, err);
}

#define PREPARE(e, row)                                                                            \
	int ff_cpu_##row##_prepare(                                                                \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, err);                                                         \
	}
FF_RESIZE_OPS(PREPARE)
#undef PREPARE
