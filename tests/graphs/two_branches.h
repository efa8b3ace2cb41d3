/* A graph for tests of schedules.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_TWO_BRANCHES_H
#define FF_TESTS_TWO_BRANCHES_H

/* Two convolutions of one image, added. */
static const char two_branches[] =
		"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"two\",\"nodes\":["
		"{\"name\":\"x\",\"op\":\"input\",\"shape\":[2,1,4,4]},"
		"{\"name\":\"y\",\"op\":\"input\",\"shape\":[2],\"dtype\":\"int32\",\"classes\":3},"
		"{\"name\":\"left\",\"op\":\"conv2d\",\"in\":[\"x\"],\"out_channels\":2,\"kernel\":"
		"1},"
		"{\"name\":\"right\",\"op\":\"conv2d\",\"in\":[\"x\"],\"out_channels\":2,"
		"\"kernel\":1},"
		"{\"name\":\"sum\",\"op\":\"add\",\"in\":[\"left\",\"right\"]},"
		"{\"name\":\"flat\",\"op\":\"reshape\",\"in\":[\"sum\"],\"shape\":[0,-1]},"
		"{\"name\":\"fc\",\"op\":\"linear\",\"in\":[\"flat\"],\"out_features\":3},"
		"{\"name\":\"loss\",\"op\":\"softmax_cross_entropy\",\"in\":[\"fc\",\"y\"]}]}";

#endif
