/* Device graphs: the files that come along, reading, writing, subsets and bad
 * input.  SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "check_main.h"
#include "ff/machine_lanes.h"
#include "ff/machine.h"

static void load(const char *name, struct ff_arena *a, struct ff_machine *m)
{
	struct ff_error err = {0};
	int code = ff_machine_load(name, a, m, &err);

	ck_assert_msg(code == FF_OK, "%s", err.text);
}

static void parse(const char *text, struct ff_arena *a, struct ff_machine *m)
{
	struct ff_error err = {0};
	int code = ff_machine_parse("test.json", text, strlen(text), a, m, &err);

	ck_assert_msg(code == FF_OK, "%s", err.text);
}

static void check_link(const struct ff_link *a, const struct ff_link *b)
{
	ck_assert_double_eq(a->latency_us, b->latency_us);
	ck_assert_double_eq(a->bytes_per_us, b->bytes_per_us);
	ck_assert_int_eq(a->shared, b->shared);
}

/* Devices are numbered through the nodes, and every rate is usable. */
static void check_machine(const struct ff_machine *m)
{
	uint32_t device = 0;

	for (uint32_t i = 0; i < m->n_nodes; i++) {
		const struct ff_machine_node *n = &m->nodes[i];

		ck_assert_uint_eq(n->first, device);
		ck_assert_uint_ge(n->count, 1);
		ck_assert_uint_lt(n->kind, m->n_kinds);
		ck_assert_double_gt(n->inside.bytes_per_us, 0);
		ck_assert_double_gt(n->network.bytes_per_us, 0);
		ck_assert(n->network.shared);
		for (uint32_t k = 0; k < n->count; k++, device++) {
			ck_assert_uint_eq(m->node_of[device], i);
			ck_assert_double_gt(ff_device_kind(m, device)->flops_per_s, 0);
			ck_assert_int_gt(ff_device_kind(m, device)->memory_bytes, 0);
		}
	}
	ck_assert_uint_eq(device, m->n_devices);
}

static void check_same(const struct ff_machine *m, const struct ff_machine *n)
{
	ck_assert_str_eq(m->name, n->name);
	ck_assert_uint_eq(m->n_devices, n->n_devices);
	ck_assert_uint_eq(m->n_nodes, n->n_nodes);
	ck_assert_int_eq(m->overlap, n->overlap);
	ck_assert_int_eq(m->message_lane, n->message_lane);
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		ck_assert_uint_eq(m->nodes[i].count, n->nodes[i].count);
		check_link(&m->nodes[i].inside, &n->nodes[i].inside);
		check_link(&m->nodes[i].network, &n->nodes[i].network);
	}
	for (uint32_t i = 0; i < m->n_devices; i++) {
		const struct ff_device_kind *x = ff_device_kind(m, i), *y = ff_device_kind(n, i);

		ck_assert_str_eq(x->name, y->name);
		ck_assert_double_eq(x->flops_per_s, y->flops_per_s);
		ck_assert_double_eq(x->bfloat16_flops_per_s, y->bfloat16_flops_per_s);
		ck_assert_double_eq(x->memory_bytes_per_s, y->memory_bytes_per_s);
		ck_assert_int_eq(x->memory_bytes, y->memory_bytes);
	}
}

static void check_round_trip(const struct ff_machine *m)
{
	struct ff_arena a;
	struct ff_machine again;
	struct ff_out o, second;

	ff_arena_init(&a);
	ff_out_init(&o);
	ff_out_init(&second);
	ff_machine_write(m, &o);
	parse(o.text, &a, &again);
	check_machine(&again);
	check_same(m, &again);
	ff_machine_write(&again, &second);
	ck_assert_str_eq(o.text, second.text);
	ff_out_finish(&o);
	ff_out_finish(&second);
	ff_arena_finish(&a);
}

