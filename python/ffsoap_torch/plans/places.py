"""Where the parts of a config lie on a mesh whose axes are the prime factors of the number of devices.

SPDX-License-Identifier: Apache-2.0
"""
import itertools


def factors(n):
    """Prime factors, the largest first."""
    found, p = [], 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found[::-1] or [1]


def coordinates(sizes):
    """Of each device on the mesh, the last axis fastest."""
    return list(itertools.product(*(range(n) for n in sizes)))


def devices_of(entry, dims):
    """Of an entry's parts: pairs of a device and the part's coordinate by dim.  dims: degrees above one, in
    the operator's order, which numbers the parts of a list."""
    replicas, devices = entry.get("replicas", 1), entry.get("devices", [0])
    parts = list(itertools.product(*(range(n) for n in dims.values())))
    found = []
    for r in range(replicas):
        for i, part in enumerate(parts):
            at = dict(zip(dims, part))
            if isinstance(devices, list):
                device = devices[r * len(parts) + i]
            else:
                device = devices.get("start", 0) + r * devices.get("replica_stride", 0)
                device += sum(at[d] * n for d, n in devices.get("strides", {}).items() if d in at)
            found.append((device, at))
    return found


def by_axis(parts, dims, sizes, stage):
    """By axis of the mesh the dim that it cuts (None: none), if the parts lie so; else None.

    `stage` is what devices the mesh has, in its order."""
    part_of = dict(parts)
    if len(part_of) != len(parts) or sorted(part_of) != sorted(stage):
        return None
    at = {c: part_of[device] for c, device in zip(coordinates(sizes), stage)}
    axes = []
    for axis in range(len(sizes)):
        if sizes[axis] == 1:
            axes.append(None)
            continue
        unit = tuple(int(i == axis) for i in range(len(sizes)))
        moved = [d for d in dims if at[unit][d]]
        if len(moved) > 1:
            return None
        axes.append(moved[0] if moved else None)
    for c, part in at.items():
        for d in dims:
            number = 0
            for axis, n in enumerate(sizes):
                if axes[axis] == d:
                    number = number * n + c[axis]
            if part[d] != number:
                return None
    return axes


def fitted(dims, sizes):
    """By axis of the mesh the dim that it cuts, wherever the plan has the parts; and the dims that do not fit."""
    axes, left = [None] * len(sizes), []
    for d, degree in dims.items():
        for p in factors(degree):
            free = [a for a, n in enumerate(sizes) if axes[a] is None and n == p]
            if free:
                axes[free[0]] = d
            elif d not in left:
                left.append(d)
    return [None if d in left else d for d in axes], left


def laid(entry, order, sizes, stage):
    """By axis of the mesh the dim that it cuts, and sentences on what is not as planned."""
    degrees = {d: n for d, n in entry.get("degrees", {}).items() if n > 1}
    dims = {d: degrees[d] for d in sorted(degrees, key=lambda d: order.index(d) if d in order else len(order))}
    if not dims and entry.get("replicas", 1) == len(stage):
        return [None] * len(sizes), []
    parts = devices_of(entry, dims)
    axes = by_axis(parts, dims, sizes, stage)
    if axes is not None:
        return axes, []
    axes, left = fitted(dims, sizes)
    said = [f"{dims[d]} parts along {d} do not fit a mesh of {' x '.join(map(str, sizes))}" for d in left]
    used = {device for device, _ in parts}
    if used < set(stage):
        said.append(f"it runs on {len(used)} of {len(stage)} devices, which here all compute it")
    elif not left:
        said.append("its parts lie on other devices than planned")
    return axes, said
