/* Updates.  SPDX-License-Identifier: Apache-2.0 */
#include "update.h"

#include "cuda/core/enter.h"
#include "cuda/core/stream.h"
#include "updates.h"

int ff_cuda_update(struct ff_stream *s, const struct ff_update *u, uint32_t n, struct ff_error *err)
{
	struct ff_device *dev = ff_stream_device(s);
	int code = ff_cuda_enter(dev, err);

	for (uint32_t i = 0; i < n && code == FF_OK; i += FF_UPDATES) {
		uint32_t now = n - i < FF_UPDATES ? n - i : FF_UPDATES;

		code = ff_cuda_check(ff_launch_updates(&u[i], now, ff_stream_queue(s)), dev,
				"update weights", err);
	}
	return code;
}

int ff_cuda_squares(struct ff_stream *s, const struct ff_squares *n, struct ff_error *err)
{
	struct ff_device *dev = ff_stream_device(s);
	int code = ff_cuda_enter(dev, err);

	if (code < 0)
		return code;
	return ff_cuda_check(ff_launch_squares(n->gradient, (int64_t)n->n, n->sum, n->scratch,
					     n->first, ff_stream_queue(s)),
			dev, "add up the squares of gradients", err);
}

int ff_cuda_scale(struct ff_stream *s, float *values, int64_t n, float factor, struct ff_error *err)
{
	struct ff_device *dev = ff_stream_device(s);
	int code = ff_cuda_enter(dev, err);

	if (code < 0 || n == 0)
		return code;
	return ff_cuda_check(ff_launch_scale(values, n, factor, ff_stream_queue(s)), dev,
			"scale weights", err);
}
