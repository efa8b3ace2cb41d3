/* Bad graph files: one sentence that names file and place, nothing written.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "check_main.h"
#include "ff/graph_file.h"

/* Nodes to build cases from. */
#define X "{\"name\":\"x\",\"op\":\"input\",\"shape\":[4,3,8,8]}"
#define Y "{\"name\":\"y\",\"op\":\"input\",\"shape\":[4],\"dtype\":\"int32\",\"classes\":5}"
#define NODE(name, op, in, more) "{\"name\":\"" name "\",\"op\":\"" op "\",\"in\":[" in "]" more "}"
#define FLAT NODE("f", "reshape", "\"x\"", ",\"shape\":[0,-1]")
#define FC(in) NODE("l", "linear", "\"" in "\"", ",\"out_features\":5")
#define LOSS NODE("z", "softmax_cross_entropy", "\"l\",\"y\"", "")
#define TAIL(in) "," FC(in) "," LOSS
#define RELU(in, out) NODE(out, "relu", "\"" in "\"", "") ","
/* Sixteen, each of as many elements as the first reads; names grow. */
#define R4 "rrrr"
#define R16 R4 R4 R4 R4
#define RELUS(in) RELUS_4(in) RELUS_4(in R4) RELUS_4(in R4 R4) RELUS_4(in R4 R4 R4)
#define RELUS_4(in)                                                                                \
	RELU(in, in "r") RELU(in "r", in "rr") RELU(in "rr", in "rrr") RELU(in "rrr", in R4)
#define GRAPH(nodes)                                                                               \
	"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"g\",\"nodes\":[" nodes "]}"
#define SUMS(of, runs)                                                                             \
	"{\"name\":\"s\",\"op\":\"input\",\"shape\":[4],\"of\":" of ",\"sums\":[" runs "]}"
/* x, then a node "n", then flatten, linear, loss */
#define AROUND(node)                                                                               \
	GRAPH(X "," Y "," node "," NODE("f", "reshape", "\"n\"", ",\"shape\":[0,-1]") TAIL("f"))
#define CONV(more) AROUND(NODE("n", "conv2d", "\"x\"", ",\"out_channels\":6" more))
#define POOL(more) AROUND(NODE("n", "pool2d", "\"x\"", more))
#define RESHAPE(shape) AROUND(NODE("n", "reshape", "\"x\"", ",\"shape\":" shape))
/* rows, scores; slots; sums of slots, flat */
#define SCORES                                                                                     \
	NODE("t", "reshape", "\"x\"", ",\"shape\":[0,8,24]")                                       \
	"," NODE("q", "linear", "\"t\"", ",\"out_features\":3")
#define ROUTED SCORES "," NODE("o", "route", "\"q\"", ",\"capacity\":4,\"index\":true")
#define SLOTS(in)                                                                                  \
	ROUTED "," NODE("d", "dispatch", in, "") "," NODE(                                         \
			"v", "reshape", "\"d\"", ",\"shape\":[0,-1]")
#define COMBINED(in)                                                                               \
	ROUTED "," NODE("d", "dispatch", "\"t\",\"o#1\"", "") "," NODE("c", "combine",             \
			in ",\"o#1\"", "") "," NODE("v", "reshape", "\"c\"", ",\"shape\":[0,-1]")
#define INPUT(more) GRAPH("{\"name\":\"x\",\"op\":\"input\"" more "}," Y "," FLAT TAIL("f"))
#define NAME50 "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

struct bad {
	const char *text;
	const char *place, *sentence; /* parts of the error */
};

