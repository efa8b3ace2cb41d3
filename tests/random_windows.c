/* Random graphs: operators of windows and channels.  SPDX-License-Identifier: Apache-2.0 */
#include "random_maker.h"

static int32_t between(struct maker *m, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(m->r, (uint32_t)(hi - lo + 1));
}

int32_t random_window(int32_t size, int32_t kernel, int32_t stride, int32_t pad, int32_t dilation)
{
	return (size + pad - dilation * (kernel - 1) - 1) / stride + 1;
}

/* An image as a line or as a volume. */
static struct value *add_spatial(struct maker *m, const struct value *in, uint32_t rank)
{
	union ff_attrs a = {.reshape = {.rank = (int32_t)rank, .shape = {0, 0, -1}}};
	struct value out = *in;

	out.rank = rank;
	out.shape[2] = in->shape[2] * in->shape[3];
	if (rank == 5) {
		a.reshape.shape[2] = 0;
		a.reshape.shape[3] = out.shape[3] = 1;
		a.reshape.shape[4] = -1;
		out.shape[2] = in->shape[2];
		out.shape[4] = in->shape[3];
	}
	return random_add(m, FF_OP_RESHAPE, &a, &in, 1, &out);
}

/* Something with one to three axes behind the channels, mostly two. */
static struct value *pick_spatial(struct maker *m)
{
	static const uint32_t ranks[] = {3, 5, 4, 4, 4, 4};
	uint32_t rank = ranks[ff_random_below(m->r, 6)];
	struct value *v = random_pick_rank(m, rank);

	if (v || rank == 4)
		return v;
	v = random_pick_rank(m, 4);
	return v ? add_spatial(m, v, rank) : NULL;
}

/* A convolution of some kind whose windows are known: `groups` of at most `most` channels each. */
static void add_filter(struct maker *m, enum ff_op op, union ff_attrs *a, const struct value *in,
		struct value *out, int32_t groups, int32_t most)
{
	a->conv.groups = groups;
	a->conv.out_channels = groups * between(m, 1, most);
	a->conv.bias = between(m, 0, 3) > 0;
	out->shape[1] = a->conv.out_channels;
	random_add(m, op, a, &in, 1, out);
}

void random_conv(struct maker *m)
{
	const struct value *in = m->n == 1 && m->value[0].rank > 2 ? &m->value[0] : pick_spatial(m);
	union ff_attrs a = {{0}};
	struct value out;
	int32_t groups = 1;
	enum ff_op op;

	if (!in)
		return;
	op = (enum ff_op)(FF_OP_CONV1D + in->rank - 3);
	a = ff_attrs_preset(op);
	out = *in;
	for (uint32_t i = 0; i + 2 < in->rank; i++) {
		int32_t k = between(m, 1, 3), d = between(m, 1, 2), s = between(m, 1, 2);
		int32_t pad = between(m, 0, k - 1), behind = between(m, 0, k - 1);

		if (in->shape[2 + i] + pad + behind < d * (k - 1) + 1)
			k = d = s = 1, pad = behind = 0;
		a.conv.kernel[i] = k;
		a.conv.dilation[i] = d;
		a.conv.stride[i] = s;
		a.conv.pad[0][i] = pad;
		a.conv.pad[1][i] = behind;
		out.shape[2 + i] = random_window(in->shape[2 + i], k, s, pad + behind, d);
	}
	if (between(m, 0, 1))
		for (int32_t g = between(m, 2, 3); g > 1 && groups == 1; g--)
			groups = in->shape[1] % g == 0 ? g : 1;
	add_filter(m, op, &a, in, &out, groups, groups > 1 ? 2 : 6);
}

/* Of about as many elements along each axis, or of about twice as many where those are few. */
void random_conv_transpose(struct maker *m)
{
	const struct value *in = pick_spatial(m);
	union ff_attrs a = {{0}};
	struct value out;
	enum ff_op op;

	if (!in)
		return;
	op = (enum ff_op)(FF_OP_CONV_TRANSPOSE1D + in->rank - 3);
	a = ff_attrs_preset(op);
	out = *in;
	for (uint32_t i = 0; i + 2 < in->rank; i++) {
		int32_t k = between(m, 1, 3), d = between(m, 1, 2);
		int32_t s = in->shape[2 + i] < 6 ? between(m, 1, 3) : 1;
		int32_t more = between(m, 0, (s > d ? s : d) - 1), *n = &out.shape[2 + i];

		*n = (in->shape[2 + i] - 1) * s + d * (k - 1) + more + 1;
		a.conv.kernel[i] = k;
		a.conv.dilation[i] = d;
		a.conv.stride[i] = s;
		a.conv.output_pad[i] = more;
		a.conv.pad[0][i] = between(m, 0, *n > 2 ? 2 : 0);
		*n -= a.conv.pad[0][i];
		a.conv.pad[1][i] = between(m, 0, *n > 2 ? 2 : 0);
		*n -= a.conv.pad[1][i];
	}
	add_filter(m, op, &a, in, &out, in->shape[1] % 2 || between(m, 0, 2) ? 1 : 2, 3);
}

void random_pool(struct maker *m)
{
	const struct value *in = pick_spatial(m);
	union ff_attrs a = {{0}};
	struct value out;
	enum ff_op op;

	if (!in)
		return;
	op = (enum ff_op)(FF_OP_POOL1D + in->rank - 3);
	a = ff_attrs_preset(op);
	out = *in;
	a.pool.mode = between(m, 0, 1);
	a.pool.ceil = between(m, 0, 1);
	a.pool.count_pad = between(m, 0, 1);
	for (uint32_t i = 0; i + 2 < in->rank; i++) {
		int32_t size = in->shape[2 + i], k = between(m, 1, size < 3 ? size : 3);
		int32_t s = between(m, 1, 3), pad = between(m, 0, k / 2);
		int32_t behind = between(m, 0, k / 2), *n = &out.shape[2 + i];

		a.pool.kernel[i] = k;
		a.pool.stride[i] = s;
		a.pool.pad[0][i] = pad;
		a.pool.pad[1][i] = behind;
		*n = random_window(size, k, s, pad + behind, 1);
		*n += a.pool.ceil && (size + pad + behind - k) % s && *n * s < size + pad;
	}
	random_add(m, op, &a, &in, 1, &out);
}

/* Another size of the axes behind the channels. */
void random_resize(struct maker *m)
{
	enum ff_op op = between(m, 0, 1) ? FF_OP_UPSAMPLE : FF_OP_ADAPTIVE_POOL;
	union ff_attrs a = ff_attrs_preset(op);
	const struct value *in = pick_spatial(m);
	struct value out;

	if (!in)
		return;
	out = *in;
	a.resize.axes = (int32_t)in->rank - 2;
	if (op == FF_OP_UPSAMPLE)
		a.resize.mode = between(m, 0, 1);
	a.resize.corners = a.resize.mode && between(m, 0, 1);
	for (uint32_t i = 0; i + 2 < in->rank; i++)
		out.shape[2 + i] = a.resize.size[i] = between(m, 1, in->rank == 5 ? 5 : 9);
	random_add(m, op, &a, &in, 1, &out);
}

void random_response(struct maker *m)
{
	const struct value *in = random_pick(m);
	union ff_attrs a = ff_attrs_preset(FF_OP_LOCAL_RESPONSE_NORM);

	a.response.size = between(m, 1, 5);
	a.response.alpha = 0.5;
	random_add(m, FF_OP_LOCAL_RESPONSE_NORM, &a, &in, 1, in);
}
