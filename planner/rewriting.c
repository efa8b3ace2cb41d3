/* --rewrite: which substitutions the graph gets before the search.  Equal layers are rewritten
 * alike, as one class.  A class is kept where data parallelism gains by it: the search itself knows
 * one graph.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "ff/bucketing.h"
#include "ff/json.h"
#include "ff/rewrite.h"
#include "job.h"

/* What is being chosen. */
struct choice {
	struct ff_job *j;
	struct ff_rewrite *found;
	uint32_t n, n_classes;
	uint8_t *kept; /* by class */
	const char **text;
};

/* A step of data parallelism of a graph; in the job's place, which it leaves as it was. */
static int price(struct ff_job *j, const struct ff_graph *g, double *us, struct ff_error *err)
{
	const struct ff_graph before = j->in.graph;
	struct ff_evaluator *evaluator = NULL;
	struct ff_pricer *pricer = NULL;
	struct ff_evaluation at;
	struct ff_strategy s;
	struct ff_arena a;
	int code;

	ff_arena_init(&a);
	j->in.graph = *g;
	code = ff_job_open_pricer(j, &pricer, err);
	if (code == FF_OK)
		code = ff_evaluator_create(
				&j->in.graph, &j->in.machine, pricer, 0, 0, &evaluator, err);
	if (code == FF_OK)
		code = ff_strategy_data_parallel(
				&j->in.graph, j->in.machine.n_devices, &a, &s, err);
	if (code == FF_OK) {
		s.bucket_bytes = ff_bucket_bytes(&j->in.graph, &j->in.machine);
		code = ff_evaluator_set(evaluator, &s, &at, err);
	}
	ff_evaluator_destroy(evaluator);
	ff_pricer_destroy(pricer);
	ff_arena_finish(&a);
	j->in.graph = before;
	if (code == FF_OK)
		*us = at.step_us;
	return code;
}

/* The job's graph with all classes that are kept. */
static int rewrite(struct choice *c, struct ff_arena *a, struct ff_graph *ret, struct ff_error *err)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n; i++)
		if (c->kept[c->found[i].class])
			c->text[n++] = c->found[i].text;
	return ff_graph_rewrite(&c->j->in.graph, c->text, n, a, ret, err);
}

/* Keeps class `k`, beside those that are kept, where it gains; *us: the best step so far. */
static int try_class(struct choice *c, uint32_t k, double *us, struct ff_error *err)
{
	struct ff_graph g;
	struct ff_arena a;
	double with = *us;
	int code;

	ff_arena_init(&a);
	c->kept[k] = 1;
	code = rewrite(c, &a, &g, err);
	if (code == FF_OK)
		code = price(c->j, &g, &with, err);
	c->kept[k] = code == FF_OK && with < *us;
	*us = fmin(with, *us);
	ff_arena_finish(&a);
	return code;
}

static int choose(struct ff_job *j, double before_us, struct ff_graph *ret, struct ff_error *err)
{
	struct choice c = {.j = j};
	int code = ff_rewrites_find(&j->in.graph, &j->arena, &c.found, &c.n, &c.n_classes, err);

	if (code < 0)
		return code;
	c.kept = ff_arena_array(&j->arena, c.n_classes, sizeof(*c.kept));
	c.text = ff_arena_array(&j->arena, c.n, sizeof(*c.text));
	if (!c.kept || !c.text)
		return ff_fail_memory(err);
	for (uint32_t k = 0; k < c.n_classes && code == FF_OK; k++)
		code = try_class(&c, k, &before_us, err);
	return code == FF_OK ? rewrite(&c, &j->arena, ret, err) : code;
}

/* Without costs of the kernels of both graphs there is no comparison. */
static int say_how(const struct ff_job *j, int code, struct ff_error *err)
{
	struct ff_error inner = *err;

	if (code != FF_E_INPUT || !j->in.costs)
		return code;
	return ff_fail(err, FF_E_INPUT,
			"option --rewrite: %.700s (ffprof --rewrite all measures "
			"what rewritten graphs need)",
			inner.text);
}

/* As the first plan of --init that was made for a rewritten graph has it: what it says of merged
 * operators would be lost.  A plan for another network may name what is not here. */
static int rewrite_as_planned(struct ff_job *j, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < j->n_init && !j->in.graph.rewritten && code == FF_OK; i++) {
		struct ff_graph made = j->in.graph;
		const struct ff_json *root;
		struct ff_arena tree;
		struct ff_error why;

		ff_arena_init(&tree);
		code = ff_json_load(j->init_path[i], &tree, &root, err);
		if (code == FF_OK && ff_strategy_rewrite(root, &j->arena, &made, &why) == FF_OK)
			j->in.graph = made;
		ff_arena_finish(&tree);
	}
	return code;
}

int ff_job_rewrite(struct ff_job *j, struct ff_error *err)
{
	const struct ff_texts *words = &j->opt.rewrite;
	struct ff_summary *s = &j->summary;
	struct ff_graph made;
	double before_us = NAN, with_us = NAN;
	bool automatic = words->n == 1 && !strcmp(words->text[0], "auto");
	struct ff_error inner;
	int code;

	s->rewriting = (struct ff_rewriting_gain){NAN, NAN};
	if (!words->n)
		return j->opt.limits.torch ? FF_OK : rewrite_as_planned(j, err);
	if (words->n == 1 && !strcmp(words->text[0], "none"))
		return FF_OK;
	code = price(j, &j->in.graph, &before_us, automatic ? err : &inner);
	if (automatic && code == FF_OK) {
		code = choose(j, before_us, &made, err);
	} else if (!automatic) { /* without a price of the graph before there is no gain to tell */
		code = ff_graph_rewrite_matching(
				&j->in.graph, words->text, words->n, &j->arena, &made, &inner);
		if (code < 0)
			return ff_fail(err, code, "option --rewrite: %s", inner.text);
	}
	if (code == FF_OK)
		code = price(j, &made, &with_us, err);
	if (code < 0)
		return say_how(j, code, err);
	j->in.graph = made;
	s->rewriting = (struct ff_rewriting_gain){before_us, with_us};
	return FF_OK;
}
