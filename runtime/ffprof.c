/* ffprof: measures what a search needs to know of this machine.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/limit.h"
#include "comm/mpi_job.h"
#include "ff/backends.h"
#include "ff/graph_file.h"
#include "ff/lock.h"
#include "ff/paths.h"
#include "ff/process.h"
#include "process/agree.h"
#include "process/launch.h"
#include "process/stop.h"
#include "prof/decay.h"
#include "prof/prof.h"
#include "prof/reference.h"
#include "prof/stopwatch.h"

#define UNEVEN 0.05 /* ranks beyond it are told of */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The machine that the ranks are, or one that must be so. */
static int lay_out(struct ff_prof *p, struct ff_error *err)
{
	const char *path = p->opt->write_machine;

	if (!path)
		return ff_layout_settle(&p->layout, &p->machine, err);
	return ff_layout_machine(&p->layout, path, &p->arena, &p->machine, err);
}

static int load_machine(struct ff_prof *p, struct ff_error *err)
{
	const struct ff_prof_options *o = p->opt;
	struct ff_machine all;
	int code = ff_machine_load(o->machine, &p->arena, &all, err);

	if (code < 0)
		return code;
	if (o->devices > all.n_devices)
		return ff_fail(err, FF_E_INPUT, "--devices %" PRIu64 ": machine %s has %u",
				o->devices, all.name, all.n_devices);
	code = ff_machine_subset(&all, o->devices ? (uint32_t)o->devices : all.n_devices, &p->arena,
			&p->machine, err);
	if (code == FF_OK && p->comm)
		code = lay_out(p, err);
	if (code == FF_OK)
		p->kind = ff_device_kind(&p->machine, 0)->name;
	return code;
}

/* Of hosts hwloc knows better than the C library, which takes all of a package's last caches for
 * one where AMD's have several. */
static int64_t find_cache(const struct ff_backend *b, const struct ff_device_info *info)
{
	struct ff_error ignored;
	struct ff_seat seat;
	int64_t bytes = 0;

	if (b->memory.of_host && ff_seat_find(&seat, &ignored) == FF_OK) {
		seat.threads = info->threads;
		bytes = ff_seat_cache_bytes(&seat);
	}
	return bytes ? bytes : info->cache_bytes;
}

static int load_backend(struct ff_prof *p, struct ff_error *err)
{
	const struct ff_device_kind *kind = ff_device_kind(&p->machine, 0);
	const char *name = p->opt->device;
	struct ff_device_info info = {0};
	struct ff_device *dev;
	int code;

	p->backend = name ? ff_backend_find(name) : ff_backend_preset();
	if (!p->backend || p->backend == &ff_backend_null)
		return ff_fail(err, FF_E_INPUT, "--device %s: expected cpu or cuda", name);
	if (kind->backend && strcmp(kind->backend, p->backend->name) != 0)
		return ff_fail(err, FF_E_INPUT,
				"machine %s has %s devices, which compute with %s, not with %s: "
				"what "
				"is measured here says nothing of them",
				p->machine.name, p->kind, kind->backend, p->backend->name);
	if ((code = p->backend->device.open(0, &dev, err)) < 0)
		return code;
	if (p->backend->device.describe)
		p->backend->device.describe(dev, &info);
	p->caches.bytes = find_cache(p->backend, &info);
	code = p->backend->device.computes(dev, p->graph.dtype, err);
	p->backend->device.close(dev);
	return code;
}

static int load_costs(struct ff_prof *p, struct ff_error *err)
{
	int code = FF_OK;

	if (!p->comm || !p->comm->rank)
		code = ff_lock_take(p->opt->out, p->opt->out, &p->lock, err);
	if (code < 0)
		return code;
	if (access(p->opt->out, F_OK))
		return ff_costs_create(p->kind, &p->costs, err);
	if ((code = ff_costs_load(p->opt->out, &p->costs, err)) < 0)
		return code;
	if (strcmp(ff_costs_device_kind(p->costs), p->kind) != 0)
		return ff_fail(err, FF_E_INPUT, "%s: has costs of %s devices, machine %s has %s",
				p->opt->out, ff_costs_device_kind(p->costs), p->machine.name,
				p->kind);
	return FF_OK;
}

/* What is written is none of what is read, but for costs, which are added to. */
static int check_paths(struct ff_prof *p, struct ff_error *err)
{
	const struct ff_prof_options *o = p->opt;
	const struct ff_path out[] = {{.name = "-o", .path = o->out},
			{.name = "--write-machine", .path = o->write_machine}};
	struct ff_path in[2 + COUNT(o->strategies.text)] = {{.name = "GRAPH", .path = o->graph},
			{.name = "--machine", .path = ff_machine_file(o->machine, &p->arena)}};
	uint32_t n = 2;
	int code;

	for (uint32_t i = 0; i < o->strategies.n; i++)
		in[n++] = (struct ff_path){.name = "--strategy", .path = o->strategies.text[i]};
	code = ff_paths_check(out, COUNT(out), in, n, err);
	return code < 0 ? code : ff_dataset_spares(o->data, out, COUNT(out), err);
}

