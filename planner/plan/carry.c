/* Configs carried to another node and to another number of devices.
 * SPDX-License-Identifier: Apache-2.0 */
#include "carry.h"

#include "ff/machine.h"

#define REPLICAS FF_MAX_DIMS /* the axis of a view behind its dims */
#define AXES (FF_MAX_DIMS + 1)

/* A view: the same for dims and replicas. */
struct axes {
	uint32_t n_dims, start;
	uint32_t degree[AXES], stride[AXES];
};

static uint32_t gcd(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* ---- out of the file ---- */

static uint32_t number_of(const struct ff_json *object, const char *key, uint32_t otherwise)
{
	const struct ff_json *v = object ? ff_json_get(object, key) : NULL;

	return v && v->type == FF_JSON_NUMBER && v->number >= 0 && v->number <= FF_MAX_DEVICES
			       ? (uint32_t)v->number
			       : otherwise;
}

/* Strides of a list of devices, where it is a view: parts are numbered with the last dim fastest,
 * copies slowest. */
static bool read_list(const struct ff_json *list, const uint32_t *degree, uint32_t n_dims,
		struct axes *ret)
{
	uint32_t parts = 1, step = 1;

	for (uint32_t d = 0; d < AXES; d++)
		parts *= degree[d];
	if (list->n != parts)
		return false;
	ret->start = (uint32_t)list->child[0].number;
	for (uint32_t k = n_dims + 1; k-- > 0;) {
		uint32_t d = k ? k - 1 : REPLICAS; /* copies come last here */

		if (degree[d] > 1) {
			double stride = list->child[step].number - list->child[0].number;

			if (stride < 0)
				return false;
			ret->stride[d] = (uint32_t)stride;
		}
		step *= degree[d];
	}
	for (uint32_t p = 0; p < parts; p++) {
		uint32_t rest = p, device = ret->start;

		for (uint32_t k = n_dims + 1; k-- > 0;) {
			uint32_t d = k ? k - 1 : REPLICAS;

			device += rest % degree[d] * ret->stride[d];
			rest /= degree[d];
		}
		if ((double)device != list->child[p].number)
			return false;
	}
	return true;
}

static bool read_view(const struct ff_json *view, const struct ff_node *n, struct axes *ret)
{
	const struct ff_json *strides = ff_json_get(view, "strides");

	ret->start = number_of(view, "start", 0);
	ret->stride[REPLICAS] = number_of(view, "replica_stride", 0);
	for (uint32_t d = 0; d < n->n_dims; d++)
		ret->stride[d] = number_of(strides, n->dim[d].name, 0);
	return true;
}

/* False: it cuts a dim that the node has not, or its devices are in no order. */
static bool read_axes(const struct ff_json *op, const struct ff_node *n, struct axes *ret)
{
	const struct ff_json *degrees = ff_json_get(op, "degrees");
	const struct ff_json *devices = ff_json_get(op, "devices");
	uint32_t found = 0, parts = 1;

	*ret = (struct axes){.n_dims = n->n_dims};
	for (uint32_t d = 0; d < AXES; d++)
		ret->degree[d] = 1;
	for (uint32_t d = 0; d < n->n_dims; d++) {
		ret->degree[d] = number_of(degrees, n->dim[d].name, 1);
		found += degrees && ff_json_get(degrees, n->dim[d].name);
	}
	ret->degree[REPLICAS] = number_of(op, "replicas", 1);
	if (!degrees || degrees->type != FF_JSON_OBJECT || found != degrees->n || !devices)
		return false;
	for (uint32_t d = 0; d < AXES; d++) {
		parts *= ret->degree[d];
		if (!parts || parts > FF_MAX_DEVICES)
			return false;
	}
	if (devices->type == FF_JSON_ARRAY)
		return read_list(devices, ret->degree, n->n_dims, ret);
	return devices->type == FF_JSON_OBJECT && read_view(devices, n, ret);
}

/* ---- to other devices ---- */

static uint32_t sample_axis(const struct ff_node *n)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (n->dim[d].label == FF_DIM_SAMPLE)
			return d;
	return FF_NONE;
}

/* Axes in the order in which they give way: samples, copies, then those of the largest stride. */
static uint32_t choose_axis(const struct ff_node *n, const struct axes *x,
		bool (*may)(const struct ff_node *n, const struct axes *x, uint32_t axis,
				uint32_t k),
		uint32_t k)
{
	uint32_t sample = sample_axis(n), best = FF_NONE;

	if (sample != FF_NONE && may(n, x, sample, k))
		return sample;
	if (may(n, x, REPLICAS, k))
		return REPLICAS;
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (may(n, x, d, k) && (best == FF_NONE || x->stride[d] > x->stride[best]))
			best = d;
	return best;
}

