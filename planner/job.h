/* A run of ffsearch: its options, its input, and its results.
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

#define FF_WHOLE_SHARE 0.25 /* --space torch: share of the search in the space without limits */

/* What was loaded. */
struct ff_job_input {
	struct ff_graph graph;
	struct ff_machine whole, machine; /* the file's; the devices of it that are used */
	struct ff_machine lean;           /* `machine` with only the memory that may be used */
	struct ff_strategy planned;       /* --simulate: the strategy of the file */
	struct ff_strategy_info planned_info;
	const struct ff_optimizer *optimizer;
	struct ff_travel travel;       /* of gradients */
	struct ff_framework framework; /* that executes the plan */
	enum ff_estimate estimate;     /* if `costs` is NULL */
	struct ff_costs *costs;        /* NULL: prices are estimated */
};

/* What the search works with; `more`: for the second chain and later ones. */
struct ff_job_tools {
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_evaluator *evaluator;
	struct ff_pricer *more_pricers[FF_MOST_JOBS];
	struct ff_evaluator *more[FF_MOST_JOBS];
};

struct ff_job {
	struct ff_job_options opt;
	struct ff_arena arena, compared, lowered; /* of the job, of the baseline, of the plan */
	struct ff_job_input in;
	struct ff_job_tools tools;
	/* Clock in seconds: start of the command, end of the time for the lower bound. */
	double from, bound_until;
	double predict_s;  /* seconds to lower data parallelism, or the plan if that
			    * took longer */
	double price_s;    /* seconds to lay data parallelism out alone; 0: it was not */
	double baseline_s; /* seconds after `from` when the baseline was known */
	const char *starts[33], *named[33]; /* --init: all arguments; those that are names */
	const char *init_path[32];          /* those that are files */
	struct ff_strategy init[32];        /* and their strategies */
	uint32_t n_init;
	const char *other_path[FF_MOST_TOP];
	struct ff_plan *other[FF_MOST_TOP];
	struct ff_search_result found;
	struct ff_progress progress;
	struct ff_plan baseline; /* tuned data parallelism that fits; without tasks */
	char baseline_name[FF_GRID_NAME], nearest_name[FF_GRID_NAME];
	char by_hand[FF_GRID_NAME];        /* --simulate megatron */
	struct ff_certificate certificate; /* --certificate */
	struct ff_summary summary;
};

/* options.c: FF_E_INPUT for contradictory options; whether `name` is a start for --init. */
int ff_job_check(struct ff_job *j, struct ff_error *err);
bool ff_job_is_start(const char *name);
/* rewriting.c: applies --rewrite; called before anything uses the graph. */
int ff_job_rewrite(struct ff_job *j, struct ff_error *err);
/* budget.c: seconds left for the search (0: no limit); seconds reserved for lowering the plan; the
 * share of the budget reserved for explaining it; whether explanations must end now (`ctx`: the
 * job). */
double ff_job_search_seconds(const struct ff_job *j);
double ff_job_after_seconds(const struct ff_job *j);
double ff_job_answers_share(const struct ff_job *j);
bool ff_job_late(void *ctx);
/* tools.c: opens the evaluators of all chains anew, for the memory that may be used. */
int ff_job_open_evaluators(struct ff_job *j, struct ff_error *err);
/* constraints.c: limits the space by the options; checks starts; loads the files of --init and
 * carries them over to this graph and machine; applies --reserve. */
int ff_job_limit(struct ff_job *j, struct ff_error *err);
int ff_job_check_starts(struct ff_job *j, struct ff_error *err);
int ff_job_load_plans(struct ff_job *j, struct ff_error *err);
int ff_job_reserve(struct ff_job *j, struct ff_error *err);
/* --space torch: searches the whole space from the plan on, to tell what the limits cost;
 * FF_E_INPUT for a strategy outside the limits. */
int ff_job_search_whole(struct ff_job *j, struct ff_error *err);
int ff_job_check_torch(struct ff_job *j, const struct ff_strategy *s, struct ff_error *err);
/* Makes the plan regular as far as that costs at most --regular; until `stop`. */
int ff_job_regularise(struct ff_job *j, bool (*stop)(void *ctx), struct ff_error *err);
/* save.c: names the files of --top; finds the best plans of other shapes that fit; writes all
 * output files. */
