/* Loops of broadcasts.  SPDX-License-Identifier: Apache-2.0 */
#include "loops.h"

#include <string.h>

/* Axes before they are sorted and merged; sink: 0 along axes that are added up. */
struct axes {
	uint32_t rank;
	int64_t n[FF_MAX_RANK], sink[FF_MAX_RANK], stride[FF_LOOP_READ][FF_MAX_RANK];
};

static void put_axis(const struct axes *from, uint32_t axis, struct ff_loops *to, uint32_t at)
{
	to->n[at] = from->n[axis];
	for (uint32_t k = 0; k < FF_LOOP_READ; k++)
		to->stride[k][at] = from->stride[k][axis];
}

/* How far one step along an axis goes in what is read. */
static int64_t reach(const struct axes *a, uint32_t axis)
{
	int64_t most = 0;

	for (uint32_t k = 0; k < FF_LOOP_READ; k++)
		if (a->stride[k][axis] > most)
			most = a->stride[k][axis];
	return most;
}

/* Axes of more than one step, those of the sink first, each kind by falling strides. */
static uint32_t sort_axes(const struct axes *a, uint32_t sorted[FF_MAX_RANK], uint32_t *kept)
{
	uint32_t n = 0;

	*kept = 0;
	for (uint32_t i = 0; i < a->rank; i++) {
		uint32_t at = n;

		if (a->n[i] == 1)
			continue;
		for (; at > 0; at--) {
			uint32_t other = sorted[at - 1];
			bool before = a->sink[i] != a->sink[other] ? a->sink[i] > a->sink[other]
								   : reach(a, i) > reach(a, other);

			if (!before)
				break;
			sorted[at] = other;
		}
		sorted[at] = i;
		n++;
		*kept += a->sink[i] != 0;
	}
	return n;
}

/* Without axes of one step, those of the sink in its order, then the others, largest stride of
 * what is read first; neighbours that are one run on all sides are one. */
static void fill(const struct axes *axes, struct ff_loops *ret)
{
	uint32_t sorted[FF_MAX_RANK], kept, n = sort_axes(axes, sorted, &kept);

	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = ret->rank;
		bool run = i && i != kept;

		for (uint32_t k = 0; run && k < FF_LOOP_READ; k++)
			run = ret->stride[k][at - 1] ==
			      axes->stride[k][sorted[i]] * axes->n[sorted[i]];
		if (run) {
			int64_t steps = ret->n[at - 1];

			put_axis(axes, sorted[i], ret, at - 1);
			ret->n[at - 1] *= steps;
			continue;
		}
		put_axis(axes, sorted[i], ret, at);
		ret->rank++;
		ret->kept += i < kept;
	}
}

/* Strides of a dense shard `region` of `o` by the last axes of something of `rank`: 0 where it
 * has one element. */
static void find_strides(const struct ff_operand *o, const struct ff_region *region, uint32_t rank,
		int64_t stride[FF_MAX_RANK])
{
	uint32_t missing = rank - o->rank;
	int64_t dense[FF_MAX_RANK];

	ff_region_strides(o->order, region, dense);
	for (uint32_t i = 0; i < rank; i++)
		stride[i] = i < missing || ff_region_size(region, i - missing) == 1
					    ? 0
					    : dense[i - missing];
}

void ff_loops_binary(const struct ff_work *w, int sink, struct ff_loops *ret)
{
	const struct ff_node *n = w->node;
	struct axes a = {.rank = n->out_map[0].rank};
	int64_t *out = a.stride[FF_LOOP_Z];

	for (uint32_t i = 0; i < a.rank; i++)
		a.n[i] = ff_region_size(&w->out[0], i);
	for (uint32_t k = 0; k < 2; k++)
		find_strides(&n->in_map[k], &w->in[k], a.rank, a.stride[k]);
	find_strides(&n->out_map[0], &w->out[0], a.rank, out);
	memcpy(a.sink, sink < 0 ? out : a.stride[sink], sizeof(a.sink));
	fill(&a, ret);
}

void ff_loops_alike(const struct ff_work *w, struct ff_loops *ret)
{
	const struct ff_operand *in = w->node->in_map;
	struct axes a = {.rank = in[0].rank};

	for (uint32_t i = 0; i < a.rank; i++)
		a.n[i] = ff_region_size(&w->in[0], i);
	for (uint32_t k = 0; k < 2; k++)
		ff_region_strides(in[k].order, &w->in[k], a.stride[k]);
	memcpy(a.sink, a.stride[FF_LOOP_X], sizeof(a.sink));
	fill(&a, ret);
}

static bool is_reduced(const struct ff_reduce_attrs *a, uint32_t axis)
{
	for (int32_t i = 0; i < a->n_axes; i++)
		if (a->axis[i] == (int32_t)axis)
			return true;
	return false;
}

