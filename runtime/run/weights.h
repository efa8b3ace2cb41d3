/* Parameters in safetensors files, whole, and checkpoints, which have the optimizer's states
 * and the step besides.  Opened once the graph, the optimizer and the options are known: all
 * that can be wrong with a file is found then.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUN_WEIGHTS_H
#define FF_RUN_WEIGHTS_H

#include "ff/safetensors.h"
#include "run.h"

#define FF_TENSOR_NAME 512

/* What is written: weights, so many states of the optimizer with them, what of gradients was not
 * sent yet, gradients of so many steps that wait, and texts that say what the file is. */
struct ff_saving {
	const char *path;
	uint32_t states, waiting, n_notes;
	bool residuals, sums; /* whether the file ends with checksums */
	const char *const *note_key, *const *note;
};

/* weights.c.  Those that `opt` names, unless a checkpoint is gone on from. */
int ff_weights_open(const char *path, struct ff_run_plan *p, struct ff_error *err);
/* The file becomes what the plan has to begin with; whether it is all that a checkpoint has. */
int ff_weights_open_file(struct ff_run_plan *p, const char *path, struct ff_error *err);
void ff_weights_close(struct ff_run_plan *p);
int ff_weights_check(const struct ff_run_plan *p, struct ff_error *err);
/* What the plan has to begin with, if it has anything, into a new executor of `g`, the plan's graph
 * or that before its rewrites.  FF_E_INPUT names what
 * is no number, or infinite. */
int ff_weights_load(struct ff_run_plan *p, const struct ff_graph *g, struct ff_executor *x,
		struct ff_error *err);
/* FF_E_INPUT unless all ranks have loaded the same. */
int ff_weights_same(const struct ff_run_plan *p, struct ff_comm *comm, struct ff_error *err);
/* Of all parameters one array: its tensors' heads, and, on all ranks together, their
 * elements, which go to `out` where it is not NULL. */
void ff_weights_declare(const struct ff_graph *g, uint32_t array, struct ff_tensors_out *out);
int ff_weights_write(struct ff_executor *x, const struct ff_graph *g, uint32_t array,
		struct ff_tensors_out *out, struct ff_error *err);
/* A whole file, by all ranks together; the first writes it.  FF_E_RUN names what is no number, or
 * infinite: then what was there stays. */
int ff_weights_save(struct ff_run_plan *p, struct ff_comm *comm, struct ff_executor *x,
		const struct ff_saving *s, struct ff_error *err);

/* checkpoint.c.  Makes the folder; the rank that leads, and alone writes there, locks it until
 * ff_checkpoint_close.  With --resume opens the newest checkpoint that is whole, with a note where
 * that is not the last one written. */
int ff_checkpoint_open(const struct ff_store_options *opt, uint64_t seed, struct ff_run_plan *p,
		bool leads, struct ff_error *err);
void ff_checkpoint_close(struct ff_run_plan *p);
/* All ranks together, after `step` steps. */
int ff_checkpoint_save(uint64_t seed, struct ff_run_plan *p, struct ff_comm *comm,
		struct ff_executor *x, uint64_t step, struct ff_error *err);

#endif
