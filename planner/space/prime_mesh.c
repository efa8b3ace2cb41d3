/* Configs on a mesh of prime factors.  SPDX-License-Identifier: Apache-2.0 */
#include "prime_mesh.h"

#include "carry_config.h"
#include "gcd.h"

#define MOST_AXES 32

/* Prime factors of `n`, the largest first. */
static uint32_t factors(uint32_t n, uint32_t ret[MOST_AXES])
{
	uint32_t found[MOST_AXES], count = 0;

	for (uint32_t p = 2; n > 1; p++)
		for (; n % p == 0; n /= p)
			found[count++] = p;
	for (uint32_t i = 0; i < count; i++)
		ret[i] = found[count - 1 - i];
	return count;
}

/* ---- frames ---- */

struct ff_prime_mesh_frame ff_prime_mesh_whole(const struct ff_space *s)
{
	return (struct ff_prime_mesh_frame){
			0, s->n_devices, s->limits.mesh->batch / (uint32_t)s->graph->batch};
}

struct ff_prime_mesh_frame ff_prime_mesh_stage(const struct ff_space *s,
		const struct ff_strategy *plan, uint32_t stage, uint32_t n_stages)
{
	uint32_t width = s->n_devices % n_stages ? 0 : s->n_devices / n_stages;

	return (struct ff_prime_mesh_frame){stage * width, width, plan->micro_batches};
}

struct ff_prime_mesh_frame ff_prime_mesh_kept(
		const struct ff_space *s, const struct ff_strategy *plan, uint32_t node)
{
	const struct ff_config *c = &plan->config[node];
	struct ff_prime_mesh_frame f = {c->start, c->n_parts, plan->micro_batches};

	if (!ff_node_needs_config(s->graph, node))
		return (struct ff_prime_mesh_frame){0, s->n_devices, plan->micro_batches};
	for (uint32_t p = 0; c->list && p < c->n_parts; p++)
		f.first = p == 0 || c->list[p] < f.first ? c->list[p] : f.first;
	return f;
}

/* ---- whether ---- */

static bool parts_are_equal(
		const struct ff_space *s, uint32_t node, uint32_t micro, const struct ff_config *c)
{
	const struct ff_node *n = &s->graph->nodes[node];
	const uint32_t *length = s->limits.mesh->length + (size_t)node * FF_MAX_DIMS;
	/* the extents of a micro-batch's graph are those of a micro-batch already */
	uint32_t whole = s->limits.mesh->batch / (uint32_t)s->graph->batch;

	for (uint32_t d = 0; d < n->n_dims; d++) {
		bool sample = n->dim[d].label == FF_DIM_SAMPLE;
		uint32_t cut = c->degree[d] * (sample ? micro : 1);
		uint32_t extent = (uint32_t)n->dim[d].extent * (sample ? whole : 1);

		if (c->degree[d] > 1 && (extent % cut || (length[d] && length[d] % cut)))
			return false;
	}
	return true;
}

/* The number of the part on each of the devices; false: one has none, or two. */
static bool number_parts(const struct ff_node *n, const struct ff_config *c,
		const struct ff_prime_mesh_frame *f, uint32_t *part)
{
	uint16_t device[FF_MAX_DEVICES];

	if (c->n_parts != f->width)
		return false;
	ff_config_devices(n, c, device);
	for (uint32_t i = 0; i < f->width; i++)
		part[i] = FF_NONE;
	for (uint32_t p = 0; p < c->n_parts; p++) {
		uint32_t at = device[p] - f->first;

		if (device[p] < f->first || at >= f->width || part[at] != FF_NONE)
			return false;
		part[at] = p;
	}
	return true;
}

/* By axis the dim that it cuts (FF_NONE: none): that in which the part one step along it lies
 * elsewhere; false: there are two. */
