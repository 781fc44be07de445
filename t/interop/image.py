# SPDX-License-Identifier: MIT
"""image.py - a Linux kernel of Debian and an initial RAM disk for it, made without installing anything.

    kernel, initrd = image.make(package, directory)		Missing: why there is none

The package is downloaded by apt-get once and kept in the directory. The RAM disk has busybox, the modules of
MODULES with what they depend on, and an /init that makes the root file system of this machine, read-only over 9p
with a RAM disk above it, the root of the guest. The guest's first process is agent.py.
"""
import glob
import io
import lzma
import os
import re
import shutil
import subprocess
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUSYBOX = "/bin/busybox"
MODULES = ["crc32_generic", "crc32_pclmul", "virtio_pci", "virtio_net", "virtio_console", "9p", "9pnet_virtio", "overlay",
           "udp_tunnel", "ip6_udp_tunnel", "ib_core", "ib_uverbs", "ib_umad", "ib_cm", "iw_cm", "rdma_cm", "rdma_ucm", "rdma_rxe"]
NOT_EVERYWHERE = {"crc32_generic", "crc32_pclmul"}

OWN = ("proc", "sys", "dev", "tmp", "run")	# directories of the guest that are not this machine's

INIT = """\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /lower /rw /new
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
for m in $(/bin/busybox cat /modules/order); do
	/bin/busybox insmod /modules/$m.ko || echo "init: no module $m"
done
/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 root /lower || exec /bin/busybox poweroff -f
/bin/busybox mount -t tmpfs tmpfs /rw
/bin/busybox mkdir /rw/upper /rw/work
/bin/busybox mount -t overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work overlay /new
for at in @OWN@; do
	/bin/busybox mount -t tmpfs tmpfs /new/$at
done
/bin/busybox umount /new/proc /new/sys /new/dev
/bin/busybox mount -t proc proc /new/proc
/bin/busybox mount -t sysfs sys /new/sys
/bin/busybox mount --move /dev /new/dev
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C
exec /bin/busybox switch_root /new /usr/bin/python3 -B @AGENT@
"""


class Missing(Exception):
    """What it takes is not to be had here."""


# ---- the package -----------------------------------------------------------------

def _said(argv, limit=120, **kw):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit, **kw)
    return done.returncode, done.stdout


def _depends(package, pattern):
    status, text = _said(["apt-cache", "depends", "--important", package])
    if status:
        raise Missing("apt knows no package %s" % package)
    return re.findall(r"^\s+Depends: (%s)$" % pattern, text, re.M)


def _real_packages(package):
    """What has the kernel: what a metapackage depends on, itself otherwise; since Linux 7 it is in several."""
    image = (_depends(package, r"linux-image-\S+") + [package])[0]
    return _depends(image, r"linux-(?:base|binary|modules)-\d\S+") or [image]


def _download(package, directory):
    """The paths of the .debs"""
    said = ""
    for again in (False, True):
        if again and os.getuid() == 0:		# the lists may be old, or never have been there
            _said(["apt-get", "-q", "update"], 300)
        try:
            reals = _real_packages(package)
        except Missing as e:
            said = str(e)
            continue
        kept = [sorted(glob.glob(os.path.join(directory, real + "_*.deb")))[-1:] for real in reals]
        if all(kept):
            return sum(kept, [])
        part = os.path.join(directory, "download")
        shutil.rmtree(part, ignore_errors=True)
        os.mkdir(part)
        options = ["-o", "APT::Sandbox::User=root"] if os.getuid() == 0 else []
        status, said = _said(["apt-get", "-q"] + options + ["download"] + reals, 500, cwd=part)
        got = [os.path.basename(deb) for deb in glob.glob(os.path.join(part, "*.deb"))]
        if status == 0 and len(got) == len(reals):
            for deb in got:
                os.rename(os.path.join(part, deb), os.path.join(directory, deb))
            return [os.path.join(directory, deb) for deb in sorted(got)]
    kept = sorted(glob.glob(os.path.join(directory, "*.deb")))
    if kept:		# better an older one than none
        return [deb for deb in kept if deb.split("_")[1:] == kept[-1].split("_")[1:]]
    raise Missing("no kernel package %s: %s" % (package, said.strip().splitlines()[-1] if said.strip() else "apt-get fails"))


# ---- what is in it -----------------------------------------------------------------

def _name(path):
    return re.sub(r"\.ko(\.xz)?$", "", os.path.basename(path)).replace("-", "_")


