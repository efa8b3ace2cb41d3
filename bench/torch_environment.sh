#!/bin/sh
# Installs what python/ffsoap_torch and its tests want into a virtual environment: PyTorch's current release,
# torchvision, NumPy, jsonschema.
# usage: bench/torch_environment.sh FOLDER     then: FF_TORCH_PYTHON=FOLDER/bin/python ./run test
# SPDX-License-Identifier: Apache-2.0
set -eu
[ $# -eq 1 ] || { sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2; }
python3 -m venv "$1"
"$1/bin/python" -m pip install --quiet torch torchvision numpy jsonschema
"$1/bin/python" -m pip install --quiet "$(dirname "$0")/../python"
"$1/bin/python" -c 'import torch; print("PyTorch", torch.__version__)'
