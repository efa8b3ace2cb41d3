/* Cross-entropy of softmax(logits) and labels, in two kernels, as
 * runtime/cpu/ops/loss/softmax_cross_entropy.c has them.  SPDX-License-Identifier: Apache-2.0 */
#include "softmax_cross_entropy.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"

struct loss {
	enum ff_dtype type; /* of logits and their gradient; all else is float32 */
	struct ff_loss shape;
	int64_t less; /* where that is in the workspace; -1: nothing is smoothed */
};

static int explain_label(const struct ff_kernel *k, struct ff_error *err)
{
	const struct loss *l = k->state;

	return ff_fail(err, FF_E_INPUT, "%s: label %d is neither %d nor in 0..%d", k->name,
			k->device_error->value, l->shape.ignore, l->shape.all_classes - 1);
}

static int explain_count(const struct ff_kernel *k, struct ff_error *err)
{
	return ff_fail(err, FF_E_RUN, "%s: has %lld labels that count, but the whole batch fewer",
			k->name, (long long)k->device_error->count);
}

static int run_statistics(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loss *l = k->state;

	return ff_kernel_launched(
			ff_launch_statistics(l->type, &l->shape, io->in[0], io->in[1], io->out[0],
					io->out[1], k->device_error, ff_stream_queue(s)),
			k, err);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loss *l = k->state;
	float *less = ff_kernel_at(io, l->less);
	struct ff_loss shape = l->shape;
	cudaError_t code = cudaSuccess;

	shape.valid = io->valid;
	shape.figures = io->figures;
	shape.loss = io->loss;
	if (less)
		code = ff_launch_less(l->type, &shape, io->in[0], io->in[1], io->in[2], less,
				ff_stream_queue(s));
	if (code == cudaSuccess)
		code = ff_launch_loss(&shape, io->in[1], io->in[2], io->in[3], less, io->out[0],
				k->device_error, ff_stream_queue(s));
	if (code == cudaSuccess && io->rank)
		code = ff_launch_rank(l->type, &shape, io->in[0], io->in[1], io->in[3], io->rank,
				ff_stream_queue(s));
	return ff_kernel_launched(code, k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loss *l = k->state;
	struct ff_loss shape = l->shape;

	shape.valid = io->valid;
	shape.figures = io->figures;
	shape.loss = io->loss;
	return ff_kernel_launched(ff_launch_loss_gradient(l->type, &shape, io->in[0], io->in[1],
						  io->in[2], io->din[0], ff_stream_queue(s)),
			k, err);
}

/* `pairs` is an operand with the statistics, `pair_region` its region. */
static int prepare(struct ff_kernel *k, const struct ff_work *w, const struct ff_operand *pairs,
		const struct ff_region *pair_region, struct ff_error *err)
{
	struct loss *l = ff_kernel_state(k, sizeof(*l), err);
	int64_t logit_stride[FF_MAX_RANK];
	struct ff_loss *p;

	if (!l)
		return FF_E_NOMEM;
	p = &l->shape;
	ff_region_strides(w->node->in_map[0].order, &w->in[0], logit_stride);
	ff_region_strides(w->node->in_map[1].order, &w->in[1], p->label_stride);
	ff_region_strides(pairs->order, pair_region, p->pair_stride);
	l->type = w->node->in_map[0].dtype;
	p->positions = ff_region_volume(&w->in[1]);
	p->first = w->in[0].lo[1];
	p->classes = ff_region_size(&w->in[0], 1);
	p->all_classes = w->node->in_map[0].shape[1];
	p->step = logit_stride[1];
	p->ignore = w->node->attrs.loss.ignore;
	p->weight = w->node->attrs.loss.weight;
	l->less = -1;
	if (w->node->op == FF_OP_SOFTMAX_CROSS_ENTROPY) {
		p->smooth = w->node->attrs.loss.smoothing;
		p->each = p->smooth / p->all_classes;
	}
	p->rank = w->in[1].rank;
	for (uint32_t i = 0; i < p->rank; i++) {
		p->n[i] = ff_region_size(&w->in[1], i);
		p->logit_stride[i] = logit_stride[i ? i + 1 : 0];
	}
	return FF_OK;
}

int ff_cuda_softmax_statistics_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	int code = prepare(k, w, &w->node->out_map[0], &w->out[0], err);

	k->run = run_statistics;
	return code < 0 ? code : ff_kernel_reports(k, explain_label, err);
}

int ff_cuda_softmax_cross_entropy_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	int code = prepare(k, w, &w->node->in_map[2], &w->in[2], err);
	struct loss *l;

	if (w->pass == FF_BACKWARD) {
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
		return code;
	}
	l = k->state;
	if (code == FF_OK && l->shape.smooth > 0)
		l->less = ff_kernel_reserve(k, l->shape.positions * (int64_t)sizeof(float));
	k->run = run_forward;
	return code < 0 ? code : ff_kernel_reports(k, explain_count, err);
}
