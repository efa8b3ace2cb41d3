/* The critical path of a plan, what it gains over its baseline, and what more of something would
 * bring.  SPDX-License-Identifier: Apache-2.0 */
#include "why.h"

#include <math.h>
#include <string.h>

#include "explain/text.h"
#include "vary.h"

#define LINE 512
#define MOST_PARTS 12      /* of the critical path that are printed */
#define PROPOSALS_SHARE 10 /* or of the proposals, so many times fewer */
#define LEAST_PROPOSALS 50
#define GAIN 0.01 /* of the step: what binds brings more than that */

static const char *const names[FF_MORE] = {
		[FF_MORE_NOTHING] = "nothing more",
		[FF_MORE_MEMORY] = "1 GiB more memory a device",
		[FF_MORE_INSIDE] = "10 % faster links inside nodes",
		[FF_MORE_NETWORK] = "10 % faster network of nodes",
};

static const char *const what[FF_MORE] = {
		[FF_MORE_NOTHING] = "nothing",
		[FF_MORE_MEMORY] = "memory",
		[FF_MORE_INSIDE] = "links inside nodes",
		[FF_MORE_NETWORK] = "the network of nodes",
};

/* What number `which` may take, in seconds or proposals: those behind it take as much. */
static void share(const struct ff_job *j, uint32_t which, double *seconds, uint64_t *proposals)
{
	*seconds = fmin(ff_job_left_s(j, FF_MORE - which), FF_WHY_SHARE / FF_MORE * j->opt.seconds);
	*proposals = j->opt.simulate ? 0 : j->opt.proposals / PROPOSALS_SHARE;
	if (*seconds <= 0 && *proposals < LEAST_PROPOSALS)
		*proposals = LEAST_PROPOSALS;
}

/* The best plan with nothing more; NULL: the job's. */
struct better {
	const struct ff_strategy *plan;
	double us;
};

/* What was found with more of something may be that. */
static int look_without(struct ff_job *j, const struct ff_strategy *found, struct better *b,
		struct ff_error *err)
{
	struct ff_evaluation at;
	struct ff_strategy *kept;
	int code;

	if (ff_price_framework(j->tools.pricer)) /* whose hosts an evaluation does not know */
		return FF_OK;
	code = ff_evaluator_set(j->tools.evaluator, found, &at, err);
	if (code < 0 || !at.fits || at.step_us >= b->us)
		return code == FF_E_INPUT ? FF_OK : code;
	kept = ff_arena_copy(&j->arena, found, 1, sizeof(*found));
	if (!kept)
		return ff_fail_memory(err);
	*b = (struct better){kept, at.step_us};
	return FF_OK;
}

static struct ff_variation more_of(const struct ff_job *j, uint32_t which)
{
	struct ff_variation v = {.step_alone = true};

	if (which == FF_MORE_MEMORY)
		v.memory_bytes = j->summary.facts.limit_bytes + ((int64_t)1 << 30);
	else if (which == FF_MORE_INSIDE)
		v.inside_times = 1.1;
	else if (which == FF_MORE_NETWORK)
		v.network_times = 1.1;
	return v;
}

static int find_more(struct ff_job *j, uint32_t which, struct better *b, struct ff_error *err)
{
	struct ff_sensitivity *m = &j->summary.why.more[which];
	struct ff_variation v = more_of(j, which);
	struct ff_answer answer;
	uint64_t proposals;
	double seconds;
	int code;

	v.also = b->plan;
	*m = (struct ff_sensitivity){names[which], NAN, NAN};
	share(j, which, &seconds, &proposals);
	if (ff_job_interrupted(j))
		return FF_OK;
	code = ff_vary(j, &v, seconds, proposals, &answer, err);
	if (code == FF_OK && answer.carried && answer.plan.fits)
		m->carried_us = answer.plan.step_us;
	if (code < 0 || !answer.searched)
		return code;
	m->searched_us = answer.best.step_us;
	return look_without(j, &answer.found, b, err);
}

/* What a later search found may be better here, too. */
static int look_again(struct ff_job *j, uint32_t which, const struct ff_strategy *also,
		struct ff_error *err)
{
	struct ff_sensitivity *m = &j->summary.why.more[which];
	struct ff_variation v = more_of(j, which);
	struct ff_answer answer;
	int code;