static const struct bad documents[] = {
		{"", "bad.json", ""},
		{"{", "bad.json:1:", ""},
		{"hello", "bad.json:1:", ""},
		{"[]", "bad.json", "object"},
		{"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"g\",\"nodes\":[" X "," Y,
				"bad.json:1:", ""},
		{"{\"format\":\"ffsoap-machine\",\"version\":2}", "bad.json", "ffsoap-graph"},
		{"{\"format\":\"ffsoap-graph\",\"version\":1,\"name\":\"g\",\"nodes\":[]}",
				"version", "2"},
		{"{\"format\":\"ffsoap-graph\",\"version\":3,\"name\":\"g\",\"nodes\":[]}",
				"version", "2"},
		{"{\"format\":\"ffsoap-graph\",\"version\":2,\"nodes\":[]}", "bad.json",
				"\"name\""},
		{"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"a b\",\"nodes\":[" X "]}",
				"bad.json: name", "1 to 200 characters"},
		{"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"g\",\"dtype\":\"int32\","
		 "\"nodes\":[" X "]}",
				"dtype", "expected float32 or bfloat16"},
		{"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"g\"}", "bad.json",
				"\"nodes\""},
		{"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"g\",\"nodes\":{}}", "nodes",
				"array"},
		{"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"g\",\"node\":[]}",
				"bad.json", "node"},
		{GRAPH(""), "bad.json", "no nodes"},
		{GRAPH("7"), "nodes[0]", "expected an object"},
};

#define MORE(name) NODE(name, "softmax_cross_entropy", "\"l\",\"y\"", "")

static const struct bad nodes[] = {
		{GRAPH("{\"op\":\"relu\"}"), "nodes[0]", "\"name\""},
		{GRAPH("{\"name\":\"r\"}"), "nodes[0]", "\"op\""},
		{GRAPH("{\"name\":3,\"op\":\"relu\"}"), "nodes[0].name", "string"},
		{GRAPH(NODE("r", "frobnicate", "\"x\"", "")), "nodes[0].op",
				"no operator \"frobnicate\""},
		{GRAPH(X "," NODE("r", "relu", "\"x\"", ",\"alpha\":1")), "nodes[1]", "alpha"},
		{GRAPH(X ",{\"name\":\"r\",\"op\":\"relu\"}"), "nodes[1]", "needs \"in\""},
		{GRAPH(X ",{\"name\":\"r\",\"op\":\"relu\",\"in\":\"x\"}"), "nodes[1].in", "array"},
		{GRAPH(X "," NODE("r", "relu", "1", "")), "nodes[1].in[0]", "name of a node"},
		{GRAPH(X "," NODE("r", "relu", "\"w\"", "")), "nodes[1].in[0]", "no node \"w\""},
		{GRAPH(X "," NODE("r", "relu", "", "")), "nodes[1]", "expected 1 input, not 0"},
		{GRAPH(X "," NODE("r", "relu", "\"x\",\"x\"", "")), "nodes[1]",
				"expected 1 input, not 2"},
		{GRAPH(X "," NODE("r", "add", "\"x\"", "")), "nodes[1]",
				"expected 2 inputs, or 1 and the \"shape\" of a parameter"},
		{GRAPH(X "," NODE("z", "softmax_cross_entropy", "\"x\"", "")), "nodes[1]",
				"expected 2 inputs, not 1"},
		{GRAPH(X "," NODE("i", "input", "\"x\"", ",\"shape\":[4,1]")), "nodes[1]",
				"expected 0 inputs, not 1"},
		{GRAPH(X "," NODE("x", "relu", "\"x\"", "")), "nodes[1].name", "taken by nodes[0]"},
		{GRAPH(X "," NODE("", "relu", "\"x\"", "")), "nodes[1]", "1 to 200 characters"},
		{GRAPH(X "," NODE("a b", "relu", "\"x\"", "")), "nodes[1]", "1 to 200 characters"},
		{GRAPH(X "," NODE(NAME50 NAME50 NAME50 NAME50 "n", "relu", "\"x\"", "")),
				"nodes[1]", "1 to 200 characters"},
		{GRAPH(NODE("r", "relu", "\"r\"", "")), "nodes[0].in[0]",
				"\"r\" is part of a cycle"},
		{GRAPH(X "," Y "," NODE("a", "add", "\"x\",\"b\"", "") "," NODE("b", "relu",
				 "\"c\"", "") "," NODE("c", "relu", "\"a\"", "") TAIL("a")),
				"nodes[4].in[0]", "\"a\" is part of a cycle"},
		{GRAPH(X "," Y "," FLAT "," FC("f")), "bad.json: ",
				"there is no loss, expected a softmax_cross_entropy, mse, l1, "
				"smooth_l1, bce_with_logits or "
				"mean"},
		{GRAPH(X "," Y "," FLAT TAIL("f") "," NODE("r", "relu", "\"x\"", "")), "nodes[5]",
				"\"r\" is not used"},
		{GRAPH(X "," Y "," FLAT TAIL("f") "," MORE("1") "," MORE("2") "," MORE("3") "," MORE(
				 "4") "," MORE("5") "," MORE("6") "," MORE("7") "," MORE("8")),
				"nodes[12]", "\"8\" is one loss more than 8"},
		{GRAPH(X "," Y "," FLAT TAIL("f") "," NODE("w", "mse", "\"l\",\"y\"", "")),
				"nodes[5]", "is int32, expected float32"},
		{GRAPH(X "," Y "," FLAT "," FC("f") "," NODE(
				 "q", "reshape", "\"l\"", ", \"shape\": [0, 1, -1]") "," NODE("o",
				 "route", "\"q\"", ", \"capacity\": 1") "," NODE("v", "reshape",
				 "\"o\"", ", \"shape\": [0, -1]") "," NODE("z",
				 "softmax_cross_entropy", "\"v\",\"y\"", "")),
				"nodes[4]", "nothing that reads \"q\" gives it a gradient"},
		{GRAPH(X "," Y "," SCORES
			 "," NODE("o", "route", "\"q\"", ",\"index\":true") "," NODE(
					 "v", "reshape", "\"o\"", ",\"shape\":[0,-1]") TAIL("v")),
				"nodes[4]", "expected a capacity"},
		{GRAPH(X "," Y "," SLOTS("\"t\",\"q\"") TAIL("v")), "nodes[5]",
				"is float32, expected int32"},
		{GRAPH(X "," Y "," COMBINED("\"x\",\"q\"") TAIL("v")), "nodes[6]",
				"are not what 3 experts make of 4 slots each"},
		{GRAPH(X "," Y "," COMBINED("\"d\",\"t\"") TAIL("v")), "nodes[6]",
				"shares [4, 8, 24], expected [4, places, 3]"},
		{GRAPH(X "," Y "," FLAT TAIL("f") "," NODE(
				 "w", "softmax_cross_entropy", "\"l\",\"y\"", ",\"weight\":-1")),
				"nodes[5].weight", "expected a number from 0"},
		{GRAPH(X "," Y "," FLAT TAIL("f") "," NODE("r", "relu", "\"z\"", "")), "nodes[5]",
				"ends the graph"},
		{GRAPH(X "," Y "," FLAT "," NODE("z", "softmax_cross_entropy", "\"f\",\"y\"", "")),
				"bad.json: ", "nothing to train"},
		{GRAPH(X "," FLAT "," FC("f") "," NODE("r", "add", "\"r2\",\"l\"", "") "," NODE(
				 "r2", "relu", "\"r\"", "")),
				"nodes[4]", "cycle"},
};

