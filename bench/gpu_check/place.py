# Where things are: packages unpacked beside the source, the toolkit, PyTorch's Python.
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "gpu-check"
DEBS, UNPACKED, BUILD, LINKS = OUT / "debs", OUT / "root", OUT / "build", OUT / "cuda"
TRIPLET = "x86_64-linux-gnu"
MOST_MIB = 32  # of packages: the source and what else travels want room too

# Not libc, libgomp, libstdc++: those are the compiler's, which must be there.
PACKAGES = """libcjson1 libcjson-dev check libsubunit0 libsubunit-dev zlib1g zlib1g-dev
	libdnnl2 libdnnl-dev ocl-icd-libopencl1
	libopenmpi3 libopenmpi-dev openmpi-bin openmpi-common libhwloc15 libevent-core-2.1-7
	libevent-pthreads-2.1-7 libpmix2 libmunge2 libudev1 libnl-3-200 libnl-route-3-200
	meson ninja-build pkgconf-bin libpkgconf3""".split()

# By library, its header and file; what the toolkit lacks comes from PyTorch's wheels.
LIBRARIES = {"cudart": "cuda_runtime_api.h", "cublasLt": "cublasLt.h", "cudnn": "cudnn.h",
             "nccl": "nccl.h"}


class Missing(Exception):
    """A sentence on what is not here."""


# ---- packages ----

def pack():
    """Downloads the packages; nothing is installed."""
    if not shutil.which("apt-get"):
        raise Missing("no apt-get here: run ./run gpu-check pack on Debian 12")
    shutil.rmtree(DEBS, ignore_errors=True)
    DEBS.mkdir(parents=True)
    done = subprocess.run(["apt-get", "-q", "download", *PACKAGES], cwd=DEBS,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"apt-get download failed: {done.stderr.strip()}")
    mib = sum(p.stat().st_size for p in DEBS.iterdir()) / 2 ** 20
    if mib > MOST_MIB:
        raise Missing(f"the packages have {mib:.1f} MiB, and may have {MOST_MIB}")
    print(f"{len(PACKAGES)} packages, {mib:.1f} MiB, in {DEBS.relative_to(ROOT)}")


def unpack_one(deb):
    if shutil.which("dpkg"):
        subprocess.run(["dpkg", "-x", deb, UNPACKED], check=True)
        return
    names = subprocess.run(["ar", "t", deb], check=True, capture_output=True,
                           text=True).stdout.split()
    data = next(n for n in names if n.startswith("data.tar"))
    content = subprocess.run(["ar", "p", deb, data], check=True, capture_output=True).stdout
    # no pipe to tar, which cannot tell by the file's end what packed it
    part = OUT / data
    part.write_bytes(content)
    subprocess.run(["tar", "-xf", part, "-C", UNPACKED], check=True)
    part.unlink()


def relink():
    """Links that name a place in the root of a file system name it under UNPACKED."""
    for at, folders, names in os.walk(UNPACKED):
        for path in (pathlib.Path(at) / n for n in folders + names):
            if path.is_symlink() and os.readlink(path).startswith("/"):
                there = UNPACKED / os.readlink(path)[1:]
                path.unlink()
                if there.exists():
                    path.symlink_to(os.path.relpath(there, at))


def unpack():
    debs = sorted(DEBS.glob("*.deb"))
    if not debs:
        raise Missing("no packages in out/gpu-check/debs: run ./run gpu-check pack "
                      "where there is a registry")
    shutil.rmtree(UNPACKED, ignore_errors=True)
    UNPACKED.mkdir(parents=True)
    for deb in debs:
        unpack_one(deb)
    relink()
    tools = UNPACKED / "usr" / "bin"
    # what Debian's alternatives would do
    for name, real in (("mpirun", "orterun"), ("pkg-config", "pkgconf")):
        (tools / name).unlink(missing_ok=True)
        (tools / name).symlink_to(real)
    # zlib1g-dev's link leads to /lib, which may be a folder of its own here
    library, own = UNPACKED / "lib" / TRIPLET, UNPACKED / "usr" / "lib" / TRIPLET
    for path in library.glob("*.so*"):
        if not (own / path.name).exists():
            (own / path.name).symlink_to(os.path.relpath(path, own))
    return f"{len(debs)} packages"


# ---- CUDA ----

def toolkit():
    """The folder of nvcc, or None."""
    places = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    found = shutil.which("nvcc")
    if found:
        places.insert(1, str(pathlib.Path(found).resolve().parents[1]))
    return next((pathlib.Path(p) for p in places if p and (pathlib.Path(p) / "bin/nvcc").exists()),
                None)


