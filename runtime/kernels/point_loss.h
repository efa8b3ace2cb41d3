/* Losses that compare each element x with a target t, a line each, and what rows, CPU and CUDA
 * kernels call them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_POINT_LOSS_H
#define FF_RUNTIME_POINT_LOSS_H

/* X(name, loss of x and t, its slope by x, whether x predicts t).  A target that is no number
 * counts for nothing.  The logistic loss is log(1 + exp(x)) - x t, such that no exponential
 * overflows.  Of a mean the target says no more than which elements count. */
#define FF_POINT_LOSSES(X)                                                                         \
	X(mse, (x - t) * (x - t), 2 * (x - t), false)                                              \
	X(bce_with_logits, (x > 0 ? x : 0) - x * t + log1pf(ff_exp(-fabsf(x))), ff_sigmoid(x) - t, \
			(x > 0) == (t > 0.5f))                                                     \
	X(l1, fabsf(x - t), x > t ? 1 : x < t ? -1 : 0, false)                                     \
	X(smooth_l1, fabsf(x - t) < 1 ? (x - t) * (x - t) / 2 : fabsf(x - t) - 0.5f,               \
			ff_between(x - t, -1, 1), false)                                           \
	X(mean, x, 1, false)

enum ff_point_loss {
#define FF_POINT_LOSS_ENUM(name, loss, slope, right) FF_POINT_LOSS_##name,
	FF_POINT_LOSSES(FF_POINT_LOSS_ENUM)
#undef FF_POINT_LOSS_ENUM
			FF_POINT_LOSS_COUNT
};

#endif
