/* A guess at what a place of the grid comes to, in closed form: cheap enough to be made of each
 * place, and good enough to say which of two neighbours is worth a look first.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_GUESS_H
#define FF_PLANNER_GUESS_H

#include "ff/evaluate.h"
#include "places.h"
#include "space/repeats.h"

/* Sums over a graph; those of what is computed again by FF_PLACE_NOTHING, LIGHT, WHOLE. */
struct ff_guesser {
	const struct ff_places *places;
	double compute_s;       /* all samples on one device, forward and backward; */
	double again_s[3];      /* what is computed again */
	double kept_bytes[3];   /* what forward keeps of all samples */
	double between_bytes;   /* what blocks leave to each other, of all samples */
	double parameters;      /* elements; */
	double parameter_bytes; /* one of them */
	double memory_bytes;    /* of a device, the mean */
};

struct ff_guess {
	double step_us;
	double bytes;    /* of the fullest device, */
	double again;    /* of them that need not be if blocks are recomputed whole, */
	double again_us; /* which takes so long */
};

/* Devices have the memory that `e` allows. */
void ff_guesser_init(const struct ff_places *places, const struct ff_repeats *r,
		const struct ff_evaluator *e, struct ff_guesser *ret);
struct ff_guess ff_guess(const struct ff_guesser *x, const struct ff_place *p);

/* What a place came to, as a share of what was guessed: its neighbours are guessed as much off.
 * Bytes may also be off by as many: what is there beside a guess of few grows no more than that. */
struct ff_guess_off {
	double step, bytes, more_bytes;
};
struct ff_guess_off ff_guess_off(const struct ff_guesser *x, const struct ff_place *p,
		const struct ff_evaluation *at);
/* The step of a place, by a guess that is so far off, or of one that comes to `at`, if as many
 * blocks are recomputed as it lacks memory for. */
double ff_guess_key(const struct ff_guesser *x, const struct ff_place *p, struct ff_guess_off off);
double ff_guess_filled(const struct ff_guesser *x, const struct ff_place *p,
		const struct ff_evaluation *at);

#endif
