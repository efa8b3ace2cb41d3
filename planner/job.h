/* One run of ffsearch: what its command line says, and what comes of it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_JOB_H
#define FF_PLANNER_JOB_H

#include <signal.h>

#include "check/certificate.h"
#include "command_line.h"
#include "ff/cli.h"
#include "ff/starts.h"
#include "ff/strategy_file.h"
#include "hand/grid.h"
#include "summary.h"

#define FF_WHOLE_SHARE 0.25 /* of a search's time or proposals, for the space without limits */

/* What was loaded. */
struct ff_job_input {
	struct ff_graph graph;
	struct ff_machine whole, machine; /* of it the devices that are used; */
	struct ff_machine lean;           /* these with the memory that may be used */
	struct ff_strategy planned;       /* --simulate: the file's */
	struct ff_strategy_info planned_info;
	const struct ff_optimizer *optimizer;
	struct ff_travel travel;       /* of gradients */
	struct ff_framework framework; /* that executes the plan */
	enum ff_estimate estimate;     /* --costs: without costs */
	struct ff_costs *costs;        /* NULL: estimated */
};

/* What was made of it to search with; of the second chain on, in `more`. */
struct ff_job_tools {
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_evaluator *evaluator;
	struct ff_pricer *more_pricers[FF_MOST_JOBS];
	struct ff_evaluator *more[FF_MOST_JOBS];
};

struct ff_job {
	struct ff_job_options opt;
	struct ff_arena arena, compared, lowered; /* compared: data parallelism; the plan */
	struct ff_job_input in;
	struct ff_job_tools tools;
	/* clock in seconds: start of the command, end of the lower bound's time */
	double from, bound_until;
	double predict_s;                   /* what lowering data parallelism takes; from the
					     * plan on, what that did, if longer */
	double baseline_s;                  /* from `from` on, until the baseline was there */
	const char *starts[33], *named[33]; /* --init: all; names alone; */
	const char *init_path[32];          /* files alone, */
	struct ff_strategy init[32];        /* and what they came to */
	uint32_t n_init;
	const char *other_path[FF_MOST_TOP];
	struct ff_plan *other[FF_MOST_TOP];
	struct ff_search_result found;
	struct ff_progress progress;
	struct ff_plan baseline; /* where data parallelism does not fit; its tasks are not there */
	char baseline_name[FF_GRID_NAME], nearest_name[FF_GRID_NAME];
	char by_hand[FF_GRID_NAME];        /* --simulate megatron */
	struct ff_certificate certificate; /* --certificate */
	struct ff_summary summary;
};

/* options.c: whether what the command line said makes sense; whether --init takes `name`. */
int ff_job_check(struct ff_job *j, struct ff_error *err);
bool ff_job_is_start(const char *name);
/* rewriting.c: --rewrite, before anything is made of the graph. */
int ff_job_rewrite(struct ff_job *j, struct ff_error *err);
/* budget.c: seconds for the search, after what went before it and without what comes behind it (0:
 * there is no limit); those for lowering the plan; the share that is kept for questions about it;
 * and whether what is made of the plan has to end (for `ctx`, a job). */
double ff_job_search_seconds(const struct ff_job *j);
double ff_job_after_seconds(const struct ff_job *j);
double ff_job_answers_share(const struct ff_job *j);
bool ff_job_late(void *ctx);
/* tools.c: evaluators of all chains that have pricers, anew, for the memory that may be used. */
int ff_job_open_evaluators(struct ff_job *j, struct ff_error *err);
/* constraints.c: what the space keeps to from now on; files of --init, carried over to what is
 * searched; what evaluators are made for, with less memory by --reserve. */
int ff_job_limit(struct ff_job *j, struct ff_error *err);
int ff_job_check_starts(struct ff_job *j, struct ff_error *err);
int ff_job_load_plans(struct ff_job *j, struct ff_error *err);
int ff_job_reserve(struct ff_job *j, struct ff_error *err);
/* --space torch: what the best plan of the whole space takes, that is found from the plan on; and
 * FF_E_INPUT where a strategy does not keep to the limits. */
int ff_job_search_whole(struct ff_job *j, struct ff_error *err);
int ff_job_check_torch(struct ff_job *j, const struct ff_strategy *s, struct ff_error *err);
/* Makes what was found regular, where that costs no more than was said; until `stop`. */
int ff_job_regularise(struct ff_job *j, bool (*stop)(void *ctx), struct ff_error *err);
/* save.c: names the files of plans of other shapes; finds the best of them that fit; writes all
 * that was asked for. */