static int load(struct ff_prof *p, struct ff_error *err)
{
	char synthetic[32];
	int code;

	if ((code = check_paths(p, err)) < 0 || (code = ff_prof_load_graph(p, err)) < 0 ||
			(code = load_machine(p, err)) < 0 || (code = load_backend(p, err)) < 0 ||
			(code = load_costs(p, err)) < 0)
		return code;
	snprintf(synthetic, sizeof(synthetic), "synthetic:%d", p->graph.batch);
	return ff_dataset_open(
			p->opt->data ? p->opt->data : synthetic, &p->graph, 1, &p->data, err);
}

/* What to measure, which caches have a say in: the same on all ranks, as for the most that one of
 * them has beside its cores. */
static int list_together(struct ff_prof *p, struct ff_error *err)
{
	double cache_bytes = (double)p->caches.bytes;
	int code = ff_agree_max(p->comm, &cache_bytes, 1, err);

	p->caches.bytes = (int64_t)cache_bytes;
	return code < 0 ? code : ff_agree_code(p->comm, ff_prof_list(p, err), err);
}

static void finish(struct ff_prof *p)
{
	ff_dataset_close(p->data);
	ff_lock_drop(&p->lock);
	ff_costs_destroy(p->costs);
	ff_arena_finish(&p->arena);
}

/* How quiet the machine was this time goes beside what it was before. */
static int note_steadiness(struct ff_prof *p, struct ff_error *err)
{
	struct ff_steadiness s = *ff_costs_steadiness(p->costs);
	double spread = ff_prof_reference_spread(p);
	int code = ff_agree_max(p->comm, &spread, 1, err);

	if (code < 0 || !p->tally.taken)
		return code;
	s.samples += p->tally.taken;
	s.disturbed += p->tally.met;
	s.reference_spread = fmax(s.reference_spread, spread);
	ff_costs_set_steadiness(p->costs, &s);
	return FF_OK;
}

static void print_steadiness(const struct ff_prof *p)
{
	double share = ff_costs_steady_share(p->costs);

	if (!p->tally.taken)
		return;
	printf("%.1f %% of %" PRIu64 " samples were disturbed by something else",
			100 * (double)p->tally.met / (double)p->tally.taken, p->tally.taken);
	if (share < 1)
		printf("; %.0f %% of the costs rest on such samples%s", fmax(100 * (1 - share), 1),
				share < FF_STEADY ? ": --again measures those anew when it is quiet"
						  : "");
	printf("\n");
}

/* Figures are the ranks' mean, and a step waits for the slowest. */
static void warn_uneven(const struct ff_prof *p)
{
	double excess;
	uint32_t rank = ff_steady_slowest(p->tally.rank_us, p->comm->n_ranks, &excess);

	if (excess > UNEVEN)
		fprintf(stderr,
				"ffprof: warning: rank %u on %s takes %.0f %% longer than the "
				"ranks' mean for the same work: steps will take up to so much "
				"longer than predicted\n",
				rank, p->topology.seat[rank].host.name, 100 * excess);
}

/* Of devices that are not the host; what is in the file stays. */
static int measure_launches(struct ff_prof *p, struct ff_error *err)
{
	struct ff_launches launch;
	int code = p->backend->memory.of_host ? FF_OK : ff_watch_launches(&p->watch, &launch, err);

	if (code < 0 || p->backend->memory.of_host || ff_costs_launch(p->costs)->alone_us > 0)
		return code;
	ff_costs_set_launch(p->costs, &launch);
	return FF_OK;
}

/* Of caches that lose what lies in them samples see as much as steps do. */
static int measure_decay(struct ff_prof *p, struct ff_error *err)
{
	int code = p->backend->memory.of_host ? ff_prof_decay(p, err) : FF_OK;

	if (code < 0 || !(p->caches.decay > 0))
		return code;
	if (p->comm->rank == 0)
		printf("caches are shared: what lay there for 30 ms takes %.1f times as long, so "
		       "samples wait as steps do\n",
				p->caches.decay);
	return ff_prof_pace(p, err);
}

static int measure_all(struct ff_prof *p, struct ff_error *err)
{
	int code = measure_launches(p, err);

	if (code == FF_OK)
		code = measure_decay(p, err);

	if (code == FF_OK && !p->end && !p->opt->kernels)
		code = ff_prof_rates(p, err);
	if (code == FF_OK && !p->end && !p->opt->kernels)
		code = ff_prof_network(p, err);
	if (code == FF_OK && !p->end && !p->opt->kernels)
		code = ff_prof_beside(p, err);
	if (code == FF_OK && !p->end)
		code = ff_prof_kernels(p, err);
	return code == FF_OK ? note_steadiness(p, err) : code;
}

