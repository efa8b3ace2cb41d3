#!/bin/sh
# English text for language models, 4.3 MB, whose bytes are the tokens: the King James Bible of
# Debian's packages bible-kjv and bible-kjv-text, unpacked beside the text and not installed.
# usage: bench/text.sh [FILE]        writes out/kjv.txt
#   ffrun GRAPH PLAN --data tokens,type=uint8,test=5:out/kjv.txt ...
# SPDX-License-Identifier: Apache-2.0
set -eu
file=$(realpath -m "${1:-out/kjv.txt}")
[ ! -s "$file" ] || exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$(dirname "$file")"
if ! (cd "$folder" && apt-get download -qq bible-kjv bible-kjv-text 2>log); then
	cat "$folder/log" >&2
	exit 1
fi
for package in "$folder"/*.deb; do
	dpkg-deb -x "$package" "$folder"
done
"$folder/usr/bin/bible" -p "$folder/usr/lib" Ge1:1-Rev22:21 </dev/null >"$folder/text"
mv "$folder/text" "$file"
