/* Gradients of filters by cuDNN's plan and by unfolded images, timed on the device: its exact and
 * deterministic engines may leave most of a GPU idle where filters are few and small.
 * SPDX-License-Identifier: Apache-2.0 */
#include "filter_way.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cuda/core/kernel.h"
#include "cuda/libs/plans.h"
#include "cuda/libs/tune.h"

static const char *const words[] = {
		[FF_FILTER_CONVOLVED] = "convolved", [FF_FILTER_UNFOLDED] = "unfolded"};

struct ways {
	const struct ff_kernel *k;
	const struct ff_dnn_plan *plan;
	const struct ff_unfold *unfold;
	enum ff_dtype type;
	bool widens;
	int64_t images, results;                                        /* elements */
	int64_t image, dout, dweight, wide_image, wide_dout, workspace; /* where these are */
};

/* What cuDNN's plan takes is at *image and *dout. */
static bool widen(const struct ways *w, char *memory, cudaStream_t queue, void **image, void **dout)
{
	void *wide_image = memory + w->wide_image, *wide_dout = memory + w->wide_dout;
	bool made = ff_launch_convert(w->type, *image, FF_F32, wide_image, w->images, queue) ==
				    cudaSuccess &&
		    ff_launch_convert(w->type, *dout, FF_F32, wide_dout, w->results, queue) ==
				    cudaSuccess;

	*image = wide_image;
	*dout = wide_dout;
	return made;
}

static bool run(const void *arg, int64_t i, char *memory, cudaStream_t queue)
{
	const struct ways *w = arg;
	const struct ff_kernel_io io = {.workspace = memory + w->workspace};
	void *image = memory + w->image, *dweight = memory + w->dweight, *dout = memory + w->dout;
	struct ff_error ignored;

	if (i == FF_FILTER_UNFOLDED)
		return ff_unfold_run(w->k, w->unfold, &io, image, dout, dweight, queue, &ignored) ==
		       FF_OK;
	if (w->widens && !widen(w, memory, queue, &image, &dout))
		return false;
	return ff_conv_run(w->k, w->plan, queue, image, dweight, NULL, dout,
			       ff_kernel_scratch(w->k, &io), &ignored) == FF_OK;
}

static int64_t find_fastest(const struct ff_kernel *k, const struct ff_conv_shape *s,
		enum ff_dtype type, const struct ff_dnn_plan *plan, const struct ff_unfold *u)
{
	const struct ff_filter *f = &s->filter;
	const struct ff_windows *v = &f->windows;
	struct ways w = {
			.k = k, .plan = plan, .unfold = u, .type = type, .widens = type != s->type};
	struct ff_trial trial = {.n = 2, .arg = &w, .run = run};

	w.images = f->n * v->in[0] * v->in[1] * v->in[2] * f->c;
	w.results = f->n * v->out[0] * v->out[1] * v->out[2] * f->k;
	w.image = ff_trial_take(&trial, w.images * ff_dtype_bytes(type));
	w.dout = ff_trial_take(&trial, w.results * ff_dtype_bytes(type));
	w.wide_image = ff_trial_take(&trial, w.widens ? w.images * FF_F32_BYTES : 0);
	w.wide_dout = ff_trial_take(&trial, w.widens ? w.results * FF_F32_BYTES : 0);
	w.dweight = ff_trial_take(
			&trial, f->k * ff_windows_taps(v) * f->c * ff_dtype_bytes(s->sink));
	w.workspace = ff_trial_take(&trial, ff_kernel_scratch_offset(k) + k->scratch_bytes);
	return ff_tune(&trial);
}

static bool print_problem(const struct ff_kernel *k, const struct ff_conv_shape *s,
		enum ff_dtype type, char text[FF_PLANS_TEXT])
{
	snprintf(text, FF_PLANS_TEXT,
			"way of filters of %s, unfolded within %" PRId64 ", by its bytes ",
			ff_dtype_name(type), k->dev->unfold_bytes);
	return ff_plans_print(text, s, sizeof(*s));
}

static bool was_kept(const struct ff_kernel *k, const char *problem, enum ff_filter_way *ret)
{
	char choice[FF_PLANS_TEXT];
	bool kept = ff_plans_find(k->dev, problem, choice);

	for (int i = 0; i < 2 && kept; i++)
		if (!strcmp(choice, words[i])) {
			*ret = (enum ff_filter_way)i;
			return true;
		}
	return false;
}

int ff_filter_way(const struct ff_kernel *k, const struct ff_conv_shape *s, enum ff_dtype type,
		enum ff_filter_way *ret, struct ff_error *err)
{
	char problem[FF_PLANS_TEXT];
	bool tunes;
	int code = ff_plans_tune(k->dev, &tunes, err);

	if (code == FF_OK && print_problem(k, s, type, problem) && !was_kept(k, problem, ret) &&
			tunes)
		*ret = FF_FILTER_UNKNOWN;
	return code;
}

/* What somebody else kept meanwhile stays.  Where nothing can be kept the first way is taken, as
 * next time the other might be faster. */
enum ff_filter_way ff_filter_time(const struct ff_kernel *k, const struct ff_conv_shape *s,
		enum ff_dtype type, const struct ff_dnn_plan *plan, const struct ff_unfold *u)
{
	enum ff_filter_way way = FF_FILTER_CONVOLVED;
	char problem[FF_PLANS_TEXT];
	int64_t fastest = find_fastest(k, s, type, plan, u);

	if (!print_problem(k, s, type, problem) || was_kept(k, problem, &way))
		return way;
	ff_plans_keep(k->dev, problem, words[fastest]);
	was_kept(k, problem, &way);
	return way;
}