static const struct bad inputs[] = {
		{INPUT(""), "nodes[0]", "needs \"shape\""},
		{INPUT(",\"shape\":[]"), "nodes[0].shape", "1 to 6"},
		{INPUT(",\"shape\":4"), "nodes[0].shape", "array"},
		{INPUT(",\"shape\":[4,1,1,1,1,1,1]"), "nodes[0].shape", "1 to 6"},
		{INPUT(",\"shape\":[4,0]"), "nodes[0].shape[1]", ""},
		{INPUT(",\"shape\":[4,-3]"), "nodes[0].shape[1]", ""},
		{INPUT(",\"shape\":[4,2.5]"), "nodes[0].shape[1]", ""},
		{INPUT(",\"shape\":[4,\"3\"]"), "nodes[0].shape[1]", ""},
		{INPUT(",\"shape\":[4,2147483648]"), "nodes[0].shape[1]", ""},
		{INPUT(",\"shape\":[4,1e300]"), "nodes[0].shape[1]", ""},
		{INPUT(",\"shape\":[4,2],\"dtype\":\"bfloat16\""), "nodes[0].dtype",
				"float32|int32"},
		{INPUT(",\"shape\":[4,2],\"dtype\":\"float16\""), "nodes[0].dtype",
				"float32|int32"},
		{INPUT(",\"shape\":[4,2],\"dtype\":\"int32\""), "nodes[0]", "classes"},
		{INPUT(",\"shape\":[4,2],\"classes\":3"), "nodes[0]", "int32"},
		{INPUT(",\"shape\":[4],\"sums\":[1]"), "nodes[0]",
				"\"of\" is 0, expected the place of an"},
		{GRAPH(X "," Y "," SUMS("3", "5,1")), "nodes[2]", "\"of\" is 3"},
		{GRAPH(X "," Y "," SUMS("1", "4,1")), "nodes[2]", "\"sums\" of y must be runs"},
		{GRAPH(X "," Y "," SUMS("1", "4,1,1")), "nodes[2]", "\"sums\" of y must be runs"},
		{GRAPH(X "," Y "," SUMS("0", "1,2")), "nodes[2]",
				"\"sums\" of x must be one number"},
		{GRAPH(X "," Y "," SUMS("1", "5,1") "," NODE("f", "reshape", "\"x\"",
				 ",\"shape\":[4,-1]") "," NODE("l", "linear", "\"f\"",
				 ",\"out_features\":1") "," NODE("r", "reshape", "\"l\"",
				 ",\"shape\":[4]") "," NODE("z", "mean", "\"r\",\"s\"", "")),
				"nodes[6]", "expected targets of the data set"},
		{INPUT(",\"shape\":[4,2],\"dtype\":\"int32\",\"classes\":3"), "nodes[2]",
				"is int32, expected float32"},
		{INPUT(",\"shape\":[5,2]"), "nodes[1]",
				"\"y\" has 4 samples, the inputs before it have 5"},
		{INPUT(",\"shape\":[2147483647,2147483647]"), "nodes[0]", "2^44"},
		{INPUT(",\"shape\":[2147483647,2147483647,2147483647,2147483647]"), "nodes[0]",
				"2^44"},
		{INPUT(",\"shape\":[4,1099511627,4096]"), "nodes[0]", "2^44"},
};