/* By the slowest links, where it was measured. */
static double overlap_share(const struct ff_prof *p)
{
	struct ff_overlap_cost o = ff_costs_overlap(p->costs);

	return o.between >= 0 ? o.between : o.inside;
}

static void set_overlap(struct ff_prof *p)
{
	if (overlap_share(p) >= 0)
		p->machine.overlap = overlap_share(p) < FF_OVERLAP_PAYS;
	p->machine.message_lane = p->machine.message_lane && p->machine.overlap;
}

static void print_overlap(const struct ff_prof *p)
{
	double share = overlap_share(p);

	if (share >= 0)
		printf("overlap: communication takes %.0f %% of its time from compute beside it, "
		       "which %s\n",
				100 * share, share < FF_OVERLAP_PAYS ? "pays" : "does not pay");
}

/* Once links were measured, in this run or before. */
static int write_machine(struct ff_prof *p, struct ff_error *err)
{
	struct ff_rate inside = ff_costs_link(p->costs), network = ff_prof_network_line(p);
	struct ff_out o;
	int code;

	if (!p->opt->write_machine || p->end)
		return FF_OK;
	ff_layout_links(&p->machine, &inside, &network);
	if (p->backend->memory.of_host)
		ff_layout_memory(&p->machine, &p->topology);
	set_overlap(p);
	ff_out_init(&o);
	ff_machine_write(&p->machine, &o);
	code = ff_out_save(&o, p->opt->write_machine, err);
	ff_out_finish(&o);
	return code;
}

static int measure(struct ff_prof *p, struct ff_error *err)
{
	int code;

	if (!p->comm->rank)
		ff_prof_seats_warn(p);
	p->start_us = p->saved_us = ff_clock_us();
	p->rounds = p->opt->rounds ? (uint32_t)p->opt->rounds : 1;
	ff_progress_start(&p->progress);
	code = measure_all(p, err);
	ff_progress_end(&p->progress);
	if (code < 0 || p->comm->rank)
		return code;
	if ((code = ff_prof_save(p, true, err)) < 0 || (code = write_machine(p, err)) < 0)
		return code;
	printf("%s: %u of %u missing kernels measured in %.1f s, %u known\n", p->opt->out,
			p->tally.kernels, p->n_items, (ff_clock_us() - p->start_us) * 1e-6,
			ff_costs_count(p->costs));
	if (p->comm->n_ranks > 1)
		printf("communication: %s\n", p->comm->name);
	print_overlap(p);
	print_steadiness(p);
	warn_uneven(p);
	if (p->end)
		printf("stopped before the end; the same command goes on from here\n");
	return FF_OK;
}

/* Costs of another machine are no use here: refused, or forgotten. */
static int settle(struct ff_prof *p, struct ff_error *err)
{
	struct ff_origin here;
	int code = ff_prof_origin(p, &here, err);

	if (code < 0)
		return code;
	if (ff_costs_origin(p->costs)->ranks) {
		code = ff_origin_check(p->opt->out, ff_costs_origin(p->costs), &here, err);
		if (code == FF_OK || !p->opt->replace)
			return code;
		ff_costs_destroy(p->costs);
		p->costs = NULL;
		if ((code = ff_costs_create(p->kind, &p->costs, err)) < 0)
			return code;
		p->n_items = 0;
		if ((code = ff_prof_list(p, err)) < 0)
			return code;
	}
	return ff_costs_set_origin(p->costs, &here, err);
}

static int run(struct ff_prof *p, struct ff_error *err)
{
	int code = p->backend->device.open(
			ff_machine_ordinal(&p->machine, p->comm->rank), &p->dev, err);

	p->tally.rank_us = ff_arena_array(&p->arena, p->comm->n_ranks, sizeof(*p->tally.rank_us));
	if (code == FF_OK && !p->tally.rank_us)
		code = ff_fail_memory(err);
	if (code == FF_OK)
		code = p->backend->stream.open(p->dev, false, &p->stream, err);
	if (code == FF_OK)
		code = ff_watch_open(&p->watch, p->backend, p->dev, p->stream, err);
	if (code == FF_OK)
		code = ff_prof_sweep_open(p, err);
	if (code == FF_OK)
		code = ff_prof_reference_open(p, err);
	code = ff_agree_code(p->comm, code, err);
	if (code == FF_OK)
		code = ff_prof_seats(p, err);
	if (code == FF_OK)
		code = ff_agree_code(p->comm, settle(p, err), err);
	if (code == FF_OK)
		code = measure(p, err);
	ff_prof_sweep_close(p);
	ff_prof_reference_close(p);
	ff_watch_close(&p->watch);
	if (p->stream)
		p->backend->stream.close(p->stream);
	if (p->dev)
		p->backend->device.close(p->dev);
	return code;
}

