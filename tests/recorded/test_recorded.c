/* Strategies whose schedule, predicted time, memory and moved bytes were recorded: that they still
 * are what they were, to the bit.  For refactorings, which change none of them.
 *
 * test_recorded [FILE]            prints TAP: what differs, and in what
 * test_recorded --record [FILE]   writes them anew, where a change was meant to change them
 *
 * A line of the file is how a strategy is made (made.h) and, tabs between, what came of it; lines
 * that begin with # stay as they are.  SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/cli.h"
#include "made.h"

struct recorded {
	const char *line; /* how it is made, or a comment */
	const char *column[COLUMNS];
};

struct records {
	struct ff_arena arena;
	struct recorded *at;
	uint32_t n, n_made; /* lines; strategies among them */
};

static bool is_comment(const struct recorded *r)
{
	return *r->line == '#' || !*r->line;
}

/* ---- the file ---- */

static char *read_all(const char *path, struct ff_arena *a)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL;
	long size;

	if (f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 &&
			fseek(f, 0, SEEK_SET) == 0) {
		text = ff_arena_array(a, (size_t)size + 1, 1);
		if (text && fread(text, 1, (size_t)size, f) != (size_t)size)
			text = NULL;
	}
	if (f)
		fclose(f);
	return text;
}

/* What is missing at the end of a line is empty. */
static void read_line(char *line, struct recorded *ret)
{
	ret->line = line;
	for (int i = 0; i < COLUMNS; i++)
		ret->column[i] = "";
	if (is_comment(ret))
		return;
	for (int i = 0; i < COLUMNS && (line = strchr(line, '\t')); i++) {
		*line++ = 0;
		ret->column[i] = line;
	}
}

static int read_records(const char *path, struct records *ret, struct ff_error *err)
{
	char *text = read_all(path, &ret->arena), *end;
	uint32_t n = 1;

	if (!text)
		return ff_fail(err, FF_E_INPUT, "%s cannot be read", path);
	for (const char *at = text; *at; at++)
		n += *at == '\n';
	ret->at = ff_arena_array(&ret->arena, n, sizeof(*ret->at));
	if (!ret->at)
		return ff_fail_memory(err);
	for (; *text; text = end) {
		end = text + strcspn(text, "\n");
		if (*end)
			*end++ = 0;
		read_line(text, &ret->at[ret->n]);
		ret->n_made += !is_comment(&ret->at[ret->n]);
		ret->n++;
	}
	return FF_OK;
}

static int write_records(const struct records *r, const char *path, struct ff_error *err)
{
	struct ff_out o;
	int code;

	ff_out_init(&o);
	for (uint32_t i = 0; i < r->n; i++) {
		ff_out_printf(&o, "%s", r->at[i].line);
		for (int k = 0; k < COLUMNS && !is_comment(&r->at[i]); k++)
			ff_out_printf(&o, "\t%s", r->at[i].column[k]);
		ff_out_printf(&o, "\n");
	}
	code = ff_out_save(&o, path, err);
	ff_out_finish(&o);
	return code;
}

/* ---- one strategy ---- */

/* What comes of it now; texts from `a`. */
static int remake(const char *line, struct ff_arena *a, const char *ret[COLUMNS],
		struct ff_error *err)
{
	struct made made;
	int code = made_open(line, &made, err);

	if (code == FF_OK)
		code = made_digest(&made, ret, err);
	for (int i = 0; i < COLUMNS && code == FF_OK; i++) {
		ret[i] = ff_arena_strdup(a, ret[i]);
		code = ret[i] ? FF_OK : ff_fail_memory(err);
	}
	made_close(&made);
	return code;
}

static void tell(int column, const char *was, const char *is)
{
	if (column == COLUMN_TIME)
		printf("# another %s: %.17g us, was %.17g us\n", column_names[column],
				strtod(is, NULL), strtod(was, NULL));
	else
		printf("# another %s: %s, was %s\n", column_names[column], is, was);
}

