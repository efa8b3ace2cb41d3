/* Operators from their definitions.  SPDX-License-Identifier: Apache-2.0 */
#include "naive.h"

#include <math.h>
#include <string.h>

#include "ff/philox.h"
#include "typed.h"

int64_t naive_volume(uint32_t rank, const int32_t *shape)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < rank; i++)
		n *= shape[i];
	return n;
}

int64_t naive_index(const struct ff_operand *o, const int32_t *at)
{
	int64_t index = 0;

	for (uint32_t i = 0; i < o->rank; i++)
		index = index * o->shape[i] + at[i];
	return index;
}

bool naive_next(const struct ff_region *r, int32_t *at)
{
	for (uint32_t i = r->rank; i-- > 0;) {
		if (++at[i] < r->hi[i])
			return true;
		at[i] = r->lo[i];
	}
	return false;
}

bool naive_first(const struct ff_region *r, int32_t at[FF_MAX_DIMS])
{
	memcpy(at, r->lo, sizeof(r->lo));
	return ff_region_volume(r) > 0;
}

/* The box's axes: the input's but the last, out feature, in feature. */
static void linear(const struct naive *x)
{
	const struct ff_node *n = x->w->node;
	uint32_t last = n->out_map[0].rank - 1;

	NAIVE_EACH(at, &x->w->box)
	{
		int32_t from[FF_MAX_RANK], with[2] = {at[last], at[last + 1]};
		int64_t out = naive_index(&n->out_map[0], at);
		int64_t i, w;

		memcpy(from, at, sizeof(from));
		from[last] = at[last + 1];
		i = naive_index(&n->in_map[0], from);
		w = naive_index(&n->in_map[1], with);
		if (at[last + 1] == 0 && n->attrs.linear.bias) {
			x->out[out] += x->in[2][at[last]];
			x->din[2][at[last]] += x->dout[out];
		}
		x->out[out] += x->in[0][i] * x->in[1][w];
		x->din[0][i] += x->dout[out] * x->in[1][w];
		x->din[1][w] += x->dout[out] * x->in[0][i];
	}
}

/* ---- functions of one element: y of x, and dy/dx of x or, where backward reads that, of
 * the y that forward wrote ---- */

static double share_below(double x)
{
	return 0.5 * erfc(-x * M_SQRT1_2);
}
static double density(double x)
{
	return exp(-x * x / 2) / sqrt(2 * M_PI);
}
static double logistic(double x)
{
	return 1 / (1 + exp(-x));
}
/* gelu by tanh, and its slope */
static double gelu_tanh(double x)
{
	return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
static double gelu_tanh_slope(double x)
{
	double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
	double du = sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);

	return (1 + tanh(u)) / 2 + x / 2 * du / (cosh(u) * cosh(u));
}

/* The first or second derivative of lgamma, where x is positive: differences of large numbers'
 * logarithms, and what the recurrence adds. */
static double lgamma_slope(double x, int order)
{
	double sum = 0, large;

	for (int i = 0; i < 1000; i++)
		sum += 1 / pow(x + i, order);
	large = x + 1000 - 0.5;
	return order == 1 ? log(large) + 1 / (24 * large * large) - sum
			  : 1 / large - 1 / (12 * large * large * large) + sum;
}

static double function(const struct ff_node *n, double x)
{
	const struct ff_unary_attrs *a = &n->attrs.unary;

	switch (n->op) {
	case FF_OP_RELU:
		return x > 0 ? x : 0;
	case FF_OP_LEAKY_RELU:
		return x > 0 ? x : a->a * x;
	case FF_OP_TANH:
		return tanh(x);
	case FF_OP_SIGMOID:
		return logistic(x);
	case FF_OP_GELU:
		return a->form ? gelu_tanh(x) : x * share_below(x);
	case FF_OP_SILU:
		return x * logistic(x);
	case FF_OP_HARDSWISH:
		return x * fmin(fmax(x + 3, 0), 6) / 6;
	case FF_OP_EXP:
		return exp(x);
	case FF_OP_LOG:
		return log(x);
	case FF_OP_SQRT:
		return sqrt(x);
	case FF_OP_POW:
		return pow(x, a->a);
	case FF_OP_NEG:
		return -x;
	case FF_OP_ABS:
		return fabs(x);
	case FF_OP_SCALE:
		return a->a * x + a->b;
	case FF_OP_CLIP:
		return fmin(fmax(x, a->a), a->b);
	case FF_OP_ERF:
		return erf(x);
	case FF_OP_SIN:
		return sin(x);
	case FF_OP_COS:
		return cos(x);
	case FF_OP_ASIN:
		return asin(x);
	case FF_OP_ACOS:
		return acos(x);
	case FF_OP_ATAN:
		return atan(x);
	case FF_OP_FLOOR:
		return floor(x);
	case FF_OP_ROUND:
		return nearbyint(x);
	case FF_OP_LGAMMA:
		return lgamma(x);
	case FF_OP_DIGAMMA:
		return lgamma_slope(x, 1);
	case FF_OP_DETACH:
		return x;
	default:
		return NAN;
	}
}

