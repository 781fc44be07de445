# SPDX-License-Identifier: MIT
"""roce.py - a RoCEv2 peer in the hands of a test: it says exactly what it is told, and hears everything.

    wire = Wire("127.0.0.3", "127.0.0.2")	our address, the device's
    wire.send(pkt(SEND_ONLY, qpn, psn, payload=b"x"), sport=0)
    wire.hear(1.0)	the next packet of the device, or None

Packets leave by a raw socket, header by header: any UDP source port, any IP identification, any checksum. Answers
are taken from an ordinary UDP socket on our address and port 4791.
"""
import ipaddress
import select
import socket
import struct
import time
import zlib

PORT = 4791
MTU = 256

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0, 1, 2, 4
WRITE_FIRST, WRITE_LAST, WRITE_ONLY = 6, 8, 10
READ_REQUEST, RESP_FIRST, RESP_MIDDLE, RESP_LAST, RESP_ONLY = 12, 13, 14, 15, 16
ACK, ATOMIC_ACK, COMPARE_SWAP, FETCH_ADD = 17, 18, 19, 20
UD_SEND_ONLY, CNP = 0x64, 0x81

RNR, NAK_SEQ, NAK_INV = 0x20, 0x60, 0x61
IP_HDRINCL, IP_RECVTOS, IPV6_HDRINCL, UDP_NO_CHECK6_RX = 3, 13, 36, 102


def reth(va, rkey, length):
    return struct.pack("!QII", va, rkey, length)


def deth(qkey, sqpn):
    return struct.pack("!II", qkey, sqpn)


def aeth(syndrome, msn):
    return struct.pack("!I", syndrome << 24 | msn & 0xffffff)


def atomic(va, rkey, swap_add, compare=0):
    return struct.pack("!QIQQ", va, rkey, swap_add, compare)


def pkt(opcode, qpn, psn, ext=b"", payload=b"", ackreq=False, migreq=True, pkey=0xffff, ecn=0, rsv=0):
    """BTH, extended headers, payload and pad; without the ICRC."""
    pad = -len(payload) & 3
    return (struct.pack("!BBHII", opcode, (0x40 if migreq else 0) | pad << 4, pkey, ecn << 24 | qpn,
                        (0x80000000 if ackreq else 0) | rsv << 24 | psn & 0xffffff) + ext + payload + b"\0" * pad)


class Heard:
    """A packet of the device, taken apart."""

    def __init__(self, data, sport, tos):
        self.data, self.sport, self.tos = data, sport, tos
        self.opcode, flags, self.pkey, qpn, psn = struct.unpack("!BBHII", data[:12])
        self.qpn, self.psn = qpn & 0xffffff, psn & 0xffffff
        self.ackreq, self.migreq = bool(psn >> 31), bool(flags & 0x40)
        body = data[12:-4]
        if self.opcode in (ACK, ATOMIC_ACK, RESP_FIRST, RESP_LAST, RESP_ONLY):
            word = struct.unpack("!I", body[:4])[0]
            self.syndrome, self.msn, body = word >> 24, word & 0xffffff, body[4:]
        if self.opcode == ATOMIC_ACK:
            self.orig = struct.unpack("!Q", body[:8])[0]
        if self.opcode in (READ_REQUEST, WRITE_FIRST, WRITE_ONLY):
            self.va, self.rkey, self.len = struct.unpack("!QII", body[:16])
            body = body[16:]
        self.payload = body[:len(body) - (flags >> 4 & 3)]

    def __repr__(self):
        return "opcode %d psn %d%s" % (self.opcode, self.psn, " syndrome 0x%02x" % self.syndrome if hasattr(self, "syndrome") else "")


def _sum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data[:len(data) & ~1])) + (data[-1] << 8 if len(data) & 1 else 0)
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff or 0xffff


