/* Codecs of gradients.  SPDX-License-Identifier: Apache-2.0 */
#include "coding.h"

#include "codecs.h"
#include "cuda/core/enter.h"
#include "cuda/core/stream.h"

int ff_cuda_encode(struct ff_stream *s, const struct ff_coding *c, struct ff_error *err)
{
	struct ff_device *dev = ff_stream_device(s);
	int code = ff_cuda_enter(dev, err);

	if (code < 0 || c->n == 0)
		return code;
	return ff_cuda_check(ff_launch_encode(c->codec->id, c->values, c->residual, c->message,
					     c->n, ff_stream_queue(s)),
			dev, "compress gradients", err);
}

int ff_cuda_decode(struct ff_stream *s, const struct ff_coding *c, struct ff_error *err)
{
	struct ff_device *dev = ff_stream_device(s);
	int code = ff_cuda_enter(dev, err);

	if (code < 0 || c->n == 0)
		return code;
	return ff_cuda_check(ff_launch_decode(c->codec->id, c->message, c->values, c->n, c->add,
					     ff_stream_queue(s)),
			dev, "decompress gradients", err);
}
