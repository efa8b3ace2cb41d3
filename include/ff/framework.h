/* Other frameworks that may execute a strategy: how their hosts and kernels differ from our
 * runtime's. docs/simulator.md, "Frameworks".  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_FRAMEWORK_H
#define FF_FRAMEWORK_H

#include "ff/kernel_shape.h"
#include "ff/schedule.h"

struct ff_framework_convolutions {
	bool tf32;              /* float32 in TF32, if the device has it */
	bool biases;            /* adding a bias is a kernel of its own */
	bool taps;              /* depthwise: the filter's gradient reads the images once a tap */
	bool channels_first[2]; /* layout of operands in float32, in 16 bits */
	bool sums_up; /* forward also sums up what a batch norm that includes relu needs */
};

/* Operators that are several kernels in float32: bytes that these access for each element, forward
 * and backward; 0: one kernel each way. */
struct ff_framework_written {
	double loss[2];              /* 0: one kernel, and one for its statistics */
	double rms_norm[2], rope[2]; /* only in graphs of 16 bits */
	double layer_norm[2];        /* if set, gelu by tanh is several kernels, too */
};

/* Operators that compute in float32 in graphs of 16 bits. */
struct ff_framework_wide {
	bool norms;   /* layer norms and sums */
	bool softmax; /* softmax and its dropout; their readers cast */
};

/* Our runtime has no row: it replays its steps as CUDA graphs, with the kernels of operators' rows.
 */
struct ff_framework {
	const char *name, *summary;
	/* Hosts issue their device's tasks one after another; no task starts before it is issued.
	 */
	struct ff_framework_hosts {
		/* Time to issue a pass of an operator (with `calls` each kernel of it), a move or
		 * an update.  This or `times` is fitted to published steps; the other is 0. */
		double operator_us;
		bool calls;        /* hosts issue kernel by kernel, not operator by operator */
		bool waits;        /* hosts wait until messages between stages have arrived */
		bool times_passes; /* hosts synchronise with their device after each pass */
		/* Further calls of a message between stages, forward and backward: hosts read the
		 * shape of the next tensor from the device, number by number. */
		double shapes[2];
	} hosts;
	double times;  /* factor of kernels' times, for all else that is in a step */
	bool alike;    /* devices of a kind are equally fast; no row has it */
	bool whole;    /* recomputes whole blocks, needed or not */
	bool at_once;  /* sums gradients after backward, without overlap */
	bool narrow;   /* keeps and sums gradients in the graph's type */
	bool products; /* attention is two products and the operators between them, each a kernel */
	bool causal;   /* these are one kernel, which does not read masked scores */
	bool copies;   /* copies operands and results of attention's products into order */
	bool sums;     /* the gradient of a bias is a kernel of its own */
	bool hands_on; /* the gradients of a sum's operands are the sum's, not copies */
	bool adds;     /* products accumulate gradients of weights over micro-batches */
	bool beside;   /* gathers and scatters inside a node overlap products, chunk by chunk */
	bool gelus;    /* gelu by tanh is a kernel for each power, product, sum and tanh */
	bool drops;    /* a sum includes the dropout before it, if that has no other reader */
	bool blocks;   /* batch norms have a block of threads a channel, as norms of rows */
	bool fuses[2]; /* in float32, in 16 bits: batch norms include the sum and relu after them */
	bool interacts;     /* DLRM's interaction of a sample's vectors is one kernel */
	bool pads;          /* inputs of linear layers are padded to a multiple of eight features */
	bool tf32_products; /* float32 products in TF32, if the device has it */
	struct ff_framework_convolutions convolutions;
	/* In 16 bits: parameters are float32, cast for each pass; gradients are cast back. */
	bool casts;
	/* Passes over an update's float32 memory beyond one kernel's: unscaling, testing and
	 * clipping gradients, and updates of a kernel an operation. */
	double gradient_passes;
	const double *attention; /* parameters of its own 16-bit kernel; NULL: the model's */
	double passes;           /* further passes over all scores: scaling, masking */
	struct ff_framework_written written;
	struct ff_framework_wide wide;
	bool joins; /* the kernel of a norm includes the sum before it */
};

/* The row of name `text`.  "NAME:NUMBER" replaces the fitted number.  FF_E_INPUT: there is none. */
int ff_framework_find(const char *text, struct ff_framework *ret, struct ff_error *err);
/* "pytorch (...), megatron (...) or ..." */
#define FF_FRAMEWORK_TEXT 800
void ff_framework_list(char buf[FF_FRAMEWORK_TEXT]);

/* The kernels of `w` in that framework. */
#define FF_FRAMEWORK_KERNELS (9 * FF_MOST_KERNELS)
uint32_t ff_framework_kernels(const struct ff_framework *f, const struct ff_work *w,
		struct ff_kernel_shape ret[FF_FRAMEWORK_KERNELS]);
/* What these depend on besides the work: a value for the position of its node in the graph; 0:
 * nothing. */
uint32_t ff_framework_place(const struct ff_framework *f, const struct ff_work *w);
/* Whether the kernel of `w` accumulates the gradient of input `i`, without a pass of its own. */
bool ff_framework_adds(const struct ff_framework *f, const struct ff_work *w, uint32_t i);
/* Bytes of a parameter's gradient in that framework, relative to `type`. */
double ff_framework_narrowed(
		const struct ff_framework *f, const struct ff_graph *g, enum ff_dtype type);
/* The time of a host to issue task `t`. */
double ff_framework_issue_us(
		const struct ff_framework *f, const struct ff_schedule *s, const struct ff_task *t);
/* The factor of kernels' times on the slowest of `n_devices` devices, relative to the mean one. */
double ff_framework_slowest(const struct ff_framework *f, uint32_t n_devices);
/* Whether hosts issue nothing more until task `t` is done. */
bool ff_framework_awaits(
		const struct ff_framework *f, const struct ff_schedule *s, const struct ff_task *t);

#endif
