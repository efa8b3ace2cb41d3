#!/bin/sh
# clang-format and clang-tidy over the whole tree; started by ./run lint.
# SPDX-License-Identifier: Apache-2.0
set -eu
files=$(git ls-files '*.c' '*.h' | grep -v '^tests/data/')
# word splitting is meant: a list of files
clang-format --dry-run --Werror $files
clang-tidy --quiet -p build $(git ls-files 'graphs/*.c' 'simulator/*.c' 'planner/*.c' 'runtime/*.c')
echo "lint: clean"
