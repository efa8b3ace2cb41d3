/* The best of a chain.  A layout takes time, so some that are little better, or likely to have
 * none, are passed over.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "best.h"
#include "ff/cli.h"

#define SLIGHT 1e-3        /* of a step */
#define MANY_TASKS 30000.0 /* operators, devices and micro-batches, multiplied */
#define TOO_TIGHT_EVERY 8  /* bests that may have no layout, of which one is laid out anyway */
#define SPARE 0.5          /* of a lowering more than it is expected to take */
#define MOST_LAST 0.5      /* of the time, for all that */

/* How many times as long as data parallelism in one micro-batch it takes to lower `s`. */
static double times_data_parallel(const struct ff_chain *c, const struct ff_strategy *s)
{
	double whole = (double)ff_space_instances_each(c->space, 1, c->machine->n_devices);

	return (double)ff_space_instances(c->space, s) / whole;
}

/* A layout takes no longer than lowering does; mostly less, as devices that do the same have one.
 */
static double layout_s(const struct ff_chain *c, const struct ff_strategy *s)
{
	double given_s = c->opt->layout_s > 0 ? c->opt->layout_s : c->opt->lower_s;
	double each_s = c->clock.layout_s > 0 ? c->clock.layout_s : given_s;

	return each_s * times_data_parallel(c, s);
}

/* The caller lowers what is found. */
static double lower_s(const struct ff_chain *c, const struct ff_strategy *s)
{
	return c->opt->lower_s * times_data_parallel(c, s);
}

/* Whether the time is over in which `s` could be laid out and lowered, if that took `times` as long
 * as it is expected to. */
static bool is_late(const struct ff_chain *c, const struct ff_strategy *s, double times)
{
	double now_s = ff_clock_us() / 1e6 - c->clock.from;

	return c->opt->seconds > 0 &&
	       now_s + times * (layout_s(c, s) + lower_s(c, s)) >= c->opt->seconds + c->opt->kept_s;
}

bool ff_chain_may_lay_out(const struct ff_chain *c, const struct ff_strategy *s)
{
	bool needed = !c->opt->may_find_none && !(c->best.saved && c->best.at_saved.fits);

	return needed || !is_late(c, s, 1);
}

bool ff_chain_must_lay_out(const struct ff_chain *c, const struct ff_strategy *s)
{
	return is_late(c, s, 1 + SPARE);
}

/* A best that may still be laid out is, before it is too late for that. */
static double last_s(const struct ff_chain *c)
{
	if (c->best.unsaved && c->best.at.tight && !c->best.laid_out &&
			ff_chain_may_lay_out(c, &c->current))
		return layout_s(c, &c->current) + (1 + SPARE) * lower_s(c, &c->current);
	/* there is time for data parallelism anyway */
	if (c->best.unsaved && c->best.laid_out)
		return lower_s(c, &c->current) - c->opt->lower_s;
	return c->best.saved ? lower_s(c, &c->best.strategy) - c->opt->lower_s : 0;
}

bool ff_chain_has_to_end(const struct ff_chain *c)
{
	double left_s = c->opt->seconds - c->clock.seconds;

	return left_s <= 0 || (left_s < MOST_LAST * c->opt->seconds && left_s <= last_s(c));
}

/* Whether a layout is found for the current strategy, where there is time for one.  Where none was,
 * those that have no more to spare by what lives at once seldom have one either. */
static int lays_out(struct ff_chain *c, bool *ret, struct ff_error *err)
{
	int64_t spare = c->best.at.spare_bytes;
	double from_us, took_s;
	int code;

	*ret = false;
	if (!ff_chain_may_lay_out(c, &c->current))
		return FF_OK;
	from_us = ff_clock_us();
	code = ff_evaluator_lays_out(c->evaluator, ret, err);
	took_s = (ff_clock_us() - from_us) / 1e6;
	c->clock.layout_s = fmax(c->clock.layout_s, took_s / times_data_parallel(c, &c->current));
	if (code < 0)
		return code;
	if (!*ret && spare > c->best.too_tight_bytes)
		c->best.too_tight_bytes = spare;
	if (*ret && spare <= c->best.too_tight_bytes)
		c->best.too_tight_bytes = spare - 1;
	return FF_OK;
}

/* Copies the current strategy into the best, as far as they differ.  Where memory
 * is scarce a layout must be found first; a best without one is none. */
int ff_chain_save(struct ff_chain *c, struct ff_error *err)
{
	bool fits = true;
	int code = FF_OK;

	c->best.unsaved = false;
	if (c->best.at.fits && c->best.at.tight && !c->best.laid_out)
		code = lays_out(c, &fits, err);
	if (code < 0)
		return code;
	if (!fits) {
		c->best.at = c->best.at_saved;
		return FF_OK;
	}
	if (c->best.rephased)
		ff_strategy_copy(&c->best.strategy, &c->current);
	c->best.rephased = false;
	for (uint32_t i = 0; i < c->best.n_changed; i++) {
		uint32_t node = c->best.changed[i];

		c->best.strategy.config[node] = c->current.config[node];
		c->best.is_changed[node] = false;
	}
	c->best.n_changed = 0;
	c->best.saved = true;
	c->best.at_saved = c->best.at;
	if (c->best.at.fits && isinf(c->clock.first_s))
		c->clock.first_s = ff_clock_us() / 1e6 - c->clock.from;
	if (c->notes.shapes.most && c->best.at.fits)
		ff_shapes_add(&c->notes.shapes, &c->best.strategy, c->best.at.step_us);
	return FF_OK;
}

/* Whether the best is so little better than the saved one that to lay it out, which takes long
 * where many tasks are, is not worth it. */
static bool is_slight(const struct ff_chain *c)
{
	double parts = (double)c->graph->n_nodes * c->machine->n_devices * c->current.micro_batches;

	return parts > MANY_TASKS && c->best.at_saved.fits &&
	       c->best.at.step_us > c->best.at_saved.step_us * (1 - SLIGHT);
}

/* Of those that may have no layout most are passed over. */
static bool is_too_tight(struct ff_chain *c)
{
	return c->best.at.spare_bytes <= c->best.too_tight_bytes &&
	       ++c->best.n_too_tight % TOO_TIGHT_EVERY != 0;
}

int ff_chain_save_on_the_way(struct ff_chain *c, struct ff_error *err)
{
	if (c->best.saved && c->best.at.tight && (is_too_tight(c) || is_slight(c))) {
		c->best.unsaved = false;
		c->best.at = c->best.at_saved;
		return FF_OK;
	}
	return ff_chain_save(c, err);
}
