/* A closed-form estimate of a place of the grid: cheap enough for every place, and good enough to
 * order neighbours. SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_GUESS_H
#define FF_PLANNER_GUESS_H

#include "ff/evaluate.h"
#include "places.h"
#include "space/repeats.h"

/* Bytes a second, as priced, that each device has for sums: over devices with the same parameters,
 * by places of STAGES and TENSOR (`inside`: over those of a node); over devices that share
 * products, or a sequence; and, `stages`, from one stage to the next. */
struct ff_guess_rates {
	double data[FF_PLACE_DIVISORS][FF_PLACE_DIVISORS];
	double stages[FF_PLACE_DIVISORS], stage_s[FF_PLACE_DIVISORS]; /* and fixed, a message */
	double inside[FF_PLACE_DIVISORS], tensor[FF_PLACE_DIVISORS], context[FF_PLACE_DIVISORS];
};

/* Sums over a graph; arrays are by recomputation: FF_PLACE_NOTHING, LIGHT, WHOLE. */
struct ff_guesser {
	const struct ff_places *places;
	double compute_s;       /* forward and backward of the whole batch on one device */
	double again_s[3];      /* recomputation of the whole batch */
	double kept_bytes[3];   /* activations of the whole batch that forward keeps */
	double between_bytes;   /* activations between blocks, of the whole batch */
	double passed_bytes;    /* of these, from one block to the next */
	double parameters;      /* elements */
	double parameter_bytes; /* of one element, in the graph's type */
	double memory_bytes;    /* of a device, the mean */
	struct ff_guess_rates rates;
};

struct ff_guess {
	double step_us;
	double bytes;    /* of the fullest device */
	double again;    /* of these, what recomputing whole blocks would save, */
	double again_us; /* and the time of that recomputation */
};

/* `e` has the memory limits of devices. */
void ff_guesser_init(const struct ff_places *places, const struct ff_repeats *r,
		const struct ff_evaluator *e, struct ff_guesser *ret);
struct ff_guess ff_guess(const struct ff_guesser *x, const struct ff_place *p);

/* The error of an estimate, evaluated over estimated.  Neighbouring places are assumed to have
 * the same.  Bytes are off by that factor or by the difference `more_bytes`, whichever is less. */
struct ff_guess_off {
	double step, bytes, more_bytes;
};
struct ff_guess_off ff_guess_off(const struct ff_guesser *x, const struct ff_place *p,
		const struct ff_evaluation *at);
/* The estimated step of a place, corrected by `off`, with as many blocks recomputed as memory
 * needs. */
double ff_guess_key(const struct ff_guesser *x, const struct ff_place *p, struct ff_guess_off off);
/* The same of a place that was evaluated as `at`. */
double ff_guess_filled(const struct ff_guesser *x, const struct ff_place *p,
		const struct ff_evaluation *at);
/* Of the places with the stages, shared products and splits of `p` the one of the least step;
 * false: there is none. */
bool ff_guess_best(const struct ff_guesser *x, struct ff_place p, struct ff_place *ret);

#endif
