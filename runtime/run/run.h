/* ffrun's inside: what its files share.  SPDX-License-Identifier: Apache-2.0 */
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

/* Notes for the user: what each is about.  Those of a candidate are one for each. */
enum ff_run_plan_note {
	FF_NOTE_MACHINE,   /* another one is assumed */
	FF_NOTE_DISTURBED, /* samples behind the prediction */
	FF_NOTE_TRAINED,   /* by candidate: planned for another optimizer, clipping or travel */
	FF_NOTE_COMMUNICATION = FF_NOTE_TRAINED + FF_MAX_CANDIDATES, /* by candidate: another one */
	FF_NOTE_WEIGHTS = FF_NOTE_COMMUNICATION + FF_MAX_CANDIDATES, /* tensors that are not read */
	FF_NOTE_CHECKPOINT,
	FF_NOTE_FINISHED, /* the checkpoint has all steps behind it */
	FF_RUN_PLAN_NOTES
};

/* All that is read before anything runs; the same on every rank, but for the ordinal. */
struct ff_run_plan {
	struct ff_arena arena;
	struct ff_graph graph, given; /* as the plan has it rewritten; as its file has it */
	struct ff_machine machine;    /* as many devices as run */
	uint32_t n_candidates;        /* the plan; with --compare, what it is compared with */
	struct ff_candidate candidate[FF_MAX_CANDIDATES];
	const struct ff_optimizer *optimizer;
	struct ff_groups groups;
	double clip;             /* 0: gradients are not clipped */
	struct ff_travel travel; /* of gradients */
	uint32_t top;            /* tests count labels among so many; 0: none */
	struct ff_rate_plan rates;
	const struct ff_backend *backend;
	uint32_t ordinal;          /* of this rank's device on its host */
	const char *communication; /* the name of what ranks communicate by, */
	enum ff_beside progress;   /* and how it overlaps compute, where the machine says so */
	struct ff_dataset *data;
	struct ff_checkpoint {
		const char *folder;  /* where checkpoints go; NULL: nowhere */
		const char *path;    /* the newest of them, */
		uint64_t newest;     /* after so many steps of this training; 0: not known */
		uint32_t keep;       /* so many stay */
		uint64_t every;      /* steps between two */
		double interval_us;  /* and the longest time; 0: any */
		uint32_t sum;        /* of what is gone on from: tells it from another */
		struct ff_lock lock; /* on the folder, */
		bool held;           /* where this rank writes there */
	} checkpoint;
	struct ff_tensors *weights; /* to begin with; NULL: drawn */
	uint64_t weights_hash;      /* of all elements of them that were loaded */
	uint64_t first; /* steps that the checkpoint has behind it; 0: none is gone on from */
	bool finished;  /* and that are all: nothing is left to be trained */
	uint64_t stopped_from;  /* steps there would be in all, had nobody asked for an end; else 0
				 */
	uint64_t steps, warmup; /* of this run */
	const struct ff_span *beside; /* rank 0's: what stands beside the first candidate's trace */
	uint32_t n_beside;
	/* Sentences that the user should read, where there are any. */
	struct ff_error note[FF_RUN_PLAN_NOTES];
};

/* plan.c: `ranks`, `here` of them on this host, are 0 where nothing was started yet; the one that
 * `leads` writes what there is to write.  All that can be wrong with the input is found here. */
int ff_run_plan_load(const struct ff_run_options *opt, uint32_t ranks, uint32_t here, bool leads,
		struct ff_run_plan *ret, struct ff_error *err);
void ff_run_plan_finish(struct ff_run_plan *p);
/* same.c: FF_E_INPUT, with a sentence that names what, where ranks have not what they need alike.
 */
int ff_run_plan_same(const struct ff_run_options *o, const struct ff_run_plan *p,
		struct ff_comm *comm, struct ff_error *err);
/* What ranks communicate by is known: notes where a candidate was planned for something else. */
void ff_run_plan_communicate(struct ff_run_plan *p, const char *name);
/* Lowers `strategy` on `machine` with the backend's figures for scratch; and one of the graph as
 * its file has it, for a step without updates. */
int ff_run_plan_lower(struct ff_run_plan *p, const struct ff_machine *machine,
		const struct ff_strategy *strategy, struct ff_schedule *ret, struct ff_error *err);
int ff_run_plan_lower_given(struct ff_run_plan *p, const struct ff_machine *machine,
		const struct ff_strategy *strategy, struct ff_schedule *ret, struct ff_error *err);
/* FF_E_NOFIT when `s`, or both at once where there is `beside`, takes more memory than
 * a device of its machine has. */
int ff_run_plan_fits(const char *name, const struct ff_schedule *s,
		const struct ff_schedule *beside, struct ff_error *err);

/* What a pass over the test set found: of one loss. */
struct ff_found {
	double loss, accuracy, top, perplexity; /* NAN: the loss tells none */
};
struct ff_test {
	uint64_t step;       /* so many were behind it */
	struct ff_found all; /* all losses together; the others of the first that tells any */
	struct ff_found of[FF_MAX_LOSSES];
};

/* What one candidate did. */
struct ff_outcome {
	double *step_us; /* plan.steps, the slowest rank's; the first plan.warmup warm up */
	double *loss;    /* plan.steps */
	double *loss_of[FF_MAX_LOSSES]; /* where there are several: plan.steps */
	struct ff_test *test;           /* those on the way, */
	uint32_t n_tests;
	struct ff_test at_end; /* and with --test the last; all NAN: there was none */
	int64_t sent_bytes;    /* over all steps and ranks */
	int64_t *memory_bytes; /* by device */
	bool captured;         /* steps but the first were launched as a whole */
	char obstacle[256];    /* or why not */
	struct ff_span *spans; /* of the last step, all devices, on one clock */
	uint32_t n_spans;
	struct ff_timing timing; /* how they came onto it */
	struct ff_profile profile;
};
/* checkpoint.c: whether all ranks go on from the same one, or none. */
int ff_checkpoint_agree(const struct ff_run_plan *p, struct ff_comm *comm, struct ff_error *err);

/* train.c: trains all candidates, step by step in turns. */
int ff_train(const struct ff_run_options *opt, struct ff_run_plan *p, struct ff_comm *comm,
		struct ff_outcome *outcome, struct ff_error *err);

/* verify.c: the relative difference of losses that rounding in another order explains
 * (docs/running.md). */
double ff_loss_tolerance(const struct ff_graph *g);
/* What differences of a gradient are a share of. */
static inline const char *ff_gradient_measure(const struct ff_graph *g)
{
	return g->dtype == FF_BF16 ? "length" : "largest element";
}
/* One step of the plan, compared with one device or written down. */
struct ff_verdict {
	bool done;
	double loss, reference, worst;
	double rounding; /* by how much rounding the weights moves one device's; 0: not asked for */
	const char *worst_name; /* of the parameter whose gradient is farthest off */
	int64_t sent_bytes;
};
int ff_verify(const struct ff_run_options *opt, struct ff_run_plan *p, struct ff_comm *comm,
		struct ff_verdict *ret, struct ff_error *err);

/* dump.c: a safetensors file of one step, whole tensors in PyTorch's order. */
int ff_dump(const char *path, struct ff_run_plan *p, struct ff_executor *x, bool lead, double loss,
		struct ff_error *err);

#endif
