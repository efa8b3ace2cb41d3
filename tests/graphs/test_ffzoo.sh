#!/bin/sh
# ffzoo as a command: bytes, files, exit status.  Usage: test_ffzoo.sh FFZOO SOURCE.
# SPDX-License-Identifier: Apache-2.0
ffzoo=$(realpath "$1")
golden=$(realpath "$2")/golden
. "$(dirname "$(realpath "$0")")/../check.sh"

status() { # status EXPECTED ARGUMENTS...
	expected=$1
	shift
	"$ffzoo" "$@" >"$dir/out" 2>"$dir/err"
	test $? -eq "$expected"
}
one_sentence() { # one line on standard error that has TEXT, nothing on standard output
	test "$(wc -l <"$dir/err")" -eq 1 && grep -q -F -e "$1" "$dir/err" && test ! -s "$dir/out"
}

check 'lenet' status 0 lenet
check 'lenet is the golden file' cmp "$dir/out" "$golden/lenet.json"
for net in mlp lenet alexnet branchnet vgg16 resnet50 resnet101 resnet152 resnext50_32x4d \
	resnext101_32x4d 	mobilenet_v2 googlenet inception_v3 densenet121 unet rnn rnnlm rnntc nmt lm dlrm gpt2 bert llama moe vit_b16; do
	check "$net to a file" status 0 "$net" --batch 16 -o "$dir/1.json"
	check "$net again" status 0 "$net" --batch 16 -o "$dir/2.json"
	check "$net gives the same bytes" cmp "$dir/1.json" "$dir/2.json"
	check "$net to standard output" status 0 "$net" --batch 16
	check "$net gives the same bytes there" cmp "$dir/1.json" "$dir/out"
done
check '--list' status 0 --list
check '--list names alexnet' grep -q '^alexnet: ' "$dir/out"
check '--list names densenet121' grep -q '^densenet121: ' "$dir/out"
check '--list has no other networks' test "$(grep -c '^[^ ]' "$dir/out")" -eq 32
check 'in bfloat16' status 0 lenet --set dtype=bfloat16
check 'says so' grep -q '^  "dtype": "bfloat16",' "$dir/out"
check 'float32 is not said' status 0 lenet --set dtype=float32
check 'so that files stay the same' cmp "$dir/out" "$golden/lenet.json"
check 'no such type' status 2 lenet --set dtype=float16
check 'names those there are' one_sentence 'float32|bfloat16'
check '--help' status 0 --help

check 'no network' status 2
check 'says so' one_sentence 'name of a network'
check 'unknown network' status 2 resnet -o "$dir/none.json"
check 'says what is near' one_sentence 'there is no network "resnet"; did you mean resnet50?'
check 'network like no other' status 2 something -o "$dir/none.json"
check 'lists them' one_sentence 'only mlp, lenet, alexnet, branchnet, vgg16, resnet50, resnet101, resnet152, resnext50_32x4d, resnext101_32x4d, mobilenet_v2'
check 'unknown key' status 2 lenet --set widht=3 -o "$dir/none.json"
check 'lists the keys' one_sentence 'there is no "widht", only image'
check 'bad value' status 2 lenet --set image=0
check 'names the range' one_sentence 'from 4 to 4096'
check 'more layers than a graph has room for' status 2 gpt2 --set layers=1000000 -o "$dir/none.json"
check 'names that range' one_sentence 'from 1 to 10000'
check 'too small an image' status 2 lenet --set image=5 -o "$dir/none.json"
check 'names the node' one_sentence 'conv2d "conv2"'
check 'batch of 0' status 2 lenet --batch 0
check 'unknown option' status 2 lenet --sets image=28
check 'no file after an error' test ! -e "$dir/none.json"
check 'a folder that is not there' status 1 lenet -o "$dir/none/graph.json"
check 'names the file' one_sentence "$dir/none/graph.json"

finish
