/* The list of operators.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OPS_H
#define FF_OPS_H

/* Functions of one element (rows/elementwise.c, runtime/kernels/unary.h). */
#define FF_UNARY_OPS(X)                                                                            \
	X(FF_OP_RELU, relu)                                                                        \
	X(FF_OP_LEAKY_RELU, leaky_relu)                                                            \
	X(FF_OP_TANH, tanh)                                                                        \
	X(FF_OP_SIGMOID, sigmoid)                                                                  \
	X(FF_OP_GELU, gelu)                                                                        \
	X(FF_OP_SILU, silu)                                                                        \
	X(FF_OP_HARDSWISH, hardswish)                                                              \
	X(FF_OP_EXP, exp)                                                                          \
	X(FF_OP_LOG, log)                                                                          \
	X(FF_OP_SQRT, sqrt)                                                                        \
	X(FF_OP_POW, pow)                                                                          \
	X(FF_OP_NEG, neg)                                                                          \
	X(FF_OP_SCALE, scale)                                                                      \
	X(FF_OP_ABS, abs)                                                                          \
	X(FF_OP_CLIP, clip)                                                                        \
	X(FF_OP_ERF, erf)                                                                          \
	X(FF_OP_SIN, sin)                                                                          \
	X(FF_OP_COS, cos)                                                                          \
	X(FF_OP_ASIN, asin)                                                                        \
	X(FF_OP_ACOS, acos)                                                                        \
	X(FF_OP_ATAN, atan)                                                                        \
	X(FF_OP_FLOOR, floor)                                                                      \
	X(FF_OP_ROUND, round)                                                                      \
	X(FF_OP_LGAMMA, lgamma)                                                                    \
	X(FF_OP_DIGAMMA, digamma)                                                                  \
	X(FF_OP_DETACH, detach)

/* Functions of two elements (rows/binary.c, runtime/kernels/binary.h). */
#define FF_BINARY_OPS(X)                                                                           \
	X(FF_OP_ADD, add)                                                                          \
	X(FF_OP_SUB, sub)                                                                          \
	X(FF_OP_MUL, mul)                                                                          \
	X(FF_OP_DIV, div)                                                                          \
	X(FF_OP_MIN, min)                                                                          \
	X(FF_OP_MAX, max)                                                                          \
	X(FF_OP_MASK, mask)                                                                        \
	X(FF_OP_ATAN2, atan2)

/* What goes along one, two or three spatial axes with a window (rows/conv.c,
 * rows/conv_transpose.c, rows/pool.c). */
#define FF_CONV_OPS(X)                                                                             \
	X(FF_OP_CONV1D, conv1d)                                                                    \
	X(FF_OP_CONV2D, conv2d)                                                                    \
	X(FF_OP_CONV3D, conv3d)
#define FF_CONV_TRANSPOSE_OPS(X)                                                                   \
	X(FF_OP_CONV_TRANSPOSE1D, conv_transpose1d)                                                \
	X(FF_OP_CONV_TRANSPOSE2D, conv_transpose2d)                                                \
	X(FF_OP_CONV_TRANSPOSE3D, conv_transpose3d)
#define FF_POOL_OPS(X)                                                                             \
	X(FF_OP_POOL1D, pool1d)                                                                    \
	X(FF_OP_POOL2D, pool2d)                                                                    \
	X(FF_OP_POOL3D, pool3d)

/* What is linear along every spatial axis (rows/resize.c). */
#define FF_RESIZE_OPS(X)                                                                           \
	X(FF_OP_ADAPTIVE_POOL, adaptive_pool)                                                      \
	X(FF_OP_UPSAMPLE, upsample)

/* Losses that compare each element with a target's (rows/point_loss.c,
 * runtime/kernels/point_loss.h). */
#define FF_POINT_LOSS_OPS(X)                                                                       \
	X(FF_OP_MSE, mse)                                                                          \
	X(FF_OP_BCE_WITH_LOGITS, bce_with_logits)                                                  \
	X(FF_OP_L1, l1)                                                                            \
	X(FF_OP_SMOOTH_L1, smooth_l1)                                                              \
	X(FF_OP_MEAN, mean)

/* X(enumerator, row): `row` names `ff_op_<row>` in graphs/operator/rows/ and the
 * kernels `ff_<backend>_<row>_*` of every backend. */
#define FF_OPS(X)                                                                                  \
	X(FF_OP_INPUT, input)                                                                      \
	X(FF_OP_PARAMETER, parameter)                                                              \
	FF_CONV_OPS(X)                                                                             \
	FF_CONV_TRANSPOSE_OPS(X)                                                                   \
	X(FF_OP_LINEAR, linear)                                                                    \
	FF_POOL_OPS(X)                                                                             \
	FF_RESIZE_OPS(X)                                                                           \
	FF_UNARY_OPS(X)                                                                            \
	FF_BINARY_OPS(X)                                                                           \
	X(FF_OP_CAST, cast)                                                                        \
	X(FF_OP_CONCAT, concat)                                                                    \
	X(FF_OP_SPLIT, split)                                                                      \
	X(FF_OP_SLICE, slice)                                                                      \
	X(FF_OP_PAD, pad)                                                                          \
	X(FF_OP_GATHER, gather)                                                                    \
	X(FF_OP_EXPAND, expand)                                                                    \
	X(FF_OP_CONSTANT_OF, constant)                                                             \
	X(FF_OP_RESHAPE, reshape)                                                                  \
	X(FF_OP_TRANSPOSE, transpose)                                                              \
	X(FF_OP_DROPOUT, dropout)                                                                  \
	X(FF_OP_EMBEDDING, embedding)                                                              \
	X(FF_OP_REDUCE_SUM, reduce_sum)                                                            \
	X(FF_OP_REDUCE_MEAN, reduce_mean)                                                          \
	X(FF_OP_MAX_STATISTICS, max_statistics)                                                    \
	X(FF_OP_REDUCE_MAX, reduce_max)                                                            \
	X(FF_OP_MATMUL, matmul)                                                                    \
	X(FF_OP_ATTENTION_STATISTICS, attention_statistics)                                        \
	X(FF_OP_ATTENTION, attention)                                                              \
	X(FF_OP_ROPE, rope)                                                                        \
	X(FF_OP_SOFT_STATISTICS, soft_statistics)                                                  \
	X(FF_OP_SOFTMAX, softmax)                                                                  \
	X(FF_OP_LOG_SOFT_STATISTICS, log_soft_statistics)                                          \
	X(FF_OP_LOG_SOFTMAX, log_softmax)                                                          \
	X(FF_OP_ROUTE, route)                                                                      \
	X(FF_OP_DISPATCH, dispatch)                                                                \
	X(FF_OP_COMBINE, combine)                                                                  \
	X(FF_OP_LAYER_NORM, layer_norm)                                                            \
	X(FF_OP_RMS_NORM, rms_norm)                                                                \
	X(FF_OP_GROUP_NORM, group_norm)                                                            \
	X(FF_OP_LOCAL_RESPONSE_NORM, local_response_norm)                                          \
	X(FF_OP_BATCH_MOMENTS, batch_moments)                                                      \
	X(FF_OP_BATCH_NORM, batch_norm)                                                            \
	X(FF_OP_RNN, rnn)                                                                          \
	X(FF_OP_LSTM, lstm)                                                                        \
	X(FF_OP_GRU, gru)                                                                          \
	X(FF_OP_SOFTMAX_STATISTICS, softmax_statistics)                                            \
	X(FF_OP_SOFTMAX_CROSS_ENTROPY, softmax_cross_entropy)                                      \
	FF_POINT_LOSS_OPS(X)

#endif