class Wire:
    def __init__(self, ours, device):
        self.ours, self.device = ipaddress.ip_address(ours), ipaddress.ip_address(device)
        self.v6 = self.ours.version == 6
        family = socket.AF_INET6 if self.v6 else socket.AF_INET
        self.rx = socket.socket(family, socket.SOCK_DGRAM)
        if self.v6:
            self.rx.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)
        self.rx.setsockopt(*((socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS) if self.v6 else (socket.IPPROTO_IP, IP_RECVTOS)), 1)
        self.rx.bind((ours, PORT))
        self.tx = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.tx.setsockopt(socket.IPPROTO_IPV6 if self.v6 else socket.IPPROTO_IP, IPV6_HDRINCL if self.v6 else IP_HDRINCL, 1)

    @property
    def gid(self):
        return self.ours.exploded if self.v6 else "::ffff:%s" % self.ours

    def _ip(self, length, ident, tos, back=False):
        src, dst = self.ours.packed, self.device.packed
        if back:
            src, dst = dst, src
        if self.v6:
            return struct.pack("!IHBB", 6 << 28 | tos << 20, length, 17, 64) + src + dst
        return struct.pack("!BBHHHBBH", 0x45, tos, 20 + length, ident, 0x4000, 64, 17, 0) + src + dst

    def _icrc(self, ip, udp, packet):
        masked = bytearray(ip)
        if self.v6:
            masked[0] |= 0x0f
            masked[1] = masked[2] = masked[3] = masked[7] = 0xff
        else:
            masked[1] = masked[8] = masked[10] = masked[11] = 0xff
        return zlib.crc32(b"\xff" * 8 + bytes(masked) + udp + b"\xff\xff" + packet[:4] + b"\xff" + packet[5:])

    def icrc_right(self, heard):
        """Of a single packet of the device: its identification is 0."""
        length = 8 + len(heard.data)
        ip = self._ip(length, 0, 0, back=True)
        crc = self._icrc(ip, struct.pack("!HHH", heard.sport, PORT, length), heard.data[:-4])
        return heard.data[-4:] == struct.pack("<I", crc)

    def send(self, packet, sport=49152, ident=0x718c, checksum=False, flip=False, tos=0):
        """flip: the ICRC is wrong. checksum: of UDP, else it is 0."""
        length = 8 + len(packet) + 4
        ip = self._ip(length, ident, tos)
        udp = struct.pack("!HHH", sport, PORT, length)
        crc = self._icrc(ip, udp, packet)
        body = packet + struct.pack("<I", crc ^ flip << 7)
        pseudo = self.ours.packed + self.device.packed + struct.pack("!II", length, 17)
        udp += struct.pack("!H", _sum(pseudo + udp + b"\0\0" + body) if checksum else 0)
        self.tx.sendto(ip + udp + body, (str(self.device), 0))

    def hear(self, limit):
        """The next packet, if one comes within limit seconds."""
        if not select.select([self.rx], [], [], max(0, limit))[0]:
            return None
        data, cmsgs, _, addr = self.rx.recvmsg(9000, 64)
        return Heard(data, addr[1], cmsgs[0][2][0])

    def hear_until(self, what, cond, limit):
        """All packets up to the first for which cond() is true."""
        heard, end = [], time.monotonic() + limit
        while True:
            p = self.hear(end - time.monotonic())
            if p is None:
                raise TimeoutError("no %s within %.0f s, but %s" % (what, limit, heard[-20:]))
            heard.append(p)
            if cond(p):
                return heard

    def frames(self):
        """A packet socket that sees the IP packets of loopback, with all their headers: those of the device, by ip_of()."""
        kind = 0x86dd if self.v6 else 0x0800
        s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(kind))
        s.bind(("lo", kind))
        return s

    def ip_of(self, frames, limit):
        """The next IP packet from the device to us."""
        end = time.monotonic() + limit
        src, dst = (8, 24) if self.v6 else (12, 16)
        while select.select([frames], [], [], max(0, end - time.monotonic()))[0]:
            p = frames.recv(65536)
            size = len(self.ours.packed)
            if p[src:src + size] == self.device.packed and p[dst:dst + size] == self.ours.packed:
                return p
        raise TimeoutError("no packet of the device on the wire within %.0f s" % limit)

    def close(self):
        self.rx.close()
        self.tx.close()