static double slope(const struct ff_node *n, double x, double y)
{
	const struct ff_unary_attrs *a = &n->attrs.unary;

	switch (n->op) {
	case FF_OP_RELU:
		return y > 0;
	case FF_OP_LEAKY_RELU:
		return y > 0 ? 1 : a->a;
	case FF_OP_TANH:
		return 1 - y * y;
	case FF_OP_SIGMOID:
		return y * (1 - y);
	case FF_OP_GELU:
		return a->form ? gelu_tanh_slope(x) : share_below(x) + x * density(x);
	case FF_OP_SILU:
		return logistic(x) + x * logistic(x) * logistic(-x);
	case FF_OP_HARDSWISH:
		return x < -3 ? 0 : x > 3 ? 1 : x / 3 + 0.5;
	case FF_OP_EXP:
		return y;
	case FF_OP_LOG:
		return 1 / x;
	case FF_OP_SQRT:
		return 0.5 / y;
	case FF_OP_POW:
		return a->a == 0 ? 0 : a->a * pow(x, a->a - 1);
	case FF_OP_NEG:
		return -1;
	case FF_OP_ABS:
		return x > 0 ? 1 : x < 0 ? -1 : 0;
	case FF_OP_SCALE:
		return a->a;
	case FF_OP_CLIP:
		return x >= a->a && x <= a->b;
	case FF_OP_ERF:
		return 2 / sqrt(M_PI) * exp(-x * x);
	case FF_OP_SIN:
		return cos(x);
	case FF_OP_COS:
		return -sin(x);
	case FF_OP_ASIN:
		return 1 / sqrt(1 - x * x);
	case FF_OP_ACOS:
		return -1 / sqrt(1 - x * x);
	case FF_OP_ATAN:
		return 1 / (1 + x * x);
	case FF_OP_LGAMMA:
		return lgamma_slope(x, 1);
	case FF_OP_DIGAMMA:
		return lgamma_slope(x, 2);
	case FF_OP_FLOOR:
	case FF_OP_ROUND:
	case FF_OP_DETACH:
		return 0;
	default:
		return NAN;
	}
}

static void elementwise(const struct naive *x)
{
	const struct ff_node *n = x->w->node;

	NAIVE_EACH(at, &x->w->out[0])
	{
		int64_t i = naive_index(&n->out_map[0], at);

		x->out[i] = typed_round(n->out_map[0].dtype, function(n, x->in[0][i]));
		x->din[0][i] = x->dout[i] * slope(n, x->in[0][i], x->out[i]);
	}
}

static void add(const struct naive *x)
{
	const struct ff_node *n = x->w->node;

	NAIVE_EACH(at, &x->w->out[0])
	{
		int64_t i = naive_index(&n->out_map[0], at);

		for (uint32_t slot = 0; slot < n->n_in; slot++) {
			x->out[i] += x->in[slot][i];
			x->din[slot][i] = x->dout[i];
		}
	}
}

static void concat(const struct naive *x)
{
	const struct ff_node *n = x->w->node;
	int32_t axis = n->attrs.concat.axis;

	NAIVE_EACH(at, &x->w->out[0])
	{
		int64_t out = naive_index(&n->out_map[0], at);
		int32_t from[FF_MAX_RANK];
		uint32_t slot = 0;
		int64_t i;

		memcpy(from, at, sizeof(from));
		for (; from[axis] >= n->in_map[slot].shape[axis]; slot++)
			from[axis] -= n->in_map[slot].shape[axis];
		i = naive_index(&n->in_map[slot], from);
		x->out[out] = x->in[slot][i];
		x->din[slot][i] = x->dout[out];
	}
}

