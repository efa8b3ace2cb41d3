/* Metrics, line by line.  SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ff/file.h"
#include "ff/json.h"

#define FORMAT "ffsoap-metrics"
#define VERSION 1

static int fail(const struct ff_metrics *m, struct ff_error *err)
{
	return ff_fail(err, FF_E_IO, "%s: %s", m->path, strerror(errno));
}

static int put(const struct ff_metrics *m, const char *text, size_t n, struct ff_error *err)
{
	while (n) {
		ssize_t done = write(m->fd, text, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return fail(m, err);
		text += done;
		n -= (size_t)done;
	}
	return FF_OK;
}

/* Every line is an object of its own. */
static void begin(struct ff_out *o, const char *event)
{
	ff_out_init(o);
	o->flat = true;
	ff_out_object(o, NULL);
	ff_out_string(o, "event", event);
}

static int end(const struct ff_metrics *m, struct ff_out *o, struct ff_error *err)
{
	int code;

	ff_out_close(o);
	code = o->failed ? ff_fail_memory(err) : put(m, o->text, o->len, err);
	ff_out_finish(o);
	return code;
}

/* ---- the file ---- */

/* Whether a line is about something that the checkpoint has behind it, or about the run. */
static bool is_behind(const char *line, size_t n, const struct ff_run_plan *p, struct ff_arena *a)
{
	const struct ff_json *root;
	struct ff_error ignored;
	int64_t step;

	if (ff_json_parse("", line, n, a, &root, &ignored) < 0)
		return false; /* cut off as the run ended */
	if (!ff_json_get(root, "step"))
		return true;
	return ff_json_int(root, "step", 0, INT64_C(1) << 53, &step, &ignored) == FF_OK &&
	       (uint64_t)step <= p->first;
}

static int copy_lines(
		FILE *from, struct ff_file *to, const struct ff_run_plan *p, struct ff_error *err)
{
	struct ff_arena a;
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int code = FF_OK;

	ff_arena_init(&a);
	while (code == FF_OK && (n = getline(&line, &cap, from)) >= 0) {
		struct ff_arena_mark mark = ff_arena_mark(&a);

		if (is_behind(line, (size_t)n, p, &a))
			code = ff_file_write(to, line, (size_t)n, err);
		ff_arena_rewind(&a, mark);
	}
	free(line);
	ff_arena_finish(&a);
	return code;
}

/* Leaves in the file what it has of the steps behind the checkpoint. */
static int keep_behind(
		const struct ff_metrics *m, const struct ff_run_plan *p, struct ff_error *err)
{
	struct ff_file to = {.fd = -1};
	struct stat st;
	FILE *from;
	int code;

	if (stat(m->path, &st) == 0 && !S_ISREG(st.st_mode))
		return FF_OK; /* has nothing that could stay; a pipe would wait */
	from = fopen(m->path, "r");
	if (!from)
		return errno == ENOENT ? FF_OK : fail(m, err);
	code = ff_file_open(m->path, &to, err);
	if (code == FF_OK && to.temp)
		code = copy_lines(from, &to, p, err);
	if (code == FF_OK && to.temp)
		code = ff_file_commit(&to, err);
	ff_file_drop(&to);
	fclose(from);
	return code;
}

static int put_run(uint64_t seed, const struct ff_run_plan *p, const struct ff_metrics *m,
		struct ff_error *err)
{
	struct ff_out o;

	begin(&o, "run");
	ff_out_string(&o, "format", FORMAT);
	ff_out_int(&o, "version", VERSION);
	ff_out_string(&o, "graph", p->graph.name);
	ff_out_array(&o, "strategies");
	for (uint32_t i = 0; i < p->n_candidates; i++)
		ff_out_string(&o, NULL, p->candidate[i].name);
	ff_out_close(&o);
	ff_out_int(&o, "devices", p->machine.n_devices);
	ff_out_int(&o, "batch", p->graph.batch);
	ff_out_string(&o, "optimizer", p->optimizer->name);
	ff_out_u64(&o, "seed", seed);
	ff_out_u64(&o, "first_step", p->first + 1);
	ff_out_u64(&o, "last_step", p->first + p->steps);
	return end(m, &o, err);
}

