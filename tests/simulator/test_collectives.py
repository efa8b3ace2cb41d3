"""Collectives of NCCL: simulator/price/collective_model.c says what bench/collectives.py does, by which its constants are fitted.
usage: test_collectives.py COLLECTIVES SOURCE_ROOT.  SPDX-License-Identifier: Apache-2.0"""
import json
import pathlib
import subprocess
import sys

root = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(root / "bench"))
sys.dont_write_bytecode = True
import collectives as nccl  # noqa: E402

kinds = {k["name"]: k for k in json.loads((root / "graphs/machines/interconnects/nccl.json").read_text())["kinds"]}
# Of these nodes any two devices are joined alike.
machines = ["dgx2-v100", "dgx-a100-40", "p4d.24xlarge", "dgx-h100", "dgx-b200"]
count = failed = 0
for name in machines:
    node = json.loads((root / f"graphs/machines/{name}.json").read_text())["nodes"][0]
    inside, network = node["inside"], node["network"]
    line, cards = inside["bytes_per_s"] / 1e6, min(network["cards"], node["devices"])
    what = {**kinds[inside["interconnect"]], "line": line}
    for nodes in 1, 2, 5:
        told = subprocess.run([sys.argv[1], f"{name}:{nodes}"], check=True, capture_output=True, text=True).stdout
        off, lines = [], told.splitlines()
        for text in lines:
            kind, n, each, size, us = text.split()
            used = len({i * cards // node["devices"] for i in range(int(each))})
            g = nccl.Group(int(n), int(each), line, None, network["bytes_per_s"] / 1e6 / cards * used)
            wanted = nccl.collective_us(kind, g, what, kinds[network["interconnect"]], float(size))
            if abs(float(us) - wanted) > 1e-9 * wanted:
                off.append(f"# {text}, not {wanted}")
        count += 1
        failed += bool(off) or len(lines) < 30
        print(f"{'not ok' if off or len(lines) < 30 else 'ok'} {count} - {name}:{nodes}, {len(lines)} times")
        print(*off[:5], sep="\n", end="\n" if off else "")
print(f"1..{count}")
sys.exit(failed > 0)