static void reshape(const struct naive *x)
{
	NAIVE_EACH(at, &x->w->out[0])
	{
		int64_t i = naive_index(&x->w->node->out_map[0], at);

		x->out[i] = x->in[0][i];
		x->din[0][i] = x->dout[i];
	}
}

static void dropout(const struct naive *x)
{
	const struct ff_node *n = x->w->node;
	uint64_t stream = ff_philox_stream((uint32_t)(n - x->w->graph->nodes), (uint32_t)x->step);
	double p = (float)n->attrs.dropout.p;

	NAIVE_EACH(at, &x->w->out[0])
	{
		int64_t i = naive_index(&n->out_map[0], at);
		int64_t number = n->attrs.dropout.per == FF_DROP_SAMPLE ? at[0] : i;
		double u = (ff_philox_at(x->seed, stream, (uint64_t)number) >> 8) * 0x1p-24;
		double scale = !x->training ? 1 : u < p ? 0 : 1 / (1 - p);

		x->out[i] = x->in[0][i] * scale;
		x->din[0][i] = x->dout[i] * scale;
	}
}

/* Labels are int32 in the tests' double arrays. */
static void softmax_cross_entropy(const struct naive *x)
{
	const struct ff_node *n = x->w->node;
	const struct ff_operand *logits = &n->in_map[0], *labels = &n->in_map[1];
	double count = (double)x->valid, smooth = n->attrs.loss.smoothing;
	double each = smooth / logits->shape[1];

	NAIVE_EACH(at, &x->w->in[1])
	{
		int32_t from[FF_MAX_RANK] = {at[0]}, best = 0;
		int32_t label = (int32_t)x->in[1][naive_index(labels, at)];
		int64_t i[64];
		double sum = 0;

		for (uint32_t axis = 1; axis < labels->rank; axis++)
			from[axis + 1] = at[axis];
		for (from[1] = 0; from[1] < logits->shape[1]; from[1]++) {
			i[from[1]] = naive_index(logits, from);
			sum += exp(x->in[0][i[from[1]]]);
			if (x->in[0][i[from[1]]] > x->in[0][i[best]])
				best = from[1];
		}
		if (label == n->attrs.loss.ignore)
			continue;
		/* of parts with classes of the same labels, the first counts them */
		if (x->w->in[0].lo[1] == 0) {
			x->out[0] += (log(sum) - smooth * x->in[0][i[best]] -
						     (1 - smooth) * x->in[0][i[label]]) /
				     count;
			x->out[1] += best == label;
		}
		/* of the mean over all classes, each part adds its own */
		for (int32_t c = x->w->in[0].lo[1]; c < x->w->in[0].hi[1]; c++)
			x->out[0] += each * (x->in[0][i[best]] - x->in[0][i[c]]) / count;
		for (int32_t c = 0; c < logits->shape[1]; c++)
			x->din[0][i[c]] = (exp(x->in[0][i[c]]) / sum - each -
							  (c == label) * (1 - smooth)) *
					  n->attrs.loss.weight / count;
	}
}

static double point_error(enum ff_op op, double p, double t)
{
	double apart = fabs(p - t);

	switch (op) {
	case FF_OP_MSE:
		return apart * apart;
	case FF_OP_L1:
		return apart;
	case FF_OP_MEAN:
		return p;
	case FF_OP_SMOOTH_L1:
		return apart < 1 ? apart * apart / 2 : apart - 0.5;
	default:
		return log(1 + exp(p)) - p * t;
	}
}

static double point_slope(enum ff_op op, double p, double t)
{
	double sign = p > t ? 1 : p < t ? -1 : 0;

	switch (op) {
	case FF_OP_MSE:
		return 2 * (p - t);
	case FF_OP_L1:
		return sign;
	case FF_OP_MEAN:
		return 1;
	case FF_OP_SMOOTH_L1:
		return fabs(p - t) < 1 ? p - t : sign;
	default:
		return 1 / (1 + exp(-p)) - t;
	}
}