static const struct bad images[] = {
		{AROUND(NODE("n", "conv2d", "\"x\"", "")), "nodes[2]", "needs \"out_channels\""},
		{CONV(""), "nodes[2]", "needs \"kernel\""},
		{CONV(",\"kernel\":0"), "nodes[2].kernel", ""},
		{CONV(",\"kernel\":[3]"), "nodes[2].kernel", "[height, width]"},
		{CONV(",\"kernel\":[3,-1]"), "nodes[2].kernel[1]", ""},
		{CONV(",\"kernel\":3,\"stride\":0"), "nodes[2].stride", ""},
		{CONV(",\"kernel\":3,\"dilation\":0"), "nodes[2].dilation", ""},
		{CONV(",\"kernel\":3,\"pad\":-1"), "nodes[2].pad", ""},
		{CONV(",\"kernel\":3,\"pad\":3"), "nodes[2]", "padding 3 of the height"},
		{CONV(",\"kernel\":3,\"groups\":2"), "nodes[2]",
				"2 groups must divide the 3 input channels"},
		{CONV(",\"kernel\":3,\"bias\":1"), "nodes[2].bias", "true or false"},
		{CONV(",\"kernel\":9"), "nodes[2]", "the kernel spans 9 elements of the height"},
		{CONV(",\"kernel\":[1,5],\"dilation\":2"), "nodes[2]",
				"the kernel spans 9 elements of the width"},
		{CONV(",\"kernel\":2147483647,\"dilation\":2147483647"), "nodes[2]", "spans"},
		{CONV(",\"kernel\":[2147483647,1],\"pad\":[2147483646,0]"), "nodes[2]",
				"exceeds 32 bits"},
		{AROUND(NODE("n", "conv2d", "\"x\"",
				 ",\"out_channels\":2147483647,\"kernel\":[8,8],"
				 "\"pad\":7")),
				"nodes[3]", "shape[1] would be 483183820575"},
		{AROUND(NODE("n", "conv2d", "\"x\"",
				 ",\"out_channels\":2147483647,\"kernel\":256,"
				 "\"pad\":255")),
				"nodes[2]", "2^44"},
		{AROUND(NODE("n", "conv2d", "\"f\"", ",\"out_channels\":2,\"kernel\":1") "," FLAT),
				"", "name"},
		{POOL(""), "nodes[2]", "needs \"kernel\""},
		{POOL(",\"kernel\":2,\"mode\":\"median\""), "nodes[2].mode", "max|avg"},
		{POOL(",\"kernel\":2,\"stride\":0"), "nodes[2].stride", ""},
		{POOL(",\"kernel\":3,\"pad\":2"), "nodes[2]", "exceeds half the kernel"},
		{POOL(",\"kernel\":9"), "nodes[2]", "spans 9"},
};