int ff_metrics_open(const char *path, uint64_t seed, const struct ff_run_plan *p,
		struct ff_metrics *ret, struct ff_error *err)
{
	int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, code = FF_OK;

	*ret = (struct ff_metrics){.path = path, .fd = -1};
	if (!ret->path)
		return FF_OK;
	if (!strcmp(ret->path, "-")) {
		fflush(stdout);
		ret->fd = dup(STDOUT_FILENO);
	} else {
		code = p->first ? keep_behind(ret, p, err) : FF_OK;
		if (code < 0)
			return code;
		ret->fd = open(ret->path, flags | (p->first ? 0 : O_TRUNC), 0666);
	}
	return ret->fd < 0 ? fail(ret, err) : put_run(seed, p, ret, err);
}

void ff_metrics_close(struct ff_metrics *m)
{
	if (m->path && m->fd >= 0)
		close(m->fd);
}

/* ---- lines ---- */

static void put_strategy(struct ff_out *o, const struct ff_run_plan *p, uint32_t i)
{
	if (p->n_candidates > 1)
		ff_out_string(o, "strategy", p->candidate[i].name);
}

int ff_metrics_steps(const struct ff_metrics *m, const struct ff_run_plan *p, uint32_t i,
		const struct ff_outcome *of, uint64_t from, uint64_t to, struct ff_error *err)
{
	double epoch = (double)ff_dataset_steps(p->data, true);
	int code = FF_OK;

	for (uint64_t s = from; m->path && s < to && code == FF_OK; s++) {
		uint64_t step = p->first + s;
		double rate = p->groups.setting[0][FF_SETTING_RATE];
		struct ff_out o;

		begin(&o, "step");
		ff_out_u64(&o, "step", step + 1);
		put_strategy(&o, p, i);
		ff_out_real(&o, "epoch", (double)(step + 1) / epoch);
		ff_out_real(&o, "loss", of->loss[s]);
		if (p->graph.n_losses > 1) {
			ff_out_array(&o, "losses");
			for (uint32_t k = 0; k < p->graph.n_losses; k++)
				ff_out_real(&o, NULL, of->loss_of[k][s]);
			ff_out_close(&o);
		}
		ff_out_real(&o, "rate", ff_rate_at(&p->rates, rate, step));
		ff_out_real(&o, "step_us", of->step_us[s]);
		ff_out_real(&o, "samples_per_s", (double)p->graph.batch * 1e6 / of->step_us[s]);
		code = end(m, &o, err);
	}
	return code;
}

int ff_metrics_test(const struct ff_metrics *m, const struct ff_run_plan *p, uint32_t i,
		const struct ff_test *test, struct ff_error *err)
{
	struct ff_out o;

	if (!m->path)
		return FF_OK;
	begin(&o, "test");
	ff_out_u64(&o, "step", test->step);
	put_strategy(&o, p, i);
	ff_out_real(&o, "loss", test->all.loss);
	if (!isnan(test->all.accuracy))
		ff_out_real(&o, "accuracy", test->all.accuracy);
	if (!isnan(test->all.top)) {
		ff_out_real(&o, "top_accuracy", test->all.top);
		ff_out_u64(&o, "top", p->top);
	}
	if (!isnan(test->all.perplexity))
		ff_out_real(&o, "perplexity", test->all.perplexity);
	return end(m, &o, err);
}

int ff_metrics_checkpoint(const struct ff_metrics *m, const struct ff_run_plan *p, uint64_t step,
		struct ff_error *err)
{
	struct ff_out o;

	if (!m->path)
		return FF_OK;
	begin(&o, "checkpoint");
	ff_out_u64(&o, "step", step);
	ff_out_string(&o, "file", p->checkpoint.path);
	return end(m, &o, err);
}