int ff_job_name_others(struct ff_job *j, struct ff_error *err);
int ff_job_find_others(struct ff_job *j, struct ff_error *err);
int ff_job_save(struct ff_job *j, struct ff_error *err);
/* That the costs were measured with; "": none, or unknown. */
const char *ff_job_communication(const struct ff_job *j);
/* certify.c: the lower bound, before the search, so that a missing cost is told at once, and what
 * is left of its time is the search's; what is kept for it where it waits for the search to be
 * over; it then, for a certificate first of what `plan` is like; and what it rests on. */
int ff_job_bound(struct ff_job *j, struct ff_error *err);
double ff_job_bound_seconds(const struct ff_job *j);
int ff_job_bound_later(struct ff_job *j, const struct ff_strategy *plan, struct ff_error *err);
int ff_job_save_certificate(struct ff_job *j, struct ff_error *err);
/* predict.c: lowers and times `s` afresh. */
int ff_job_predict(struct ff_job *j, const struct ff_strategy *s, struct ff_arena *a,
		struct ff_plan *ret, struct ff_error *err);
/* The plan; where the host lacks memory for its tasks without them, as stderr says then. */
int ff_job_lower(struct ff_job *j, const struct ff_strategy *s, const struct ff_evaluation *at,
		struct ff_error *err);
int ff_job_find_facts(struct ff_job *j, struct ff_error *err);
/* The same of `s`, which costs `at`, but for its tasks: what it is compared by alone. */
int ff_job_price(struct ff_job *j, const struct ff_strategy *s, const struct ff_evaluation *at,
		struct ff_arena *a, struct ff_plan *ret, struct ff_error *err);
/* rivals.c: what is tried before the search, and behind it what is written by hand most like the
 * plan; as far as there is time. */
int ff_job_find_rivals(struct ff_job *j, struct ff_error *err);
int ff_job_find_nearest(struct ff_job *j, struct ff_error *err);
/* Whether a plan fits and is as plans are to be; and makes it the plan (baselines are lowered). */
bool ff_job_may_take(const struct ff_job *j, const struct ff_plan *p);
int ff_job_take(struct ff_job *j, const struct ff_plan *p, struct ff_error *err);
/* The best of those is the plan, if it is better than what was found. */
int ff_job_take_best(struct ff_job *j, struct ff_error *err);
/* What the plan gains by each of its splits. */
int ff_job_find_gains(struct ff_job *j, struct ff_error *err);
/* Gives a strategy by name the buckets that are best: it costs `at` then. */
int ff_job_tune(struct ff_job *j, struct ff_strategy *s, struct ff_evaluation *at,
		struct ff_error *err);
/* Data parallelism with the buckets that are best; where it does not fit, what people do then. */
int ff_job_find_baseline(struct ff_job *j, struct ff_error *err);
/* The best of the whole grid by hand, and in j->by_hand its name. */
int ff_job_find_by_hand(struct ff_job *j, struct ff_strategy *ret, struct ff_error *err);
/* Whether the plan fits, by ff_job_memory, and if not where; needs what was to stay free. */
void ff_job_check_memory(const struct ff_job *j, struct ff_plan *p);
void ff_job_note_reserve(struct ff_job *j);
/* `bytes` less what stays free. */
int64_t ff_job_without_reserve(const struct ff_job *j, int64_t bytes);
/* What a device has, by --memory or by the machine; what may be used of it. */
int64_t ff_job_whole_memory(const struct ff_job *j, uint32_t device);
int64_t ff_job_memory(const struct ff_job *j, uint32_t device);
/* warn.c: says on stderr what the prediction of the plan rests on that is not sure. */
void ff_job_warn(const struct ff_job *j);
/* html.c: the plan as a page, where one was asked for. */
int ff_job_save_html(struct ff_job *j, struct ff_error *err);
double ff_job_now_s(void);
/* Of the budget, what is left for each of `n` things that are left to do; 0: there is none. */
double ff_job_left_s(const struct ff_job *j, uint32_t n);
/* tools.c: makes what a loaded job searches with; frees it, and the job's arena. */
int ff_job_open(struct ff_job *j, struct ff_error *err);
int ff_job_open_pricer(struct ff_job *j, struct ff_pricer **ret, struct ff_error *err);
void ff_job_close(struct ff_job *j);
/* While a plan is sought what asks for an end waits to be asked for. */
void ff_job_hold(sigset_t *old);
void ff_job_release(const sigset_t *old);
bool ff_job_interrupted(struct ff_job *j); /* by Ctrl-C, which is then known for good */

#endif