	if (isnan(m->searched_us) || ff_job_interrupted(j))
		return FF_OK;
	v.also = also;
	code = ff_vary(j, &v, 0, 0, &answer, err);
	if (code == FF_OK && answer.searched && answer.best.fits)
		m->searched_us = fmin(m->searched_us, answer.best.step_us);
	return code;
}

/* With it the step is so much shorter than with nothing more, for which each plan is known that was
 * found; what is searched again finds what is carried over. */
static double gain(const struct ff_summary *s, uint32_t which)
{
	const struct ff_sensitivity *m = &s->why.more[which], *none = &s->why.more[FF_MORE_NOTHING];
	double us = fmin(m->carried_us, m->searched_us), with_none_us = s->facts.step_us;

	if (which != FF_MORE_NOTHING)
		with_none_us = fmin(with_none_us, none->searched_us);
	return isnan(us) ? 0 : fmax(0, with_none_us - us);
}

static const char *binds(const struct ff_summary *s)
{
	uint32_t best = FF_MORE_MEMORY;

	for (uint32_t i = best + 1; i < FF_MORE; i++)
		best = gain(s, i) > gain(s, best) ? i : best;
	if (gain(s, best) > GAIN * s->facts.step_us)
		return what[best];
	return s->facts.bound;
}

int ff_why_find(struct ff_job *j, struct ff_error *err)
{
	struct ff_summary *s = &j->summary;
	struct ff_sensitivity *none = &s->why.more[FF_MORE_NOTHING];
	struct better b = {NULL, s->facts.step_us};
	const struct ff_strategy *from[FF_MORE];
	int code = FF_OK;

	if (!s->why.compared)
		code = ff_facts_find(s->graph, s->machine, &s->data_parallel, j->opt.memory,
				&j->arena, &s->why.against, err);
	for (uint32_t i = 0; i < FF_MORE && code == FF_OK; i++) {
		from[i] = b.plan;
		code = find_more(j, i, &b, err);
	}
	for (uint32_t i = 0; i < FF_MORE && code == FF_OK; i++)
		if (i != FF_MORE_NOTHING && from[i] != b.plan)
			code = look_again(j, i, b.plan, err);
	if (b.plan)
		none->searched_us = fmin(none->searched_us, b.us);
	s->why.binds = binds(s);
	s->why.asked = true;
	return code;
}

/* ---- told ---- */

static void print_path(const struct ff_facts *f, FILE *to)
{
	const struct ff_critical *p = &f->path;
	double rest = 0;
	char us[FF_TEXT], line[LINE];
	size_t n = 0;

	fprintf(to, "\n%-46s %-9s %8s %12s\n", "critical path", "on", "share", "time");
	for (uint32_t i = 0; i < p->n; i++) {
		const struct ff_critical_part *part = &p->part[i];

		if (i >= MOST_PARTS) {
			rest += part->us;
			continue;
		}
		ff_time_text(part->us, us);
		fprintf(to, "%-46.46s %-9s %6.1f %% %12s\n", part->what,
				ff_critical_kind_name(part->kind), 100 * part->us / f->step_us, us);
	}
	if (p->n > MOST_PARTS) {
		ff_time_text(rest, us);
		snprintf(line, LINE, "%u others", p->n - MOST_PARTS);
		fprintf(to, "%-56s %6.1f %% %12s\n", line, 100 * rest / f->step_us, us);
	}
	for (uint32_t k = 0; k < FF_CRITICAL_KINDS; k++)
		if (p->us[k] > 0)
			n += (size_t)snprintf(line + n, LINE - n, "%s%s %.1f %%", n ? ", " : "",
					ff_critical_kind_name((enum ff_critical_kind)k),
					100 * p->us[k] / f->step_us);
	ff_text_wrap("in all  ", n ? line : "nothing", to);
}

static void print_difference(const char *name, double was, double now, FILE *to)
{
	char a[FF_TEXT], b[FF_TEXT], c[FF_TEXT];

	ff_time_text(was, a);
	ff_time_text(now, b);
	ff_time_text(fabs(was - now), c);
	fprintf(to, "%-26.26s %14s %14s %s%s\n", name, a, b,
			was < now   ? "+"
			: was > now ? "-"
				    : "",
			c);
}

