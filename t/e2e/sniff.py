# SPDX-License-Identifier: MIT
"""sniff.py - RoCE packets as a packet socket of the host sees them that they come to."""
import socket
import struct



class Sniffer:
    """RoCE packets that come to the host."""

    def __init__(self, host, dev):
        with host.inside():
            self.s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            self.s.bind((dev, 3))
        self.s.setblocking(False)

    def _packets(self):
        while True:
            try:
                p, who = self.s.recvfrom(70000)
            except BlockingIOError:
                return
            if who[2] == socket.PACKET_OUTGOING:
                continue
            if p[0] >> 4 == 4 and p[9] == 17:
                tclass, hops, label, udp = p[1], p[8], None, p[20:]
            elif p[0] >> 4 == 6 and p[6] == 17:
                word = struct.unpack("!I", p[:4])[0]
                tclass, hops, label, udp = word >> 20 & 255, p[7], word & 0xfffff, p[40:]
            else:
                continue
            sport, dport = struct.unpack("!HH", udp[:4])
            if dport == 4791:
                yield tclass, hops, label, sport, udp[8:]

    def take(self):
        """[(traffic class, hop limit, flow label or None, BTH and the rest)]"""
        return [(tclass, hops, label, bth) for tclass, hops, label, _, bth in self._packets()]

    def take_ports(self):
        """[(source port, flow label or None, BTH and the rest)]"""
        return [(sport, label, bth) for _, _, label, sport, bth in self._packets()]
