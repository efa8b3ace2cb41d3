/* Classes of tasks: an operator or a kind of move, and the pass it belongs to.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/task_class.h"

#include <stdio.h>
#include <stdlib.h>

/* What a task does, one number each: operators, kinds of moves, and what buckets have. */
enum {
	FIRST_MOVE = FF_OP_COUNT,
	FIRST_OTHER = FIRST_MOVE + FF_MOVE_ALL_REDUCE + 1, /* collectives of buckets */
	FIRST_COMPUTE = FIRST_OTHER + FF_MOVE_ALL_REDUCE - FF_MOVE_ALL_GATHER + 1,
	WHATS = FIRST_COMPUTE + FF_COMPUTE_DELAY
};

static uint32_t what_of(const struct ff_schedule *s, const struct ff_task *t)
{
	if (ff_task_computes_part(t))
		return (uint32_t)s->graph->nodes[t->node].op;
	if (!t->move)
		return FIRST_COMPUTE + t->compute - 1;
	return ff_task_moves_edge(t) ? FIRST_MOVE + (uint32_t)t->move->kind
				     : FIRST_OTHER + t->move->kind - FF_MOVE_ALL_GATHER;
}

static const char *name_of(uint32_t what, enum ff_phase phase, struct ff_arena *a)
{
	static const char *const phases[] = {"forward", "backward", "recompute", "weights"};
	static const char *const others[] = {"weight all-gather", "gradient reduce-scatter",
			"gradient all-reduce", "update", "gradient norm", "gradient delay"};
	char text[96];

	if (what >= FIRST_OTHER)
		return others[what - FIRST_OTHER];
	snprintf(text, sizeof(text), "%s %s",
			what < FIRST_MOVE ? ff_op_row((enum ff_op)what)->name
					  : ff_move_name((enum ff_move_kind)(what - FIRST_MOVE)),
			phases[phase]);
	return ff_arena_strdup(a, text);
}

int ff_task_classes_of(const struct ff_schedule *s, struct ff_arena *a, struct ff_task_classes *ret,
		struct ff_error *err)
{
	uint32_t class_of[WHATS][FF_PHASE_COUNT];
	struct ff_task_classes c = {
			.name = ff_arena_array(a, (size_t)WHATS * FF_PHASE_COUNT, sizeof(*c.name)),
			.runs = ff_arena_array(a, (size_t)WHATS * FF_PHASE_COUNT, sizeof(*c.runs)),
			.of = ff_arena_array(a, s->n_tasks, sizeof(*c.of)),
	};

	if (!c.name || !c.runs || !c.of)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < WHATS * FF_PHASE_COUNT; i++)
		class_of[i / FF_PHASE_COUNT][i % FF_PHASE_COUNT] = FF_NONE;
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];
		uint32_t what = what_of(s, t);
		enum ff_phase phase = what < FIRST_OTHER ? t->phase : FF_PHASE_FORWARD;
		uint32_t *class = &class_of[what][phase];
		const uint16_t *device;
		uint16_t own;

		if (*class == FF_NONE) {
			*class = c.n++;
			c.name[*class] = name_of(what, phase, a);
			if (!c.name[*class])
				return ff_fail_memory(err);
		}
		c.of[i] = *class;
		c.runs[*class] += ff_task_devices(t, &device, &own);
	}
	*ret = c;
	return FF_OK;
}

void ff_task_classes_add(const struct ff_task_classes *c, const struct ff_span *spans, uint32_t n,
		double *us)
{
	for (uint32_t i = 0; i < n; i++)
		us[c->of[spans[i].task]] += spans[i].finish_us - spans[i].start_us;
}

static int by_task_and_start(const void *a, const void *b)
{
	const struct ff_span *x = a, *y = b;

	if (x->task != y->task)
		return x->task < y->task ? -1 : 1;
	return (x->start_us > y->start_us) - (x->start_us < y->start_us);
}

/* Of the spans of a task by their start, all waits together. */
static double waited_us(const struct ff_span *spans, uint32_t n)
{
	double us = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t last = i, end = n; /* the last that starts in time is in [last, end) */

		while (end - last > 1) {
			uint32_t middle = last + (end - last) / 2;

			if (spans[middle].start_us <= spans[i].finish_us)
				last = middle;
			else
				end = middle;
		}
		us += spans[last].start_us - spans[i].start_us;
	}
	return us;
}

int ff_task_classes_wait(const struct ff_task_classes *c, const struct ff_span *spans, uint32_t n,
		struct ff_arena *scratch, double *us, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(scratch);
	struct ff_span *sorted = ff_arena_copy(scratch, spans, n, sizeof(*spans));

	if (!sorted)
		return ff_fail_memory(err);
	qsort(sorted, n, sizeof(*sorted), by_task_and_start);
	for (uint32_t i = 0, k = 0; i < n; i += k) {
		for (k = 1; i + k < n && sorted[i + k].task == sorted[i].task;)
			k++;
		us[c->of[sorted[i].task]] += waited_us(sorted + i, k);
	}
	ff_arena_rewind(scratch, mark);
	return FF_OK;
}
