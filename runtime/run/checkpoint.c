/* Checkpoints: checkpoint.safetensors in a folder is always the newest, and replaced whole; those
 * before it, as many as are to stay, have their step in their name.  SPDX-License-Identifier:
 * Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/agree.h"
#include "weights.h"

#define CHECKPOINT_FORMAT "ffsoap checkpoint"
#define CHECKPOINT_VERSION "2"
#define NEWEST FF_CHECKPOINT_NEWEST
#define LOCK "checkpoint" /* .lock */
#define EARLIER "checkpoint-%010" PRIu64 ".safetensors"
#define EARLIER_BYTES sizeof("checkpoint-0123456789.safetensors")

/* Texts of a checkpoint beside its tensors, and what they must be to go on from it. */
enum {
	NOTE_FORMAT,
	NOTE_VERSION,
	NOTE_GRAPH,
	NOTE_OPTIMIZER,
	NOTE_SEED,
	NOTE_SAMPLES,
	NOTE_STEP,
	NOTE_STALENESS, /* not where it is none */
	NOTES
};
static const char *const note_key[NOTES] = {
		"format", "version", "graph", "optimizer", "seed", "samples", "step", "staleness"};

struct notes {
	char graph[32], seed[32], samples[32], step[32], staleness[32];
	const char *text[NOTES];
};

static void write_notes(
		uint64_t seed, const struct ff_run_plan *p, uint64_t step, struct notes *ret)
{
	snprintf(ret->graph, sizeof(ret->graph), "%016" PRIx64, p->graph.hash);
	snprintf(ret->seed, sizeof(ret->seed), "%" PRIu64, seed);
	snprintf(ret->samples, sizeof(ret->samples), "%" PRId64, ff_dataset_samples(p->data, true));
	snprintf(ret->step, sizeof(ret->step), "%" PRIu64, step);
	snprintf(ret->staleness, sizeof(ret->staleness), "%" PRIu32, p->travel.staleness);
	ret->text[NOTE_FORMAT] = CHECKPOINT_FORMAT;
	ret->text[NOTE_VERSION] = CHECKPOINT_VERSION;
	ret->text[NOTE_GRAPH] = ret->graph;
	ret->text[NOTE_OPTIMIZER] = p->optimizer->name;
	ret->text[NOTE_SEED] = ret->seed;
	ret->text[NOTE_SAMPLES] = ret->samples;
	ret->text[NOTE_STEP] = ret->step;
	ret->text[NOTE_STALENESS] = ret->staleness;
}

static int check_notes(uint64_t seed, struct ff_run_plan *p, struct ff_error *err)
{
	const char *step = ff_tensors_note(p->weights, "step");
	struct notes want;
	char *end;

	write_notes(seed, p, 0, &want);
	for (int i = 0; i < NOTES; i++) {
		const char *have = ff_tensors_note(p->weights, note_key[i]);

		if (i == NOTE_STEP || (!have && i == NOTE_SAMPLES)) /* not in all of them */
			continue;
		if (!have && i == NOTE_STALENESS)
			have = "0";
		if (!have || strcmp(have, want.text[i]) != 0)
			return ff_fail(err, FF_E_INPUT,
					"%s: cannot go on from it: its %s is %s, expected %s",
					p->weights->path, note_key[i], have ? have : "not said",
					want.text[i]);
	}
	errno = 0;
	p->first = step ? strtoull(step, &end, 10) : 0;
	if (!p->first || *end || errno || p->first > UINT32_MAX)
		return ff_fail(err, FF_E_INPUT, "%s: cannot go on from it: its step is %s",
				p->weights->path, step ? step : "not said");
	return FF_OK;
}

/* ---- the folder ---- */

/* An earlier checkpoint. */
struct earlier {
	char name[EARLIER_BYTES];
	struct timespec written;
};

struct folder {
	struct earlier *file; /* the last written first */
	uint32_t n;
};

static int by_age(const void *a, const void *b)
{
	const struct earlier *x = a, *y = b;

	if (x->written.tv_sec != y->written.tv_sec)
		return x->written.tv_sec < y->written.tv_sec ? 1 : -1;
	if (x->written.tv_nsec != y->written.tv_nsec)
		return x->written.tv_nsec < y->written.tv_nsec ? 1 : -1;
	return strcmp(y->name, x->name);
}