/* One line of TAP and those that say what differs, which `differs` counts by column. */
static bool check(const struct recorded *r, uint32_t number, struct ff_arena *a,
		uint32_t differs[COLUMNS])
{
	const char *now[COLUMNS];
	struct ff_error err = {0};
	int code = remake(r->line, a, now, &err);
	bool same = code == FF_OK;

	for (int i = 0; i < COLUMNS && code == FF_OK; i++)
		same = same && !strcmp(now[i], r->column[i]);
	printf("%s %u - %s\n", same ? "ok" : "not ok", number, r->line);
	if (code < 0)
		printf("# %s\n", err.text);
	for (int i = 0; i < COLUMNS && code == FF_OK; i++) {
		if (!strcmp(now[i], r->column[i]))
			continue;
		differs[i]++;
		tell(i, r->column[i], now[i]);
	}
	return same;
}

/* ---- all of them ---- */

/* Of `every` strategies the first. */
static int check_all(const struct records *r, uint64_t every, struct ff_error *err)
{
	uint32_t number = 0, wrong = 0, differs[COLUMNS] = {0};
	uint64_t made = 0;

	printf("1..%u\n", (unsigned)((r->n_made + every - 1) / every));
	for (uint32_t i = 0; i < r->n; i++) {
		struct ff_arena a;

		if (is_comment(&r->at[i]) || made++ % every)
			continue;
		ff_arena_init(&a);
		wrong += !check(&r->at[i], ++number, &a, differs);
		ff_arena_finish(&a);
	}
	if (!wrong)
		return FF_OK;
	for (int k = 0; k < COLUMNS; k++)
		printf("# of %u strategies %u have another %s\n", number, differs[k],
				column_names[k]);
	return ff_fail(err, FF_E_RUN,
			"%u of %u strategies are not what was recorded; where that is meant, "
			"--record records them anew",
			wrong, number);
}

static int record_all(struct records *r, const char *path, struct ff_error *err)
{
	uint32_t changed = 0;
	int code = FF_OK;

	for (uint32_t i = 0; i < r->n && code == FF_OK; i++) {
		const char *now[COLUMNS];
		struct ff_error inner;
		bool same = true;

		if (is_comment(&r->at[i]))
			continue;
		if (remake(r->at[i].line, &r->arena, now, &inner) < 0)
			return ff_fail(err, inner.code, "line %u of %s: %s", i + 1, path,
					inner.text);
		for (int k = 0; k < COLUMNS; k++)
			same = same && !strcmp(now[k], r->at[i].column[k]);
		changed += !same;
		memcpy(r->at[i].column, now, sizeof(now));
	}
	printf("%u of %u strategies were recorded anew\n", changed, r->n_made);
	return write_records(r, path, err);
}

int main(int argc, char **argv)
{
	const char *path = FF_RECORDED "/strategies.tsv";
	struct records r = {.n = 0};
	struct ff_error err = {0};
	bool record = false, done = false;
	uint64_t every = 1;
	const struct ff_option options[] = {
			{"--record", FF_OPTION_FLAG, &record, NULL,
					"write what comes of them now, where a change was meant to "
					"change it"},
			{"--every", FF_OPTION_COUNT, &every, "N", "look at one of N alone"},
	};
	const struct ff_command command = {.name = "test_recorded",
			.usage = "[--record | --every N] [FILE]",
			.summary = "Makes strategies again whose schedule, predicted time, memory "
				   "and bytes were recorded, and says what differs.",
			.options = options,
			.n_options = sizeof(options) / sizeof(*options),
			.max_args = 1};
	uint32_t n_args;
	int code = ff_cli_parse(&command, argc, argv, &path, &n_args, &done, &err);

	if (code == FF_OK && done)
		return 0;
	ff_arena_init(&r.arena);
	if (code == FF_OK)
		code = read_records(path, &r, &err);
	if (code == FF_OK)
		code = record ? record_all(&r, path, &err) : check_all(&r, every ? every : 1, &err);
	ff_arena_finish(&r.arena);
	return ff_cli_end(&command, code, &err);
}
