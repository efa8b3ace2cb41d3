/* The state of ffrun, shared by its files.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUN_H
#define FF_RUN_H

#include "ff/executor.h"
#include "ff/lock.h"
#include "ff/strategy_file.h"
#include "options.h"
#include "profile.h"
#include "quantiles.h"

struct ff_tensors;

/* A strategy to run, as its operand named it. */
struct ff_candidate {
	const char *name;
	struct ff_strategy strategy;
	struct ff_strategy_info info;
	struct ff_schedule schedule;
};

#define FF_MAX_CANDIDATES 2

/* Subjects of notes to the user.  TRAINED and COMMUNICATION have one a candidate. */
enum ff_run_plan_note {
	FF_NOTE_MACHINE,   /* planned for another machine */
	FF_NOTE_DISTURBED, /* the prediction rests on disturbed samples */
	FF_NOTE_TRAINED,   /* planned for another optimizer, clipping or travel */
	FF_NOTE_COMMUNICATION = FF_NOTE_TRAINED + FF_MAX_CANDIDATES, /* costs of another library */
	FF_NOTE_WEIGHTS = FF_NOTE_COMMUNICATION + FF_MAX_CANDIDATES, /* tensors that are not used */
	FF_NOTE_CHECKPOINT,
	FF_NOTE_FINISHED, /* the checkpoint is of the last step */
	FF_RUN_PLAN_NOTES
};

/* All that is loaded before anything runs; equal on all ranks, but for `ordinal`. */
struct ff_run_plan {
	struct ff_arena arena;
	struct ff_graph graph, given; /* rewritten by the plan; as in its file */
	struct ff_machine machine;    /* only the devices that run */
	uint32_t n_candidates;        /* the plan; with --compare also its rival */
	struct ff_candidate candidate[FF_MAX_CANDIDATES];
	const struct ff_optimizer *optimizer;
	struct ff_groups groups;
	double clip;             /* 0: gradients are not clipped */
	struct ff_travel travel; /* of gradients */
	uint32_t top;            /* k of top-k accuracy; 0: not computed */
	struct ff_rate_plan rates;
	const struct ff_backend *backend;
	uint32_t ordinal;          /* of this rank's device on its host */
	const char *communication; /* the library that ranks communicate by */
	enum ff_beside progress;   /* how it is progressed, if it overlaps compute */
	struct ff_dataset *data;
	struct ff_checkpoint {
		const char *folder;  /* of checkpoints; NULL: none are written */
		const char *path;    /* the newest one */
		uint64_t newest;     /* its step; 0: not known */
		uint32_t keep;       /* how many are kept */
		uint64_t every;      /* steps between two */
		double interval_us;  /* the longest time between two; 0: no limit */
		uint32_t sum;        /* checksum of the one that training resumes from */
		struct ff_lock lock; /* on the folder, if this rank writes there */
		bool held;
	} checkpoint;
	struct ff_tensors *weights; /* initial ones; NULL: drawn at random */
	uint64_t weights_hash;      /* of all loaded elements */
	uint64_t first;             /* the step to resume from; 0: from the start */
	bool finished;              /* that was the last step: nothing is left to train */
	uint64_t stopped_from;      /* stopped early: steps that the whole run would have; else 0 */
	uint64_t steps, warmup;     /* of this run */
	const struct ff_span
			*beside; /* rank 0: the predicted spans for the first candidate's trace */
	uint32_t n_beside;
	struct ff_error note[FF_RUN_PLAN_NOTES];
};

/* plan.c: loads and checks all input.  `ranks`: how many there are, `here` of them on this host; 0:
 * not started yet.  `leads`: this rank writes the output files. */
int ff_run_plan_load(const struct ff_run_options *opt, uint32_t ranks, uint32_t here, bool leads,
		struct ff_run_plan *ret, struct ff_error *err);
