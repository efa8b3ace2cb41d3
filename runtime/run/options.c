/* What ffrun is asked for, as far as it can be judged before anything is read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ff/dataset.h"
#include "ff/machine.h"
#include "ff/paths.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MOST_READ 6
#define MOST_WRITTEN 6
#define MOST_KEPT 1000000

/* Files that a run reads; the words for strategies are no files. */
static uint32_t list_read(const struct ff_run_options *o, struct ff_path ret[MOST_READ])
{
	const struct ff_path all[] = {{.name = "GRAPH", .path = o->what.graph},
			{.name = "STRATEGY", .path = o->what.strategy},
			{.name = "--against", .path = o->what.against},
			{.name = "--machine", .path = o->what.machine},
			{.name = "--beside", .path = o->tell.beside},
			{.name = "--weights", .path = o->train.weights}};

	_Static_assert(COUNT(all) <= MOST_READ, "room for all that is read");
	for (uint32_t i = 0; i < COUNT(all); i++)
		ret[i] = all[i];
	return COUNT(all);
}

/* Files that a run writes. */
static void list_written(const struct ff_run_options *o, struct ff_path ret[MOST_WRITTEN])
{
	const struct ff_path all[MOST_WRITTEN] = {{.name = "--report", .path = o->tell.report},
			{.name = "--trace", .path = o->tell.trace},
			{.name = "--html", .path = o->tell.html},
			{.name = "--dump", .path = o->check.dump},
			{.name = "--save", .path = o->store.save},
			{.name = "--metrics", .path = o->tell.metrics}};

	memcpy(ret, all, sizeof(all));
}

/* A checkpoint is a file like others, of which the folder need not be there yet. */
static int check_checkpoint(const struct ff_run_options *o, const struct ff_path *in, uint32_t n,
		struct ff_error *err)
{
	char path[PATH_MAX];
	struct ff_path out[MOST_WRITTEN + 1];

	if (!o->store.checkpoint)
		return FF_OK;
	snprintf(path, sizeof(path), "%s/%s", o->store.checkpoint, FF_CHECKPOINT_NEWEST);
	list_written(o, out);
	out[MOST_WRITTEN] = (struct ff_path){.name = "--checkpoint", .path = path};
	return ff_paths_apart(out, COUNT(out), in, n, err);
}

static int check_written(const struct ff_run_options *o, struct ff_error *err)
{
	struct ff_path in[MOST_READ], out[MOST_WRITTEN];
	uint32_t n = list_read(o, in);
	struct ff_arena a;
	int code;

	ff_arena_init(&a);
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(in[i].name, "--machine"))
			in[i].path = ff_machine_file(in[i].path, &a);
	list_written(o, out);
	if ((code = check_checkpoint(o, in, n, err)) == FF_OK &&
			(code = ff_dataset_spares(o->train.data, out, COUNT(out), err)) == FF_OK)
		code = ff_paths_check(out, COUNT(out), in, n, err);
	ff_arena_finish(&a);
	return code;
}

/* The first option that says something of checkpoints; NULL: none does. */
static const char *needs_checkpoint(const struct ff_store_options *o)
{
	return o->resume         ? "--resume"
	       : o->every        ? "--every"
	       : o->interval > 0 ? "--interval"
	       : o->keep         ? "--keep"
				 : NULL;
}

int ff_run_check(const struct ff_run_options *o, struct ff_error *err)
{
	if (!o->train.data)
		return ff_fail(err, FF_E_INPUT,
				"expected --data FOLDER or --data synthetic[:SAMPLES] (ffrun "
				"--help "
				"lists the formats)");
	if (!o->store.checkpoint && needs_checkpoint(&o->store))
		return ff_fail(err, FF_E_INPUT, "%s: expected --checkpoint DIR with it",
				needs_checkpoint(&o->store));
	if (o->store.keep > MOST_KEPT)
		return ff_fail(err, FF_E_INPUT, "--keep: expected at most %d", MOST_KEPT);
	if (o->what.compare && o->store.checkpoint)
		return ff_fail(err, FF_E_INPUT, "--checkpoint and --compare exclude each other");
	if (o->tell.beside && !ff_tell_traces(&o->tell))
		return ff_fail(err, FF_E_INPUT,
				"--beside: expected --trace FILE or --html FILE with it");
	if (o->what.against && !o->what.compare)
		return ff_fail(err, FF_E_INPUT, "--against: expected --compare with it");
	return check_written(o, err);
}

int ff_run_check_shared(const struct ff_run_options *o, uint32_t ranks, struct ff_error *err)
{
	struct ff_path in[MOST_READ];
	uint32_t n = list_read(o, in);

	return ff_paths_check_shared(in, n, ranks, err);
}

bool ff_run_piped(const struct ff_run_options *o)
{
	struct ff_path out[MOST_WRITTEN];

	list_written(o, out);
	return ff_paths_piped(out, COUNT(out));
}