void ff_loops_reduce(const struct ff_work *w, bool backward, struct ff_loops *ret)
{
	const struct ff_node *n = w->node;
	const struct ff_reduce_attrs *r = &n->attrs.reduce;
	struct axes a = {.rank = n->in_map[0].rank};
	int64_t in[FF_MAX_RANK], dense[FF_MAX_RANK], out[FF_MAX_RANK] = {0};
	uint32_t port = 0;

	ff_region_strides(n->in_map[0].order, &w->in[0], in);
	ff_region_strides(n->out_map[0].order, &w->out[0], dense);
	for (uint32_t i = 0; i < a.rank; i++) {
		bool reduced = is_reduced(r, i);

		a.n[i] = ff_region_size(&w->in[0], i);
		if (!reduced)
			out[i] = dense[port];
		port += !reduced || r->keep;
	}
	memcpy(a.sink, backward ? in : out, sizeof(a.sink));
	memcpy(a.stride[FF_LOOP_X], in, sizeof(in));
	if (backward)
		memcpy(a.stride[FF_LOOP_Y], out, sizeof(out));
	if (backward)
		memcpy(a.stride[FF_LOOP_Z], out, sizeof(out));
	fill(&a, ret);
}

/* Steps of what has the axes that stay, by those of the input: of `region` of `o`, 0 along the
 * others. */
static void strides_of_rest(const struct ff_node *n, const struct ff_operand *o,
		const struct ff_region *region, bool keep, int64_t ret[FF_MAX_RANK])
{
	int64_t dense[FF_MAX_RANK];
	uint32_t at = 0;

	ff_region_strides(o->order, region, dense);
	for (uint32_t i = 0; i < n->in_map[0].rank; i++) {
		bool reduced = is_reduced(&n->attrs.reduce, i);

		ret[i] = reduced ? 0 : dense[at];
		at += !reduced || keep;
	}
}

void ff_loops_statistics(const struct ff_work *w, struct ff_loops *ret)
{
	const struct ff_operand *in = &w->node->in_map[0];
	struct axes a = {.rank = in->rank};

	ff_region_strides(in->order, &w->in[0], a.stride[FF_LOOP_X]);
	strides_of_rest(w->node, w->node->out_map, &w->out[0], false, a.sink);
	for (uint32_t i = 0; i < a.rank; i++) {
		a.n[i] = ff_region_size(&w->in[0], i);
		a.stride[FF_LOOP_Y][i] = a.sink[i] /= 2;
	}
	fill(&a, ret);
}

void ff_loops_largest(const struct ff_work *w, bool backward, struct ff_loops *ret)
{
	const struct ff_node *n = w->node;
	struct axes a = {.rank = n->in_map[0].rank};
	int64_t pairs[FF_MAX_RANK], out[FF_MAX_RANK];

	strides_of_rest(n, &n->in_map[1], &w->in[1], false, pairs);
	strides_of_rest(n, n->out_map, &w->out[0], n->attrs.reduce.keep, out);
	for (uint32_t i = 0; i < a.rank; i++) {
		bool gone = !backward && is_reduced(&n->attrs.reduce, i);

		a.n[i] = gone ? 1 : ff_region_size(&w->in[0], i);
	}
	if (backward)
		ff_region_strides(n->in_map[0].order, &w->in[0], a.stride[FF_LOOP_X]);
	memcpy(a.sink, backward ? a.stride[FF_LOOP_X] : out, sizeof(a.sink));
	memcpy(a.stride[backward ? FF_LOOP_Y : FF_LOOP_X], pairs, sizeof(pairs));
	if (backward)
		memcpy(a.stride[FF_LOOP_Z], out, sizeof(out));
	fill(&a, ret);
}

void ff_loops_expand(const struct ff_work *w, bool backward, struct ff_loops *ret)
{
	const struct ff_node *n = w->node;
	struct axes a = {.rank = n->out_map[0].rank};
	int64_t *in = a.stride[FF_LOOP_X], *out = a.stride[FF_LOOP_Z];

	for (uint32_t i = 0; i < a.rank; i++)
		a.n[i] = ff_region_size(&w->out[0], i);
	find_strides(&n->in_map[0], &w->in[0], a.rank, in);
	find_strides(&n->out_map[0], &w->out[0], a.rank, out);
	memcpy(a.sink, backward ? in : out, sizeof(a.sink));
	memset(backward ? in : out, 0, sizeof(a.sink));
	fill(&a, ret);
}

int64_t ff_reduce_count(const struct ff_node *n)
{
	int64_t count = 1;

	for (int32_t i = 0; i < n->attrs.reduce.n_axes; i++)
		count *= n->in_map[0].shape[n->attrs.reduce.axis[i]];
	return count;
}

void ff_loops_matrices(const struct ff_work *w, uint32_t side, bool back, struct ff_loops *ret)
{
	const struct ff_node *n = w->node;
	const struct ff_operand *o = side < 2 ? &n->in_map[side] : n->out_map;
	const struct ff_region *region = side < 2 ? &w->in[side] : w->out;
	struct axes a = {.rank = o->rank};
	int64_t shard[FF_MAX_RANK], plain[FF_MAX_RANK], step = 1;

	find_strides(o, region, a.rank, shard);
	for (uint32_t i = a.rank; i-- > 0;) {
		a.n[i] = ff_region_size(i + 2 < a.rank ? w->out : region, i);
		plain[i] = step;
		step *= a.n[i];
	}
	memcpy(a.sink, back ? shard : plain, sizeof(a.sink));
	memcpy(a.stride[FF_LOOP_X], back ? plain : shard, sizeof(shard));
	fill(&a, ret);
}
