/* Frameworks that execute a strategy, where it is not our runtime: what their hosts and their
 * kernels do otherwise.  docs/simulator.md, "Frameworks".  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_FRAMEWORK_H
#define FF_FRAMEWORK_H

#include "ff/kernel_shape.h"
#include "ff/schedule.h"

struct ff_framework_convolutions {
	bool tf32;   /* of float32, where a device can */
	bool biases; /* a bias is added to what one made by a kernel of its own */
	bool taps;   /* groups of one channel: gradients of filters read images for each tap */
	bool channels_first[2]; /* operands in float32, in 16 bits */
};

/* What is several kernels in float32: bytes that they read and write for an element, forward and
 * backward; 0: it is one kernel each way. */
struct ff_framework_written {
	double loss[2];              /* one more for its statistics else */
	double rms_norm[2], rope[2]; /* of 16 bits alone */
	double layer_norm[2];        /* then gelus are written out by tanh, too */
};

/* Of 16 bits, what is of float32. */
struct ff_framework_wide {
	bool norms;   /* layer norms, and sums */
	bool softmax; /* and what it drops; what reads any of these casts */
};

/* Our runtime has no row: it replays its steps as CUDA graphs, and kernels are as operators' rows
 * say. */
struct ff_framework {
	const char *name, *summary;
	/* Hosts issue tasks one after another, a device starts none before. */
	struct ff_framework_hosts {
		/* One takes so long to issue a pass of an operator (or each of its kernels), a move
		 * or an update.  This or `times` is fitted to steps that were published, the other
		 * is 0. */
		double operator_us;
		bool calls; /* they issue a pass kernel by kernel, not operator by operator */
		bool waits; /* they wait until messages between stages have arrived */
		bool times_passes; /* they wait for their devices between passes of micro-batches */
		/* So many calls more has a message between stages, forward and backward: what tells
		 * the shape of what follows it is read from the device, number by number. */
		double shapes[2];
	} hosts;
	double times;   /* what kernels are told to take, for all that is in a step beside them */
	bool alike;     /* devices of a kind are as fast as one another; no row has it */
	bool whole;     /* what is recomputed is recomputed up to what is kept, needed or not */
	bool at_once;   /* gradients are summed behind backward, all at once */
	bool narrow;    /* gradients are kept and summed in the type that is computed in */
	bool products;  /* attention is two products and what lies between, each a kernel */
	bool causal;    /* what lies between is one kernel, which does not read masked scores */
	bool copies;    /* what attention's products read and make is brought in order for them */
	bool sums;      /* a gradient of a bias is a kernel of its own */
	bool hands_on;  /* of a sum of equal shapes, each gradient is the sum's, not a copy */
	bool adds;      /* products add gradients of weights to those of earlier micro-batches */
	bool beside;    /* gathers and scatters inside a node go chunk by chunk beside products */
	bool gelus;     /* gelu by tanh is written out, a kernel a power, product, sum or tanh */
	bool drops;     /* a sum drops what it reads, where nothing else reads that */
	bool blocks;    /* a batch norm's kernels are those of rows' norms: a block a channel */
	bool fuses[2];  /* in float32, in 16 bits: batch norms add and cut off what they made */
	bool interacts; /* products of each sample's vectors, and picking of them, are one kernel */
	bool pads;      /* features that a linear layer reads are padded to a multiple of eight */
	bool tf32_products; /* of float32, where a device can */
	struct ff_framework_convolutions convolutions;
	/* Of 16 bits, parameters are kept in float32: cast for each pass, as gradients are back. */
	bool casts;
	/* So often more than by one kernel is an update's memory read or written in float32:
	 * gradients are divided by the loss's scale, tested and clipped before it, and it may be a
	 * kernel an operation. */
	double gradient_passes;
	const double *attention; /* numbers of its own kernel for 16 bits; NULL: the model's */
	double passes;           /* over all scores beside softmax and dropout: scaled, masked */
	struct ff_framework_written written;
	struct ff_framework_wide wide;
	bool joins; /* a sum belongs to the kernel of the norm that reads it */
};

/* The row whose name `text` is; "NAME:NUMBER" with that in place of the number that was fitted.
 * FF_E_INPUT: there is none. */
int ff_framework_find(const char *text, struct ff_framework *ret, struct ff_error *err);
/* "pytorch (...), megatron (...) or ..." */
#define FF_FRAMEWORK_TEXT 800
void ff_framework_list(char buf[FF_FRAMEWORK_TEXT]);

/* The kernels of `w` there. */
#define FF_FRAMEWORK_KERNELS (9 * FF_MOST_KERNELS)
uint32_t ff_framework_kernels(const struct ff_framework *f, const struct ff_work *w,
		struct ff_kernel_shape ret[FF_FRAMEWORK_KERNELS]);
/* What these depend on beside the work: where its node stands.  0: nowhere of note. */
uint32_t ff_framework_place(const struct ff_framework *f, const struct ff_work *w);
/* Whether the gradient of input `i` is added up as it is made, without a pass of its own. */
bool ff_framework_adds(const struct ff_framework *f, const struct ff_work *w, uint32_t i);
/* Of the bytes of a parameter's gradient of `type`, how many there are there. */
double ff_framework_narrowed(
		const struct ff_framework *f, const struct ff_graph *g, enum ff_dtype type);
/* What the host of one of its devices takes to issue task `t`. */
double ff_framework_issue_us(
		const struct ff_framework *f, const struct ff_schedule *s, const struct ff_task *t);
/* What its kernels take on the slowest of so many devices, for one on each. */
double ff_framework_slowest(const struct ff_framework *f, uint32_t n_devices);
/* Whether hosts issue nothing until it is done. */
bool ff_framework_awaits(
		const struct ff_framework *f, const struct ff_schedule *s, const struct ff_task *t);

#endif