/* Whether `name` is that of an earlier checkpoint. */
static bool is_earlier(const char *name)
{
	char again[EARLIER_BYTES];
	uint64_t step;

	return strlen(name) < EARLIER_BYTES && sscanf(name, "checkpoint-%10" SCNu64, &step) == 1 &&
	       snprintf(again, sizeof(again), EARLIER, step) > 0 && !strcmp(again, name);
}

static int add(struct folder *f, DIR *dir, const char *name, struct ff_error *err)
{
	struct earlier *grown;
	struct stat st;

	if (!is_earlier(name) || fstatat(dirfd(dir), name, &st, 0) < 0)
		return FF_OK;
	grown = realloc(f->file, (f->n + 1) * sizeof(*grown));
	if (!grown)
		return ff_fail_memory(err);
	f->file = grown;
	memcpy(f->file[f->n].name, name, strlen(name) + 1); /* is_earlier: it fits */
	f->file[f->n++].written = st.st_mtim;
	return FF_OK;
}

/* The earlier checkpoints in it; ret->file is the caller's, also where it fails. */
static int list_folder(const char *path, struct folder *ret, struct ff_error *err)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int code = FF_OK;

	if (!dir)
		return ff_fail(err, FF_E_IO, "%s: %s", path, strerror(errno));
	while (code == FF_OK && (entry = readdir(dir)))
		code = add(ret, dir, entry->d_name, err);
	closedir(dir);
	if (ret->n)
		qsort(ret->file, ret->n, sizeof(*ret->file), by_age);
	return code;
}

/* Path of a file in the folder. */
static int join(const struct ff_run_plan *p, const char *name, char ret[PATH_MAX],
		struct ff_error *err)
{
	if (snprintf(ret, PATH_MAX, "%s/%s", p->checkpoint.folder, name) < PATH_MAX)
		return FF_OK;
	return ff_fail(err, FF_E_IO, "%s/%s: %s", p->checkpoint.folder, name,
			strerror(ENAMETOOLONG));
}

/* ---- to go on from ---- */

/* Whether it is what was written is asked before what it says: *damaged. */
static int open_whole(uint64_t seed, struct ff_run_plan *p, const char *path, bool *damaged,
		struct ff_error *err)
{
	const char *version;
	int code = ff_weights_open_file(p, path, err);

	*damaged = code < 0;
	if (code < 0)
		return code;
	version = ff_tensors_note(p->weights, note_key[NOTE_VERSION]);
	if (!version || strcmp(version, CHECKPOINT_VERSION) != 0) /* had no checksums once */
		code = check_notes(seed, p, err);
	if (code == FF_OK) {
		code = ff_tensors_check(p->weights, &p->checkpoint.sum, err);
		*damaged = code < 0;
	}
	if (code == FF_OK)
		code = check_notes(seed, p, err);
	return code < 0 ? code : ff_weights_check(p, err);
}

/* A sentence about `path` without it. */
static const char *without(const char *path, const char *text)
{
	size_t n = strlen(path);

	return !strncmp(text, path, n) && !strncmp(text + n, ": ", 2) ? text + n + 2 : text;
}

/* One of the earlier ones; where it is damaged, `err` stays as it was. */
static int open_one(uint64_t seed, struct ff_run_plan *p, const char *name, bool *damaged,
		struct ff_error *err)
{
	const char *path = ff_arena_printf(&p->arena, "%s/%s", p->checkpoint.folder, name);
	struct ff_error inner;
	int code = path ? open_whole(seed, p, path, damaged, &inner) : FF_E_NOMEM;

	if (!path)
		return ff_fail_memory(err);
	if (code < 0 && !*damaged)
		*err = inner;
	return code;
}