void ff_run_plan_finish(struct ff_run_plan *p);
/* same.c: FF_E_INPUT, with a sentence that names the input, unless it is equal on all ranks. */
int ff_run_plan_same(const struct ff_run_options *o, const struct ff_run_plan *p,
		struct ff_comm *comm, struct ff_error *err);
/* Called when the communication library is known: notes candidates that were planned for another.
 */
void ff_run_plan_communicate(struct ff_run_plan *p, const char *name);
/* Lowers `strategy` on `machine`, with the backend's scratch sizes. */
int ff_run_plan_lower(struct ff_run_plan *p, const struct ff_machine *machine,
		const struct ff_strategy *strategy, struct ff_schedule *ret, struct ff_error *err);
/* Likewise for the graph as in its file, for a step without updates. */
int ff_run_plan_lower_given(struct ff_run_plan *p, const struct ff_machine *machine,
		const struct ff_strategy *strategy, struct ff_schedule *ret, struct ff_error *err);
/* FF_E_NOFIT if `s`, together with `beside` if that is not NULL, takes more memory than a device
 * has. */
int ff_run_plan_fits(const char *name, const struct ff_schedule *s,
		const struct ff_schedule *beside, struct ff_error *err);

/* Figures of one loss on the test set. */
struct ff_found {
	double loss, accuracy, top, perplexity; /* NAN: the loss has none */
};
struct ff_test {
	uint64_t step;       /* after so many steps */
	struct ff_found all; /* sum of losses; the other figures are of the first loss that has them
			      */
	struct ff_found of[FF_MAX_LOSSES];
};

/* The results of one candidate. */
struct ff_outcome {
	double *step_us; /* plan.steps, the slowest rank's; the first plan.warmup warm up */
	double *loss;    /* plan.steps */
	double *loss_of[FF_MAX_LOSSES]; /* of several losses: plan.steps each */
	struct ff_test *test;           /* tests during training */
	uint32_t n_tests;
	struct ff_test at_end; /* --test: the test after training; all NAN: there was none */
	int64_t sent_bytes;    /* over all steps and ranks */
	int64_t *memory_bytes; /* by device */
	bool captured;         /* steps after the first were launched as a whole */
	char obstacle[256];    /* or why not */
	struct ff_span *spans; /* of the last step, all devices, on one clock */
	uint32_t n_spans;
	struct ff_timing timing; /* how their clocks were aligned */
	struct ff_profile profile;
};
/* checkpoint.c: FF_E_INPUT unless all ranks resume from the same checkpoint, or none does. */
int ff_checkpoint_agree(const struct ff_run_plan *p, struct ff_comm *comm, struct ff_error *err);

/* train.c: trains all candidates, step by step in turns. */
int ff_train(const struct ff_run_options *opt, struct ff_run_plan *p, struct ff_comm *comm,
		struct ff_outcome *outcome, struct ff_error *err);

/* verify.c: the relative difference of losses that another order of rounding explains
 * (docs/running.md). */
double ff_loss_tolerance(const struct ff_graph *g);
/* The unit in which differences of a gradient are told. */
static inline const char *ff_gradient_measure(const struct ff_graph *g)
{
	return g->dtype == FF_BF16 ? "length" : "largest element";
}
/* One step of the plan, compared with one device or written down. */
struct ff_verdict {
	bool done;
	double loss, reference, worst;
	double rounding; /* how far rounding the weights moves one device's; 0: not computed */
	const char *worst_name; /* the parameter with the largest difference */
	int64_t sent_bytes;
};
int ff_verify(const struct ff_run_options *opt, struct ff_run_plan *p, struct ff_comm *comm,
		struct ff_verdict *ret, struct ff_error *err);

/* dump.c: a safetensors file of one step, whole tensors in PyTorch's order. */
int ff_dump(const char *path, struct ff_run_plan *p, struct ff_executor *x, bool lead, double loss,
		struct ff_error *err);

#endif
