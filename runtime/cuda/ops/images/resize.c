/* Images of another size.  SPDX-License-Identifier: Apache-2.0 */
#include "resample.h"

#define FF_RESAMPLE_FN static inline
#include "kernels/resample.h"

static int prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct ff_resample r;

	ff_resample_resize(w, &r);
	return ff_cuda_resample(k, w, &r, err);
}

#define PREPARE(e, row)                                                                            \
	int ff_cuda_##row##_prepare(                                                               \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, err);                                                         \
	}
FF_RESIZE_OPS(PREPARE)
#undef PREPARE
