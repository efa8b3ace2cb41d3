/* Embedding: rows of a table.  A part has a range of the rows and of the features;
 * of ids whose row it does not have it writes zeros and gathers no gradient.
 * SPDX-License-Identifier: Apache-2.0 */
#include "embedding.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"

struct embedding {
	enum ff_dtype type; /* gradients of rows are float32 */
	bool adds;
	struct ff_embedding rows;
};

static int explain(const struct ff_kernel *k, struct ff_error *err)
{
	const struct embedding *e = k->state;

	return ff_fail(err, FF_E_INPUT, "%s: id %d is not in -1..%d", k->name,
			k->device_error->value, e->rows.vocabulary - 1);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct embedding *e = k->state;

	return ff_kernel_launched(ff_launch_lookup(e->type, &e->rows, io->in[0], io->in[1],
						  io->out[0], k->device_error, ff_stream_queue(s)),
			k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct embedding *e = k->state;

	return ff_kernel_launched(
			ff_launch_gather(e->type, &e->rows, io->in[0], io->dout[0], io->din[1],
					io->rows, e->adds, ff_stream_queue(s)),
			k, err);
}

static int add(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err)
{
	struct embedding *e = k->state;

	(void)err;
	*ret = e->adds = input == 1;
	return FF_OK;
}

/* An axis inside those before; with the last of them it is one if all lies evenly. */
static void add_axis(struct ff_embedding *e, int64_t n, int64_t stride)
{
	uint32_t last = e->rank - 1;

	if (e->rank > 0 && e->stride[last] == n * stride) {
		e->n[last] *= n;
		e->stride[last] = stride;
		return;
	}
	e->n[e->rank] = n;
	e->stride[e->rank++] = stride;
}

int ff_cuda_embedding_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_operand *ids = &w->node->in_map[0];
	struct embedding *e = ff_kernel_state(k, sizeof(*e), err);
	int64_t stride[FF_MAX_RANK];

	if (!e)
		return FF_E_NOMEM;
	ff_region_strides(w->node->out_map[0].order, &w->out[0], stride);
	e->type = ff_work_type(w);
	e->rows = (struct ff_embedding){.vocabulary = w->node->attrs.embedding.vocabulary,
			.first = w->in[1].lo[0],
			.rows = ff_region_size(&w->in[1], 0),
			.features = ff_region_size(&w->in[1], 1),
			.positions = ff_region_volume(&w->in[0]),
			.step = stride[ids->rank]};
	for (uint32_t i = 0; i < ids->rank; i++)
		add_axis(&e->rows, ff_region_size(&w->in[0], ids->order[i]), stride[ids->order[i]]);
	if (w->pass == FF_BACKWARD) {
		k->add = w->need_din[1] ? add : NULL;
		k->run = w->need_din[1] ? run_backward : ff_kernel_run_nothing;
		return FF_OK;
	}
	k->run = run_forward;
	return ff_kernel_reports(k, explain, err);
}