static bool may_shrink(const struct ff_node *n, const struct axes *x, uint32_t axis, uint32_t k)
{
	(void)n;
	return x->degree[axis] % k == 0;
}

/* Copies grow only where there are some: nobody asked for more work. */
static bool may_grow(const struct ff_node *n, const struct axes *x, uint32_t axis, uint32_t k)
{
	if (axis == REPLICAS)
		return x->degree[axis] > 1;
	return (x->degree[axis] > 1 || n->dim[axis].label == FF_DIM_SAMPLE) &&
	       (uint32_t)n->dim[axis].extent % (x->degree[axis] * k) == 0;
}

/* Strides of what lies beyond `axis`, which had `before` parts and has `after`. */
static void move_beyond(struct axes *x, uint32_t axis, uint32_t before, uint32_t after)
{
	uint32_t span = x->stride[axis] * before;

	for (uint32_t d = 0; d < AXES; d++)
		if (d != axis && x->stride[d] >= span)
			x->stride[d] = x->stride[d] / before * after;
}

/* The stride of an axis that was whole: behind all others. */
static uint32_t span_of(const struct axes *x)
{
	uint32_t span = 1;

	for (uint32_t d = 0; d < AXES; d++)
		if (x->degree[d] > 1 && x->stride[d] * x->degree[d] > span)
			span = x->stride[d] * x->degree[d];
	return span;
}

static uint32_t parts_of(const struct axes *x)
{
	uint32_t parts = 1;

	for (uint32_t d = 0; d < AXES; d++)
		parts *= x->degree[d];
	return parts;
}

static bool shrink(const struct ff_node *n, struct axes *x, uint32_t k)
{
	uint32_t axis;

	if (k == 1 || parts_of(x) == 1)
		return true;
	axis = choose_axis(n, x, may_shrink, k);
	if (axis == FF_NONE)
		return false;
	move_beyond(x, axis, x->degree[axis], x->degree[axis] / k);
	x->degree[axis] /= k;
	return true;
}

/* False: it stays as it is. */
static bool grow(const struct ff_node *n, struct axes *x, uint32_t from, uint32_t k)
{
	uint32_t axis;

	if (k == 1 || (parts_of(x) == 1 && from > 1))
		return true;
	axis = choose_axis(n, x, may_grow, k);
	if (axis == FF_NONE)
		return false;
	if (x->degree[axis] == 1)
		x->stride[axis] = span_of(x);
	else
		move_beyond(x, axis, x->degree[axis], x->degree[axis] * k);
	x->degree[axis] *= k;
	return true;
}

/* Whatever cuts a dim into more parts than it has elements: fewer do.  True: nothing did. */
static bool clamp(const struct ff_node *n, struct axes *x)
{
	bool all = true;

	for (uint32_t d = 0; d < n->n_dims; d++) {
		uint32_t degree = x->degree[d];

		while (degree > (uint32_t)n->dim[d].extent || x->degree[d] % degree)
			degree--;
		all = all && degree == x->degree[d];
		x->degree[d] = degree;
	}
	return all;
}

static void to_config(const struct ff_node *n, const struct axes *x, struct ff_config *ret)
{
	*ret = (struct ff_config){.n_parts = parts_of(x),
			.replicas = (uint16_t)x->degree[REPLICAS],
			.replica_stride = (uint16_t)x->stride[REPLICAS],
			.start = (uint16_t)x->start};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		ret->degree[d] = 1;
	for (uint32_t d = 0; d < n->n_dims; d++) {
		ret->degree[d] = (uint16_t)x->degree[d];
		ret->stride[d] = x->degree[d] > 1 ? (uint16_t)x->stride[d] : 0;
	}
	if (ret->replicas == 1)
		ret->replica_stride = 0;
}

enum ff_carried ff_carry_config(const struct ff_json *op, const struct ff_node *n, uint32_t from,
		uint32_t to, struct ff_config *ret)
{
	uint32_t common = gcd(from, to);
	struct ff_error inner;
	struct ff_config c;
	struct axes x;
	bool whole;

	if (!read_axes(op, n, &x) || !shrink(n, &x, from / common))
		return FF_CARRIED_NOT;
	whole = grow(n, &x, from, to / common);
	whole = clamp(n, &x) && whole;
	x.start = (uint32_t)((uint64_t)x.start * to / from);
	to_config(n, &x, &c);
	if (ff_config_check(n, &c, to, &inner) < 0)
		return FF_CARRIED_NOT;
	*ret = c;
	return whole ? FF_CARRIED : FF_CARRIED_LESS;
}