static const struct bad others[] = {
		{GRAPH(X "," Y "," NODE("l", "conv2d", "\"y\"",
				 ",\"out_channels\":2,\"kernel\":1") "," LOSS),
				"nodes[2]", "is int32, expected float32"},
		{GRAPH(X "," Y "," FLAT "," NODE("c", "conv2d", "\"f\"",
				 ",\"out_channels\":2,\"kernel\":1") TAIL("c")),
				"nodes[3]", "has shape [4, 192], expected 4 axes"},
		{GRAPH(X "," Y "," FLAT
			 "," NODE("l", "linear", "\"f\"", ",\"out_features\":0") "," LOSS),
				"nodes[3].out_features", ""},
		{GRAPH(X "," Y "," FLAT "," NODE("l", "linear", "\"f\"", "") "," LOSS), "nodes[3]",
				"needs \"out_features\""},
		{GRAPH(X "," Y "," FLAT
			 "," NODE("l", "linear", "\"f\"", ",\"out_features\":4") "," LOSS),
				"nodes[4]", "\"y\" has 5 classes, the logits only 4"},
		{GRAPH(X "," Y "," FLAT
			 "," FC("f") "," NODE("z", "softmax_cross_entropy", "\"l\",\"f\"", "")),
				"nodes[4]", "is float32, expected int32"},
		{GRAPH(X "," Y "," NODE("l", "linear", "\"x\"", ",\"out_features\":5") "," LOSS),
				"nodes[3]", "labels [4] do not fit logits [4, 3, 8, 5]"},
		{GRAPH(X "," Y "," FLAT "," NODE("a", "add", "\"x\",\"f\"", "") TAIL("a")),
				"nodes[3]", "input 0 is [4, 3, 8, 8], input 1 is [4, 192]"},
		{GRAPH(X "," Y "," FLAT "," NODE("a", "concat", "\"x\",\"f\"", "") TAIL("a")),
				"nodes[3]", "must agree"},
		{GRAPH(X "," Y "," FLAT "," NODE("a", "concat", "\"f\",\"f\"", ",\"axis\":2")
						 TAIL("a")),
				"nodes[3]", "expected 3 to 6 axes"},
		{GRAPH(X "," Y "," FLAT "," NODE("a", "concat", "\"f\",\"f\"", ",\"axis\":0")
						 TAIL("a")),
				"nodes[3].axis", ""},
		{AROUND(NODE("n", "dropout", "\"x\"", ",\"p\":1")), "nodes[2]", "below 1"},
		{AROUND(NODE("n", "dropout", "\"x\"", ",\"p\":-0.5")), "nodes[2].p", "from 0 to 1"},
		{AROUND(NODE("n", "dropout", "\"x\"", ",\"p\":\"half\"")), "nodes[2].p", "number"},
		{RESHAPE("[4,191]"), "nodes[2]", "does not fit the 768 elements"},
		{RESHAPE("[0,5,-1]"), "nodes[2]", "does not fit the 768 elements"},
		{RESHAPE("[0,-1,-1]"), "nodes[2]", "only one axis"},
		{RESHAPE("[0,-2]"), "nodes[2].shape[1]", ""},
		{RESHAPE("[4,3,8,8,0]"), "nodes[2]", "no such axis"},
		{RESHAPE("[8,96]"), "nodes[2]", "must stay 4, not become 8"},
		{RESHAPE("[0,2147483647,2147483647,2147483647,2147483647]"), "nodes[2]",
				"does not fit"},
		{GRAPH("{\"name\":\"x\",\"op\":\"input\",\"shape\":[16777216,1048576]},"
		       "{\"name\":\"y\",\"op\":\"input\",\"shape\":[16777216],\"dtype\":"
		       "\"int32\",\"classes\":5}," RELUS("x") RELUS("x" R16)
						 FC("x" R16 R16) "," LOSS),
				"nodes[33]", "tensors exceed 2^50 elements"},
		{GRAPH("{\"name\":\"x\",\"op\":\"input\",\"shape\":[2000000,1000000]},"
		       "{\"name\":\"y\",\"op\":\"input\",\"shape\":[2000000],\"dtype\":\"int32\","
		       "\"classes\":5}," NODE("a", "linear", "\"x\"",
				       ",\"out_features\":2000000") "," FC("a") "," LOSS),
				"nodes[2]", "exceeds 2^62 FLOPs"},
};

