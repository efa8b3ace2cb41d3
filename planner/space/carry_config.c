/* Configs carried to another node and to another number of devices.
 * SPDX-License-Identifier: Apache-2.0 */
#include "carry_config.h"

#include "ff/machine.h"
#include "gcd.h"

#define REPLICAS FF_MAX_DIMS /* the axis of a view behind its dims */
#define AXES (FF_MAX_DIMS + 1)

/* A view: the same for dims and replicas. */
struct axes {
	uint32_t n_dims, start;
	uint32_t degree[AXES], stride[AXES];
};

/* ---- out of the file ---- */

uint32_t ff_carry_number(const struct ff_json *object, const char *key, uint32_t otherwise)
{
	const struct ff_json *v = object ? ff_json_get(object, key) : NULL;

	return v && v->type == FF_JSON_NUMBER && v->number >= 0 && v->number <= FF_MAX_DEVICES
			       ? (uint32_t)v->number
			       : otherwise;
}

static bool read_degrees(const struct ff_json *op, const struct ff_node *n, struct ff_config *c)
{
	const struct ff_json *degrees = ff_json_get(op, "degrees");
	uint32_t found = 0;

	*c = (struct ff_config){.n_parts = 1};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c->degree[d] = 1;
	if (!degrees || degrees->type != FF_JSON_OBJECT)
		return false;
	for (uint32_t d = 0; d < n->n_dims; d++) {
		c->degree[d] = (uint16_t)ff_carry_number(degrees, n->dim[d].name, 1);
		found += ff_json_get(degrees, n->dim[d].name) != NULL;
		c->n_parts *= c->degree[d];
		if (!c->n_parts || c->n_parts > FF_MAX_DEVICES)
			return false;
	}
	c->replicas = (uint16_t)ff_carry_number(op, "replicas", 1);
	c->n_parts *= c->replicas;
	return found == degrees->n && c->n_parts && c->n_parts <= FF_MAX_DEVICES;
}

/* The stride of an axis whose neighbouring parts stand `step` apart in the list. */
static uint16_t stride_of(const struct ff_json *list, uint32_t step)
{
	double stride = list->child[step].number - list->child[0].number;

	return stride > 0 && stride < FF_MAX_DEVICES ? (uint16_t)stride : 0;
}

/* A list of devices, as the view that it is: parts are numbered with the last dim fastest, copies
 * slowest.  False: it is none. */
static bool read_view_list(const struct ff_json *list, const struct ff_node *n, struct ff_config *c)
{
	uint32_t step = 1;

	c->start = (uint16_t)list->child[0].number;
	for (uint32_t d = n->n_dims; d-- > 0; step *= c->degree[d])
		c->stride[d] = c->degree[d] > 1 ? stride_of(list, step) : 0;
	c->replica_stride = c->replicas > 1 ? stride_of(list, step) : 0;
	for (uint32_t p = 0; p < c->n_parts; p++)
		if (list->child[p].number != ff_config_device(n, c, p))
			return false;
	return true;
}

static bool read_list(const struct ff_json *list, const struct ff_node *n, struct ff_arena *a,
		struct ff_config *c)
{
	uint16_t *device;

	if (list->n != c->n_parts)
		return false;
	for (uint32_t i = 0; i < list->n; i++)
		if (list->child[i].type != FF_JSON_NUMBER || list->child[i].number < 0 ||
				list->child[i].number >= FF_MAX_DEVICES)
			return false;
	if (read_view_list(list, n, c))
		return true;
	device = ff_arena_array(a, c->n_parts, sizeof(*device));
	for (uint32_t i = 0; device && i < list->n; i++)
		device[i] = (uint16_t)list->child[i].number;
	c->list = device;
	return device != NULL;
}

bool ff_carry_read(const struct ff_json *op, const struct ff_node *n, struct ff_arena *a,
		struct ff_config *ret)
{
	const struct ff_json *devices = ff_json_get(op, "devices"), *strides;
	struct ff_config c;

	if (!read_degrees(op, n, &c) || !devices)
		return false;
	if (devices->type == FF_JSON_ARRAY) {
		if (!read_list(devices, n, a, &c))
			return false;
		*ret = c;
		return true;
	}
	if (devices->type != FF_JSON_OBJECT)
		return false;
	strides = ff_json_get(devices, "strides");
	c.start = (uint16_t)ff_carry_number(devices, "start", 0);
	c.replica_stride = (uint16_t)ff_carry_number(devices, "replica_stride", 0);
	for (uint32_t d = 0; d < n->n_dims; d++)
		c.stride[d] = (uint16_t)ff_carry_number(strides, n->dim[d].name, 0);
	*ret = c;
	return true;
}

