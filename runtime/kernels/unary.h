/* Functions of one element, a line each, and what rows, CPU and CUDA kernels call them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_UNARY_H
#define FF_RUNTIME_UNARY_H

/* X(name, y of x, dy/dx of v): v is x where the row is FF_OP_BACKWARD_IN, y where it is
 * FF_OP_BACKWARD_OUT; a and b are its attributes.  The forms of an operator follow the one that
 * has its name.  What is no number stays none, in either direction.  The functions that both kinds
 * of kernel have are in functions.h. */
#define FF_UNARIES(X)                                                                              \
	X(relu, x <= 0 ? 0 : x, v <= 0 ? 0 : 1)                                                    \
	X(leaky_relu, x > 0 ? x : a * x, v > 0 ? 1 : a)                                            \
	X(tanh, ff_tanh(x), (1 - v) * (1 + v))                                                     \
	X(sigmoid, ff_sigmoid(x), (1 - v) * v)                                                     \
	X(gelu, ff_normal(x) * x, ff_normal(v) + v * ff_bell(v))                                   \
	X(gelu_tanh, ff_normal_tanh(x) * x, ff_gelu_tanh_slope(v))                                 \
	X(silu, ff_sigmoid(x) * x, ff_silu_slope(v))                                               \
	X(hardswish, ff_between(x + 3, 0, 6) * x / 6, v < -3 ? 0 : v > 3 ? 1 : v / 3 + 0.5f)       \
	X(exp, ff_exp(x), v)                                                                       \
	X(log, ff_log(x), 1 / v)                                                                   \
	X(sqrt, sqrtf(x), 0.5f / v)                                                                \
	X(pow, powf(x, a), a == 0 ? 0 : a * powf(v, a - 1))                                        \
	X(square, (x * x), 2 * v)                                                                  \
	X(cube, (x * x) * x, 3 * v * v)                                                            \
	X(reciprocal, 1 / x, -1 / (v * v))                                                         \
	X(neg, -x, -1)                                                                             \
	X(scale, a *x + b, a)                                                                      \
	X(abs, fabsf(x), v > 0 ? 1 : v < 0 ? -1 : 0)                                               \
	X(clip, ff_between(x, a, b), v >= a && v <= b ? 1 : 0)                                     \
	X(erf, ff_erf(x), 2 * ff_bell(v * FF_SQRT2) * FF_SQRT2)                                    \
	X(sin, sinf(x), cosf(v))                                                                   \
	X(cos, cosf(x), -sinf(v))                                                                  \
	X(asin, asinf(x), 1 / sqrtf((1 - v) * (1 + v)))                                            \
	X(acos, acosf(x), -1 / sqrtf((1 - v) * (1 + v)))                                           \
	X(atan, atanf(x), 1 / (1 + v * v))                                                         \
	X(floor, floorf(x), 0)                                                                     \
	X(round, rintf(x), 0)                                                                      \
	X(lgamma, ff_lgamma(x), ff_digamma(v))                                                     \
	X(digamma, ff_digamma(x), ff_trigamma(v))                                                  \
	X(detach, x, 0)

enum ff_unary {
#define FF_UNARY_ENUM(name, forward, slope) FF_UNARY_##name,
	FF_UNARIES(FF_UNARY_ENUM)
#undef FF_UNARY_ENUM
			FF_UNARY_COUNT
};

#endif
