/* What ffrun is asked for, by what it is about.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUN_OPTIONS_H
#define FF_RUN_OPTIONS_H

#include "ff/cli.h"
#include "ff/optimizer.h"
#include "ff/travel.h"
#include "rate.h"

struct ff_pulse;

#define FF_CHECKPOINT_NEWEST "checkpoint.safetensors" /* in the folder of checkpoints */

/* What is run, and on what. */
struct ff_subject_options {
	const char *graph, *strategy; /* operands */
	const char *against, *machine, *device;
	uint64_t devices;
	bool compare;
};

/* What is computed. */
struct ff_training_options {
	const char *data, *weights;
	uint64_t steps, epochs, seed;
	const char *optimizer;            /* NULL: the strategy's */
	double setting[FF_SETTING_COUNT]; /* NAN: the optimizer's preset */
	struct ff_texts groups;           /* rules: ff_groups_make */
	double clip; /* norm of all gradients, at most; NAN: they are as they are */
	struct ff_rate_options rates;
	struct ff_travel_options travel; /* of gradients; what is not asked for is the strategy's */
};

/* What is kept of it. */
struct ff_store_options {
	const char *save, *checkpoint;
	uint64_t every, keep;
	double interval; /* seconds between two checkpoints, at most; 0: any */
	bool resume;
};

/* How it is looked at: beside one device, and on the test set. */
struct ff_check_options {
	bool verify, test;
	double tolerance; /* NAN: by the graph's type */
	uint64_t test_every, top;
	const char *dump;
};

/* What is told of it. */
struct ff_tell_options {
	const char *report, *metrics, *trace, *beside, *html;
	uint64_t warmup;
	uint64_t profile; /* steps at the end whose tasks are timed */
};
/* Whether the tasks of the last step are timed. */
static inline bool ff_tell_traces(const struct ff_tell_options *o)
{
	return o->trace || o->html;
}

struct ff_run_options {
	struct ff_subject_options what;
	struct ff_training_options train;
	struct ff_store_options store;
	struct ff_check_options check;
	struct ff_tell_options tell;
	double timeout; /* seconds without a sign of life; NAN: as long as communication waits */
	struct ff_pulse *pulse; /* this rank's; NULL: nobody watches it */
};

/* command.c: `ret` points into `argv`.  *done: help or the like was printed, which is all.
 * FF_E_INPUT. */
int ff_run_parse(int argc, char **argv, struct ff_run_options *ret, bool *done,
		struct ff_error *err);
/* What goes together, and whether outputs can be written.  FF_E_INPUT, FF_E_IO. */
int ff_run_check(const struct ff_run_options *o, struct ff_error *err);
/* Whether each of several ranks can read what there is to read. */
int ff_run_check_shared(const struct ff_run_options *o, uint32_t ranks, struct ff_error *err);
/* Whether some output goes to standard output. */
bool ff_run_piped(const struct ff_run_options *o);

#endif
