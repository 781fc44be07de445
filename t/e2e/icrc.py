#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""icrc.py - checks the ICRC of every RoCEv2 packet of a pcap file.

Written from the packet layout alone, with zlib's CRC-32, and sharing nothing
with proto/: a mistake of the daemon's ICRC cannot hide behind the same mistake here.

    icrc.py FILE...    exit 0: at least one RoCEv2 packet and every ICRC right

The fields that routers may change are counted as ones: IPv4 TOS, TTL and header
checksum, IPv6 class, flow label and hop limit, the UDP checksum, and byte 4 of the BTH.
Eight bytes of ones stand for the LRH. The CRC is stored low byte first.
"""
import collections
import struct
import sys
import zlib

ROCE_PORT = 4791
LRH = b"\xff" * 8

# Offset of the network header, by link type: Ethernet, raw IP, Linux cooked v1 and v2.
LINK_ETHERNET, LINK_RAW, LINK_SLL, LINK_SLL2 = 1, 101, 113, 276


class Malformed(Exception):
    """The file, or a packet in it, is not what it should be."""


def pcap_packets(path):
    """Yields (link type, captured bytes, length on the wire) of a classic pcap file."""
    with open(path, "rb") as f:
        head = f.read(24)
        order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<",
                 b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}.get(head[:4])
        if order is None or len(head) < 24:
            raise Malformed("not a pcap file")
        link = struct.unpack(order + "I", head[20:24])[0] & 0xffff
        while True:
            rec = f.read(16)
            if not rec:
                return
            if len(rec) < 16:
                raise Malformed("cut in a record header")
            got, wire = struct.unpack(order + "II", rec[8:16])
            data = f.read(got)
            if len(data) < got:
                raise Malformed("cut in a packet")
            yield link, data, wire


def network_header(link, data):
    """(EtherType, bytes from the IP header on)"""
    if link == LINK_ETHERNET:
        etype, off = struct.unpack("!H", data[12:14])[0], 14
        while etype in (0x8100, 0x88a8):
            etype, off = struct.unpack("!H", data[off + 2:off + 4])[0], off + 4
        return etype, data[off:]
    if link == LINK_SLL:
        return struct.unpack("!H", data[14:16])[0], data[16:]
    if link == LINK_SLL2:
        return struct.unpack("!H", data[:2])[0], data[20:]
    if link == LINK_RAW:
        return (0x86dd if data[0] >> 4 == 6 else 0x0800), data
    raise Malformed("link type %d" % link)


def udp_split(etype, ip):
    """(IP header with its changing fields as ones, UDP header and payload), or None if it is not UDP"""
    if etype == 0x0800:
        size = (ip[0] & 15) * 4
        total, ident, frag = struct.unpack("!HHH", ip[2:8])
        if ip[9] != 17:
            return None
        if frag & 0x3fff:
            raise Malformed("a RoCE packet must not be a fragment")
        if not frag & 0x4000:
            raise Malformed("DF is not set")
        masked = bytearray(ip[:size])
        masked[1] = masked[8] = masked[10] = masked[11] = 0xff
        return bytes(masked), ip[size:total]
    if etype == 0x86dd:
        if ip[6] != 17:
            return None
        masked = bytearray(ip[:40])
        masked[0] |= 0x0f
        masked[1] = masked[2] = masked[3] = masked[7] = 0xff
        return bytes(masked), ip[40:40 + struct.unpack("!H", ip[4:6])[0]]
    return None


def packet_check(link, data, wire):
    """None: not RoCEv2; else (opcode, whether the ICRC is right)"""
    etype, ip = network_header(link, data)
    if etype not in (0x0800, 0x86dd) or len(ip) < 28:
        return None
    parts = udp_split(etype, ip)
    if parts is None:
        return None
    masked, udp = parts
    if len(udp) < 8 or struct.unpack("!H", udp[2:4])[0] != ROCE_PORT:
        return None
    if len(data) < wire:
        raise Malformed("captured with too short a snap length")
    length = struct.unpack("!H", udp[4:6])[0]
    if length != len(udp) or length < 8 + 12 + 4:
        raise Malformed("UDP length %d of %d bytes" % (length, len(udp)))
    bth = bytearray(udp[8:-4])
    bth[4] = 0xff
    crc = zlib.crc32(LRH + masked + udp[:6] + b"\xff\xff" + bytes(bth))
    return bth[0], crc == struct.unpack("<I", udp[-4:])[0]


def file_check(path):
    """(packets, [complaint], Counter of opcodes)"""
    seen, bad, ops = 0, [], collections.Counter()
    for n, (link, data, wire) in enumerate(pcap_packets(path), 1):
        try:
            result = packet_check(link, data, wire)
        except Malformed as e:
            seen += 1
            bad.append("packet %d: %s" % (n, e))
            continue
        if result is None:
            continue
        seen += 1
        ops[result[0]] += 1
        if not result[1]:
            bad.append("packet %d, opcode 0x%02x: ICRC wrong" % (n, result[0]))
    return seen, bad, ops


def main(paths):
    worst = 0 if paths else 2
    for path in paths:
        try:
            seen, bad, ops = file_check(path)
        except (Malformed, OSError) as e:
            print("%s: %s" % (path, e))
            worst = 2
            continue
        for line in bad[:10]:
            print("%s: %s" % (path, line))
        print("%s: %d packets, %d wrong; opcodes %s" % (
            path, seen, len(bad), " ".join("%02x:%d" % kv for kv in sorted(ops.items()))))
        if bad or not seen:
            worst = max(worst, 1)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
