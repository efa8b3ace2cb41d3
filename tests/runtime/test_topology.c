/* What hosts are made of, read from made-up ones, and what is said of ranks on them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topology/topology.h"

#define RANKS 8

/* Two packages of two cores of two hardware threads, of which five threads are forbidden, and a
 * card beside the first. */
static const char restricted[] =
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
		"<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"0xff\" "
		"complete_cpuset=\"0xff\" allowed_cpuset=\"0xd\" nodeset=\"0x3\" "
		"complete_nodeset=\"0x3\" allowed_nodeset=\"0x1\" gp_index=\"1\">%s%s</object>"
		"</topology>\n";
static const char package[] =
		"<object type=\"Package\" os_index=\"%u\" cpuset=\"0x%x\" complete_cpuset=\"0x%x\" "
		"nodeset=\"0x%x\" complete_nodeset=\"0x%x\" gp_index=\"%u\">"
		"<info name=\"CPUModel\" value=\"abacus\"/>"
		"<object type=\"NUMANode\" os_index=\"%u\" cpuset=\"0x%x\" "
		"complete_cpuset=\"0x%x\" "
		"nodeset=\"0x%x\" complete_nodeset=\"0x%x\" gp_index=\"%u\" "
		"local_memory=\"1073741824\"/>";
static const char unit[] =
		"<object type=\"%s\" os_index=\"%u\" cpuset=\"0x%x\" complete_cpuset=\"0x%x\" "
		"nodeset=\"0x%x\" complete_nodeset=\"0x%x\" gp_index=\"%u\"%s>";

static void write_package(struct ff_out *o, unsigned i)
{
	unsigned all = 0xfu << 4 * i, node = 1u << i, id = 100 * (i + 1);

	ff_out_printf(o, package, i, all, all, node, node, id, i, all, all, node, node, id + 1);
	for (unsigned core = 2 * i; core < 2 * i + 2; core++) {
		unsigned set = 3u << 2 * core;

		ff_out_printf(o, unit, "Core", core, set, set, node, node, id + 10 + core, "");
		for (unsigned pu = 2 * core; pu < 2 * core + 2; pu++)
			ff_out_printf(o, unit, "PU", pu, 1u << pu, 1u << pu, node, node,
					id + 20 + pu, "/");
		ff_out_printf(o, "</object>");
	}
	if (!i)
		ff_out_printf(o, "<object type=\"OSDev\" gp_index=\"99\" name=\"ib0\" "
				 "osdev_type=\"2\"/>");
	ff_out_printf(o, "</object>");
}

static struct ff_seat read_seat(void)
{
	struct ff_error err = {0};
	struct ff_seat s;

	ck_assert_msg(ff_seat_find(&s, &err) == FF_OK, "%s", err.text);
	return s;
}

static struct ff_seat read_synthetic(const char *what)
{
	struct ff_seat s;

	setenv("HWLOC_SYNTHETIC", what, 1);
	s = read_seat();
	unsetenv("HWLOC_SYNTHETIC");
	return s;
}

static uint32_t count(const struct ff_seat *s)
{
	uint32_t n = 0;

	for (uint32_t c = 0; c < FF_HOST_CORES; c++)
		n += ff_seat_has(s, c);
	return n;
}

/* Built without hwloc there is nothing to read. */
static bool is_blind(void)
{
	struct ff_seat s = read_seat();

	ck_assert(s.host.name[0] && s.host.memory_bytes > 0);
	return !s.host.cores;
}

START_TEST(one_package)
{
	struct ff_seat s;

	if (is_blind())
		return;
	s = read_synthetic("package:1 l3:2 core:4 pu:2");
	ck_assert_uint_eq(s.host.packages, 1);
	ck_assert_uint_eq(s.host.domains, 1);
	ck_assert_uint_eq(s.host.cores, 8);
	ck_assert_uint_eq(s.host.threads, 16);
	ck_assert_uint_eq(s.host.all_threads, 16);
	ck_assert_uint_eq(s.host.domain[0].caches, 2);
	ck_assert_int_gt(s.host.domain[0].cache_bytes, 0);
	ck_assert_int_eq(s.host.limit_bytes, 0);
	ck_assert_uint_eq(count(&s), 8);
}
END_TEST