START_TEST(files)
{
	DIR *dir = opendir(FF_SOURCE_MACHINES);
	struct dirent *entry;
	int n = 0;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir))) {
		size_t len = strlen(entry->d_name);
		struct ff_arena a;
		struct ff_machine m;

		if (len < 5 || strcmp(entry->d_name + len - 5, ".json") != 0)
			continue;
		ff_arena_init(&a);
		load(entry->d_name, &a, &m);
		check_machine(&m);
		check_round_trip(&m);
		/* the name is the file's */
		ck_assert_uint_eq(strlen(m.name), len - 5);
		ck_assert(!strncmp(m.name, entry->d_name, len - 5));
		ff_arena_finish(&a);
		n++;
	}
	closedir(dir);
	ck_assert_int_ge(n, 6);
}
END_TEST

START_TEST(known)
{
	static const struct {
		const char *name;
		uint32_t devices, nodes;
		bool overlap;
	} cases[] = {{"cpu1", 1, 1, false}, {"cpu2", 2, 1, false}, {"cpu4", 4, 1, false},
			{"cpu8", 8, 1, false}, {"p100x16", 16, 4, true}, {"k80x64", 64, 16, true},
			{"a100x256", 256, 32, true}, {"a100x1024", 1024, 128, true}};
	struct ff_arena a;
	struct ff_machine m;

	ff_arena_init(&a);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		load(cases[i].name, &a, &m);
		ck_assert_uint_eq(m.n_devices, cases[i].devices);
		ck_assert_uint_eq(m.n_nodes, cases[i].nodes);
		ck_assert_int_eq(m.overlap, cases[i].overlap);
		ck_assert_int_eq(m.message_lane, cases[i].overlap);
	}
	load("a100x256", &a, &m);
	ck_assert_double_eq(ff_device_flops_per_s(ff_device_kind(&m, 0), FF_F32), 19.5e12);
	ck_assert_double_eq(ff_device_flops_per_s(ff_device_kind(&m, 0), FF_BF16), 312e12);
	load("p100x16", &a, &m);
	ck_assert_double_eq(ff_device_flops_per_s(ff_device_kind(&m, 0), FF_BF16), 10.6e12);
	ck_assert_uint_eq(m.node_of[7], 1);
	ck_assert_double_eq(ff_device_kind(&m, 15)->flops_per_s, 10.6e12);
	ck_assert_int_eq(ff_device_kind(&m, 0)->memory_bytes, (int64_t)16 << 30);
	ck_assert_double_eq(m.nodes[3].network.bytes_per_us, 12500);
	ff_arena_finish(&a);
}
END_TEST

/* Machines with a datasheet: what one node has, and that figures are of their time. */
START_TEST(by_name)
{
	static const struct {
		const char *name, *kind;
		uint32_t devices, cards;
		double most_gib; /* of memory, as sold */
	} cases[] = {{"dgx1-p100", "P100-16GB", 8, 4, 16}, {"dgx1-v100", "V100-16GB", 8, 4, 16},
			{"dgx1-v100-32", "V100-32GB", 8, 4, 32},
			{"dgx2-v100", "V100-SXM3-32GB", 16, 8, 32},
			{"p3.16xlarge", "V100-16GB", 8, 1, 16},
			{"dgx-a100-40", "A100-40GB", 8, 8, 40},
			{"dgx-a100-80", "A100-80GB", 8, 8, 80},
			{"p4d.24xlarge", "A100-40GB", 8, 4, 40},
			{"p4de.24xlarge", "A100-80GB", 8, 4, 80},
			{"p5.48xlarge", "H100-80GB", 8, 8, 80},
			{"p5e.48xlarge", "H200-141GB", 8, 8, 141},
			{"dgx-h100", "H100-80GB", 8, 8, 80}, {"dgx-h200", "H200-141GB", 8, 8, 141},
			{"dgx-b200", "B200-180GB", 8, 8, 180}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct ff_machine_node *n;
		const struct ff_device_kind *k;
		struct ff_arena a;
		struct ff_machine m;
		double gib;

		ff_arena_init(&a);
		load(cases[i].name, &a, &m);
		n = &m.nodes[0];
		k = ff_device_kind(&m, 0);
		gib = (double)k->memory_bytes / (double)(1 << 30);
		ck_assert_uint_eq(m.n_nodes, 1);
		ck_assert_uint_eq(m.n_devices, cases[i].devices);
		ck_assert_str_eq(k->name, cases[i].kind);
		ck_assert_str_eq(k->backend, "cuda");
		ck_assert_uint_eq(ff_node_cards(n), cases[i].cards);
		ck_assert_msg(gib > 0.93 * cases[i].most_gib && gib < cases[i].most_gib,
				"%s: %g GiB", cases[i].name, gib);
		ck_assert(k->flops_per_s > 1e13 && k->flops_per_s < 1e14);
		ck_assert(k->memory_bytes_per_s > 7e11 && k->memory_bytes_per_s < 1e13);
		ck_assert_ptr_nonnull(n->wiring.inside);
		ck_assert_ptr_nonnull(n->wiring.between);
		/* NVLink is faster than its node's network */
		ck_assert_double_gt(n->inside.bytes_per_us * 8, n->network.bytes_per_us);
		ff_arena_finish(&a);
	}
}
END_TEST

