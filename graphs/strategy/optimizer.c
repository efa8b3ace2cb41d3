/* Optimizers: the rows, and what is generic about them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/optimizer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ff/nearest.h"

static const struct ff_setting settings[FF_SETTING_COUNT] = {
		[FF_SETTING_RATE] = {"rate", "learning rate", INFINITY},
		[FF_SETTING_MOMENTUM] = {"momentum", "share of the last step that is kept", 1},
		[FF_SETTING_BETA1] = {"beta1", "share of the gradients' mean that is kept", 1},
		[FF_SETTING_BETA2] = {"beta2", "share of the squared gradients' mean that is kept",
				1},
		[FF_SETTING_EPSILON] = {"epsilon", "what is added to that mean's root", INFINITY},
		[FF_SETTING_DECAY] = {"decay", "weight decay", INFINITY},
};

static void sgd_factors(const double *value, uint64_t step, union ff_factors *ret)
{
	(void)step;
	ret->sgd.rate = (float)value[FF_SETTING_RATE];
	ret->sgd.decay = (float)value[FF_SETTING_DECAY];
}

static void momentum_factors(const double *value, uint64_t step, union ff_factors *ret)
{
	(void)step;
	ret->momentum.rate = (float)value[FF_SETTING_RATE];
	ret->momentum.momentum = (float)value[FF_SETTING_MOMENTUM];
	ret->momentum.decay = (float)value[FF_SETTING_DECAY];
}

static void nesterov_factors(const double *value, uint64_t step, union ff_factors *ret)
{
	(void)step;
	ret->nesterov.rate = (float)value[FF_SETTING_RATE];
	ret->nesterov.momentum = (float)value[FF_SETTING_MOMENTUM];
	ret->nesterov.decay = (float)value[FF_SETTING_DECAY];
}

/* States begin at zero, so that after n updates the means lack beta^n of their weight. */
static void adam_factors(const double *value, uint64_t step, union ff_factors *ret)
{
	double beta1 = value[FF_SETTING_BETA1], beta2 = value[FF_SETTING_BETA2];
	double n = (double)step + 1;

	ret->adam.decay = (float)value[FF_SETTING_DECAY];
	ret->adam.keep1 = (float)beta1;
	ret->adam.take1 = (float)(1 - beta1);
	ret->adam.keep2 = (float)beta2;
	ret->adam.take2 = (float)(1 - beta2);
	ret->adam.rate = (float)(value[FF_SETTING_RATE] / (1 - pow(beta1, n)));
	ret->adam.root = (float)sqrt(1 - pow(beta2, n));
	ret->adam.epsilon = (float)value[FF_SETTING_EPSILON];
}

/* As adam's, but what shrinks the weights. */
static void adamw_factors(const double *value, uint64_t step, union ff_factors *ret)
{
	double rate = value[FF_SETTING_RATE], n = (double)step + 1;
	double beta1 = value[FF_SETTING_BETA1], beta2 = value[FF_SETTING_BETA2];

	ret->adamw.shrink = (float)(1 - rate * value[FF_SETTING_DECAY]);
	ret->adamw.keep1 = (float)beta1;
	ret->adamw.take1 = (float)(1 - beta1);
	ret->adamw.keep2 = (float)beta2;
	ret->adamw.take2 = (float)(1 - beta2);
	ret->adamw.rate = (float)(rate / (1 - pow(beta1, n)));
	ret->adamw.root = (float)sqrt(1 - pow(beta2, n));
	ret->adamw.epsilon = (float)value[FF_SETTING_EPSILON];
}

#define PRESET(v)                                                                                  \
	{                                                                                          \
		.used = true, .preset = (v)                                                        \
	}

static const struct ff_optimizer sgd = {
		.id = FF_OPTIMIZER_SGD,
		.sparse = true,
		.name = "sgd",
		.summary = "plain SGD",
		.rate = FF_RATE_UPDATE_SGD,
		.rounding_rate = FF_RATE_UPDATE_SGD_BF16,
		.setting = {[FF_SETTING_RATE] = PRESET(0.01), [FF_SETTING_DECAY] = PRESET(0)},
		.factors = sgd_factors,
};

static const struct ff_optimizer momentum = {
		.id = FF_OPTIMIZER_MOMENTUM,
		.name = "momentum",
		.summary = "SGD with momentum",
		.states = 1,
		.rate = FF_RATE_UPDATE,
		.rounding_rate = FF_RATE_UPDATE_BF16,
		.setting = {[FF_SETTING_RATE] = PRESET(0.01),
				[FF_SETTING_MOMENTUM] = PRESET(0.9),
				[FF_SETTING_DECAY] = PRESET(0)},
		.factors = momentum_factors,
};

static const struct ff_optimizer nesterov = {
		.id = FF_OPTIMIZER_NESTEROV,
		.name = "nesterov",
		.summary = "SGD with Nesterov's momentum",
		.states = 1,
		.rate = FF_RATE_UPDATE_NESTEROV,
		.rounding_rate = FF_RATE_UPDATE_NESTEROV_BF16,
		.setting = {[FF_SETTING_RATE] = PRESET(0.01),
				[FF_SETTING_MOMENTUM] = PRESET(0.9),
				[FF_SETTING_DECAY] = PRESET(0)},
		.factors = nesterov_factors,
};

