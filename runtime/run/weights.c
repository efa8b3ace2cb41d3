/* Weights in and out: whole tensors by the names of the graph's parameters, whatever the
 * strategy; and checkpoints, which have the optimizer's states and the step besides.
 * SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agree.h"

#define CHECKPOINT_FORMAT "ffsoap checkpoint"
#define CHECKPOINT_VERSION "1"

static int64_t volume(const struct ff_value *v)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < v->rank; i++)
		n *= v->shape[i];
	return n;
}

/* The optimizer's states are called state0.NAME and so on. */
static void array_name(uint32_t array, const char *parameter, char ret[FF_TENSOR_NAME])
{
	if (array == FF_ARRAY_WEIGHTS)
		snprintf(ret, FF_TENSOR_NAME, "%s", parameter);
	else if (array == FF_ARRAY_GRADIENTS)
		snprintf(ret, FF_TENSOR_NAME, "grad.%s", parameter);
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

static int write_kept(struct ff_executor *x, const struct ff_graph *g, struct ff_tensors_out *out,
		struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_values && code == FF_OK; i++) {
		size_t bytes = (size_t)g->values[i].shape[0] * FF_F32_BYTES;
		float *whole;

		if (!ff_value_is_kept(g, i))
			continue;
		whole = malloc(bytes);
		if (!whole)
			return ff_fail_memory(err);
		code = ff_executor_kept(x, i, whole, err);
		if (code == FF_OK && out)
			code = ff_tensors_write(out, whole, bytes, err);
		free(whole);
	}
	return code;
}

void ff_weights_declare(const struct ff_graph *g, uint32_t array, struct ff_tensors_out *out)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_value *v = &g->values[g->nodes[i].out];
		char name[FF_TENSOR_NAME];

		if (!ff_node_is_parameter(g, i))
			continue;
		array_name(array, g->nodes[i].name, name);
		ff_tensors_declare(out, name, "F32", v->rank, v->shape);
	}
	if (array == FF_ARRAY_WEIGHTS)
		declare_kept(g, out);
}

int ff_weights_write(struct ff_executor *x, const struct ff_graph *g, uint32_t array,
		struct ff_tensors_out *out, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		int64_t n = volume(&g->values[g->nodes[i].out]);
		float *whole;

		if (!ff_node_is_parameter(g, i))
			continue;
		whole = malloc((size_t)n * sizeof(*whole));
		if (!whole)
			return ff_fail_memory(err);
		code = ff_executor_parameter(x, i, array, whole, err);
		if (code == FF_OK && out)
			code = ff_tensors_write(out, whole, (size_t)n * sizeof(*whole), err);
		free(whole);
	}
	return code == FF_OK && array == FF_ARRAY_WEIGHTS ? write_kept(x, g, out, err) : code;
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

/* Of every parameter there are the weights and so many states. */
static int check(const struct ff_tensors *f, const struct ff_graph *g, uint32_t states,
		struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		const struct ff_value *v = &g->values[g->nodes[i].out];
		char name[FF_TENSOR_NAME];

		if (!ff_node_is_parameter(g, i))
			continue;
		code = check_tensor(f, g->nodes[i].name, v, err);
		for (uint32_t k = 0; k < states && code == FF_OK; k++) {
			array_name(FF_ARRAY_STATES + k, g->nodes[i].name, name);
			code = check_tensor(f, name, v, err);
		}
	}
	return code;
}

static int open_tensors(struct ff_plan *p, const char *path, struct ff_error *err)
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

/* What is there beside the parameters is said, not refused: a model's counters, or more
 * layers than the graph has. */
static void note_others(struct ff_plan *p)
{
	const struct ff_graph *g = &p->graph;
	uint32_t others = p->weights->n;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		others -= ff_node_is_parameter(g, i);
	for (uint32_t i = 0; i < g->n_values; i++)
		others -= find_kept(p->weights, g, i) != NULL;
	if (others)
		ff_error_write(&p->note[FF_NOTE_WEIGHTS], FF_OK,
				"%.300s: %u of its %u tensors are no parameters of this graph",
				p->weights->path, others, p->weights->n);
}

