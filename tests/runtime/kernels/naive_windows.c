/* Operators that go along one to three axes with windows, from their definitions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "naive.h"

#include <math.h>
#include <string.h>

static struct ff_region taps_of(uint32_t axes, const int32_t *kernel)
{
	struct ff_region taps = {.rank = axes};

	memcpy(taps.hi, kernel, axes * sizeof(*kernel));
	return taps;
}

static bool is_inside(const struct ff_operand *o, const int32_t *at)
{
	for (uint32_t i = 0; i < o->rank; i++)
		if (at[i] < 0 || at[i] >= o->shape[i])
			return false;
	return true;
}

/* y[n, o, i...] = sum over r, a... of x[n, c, i s - p + a d, ...] w[o, r, a...],
 * where c = group(o) * depth + r. */
void naive_conv(const struct naive *x)
{
	const struct ff_node *n = x->w->node;
	const struct ff_conv_attrs *a = &n->attrs.conv;
	const struct ff_operand *in = &n->in_map[0], *weight = &n->in_map[1];
	uint32_t axes = in->rank - 2, depth_dim = in->rank;
	int32_t depth = in->shape[1] / a->groups, per_group = a->out_channels / a->groups;
	struct ff_region taps = taps_of(axes, a->kernel);

	/* the box's axes: sample, out channel, spatial ones, in channel */
	NAIVE_EACH(at, &x->w->box)
	{
		int64_t out = naive_index(&n->out_map[0], at);

		if (at[depth_dim] == 0 && a->bias) {
			x->out[out] += x->in[2][at[1]];
			x->din[2][at[1]] += x->dout[out];
		}
		NAIVE_EACH(tap, &taps)
		{
			int32_t from[FF_MAX_RANK] = {
					at[0], at[1] / per_group * depth + at[depth_dim]};
			int32_t with[FF_MAX_RANK] = {at[1], at[depth_dim]};
			int64_t i, w;

			for (uint32_t k = 0; k < axes; k++) {
				from[2 + k] = at[2 + k] * a->stride[k] - a->pad[0][k] +
					      tap[k] * a->dilation[k];
				with[2 + k] = tap[k];
			}
			if (!is_inside(in, from))
				continue;
			i = naive_index(in, from);
			w = naive_index(weight, with);
			x->out[out] += x->in[0][i] * x->in[1][w];
			x->din[0][i] += x->dout[out] * x->in[1][w];
			x->din[1][w] += x->dout[out] * x->in[0][i];
		}
	}
}

/* y[n, o, s i - p + d t, ...] += x[n, c, i, ...] w[c, o, t, ...] for those input channels c of o's
 * group that the box sums over: with groups all of them. */
void naive_conv_transpose(const struct naive *x)
{
	const struct ff_node *n = x->w->node;
	const struct ff_conv_attrs *a = &n->attrs.conv;
	const struct ff_operand *in = &n->in_map[0], *weight = &n->in_map[1];
	uint32_t axes = in->rank - 2;
	int32_t depth = in->shape[1] / a->groups, per_group = a->out_channels / a->groups;
	struct ff_region taps = taps_of(axes, a->kernel), to = x->w->out[0];
	int32_t first = a->groups > 1 ? 0 : x->w->box.lo[in->rank];
	int32_t end = a->groups > 1 ? depth : x->w->box.hi[in->rank];

	NAIVE_EACH(at, &to)
	{
		int64_t out = naive_index(&n->out_map[0], at);

		if (first == 0 && a->bias) {
			x->out[out] += x->in[2][at[1]];
			x->din[2][at[1]] += x->dout[out];
		}
		NAIVE_EACH(tap, &taps)
		{
			int32_t from[FF_MAX_RANK] = {at[0]}, with[FF_MAX_RANK] = {0};
			bool meets = true;

			with[1] = at[1] % per_group;
			for (uint32_t k = 0; k < axes; k++) {
				int32_t sum = at[2 + k] + a->pad[0][k] - tap[k] * a->dilation[k];

				meets = meets && sum >= 0 && sum % a->stride[k] == 0;
				from[2 + k] = sum / a->stride[k];
				with[2 + k] = tap[k];
			}
			for (int32_t c = first; c < end && meets; c++) {
				int64_t i, w;

				from[1] = with[0] = at[1] / per_group * depth + c;
				if (!is_inside(in, from))
					continue;
				i = naive_index(in, from);
				w = naive_index(weight, with);
				x->out[out] += x->in[0][i] * x->in[1][w];
				x->din[0][i] += x->dout[out] * x->in[1][w];
				x->din[1][w] += x->dout[out] * x->in[0][i];
			}
		}
	}
}

/* How many places of the window that begins at start[] a mean counts: those in the image or, with
 * the padding, those in that. */
