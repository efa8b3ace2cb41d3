/* Weights in and out: whole tensors by the names of the graph's parameters, whatever the
 * strategy.  SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/rewrite.h"
#include "process/agree.h"

/* A parameter as files have it: one of the graph before rewrites, part of one of this graph's. */
struct part {
	const char *name;
	struct ff_value value;     /* its shape */
	int64_t first, n_elements; /* of the whole, row-major */
};

static struct part part_of(const struct ff_graph *g, uint32_t node, uint32_t k)
{
	const struct ff_parameter_piece piece = ff_parameter_piece(g, node, k);
	struct part p = {.name = piece.name, .value = g->values[g->nodes[node].out]};
	int64_t row = ff_value_volume(&p.value) / p.value.shape[0];

	p.value.shape[0] = piece.n;
	p.first = piece.first * row;
	p.n_elements = piece.n * row;
	return p;
}

/* The optimizer's states are called state0.NAME and so on, what of gradients was not sent yet
 * residual.NAME, gradients that wait waiting0.NAME (the last step's) and so on. */
static void array_name(uint32_t array, const char *parameter, char ret[FF_TENSOR_NAME])
{
	if (array == FF_ARRAY_WEIGHTS)
		snprintf(ret, FF_TENSOR_NAME, "%s", parameter);
	else if (array == FF_ARRAY_GRADIENTS)
		snprintf(ret, FF_TENSOR_NAME, "grad.%s", parameter);
	else if (array == FF_ARRAY_RESIDUALS)
		snprintf(ret, FF_TENSOR_NAME, "residual.%s", parameter);
	else if (array >= FF_ARRAY_WAITING)
		snprintf(ret, FF_TENSOR_NAME, "waiting%u.%s", array - FF_ARRAY_WAITING, parameter);
	else
		snprintf(ret, FF_TENSOR_NAME, "state%u.%s", array - FF_ARRAY_STATES, parameter);
}

/* As PyTorch calls what a module keeps. */
static void kept_name(const struct ff_graph *g, uint32_t value, char ret[FF_TENSOR_NAME])
{
	const struct ff_value *v = &g->values[value];
	const struct ff_node *n = &g->nodes[v->producer];

	snprintf(ret, FF_TENSOR_NAME, "%s.%s", n->name,
			ff_op_row(n->op)->kept[v->port + n->n_kept - n->n_out]);
}

/* Where tensors go; NULL on ranks that do not write.  Where they must be `finite`, `path` is what
 * they are for. */
struct writing {
	struct ff_tensors_out *out;
	const char *path;
	bool finite;
};

/* The first element that is no number, or infinite; `n` where there is none. */
static int64_t find_stray(const float *x, int64_t n)
{
	int64_t i = 0;

	while (i < n && isfinite(x[i]))
		i++;
	return i;
}

/* Goes with the weights. */
static void declare_kept(const struct ff_graph *g, struct ff_tensors_out *out)
{
	for (uint32_t i = 0; i < g->n_values; i++) {
		char name[FF_TENSOR_NAME];

		if (!ff_value_is_kept(g, i))
			continue;
		kept_name(g, i, name);
		ff_tensors_declare(out, name, "F32", g->values[i].rank, g->values[i].shape);
	}
}

/* All ranks know; the first tells. */
static int check_written(const struct writing *w, const char *name, const float *x, int64_t n,
		struct ff_error *err)
{
	int64_t i = w->finite ? find_stray(x, n) : n;

	if (i == n)
		return FF_OK;
	ff_fail(err, FF_E_RUN,
			"%s: not written, as %s is %s at element %" PRId64
			": training diverged, or its data has what is no number",
			w->path, name, isnan(x[i]) ? "no number" : "infinite", i);
	if (!w->out)
		err->text[0] = '\0';
	return FF_E_RUN;
}

static int write_kept(struct ff_executor *x, const struct ff_graph *g, const struct writing *w,
		struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_values && code == FF_OK; i++) {
		size_t bytes = (size_t)g->values[i].shape[0] * FF_F32_BYTES;
		char name[FF_TENSOR_NAME];
		float *whole;

		if (!ff_value_is_kept(g, i))
			continue;
		whole = malloc(bytes);
		if (!whole)
			return ff_fail_memory(err);
		kept_name(g, i, name);
		code = ff_executor_kept(x, i, whole, err);
		if (code == FF_OK)
			code = check_written(w, name, whole, g->values[i].shape[0], err);
		if (code == FF_OK && w->out)
			code = ff_tensors_write(w->out, whole, bytes, err);
		free(whole);
	}
	return code;
}