int ff_weights_open(const struct ff_run_options *opt, struct ff_plan *p, struct ff_error *err)
{
	int code;

	if (!opt->weights || p->weights)
		return FF_OK;
	if ((code = open_tensors(p, opt->weights, err)) < 0 ||
			(code = check(p->weights, &p->graph, 0, err)) < 0 ||
			(code = check_kept(p->weights, &p->graph, false, err)) < 0)
		return code;
	note_others(p);
	return FF_OK;
}

static int load_array(struct ff_plan *p, struct ff_executor *x, uint32_t node, uint32_t array,
		struct ff_error *err)
{
	int64_t n = volume(&p->graph.values[p->graph.nodes[node].out]);
	float *whole = malloc((size_t)n * sizeof(*whole));
	char name[FF_TENSOR_NAME];
	int code;

	if (!whole)
		return ff_fail_memory(err);
	array_name(array, p->graph.nodes[node].name, name);
	code = ff_tensors_read(p->weights, ff_tensors_find(p->weights, name), whole, err);
	if (code == FF_OK)
		code = ff_executor_put_parameter(x, node, array, whole, err);
	free(whole);
	return code;
}

static int load_kept(struct ff_plan *p, struct ff_executor *x, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < p->graph.n_values && code == FF_OK; i++) {
		const struct ff_tensor *t = find_kept(p->weights, &p->graph, i);
		float *whole;

		if (!t)
			continue;
		whole = malloc((size_t)p->graph.values[i].shape[0] * sizeof(*whole));
		if (!whole)
			return ff_fail_memory(err);
		code = ff_tensors_read(p->weights, t, whole, err);
		if (code == FF_OK)
			code = ff_executor_put_kept(x, i, whole, err);
		free(whole);
	}
	return code;
}

int ff_weights_load(struct ff_plan *p, struct ff_executor *x, struct ff_error *err)
{
	uint32_t states = p->first ? p->optimizer->states : 0;
	int code = FF_OK;

	for (uint32_t i = 0; p->weights && i < p->graph.n_nodes && code == FF_OK; i++) {
		if (!ff_node_is_parameter(&p->graph, i))
			continue;
		code = load_array(p, x, i, FF_ARRAY_WEIGHTS, err);
		for (uint32_t k = 0; k < states && code == FF_OK; k++)
			code = load_array(p, x, i, FF_ARRAY_STATES + k, err);
	}
	return code == FF_OK && p->weights ? load_kept(p, x, err) : code;
}

/* Texts of a checkpoint beside its tensors, and what they must be to go on from it. */
enum {
	NOTE_FORMAT,
	NOTE_VERSION,
	NOTE_GRAPH,
	NOTE_OPTIMIZER,
	NOTE_SEED,
	NOTE_SAMPLES,
	NOTE_STEP,
	NOTES
};
static const char *const note_key[NOTES] = {
		"format", "version", "graph", "optimizer", "seed", "samples", "step"};

struct notes {
	char graph[32], seed[32], samples[32], step[32];
	const char *text[NOTES];
};

static void write_notes(const struct ff_run_options *opt, const struct ff_plan *p, uint64_t step,
		struct notes *ret)
{
	snprintf(ret->graph, sizeof(ret->graph), "%016" PRIx64, p->graph.hash);
	snprintf(ret->seed, sizeof(ret->seed), "%" PRIu64, opt->seed);
	snprintf(ret->samples, sizeof(ret->samples), "%" PRId64, ff_dataset_samples(p->data, true));
	snprintf(ret->step, sizeof(ret->step), "%" PRIu64, step);
	ret->text[NOTE_FORMAT] = CHECKPOINT_FORMAT;
	ret->text[NOTE_VERSION] = CHECKPOINT_VERSION;
	ret->text[NOTE_GRAPH] = ret->graph;
	ret->text[NOTE_OPTIMIZER] = p->optimizer->name;
	ret->text[NOTE_SEED] = ret->seed;
	ret->text[NOTE_SAMPLES] = ret->samples;
	ret->text[NOTE_STEP] = ret->step;
}