/* ---- to other devices ---- */

/* Axes in the order in which they give way: samples, copies, then those of the largest stride. */
static uint32_t choose_axis(const struct ff_node *n, const struct axes *x,
		bool (*may)(const struct ff_node *n, const struct axes *x, uint32_t axis,
				uint32_t k),
		uint32_t k)
{
	uint32_t sample = ff_node_sample_dim(n), best = FF_NONE;

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

/* Where no cut divides, samples that are whole by now are cut unevenly, and a parameter's parts
 * have copies, if they may.  False: it stays as it is. */
static bool grow(const struct ff_node *n, struct axes *x, uint32_t k, bool copies)
{
	uint32_t axis = choose_axis(n, x, may_grow, k), sample = ff_node_sample_dim(n);

	if (axis == FF_NONE && parts_of(x) == 1)
		axis = sample;
	else if (axis == FF_NONE && copies)
		axis = REPLICAS;
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

static struct axes axes_of(const struct ff_config *c, const struct ff_node *n)
{
	struct axes x = {.n_dims = n->n_dims, .start = c->start};

	for (uint32_t d = 0; d < FF_MAX_DIMS; d++) {
		x.degree[d] = d < n->n_dims ? c->degree[d] : 1;
		x.stride[d] = d < n->n_dims ? c->stride[d] : 0;
	}
	x.degree[REPLICAS] = c->replicas;
	x.stride[REPLICAS] = c->replica_stride;
	return x;
}

/* As it was: on the devices that have the same numbers. */
static enum ff_carried stay(const struct ff_config *c, const struct ff_node *n, uint32_t from,
		uint32_t to, struct ff_config *ret)
{
	struct ff_error inner;

	if (ff_config_check(n, c, to, &inner) < 0)
		return FF_CARRIED_NOT;
	*ret = *c;
	return from == to ? FF_CARRIED : FF_CARRIED_LESS;
}

static enum ff_carried carry(const struct ff_config *c, const struct ff_node *n, uint32_t from,
		uint32_t to, bool copies, struct ff_config *ret)
{
	uint32_t common = ff_gcd(from, to);
	struct axes x = axes_of(c, n);
	struct ff_error inner;
	struct ff_config r;
	bool whole;

	if (from == to && stay(c, n, from, to, ret) == FF_CARRIED)
		return FF_CARRIED;
	if (c->list || !shrink(n, &x, from / common))
		return stay(c, n, from, to, ret);
	whole = to == common || (c->n_parts == 1 && from > 1) || grow(n, &x, to / common, copies);
	whole = clamp(n, &x) && whole;
	x.start = (uint32_t)((uint64_t)x.start * to / from);
	to_config(n, &x, &r);
	if (ff_config_check(n, &r, to, &inner) < 0)
		return FF_CARRIED_NOT;
	*ret = r;
	return whole ? FF_CARRIED : FF_CARRIED_LESS;
}

enum ff_carried ff_carry_config(const struct ff_config *c, const struct ff_node *n, uint32_t from,
		uint32_t to, struct ff_config *ret)
{
	return carry(c, n, from, to, false, ret);
}

void ff_carry_parameter(const struct ff_config *c, const struct ff_node *n, uint32_t from,
		uint32_t to, struct ff_config *ret)
{
	struct ff_config r;

	if (carry(c, n, from, to, true, &r) != FF_CARRIED) {
		r = (struct ff_config){.replicas = 1, .flat = true};
		for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
			r.degree[d] = 1;
	}
	*ret = r;
}

void ff_carry_samples(
		const struct ff_node *n, uint32_t first, uint32_t width, struct ff_config *ret)
{
	uint32_t s = ff_node_sample_dim(n), parts = 1;

	*ret = (struct ff_config){.replicas = 1, .start = (uint16_t)first};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		ret->degree[d] = 1;
	if (s != FF_NONE)
		parts = (uint32_t)n->dim[s].extent < width ? (uint32_t)n->dim[s].extent : width;
	ret->n_parts = parts;
	if (parts > 1) {
		ret->degree[s] = (uint16_t)parts;
		ret->stride[s] = 1;
	}
}