/* The last of those that `f` has that is whole.  `why` says what is wrong with the newest. */
static int open_earlier(uint64_t seed, struct ff_run_plan *p, const struct folder *f,
		const char *why, struct ff_error *err)
{
	for (uint32_t i = 0; i < f->n; i++) {
		bool damaged = false;
		int code = open_one(seed, p, f->file[i].name, &damaged, err);

		if (code < 0 && damaged) {
			ff_weights_close(p);
			continue;
		}
		if (code == FF_OK)
			ff_error_write(&p->note[FF_NOTE_CHECKPOINT], FF_OK,
					"%.600s; goes on from %.300s, which is whole and has "
					"%" PRIu64 " steps behind it",
					why, p->weights->path, p->first);
		return code;
	}
	return ff_fail(err, FF_E_INPUT, "%.600s, and no other checkpoint there is whole", why);
}

/* The newest is not there, or not whole, as `why` says. */
static int resume_earlier(uint64_t seed, struct ff_run_plan *p, const char *why, bool there,
		struct ff_error *err)
{
	struct folder f = {0};
	int code;

	ff_weights_close(p);
	code = list_folder(p->checkpoint.folder, &f, err);
	if (code == FF_OK && (f.n || there))
		code = open_earlier(seed, p, &f, why, err);
	free(f.file);
	return code;
}

static int resume(uint64_t seed, struct ff_run_plan *p, struct ff_error *err)
{
	const char *path = p->checkpoint.path;
	struct ff_error inner, why;
	bool damaged;
	int code;

	if (access(path, R_OK) < 0 && errno != ENOENT)
		return ff_fail(err, FF_E_INPUT, "%s: cannot be read: %s", path, strerror(errno));
	if (access(path, F_OK) < 0) {
		ff_error_write(&why, FF_OK, "%.300s: %s", path, strerror(errno));
		return resume_earlier(seed, p, why.text, false, err);
	}
	code = open_whole(seed, p, path, &damaged, &inner);
	if (code == FF_OK)
		p->checkpoint.newest = p->first;
	if (code < 0 && damaged) {
		ff_error_write(&why, FF_OK, "%.300s is damaged (%.300s)", path,
				without(path, inner.text));
		return resume_earlier(seed, p, why.text, true, err);
	}
	if (code < 0)
		*err = inner;
	return code;
}

/* Nobody else writes there from now on, and what somebody was at when he was killed is gone. */
static int hold(struct ff_run_plan *p, struct ff_error *err)
{
	struct ff_checkpoint *c = &p->checkpoint;
	char path[PATH_MAX];
	int code = join(p, LOCK, path, err);

	if (code == FF_OK)
		code = ff_lock_take(path, c->folder, &c->lock, err);
	if (code < 0)
		return code;
	c->held = true;
	ff_file_sweep(c->path);
	return FF_OK;
}

/* A pipe would be written into, and waited for. */
static int check_newest(const char *path, struct ff_error *err)
{
	struct stat st;

	if (stat(path, &st) < 0 || S_ISREG(st.st_mode))
		return FF_OK;
	return ff_fail(err, FF_E_INPUT, "%s: is no regular file, expected a checkpoint or none",
			path);
}

int ff_checkpoint_open(const struct ff_store_options *opt, uint64_t seed, struct ff_run_plan *p,
		bool leads, struct ff_error *err)
{
	struct ff_checkpoint *c = &p->checkpoint;
	int code;

	if (!opt->checkpoint)
		return FF_OK;
	if (mkdir(opt->checkpoint, 0777) < 0 && errno != EEXIST)
		return ff_fail(err, FF_E_IO, "%s: cannot be written: %s", opt->checkpoint,
				strerror(errno));
	c->folder = opt->checkpoint;
	c->path = ff_arena_printf(&p->arena, "%s/" NEWEST, opt->checkpoint);
	c->keep = opt->keep ? (uint32_t)opt->keep : 1;
	c->interval_us = opt->interval * 1e6;
	if (!c->path)
		return ff_fail_memory(err);
	code = check_newest(c->path, err);
	if (code == FF_OK && leads)
		code = hold(p, err);
	if (code < 0)
		return code;
	return opt->resume ? resume(seed, p, err) : FF_OK;
}

void ff_checkpoint_close(struct ff_run_plan *p)
{
	if (p->checkpoint.held)
		ff_lock_drop(&p->checkpoint.lock);
	p->checkpoint.held = false;
}

/* What a rank goes on from. */
struct found {
	uint64_t first;
	uint32_t sum;
	char host[256];
};