static const struct ff_optimizer adam = {
		.id = FF_OPTIMIZER_ADAM,
		.name = "adam",
		.summary = "Adam",
		.states = 2,
		.rate = FF_RATE_UPDATE_ADAM,
		.rounding_rate = FF_RATE_UPDATE_ADAM_BF16,
		.setting = {[FF_SETTING_RATE] = PRESET(0.001),
				[FF_SETTING_BETA1] = PRESET(0.9),
				[FF_SETTING_BETA2] = PRESET(0.999),
				[FF_SETTING_EPSILON] = PRESET(1e-8),
				[FF_SETTING_DECAY] = PRESET(0)},
		.factors = adam_factors,
};

static const struct ff_optimizer adamw = {
		.id = FF_OPTIMIZER_ADAMW,
		.name = "adamw",
		.summary = "Adam with decoupled weight decay",
		.states = 2,
		.rate = FF_RATE_UPDATE_ADAMW,
		.rounding_rate = FF_RATE_UPDATE_ADAMW_BF16,
		.setting = {[FF_SETTING_RATE] = PRESET(0.001),
				[FF_SETTING_BETA1] = PRESET(0.9),
				[FF_SETTING_BETA2] = PRESET(0.999),
				[FF_SETTING_EPSILON] = PRESET(1e-8),
				[FF_SETTING_DECAY] = PRESET(0.01)},
		.factors = adamw_factors,
};

static const struct ff_optimizer *const rows[FF_OPTIMIZER_COUNT] = {
#define FF_OPTIMIZER_ROW(e, row) [e] = &(row),
		FF_OPTIMIZERS(FF_OPTIMIZER_ROW)
#undef FF_OPTIMIZER_ROW
};

const struct ff_setting *ff_setting(enum ff_setting_id id)
{
	return &settings[id];
}

const struct ff_optimizer *ff_optimizer(enum ff_optimizer_id id)
{
	return rows[id];
}

const struct ff_optimizer *ff_optimizer_preset(void)
{
	return rows[FF_OPTIMIZER_MOMENTUM];
}

/* Adds to what stands in `text`. */
static void append(char text[FF_OPTIMIZER_TEXT], const char *fmt, ...)
		__attribute__((format(printf, 2, 3)));
static void append(char text[FF_OPTIMIZER_TEXT], const char *fmt, ...)
{
	size_t used = strlen(text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + used, FF_OPTIMIZER_TEXT - used, fmt, args);
	va_end(args);
}

void ff_optimizer_list(bool summaries, char text[FF_OPTIMIZER_TEXT])
{
	text[0] = 0;
	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		append(text, "%s%s",
				!i                           ? ""
				: i + 1 < FF_OPTIMIZER_COUNT ? ", "
							     : " or ",
				rows[i]->name);
		if (summaries)
			append(text, " (%s)", rows[i]->summary);
	}
}

void ff_setting_help(enum ff_setting_id id, char text[FF_OPTIMIZER_TEXT])
{
	const char *between = " (";

	text[0] = 0;
	append(text, "%s", settings[id].help);
	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		if (!rows[i]->setting[id].used)
			continue;
		append(text, "%s%s: %g", between, rows[i]->name, rows[i]->setting[id].preset);
		between = ", ";
	}
	append(text, ")");
}

int ff_optimizer_find(const char *name, const struct ff_optimizer **ret, struct ff_error *err)
{
	char known[FF_OPTIMIZER_TEXT];
	struct ff_nearest near;

	ff_nearest_init(&near, name);
	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		if (!strcmp(rows[i]->name, name)) {
			*ret = rows[i];
			return FF_OK;
		}
		ff_nearest_try(&near, rows[i]->name);
	}
	ff_optimizer_list(false, known);
	return ff_fail(err, FF_E_INPUT, "expected %s, not \"%.60s\"%s", known, name,
			ff_nearest_hint(&near));
}

int ff_optimizer_check(const struct ff_optimizer *o, enum ff_setting_id id, double told,
		const char *prefix, struct ff_error *err)
{
	const struct ff_setting *s = &settings[id];
	char below[32] = "";

	if (!o->setting[id].used)
		return ff_fail(err, FF_E_INPUT, "%s%s: optimizer %s has no such setting", prefix,
				s->name, o->name);
	if (told >= 0 && told < s->below)
		return FF_OK;
	if (isfinite(s->below))
		snprintf(below, sizeof(below), " and below %g", s->below);
	return ff_fail(err, FF_E_INPUT, "%s%s: expected a number from 0%s, not %g", prefix, s->name,
			below, told);
}

int ff_optimizer_set(const struct ff_optimizer *o, const double *told, double *value,
		struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < FF_SETTING_COUNT && code == FF_OK; i++)
		if (!isnan(told[i]))
			code = ff_optimizer_check(
					o, (enum ff_setting_id)i, told[i], "option --", err);
	for (uint32_t i = 0; i < FF_SETTING_COUNT && code == FF_OK; i++)
		value[i] = isnan(told[i]) ? o->setting[i].preset : told[i];
	return code;
}