def _files(debs):
    """(name, reader of the bytes) of each file; the bytes are read at once or never"""
    for deb in debs:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as p:
            with tarfile.open(fileobj=p.stdout, mode="r|") as tar:
                for entry in tar:
                    if entry.isfile():
                        yield entry.name, tar.extractfile(entry).read


def _unpack(debs):
    """(bytes of the kernel, {module: (its path, its bytes)}, names of modules that are built in)"""
    kernel, modules, builtin = None, {}, set()
    for name, read in _files(debs):
        if re.search("/boot/vmlinuz-|/modules/[^/]*/vmlinuz$", name):
            kernel = read()
        elif name.endswith("/modules.builtin"):
            builtin = {_name(line) for line in read().decode().split()}
        elif re.search(r"/kernel/(crypto|lib|fs|net|arch/x86/crypto|drivers/(infiniband|virtio|net|char))/.*\.ko(\.xz)?$", name):
            if "/hw/" not in name and "/drivers/net/" not in name or "virtio" in name or "failover" in name:
                modules[_name(name)] = (name, read())
    if kernel is None:
        raise Missing("no kernel in %s" % ", ".join(debs))
    return kernel, modules, builtin


def _plain(module):
    name, data = module
    return lzma.decompress(data) if name.endswith(".xz") else data


def _ordered(modules, builtin):
    """[(name, bytes)], each behind what it depends on"""
    done, order = set(), []

    def add(name):
        name = name.replace("-", "_")
        if name in done:
            return
        done.add(name)
        if name not in modules:
            if name in builtin or name in NOT_EVERYWHERE:
                return
            raise Missing("the kernel package has no module %s" % name)
        data = _plain(modules[name])
        for needed in re.search(rb"\0depends=([^\0]*)\0", data).group(1).decode().split(","):
            if needed:
                add(needed)
        order.append((name, data))

    for name in MODULES:
        add(name)
    return order


# ---- the RAM disk ---------------------------------------------------------------------

def _cpio(entries):
    """entries: (path, mode, bytes); the format newc"""
    out = io.BytesIO()

    def put(ino, path, mode, data):
        name = path.encode() + b"\0"
        fields = (ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        out.write(b"070701" + b"".join(b"%08X" % f for f in fields) + name)
        out.write(b"\0" * (-out.tell() % 4) + data)
        out.write(b"\0" * (-out.tell() % 4))

    for ino, (path, mode, data) in enumerate(entries, 1):
        put(ino, path, mode, data)
    put(0, "TRAILER!!!", 0, b"")
    return out.getvalue()


def _initrd(order):
    with open(BUSYBOX, "rb") as f:
        busybox = f.read()
    init = INIT.replace("@AGENT@", os.path.join(HERE, "agent.py")).replace("@OWN@", " ".join(OWN))
    entries = [("bin", 0o40755, b""), ("modules", 0o40755, b""), ("bin/busybox", 0o100755, busybox), ("init", 0o100755, init.encode()),
               ("modules/order", 0o100644, "\n".join(name for name, _ in order).encode())]
    entries += [("modules/%s.ko" % name, 0o100644, data) for name, data in order]
    return _cpio(entries)


def make(package, directory):
    """(path of the kernel, path of the RAM disk, name of the package)"""
    if HERE.split("/")[1] in OWN:
        raise Missing("the guest has a /%s of its own, and this checkout is there: it must be in another directory" % HERE.split("/")[1])
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if not shutil.which(tool):
            raise Missing("no %s, so no kernel package of Debian" % tool)
    if not os.path.exists(BUSYBOX):
        raise Missing("no %s (Debian: busybox-static)" % BUSYBOX)
    if b"/lib64/ld-linux" in open(BUSYBOX, "rb").read(4096):
        raise Missing("%s is not static (Debian: busybox-static)" % BUSYBOX)
    directory = os.path.join(directory, package)
    os.makedirs(directory, exist_ok=True)
    debs = _download(package, directory)
    kernel, initrd = os.path.join(directory, "vmlinuz"), os.path.join(directory, "initrd")
    stamp = os.path.join(directory, "stamp")
    want = "%s %d %s" % (debs, os.path.getmtime(__file__), HERE)
    if not os.path.exists(stamp) or open(stamp).read() != want:
        data, modules, builtin = _unpack(debs)
        for path, content in ((kernel, data), (initrd, _initrd(_ordered(modules, builtin))), (stamp, want.encode())):
            with open(path + ".new", "wb") as f:
                f.write(content)
            os.rename(path + ".new", path)
    return kernel, initrd, re.sub("^linux-(base|binary|modules)-", "linux-image-", os.path.basename(debs[0])).split("_")[0]