void ff_weights_declare(const struct ff_graph *g, uint32_t array, struct ff_tensors_out *out)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		for (uint32_t k = 0; ff_node_is_parameter(g, i) && k < ff_parameter_pieces(g, i);
				k++) {
			const struct part p = part_of(g, i, k);
			char name[FF_TENSOR_NAME];

			array_name(array, p.name, name);
			ff_tensors_declare(out, name, "F32", p.value.rank, p.value.shape);
		}
	}
	if (array == FF_ARRAY_WEIGHTS)
		declare_kept(g, out);
}

static int write_parts(const struct ff_graph *g, uint32_t node, uint32_t array, const float *whole,
		const struct writing *w, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t k = 0; k < ff_parameter_pieces(g, node) && code == FF_OK; k++) {
		const struct part p = part_of(g, node, k);
		char name[FF_TENSOR_NAME];

		array_name(array, p.name, name);
		code = check_written(w, name, whole + p.first, p.n_elements, err);
		if (code == FF_OK && w->out)
			code = ff_tensors_write(w->out, whole + p.first,
					(size_t)p.n_elements * sizeof(*whole), err);
	}
	return code;
}

static int write_array(struct ff_executor *x, const struct ff_graph *g, uint32_t array,
		const struct writing *w, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		int64_t n = ff_value_volume(&g->values[g->nodes[i].out]);
		float *whole;

		if (!ff_node_is_parameter(g, i))
			continue;
		whole = malloc((size_t)n * sizeof(*whole));
		if (!whole)
			return ff_fail_memory(err);
		code = ff_executor_parameter(x, i, array, whole, err);
		if (code == FF_OK)
			code = write_parts(g, i, array, whole, w, err);
		free(whole);
	}
	return code == FF_OK && array == FF_ARRAY_WEIGHTS ? write_kept(x, g, w, err) : code;
}

int ff_weights_write(struct ff_executor *x, const struct ff_graph *g, uint32_t array,
		struct ff_tensors_out *out, struct ff_error *err)
{
	const struct writing w = {.out = out};

	return write_array(x, g, array, &w, err);
}

static bool same_shape(const struct ff_tensor *t, const struct ff_value *v)
{
	bool same = t->rank == v->rank;

	for (uint32_t i = 0; i < v->rank && same; i++)
		same = t->shape[i] == v->shape[i];
	return same;
}

static void shape_text(uint32_t rank, const int64_t *shape, char ret[128])
{
	size_t at = 0;

	ret[0] = '\0';
	for (uint32_t i = 0; i < rank && at < 100; i++)
		at += (size_t)snprintf(ret + at, 128 - at, "%s%" PRId64, i ? "x" : "", shape[i]);
}

static int check_tensor(const struct ff_tensors *f, const char *name, const struct ff_value *v,
		struct ff_error *err)
{
	const struct ff_tensor *t = ff_tensors_find(f, name);
	int64_t shape[FF_MAX_RANK];
	char want[128], have[128];

	if (!t)
		return ff_fail(err, FF_E_INPUT, "%s: there is no tensor %s", f->path, name);
	if (!ff_tensor_is_real(t))
		return ff_fail(err, FF_E_INPUT, "%s: %s is %s, expected real numbers", f->path,
				name, t->type);
	if (same_shape(t, v))
		return FF_OK;
	for (uint32_t i = 0; i < v->rank; i++)
		shape[i] = v->shape[i];
	shape_text(v->rank, shape, want);
	shape_text(t->rank, t->shape, have);
	return ff_fail(err, FF_E_INPUT, "%s: %s is %s, but the graph has %s", f->path, name, have,
			want);
}

/* The tensor of what is kept; NULL where a file of weights has none: then it begins anew. */
static const struct ff_tensor *find_kept(
		const struct ff_tensors *f, const struct ff_graph *g, uint32_t value)
{
	char name[FF_TENSOR_NAME];

	if (!ff_value_is_kept(g, value))
		return NULL;
	kept_name(g, value, name);
	return ff_tensors_find(f, name);
}

static int check_kept(const struct ff_tensors *f, const struct ff_graph *g, bool all,
		struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_values && code == FF_OK; i++) {
		char name[FF_TENSOR_NAME];

		if (!ff_value_is_kept(g, i) || (!all && !find_kept(f, g, i)))
			continue;
		kept_name(g, i, name);
		code = check_tensor(f, name, &g->values[i], err);
	}
	return code;
}

/* `n` arrays of a parameter, from `first` on. */
static int check_arrays(const struct ff_tensors *f, const struct part *p, uint32_t first,
		uint32_t n, struct ff_error *err)
{
	char name[FF_TENSOR_NAME];
	int code = FF_OK;

	for (uint32_t k = 0; k < n && code == FF_OK; k++) {
		array_name(first + k, p->name, name);
		code = check_tensor(f, name, &p->value, err);
	}
	return code;
}

