# SPDX-License-Identifier: MIT
"""
t/distro/mpi.py LIBRARY: two ranks send each other messages of growing lengths, and every byte is checked. Of the MPI nothing but its
library is needed, libmpi.so.40 (Open MPI) or libmpich.so.12: there is no compiler here. Rank 0 prints "ok N", N lengths.
"""
import ctypes
import sys

mpi = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
if "mpich" in sys.argv[1]:	# handles are numbers
    world, byte, ignore = ctypes.c_int(0x44000000), ctypes.c_int(0x4C00010D), ctypes.c_void_p(1)
else:	# handles are addresses of objects
    world, byte = (ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_" + n))) for n in ("comm_world", "byte"))
    ignore = ctypes.c_void_p(None)


def call(name, *args):
    if getattr(mpi, "MPI_" + name)(*args) != 0:
        sys.exit("MPI_%s failed" % name)


def number(name):
    n = ctypes.c_int()
    call(name, world, ctypes.byref(n))
    return n.value


call("Init", None, None)
rank, ranks = number("Comm_rank"), number("Comm_size")
if ranks != 2:
    sys.exit("%d ranks, not 2: this is not the mpirun of %s" % (ranks, sys.argv[1]))
lengths = [1, 8, 1000, 70000, 1 << 20, 4 << 20]
for length in lengths:
    for i in range(5):
        out = bytes((length + i + k) % 251 for k in range(251)) * (length // 251 + 1)
        got = ctypes.create_string_buffer(length)
        if rank == 0:
            call("Send", out, length, byte, 1, 7, world)
        call("Recv", got, length, byte, 1 - rank, 7, world, ignore)
        if got.raw != out[:length]:
            sys.exit("rank %d: wrong bytes in a message of %d" % (rank, length))
        if rank == 1:
            call("Send", got, length, byte, 0, 7, world)
call("Finalize")
if rank == 0:
    print("ok", len(lengths))
