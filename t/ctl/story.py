# SPDX-License-Identifier: MIT
"""story.py - RoCEv2 packets made by hand, from the layout alone, and pcap files of them."""
import struct
import zlib

A, B = "10.0.0.1", "10.0.0.2"
PORT, MTU = 4791, 256
NOW = 1_700_000_000_000_000_000

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0x00, 0x01, 0x02, 0x04
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY = 0x06, 0x07, 0x08, 0x0a
READ, RESP_FIRST, RESP_MIDDLE, RESP_LAST, RESP_ONLY = 0x0c, 0x0d, 0x0e, 0x0f, 0x10
ACK, ATOMIC_ACK, COMPARE_SWAP = 0x11, 0x12, 0x13
UC, UD, CNP = 0x20, 0x64, 0x81


class Packet:
    """Everything of a packet; frame() makes its bytes."""

    def __init__(self, src, dst, op, qpn, psn, ext=b"", payload=b"", **more):
        self.src, self.dst, self.op, self.qpn, self.psn = src, dst, op, qpn, psn
        self.ext, self.payload = ext, payload
        self.ackreq, self.tver, self.ecn, self.frag, self.crc = 0, 0, 0, 0x4000, 0
        self.us = 10		# behind the packet before it
        self.ident = 7
        self.__dict__.update(more)

    def bth(self):
        pad = -len(self.payload) & 3
        head = struct.pack("!BBHII", self.op, 0x40 | pad << 4 | self.tver, 0xffff, self.ecn << 24 | self.qpn,
                           self.ackreq << 31 | self.psn & 0xffffff)
        return head + self.ext + self.payload + bytes(pad)

    def frame(self):
        bth = self.bth()
        udp = struct.pack("!HHHH", 0xc123, PORT, 8 + len(bth) + 4, 0)
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + 8 + len(bth) + 4, self.ident, self.frag, 64, 17, 0)
        ip += bytes(map(int, self.src.split("."))) + bytes(map(int, self.dst.split(".")))
        masked = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:]
        crc = zlib.crc32(b"\xff" * 8 + masked + udp[:6] + b"\xff\xff" + bth[:4] + b"\xff" + bth[5:]) ^ self.crc
        return bytes(12) + b"\x08\x00" + ip + udp + bth + struct.pack("<I", crc)


def reth(va, rkey, length):
    return struct.pack("!QII", va, rkey, length)


def aeth(syndrome, msn):
    return struct.pack("!I", syndrome << 24 | msn & 0xffffff)


def deth(qkey=0x80010000, sqpn=1):
    return struct.pack("!II", qkey, sqpn)


def gid(addr):
    return bytes(10) + b"\xff\xff" + bytes(map(int, addr.split(".")))


def mad(attr, body, tid=5):
    return (struct.pack("!BBBBHHQHHI", 1, 7, 2, 3, 0, 0, tid, attr, 0, 0) + body).ljust(256, b"\0")


def gsi(src, dst, attr, body, **more):
    return Packet(src, dst, UD, 1, 0, deth(), mad(attr, body), **more)


def req(cm_id, qpn, psn, src=A, dst=B):
    body = bytearray(232)
    struct.pack_into("!IIQQ", body, 0, cm_id, 0, 0x0106_1234, 0x1111)
    body[32:35] = qpn.to_bytes(3, "big")
    body[35], body[39], body[43] = 1, 1, 0xa0
    body[44:47] = psn.to_bytes(3, "big")
    body[47:52] = b"\xa7\xff\xff\x17\xf0"
    body[52:56] = b"\xff" * 4
    body[56:72], body[72:88] = gid(src), gid(dst)
    body[93], body[95] = 64, 0x98
    body[141] = 0x40
    body[156:160], body[172:176] = gid(src)[12:], gid(dst)[12:]
    return bytes(body)


def rep(cm_id, remote, qpn, psn):
    body = bytearray(232)
    struct.pack_into("!II", body, 0, cm_id, remote)
    body[12:15] = qpn.to_bytes(3, "big")
    body[20:23] = psn.to_bytes(3, "big")
    body[24:28] = b"\x01\x01\x78\xe0"
    return bytes(body)


def ids(local, remote, rest=b""):
    return (struct.pack("!II", local, remote) + rest).ljust(232, b"\0")


class Raw(bytes):
    """A frame as it is."""
    us = 1


def train_frame(packets, counted=True):
    """Packets of one length as the kernel keeps them before it cuts them, or has joined them: one datagram."""
    whole = b""
    for i, p in enumerate(packets):
        p.ident = i if counted else packets[0].ident
        whole += p.frame()[42:]
    head = bytearray(packets[0].frame()[:42])
    struct.pack_into("!H", head, 16, 28 + len(whole))
    struct.pack_into("!H", head, 38, 8 + len(whole))
    return Raw(bytes(head) + whole)


def seen_by_any(packets):
    """As tcpdump -i any has them where each passes two interfaces, such as that of a VLAN and the one below; link type 276."""
    def cooked(p, index, us):
        out = Raw(struct.pack("!HHIHBB8s", 0x0800, 0, index, 1, 4, 6, b"") + p.frame()[14:])
        out.us = us
        return out
    return [cooked(p, index, us) for p in packets for index, us in ((3, p.us), (2, 1))]


def write_pcap(path, packets, snap=None, now=NOW, link=1):
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 65535, link))
        for p in packets:
            now += p.us * 1000
            data = p if isinstance(p, bytes) else p.frame()
            kept = data[:snap]
            f.write(struct.pack("<IIII", now // 10**9, now % 10**9, len(kept), len(data)) + kept)
