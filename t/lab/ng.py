# SPDX-License-Identifier: MIT
"""ng.py - reads pcapng as the specification has it, and shares nothing with lab/pcapng_read.c."""
import collections
import struct
import sys
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import icrc

IN, OUT = 1, 2
Packet = collections.namedtuple("Packet", "iface ns dir drops comments data len")


class Bad(Exception):
    pass


def options(body):
    while len(body) >= 4:
        code, n = struct.unpack("<HH", body[:4])
        if not code:
            return
        if len(body) < 4 + n:
            raise Bad("an option is cut off")
        yield code, body[4:4 + n]
        body = body[4 + (n + 3 & ~3):]


class Capture:
    """All of a file: names of its interfaces, packets, statistics [(interface, received, dropped)]."""

    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        self.ifaces, self.packets, self.stats = [], [], []
        at = 0
        while at < len(data):
            kind, n = struct.unpack("<II", data[at:at + 8])
            if n % 4 or n < 12 or at + n > len(data) or struct.unpack("<I", data[at + n - 4:at + n])[0] != n:
                raise Bad("%s: block at %d" % (path, at))
            self.block(kind, data[at + 8:at + n - 4], at)
            at += n

    def block(self, kind, body, at):
        if kind == 0x0a0d0d0a:
            if at or body[:4] != b"\x4d\x3c\x2b\x1a":
                raise Bad("a section at %d" % at)
        elif kind == 1:
            opts = dict(options(body[8:]))
            if struct.unpack("<H", body[:2])[0] != 1 or opts[9] != b"\x09":
                raise Bad("interface: %r" % opts)
            self.ifaces.append(opts[2].decode())
        elif kind == 6:
            iface, hi, lo, cap, n = struct.unpack("<IIIII", body[:20])
            opts = list(options(body[20 + (cap + 3 & ~3):]))
            flags = [struct.unpack("<I", v)[0] for c, v in opts if c == 2]
            drops = sum(struct.unpack("<Q", v)[0] for c, v in opts if c == 4)
            self.packets.append(Packet(self.ifaces[iface], hi << 32 | lo, flags[0] & 3, drops,
                                       [v.decode() for c, v in opts if c == 1], body[20:20 + cap], n))
        elif kind == 5:
            iface = struct.unpack("<I", body[:4])[0]
            opts = {c: struct.unpack("<Q", v)[0] for c, v in options(body[12:]) if c in (4, 5)}
            self.stats.append((self.ifaces[iface], opts[4], opts[5]))
        else:
            raise Bad("a block of kind %d" % kind)


def bth(p):
    """(opcode, destination QP, PSN) of a packet's frame."""
    off = 14 + (20 if p.data[12:14] == b"\x08\x00" else 40) + 8
    return p.data[off], int.from_bytes(p.data[off + 5:off + 8], "big"), int.from_bytes(p.data[off + 9:off + 12], "big")


def wrong_icrcs(cap):
    """Numbers of the packets that are not as they must be: IP header, lengths, ICRC."""
    bad = []
    for i, p in enumerate(cap.packets, 1):
        try:
            good = icrc.packet_check(1, p.data, p.len)
        except icrc.Malformed as e:
            good = (0, False, e)
        if not good or not good[1]:
            bad.append(i)
    return bad