START_TEST(two_packages)
{
	struct ff_seat s;

	if (is_blind())
		return;
	s = read_synthetic("package:2 numa:2(memory=2GiB) core:3 pu:1");
	ck_assert_uint_eq(s.host.packages, 2);
	ck_assert_uint_eq(s.host.domains, 4);
	ck_assert_uint_eq(s.host.cores, 12);
	ck_assert_int_eq(s.host.memory_bytes, (int64_t)8 << 30);
	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_uint_eq(s.host.domain[i].package, i / 2);
		ck_assert_uint_eq(s.host.domain[i].cores, 3);
		ck_assert_int_eq(s.host.domain[i].memory_bytes, (int64_t)2 << 30);
	}
}
END_TEST

/* Of a cpuset only what may be used is told of, with how much there would be. */
/* The last caches beside the cores that a rank may run on, at most one a thread. */
START_TEST(caches_of_a_seat)
{
	static const struct {
		uint64_t cores;
		uint32_t threads;
		int64_t bytes;
	} cases[] = {
			{0x01, 1, 100},
			{0x08, 1, 100},
			{0x10, 1, 7},   /* one core */
			{0x03, 2, 100}, /* two beside one cache */
			{0x06, 2, 200},
			{0x06, 1, 100}, /* beside two caches */
			{0x0f, 4, 200},
			{0x18, 2, 107},
			{0xff, 8, 207},
			{0xff, 2, 200},
			{0, 1, 0},
	};
	struct ff_seat s = {.host = {.domains = 2, .cores = 8}};

	s.host.domain[0] = (struct ff_host_domain){.cache_bytes = 100, .caches = 2, .cores = 4};
	s.host.domain[1] = (struct ff_host_domain){.cache_bytes = 7, .caches = 1, .cores = 4};
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		s.core[0] = cases[i].cores;
		s.threads = cases[i].threads;
		ck_assert_msg(ff_seat_cache_bytes(&s) == cases[i].bytes, "case %u", i);
	}
	s.host.domain[0].caches = s.host.domain[1].caches = 0; /* nothing is told of caches */
	ck_assert_int_eq(ff_seat_cache_bytes(&s), 0);
}
END_TEST

START_TEST(forbidden)
{
	char path[] = "/tmp/ff_topology_XXXXXX";
	struct ff_out a, b, all;
	struct ff_seat s;
	int fd;

	if (is_blind())
		return;
	ff_out_init(&a);
	ff_out_init(&b);
	ff_out_init(&all);
	write_package(&a, 0);
	write_package(&b, 1);
	ff_out_printf(&all, restricted, a.text, b.text);
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, all.text, all.len), (ssize_t)all.len);
	close(fd);
	setenv("HWLOC_XMLFILE", path, 1);
	s = read_seat();
	unsetenv("HWLOC_XMLFILE");
	unlink(path);
	ck_assert_str_eq(s.host.processor, "abacus");
	ck_assert_uint_eq(s.host.packages, 1);
	ck_assert_uint_eq(s.host.cores, 2);
	ck_assert_uint_eq(s.host.threads, 3);
	ck_assert_uint_eq(s.host.all_threads, 8);
	ck_assert_int_eq(s.host.memory_bytes, (int64_t)1 << 30);
	ck_assert_uint_eq(s.host.cards, 1);
	ck_assert_str_eq(s.host.card[0].name, "ib0");
	ck_assert_int_eq(s.host.card[0].domain, 0);
	ff_out_finish(&a);
	ff_out_finish(&b);
	ff_out_finish(&all);
}
END_TEST