static void refused(const char *name, const char *word)
{
	struct ff_error err = {0};
	struct ff_arena a;
	struct ff_machine m;

	ff_arena_init(&a);
	ck_assert_msg(ff_machine_load(name, &a, &m, &err) == FF_E_INPUT, "%s", name);
	ck_assert_msg(strstr(err.text, word), "%s: %s", name, err.text);
	ff_arena_finish(&a);
}

START_TEST(by_nodes)
{
	struct ff_arena a;
	struct ff_machine m;

	ff_arena_init(&a);
	load("dgx-a100-40:4", &a, &m);
	check_machine(&m);
	check_round_trip(&m);
	ck_assert_str_eq(m.name, "dgx-a100-40:4");
	ck_assert_uint_eq(m.n_nodes, 4);
	ck_assert_uint_eq(m.n_devices, 32);
	ck_assert(ff_machine_known("dgx-a100-40:4") && !ff_machine_known("dgx-a100-41:4"));
	load("p100x16:2", &a, &m); /* for what the file says */
	ck_assert_uint_eq(m.n_devices, 8);
	load("dgx-a100-40:512", &a, &m);
	ck_assert_uint_eq(m.n_devices, FF_MAX_DEVICES);
	load(FF_SOURCE_MACHINES "/dgx-h100.json:3", &a, &m);
	ck_assert_uint_eq(m.n_devices, 24);
	ff_arena_finish(&a);
	refused("dgx-a100-40:513", "at most 4096 devices, not 4104");
	refused("dgx-a100-40:0", "expected 1 to 4096 nodes behind the colon, not \"0\"");
	refused("dgx-a100-40:-2", "not \"-2\"");
	refused("dgx-a100-40:+2", "not \"+2\"");
	refused("dgx-a100-40:", "not \"\"");
	refused("dgx-a100-40:2x", "not \"2x\"");
	refused("dgx-a100-40:4294967297", "not \"4294967297\"");
	refused("dgx-a100-41:2", "did you mean dgx-a100-40?");
	refused("dgx-a100-4", "did you mean dgx-a100-40?");
	refused("cpu2:2", "expected \"network\"");
	refused("./none.json:2", "./none.json:2: cannot be read");
}
END_TEST

#define TOLD_NODE(devices)                                                                         \
	"{\"devices\":" devices                                                                    \
	",\"kind\":\"k\",\"inside\":{\"latency_us\":1,\"bytes_per_s\":1e9},"                       \
	"\"network\":{\"latency_us\":2,\"bytes_per_s\":1e9}}"
#define TOLD_MACHINE(nodes)                                                                        \
	"{\"format\":\"ffsoap-machine\",\"version\":1,\"name\":\"told\",\"overlap\":true,"         \
	"\"kinds\":[{\"name\":\"k\",\"backend\":\"cpu\",\"flops_per_s\":1,\"memory_bytes_per_s\":" \
	"1,"                                                                                       \
	"\"memory_bytes\":1}],\"nodes\":[" nodes "]}"

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