static int64_t counted(const struct ff_node *n, const int32_t *start)
{
	const struct ff_pool_attrs *a = &n->attrs.pool;
	const struct ff_operand *in = &n->in_map[0];
	int64_t count = 1;

	for (uint32_t i = 0; i + 2 < in->rank; i++) {
		int32_t before = a->count_pad ? a->pad[0][i] : 0, places = 0;
		int32_t behind = a->count_pad ? a->pad[1][i] : 0;

		for (int32_t at = start[i]; at < start[i] + a->kernel[i]; at++)
			places += at >= -before && at < in->shape[2 + i] + behind;
		count *= places;
	}
	return count;
}

void naive_pool(const struct naive *x)
{
	const struct ff_node *n = x->w->node;
	const struct ff_pool_attrs *a = &n->attrs.pool;
	const struct ff_operand *in = &n->in_map[0];
	uint32_t axes = in->rank - 2;
	struct ff_region taps = taps_of(axes, a->kernel);

	NAIVE_EACH(at, &x->w->out[0])
	{
		int64_t out = naive_index(&n->out_map[0], at), best = -1;
		int32_t start[FF_MAX_SPATIAL];
		double share;

		for (uint32_t k = 0; k < axes; k++)
			start[k] = at[2 + k] * a->stride[k] - a->pad[0][k];
		share = 1.0 / (double)counted(n, start);
		NAIVE_EACH(tap, &taps)
		{
			int32_t from[FF_MAX_RANK] = {at[0], at[1]};
			int64_t i;

			for (uint32_t k = 0; k < axes; k++)
				from[2 + k] = start[k] + tap[k];
			if (!is_inside(in, from))
				continue;
			i = naive_index(in, from);
			if (best < 0 || x->in[0][i] > x->in[0][best])
				best = i;
			if (a->mode == FF_POOL_AVG) {
				x->out[out] += x->in[0][i] * share;
				x->din[0][i] += x->dout[out] * share;
			}
		}
		if (a->mode == FF_POOL_MAX) {
			x->out[out] = x->in[0][best];
			x->din[0][best] += x->dout[out];
		}
	}
}

/* How much of input `i` of `n` goes into output `o` of `out`, as PyTorch's documentation has it. */
static double share_of(const struct ff_node *node, int32_t o, int32_t out, int32_t i, int32_t n)
{
	const struct ff_resize_attrs *a = &node->attrs.resize;
	int32_t first = (int32_t)((int64_t)o * n / out);
	int32_t end = (int32_t)(((int64_t)(o + 1) * n + out - 1) / out);
	double at = fmax((o + 0.5) * n / out - 0.5, 0);

	if (node->op == FF_OP_ADAPTIVE_POOL)
		return i >= first && i < end ? 1.0 / (end - first) : 0;
	if (a->mode == FF_RESIZE_NEAREST)
		return i == first;
	if (a->corners)
		at = out > 1 ? (double)o * (n - 1) / (out - 1) : 0;
	at = fmin(at, n - 1); /* what would lie behind the last is the last */
	return fmax(0, 1 - fabs(at - i));
}

void naive_resize(const struct naive *x)
{
	const struct ff_node *n = x->w->node;
	const struct ff_operand *in = &n->in_map[0], *to = &n->out_map[0];
	struct ff_region taps = taps_of(in->rank - 2, in->shape + 2);

	NAIVE_EACH(at, &x->w->out[0])
	{
		int64_t out = naive_index(to, at);

		NAIVE_EACH(tap, &taps)
		{
			int32_t from[FF_MAX_RANK] = {at[0], at[1]};
			double share = 1;
			int64_t i;

			for (uint32_t k = 2; k < in->rank; k++) {
				from[k] = tap[k - 2];
				share *= share_of(n, at[k], to->shape[k], from[k], in->shape[k]);
			}
			i = naive_index(in, from);
			x->out[out] += x->in[0][i] * share;
			x->din[0][i] += x->dout[out] * share;
		}
	}
}

/* y = x (k + alpha / size * sum of the squares of `size` channels around)^-beta */
void naive_response(const struct naive *x)
{
	const struct ff_node *n = x->w->node;
	const struct ff_response_attrs *a = &n->attrs.response;
	const struct ff_operand *in = &n->in_map[0];

	NAIVE_EACH(at, &x->w->out[0])
	{
		int64_t out = naive_index(in, at), i;
		int32_t next[FF_MAX_RANK];
		double base = a->k, slope;

		memcpy(next, at, sizeof(next));
		for (int32_t pass = 0; pass < 2; pass++) {
			slope = -2 * a->alpha / a->size * a->beta * pow(base, -a->beta - 1);
			for (int32_t c = at[1] - a->size / 2; c < at[1] - a->size / 2 + a->size;
					c++) {
				next[1] = c;
				if (c < 0 || c >= in->shape[1])
					continue;
				i = naive_index(in, next);
				if (pass)
					x->din[0][i] += x->dout[out] * x->in[0][out] * slope *
							x->in[0][i];
				else
					base += a->alpha / a->size * x->in[0][i] * x->in[0][i];
			}
		}
		x->out[out] = x->in[0][out] * pow(base, -a->beta);
		x->din[0][out] += x->dout[out] * pow(base, -a->beta);
	}
}
