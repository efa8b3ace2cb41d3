/* Computers as hwloc sees them.  SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* What is being read. */
struct reading {
	hwloc_topology_t topology;
	hwloc_obj_type_t core; /* processing units where it tells of no cores */
	hwloc_bitmap_t bound;  /* where this process may run */
	hwloc_const_cpuset_t cores_of[FF_HOST_DOMAINS];
	struct ff_seat *seat;
};

static void copy_text(char *to, size_t size, const char *text)
{
	snprintf(to, size, "%s", text ? text : "");
}

/* The last cache that a core has, as NULL or an object. */
static hwloc_obj_t last_cache(hwloc_obj_t core)
{
	hwloc_obj_t found = NULL;

	for (hwloc_obj_t at = core; at; at = at->parent)
		if (hwloc_obj_type_is_dcache(at->type))
			found = at;
	return found;
}

static void describe(const struct reading *r, hwloc_obj_t node, struct ff_host_domain *d)
{
	hwloc_obj_t first =
			hwloc_get_obj_inside_cpuset_by_type(r->topology, node->cpuset, r->core, 0);
	hwloc_obj_t package = first ? hwloc_get_ancestor_obj_by_type(
						      r->topology, HWLOC_OBJ_PACKAGE, first)
				    : NULL;
	hwloc_obj_t cache = first ? last_cache(first) : NULL;
	int caches = cache ? hwloc_get_nbobjs_inside_cpuset_by_type(
					     r->topology, node->cpuset, cache->type)
			   : 0;

	d->package = package ? package->logical_index : 0;
	d->cache_bytes = cache ? (int64_t)cache->attr->cache.size : 0;
	/* one that serves cores of several nodes, too, is not inside any */
	d->caches = cache ? (caches > 0 ? (uint32_t)caches : 1) : 0;
}

/* The domain whose cores have that memory, too, as fast memory beside ordinary; or a new one. */
static struct ff_host_domain *domain_of(struct reading *r, hwloc_obj_t node)
{
	struct ff_host *h = &r->seat->host;

	for (uint32_t i = 0; i < h->domains; i++)
		if (hwloc_bitmap_intersects(r->cores_of[i], node->cpuset))
			return &h->domain[i];
	if (h->domains == FF_HOST_DOMAINS)
		return NULL;
	r->cores_of[h->domains] = node->cpuset;
	describe(r, node, &h->domain[h->domains]);
	return &h->domain[h->domains++];
}

static void read_domains(struct reading *r)
{
	hwloc_obj_t node = NULL;

	while ((node = hwloc_get_next_obj_by_type(r->topology, HWLOC_OBJ_NUMANODE, node))) {
		struct ff_host_domain *d = NULL;

		if (!hwloc_bitmap_iszero(node->cpuset))
			d = domain_of(r, node);
		if (d)
			d->memory_bytes += (int64_t)node->attr->numanode.local_memory;
	}
}

static void read_cores(struct reading *r)
{
	struct ff_host *h = &r->seat->host;

	for (uint32_t i = 0; i < h->domains; i++) {
		hwloc_obj_t core = NULL;

		while ((core = hwloc_get_next_obj_inside_cpuset_by_type(
					r->topology, r->cores_of[i], r->core, core)) &&
				h->cores < FF_HOST_CORES) {
			int threads = hwloc_bitmap_weight(core->cpuset);

			if (hwloc_bitmap_intersects(core->cpuset, r->bound))
				r->seat->core[h->cores / 64] |= (uint64_t)1 << h->cores % 64;
			h->cores++;
			h->domain[i].cores++;
			h->domain[i].threads += threads > 0 ? (uint32_t)threads : 1;
		}
		h->threads += h->domain[i].threads;
	}
}

/* "10000" of a network device; "100 Gb/sec (4X EDR)" of InfiniBand. */
static double read_speed(const char *name, bool infiniband)
{
	char path[256];
	double speed = 0;
	FILE *f;

	snprintf(path, sizeof(path),
			infiniband ? "/sys/class/infiniband/%s/ports/1/rate"
				   : "/sys/class/net/%s/speed",
			name);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%lf", &speed) != 1 || speed < 0)
		speed = 0; /* -1: there is no cable, or nobody knows */
	fclose(f);
	return infiniband ? speed * 1000 : speed;
}