int ff_job_name_others(struct ff_job *j, struct ff_error *err);
int ff_job_find_others(struct ff_job *j, struct ff_error *err);
int ff_job_save(struct ff_job *j, struct ff_error *err);
/* The communication library that costs were measured with; "": unknown, or not measured. */
const char *ff_job_communication(const struct ff_job *j);
/* certify.c: the lower bound.  Before the search, so that a missing cost is reported at once; the
 * search gets the time that is left of it.  Or after the search: the seconds reserved for it, and
 * the bound itself, for a certificate first with the plan's number of micro-batches.  Writing the
 * certificate. */
int ff_job_bound(struct ff_job *j, struct ff_error *err);
double ff_job_bound_seconds(const struct ff_job *j);
int ff_job_bound_later(struct ff_job *j, const struct ff_strategy *plan, struct ff_error *err);
int ff_job_save_certificate(struct ff_job *j, struct ff_error *err);
/* predict.c: lowers and simulates `s`. */
int ff_job_predict(struct ff_job *j, const struct ff_strategy *s, struct ff_arena *a,
		struct ff_plan *ret, struct ff_error *err);
/* Likewise the plan; if the host lacks memory for its tasks then without them, which stderr tells.
 */
int ff_job_lower(struct ff_job *j, const struct ff_strategy *s, const struct ff_evaluation *at,
		struct ff_error *err);
int ff_job_find_facts(struct ff_job *j, struct ff_error *err);
/* Likewise without tasks, of `s` that was evaluated as `at`: only what comparisons need. */
int ff_job_price(struct ff_job *j, const struct ff_strategy *s, const struct ff_evaluation *at,
		struct ff_arena *a, struct ff_plan *ret, struct ff_error *err);
/* rivals.c: the rows of the table of baselines; after the search, the plan by hand that is most
 * like the plan found.  Both as far as there is time. */
int ff_job_find_rivals(struct ff_job *j, struct ff_error *err);
int ff_job_find_nearest(struct ff_job *j, struct ff_error *err);
/* Whether a plan fits and keeps the constraints; makes such a one the plan. */
bool ff_job_may_take(const struct ff_job *j, const struct ff_plan *p);
int ff_job_take(struct ff_job *j, const struct ff_plan *p, struct ff_error *err);
/* Makes the best rival the plan, if it is faster than the plan found. */
int ff_job_take_best(struct ff_job *j, struct ff_error *err);
/* How much the plan gains by each of its splits. */
int ff_job_find_gains(struct ff_job *j, struct ff_error *err);
/* Tunes the bucket size of a strategy by name; `at` is its evaluation then. */
int ff_job_tune(struct ff_job *j, struct ff_strategy *s, struct ff_evaluation *at,
		struct ff_error *err);
/* The baseline: tuned data parallelism, or, if that does not fit, the best of zero-1, zero-3,
 * micro-batches and recomputation that does. */
int ff_job_find_baseline(struct ff_job *j, struct ff_error *err);
/* The best plan of the whole grid by hand; its name goes to j->by_hand. */
int ff_job_find_by_hand(struct ff_job *j, struct ff_strategy *ret, struct ff_error *err);
/* Sets whether the plan fits in ff_job_memory, and if not on which device; notes if it needs the
 * reserve. */
void ff_job_check_memory(const struct ff_job *j, struct ff_plan *p);
void ff_job_note_reserve(struct ff_job *j);
/* `bytes` less --reserve. */
int64_t ff_job_without_reserve(const struct ff_job *j, int64_t bytes);
/* The memory of a device, by --memory or the machine; the part of it that may be used. */
int64_t ff_job_whole_memory(const struct ff_job *j, uint32_t device);
int64_t ff_job_memory(const struct ff_job *j, uint32_t device);
/* warn.c: warns on stderr of uncertain prices behind the prediction. */
void ff_job_warn(const struct ff_job *j);
/* html.c: writes the page of --html. */
int ff_job_save_html(struct ff_job *j, struct ff_error *err);
double ff_job_now_s(void);
/* An n-th of the budget that is left; 0: nothing is left. */
double ff_job_left_s(const struct ff_job *j, uint32_t n);
/* tools.c: opens the tools of a loaded job; closes them and frees the job's arena. */
int ff_job_open(struct ff_job *j, struct ff_error *err);
int ff_job_open_pricer(struct ff_job *j, struct ff_pricer **ret, struct ff_error *err);
void ff_job_close(struct ff_job *j);
/* Blocks signals that ask to stop, while the search polls for them; releases them. */
void ff_job_hold(sigset_t *old);
void ff_job_release(const sigset_t *old);
bool ff_job_interrupted(struct ff_job *j); /* whether Ctrl-C came; stays true */

#endif