static int check_notes(const struct ff_run_options *opt, struct ff_plan *p, struct ff_error *err)
{
	const char *step = ff_tensors_note(p->weights, "step");
	struct notes want;
	char *end;

	write_notes(opt, p, 0, &want);
	for (int i = 0; i < NOTE_STEP; i++) {
		const char *have = ff_tensors_note(p->weights, note_key[i]);

		if (!have && i == NOTE_SAMPLES) /* not in all of them */
			continue;
		if (!have || strcmp(have, want.text[i]) != 0)
			return ff_fail(err, FF_E_INPUT,
					"%s: cannot go on from it: its %s is %s, expected %s",
					p->weights->path, note_key[i], have ? have : "not said",
					want.text[i]);
	}
	errno = 0;
	p->first = step ? strtoull(step, &end, 10) : 0;
	if (!p->first || *end || errno || p->first > UINT32_MAX)
		return ff_fail(err, FF_E_INPUT, "%s: cannot go on from it: its step is %s",
				p->weights->path, step ? step : "not said");
	return FF_OK;
}

int ff_checkpoint_open(const struct ff_run_options *opt, struct ff_plan *p, struct ff_error *err)
{
	int code;

	if (!opt->checkpoint)
		return FF_OK;
	if (mkdir(opt->checkpoint, 0777) < 0 && errno != EEXIST)
		return ff_fail(err, FF_E_INPUT, "--checkpoint %s: %s", opt->checkpoint,
				strerror(errno));
	p->checkpoint = ff_arena_printf(&p->arena, "%s/checkpoint.safetensors", opt->checkpoint);
	if (!p->checkpoint)
		return ff_fail_memory(err);
	if (!opt->resume || access(p->checkpoint, F_OK) != 0)
		return FF_OK;
	if ((code = open_tensors(p, p->checkpoint, err)) < 0 ||
			(code = check_notes(opt, p, err)) < 0)
		return code;
	code = check(p->weights, &p->graph, p->optimizer->states, err);
	return code < 0 ? code : check_kept(p->weights, &p->graph, true, err);
}

/* What is written: weights alone, or a checkpoint after `step` steps. */
struct saving {
	const char *path;
	bool checkpoint;
	uint64_t step;
	uint32_t states; /* of the optimizer, that go with the weights */
};

/* On the first rank: the file up to its first tensor. */
static int begin(const struct ff_run_options *opt, const struct ff_plan *p, const struct saving *s,
		struct ff_tensors_out *ret, struct ff_error *err)
{
	struct notes notes;
	int code = ff_tensors_create(s->path, ret, err);

	if (code < 0)
		return code;
	if (s->checkpoint) {
		write_notes(opt, p, s->step, &notes);
		ff_tensors_describe(ret, note_key, notes.text, NOTES);
	}
	ff_weights_declare(&p->graph, FF_ARRAY_WEIGHTS, ret);
	for (uint32_t k = 0; k < s->states; k++)
		ff_weights_declare(&p->graph, FF_ARRAY_STATES + k, ret);
	return FF_OK;
}

static int save(const struct ff_run_options *opt, struct ff_plan *p, struct ff_comm *comm,
		struct ff_executor *x, const struct saving *s, struct ff_error *err)
{
	struct ff_tensors_out out = {.file = {.fd = -1}}, *to = comm->rank == 0 ? &out : NULL;
	int code = ff_agree_code(comm, to ? begin(opt, p, s, to, err) : FF_OK, err);

	if (code == FF_OK)
		code = ff_weights_write(x, &p->graph, FF_ARRAY_WEIGHTS, to, err);
	for (uint32_t k = 0; k < s->states && code == FF_OK; k++)
		code = ff_weights_write(x, &p->graph, FF_ARRAY_STATES + k, to, err);
	if (code == FF_OK && to)
		code = ff_tensors_commit(to, err);
	ff_tensors_drop(&out);
	return code;
}

int ff_weights_save(const struct ff_run_options *opt, struct ff_plan *p, struct ff_comm *comm,
		struct ff_executor *x, struct ff_error *err)
{
	const struct saving s = {.path = opt->save};

	return s.path ? save(opt, p, comm, x, &s, err) : FF_OK;
}

int ff_checkpoint_save(const struct ff_run_options *opt, struct ff_plan *p, struct ff_comm *comm,
		struct ff_executor *x, uint64_t step, struct ff_error *err)
{
	const struct saving s = {p->checkpoint, true, step, p->optimizer->states};

	return save(opt, p, comm, x, &s, err);
}
