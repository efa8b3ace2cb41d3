/* A number around a tensor, or less of it: a fill and a copy.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/indices.h"

#include <string.h>

#include "cuda/core/copy.h"
#include "cuda/core/kernel.h"
#include "resample.h"

#define FF_RESAMPLE_FN static inline
#include "cuda/core/stream.h"
#include "kernels/resample.h"

struct pad {
	struct ff_padding p;
	uint32_t bits; /* of the number */
};

static int run(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct pad *t = k->state;
	const struct ff_copy copy = ff_padding_copy(&t->p, io);
	int code = FF_OK;

	if (t->p.pass == FF_FORWARD)
		code = ff_cuda_fill(s, io->out[0], t->p.type, t->p.fill, t->bits, err);
	return code < 0 ? code
			: ff_kernel_launched(ff_cuda_region(&copy, ff_stream_queue(s)), k, err);
}

static uint32_t bits_of(enum ff_dtype type, float value)
{
	uint32_t bits;

	if (type == FF_BF16)
		return ff_bf16_from_f32(value);
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

int ff_cuda_pad_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct ff_resample r;
	struct pad *t;

	if (w->node->attrs.pad.mode != FF_PAD_CONSTANT) {
		ff_resample_pad(w, &r);
		return ff_cuda_resample(k, w, &r, err);
	}
	t = ff_kernel_state(k, sizeof(*t), err);
	if (!t)
		return FF_E_NOMEM;
	ff_padding_fill(w, &t->p);
	t->bits = bits_of(t->p.type, (float)w->node->attrs.pad.value);
	k->run = w->pass == FF_FORWARD || w->need_din[0] ? run : ff_kernel_run_nothing;
	return FF_OK;
}