static int check_part(const struct ff_tensors *f, const struct part *p, uint32_t states,
		uint32_t waiting, struct ff_error *err)
{
	char name[FF_TENSOR_NAME];
	int code = check_tensor(f, p->name, &p->value, err);

	if (code == FF_OK)
		code = check_arrays(f, p, FF_ARRAY_STATES, states, err);
	if (code == FF_OK)
		code = check_arrays(f, p, FF_ARRAY_WAITING, waiting, err);
	array_name(FF_ARRAY_RESIDUALS, p->name, name);
	if (code == FF_OK && ff_tensors_find(f, name))
		code = check_tensor(f, name, &p->value, err);
	return code;
}

/* Of every parameter there are the weights, so many states and gradients that wait. */
static int check(const struct ff_tensors *f, const struct ff_graph *g, uint32_t states,
		uint32_t waiting, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		uint32_t n = ff_node_is_parameter(g, i) ? ff_parameter_pieces(g, i) : 0;

		for (uint32_t k = 0; k < n && code == FF_OK; k++) {
			const struct part p = part_of(g, i, k);

			code = check_part(f, &p, states, waiting, err);
		}
	}
	return code;
}

int ff_weights_open_file(struct ff_run_plan *p, const char *path, struct ff_error *err)
{
	struct ff_tensors *f = ff_arena_alloc(&p->arena, sizeof(*f));
	int code;

	if (!f)
		return ff_fail_memory(err);
	code = ff_tensors_open(path, &p->arena, f, err);
	if (code == FF_OK)
		p->weights = f;
	return code;
}

void ff_weights_close(struct ff_run_plan *p)
{
	if (p->weights)
		ff_tensors_close(p->weights);
	p->weights = NULL;
	p->first = 0;
}

int ff_weights_check(const struct ff_run_plan *p, struct ff_error *err)
{
	int code = check(p->weights, &p->graph, p->optimizer->states, p->travel.staleness, err);

	return code < 0 ? code : check_kept(p->weights, &p->graph, true, err);
}

/* What is there beside the parameters is said, not refused: a model's counters, or more
 * layers than the graph has. */
static void note_others(struct ff_run_plan *p)
{
	const struct ff_graph *g = &p->graph;
	uint32_t others = p->weights->n;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		others -= ff_node_is_parameter(g, i) ? ff_parameter_pieces(g, i) : 0;
	for (uint32_t i = 0; i < g->n_values; i++)
		others -= find_kept(p->weights, g, i) != NULL;
	if (others)
		ff_error_write(&p->note[FF_NOTE_WEIGHTS], FF_OK,
				"%.300s: %u of its %u tensors are no parameters of this graph",
				p->weights->path, others, p->weights->n);
}

int ff_weights_open(const char *path, struct ff_run_plan *p, struct ff_error *err)
{
	uint32_t sum;
	int code;

	if (!path || p->weights)
		return FF_OK;
	if ((code = ff_weights_open_file(p, path, err)) < 0 ||
			(ff_tensors_is_summed(p->weights) &&
					(code = ff_tensors_check(p->weights, &sum, err)) < 0) ||
			(code = check(p->weights, &p->graph, 0, 0, err)) < 0 ||
			(code = check_kept(p->weights, &p->graph, false, err)) < 0)
		return code;
	note_others(p);
	return FF_OK;
}

/* So many elements, all of them numbers. */
static int read_tensor(struct ff_run_plan *p, const struct ff_tensor *t, int64_t n, float *whole,
		struct ff_error *err)
{
	int code = ff_tensors_read(p->weights, t, whole, err);
	int64_t i = code == FF_OK ? find_stray(whole, n) : n;

	if (code < 0)
		return code;
	if (i < n)
		return ff_fail(err, FF_E_INPUT,
				"%s: %s is %s at element %" PRId64 ", expected numbers",
				p->weights->path, t->name,
				isnan(whole[i]) ? "no number" : "infinite", i);
	p->weights_hash = ff_hash_mix(p->weights_hash, ff_fnv1a(whole, (size_t)n * sizeof(*whole)));
	return FF_OK;
}

static int load_array(struct ff_run_plan *p, const struct ff_graph *g, struct ff_executor *x,
		uint32_t node, uint32_t array, struct ff_error *err)
{
	int64_t n = ff_value_volume(&g->values[g->nodes[node].out]);
	float *whole = calloc((size_t)n, sizeof(*whole));
	int code = whole ? FF_OK : ff_fail_memory(err);

	for (uint32_t k = 0; k < ff_parameter_pieces(g, node) && code == FF_OK; k++) {
		const struct part part = part_of(g, node, k);
		const struct ff_tensor *t;
		char name[FF_TENSOR_NAME];

		array_name(array, part.name, name);
		t = ff_tensors_find(p->weights, name);
		if (t) /* only residuals may lack */
			code = read_tensor(p, t, part.n_elements, whole + part.first, err);
	}
	if (code == FF_OK)
		code = ff_executor_put_parameter(x, node, array, whole, err);
	free(whole);
	return code;
}

