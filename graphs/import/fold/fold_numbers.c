/* Constants that are computed with, element by element.  SPDX-License-Identifier: Apache-2.0 */
#include "fold_numbers.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "import/values.h"

void ff_fold_axis(struct ff_constant *c, int64_t size)
{
	if (c->rank < FF_IMPORT_RANK)
		c->shape[c->rank++] = size;
}

int ff_fold_alloc_moved(struct ff_import *im, struct ff_constant *c)
{
	c->i = NULL;
	c->f = NULL;
	c->weight = NULL;
	c->root = NULL;
	c->places = NULL;
	c->swapped = false;
	return ff_constant_alloc(im, c);
}

int ff_fold_alloc(struct ff_import *im, const Onnx__NodeProto *n, struct ff_constant *c)
{
	if (!ff_constant_measure(c, FF_FOLD_MOST))
		return ff_import_fail(im, n, "what it makes is too large to be computed");
	im->folded += c->n;
	if (im->folded > FF_FOLD_ALL)
		return ff_import_fail(im, n,
				"its constants are too large to be computed: more than %d numbers "
				"in all",
				FF_FOLD_ALL);
	return ff_fold_alloc_moved(im, c);
}

int ff_fold_convert(struct ff_import *im, const struct ff_constant *in, bool whole, bool logical,
		struct ff_constant *ret)
{
	int code;