static int32_t beside(const struct reading *r, hwloc_obj_t device)
{
	hwloc_obj_t at = hwloc_get_non_io_ancestor_obj(r->topology, device);
	int32_t found = -1;

	for (uint32_t i = 0; at && i < r->seat->host.domains; i++)
		if (hwloc_bitmap_intersects(r->cores_of[i], at->cpuset)) {
			if (found >= 0)
				return -1;
			found = (int32_t)i;
		}
	return found;
}

static void read_cards(struct reading *r)
{
	struct ff_host *h = &r->seat->host;
	bool here = hwloc_topology_is_thissystem(r->topology);
	hwloc_obj_t device = NULL;

	while ((device = hwloc_get_next_osdev(r->topology, device)) && h->cards < FF_HOST_CARDS) {
		bool infiniband = device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
		struct ff_host_card *c = &h->card[h->cards];

		if (!infiniband && device->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK)
			continue;
		copy_text(c->name, sizeof(c->name), device->name);
		c->mbit_per_s = here ? (int64_t)read_speed(device->name, infiniband) : 0;
		c->domain = beside(r, device);
		h->cards++;
	}
}

/* hwloc's is the sum over nodes, whose figures the kernel makes up on some virtual machines; but it
 * alone knows which of them may be used. */
static void read_memory(struct reading *r)
{
	hwloc_const_nodeset_t all = hwloc_topology_get_complete_nodeset(r->topology);
	hwloc_const_nodeset_t allowed = hwloc_topology_get_allowed_nodeset(r->topology);
	struct ff_host *h = &r->seat->host;
	uint64_t bytes = hwloc_get_root_obj(r->topology)->total_memory;

	if (!hwloc_topology_is_thissystem(r->topology)) {
		h->memory_bytes = (int64_t)bytes;
		h->limit_bytes = 0;
	} else if (bytes && !hwloc_bitmap_isequal(all, allowed)) {
		h->memory_bytes = (int64_t)bytes;
	}
	if (h->domains == 1)
		h->domain[0].memory_bytes = h->memory_bytes;
}

/* Nothing is asked of GPUs, whose drivers take their time; and of cards the kernel tells enough. */
static int choose(hwloc_topology_t t)
{
	static const char *const without[] = {
			"cuda", "nvml", "rsmi", "levelzero", "opencl", "gl", "pci"};

	for (size_t i = 0; i < sizeof(without) / sizeof(*without); i++)
		hwloc_topology_set_components(
				t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, without[i]);
	return hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
}

static int read_all(struct reading *r)
{
	hwloc_obj_t package;
	struct ff_host *h = &r->seat->host;
	int threads;

	if (choose(r->topology) || hwloc_topology_load(r->topology))
		return -1;
	if (hwloc_get_cpubind(r->topology, r->bound, HWLOC_CPUBIND_PROCESS))
		hwloc_bitmap_copy(r->bound, hwloc_topology_get_allowed_cpuset(r->topology));
	r->core = hwloc_get_nbobjs_by_type(r->topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE
									    : HWLOC_OBJ_PU;
	package = hwloc_get_obj_by_type(r->topology, HWLOC_OBJ_PACKAGE, 0);
	if (package)
		copy_text(h->processor, sizeof(h->processor),
				hwloc_obj_get_info_by_name(package, "CPUModel"));
	h->packages = package ? (uint32_t)hwloc_get_nbobjs_by_type(r->topology, HWLOC_OBJ_PACKAGE)
			      : 1;
	threads = hwloc_bitmap_weight(hwloc_topology_get_complete_cpuset(r->topology));
	h->all_threads = threads > 0 ? (uint32_t)threads : 0;
	read_domains(r);
	read_cores(r);
	read_cards(r);
	read_memory(r);
	return 0;
}

int ff_seat_find(struct ff_seat *ret, struct ff_error *err)
{
	struct reading r = {.seat = ret};
	int code;

	memset(ret, 0, sizeof(*ret));
	ff_host_init(&ret->host);
	r.bound = hwloc_bitmap_alloc();
	if (!r.bound || hwloc_topology_init(&r.topology)) {
		hwloc_bitmap_free(r.bound);
		return ff_fail_memory(err);
	}
	code = read_all(&r);
	if (code)
		ff_error_write(err, FF_E_RUN, "hwloc cannot read what this computer is made of: %s",
				strerror(errno));
	hwloc_topology_destroy(r.topology);
	hwloc_bitmap_free(r.bound);
	return code ? FF_E_RUN : FF_OK;
}