static int load_kept(struct ff_run_plan *p, const struct ff_graph *g, struct ff_executor *x,
		struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_values && code == FF_OK; i++) {
		const struct ff_tensor *t = find_kept(p->weights, g, i);
		float *whole;

		if (!t)
			continue;
		whole = malloc((size_t)g->values[i].shape[0] * sizeof(*whole));
		if (!whole)
			return ff_fail_memory(err);
		code = read_tensor(p, t, g->values[i].shape[0], whole, err);
		if (code == FF_OK)
			code = ff_executor_put_kept(x, i, whole, err);
		free(whole);
	}
	return code;
}

/* Without it nothing is left to be sent: gradients were not compressed when it was written. */
static bool has_residual(const struct ff_run_plan *p, const struct ff_graph *g, uint32_t node)
{
	bool has = false;

	for (uint32_t k = 0; p->first && k < ff_parameter_pieces(g, node); k++) {
		char name[FF_TENSOR_NAME];

		array_name(FF_ARRAY_RESIDUALS, ff_parameter_piece(g, node, k).name, name);
		has = has || ff_tensors_find(p->weights, name);
	}
	return has;
}

int ff_weights_load(struct ff_run_plan *p, const struct ff_graph *g, struct ff_executor *x,
		struct ff_error *err)
{
	uint32_t states = p->first ? p->optimizer->states : 0;
	int code = FF_OK;

	p->weights_hash = 0;
	for (uint32_t i = 0; p->weights && i < g->n_nodes && code == FF_OK; i++) {
		if (!ff_node_is_parameter(g, i))
			continue;
		code = load_array(p, g, x, i, FF_ARRAY_WEIGHTS, err);
		for (uint32_t k = 0; k < states && code == FF_OK; k++)
			code = load_array(p, g, x, i, FF_ARRAY_STATES + k, err);
		for (uint32_t k = 0; p->first && k < p->travel.staleness && code == FF_OK; k++)
			code = load_array(p, g, x, i, FF_ARRAY_WAITING + k, err);
		if (code == FF_OK && p->travel.codec && has_residual(p, g, i))
			code = load_array(p, g, x, i, FF_ARRAY_RESIDUALS, err);
	}
	return code == FF_OK && p->weights ? load_kept(p, g, x, err) : code;
}

/* On the first rank: the file up to its first tensor. */
static int begin(const struct ff_run_plan *p, const struct ff_saving *s, struct ff_tensors_out *ret,
		struct ff_error *err)
{
	int code = ff_tensors_create(s->path, ret, err);

	if (code < 0)
		return code;
	if (s->sums)
		ff_tensors_sum(ret);
	if (s->n_notes)
		ff_tensors_describe(ret, s->note_key, s->note, s->n_notes);
	ff_weights_declare(&p->graph, FF_ARRAY_WEIGHTS, ret);
	for (uint32_t k = 0; k < s->states; k++)
		ff_weights_declare(&p->graph, FF_ARRAY_STATES + k, ret);
	for (uint32_t k = 0; k < s->waiting; k++)
		ff_weights_declare(&p->graph, FF_ARRAY_WAITING + k, ret);
	if (s->residuals)
		ff_weights_declare(&p->graph, FF_ARRAY_RESIDUALS, ret);
	return FF_OK;
}

int ff_weights_save(struct ff_run_plan *p, struct ff_comm *comm, struct ff_executor *x,
		const struct ff_saving *s, struct ff_error *err)
{
	struct ff_tensors_out out = {.file = {.fd = -1}}, *to = comm->rank == 0 ? &out : NULL;
	const struct writing w = {to, s->path, true};
	int code = ff_agree_code(comm, to ? begin(p, s, to, err) : FF_OK, err);

	if (code == FF_OK)
		code = write_array(x, &p->graph, FF_ARRAY_WEIGHTS, &w, err);
	for (uint32_t k = 0; k < s->states && code == FF_OK; k++)
		code = write_array(x, &p->graph, FF_ARRAY_STATES + k, &w, err);
	for (uint32_t k = 0; k < s->waiting && code == FF_OK; k++)
		code = write_array(x, &p->graph, FF_ARRAY_WAITING + k, &w, err);
	if (code == FF_OK && s->residuals)
		code = write_array(x, &p->graph, FF_ARRAY_RESIDUALS, &w, err);
	if (code == FF_OK && to)
		code = ff_tensors_commit(to, err);
	ff_tensors_drop(&out);
	return code;
}