	*ret = *in;
	if (in->whole == whole && !logical)
		return FF_OK;
	ret->whole = whole;
	ret->trained = in->trained && !whole;
	if ((code = ff_fold_alloc_moved(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++) {
		double x = ff_fold_element(in, k);

		if (logical)
			ret->i[k] = x != 0;
		else if (whole)
			ret->i[k] = x > -9e18 && x < 9e18 ? (int64_t)x : 0;
		else
			ret->f[k] = (float)x;
	}
	return FF_OK;
}

/* How inputs broadcast to one shape, as NumPy has it. */
struct spread {
	int64_t stride[3][FF_IMPORT_RANK];
};

/* The shape that `count` inputs have together; `ret` gets room for elements of its kind. */
static int spread_all(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, uint32_t count, bool whole, struct spread *s,
		struct ff_constant *ret)
{
	*ret = (struct ff_constant){.whole = whole};
	for (uint32_t k = 0; k < count; k++)
		ret->rank = in[k]->rank > ret->rank ? in[k]->rank : ret->rank;
	for (uint32_t a = 0; a < ret->rank; a++) {
		int64_t size = 1;

		for (uint32_t k = 0; k < count; k++) {
			uint32_t own = a + in[k]->rank;
			int64_t x = own < ret->rank ? 1 : in[k]->shape[own - ret->rank];

			if (x != size && x != 1 && size != 1)
				return ff_import_fail(
						im, n, "constants of these shapes do not match");
			size = x == 1 ? size : x;
		}
		ret->shape[a] = size;
	}
	for (uint32_t k = 0; k < count; k++) {
		int64_t pitch = 1;

		for (uint32_t a = in[k]->rank; a-- > 0; pitch *= in[k]->shape[a])
			s->stride[k][a + ret->rank - in[k]->rank] =
					in[k]->shape[a] == 1 ? 0 : pitch;
	}
	return ff_fold_alloc(im, n, ret);
}

/* Which element of input `k` goes to element `i`. */
static int64_t source_of(
		const struct spread *s, uint32_t k, const struct ff_constant *ret, int64_t i)
{
	int64_t at = 0;

	for (uint32_t a = ret->rank; a-- > 0; i /= ret->shape[a])
		at += i % ret->shape[a] * s->stride[k][a];
	return at;
}

/* ---- of one ---- */

static double reciprocal(double x)
{
	return 1 / x;
}

static double negative(double x)
{
	return -x;
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static double sign(double x)
{
	return x > 0 ? 1 : x < 0 ? -1 : x;
}

static double relu(double x)
{
	return x > 0 || isnan(x) ? x : 0;
}

static const struct unary {
	const char *op;
	double (*real)(double x);
} unaries[] = {
		{"Abs", fabs},
		{"Ceil", ceil},
		{"Cos", cos},
		{"Erf", erf},
		{"Exp", exp},
		{"Floor", floor},
		{"Log", log},
		{"Neg", negative},
		{"Reciprocal", reciprocal},
		{"Relu", relu},
		{"Round", nearbyint}, /* halves to even ones, as ONNX has it */
		{"Sigmoid", sigmoid},
		{"Sign", sign},
		{"Sin", sin},
		{"Sqrt", sqrt},
		{"Tanh", tanh},
};

/* Of whole numbers, which may be as large as they want, only what leaves them whole. */
static bool whole_unary(const char *op, int64_t x, int64_t *ret)
{
	switch (op[0]) {
	case 'A':
		*ret = x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
		return true;
	case 'N':
		*ret = (int64_t)(0 - (uint64_t)x);
		return true;
	case 'S':
		*ret = (x > 0) - (x < 0);
		return !strcmp(op, "Sign");
	default:
		return false;
	}
}

int ff_fold_unary(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	size_t k = 0;
	int code;

	while (strcmp(unaries[k].op, n->op_type) != 0)
		k++;
	*ret = *in[0];
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	for (int64_t i = 0; i < ret->n; i++)
		if (!ret->whole)
			ret->f[i] = (float)unaries[k].real((double)in[0]->f[i]);
		else if (!whole_unary(n->op_type, in[0]->i[i], &ret->i[i]))
			return ff_import_fail(im, n, "of whole numbers it is not supported");
	return FF_OK;
}

int ff_fold_not(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *const *in,
		struct ff_constant *ret)
{
	int code;

	if (!in[0]->whole)
		return ff_import_fail(im, n, "constants of this kind are not folded");
	*ret = *in[0];
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++)
		ret->i[k] = !in[0]->i[k];
	return FF_OK;
}

/* ---- of two ---- */

/* Of whole numbers with the first's sign where C has it so, else with the second's. */
static int64_t modulo(int64_t a, int64_t b, bool c)
{
	int64_t rest = b == 0 || b == -1 ? 0 : a % b;

	return !c && rest && (rest < 0) != (b < 0) ? rest + b : rest;
}

static double real_power(double a, double b)
{
	return pow(a, b);
}

/* unsigned where what a file has may overflow */
static int64_t combine_whole(char op, int64_t a, int64_t b, bool c)
{
	uint64_t x = (uint64_t)a, y = (uint64_t)b;
	double power;

	switch (op) {
	case 'A':
		return (int64_t)(x + y);
	case '-':
		return (int64_t)(x - y);
	case '*':
		return (int64_t)(x * y);
	case '/':
		return b == 0 ? 0 : b == -1 ? (int64_t)(0 - x) : a / b;
	case '%':
		return modulo(a, b, c);
	case '<':
		return a < b ? a : b;
	case '>':
		return a > b ? a : b;
	default:
		power = real_power((double)a, (double)b);
		return power > -9e18 && power < 9e18 ? (int64_t)power : 0;
	}
}

static double combine_real(char op, double a, double b, bool c)
{
	double rest = fmod(a, b);

	switch (op) {
	case 'A':
		return a + b;
	case '-':
		return a - b;
	case '*':
		return a * b;
	case '/':
		return a / b;
	case '%':
		return !c && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
	case '<':
		return isnan(a) || a < b ? a : b;
	case '>':
		return isnan(a) || a > b ? a : b;
	default:
		return real_power(a, b);
	}
}

static const struct {
	const char *op;
	char sign;
} binaries[] = {{"Add", 'A'}, {"Sum", 'A'}, {"Sub", '-'}, {"Mul", '*'}, {"Div", '/'}, {"Mod", '%'},
		{"Min", '<'}, {"Max", '>'}, {"Pow", '^'}};

/* Two of them; a power is of the kind of its base. */
static int pair(struct ff_import *im, const Onnx__NodeProto *n, char sign,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	bool whole = in[0]->whole && (in[1]->whole || sign == '^'), c = ff_onnx_int(n, "fmod", 0);
	struct spread s = {0};
	int code = spread_all(im, n, in, 2, whole, &s, ret);

	for (int64_t k = 0; k < ret->n && code == FF_OK; k++) {
		int64_t a = source_of(&s, 0, ret, k), b = source_of(&s, 1, ret, k);

		if (in[0]->whole && in[1]->whole)
			ret->i[k] = combine_whole(sign, in[0]->i[a], in[1]->i[b], c);
		else if (whole)
			ret->i[k] = (int64_t)fmax(-9e18,
					fmin(9e18, combine_real(sign, ff_fold_element(in[0], a),
								   ff_fold_element(in[1], b), c)));
		else
			ret->f[k] = (float)combine_real(sign, ff_fold_element(in[0], a),
					ff_fold_element(in[1], b), c);
	}
	return code;
}

/* Two, or as many as there are of a sum, a least, a largest. */
int ff_fold_binary(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	struct ff_constant all = *in[0];
	size_t k = 0;
	int code = FF_OK;

	while (strcmp(binaries[k].op, n->op_type) != 0)
		k++;
	for (size_t i = 1; i < n->n_input && code == FF_OK; i++) {
		const struct ff_constant *two[2] = {&all, in[i]};

		if (!in[i])
			return ff_import_fail(im, n, "input %zu is missing", i);
		code = pair(im, n, binaries[k].sign, two, ret);
		all = *ret;
	}
	*ret = all;
	return code;
}

/* Of anything with a number that is none nothing holds. */
static bool relates(const char *op, const struct ff_constant *a, int64_t i,
		const struct ff_constant *b, int64_t k)
{
	double x = ff_fold_element(a, i), y = ff_fold_element(b, k);
	bool both = a->whole && b->whole;
	bool equal = both ? a->i[i] == b->i[k] : x == y, less = both ? a->i[i] < b->i[k] : x < y;
	bool greater = both ? a->i[i] > b->i[k] : x > y;

	switch (op[0]) {
	case 'E':
		return equal;
	case 'L':
		return less || (op[4] && equal); /* LessOrEqual */
	case 'G':
		return greater || (op[7] && equal); /* GreaterOrEqual */
	case 'A':
		return x != 0 && y != 0;
	case 'O':
		return x != 0 || y != 0;
	default:
		return (x != 0) != (y != 0); /* Xor */
	}
}

int ff_fold_compare(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	struct spread s = {0};
	int code = spread_all(im, n, in, 2, true, &s, ret);

	for (int64_t k = 0; k < ret->n && code == FF_OK; k++)
		ret->i[k] = relates(n->op_type, in[0], source_of(&s, 0, ret, k), in[1],
				source_of(&s, 1, ret, k));
	return code;
}

int ff_fold_where(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	struct spread s = {0};
	int code;

	if (!in[0]->whole || in[1]->whole != in[2]->whole)
		return ff_import_fail(im, n, "constants of this kind are not folded");
	code = spread_all(im, n, in, 3, in[1]->whole, &s, ret);
	for (int64_t k = 0; k < ret->n && code == FF_OK; k++) {
		uint32_t which = in[0]->i[source_of(&s, 0, ret, k)] ? 1 : 2;

		ff_fold_copy(in[which], source_of(&s, which, ret, k), ret, k);
	}
	return code;
}

int ff_fold_clip(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	int code;

	*ret = *in[0];
	for (size_t i = 1; i < n->n_input; i++)
		if (in[i] && (in[i]->n != 1 || in[i]->whole != in[0]->whole))
			return ff_import_fail(im, n, "its limits are not single numbers");
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++) {
		const struct ff_constant *least = n->n_input > 1 ? in[1] : NULL;
		const struct ff_constant *most = n->n_input > 2 ? in[2] : NULL;

		ff_fold_copy(in[0], k, ret, k);
		if (least && ff_fold_element(ret, k) < ff_fold_element(least, 0))
			ff_fold_copy(least, 0, ret, k);
		if (most && ff_fold_element(ret, k) > ff_fold_element(most, 0))
			ff_fold_copy(most, 0, ret, k);
	}
	return FF_OK;
}
