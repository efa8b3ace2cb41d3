/* Executors for tests.  SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <math.h>

#include "chosen.h"
#include "ff/workspace.h"

int64_t rig_allocated;
uint32_t rig_kernels;

static int counting_kernel(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err)
{
	rig_kernels++;
	return chosen_backend()->kernel.open(dev, w, ret, err);
}

static int counting_alloc(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err)
{
	rig_allocated += (int64_t)bytes;
	return chosen_backend()->memory.alloc(dev, bytes, ret, err);
}

const struct ff_backend *rig_backend(bool bounce)
{
	static struct ff_backend backend[2];

	backend[bounce] = *chosen_backend();
	backend[bounce].memory.alloc = counting_alloc;
	backend[bounce].kernel.open = counting_kernel;
	backend[bounce].memory.of_host &= !bounce;
	return &backend[bounce];
}

void rig_open(struct rig *r, struct rig_setup of)
{
	struct ff_workspace_query query = {.backend = of.backend};
	struct ff_lower_options lower = {.bucket_bytes = of.bucket_bytes,
			.optimizer = of.optimizer,
			.group = of.opt->groups.of,
			.clip = of.opt->clip > 0,
			.workspace = ff_backend_workspace,
			.ctx = &query};
	struct ff_error err;

	RIG_OK(of.backend->device.open(0, &query.device, &err));
	RIG_OK(ff_lower(of.graph, of.machine, of.strategy, &lower, of.arena, &r->schedule, &err));
	of.backend->device.close(query.device);
	ff_workspace_finish(&query);
	ck_assert_msg(query.err.code == FF_OK, "%s", query.err.text);
	r->comm = of.comm;
	r->own_comm = !of.comm;
	if (!of.comm)
		RIG_OK(ff_comm_local(of.machine->n_devices, &r->comm, &err));
	RIG_OK(ff_executor_create(&r->schedule, of.backend, r->comm, of.data, of.opt, &r->x, &err));
}

void rig_close(struct rig *r)
{
	ff_executor_destroy(r->x);
	if (r->own_comm)
		r->comm->destroy(r->comm);
}

int64_t rig_volume(const struct ff_value *v)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < v->rank; i++)
		n *= v->shape[i];
	return n;
}

int rig_read(struct rig *r, bool gradients, struct ff_arena *a, const float **ret,
		struct ff_error *err)
{
	const struct ff_graph *g = r->schedule.graph;
	float *all = ff_arena_array(a, (size_t)ff_graph_parameters(g), sizeof(*all)), *at = all;
	int code = FF_OK;

	ck_assert_ptr_nonnull(all);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		if (!ff_node_is_parameter(g, i))
			continue;
		code = ff_executor_parameter(r->x, i,
				gradients ? FF_ARRAY_GRADIENTS : FF_ARRAY_WEIGHTS, at, err);
		at += rig_volume(&g->values[g->nodes[i].out]);
	}
	if (code < 0)
		return code;
	ck_assert_int_eq(at - all, ff_graph_parameters(g));
	*ret = all;
	return FF_OK;
}

const float *rig_weights(struct rig *r, bool gradients, struct ff_arena *a, int64_t *n)
{
	struct ff_error err;
	const float *all;

	*n = ff_graph_parameters(r->schedule.graph);
	RIG_OK(rig_read(r, gradients, a, &all, &err));
	return all;
}

static double largest(const float *v, int64_t n)
{
	double most = 0;

	for (int64_t k = 0; k < n; k++)
		most = fabs((double)v[k]) > most ? fabs((double)v[k]) : most;
	return most;
}

double rig_distance(const struct ff_graph *g, const float *a, const float *b, const char **name)
{
	double worst = 0, floor = largest(b, ff_graph_parameters(g)) / 10;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		int64_t n = rig_volume(&g->values[g->nodes[i].out]);
		double apart = 0, size;

		if (!ff_node_is_parameter(g, i))
			continue;
		size = largest(b, n);
		for (int64_t k = 0; k < n; k++) {
			double d = fabs((double)a[k] - (double)b[k]);

			apart = d > apart || isnan(d) ? d : apart;
		}
		if (apart > 0 || isnan(apart))
			apart /= size > floor ? size : floor;
		if (!(apart <= worst)) {
			worst = apart;
			*name = g->nodes[i].name;
		}
		a += n;
		b += n;
	}
	return worst;
}