/* A file may name its nodes one by one; they are repeated if they are alike. */
START_TEST(told_one_by_one)
{
	const char *path = "test_machine_told.json";
	struct ff_arena a;
	struct ff_machine m;

	ff_arena_init(&a);
	write_file(path, TOLD_MACHINE(TOLD_NODE("3") "," TOLD_NODE("3")));
	load("test_machine_told.json:5", &a, &m);
	ck_assert_uint_eq(m.n_nodes, 5);
	ck_assert_uint_eq(m.n_devices, 15);
	ck_assert_uint_eq(m.nodes[4].first, 12);
	check_round_trip(&m);
	load("test_machine_told.json:1", &a, &m);
	ck_assert_uint_eq(m.n_devices, 3);
	ff_arena_finish(&a);
	refused("test_machine_told.json:1366", "at most 4096 devices, not 4098");
	write_file(path, TOLD_MACHINE(TOLD_NODE("3") "," TOLD_NODE("2")));
	refused("test_machine_told.json:2", "nodes: expected nodes that are all alike");
	ck_assert_int_eq(remove(path), 0);
}
END_TEST

static uint32_t card_of(const struct ff_machine *m, uint32_t device)
{
	return ff_lane_card(m, m->node_of[device], ff_device_card(m, device));
}

/* Four cards for eight devices: each is two neighbours'. */
START_TEST(cards)
{
	struct ff_arena a;
	struct ff_machine m, part;
	struct ff_error err;
	bool seen[64] = {false};

	ff_arena_init(&a);
	load("p4d.24xlarge:2", &a, &m);
	ck_assert_uint_eq(ff_lane_count(&m), 3 * 16 + 2 + 2 * 4);
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t lane = card_of(&m, i);

		ck_assert(lane >= 3 * 16 + 2 && lane < ff_lane_count(&m));
		ck_assert_int_eq(seen[lane], i % 2); /* new with every other device */
		ck_assert(i % 2 == 0 || lane == card_of(&m, i - 1));
		seen[lane] = true;
	}
	/* of a part of the machine each device keeps its card */
	ck_assert_int_eq(ff_machine_subset(&m, 12, &a, &part, &err), FF_OK);
	ck_assert_uint_eq(ff_node_cards(&part.nodes[1]), 4);
	ck_assert_uint_eq(card_of(&part, 8), card_of(&part, 9));
	ck_assert_uint_ne(card_of(&part, 9), card_of(&part, 10));
	/* one each: messages and collectives have it in turn, unless they have one lane anyway */
	load("dgx-a100-40:2", &a, &m);
	ck_assert(ff_node_own_cards(&m.nodes[0]));
	ck_assert_uint_eq(ff_lane_count(&m), 3 * 16 + 2 + 16);
	for (uint32_t i = 0; i < 16; i++)
		ck_assert_uint_eq(card_of(&m, i), 3 * 16 + 2 + i);
	m.message_lane = false;
	ff_machine_number_cards(&m);
	ck_assert_uint_eq(ff_lane_count(&m), 2 * 16 + 2);
	ck_assert_uint_eq(ff_lane(&m, FF_LANE_MESSAGE, 3), ff_lane(&m, FF_LANE_COMM, 3));
	load("p100x16", &a, &m);
	for (uint32_t i = 0; i < 16; i++)
		ck_assert_uint_eq(card_of(&m, i), ff_lane(&m, FF_LANE_NETWORK, i / 4));
	ff_arena_finish(&a);
}
END_TEST

#define WIRED(inside, network)                                                                     \
	"{\"format\":\"ffsoap-machine\",\"version\":1,\"name\":\"m\",\"overlap\":true,"            \
	"\"kinds\":[{\"name\":\"k\",\"flops_per_s\":1,\"memory_bytes_per_s\":1,"                   \
	"\"memory_bytes\":1}],\"nodes\":[{\"count\":2,\"devices\":4,\"kind\":\"k\",\"inside\":{"   \
	"\"latency_us\":1,\"bytes_per_s\":1e9" inside "},\"network\":{\"latency_us\":1,"           \
	"\"bytes_per_s\":1e9" network "}}]}"
#define OTHERWISE                                                                                  \
	",\"otherwise\":{\"latency_us\":1,\"bytes_per_s\":1e9,\"interconnect\":\"pcie-3\"}"

