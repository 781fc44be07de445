# SPDX-License-Identifier: MIT
"""scenes.py - conversations in which things go wrong, and pcapng files of them with comments and both ends."""
import random
import struct

from story import *

FULL = bytes(MTU)


def to_b(op, psn, ext=b"", payload=b"", **more):
    return Packet(A, B, op, 0x22, psn, ext, payload, **more)


def to_a(op, psn, ext=b"", payload=b"", **more):
    return Packet(B, A, op, 0x11, psn, ext, payload, **more)


def write(psn, n, first=0, **more):
    """Packets first.. of a WRITE of n."""
    ops = [WRITE_FIRST] + [WRITE_MIDDLE] * (n - 2) + [WRITE_LAST]
    return [to_b(ops[i], psn + i, reth(0x1000, 77, n * MTU) if not i else b"", FULL, **dict({"us": 2}, **more)) for i in range(first, n)]


def set_up(psn=500):
    return [gsi(A, B, 0x10, req(0xa1, 0x11, 900)), gsi(B, A, 0x13, rep(0xb1, 0xa1, 0x22, psn), us=120),
            gsi(A, B, 0x14, ids(0xa1, 0xb1), us=60)]


def tear_down():
    return [gsi(A, B, 0x15, ids(0xa1, 0xb1, b"\0\0\x22\0"), us=800), gsi(B, A, 0x16, ids(0xb1, 0xa1), us=40)]


def lost_packet(p=500):
    """The second of five is lost behind the capture: NAK, go back."""
    return write(p, 5, us=4) + [to_a(ACK, p + 1, aeth(0x60, 0), us=12)] + write(p, 5, 1, us=4) + [to_a(ACK, p + 4, aeth(0x1f, 1), us=12)]


def hurt_header(p=500):
    """The second of five is damaged and says that it is one of far ahead: nothing is lost in between."""
    out = lost_packet(p)
    out[1].psn, out[1].crc = p + 0x4001, 1
    return out


def lost_ack(p=600):
    return [to_b(SEND_ONLY, p, payload=b"x" * 100, us=50), to_a(ACK, p, aeth(0x1f, 2)),
            to_b(SEND_ONLY, p, payload=b"x" * 100, us=67108), to_a(ACK, p, aeth(0x1f, 2))]


def not_ready(p=700):
    return [to_b(SEND_ONLY, p, payload=b"y" * 64, us=40), to_a(ACK, p, aeth(0x20 | 14, 2)),
            to_b(SEND_ONLY, p, payload=b"y" * 64, us=1300), to_a(ACK, p, aeth(0x1f, 3))]


def never_ready(n=41, p=700):
    """RNR NAK, and n times more."""
    out = not_ready(p)[:2]
    for _ in range(n):
        out += [to_b(SEND_ONLY, p, payload=b"y" * 64, us=1300), to_a(ACK, p, aeth(0x20 | 14, 2))]
    return out + not_ready(p)[2:]


def read_hole(p=800):
    """The second of four responses is lost behind the capture: asked for again from there on."""
    return [to_b(READ, p, reth(0x2000, 78, 4 * MTU)), to_a(RESP_FIRST, p, aeth(0x1f, 1), FULL),
            to_a(RESP_MIDDLE, p + 1, payload=FULL), to_a(RESP_MIDDLE, p + 2, payload=FULL), to_a(RESP_LAST, p + 3, aeth(0x1f, 1), FULL),
            to_b(READ, p + 1, reth(0x2000 + MTU, 78, 3 * MTU)), to_a(RESP_FIRST, p + 1, aeth(0x1f, 1), FULL),
            to_a(RESP_MIDDLE, p + 2, payload=FULL), to_a(RESP_LAST, p + 3, aeth(0x1f, 1), FULL)]


def bad_key(p=900):
    return [to_b(WRITE_ONLY, p, reth(0x9000, 99, 16), bytes(16), us=50), to_a(ACK, p, aeth(0x62, 0))]


def still_at_it(p=900):
    """NAK 0x65, then the ACK."""
    return [to_b(WRITE_ONLY, p, reth(0x9000, 99, 16), bytes(16), us=50), to_a(ACK, p, aeth(0x65, 0)), to_a(ACK, p, aeth(0x1f, 1))]


def silence(p=100):
    """Sent three times, and nothing comes back."""
    return [to_b(SEND_ONLY, p, us=50), to_b(SEND_ONLY, p, us=4000), to_b(SEND_ONLY, p, us=4000)]


def lost_before(p=70):
    """Packets that never came to the point of the capture, and did after the NAK."""
    return [to_b(SEND_ONLY, p), to_a(ACK, p, aeth(0x1f, 1)), to_b(SEND_ONLY, p + 3), to_a(ACK, p + 1, aeth(0x60, 1)),
            to_b(SEND_ONLY, p + 1), to_b(SEND_ONLY, p + 2), to_b(SEND_ONLY, p + 3), to_a(ACK, p + 3, aeth(0x1f, 4))]