/* Elements of a target that is no number, or a label to ignore, count for nothing. */
static void point_loss(const struct naive *x)
{
	const struct ff_node *n = x->w->node;
	double count = (double)x->valid, weight = n->attrs.loss.weight;

	NAIVE_EACH(at, &x->w->in[0])
	{
		int64_t i = naive_index(&n->in_map[0], at);
		double p = x->in[0][i], t = x->in[1][i];

		if (isnan(t) || (n->in_map[1].dtype == FF_I32 &&
						(int32_t)t == n->attrs.loss.ignore))
			continue;
		x->out[0] += point_error(n->op, p, t) / count;
		x->out[1] += n->op == FF_OP_BCE_WITH_LOGITS && (p > 0) == (t > 0.5);
		x->din[0][i] = weight * point_slope(n->op, p, t) / count;
	}
}

/* Which elements are normalised together: the first of them, and by axis whether they
 * differ along it; of group norm also how many channels they have. */
static int32_t same_row(const struct ff_node *n, int32_t *first, bool *along)
{
	const struct ff_operand *o = &n->out_map[0];
	int32_t each = n->op == FF_OP_GROUP_NORM ? o->shape[1] / n->attrs.norm.groups : 0;

	for (uint32_t i = 0; i < o->rank; i++) {
		along[i] = each ? i > 0 : i + (uint32_t)n->attrs.norm.axes >= o->rank;
		if (along[i])
			first[i] = each && i == 1 ? first[1] / each * each : 0;
	}
	return each;
}

static struct ff_region row_of(const struct ff_node *n, const int32_t *at)
{
	struct ff_region row = {.rank = n->out_map[0].rank};
	bool along[FF_MAX_RANK];
	int32_t each;

	memcpy(row.lo, at, row.rank * sizeof(*at));
	each = same_row(n, row.lo, along);
	for (uint32_t i = 0; i < row.rank; i++)
		row.hi[i] = row.lo[i] + (!along[i]                       ? 1
							: each && i == 1 ? each
									 : n->out_map[0].shape[i]);
	return row;
}

/* The weight of element `at`. */
static int64_t weight_of(const struct ff_node *n, const int32_t *at)
{
	uint32_t rank = n->out_map[0].rank, axes = (uint32_t)n->attrs.norm.axes;

	return n->op == FF_OP_GROUP_NORM ? at[1] : naive_index(&n->in_map[1], at + rank - axes);
}

/* y = (x - mean) / deviation * w + b; RMS norm takes the mean to be 0. */
static void norm(const struct naive *x)
{
	const struct ff_node *n = x->w->node;
	const struct ff_operand *o = &n->out_map[0];
	bool scaled = n->n_in > 1, moved = n->n_in > 2;

	NAIVE_EACH(at, &x->w->out[0])
	{
		struct ff_region row = row_of(n, at);
		double count = (double)ff_region_volume(&row), mean = 0, square = 0, g = 0, gx = 0;
		int64_t i = naive_index(o, at), p = scaled ? weight_of(n, at) : 0;
		double rate, v;

		NAIVE_EACH(k, &row) mean += x->in[0][naive_index(o, k)] / count;
		if (n->op == FF_OP_RMS_NORM)
			mean = 0;
		NAIVE_EACH(k, &row) square += pow(x->in[0][naive_index(o, k)] - mean, 2) / count;
		rate = 1 / sqrt(square + n->attrs.norm.epsilon);
		NAIVE_EACH(k, &row)
		{
			int64_t e = naive_index(o, k);
			double d = x->dout[e] * (scaled ? x->in[1][weight_of(n, k)] : 1);

			g += d / count;
			gx += d * (x->in[0][e] - mean) * rate / count;
		}
		v = (x->in[0][i] - mean) * rate;
		x->out[i] = v * (scaled ? x->in[1][p] : 1) + (moved ? x->in[2][p] : 0);
		x->din[0][i] = rate * (x->dout[i] * (scaled ? x->in[1][p] : 1) -
						      (n->op == FF_OP_RMS_NORM ? 0 : g) - v * gx);
		if (scaled)
			x->din[1][p] += x->dout[i] * v;
		if (moved)
			x->din[2][p] += x->dout[i];
	}
}

int64_t naive_moments(const struct ff_node *n, int64_t plane)
{
	int32_t group = n->attrs.norm.group, channels = n->in_map[0].shape[1];

	return (group ? plane / channels / group * channels : 0) + plane % channels;
}

static int64_t moments_at(const struct ff_node *n, const int32_t *at)
{
	return naive_moments(n, at[0] * (int64_t)n->in_map[0].shape[1] + at[1]);
}

/* By group and channel: how many elements the box has, their mean, the squares of their distances.
 * Of the norm's gradient, which lies in din, backward makes that of x. */