static void print_bytes(const char *name, int64_t was, int64_t now, FILE *to)
{
	char a[FF_TEXT], b[FF_TEXT], c[FF_TEXT];

	ff_bytes_text(was, a);
	ff_bytes_text(now, b);
	ff_bytes_text(was < now ? now - was : was - now, c);
	fprintf(to, "%-26.26s %14s %14s %s%s\n", name, a, b,
			was < now   ? "+"
			: was > now ? "-"
				    : "",
			c);
}

static void print_against(const struct ff_summary *s, FILE *to)
{
	const struct ff_facts *was = &s->why.against, *now = &s->facts;

	fprintf(to, "\n%-26s %14.14s %14.14s %s\n", "a device's time, mean", "data-parallel",
			s->title, "difference");
	for (uint32_t i = 0; i < FF_TIME_COUNT; i++)
		if (was->times.us[i] + now->times.us[i] > 0.001 * was->step_us)
			print_difference(ff_time_class_name((enum ff_time_class)i),
					was->times.us[i], now->times.us[i], to);
	print_difference("step", was->step_us, now->step_us, to);
	print_bytes("sent, all devices", was->sent_bytes, now->sent_bytes, to);
	for (uint32_t k = 0; k < FF_HELD_COUNT; k++)
		if (was->held.bytes[k] + now->held.bytes[k] > was->held.all_bytes / 1000)
			print_bytes(ff_held_name((enum ff_held_kind)k), was->held.bytes[k],
					now->held.bytes[k], to);
	print_bytes("memory of the fullest", was->held.all_bytes, now->held.all_bytes, to);
	if (!ff_plan_fits(&s->data_parallel))
		ff_text_wrap("", "data parallelism does not fit in memory", to);
	ff_shape_print(&was->shape, "from    ", to);
	ff_shape_print(&now->shape, "to      ", to);
}

static void print_more(const struct ff_summary *s, FILE *to)
{
	char carried[FF_TEXT], searched[FF_TEXT], share_text[FF_TEXT];

	fprintf(to, "\n%-34s %14s %14s %s\n", "with", "the same plan", "searched again", "saves");
	for (uint32_t i = 0; i < FF_MORE; i++) {
		const struct ff_sensitivity *m = &s->why.more[i];

		snprintf(carried, FF_TEXT, "-");
		snprintf(searched, FF_TEXT, "-");
		if (!isnan(m->carried_us))
			ff_time_text(m->carried_us, carried);
		if (!isnan(m->searched_us))
			ff_time_text(m->searched_us, searched);
		snprintf(share_text, FF_TEXT, "%.1f %%", 100 * gain(s, i) / s->facts.step_us);
		fprintf(to, "%-34s %14s %14s %s\n", m->name, carried, searched, share_text);
	}
	if (gain(s, FF_MORE_NOTHING) > GAIN * s->facts.step_us)
		ff_text_wrap("",
				"Searching on from this plan finds a better one; what more of "
				"something saves is counted from that.",
				to);
	if (s->why.binds != s->facts.bound)
		fprintf(to, "saves most: %s\n", s->why.binds);
	else
		fprintf(to, "none saves more than %g %%; most of the step is %s\n", 100 * GAIN,
				s->facts.bound);
	if (s->measured)
		ff_text_wrap("", "Links were measured, so that faster ones cannot be priced.", to);
}

void ff_why_print(const struct ff_summary *s, FILE *to)
{
	print_path(&s->facts, to);
	if (!s->is_data_parallel)
		print_against(s, to);
	print_more(s, to);
}

void ff_why_write(const struct ff_summary *s, struct ff_out *o)
{
	static const char *const keys[FF_MORE] = {
			[FF_MORE_NOTHING] = "nothing",
			[FF_MORE_MEMORY] = "memory_1_gib",
			[FF_MORE_INSIDE] = "inside_10_percent",
			[FF_MORE_NETWORK] = "network_10_percent",
	};

	ff_out_object(o, "explain");
	ff_out_string(o, "binds", s->why.binds);
	for (uint32_t i = 0; i < FF_MORE; i++) {
		ff_out_object(o, keys[i]);
		ff_out_real(o, "carried_us", s->why.more[i].carried_us);
		ff_out_real(o, "searched_us", s->why.more[i].searched_us);
		ff_out_close(o);
	}
	ff_out_object(o, "data_parallel_times_us");
	for (uint32_t i = 0; i < FF_TIME_COUNT; i++)
		ff_out_real(o, ff_time_class_name((enum ff_time_class)i),
				s->why.against.times.us[i]);
	ff_out_close(o);
	ff_out_close(o);
}