/* Which output, which parameter.  nodes[3] is the layer "l", nodes[4] another. */
#define PARAMS(params)                                                                             \
	GRAPH(X "," Y "," FLAT "," FC("f") "," NODE(                                               \
			"m", "linear", "\"l\"", ",\"out_features\":5,\"params\":" params) "," END)
#define END NODE("z", "softmax_cross_entropy", "\"m\",\"y\"", "")
#define PORT(port) AROUND(NODE("n", "relu", "\"x" port "\"", ""))

static const struct bad values[] = {
		{PORT("#1"), "nodes[2]", "\"x\" has no output 1"},
		{PORT("#4095"), "nodes[2]", "\"x\" has no output 4095"},
		{PORT("#4096"), "nodes[2].in[0]", "the number of an output"},
		{PORT("#99999999999999999999"), "nodes[2].in[0]", "the number of an output"},
		{PORT("#"), "nodes[2].in[0]", "the number of an output"},
		{PORT("#x"), "nodes[2].in[0]", "the number of an output behind the # of \"x#x\""},
		{PORT("#+0"), "nodes[2].in[0]", "the number of an output"},
		{PORT("# 0"), "nodes[2].in[0]", "the number of an output"},
		{PORT("#-1"), "nodes[2].in[0]", "the number of an output"},
		{PORT("#0#0"), "nodes[2].in[0]", "the number of an output"},
		{PORT("y#0"), "nodes[2].in[0]", "no node \"xy\""},
		{AROUND(NODE("p", "pool2d", "\"x\"", ",\"kernel\":2") "," NODE(
				 "n", "relu", "\"p#1\"", "")),
				"nodes[3]", "\"p\" has no output 1"},
		{GRAPH(NODE("r", "relu", "\"r#0\"", "")), "nodes[0].in[0]",
				"\"r\" is part of a cycle"},
		{PARAMS("[]"), "nodes[4].params", "expected an object"},
		{PARAMS("\"w\""), "nodes[4].params", "expected an object"},
		{PARAMS("{\"gamma\":\"l.weight\"}"), "nodes[4].params.gamma",
				"linear \"m\" has no parameter \"gamma\""},
		{PARAMS("{\"weight\":3}"), "nodes[4].params.weight", "name of a parameter"},
		{PARAMS("{\"weight\":\"f\"}"), "nodes[4]",
				"its parameter \"f\" has the name of a node"},
		{PARAMS("{\"weight\":\"a b\"}"), "nodes[4]", "1 to 200 characters"},
		{PARAMS("{\"weight\":\"l.weight\"}"), "nodes[4]",
				"its weight has shape [5, 5], but \"l.weight\", which it shares, "
				"has "
				"[5, 192]"},
		{PARAMS("{\"bias\":\"m.weight\"}"), "nodes[4]",
				"its bias has shape [5], but \"m.weight\", which it shares, has "
				"[5, 5]"},
		{PARAMS("{\"weight\":\"l\"}"), "nodes[4]",
				"its parameter \"l\" has the name of a node"},
		/* parameters are no inputs, and no node's name */
		{GRAPH(X "," Y "," FLAT
			 "," FC("f") "," NODE("m", "relu", "\"l.weight\"", "") "," END),
				"nodes[4].in[0]", "no node \"l.weight\""},
		{GRAPH(X "," Y "," FLAT
			 "," FC("f") "," NODE("l.bias", "relu", "\"l\"", "") "," LOSS),
				"nodes[4]", "\"l.bias\" is taken"},
		{GRAPH(X "," Y "," FLAT
			 "," NODE("l.bias", "relu", "\"f\"", "") "," FC("l.bias") "," LOSS),
				"nodes[4]", "its parameter \"l.bias\" has the name of a node"},
		{GRAPH(X "," Y "," FLAT "," NODE("r", "relu", "\"f\"",
				 ",\"params\":{\"weight\":\"w\"}") "," FC("r") "," LOSS),
				"nodes[3].params.weight", "relu \"r\" has no parameter \"weight\""},
		{GRAPH(X "," Y "," FLAT "," NODE("l", "linear", "\"f\"",
				 ",\"out_features\":5,\"bias\":false,\"params\":{"
				 "\"bias\":\"w\"}") "," LOSS),
				"nodes[3].params.bias", "linear \"l\" has no parameter \"bias\""},
		{GRAPH(X ",{\"name\":\"w\",\"op\":\"parameter\"}"), "nodes[1].op",
				"no operator \"parameter\""},
};

