#!/usr/bin/env bash
# Measures an NVIDIA GPU in under ten minutes, from a bare checkout.
#
#   benchmarks/measure_gpu.sh NAME [FOLDER]
#
# leaves FOLDER/NAME.yaml, the raw samples NAME.parquet and whole passes NAME-passes.parquet, and
# prints how far each curve, the shipped one of the same GPU and whole passes are from what was
# measured. It needs a python3 whose torch sees the GPU. Run it again to add points.
# DEVICE=cpu and KERNELS, PASSES (times) and MODELS (names or files) are for trying it elsewhere.
set -euo pipefail
name=${1:?usage: benchmarks/measure_gpu.sh NAME [FOLDER]}
folder=$(realpath -m "${2:-.}")
device=${DEVICE:-cuda}
cd "$(dirname "$0")/.."

# With a network the package is installed beside the machine's torch; without one, what the machine
# has must do.
python=python3
if ! python3 -c 'import click, pandas, pyarrow, pydantic, rich, scipy, simpy, yaml' 2>/dev/null; then
    python3 -m venv --system-site-packages .venv-measure
    .venv-measure/bin/python -m pip install --quiet .
    python=.venv-measure/bin/python
fi
blockcast() { "$python" -m simulator "$@"; }

blockcast profile --device "$device" --name "$name" -o "$folder" --budget "${KERNELS:-4m}"
for model in ${MODELS:-qwen3-8b llada2-mini}; do
    blockcast profile --device "$device" --name "$name" -o "$folder" \
        --passes --model "$model" --budget "${PASSES:-75s}"
done
"$python" benchmarks/compare_profile.py "$folder/$name.yaml" ${AGAINST:-}