def uc(p=30):
    full = FULL
    return [to_b(UC | SEND_ONLY, p), to_b(UC | SEND_FIRST, p + 1, payload=full), to_b(UC | SEND_LAST, p + 3, payload=b"z"),
            to_b(UC | SEND_ONLY, p + 4)]


def wrap(p=0xfffffe):
    return [x for i in range(4) for x in (to_b(SEND_ONLY, p + i), to_a(ACK, p + i, aeth(0x1f, i + 1)))]


def tour():
    """The picture of README."""
    p = 500
    late = lost_ack(p + 5)
    wait = not_ready(p + 6)
    for x, msn in zip(late[1::2] + wait[1::2], (2, 2, 2, 3)):
        x.ext = aeth(x.ext[0], msn)
    return set_up(p) + lost_packet(p) + late + wait + tear_down()


def thousand(n=1000):
    random.seed(5)
    out, p, k = [], 100, 0
    while len(out) < n:
        k += 1
        count = random.choice([1, 1, 3, 12, 40])
        ops = [SEND_FIRST] + [SEND_MIDDLE] * (count - 2) + [SEND_LAST] if count > 1 else [SEND_ONLY]
        train = [to_b(op, p + i, payload=FULL if op in (SEND_FIRST, SEND_MIDDLE) else b"z" * 200, us=2 if i else 20)
                 for i, op in enumerate(ops)]
        out += train
        if k % 11 == 5 and count > 3:
            out += [to_a(ACK, p + 2, aeth(0x60, k - 1))] + train[2:]
        out.append(to_a(ACK, p + count - 1, aeth(0x1f, k)))
        p += count
    return out[:n]


def three():
    """Three connections at once; the second of them has a loss."""
    random.seed(3)
    out, psn = [], {0x80: 7, 0x81: 1007, 0x82: 2007}
    for k in range(30):
        qpn = 0x80 + k % 3
        p, back = psn[qpn], qpn - 0x40
        out += [Packet(A, B, SEND_ONLY, qpn, p, us=3), Packet(B, A, ACK, back, p, aeth(0x1f, k // 3 + 1), us=9)]
        if qpn == 0x81 and k == 13:
            out[-1] = Packet(B, A, ACK, back, p, aeth(0x60, k // 3), us=9)
            out += [Packet(A, B, SEND_ONLY, qpn, p, us=3), Packet(B, A, ACK, back, p, aeth(0x1f, k // 3 + 1), us=9)]
        psn[qpn] += 1
    return out


# ---- pcapng --------------------------------------------------------------------

IN, OUT = 1, 2


def option(code, data):
    return struct.pack("<HH", code, len(data)) + data + bytes(-len(data) & 3)


def block(kind, body):
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def pcapng(path, items, names=("rdmad0", "rdmad1")):
    """items: (ns, interface, direction, packet, comments); a number among the comments: so many were not captured before it."""
    with open(path, "wb") as f:
        f.write(block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1)))
        for name in names:
            f.write(block(1, struct.pack("<HHI", 1, 0, 0) + option(2, name.encode()) + option(9, b"\x09") + option(0, b"")))
        for ns, iface, direction, packet, comments in items:
            data = packet.frame()
            ns += NOW
            body = struct.pack("<IIIII", iface, ns >> 32, ns & 0xffffffff, len(data), len(data)) + data + bytes(-len(data) & 3)
            body += option(2, struct.pack("<I", direction)) + b"".join(
                option(4, struct.pack("<Q", c)) if isinstance(c, int) else option(1, c if isinstance(c, bytes) else c.encode())
                for c in comments)
            f.write(block(6, body + option(0, b"")))


def both_ends():
    """Three SENDs, captured where they leave and where they arrive: the second does not, the third comes late."""
    a, b, c = (to_b(SEND_ONLY, 40 + i, payload=b"abc"[i:i + 1]) for i in range(3))
    ack, nak, again = to_a(ACK, 40, aeth(0x1f, 1)), to_a(ACK, 41, aeth(0x60, 1)), to_b(SEND_ONLY, 41, payload=b"b")
    return [(0, 0, OUT, a, []), (1000, 0, OUT, b, []), (2000, 0, OUT, c, []), (5000, 1, IN, a, []), (6000, 1, OUT, ack, []),
            (9000, 0, IN, ack, []), (40000, 1, IN, c, ["out of sequence, dropped: expected 41, got 42"]), (41000, 1, OUT, nak, ["NAK: expected 41, got 42"]),
            (45000, 0, IN, nak, []), (46000, 0, OUT, again, ["retransmission 1 of PSN 41"]), (50000, 1, IN, again, ["dropped by rule 3"]),
            (90000, 0, OUT, to_b(SEND_ONLY, 43), ["held back by rule 4"]), (95000, 1, IN, to_b(SEND_ONLY, 43), [])]


def at_both(story, lost=()):
    """A conversation captured at both ends, 5 us apart; lost: places of packets that do not arrive."""
    out, now = [], 0
    for i, x in enumerate(story):
        now += x.us * 1000
        near = 0 if x.src == A else 1
        out.append((now, near, OUT, x, []))
        if i not in lost:
            out.append((now + 5000, 1 - near, IN, x, []))
    return sorted(out, key=lambda item: item[0])
