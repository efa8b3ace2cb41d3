/* Optimizers are data: one row each.  A row has the number of states an element, the settings that
 * a user may change, and the factors of a step.  Memory, prices, options and reports read it; the
 * kernels are the backends'. SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OPTIMIZER_H
#define FF_OPTIMIZER_H

#include "ff/costs.h"
#include "ff/dtype.h"

/* X(enumerator, row): `row` names the row in graphs/strategy/optimizer.c, its member of
 * union ff_factors and the kernel `ff_<backend>_<row>_update` of every backend. */
#define FF_OPTIMIZERS(X)                                                                           \
	X(FF_OPTIMIZER_SGD, sgd)                                                                   \
	X(FF_OPTIMIZER_MOMENTUM, momentum)                                                         \
	X(FF_OPTIMIZER_NESTEROV, nesterov)                                                         \
	X(FF_OPTIMIZER_ADAM, adam)                                                                 \
	X(FF_OPTIMIZER_ADAMW, adamw)

enum ff_optimizer_id {
#define FF_OPTIMIZER_ENUM(e, row) e,
	FF_OPTIMIZERS(FF_OPTIMIZER_ENUM)
#undef FF_OPTIMIZER_ENUM
			FF_OPTIMIZER_COUNT
};

/* What a user may set of one optimizer or another. */
enum ff_setting_id {
	FF_SETTING_RATE, /* every optimizer has it */
	FF_SETTING_MOMENTUM,
	FF_SETTING_BETA1,
	FF_SETTING_BETA2,
	FF_SETTING_EPSILON,
	FF_SETTING_DECAY,
	FF_SETTING_COUNT
};
struct ff_setting {
	const char *name, *help; /* the option is --name */
	double below;            /* 0 <= value < below */
};
const struct ff_setting *ff_setting(enum ff_setting_id id);

/* The factors of one step, computed in float64 and then rounded, as PyTorch does.  w, g: weight,
 * gradient; m, v: states. */
union ff_factors {
	/* torch.optim.SGD: g += decay * w; w -= rate * g */
	struct {
		float rate, decay;
	} sgd;
	/* torch.optim.SGD: g += decay * w; m = momentum * m + g; w -= rate * m */
	struct {
		float rate, momentum, decay;
	} momentum;
	/* torch.optim.SGD(nesterov=True) (Sutskever et al., "On the importance of initialization
	 * and momentum in deep learning", ICML 2013): g += decay * w; m = momentum * m + g;
	 * w -= rate * (g + momentum * m) */
	struct {
		float rate, momentum, decay;
	} nesterov;
	/* torch.optim.Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR
	 * 2015): g += decay * w; then as AdamW with shrink = 1 */
	struct {
		float decay, keep1, take1, keep2, take2, rate, root, epsilon;
	} adam;
	/* torch.optim.AdamW (Loshchilov and Hutter, "Decoupled Weight Decay
	 * Regularization", ICLR 2019): w *= shrink; m = keep1 * m + take1 * g;
	 * v = keep2 * v + take2 * g * g; w -= rate * m / (sqrt(v) / root + epsilon) */
	struct {
		float shrink, keep1, take1, keep2, take2, rate, root, epsilon;
	} adamw;
};

#define FF_MAX_STATES 2
/* The factor of gradients with that norm, as in torch.nn.utils.clip_grad_norm_; NaN stays NaN. */
#define FF_CLIP_SCALE(clip, norm) ((clip) / ((norm) + 1e-6f) > 1 ? 1 : (clip) / ((norm) + 1e-6f))
#define FF_NORM_SCRATCH 8192 /* bytes that the kernel of a gradients' norm needs */
#define FF_MAX_GROUPS 16     /* of parameters (ff/groups.h) */

struct ff_optimizer {
	enum ff_optimizer_id id;
	const char *name;    /* in files and options */
	const char *summary; /* a few words for help and docs */
	bool sparse;         /* without decay, a weight whose gradient is zero stays as it is */
	uint32_t states;     /* float32 values an element, besides weight and gradient */
	/* Rates in cost files: of an update, and of one that also writes bfloat16 weights. */
	enum ff_rate_kind rate, rounding_rate;
	struct {
		bool used;
		double preset;
	} setting[FF_SETTING_COUNT];
	/* From the values by setting, after `step` updates: the same on every device and for every
	 * strategy. */
	void (*factors)(const double *value, uint64_t step, union ff_factors *ret);
};

const struct ff_optimizer *ff_optimizer(enum ff_optimizer_id id);
/* The preset: SGD with momentum. */
const struct ff_optimizer *ff_optimizer_preset(void);
/* FF_E_INPUT if there is none of that name: "expected ...", the caller says where. */
int ff_optimizer_find(const char *name, const struct ff_optimizer **ret, struct ff_error *err);
#define FF_OPTIMIZER_TEXT 256
/* "sgd (...), momentum (...) or adamw (...)": names and summaries, or names alone. */
void ff_optimizer_list(bool summaries, char text[FF_OPTIMIZER_TEXT]);
/* Help for setting `id`, with its preset by optimizer. */
void ff_setting_help(enum ff_setting_id id, char text[FF_OPTIMIZER_TEXT]);

/* FF_E_INPUT if `o` has no such setting, or it is out of range: "`prefix`rate: expected ...". */
int ff_optimizer_check(const struct ff_optimizer *o, enum ff_setting_id id, double told,
		const char *prefix, struct ff_error *err);
/* value[id] = told[id], or the preset where that is NAN.  FF_E_INPUT for a setting that `o` does
 * not have or that is out of range.  Both have FF_SETTING_COUNT entries. */
int ff_optimizer_set(const struct ff_optimizer *o, const double *told, double *value,
		struct ff_error *err);

/* Whether an update by these settings may leave out weights whose gradient is zero. */
static inline bool ff_optimizer_skips(const struct ff_optimizer *o, const double *setting)
{
	return o->sparse && setting[FF_SETTING_DECAY] == 0;
}

static inline enum ff_rate_kind ff_optimizer_rate(const struct ff_optimizer *o, enum ff_dtype type)
{
	return type == FF_F32 ? o->rate : o->rounding_rate;
}

/* Bytes of `elements` float32 weights in a bucket, padded so that the next parameter begins at a
 * multiple of 64 bytes in every array, also that of the readers' `type`. */
static inline int64_t ff_optimizer_align(enum ff_dtype type, int64_t elements)
{
	int64_t size = ff_dtype_bytes(type);

	return (elements * size + 63) / 64 * 64 / size * FF_F32_BYTES;
}
/* Bytes on a device that updates `bytes` of float32 weights: weights, gradients, states, and the
 * weights in the readers' type. */
static inline int64_t ff_optimizer_bytes(
		const struct ff_optimizer *o, enum ff_dtype type, int64_t bytes)
{
	int64_t arrays = (2 + (int64_t)o->states) * bytes;

	return type == FF_F32 ? arrays : arrays + bytes / FF_F32_BYTES * ff_dtype_bytes(type);
}

#endif