static void check_bad(const struct bad *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct ff_arena a;
		struct ff_graph g, before;
		struct ff_error err = {0};
		int code;

		ff_arena_init(&a);
		memset(&g, 0x5a, sizeof(g));
		before = g;
		code = ff_graph_parse("bad.json", b[i].text, strlen(b[i].text), &a, &g, &err);
		ck_assert_msg(code == FF_E_INPUT, "accepted: %s", b[i].text);
		ck_assert_int_eq(err.code, FF_E_INPUT);
		ck_assert_mem_eq(&g, &before, sizeof(g));
		ck_assert_msg(!strncmp(err.text, "bad.json", 8) && strstr(err.text, b[i].place) &&
						strstr(err.text, b[i].sentence) &&
						!strchr(err.text, '\n'),
				"got \"%s\", expected \"%s\" and \"%s\" for %s", err.text,
				b[i].place, b[i].sentence, b[i].text);
		ff_arena_finish(&a);
	}
}
#define CHECK_BAD(array) check_bad(array, sizeof(array) / sizeof((array)[0]))

START_TEST(bad_documents)
{
	CHECK_BAD(documents);
}
END_TEST

START_TEST(bad_nodes)
{
	CHECK_BAD(nodes);
}
END_TEST

START_TEST(bad_inputs)
{
	CHECK_BAD(inputs);
}
END_TEST

START_TEST(bad_images)
{
	CHECK_BAD(images);
}
END_TEST

START_TEST(bad_others)
{
	CHECK_BAD(others);
}
END_TEST

START_TEST(bad_values)
{
	CHECK_BAD(values);
}
END_TEST

START_TEST(deep_nesting)
{
	enum { DEPTH = 100000 };
	char *text = malloc(DEPTH + 1);

	for (int k = 0; k < 2; k++) {
		memset(text, k ? '{' : '[', DEPTH);
		text[DEPTH] = '\0';
		check_bad(&(struct bad){text, "bad.json", ""}, 1);
	}
	free(text);
}
END_TEST

/* Every beginning of a good text is a bad one. */
START_TEST(truncated)
{
	static const char good[] = GRAPH(X "," Y "," FLAT TAIL("f"));
	struct ff_arena a;
	struct ff_graph g;
	struct ff_error err;

	ff_arena_init(&a);
	for (size_t n = 0; n < strlen(good); n++)
		ck_assert_int_eq(ff_graph_parse("bad.json", good, n, &a, &g, &err), FF_E_INPUT);
	ck_assert_int_eq(ff_graph_parse("good.json", good, strlen(good), &a, &g, &err), FF_OK);
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("graph_bad");
	TCase *c = tcase_create("graph_bad");

	tcase_add_test(c, bad_documents);
	tcase_add_test(c, bad_nodes);
	tcase_add_test(c, bad_inputs);
	tcase_add_test(c, bad_images);
	tcase_add_test(c, bad_others);
	tcase_add_test(c, bad_values);
	tcase_add_test(c, deep_nesting);
	tcase_add_test(c, truncated);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