def wheels(python):
    """Folders of NVIDIA's wheels beside PyTorch."""
    if not python:
        return []
    ask = "import site, sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return [f for p in done.stdout.split("\n") if p for f in glob.glob(f"{p}/nvidia/*")]


def link_library(name, header, folders):
    """One library of the wheels, as a compiler looks for it; False where they have none."""
    for folder in map(pathlib.Path, folders):
        files = sorted(folder.glob(f"lib/lib{name}.so*"))
        if not files or not (folder / "include" / header).exists():
            continue
        for path in (folder / "include").iterdir():
            link = LINKS / "include" / path.name
            if path.name != "__init__.py" and not link.exists():
                link.symlink_to(path)
        for path in (folder / "lib").glob("*.so*"):
            link = LINKS / "lib" / path.name
            if not link.exists():
                link.symlink_to(path)
        plain = LINKS / "lib" / f"lib{name}.so"
        if not plain.exists():
            plain.symlink_to(files[0])
        return True
    return False


def link_compiler(folders):
    """NVRTC of the wheels, which cuDNN loads by itself: it finds the toolkit's where that is installed."""
    for path in (p for folder in folders for p in pathlib.Path(folder).glob("lib/libnvrtc*.so*")):
        if not (LINKS / "lib" / path.name).exists():
            (LINKS / "lib" / path.name).symlink_to(path)


def cudnn_version(folder):
    """As its header there says, (9, 19, 0); empty where there is none."""
    path = pathlib.Path(folder) / "cudnn_version.h"
    text = path.read_text(errors="replace") if path.exists() else ""
    return tuple(int(n) for n in re.findall(r"^#define CUDNN_(?:MAJOR|MINOR|PATCHLEVEL)\s+(\d+)", text, re.M))


def is_older(name, headers, folders):
    """Whether the wheels' cuDNN is newer: attention wants 9.16, and a toolkit's may be older."""
    own = max((cudnn_version(h.parent) for h in headers), default=())
    return name == "cudnn" and own < max((cudnn_version(pathlib.Path(f) / "include") for f in folders), default=())


def link_libraries(python):
    """What the toolkit lacks or has an older one of, from the wheels; returns where each comes from."""
    home, origin = toolkit(), {}
    if not home:
        raise Missing("no CUDA toolkit: nvcc is neither on the PATH nor in /usr/local/cuda")
    shutil.rmtree(LINKS, ignore_errors=True)
    for folder in ("include", "lib"):
        (LINKS / folder).mkdir(parents=True)
    link_compiler(wheels(python))
    for name, header in LIBRARIES.items():
        libraries = [*home.glob(f"lib*/lib{name}.so"), *pathlib.Path("/usr/lib").glob(
            f"{TRIPLET}/lib{name}.so")]
        headers = [home / "include" / header, pathlib.Path("/usr/include") / header,
                   pathlib.Path("/usr/include") / TRIPLET / header]
        here = libraries and any(h.exists() for h in headers)
        if here and not is_older(name, headers, wheels(python)):
            origin[name] = "toolkit"
        elif link_library(name, header, wheels(python)):
            origin[name] = "wheels"
        else:
            origin[name] = "toolkit" if here else "missing"
    return origin


def gpu():
    """Name and compute capability of the first GPU ("NVIDIA H200", "90"), or None."""
    for tool in ("nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi"):
        try:
            done = subprocess.run([tool, "--query-gpu=name,compute_cap,driver_version",
                                   "--format=csv,noheader"], capture_output=True, text=True,
                                  check=False, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        row = [x.strip() for x in done.stdout.split("\n")[0].split(",")]
        if not done.returncode and len(row) == 3:
            return row[0], row[1].replace(".", ""), row[2]
    return None


def torch_python():
    """A Python that has PyTorch, or None."""
    for name in ("python3", "/usr/bin/python3"):
        try:
            done = subprocess.run([name, "-c", "import torch, numpy"], capture_output=True,
                                  env=environment(), check=False, timeout=120)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if not done.returncode:
            return name
    return None


# ---- environment ----

def front(*paths, then=""):
    return ":".join([str(p) for p in paths] + ([then] if then else []))


def environment():
    """As if the unpacked packages were installed, and nothing else of theirs."""
    usr, env = UNPACKED / "usr", dict(os.environ)
    library = usr / "lib" / TRIPLET
    home = toolkit()
    env.update({
        "PATH": front(usr / "bin", *([home / "bin"] if home else []), then=env.get("PATH", "")),
        "PYTHONPATH": front(usr / "lib/python3/dist-packages", then=env.get("PYTHONPATH", "")),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PKG_CONFIG": str(usr / "bin/pkg-config"),
        "PKG_CONFIG_LIBDIR": str(library / "pkgconfig"),
        "PKG_CONFIG_SYSROOT_DIR": str(UNPACKED),
        "CPATH": front(usr / "include", usr / "include" / TRIPLET, LINKS / "include"),
        "LDFLAGS": f"-L{library} -L{LINKS / 'lib'}",  # before the compiler's own folders
        "LIBRARY_PATH": front(library, LINKS / "lib"),
        # cuDNN itself loads NVRTC, for what it compiles at run time, attention too
        "LD_LIBRARY_PATH": front(library, library / "openmpi/lib", library / "pmix2/lib", LINKS / "lib",
                                 *([home / "lib64"] if home else []), then=env.get("LD_LIBRARY_PATH", "")),
        # Open MPI and PMIx look for their modules and texts where they were built to be
        "OPAL_PREFIX": str(usr), "OPAL_LIBDIR": str(library / "openmpi/lib"),
        "PMIX_INSTALL_PREFIX": str(library / "pmix2"),
        "OMPI_MCA_mca_base_component_show_load_errors": "0",
        "PMIX_MCA_pmix_mca_base_component_show_load_errors": "0",
        "PMIX_MCA_pcompress_base_silence_warning": "1",  # tests read what commands say
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # one host: no network is looked for
        "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader", "OMPI_MCA_plm": "isolated",
        "OMP_NUM_THREADS": env.get("OMP_NUM_THREADS", "2"),
    })
    return env