static bool same(const struct found *a, const struct found *b)
{
	return a->first == b->first && a->sum == b->sum;
}

/* All ranks know; the first tells. */
static int tell_apart(const struct ff_run_plan *p, const struct ff_comm *comm,
		const struct found *all, uint32_t other, struct ff_error *err)
{
	ff_fail(err, FF_E_INPUT,
			"--checkpoint %.200s: on %.100s it has %" PRIu64
			" steps behind it, on %.100s (rank %u) %s%" PRIu64
			": all hosts need the same folder, or the same checkpoint in theirs",
			p->checkpoint.folder, all[0].host, all[0].first, all[other].host, other,
			all[0].first == all[other].first ? "another training's " : "",
			all[other].first);
	if (comm->rank != 0)
		err->text[0] = '\0';
	return FF_E_INPUT;
}

int ff_checkpoint_agree(const struct ff_run_plan *p, struct ff_comm *comm, struct ff_error *err)
{
	struct found own = {.first = p->first, .sum = p->checkpoint.sum};
	struct found *all = calloc(comm->n_ranks, sizeof(*all));
	int code = all ? FF_OK : ff_fail_memory(err);

	gethostname(own.host, sizeof(own.host) - 1);
	code = ff_agree_code(comm, code, err);
	if (code == FF_OK)
		code = ff_agree_gather(comm, &own, sizeof(own), all, err);
	for (uint32_t r = 1; code == FF_OK && r < comm->n_ranks; r++)
		if (!same(&all[r], &all[0]))
			code = tell_apart(p, comm, all, r, err);
	free(all);
	return code;
}

/* ---- to keep ---- */

/* The newest gets a name of its own before another takes its place.  Where a file cannot have
 * two names, it has but the new one for a moment, and would be found by that. */
static int set_aside(const struct ff_run_plan *p, struct ff_error *err)
{
	char name[EARLIER_BYTES], path[PATH_MAX];
	int code;

	snprintf(name, sizeof(name), EARLIER, p->checkpoint.newest);
	if ((code = join(p, name, path, err)) < 0)
		return code;
	if (link(p->checkpoint.path, path) == 0 || errno == EEXIST)
		return FF_OK;
	if (errno != ENOENT && rename(p->checkpoint.path, path) == 0)
		return FF_OK;
	return errno == ENOENT ? FF_OK /* somebody took it away */
			       : ff_fail(err, FF_E_IO, "%s: %s", path, strerror(errno));
}

/* All but the last written. */
static int clear_old(const struct ff_run_plan *p, struct ff_error *err)
{
	struct folder f = {0};
	int code = list_folder(p->checkpoint.folder, &f, err);

	for (uint32_t i = p->checkpoint.keep - 1; i < f.n && code == FF_OK; i++) {
		char path[PATH_MAX];

		code = join(p, f.file[i].name, path, err);
		if (code == FF_OK && unlink(path) < 0 && errno != ENOENT)
			code = ff_fail(err, FF_E_IO, "%s: %s", path, strerror(errno));
	}
	free(f.file);
	return code;
}

int ff_checkpoint_save(uint64_t seed, struct ff_run_plan *p, struct ff_comm *comm,
		struct ff_executor *x, uint64_t step, struct ff_error *err)
{
	struct ff_checkpoint *c = &p->checkpoint;
	bool many = c->keep > 1 && comm->rank == 0;
	struct notes notes;
	const struct ff_saving s = {.path = c->path,
			.states = p->optimizer->states,
			.residuals = p->travel.codec != NULL,
			.sums = true,
			.waiting = p->travel.staleness,
			.n_notes = p->travel.staleness ? NOTES : NOTE_STALENESS,
			.note_key = note_key,
			.note = notes.text};
	int code = many && c->newest && c->newest != step ? set_aside(p, err) : FF_OK;

	write_notes(seed, p, step, &notes);
	code = ff_agree_code(comm, code, err);
	if (code == FF_OK)
		code = ff_weights_save(p, comm, x, &s, err);
	if (code < 0)
		return code;
	c->newest = step;
	return ff_agree_code(comm, many ? clear_old(p, err) : FF_OK, err);
}