static void batch_moments(const struct naive *x)
{
	const struct ff_operand *o = &x->w->node->in_map[0], *m = &x->w->node->out_map[0];
	int64_t n = naive_volume(m->rank - 1, m->shape);

	NAIVE_EACH(at, &x->w->in[0])
	{
		double *own = x->out + 4 * moments_at(x->w->node, at);

		own[0]++;
		own[1] += x->in[0][naive_index(o, at)];
	}
	for (int64_t k = 0; k < n; k++)
		x->out[4 * k + 1] /= x->out[4 * k] ? x->out[4 * k] : 1;
	NAIVE_EACH(at, &x->w->in[0])
	{
		int64_t i = naive_index(o, at), k = moments_at(x->w->node, at);
		const double *g = x->dout + 4 * k;

		x->out[4 * k + 2] += pow(x->in[0][i] - x->out[4 * k + 1], 2);
		x->din[0][i] = g[3] * x->din[0][i] + g[1] + g[2] * (x->in[0][i] - g[0]);
	}
}

/* Backward is of training whatever forward was. */
static void batch_norm(const struct naive *x)
{
	const struct ff_node *n = x->w->node;

	NAIVE_EACH(at, &x->w->out[0])
	{
		int64_t i = naive_index(&n->out_map[0], at);
		int64_t k = moments_at(n, at);
		const double *m = x->in[1] + 4 * k;
		double weight = n->n_in > 2 ? x->in[2][at[1]] : 1;
		double bias = n->n_in > 3 ? x->in[3][at[1]] : 0, epsilon = n->attrs.norm.epsilon;
		double rate = 1 / sqrt(m[2] / m[0] + epsilon), apart = x->in[0][i] - m[1];
		double *g = x->din[1] + 4 * k;

		x->out[i] = (x->training ? apart * rate
					 : (x->in[0]
						 [i] - NAIVE_KEPT_MEAN) / sqrt(NAIVE_KEPT_VARIANCE +
											  epsilon)) *
					    weight +
			    bias;
		g[0] += m[1] / m[0];
		g[1] -= x->dout[i] * rate * weight / m[0];
		g[2] -= x->dout[i] * apart * rate * rate * rate * weight / m[0];
		g[3] += rate * weight / m[0];
		if (n->n_in > 2)
			x->din[2][at[1]] += x->dout[i] * apart * rate;
		if (n->n_in > 3)
			x->din[3][at[1]] += x->dout[i];
	}
}

void naive_run(const struct naive *x)
{
	static void (*const run[FF_OP_COUNT])(const struct naive *x) = {
#define CONV(e, row) [e] = naive_conv,
			FF_CONV_OPS(CONV)
#undef CONV
#define CONV_TRANSPOSE(e, row) [e] = naive_conv_transpose,
					FF_CONV_TRANSPOSE_OPS(CONV_TRANSPOSE)
#undef CONV_TRANSPOSE
#define RESIZE(e, row) [e] = naive_resize,
							FF_RESIZE_OPS(RESIZE)
#undef RESIZE
#define POOL(e, row) [e] = naive_pool,
									FF_POOL_OPS(POOL)
#undef POOL
											[FF_OP_LINEAR] =
													linear,
#define UNARY(e, row) [e] = elementwise,
			FF_UNARY_OPS(UNARY)
#undef UNARY
					[FF_OP_ADD] = add,
			[FF_OP_LOCAL_RESPONSE_NORM] = naive_response,
			[FF_OP_CONCAT] = concat,
			[FF_OP_RESHAPE] = reshape,
			[FF_OP_DROPOUT] = dropout,
			[FF_OP_LAYER_NORM] = norm,
			[FF_OP_RMS_NORM] = norm,
			[FF_OP_GROUP_NORM] = norm,
			[FF_OP_BATCH_MOMENTS] = batch_moments,
			[FF_OP_BATCH_NORM] = batch_norm,
			[FF_OP_SOFTMAX_CROSS_ENTROPY] = softmax_cross_entropy,
			[FF_OP_MSE] = point_loss,
			[FF_OP_BCE_WITH_LOGITS] = point_loss,
			[FF_OP_L1] = point_loss,
			[FF_OP_SMOOTH_L1] = point_loss,
			[FF_OP_MEAN] = point_loss,
	};

	run[x->w->node->op](x);
}
