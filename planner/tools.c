/* What a job searches with, and what ends it.  SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <time.h>

#include "job.h"

int ff_job_open_pricer(struct ff_job *j, struct ff_pricer **ret, struct ff_error *err)
{
	int code = ff_pricer_create(&j->in.graph, &j->in.machine, j->in.estimate, j->in.costs,
			j->in.costs ? j->opt.costs_path : NULL, j->opt.graph_path, ret, err);

	if (code < 0)
		return code;
	ff_pricer_set_clip(*ret, j->opt.clip);
	ff_pricer_set_travel(*ret, &j->in.travel);
	if (j->opt.framework_name)
		ff_pricer_set_framework(*ret, &j->in.framework);
	if (j->opt.by_nodes)
		ff_pricer_set_by_nodes(*ret, true);
	return ff_pricer_set_optimizer(*ret, j->in.optimizer, err);
}

int ff_job_open(struct ff_job *j, struct ff_error *err)
{
	int code = ff_job_open_pricer(j, &j->tools.pricer, err);

	if (code == FF_OK)
		code = ff_space_create(&j->in.graph, &j->in.machine, &j->tools.space, err);
	if (code < 0)
		return code;
	ff_space_allow(j->tools.space, j->opt.what);
	return ff_job_open_evaluators(j, err);
}

static int open_evaluator(struct ff_job *j, struct ff_pricer *p, struct ff_evaluator **ret,
		struct ff_error *err)
{
	ff_evaluator_destroy(*ret);
	*ret = NULL;
	return ff_evaluator_create(&j->in.graph, &j->in.lean, p,
			ff_job_without_reserve(j, j->opt.memory), 0, ret, err);
}

int ff_job_open_evaluators(struct ff_job *j, struct ff_error *err)
{
	int code = ff_job_reserve(j, err);

	if (code == FF_OK)
		code = open_evaluator(j, j->tools.pricer, &j->tools.evaluator, err);
	for (uint32_t i = 0; i < FF_MOST_JOBS && j->tools.more_pricers[i] && code == FF_OK; i++)
		code = open_evaluator(j, j->tools.more_pricers[i], &j->tools.more[i], err);
	return code;
}

void ff_job_close(struct ff_job *j)
{
	for (uint32_t i = 0; i < FF_MOST_JOBS; i++) {
		ff_evaluator_destroy(j->tools.more[i]);
		ff_pricer_destroy(j->tools.more_pricers[i]);
	}
	ff_evaluator_destroy(j->tools.evaluator);
	ff_space_destroy(j->tools.space);
	ff_pricer_destroy(j->tools.pricer);
	ff_arena_finish(&j->compared);
	ff_arena_finish(&j->lowered);
	ff_arena_finish(&j->arena);
}

/* What asks for an end: Ctrl-C, what batch systems send before they kill, and, but under nohup, a
 * terminal that is gone. */
static sigset_t interrupts(void)
{
	struct sigaction now;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (sigaction(SIGHUP, NULL, &now) < 0 || now.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	return set;
}

/* While a plan is sought they are blocked and wait to be asked for. */
void ff_job_hold(sigset_t *old)
{
	const sigset_t set = interrupts();

	sigprocmask(SIG_BLOCK, &set, old);
}

bool ff_job_interrupted(struct ff_job *j)
{
	const struct timespec now = {0};
	const sigset_t set = interrupts();

	if (sigtimedwait(&set, NULL, &now) > 0)
		j->summary.interrupted = true;
	return j->summary.interrupted;
}

void ff_job_release(const sigset_t *old)
{
	const struct timespec now = {0};
	const sigset_t set = interrupts();

	while (sigtimedwait(&set, NULL, &now) > 0)
		; /* a second Ctrl-C must not lose what was found */
	sigprocmask(SIG_SETMASK, old, NULL);
}
