/* --space torch: what it costs, and what does not keep to it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "job.h"
#include "space/limits.h"

static bool stops(void *ctx, uint64_t proposals, double seconds, double best_us)
{
	(void)proposals;
	(void)seconds;
	(void)best_us;
	return ff_job_interrupted(ctx);
}

static int search_from(struct ff_job *j, const struct ff_space *space, struct ff_arena *a,
		struct ff_search_result *ret, struct ff_error *err)
{
	const struct ff_search_options opt = {
			.seed = j->opt.seed,
			.proposals = (uint64_t)ceil(FF_WHOLE_SHARE * (double)j->opt.proposals),
			.seconds = ff_job_search_seconds(j),
			.beta = j->opt.choice.beta,
			.bucket_bytes = j->found.best.bucket_bytes,
			.starts = ff_starts,
			.given = &j->found.best,
			.n_given = 1,
			.top = 1,
			.seeds = 1,
			.pricer = j->tools.pricer,
			.progress = stops,
			.ctx = j,
	};

	return ff_search_mcmc(
			space, j->tools.evaluator, &j->in.graph, &j->in.machine, &opt, a, ret, err);
}

int ff_job_search_whole(struct ff_job *j, struct ff_error *err)
{
	struct ff_search_result found;
	struct ff_space *space = NULL;
	struct ff_arena a;
	sigset_t old;
	int code;

	if (j->summary.interrupted || !j->found.best.n_nodes)
		return FF_OK;
	ff_arena_init(&a);
	ff_job_hold(&old);
	code = ff_space_create(&j->in.graph, &j->in.machine, &space, err);
	if (code == FF_OK) {
		ff_space_allow(space, j->opt.what);
		code = search_from(j, space, &a, &found, err);
	}
	if (code == FF_OK)
		j->summary.found.whole_us = found.evaluation.step_us;
	if (code == FF_OK && found.lacked_memory)
		code = ff_job_open_evaluators(j, err);
	ff_job_release(&old);
	ff_space_destroy(space);
	ff_arena_finish(&a);
	return code == FF_E_NOFIT ? FF_OK : code;
}

int ff_job_check_torch(struct ff_job *j, const struct ff_strategy *s, struct ff_error *err)
{
	uint32_t node;

	if (ff_space_admits_strategy(j->tools.space, s))
		return FF_OK;
	node = ff_space_first_outside(j->tools.space, s);
	return ff_fail(err, FF_E_INPUT,
			"strategy %.100s: %s%s cannot be so in PyTorch (--space torch)",
			j->opt.simulate, node == FF_NONE ? "stages or micro-batches" : "operator ",
			node == FF_NONE ? "" : j->in.graph.nodes[node].name);
}
