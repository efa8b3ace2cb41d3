#!/bin/sh
# What a command says of itself: a page for man, and completion for bash, zsh and fish.
# usage: help.sh COMMAND MAN BASH ZSH FISH.  SPDX-License-Identifier: Apache-2.0
set -e
command=$1
shift
for form in man bash zsh fish; do
	"$command" --help=$form > "$1"
	shift
done