static void put(const char *root, const char *path, const char *text)
{
	char whole[256], *slash;
	FILE *f;

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	for (slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		mkdir(whole, 0700);
	}
	f = fopen(whole, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

START_TEST(limits)
{
	char root[] = "/tmp/ff_groups_XXXXXX", command[64];

	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_eq(ff_host_limit(root), 0);
	put(root, "/proc/self/cgroup", "0::/job/step\n");
	ck_assert_int_eq(ff_host_limit(root), 0);
	put(root, "/sys/fs/cgroup/job/step/memory.max", "max\n");
	ck_assert_int_eq(ff_host_limit(root), 0);
	put(root, "/sys/fs/cgroup/job/memory.max", "5000\n");
	put(root, "/sys/fs/cgroup/memory.max", "7000\n");
	ck_assert_int_eq(ff_host_limit(root), 5000);
	/* the first kind, in a container that sees its own group as the root */
	put(root, "/proc/self/cgroup", "3:cpu,memory:/outer/job\n2:cpu:/\n0::/job/step\n");
	put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n");
	ck_assert_int_eq(ff_host_limit(root), 3000);
	snprintf(command, sizeof(command), "rm -r %s", root);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

/* Hosts of two NUMA nodes of two cores with 16 GiB each, ranks on them in turn. */
struct made {
	struct ff_topology t;
	struct ff_seat seat[RANKS];
	uint32_t first[RANKS + 1];
};

static void make(struct made *m, uint32_t hosts, uint32_t ranks_each)
{
	memset(m, 0, sizeof(*m));
	for (uint32_t r = 0; r < hosts * ranks_each; r++) {
		struct ff_host *h = &m->seat[r].host;

		snprintf(h->name, sizeof(h->name), "node%u", r / ranks_each);
		h->packages = h->domains = 2;
		h->cores = h->threads = h->all_threads = 4;
		h->memory_bytes = (int64_t)32 << 30;
		for (uint32_t i = 0; i < 2; i++)
			h->domain[i] = (struct ff_host_domain){
					(int64_t)16 << 30, 1 << 25, i, 1, 2, 2};
		m->seat[r].core[0] = (uint64_t)1 << r % ranks_each;
		m->seat[r].threads = 1;
	}
	for (uint32_t i = 0; i <= hosts; i++)
		m->first[i] = i * ranks_each;
	m->t = (struct ff_topology){hosts * ranks_each, hosts, m->first, m->seat};
}

/* What is said: nothing, or one line with these words in it. */
static void check_said(const struct made *m, const struct ff_machine *machine, const char *words)
{
	struct ff_out o;

	ff_out_init(&o);
	ff_topology_warn(&m->t, machine, "ffprof", &o);
	if (!words) {
		ck_assert_msg(!o.len, "%s", o.text);
	} else {
		ck_assert_msg(o.len && strstr(o.text, words), "%s for %s",
				o.len ? o.text : "nothing", words);
		ck_assert_msg(!strncmp(o.text, "ffprof: warning: ", 17) &&
						strchr(o.text, '\n') == o.text + o.len - 1,
				"not one line: %s", o.text);
	}
	ff_out_finish(&o);
}

START_TEST(bound_well)
{
	struct made m;

	make(&m, 2, 4);
	check_said(&m, NULL, NULL);
	make(&m, 1, 2);
	m.seat[0].core[0] = 3;
	m.seat[1].core[0] = 12;
	m.seat[0].threads = m.seat[1].threads = 2;
	check_said(&m, NULL, NULL);
	/* one for all of a host has no other place */
	make(&m, 1, 1);
	m.seat[0].core[0] = 15;
	m.seat[0].threads = 4;
	check_said(&m, NULL, NULL);
}
END_TEST

START_TEST(on_one_core)
{
	struct made m;

	make(&m, 2, 4);
	m.seat[6].core[0] = m.seat[4].core[0];
	check_said(&m, NULL,
			"ranks 4 and 6 on node1 may run on core 0 alone, with 2 threads in all: ");
	make(&m, 1, 2);
	m.seat[0].core[0] = m.seat[1].core[0] = 3;
	m.seat[0].threads = m.seat[1].threads = 2;
	check_said(&m, NULL, "ranks 0 and 1 on node0 have 4 threads for the 2 cores that they may");
}
END_TEST

START_TEST(too_many)
{
	struct made m;

	make(&m, 1, 6);
	for (uint32_t r = 0; r < 6; r++) {
		m.seat[r].host.domains = 1;
		m.seat[r].host.domain[0].cores = 4;
		m.seat[r].core[0] = 15;
	}
	check_said(&m, NULL,
			"ranks 0-5 on node0 have 6 threads for the 4 cores that they may run on");
}
END_TEST

START_TEST(between_nodes)
{
	struct made m;

	make(&m, 2, 2);
	m.seat[0].core[0] = m.seat[3].core[0] = 15;
	check_said(&m, NULL, "ranks 0 and 3 may run on several NUMA nodes");
}
END_TEST

START_TEST(different_hosts)
{
	struct made m;

	make(&m, 2, 1);
	m.seat[1].host.limit_bytes = (int64_t)16 << 30;
	check_said(&m, NULL, "hosts node0 and node1 differ, by 32 and 16 GiB for ranks");
	make(&m, 2, 1);
	m.seat[1].host.memory_bytes -= 1 << 20;
	check_said(&m, NULL, NULL);
	m.seat[1].host.domain[1].cores = 1;
	m.seat[1].host.cores = 3;
	check_said(&m, NULL, "hosts node0 and node1 differ, by 4 and 3 cores");
	make(&m, 2, 1);
	snprintf(m.seat[1].host.processor, sizeof(m.seat[1].host.processor), "abacus");
	check_said(&m, NULL, "hosts node0 and node1 differ, by an unknown processor and abacus");
}
END_TEST

START_TEST(names)
{
	struct made m;

	make(&m, 2, 1);
	snprintf(m.seat[1].host.name, sizeof(m.seat[1].host.name), "node0");
	check_said(&m, NULL,
			"ranks 0 and 1 share no memory, as MPI says, but both say that they are");
	make(&m, 1, 2);
	snprintf(m.seat[1].host.name, sizeof(m.seat[1].host.name), "node1");
	check_said(&m, NULL, "ranks 0 and 1 share memory, as MPI says, but one says that it is on");
}
END_TEST

START_TEST(too_little_memory)
{
	struct ff_device_kind kind = {.name = "cpu", .memory_bytes = (int64_t)16 << 30};
	struct ff_machine_node node = {.count = 2};
	uint32_t node_of[] = {0, 0};
	struct ff_machine machine = {"desk", 2, 1, 1, &kind, &node, node_of, false};
	struct made m;

	make(&m, 1, 2);
	check_said(&m, &machine, NULL);
	m.seat[0].host.limit_bytes = (int64_t)24 << 30;
	check_said(&m, &machine,
			"machine desk gives each device 16 GiB, but node0 has 24 GiB for its "
			"2 ranks");
}
END_TEST

START_TEST(drawn)
{
	struct ff_out o;
	struct made m;

	make(&m, 2, 3);
	for (uint32_t r = 0; r < 6; r++) {
		struct ff_host *h = &m.seat[r].host;

		snprintf(h->processor, sizeof(h->processor), "abacus");
		h->cards = 1;
		snprintf(h->card[0].name, sizeof(h->card[0].name), "ib0");
		h->card[0].mbit_per_s = 100000;
		h->card[0].domain = 1;
		h->limit_bytes = (int64_t)8 << 30;
		h->all_threads = 6;
	}
	m.seat[2].core[0] = m.seat[5].core[0] = 12;
	ff_out_init(&o);
	ff_topology_print(&m.t, &o);
	o.text[strlen(o.text) - 9] = '\0'; /* the hash */
	ck_assert_str_eq(o.text, "node0: ranks 0-2, 32 GiB of memory, of which control groups "
				 "allow 8 GiB, 4 of "
				 "6 hardware threads allowed\n"
				 "  package 0: abacus\n"
				 "    NUMA node 0: 16 GiB, 2 cores, 2 hardware threads, 32 MiB of "
				 "last cache\n"
				 "      core 0: rank 0\n"
				 "      core 1: rank 1\n"
				 "  package 1: abacus\n"
				 "    NUMA node 1: 16 GiB, 2 cores, 2 hardware threads, 32 MiB of "
				 "last cache\n"
				 "      cores 2-3: rank 2\n"
				 "  network card ib0, 100 Gbit/s, beside NUMA node 1\n"
				 "node1: ranks 3-5, 32 GiB of memory, of which control groups "
				 "allow 8 GiB, 4 of "
				 "6 hardware threads allowed: as the host before\n"
				 "fingerprint 2h2p2n4c4t-");
	ff_out_finish(&o);
}
END_TEST

/* Which core of a domain a rank has is not in it, in which domain it is. */
START_TEST(fingerprints)
{
	char was[FF_FINGERPRINT], is[FF_FINGERPRINT];
	struct made m;

	make(&m, 1, 2);
	ff_topology_fingerprint(&m.t, was);
	m.seat[0].core[0] = 2;
	m.seat[1].core[0] = 1;
	m.seat[0].host.memory_bytes += 4096;
	ff_topology_fingerprint(&m.t, is);
	ck_assert_str_eq(was, is);
	m.seat[1].core[0] = 4;
	ff_topology_fingerprint(&m.t, is);
	ck_assert_str_ne(was, is);
	m.seat[1].core[0] = 2;
	ff_topology_fingerprint(&m.t, is);
	ck_assert_str_ne(was, is); /* the same one */
	m.seat[0].host.cores = 0;
	ff_topology_fingerprint(&m.t, is);
	ck_assert_str_eq(is, "");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("topology");
	TCase *t = tcase_create("all");

	tcase_add_test(t, one_package);
	tcase_add_test(t, two_packages);
	tcase_add_test(t, caches_of_a_seat);
	tcase_add_test(t, forbidden);
	tcase_add_test(t, limits);
	tcase_add_test(t, bound_well);
	tcase_add_test(t, on_one_core);
	tcase_add_test(t, too_many);
	tcase_add_test(t, between_nodes);
	tcase_add_test(t, different_hosts);
	tcase_add_test(t, names);
	tcase_add_test(t, too_little_memory);
	tcase_add_test(t, drawn);
	tcase_add_test(t, fingerprints);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