static int end(int code, const struct ff_error *err)
{
	if (code < 0 && !err->text[0])
		return ff_exit_status(code);
	return ff_cli_end(&ff_prof_command, code, err);
}

static void tell_failure(void *ctx)
{
	const struct ff_error *err = ctx;

	end(err->code, err);
}

static int measure_rank(struct ff_prof *p, struct ff_error *err)
{
	int code = ff_layout_find(&p->layout, p->comm, &p->arena, err);

	code = ff_agree_code(p->comm, code, err);
	if (code == FF_OK)
		code = ff_agree_code(p->comm, load(p, err), err);
	if (code == FF_OK)
		code = ff_prof_same(p, err);
	if (code == FF_OK)
		code = list_together(p, err);
	if (code == FF_OK)
		code = ff_comm_prefer(p->backend, &p->machine, &p->comm, err);
	return code == FF_OK ? run(p, err) : code;
}

static int main_rank(void *ctx)
{
	struct ff_prof *p = ctx;
	struct ff_error err = {0};
	int status, code = ff_mpi_start(&err);

	if (code < 0)
		return end(code, &err);
	code = ff_comm_mpi(&p->comm, &err);
	if (code == FF_OK)
		code = p->opt->topology ? ff_prof_show(p, &err) : measure_rank(p, &err);
	status = code < 0 ? ff_exit_status(code) : end(code, &err);
	ff_mpi_meet(status, err.text[0] ? tell_failure : NULL, &err);
	if (p->comm)
		p->comm->destroy(p->comm);
	ff_mpi_finish();
	return status;
}

static int start(struct ff_prof *p, uint32_t ranks, char **argv)
{
	const struct ff_path in[] = {{.name = "GRAPH", .path = p->opt->graph},
			{.name = "--machine", .path = p->opt->machine},
			{.name = "-o", .path = p->opt->out}};
	struct ff_error err = {0};
	double limit_s;
	int status = 0, code = ff_paths_check_shared(in, COUNT(in), ranks, &err);

	ff_lock_drop(&p->lock); /* the first rank takes it */
	if (code == FF_OK)
		code = ff_comm_limit(&limit_s, &err);
	if (code == FF_OK)
		code = ff_launch(ranks, argv, limit_s, &status, &err);
	return code < 0 ? end(code, &err) : status;
}

static int watch_rank(struct ff_prof *p)
{
	struct ff_error err = {0};
	int status = 0, code = ff_launch_watch(main_rank, p, NULL, &status, &err);

	return code < 0 ? end(code, &err) : status;
}

static int measure_alone(struct ff_prof *p, struct ff_error *err)
{
	int code = ff_layout_find(&p->layout, p->comm, &p->arena, err);

	if (code == FF_OK)
		code = lay_out(p, err);
	return code == FF_OK ? run(p, err) : code;
}

/* Finds what is wrong with the input, then starts the ranks or is the only one. */
static int main_alone(struct ff_prof *p, char **argv)
{
	struct ff_error err = {0};
	int code = ff_backends_tune(&err);

	if (code == FF_OK && !p->opt->topology)
		code = load(p, &err);
	else if (code == FF_OK && p->opt->machine)
		code = load_machine(p, &err);
	if (code == FF_OK && !p->opt->topology)
		code = ff_prof_list(p, &err);
	if (code < 0)
		return end(code, &err);
	if (p->machine.n_nodes && p->machine.nodes[0].count > 1)
		return start(p, p->machine.nodes[0].count, argv);
	ff_stop_defer();
	if ((code = ff_comm_local(1, &p->comm, &err)) == FF_OK) {
		code = p->opt->topology ? ff_prof_show(p, &err) : measure_alone(p, &err);
		p->comm->destroy(p->comm);
	}
	return end(code, &err);
}

/* From a signal's handler. */
static void leave(void)
{
	_exit(1);
}

int main(int argc, char **argv)
{
	struct ff_prof_options o;
	struct ff_prof p = {.opt = &o, .stopped = ff_stop_asked, .lock = {.fd = -1}};
	struct ff_error err = {0};
	bool done = false;
	int code, status;

	ff_process_begin(ff_prof_command.name);
	ff_launch_listen(ff_prof_command.name, leave);
	code = ff_prof_parse(argc, argv, &o, &done, &err);
	if (code < 0 || done)
		return end(code, &err);
	ff_arena_init(&p.arena);
	status = ff_launch_is_rank() ? watch_rank(&p) : main_alone(&p, argv);
	finish(&p);
	return status;
}