static bool find_axes(const struct ff_node *n, const struct ff_config *c, const uint32_t *part,
		uint32_t n_axes, const uint32_t *size, uint32_t *dim)
{
	uint32_t coord[FF_MAX_DIMS], step = 1;

	for (uint32_t a = n_axes; a-- > 0; step *= size[a]) {
		dim[a] = FF_NONE;
		ff_config_coords(n, c, part[step], coord);
		for (uint32_t d = 0; d < n->n_dims; d++) {
			if (!coord[d])
				continue;
			if (dim[a] != FF_NONE)
				return false;
			dim[a] = d;
		}
	}
	return true;
}

/* Whether every device has the part that the axes give it. */
static bool is_on_mesh(const struct ff_node *n, const struct ff_config *c,
		const struct ff_prime_mesh_frame *f)
{
	uint32_t part[FF_MAX_DEVICES], size[MOST_AXES], dim[MOST_AXES], coord[FF_MAX_DIMS];
	uint32_t n_axes = factors(f->width, size);

	if (!number_parts(n, c, f, part) || !find_axes(n, c, part, n_axes, size, dim))
		return false;
	for (uint32_t i = 0; i < f->width; i++) {
		uint32_t want[FF_MAX_DIMS] = {0}, inside = f->width;

		for (uint32_t a = 0; a < n_axes; a++) {
			inside /= size[a];
			if (dim[a] != FF_NONE)
				want[dim[a]] = want[dim[a]] * size[a] + i / inside % size[a];
		}
		ff_config_coords(n, c, part[i], coord);
		for (uint32_t d = 0; d < n->n_dims; d++)
			if (coord[d] != want[d])
				return false;
	}
	return true;
}

static bool may_be_flat(const struct ff_space *s, uint32_t node)
{
	const struct ff_value *v = &s->graph->values[s->graph->nodes[node].out];

	for (uint32_t i = 0; i < v->rank; i++)
		if ((uint32_t)v->shape[i] % s->n_devices == 0)
			return true;
	return false;
}

bool ff_prime_mesh_admits(const struct ff_space *s, uint32_t node,
		const struct ff_prime_mesh_frame *f, const struct ff_config *c)
{
	if (ff_node_is_parameter(s->graph, node))
		return !c->n_parts && (!c->flat || may_be_flat(s, node));
	if (!ff_node_needs_config(s->graph, node))
		return true;
	if (!f->width || (s->limits.mesh->joint[node] != FF_NONE && c->replicas > 1))
		return false;
	return parts_are_equal(s, node, f->micro, c) && is_on_mesh(&s->graph->nodes[node], c, f);
}

/* ---- made to ---- */

void ff_prime_mesh_fit(const struct ff_space *s, uint32_t node, const struct ff_prime_mesh_frame *f,
		struct ff_config *ret)
{
	const struct ff_node *n = &s->graph->nodes[node];
	uint32_t sample = ff_node_sample_dim(n), least = sample == FF_NONE ? f->width : 1;
	struct ff_config c = {.replicas = 1};

	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c.degree[d] = 1;
	if (ff_node_is_parameter(s->graph, node)) {
		*ret = c; /* where it is read */
		return;
	}
	c.n_parts = f->width;
	c.start = (uint16_t)f->first;
	/* replicas side by side, or the samples */
	for (uint32_t copies = least; copies <= f->width; copies++) {
		uint32_t cut = f->width / copies;

		if (f->width % copies)
			continue;
		c.replicas = (uint16_t)copies;
		for (uint32_t k = 0; k < 2; k++) {
			c.replica_stride = (uint16_t)(copies == 1 ? 0 : k ? cut : 1);
			if (sample != FF_NONE) {
				c.degree[sample] = (uint16_t)cut;
				c.stride[sample] = (uint16_t)(cut == 1 ? 0 : k ? 1 : copies);
			}
			*ret = c;
			if (ff_prime_mesh_admits(s, node, f, &c))
				return;
		}
	}
}