START_TEST(wired)
{
	static const struct {
		const char *text, *error; /* NULL: none */
	} cases[] = {{WIRED("", ""), NULL},
			{WIRED(",\"interconnect\":\"pcie-3\"", ",\"cards\":2,\"sums\":true"), NULL},
			{WIRED(",\"interconnect\":\"nvlink-2\",\"pairs\":[[0,1,2],[2,3,1]"
			       "]" OTHERWISE,
					 ",\"interconnect\":\"infiniband\""),
					NULL},
			{WIRED(",\"interconnect\":\"nvswitch-33\"", ""),
					"no interconnect \"nvswitch-33\" inside nodes"},
			{WIRED(",\"interconnect\":\"nvswitch-33\"", ""),
					"did you mean nvswitch-3?"},
			{WIRED(",\"interconnect\":\"infiniband\"", ""),
					"no interconnect \"infiniband\" inside nodes"},
			{WIRED("", ",\"interconnect\":\"pcie-3\""), "between nodes"},
			{WIRED(",\"interconnect\":3", ""), "expected the name of an interconnect"},
			{WIRED("", ",\"cards\":0"), "cards"}, {WIRED("", ",\"sums\":1"), "sums"},
			{WIRED(",\"pairs\":[[0,1,2]]" OTHERWISE, ""),
					"an \"interconnect\" beside it"},
			{WIRED(",\"interconnect\":\"nvlink-2\",\"pairs\":[[0,1,2]]", ""),
					"\"otherwise\""},
			{WIRED(",\"interconnect\":\"nvlink-2\",\"pairs\":[[0,4,2]]" OTHERWISE, ""),
					"pairs[0][1]"},
			{WIRED(",\"interconnect\":\"nvlink-2\",\"pairs\":[[1,1,2]]" OTHERWISE, ""),
					"expected two devices"},
			{WIRED(",\"interconnect\":\"nvlink-2\",\"pairs\":[[0,1,2],[1,0,1]"
			       "]" OTHERWISE,
					 ""),
					"this pair is taken"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ff_error err = {0};
		struct ff_arena a;
		struct ff_machine m;
		int code;

		ff_arena_init(&a);
		code = ff_machine_parse("m", cases[i].text, strlen(cases[i].text), &a, &m, &err);
		ck_assert_msg(code == (cases[i].error ? FF_E_INPUT : FF_OK), "%zu: %s", i,
				err.text);
		if (cases[i].error)
			ck_assert_msg(strstr(err.text, cases[i].error), "%zu: %s", i, err.text);
		else
			check_round_trip(&m);
		ff_arena_finish(&a);
	}
}
END_TEST

START_TEST(search_path)
{
	char folder[] = "/tmp/ff_test_machine_XXXXXX", path[128];
	struct ff_arena a;
	struct ff_machine m;
	struct ff_error err;
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/mine.json", folder);
	ff_arena_init(&a);
	ck_assert_int_eq(ff_machine_load("mine", &a, &m, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "\"mine\""));
	ck_assert_int_eq(ff_machine_load(path, &a, &m, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, path));
	f = fopen(path, "w");
	fputs("{\"format\":\"ffsoap-machine\",\"version\":1,\"name\":\"mine\",\"overlap\":true,"
	      "\"kinds\":[{\"name\":\"k\",\"flops_per_s\":1,\"memory_bytes_per_s\":1,"
	      "\"memory_bytes\":1}],\"nodes\":[{\"devices\":1,\"kind\":\"k\"}]}",
			f);
	fclose(f);
	load(path, &a, &m);
	setenv("FF_MACHINES", folder, 1);
	load("mine", &a, &m);
	load("mine.json", &a, &m);
	ck_assert_str_eq(m.name, "mine");
	check_machine(&m);
	check_round_trip(&m);
	load("cpu2", &a, &m); /* the other folders still count */
	unsetenv("FF_MACHINES");
	remove(path);
	remove(folder);
	ff_arena_finish(&a);
}
END_TEST

START_TEST(subsets)
{
	struct ff_arena a;
	struct ff_machine m, s, before;
	struct ff_error err;

	ff_arena_init(&a);
	load("p100x16", &a, &m);
	for (uint32_t n = 1; n <= 16; n++) {
		ck_assert_int_eq(ff_machine_subset(&m, n, &a, &s, &err), FF_OK);
		ck_assert_uint_eq(s.n_devices, n);
		ck_assert_uint_eq(s.n_nodes, (n + 3) / 4);
		check_machine(&s);
		check_round_trip(&s);
	}
	ck_assert_uint_eq(m.nodes[0].count, 4);
	memset(&s, 0x5a, sizeof(s));
	before = s;
	ck_assert_int_eq(ff_machine_subset(&m, 17, &a, &s, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "the machine \"p100x16\" has 16 devices, 17 cannot be taken");
	ck_assert_int_eq(ff_machine_subset(&m, 0, &a, &s, &err), FF_E_INPUT);
	ck_assert_mem_eq(&s, &before, sizeof(s));
	ff_arena_finish(&a);
}
END_TEST

/* Nodes of two kinds in one machine. */
#define HEAD "{\"format\":\"ffsoap-machine\",\"version\":1,\"name\":\"m\",\"overlap\":true,"
#define KIND(name)                                                                                 \
	"{\"name\":\"" name                                                                        \
	"\",\"flops_per_s\":1e12,\"memory_bytes_per_s\":1e11,\"memory_bytes\":1000}"
#define KINDS "\"kinds\":[" KIND("fast") "," KIND("slow") "],"
#define LINK(more) "{\"latency_us\":2,\"bytes_per_s\":3e9" more "}"
#define NODE(more)                                                                                 \
	"{\"devices\":2,\"kind\":\"slow\",\"inside\":" LINK("") ",\"network\":" LINK("") more "}"
#define MACHINE(nodes) HEAD KINDS "\"nodes\":[" nodes "]}"

START_TEST(mixed)
{
	struct ff_arena a;
	struct ff_machine m;

	ff_arena_init(&a);
	parse(MACHINE("{\"devices\":1,\"kind\":\"fast\",\"network\":" LINK("") "}," NODE(
			      ",\"count\":3")),
			&a, &m);
	check_machine(&m);
	check_round_trip(&m);
	ck_assert_uint_eq(m.n_nodes, 4);
	ck_assert_uint_eq(m.n_devices, 7);
	ck_assert_str_eq(ff_device_kind(&m, 0)->name, "fast");
	ck_assert_str_eq(ff_device_kind(&m, 6)->name, "slow");
	ck_assert(!m.nodes[1].inside.shared);
	ff_arena_finish(&a);
}
END_TEST

START_TEST(bad)
{
	static const struct {
		const char *text, *place, *sentence;
	} cases[] = {
			{"", "bad.json", ""},
			{"{\"format\":\"ffsoap-graph\",\"version\":1}", "bad.json",
					"ffsoap-machine"},
			{HEAD KINDS "\"node\":[]}", "bad.json", "node"},
			{HEAD "\"kinds\":[],\"nodes\":[]}", "kinds", "1 to 64"},
			{HEAD "\"kinds\":[7],\"nodes\":[]}", "kinds[0]", "object"},
			{HEAD "\"kinds\":[{\"name\":\"k\"}],\"nodes\":[]}", "kinds[0]",
					"flops_per_s"},
			{HEAD "\"kinds\":[{\"name\":\"k\",\"flops_per_s\":0,\"memory_bytes_per_s\":"
			      "1,"
			      "\"memory_bytes\":1}],\"nodes\":[]}",
					"kinds[0].flops_per_s", ""},
			{HEAD "\"kinds\":[{\"name\":\"k\",\"flops_per_s\":1,\"memory_bytes_per_s\":"
			      "1,"
			      "\"memory_bytes\":-1}],\"nodes\":[]}",
					"kinds[0].memory_bytes", ""},
			{HEAD "\"kinds\":[{\"name\":\"\",\"flops_per_s\":1,\"memory_bytes_per_s\":"
			      "1,"
			      "\"memory_bytes\":1}],\"nodes\":[]}",
					"kinds[0].name", "1 to 100"},
			{HEAD "\"kinds\":[{\"name\":\"k\\u001b[31m\",\"flops_per_s\":1,"
			      "\"memory_bytes_per_s\":1,\"memory_bytes\":1}],\"nodes\":[]}",
					"kinds[0].name", "without control characters"},
			{"{\"format\":\"ffsoap-machine\",\"version\":1,\"name\":\"a\\nb\","
			 "\"overlap\":"
			 "false,\"kinds\":[],\"nodes\":[]}",
					"name", "without control characters"},
			{HEAD "\"kinds\":[" KIND("a") "," KIND("a") "],\"nodes\":[]}", "kinds[1]",
					"\"a\" is taken"},
			{MACHINE(""), "nodes", "at least one"},
			{MACHINE("[]"), "nodes[0]", "object"},
			{MACHINE("{\"devices\":0,\"kind\":\"fast\"}"), "nodes[0].devices", ""},
			{MACHINE("{\"devices\":1,\"kind\":\"x\"}"), "nodes[0].kind",
					"no kind \"x\""},
			{MACHINE("{\"devices\":1,\"kind\":\"fast\",\"cuont\":2}"), "nodes[0]",
					"cuont"},
			{MACHINE("{\"devices\":2,\"kind\":\"fast\"}"), "nodes[0]", "\"inside\""},
			{MACHINE("{\"devices\":1,\"count\":2,\"kind\":\"fast\"}"), "nodes[0]",
					"\"network\""},
			{MACHINE("{\"devices\":1,\"kind\":\"fast\"}," NODE("")), "nodes[0]",
					"\"network\""},
			{MACHINE("{\"devices\":4097,\"kind\":\"fast\"}"), "nodes[0].devices", ""},
			{MACHINE(NODE(",\"count\":2049")), "nodes[0]", "at most 4096"},
			{MACHINE(NODE(",\"count\":0")), "nodes[0].count", ""},
			{MACHINE("{\"devices\":2,\"kind\":\"fast\",\"inside\":3}"),
					"nodes[0].inside", "object"},
			{MACHINE("{\"devices\":2,\"kind\":\"fast\",\"inside\":{\"latency_us\":-1,"
				 "\"bytes_per_s\":1}}"),
					"nodes[0].inside.latency_us", ""},
			{MACHINE("{\"devices\":2,\"kind\":\"fast\",\"inside\":{\"latency_us\":1,"
				 "\"bytes_per_s\":0}}"),
					"nodes[0].inside.bytes_per_s", ""},
			{MACHINE("{\"devices\":2,\"kind\":\"fast\",\"inside\":" LINK(
					 "") ",\"network\":" LINK(",\"shared\":false") "}"),
					"nodes[0].network", "shared"},
			{"{\"format\":\"ffsoap-machine\",\"version\":1,\"name\":\"m\","
			 "\"overlap\":false,\"message_lane\":true,\"kinds\":[],\"nodes\":[]}",
					"message_lane", "overlap"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ff_arena a;
		struct ff_machine m, before;
		struct ff_error err = {0};
		int code;

		ff_arena_init(&a);
		memset(&m, 0x5a, sizeof(m));
		before = m;
		code = ff_machine_parse(
				"bad.json", cases[i].text, strlen(cases[i].text), &a, &m, &err);
		ck_assert_msg(code == FF_E_INPUT, "accepted: %s", cases[i].text);
		ck_assert_mem_eq(&m, &before, sizeof(m));
		ck_assert_msg(!strncmp(err.text, "bad.json", 8) &&
						strstr(err.text, cases[i].place) &&
						strstr(err.text, cases[i].sentence),
				"got \"%s\", expected \"%s\" and \"%s\"", err.text, cases[i].place,
				cases[i].sentence);
		ff_arena_finish(&a);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("machine");
	TCase *c = tcase_create("machine");

	tcase_add_test(c, files);
	tcase_add_test(c, known);
	tcase_add_test(c, by_name);
	tcase_add_test(c, by_nodes);
	tcase_add_test(c, told_one_by_one);
	tcase_add_test(c, cards);
	tcase_add_test(c, wired);
	tcase_add_test(c, search_path);
	tcase_add_test(c, subsets);
	tcase_add_test(c, mixed);
	tcase_add_test(c, bad);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
