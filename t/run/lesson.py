# SPDX-License-Identifier: MIT
"""Does a lesson show what its page says?  lesson.py NAME LADDER.json CAPTURE.pcapng PICTURE NEW-PICTURE [TSHARK]: TAP without a plan.

Facts are taken from rdmactl -j ladder; where tshark is there, numbers are read by it as well.
"""
import json
import re
import subprocess
import sys

name, ladder_file, capture, svg, new_svg = sys.argv[1:6]
tshark = sys.argv[6] if len(sys.argv) > 6 else ""
with open(ladder_file, encoding="utf-8") as f:
    ladder = json.load(f)
rungs = ladder["rungs"]
failed = 0


def ok(good, what):
    global failed
    failed += not good
    print(("ok - " if good else "not ok - ") + f"{name}: {what}")


def same(got, want, what):
    if got != want:
        print(f"# got:    {got}\n# wanted: {want}")
    ok(got == want, what)


def detail(rung, key):
    return dict(rung.get("detail", [])).get(key, "")


def find(conn=0, **want):
    return [r for r in rungs if r["c"] == conn and all(r.get(k) == v for k, v in want.items())]


def sent(conn=0, end=0):
    """PSNs of requests of that end, in order of sending, with a - where the path lost the packet."""
    return [("-" if r.get("fate") == "lost" else "") + str(r["psn"]) for r in rungs
            if r["c"] == conn and r["from"] == end and not r.get("answer") and r["kind"] != "cm"]


def once(psns):
    """Without repetitions: of timers there may be more than the page says, on a machine that is busy."""
    return sorted(set(psns), key=psns.index)


def answers(conn=0, end=1):
    return [(r["kind"], r["psn"]) for r in rungs if r["c"] == conn and r["from"] == end and r.get("answer")]


def tshark_fields(condition, field):
    out = subprocess.run([tshark, "-r", capture, "-Y", condition, "-T", "fields", "-e", field], capture_output=True, text=True, check=False)
    return out.stdout.split()


def lost_packet(first=1000):
    psn = [(first + i) % (1 << 24) for i in range(6)]
    hole = psn[2] if first == 1000 else 0
    at = psn.index(hole)
    want = [str(p) for p in psn]
    want[at] = "-" + want[at]
    same(sent(), want + [str(p) for p in psn[at:]], "six packets, one lost, and from it on all again")
    same([a for a in answers() if a[0] == "nak"], [("nak", hole)], "one NAK, which names the PSN that is missing")
    same(answers()[-1], ("ack", psn[-1]), "one ACK for all at the end")
    ok(len(answers()) == 2, "no other answer")
    apart = [b["t"] - a["t"] for a, b in zip(rungs, rungs[1:])]
    ok(sum(ns > 1 for ns in apart) > len(apart) / 2, "each packet has a time of its own, not that of its turn")
    again = [r for r in rungs if not r.get("answer") and r.get("again")]
    same([r["psn"] for r in again], psn[at:], "what was sent again is marked so")
    ok(again and again[0]["op"].endswith("MIDDLE"), "and begins with a MIDDLE: it is the same packet")
    ok("PSN" in detail(find(kind="nak")[0], "syndrome") or "sequence" in json.dumps(find(kind="nak")), "a PSN sequence error")
    if tshark:
        same(tshark_fields("infiniband.aeth.syndrome.opcode == 3", "infiniband.bth.psn")[:1], [str(hole)], "tshark sees the NAK, too")


def lost_ack():
    ok(len([p for p in sent() if p == "1000"]) >= 2, "PSN 1000 is sent at least twice, and arrives")
    same(once(sent()), ["1000", "1001"], "two messages")
    acks = [r for r in rungs if r["from"] == 1 and r.get("answer")]
    same(acks[0].get("fate"), "lost", "the first ACK is lost")
    ok(any(a["psn"] == 1000 and not a.get("fate") for a in acks[1:]), "the duplicate is acknowledged")
    same({detail(a, "MSN") for a in acks if a["psn"] == 1000}, {"1"}, "MSN 1 in each: executed once")
    ok(all(r["kind"] == "ack" for r in acks), "no NAK")


def rnr():
    naks = find(kind="rnr")
    ok(naks and all(n["psn"] == 1000 for n in naks), "RNR NAKs, of PSN 1000")
    ok(naks and "10.24" in json.dumps(naks[0]), "that name 10.24 ms")
    same(len(sent()), len(naks) + 1, "sent once more than refused")
    times = [r["t"] for r in rungs if r["from"] == 0]
    ok(times[1] - naks[0]["t"] > 10.0e6, "not before that time")
    same(answers()[-1], ("ack", 1000), "and acknowledged in the end")


def retry():
    lost = [p for p in sent() if p == "-1001"]
    ok(4 <= len(lost) <= 6, f"PSN 1001 is sent once and three times again, and early ({len(lost)} in all), and always lost")
    same([p for p in sent() if not p.startswith("-")], ["1000"], "nothing but the first message arrives")
    same(answers(), [("ack", 1000)], "and only that is answered")
    times = [r["t"] for r in rungs if r["psn"] == 1001]
    ok(times[-1] - times[0] >= 3 * 16.7e6, "three timers of 16.8 ms at least")


def read_middle():
    reads = find(kind="read", **{"from": 0})
    ok(len(reads) >= 2 and reads[0]["psn"] == 1000 and reads[1]["psn"] == 1002, "READ requests of PSN 1000 and 1002")
    ok("768" in detail(reads[1], "length") + detail(reads[1], "length of all"), "the second for the 768 bytes that are missing")
    ok(int(detail(reads[1], "address"), 16) - int(detail(reads[0], "address"), 16) == 512, "512 bytes further on")
    responses = [r for r in rungs if r["from"] == 1 and r.get("answer")]
    same([r["psn"] for r in responses if r.get("fate") == "lost"], [1002], "the response that is lost")
    behind = [r for r in responses if r["t"] > reads[1]["t"]]
    same([r["psn"] for r in behind][:3], [1002, 1003, 1004], "the rest is answered again")
    ok(behind and behind[0]["op"].endswith("FIRST"), "beginning with a FIRST")


def bad_rkey():
    same([a for a in answers() if a[0] != "ack"], [("nak", 1001)], "one NAK, of the second WRITE")
    nak = find(kind="nak")[0]
    ok("0x62" in detail(nak, "syndrome"), "remote access error")
    ok(not [r for r in rungs if r["t"] > nak["t"] + nak.get("at", 0)], "nothing follows it")
    keys = [detail(r, "rkey") for r in rungs if r["kind"] == "write"]
    ok(len(keys) >= 2 and int(keys[0], 16) ^ int(keys[1], 16) == 0xff, "its RETH has another rkey")


def uc_rc():
    services = [c["service"] for c in ladder["connections"]]
    same(services, ["UC", "RC"], "two connections")
    same(sent(0), ["1000", "-1001", "1002", "1003", "1004", "1005"], "UC: six packets, one lost, none again")
    same(answers(0), [], "UC: no answer")
    ok([p for p in sent(1) if p == "-1001"] == ["-1001"] and sent(1).count("1001") == 1, "RC: the same one lost, and sent again")
    same([a for a in answers(1) if a[0] == "nak"], [("nak", 1001)], "RC: a NAK")


def overrun():
    acks = find(kind="ack")
    ok(acks and all("0x1f" in detail(a, "syndrome") for a in acks), "ACKs give no credits: 0x1f")
    same([a for a in answers() if a[0] != "ack"], [("rnr", 1002)], "one RNR NAK, of the third message")
    nak = find(kind="rnr")[0]
    ok(not [r for r in rungs if r["t"] > nak["t"] + nak.get("at", 0)], "nothing follows it")


def cm():
    # A host that is busy for 32 ms repeats what it says.
    messages = [(r["op"], r["from"]) for r in rungs if r["kind"] == "cm" and not r.get("again")]
    names = [m[0].split()[-1].upper() for m in messages]
    same(names, ["REQ", "REP", "RTU", "DREQ", "DREP"], "five messages, in that order")
    same([m[1] for m in messages], [messages[0][1] ^ i for i in (0, 1, 0, 0, 1)], "the client's and the server's")
    data = [r for r in rungs if r["kind"] == "send"]
    same(len(data), 1, "one SEND between them")
    if tshark:
        rep = tshark_fields("infiniband.cm.rep", "infiniband.cm.rep.startpsn") or tshark_fields("infiniband.mad.attributeid == 0x0013", "infiniband.cm.rep.startingpsn")
        if rep:
            same(int(rep[0], 0), data[0]["psn"], "with the PSN that the REP named")


CHECKS = {"lost-packet": lost_packet, "lost-ack": lost_ack, "rnr": rnr, "retry": retry, "read-middle": read_middle, "bad-rkey": bad_rkey,
          "psn-wrap": lambda: lost_packet(0xFFFFFD), "uc-rc": uc_rc, "overrun": overrun, "cm": cm}
CHECKS[name]()



def labels(file):
    """What is written at the arrows of a picture: operation, PSN, length or fate. How often each is there depends on timers."""
    with open(file, encoding="utf-8") as picture:
        lines = re.findall(r'<text class="label".*?</text>', picture.read(), re.DOTALL)
    return {" ".join(re.sub(r"<[^>]*>", " ", line).split()) for line in lines}


# The third WRITE may be on its way when the NAK comes, or not.
SOMETIMES = {"bad-rkey": "WRITE ONLY 2", "overrun": "SEND ONLY 3", "retry": "SEND ONLY 2"}
want, got = ({label for label in labels(file) if not label.startswith(SOMETIMES.get(name, "none"))} for file in (svg, new_svg))
same(got, want, "the arrows are those of the picture in contrib/labs")
ok(len(want) >= 2, "and there are some")
if tshark:
    bad = tshark_fields("_ws.malformed", "frame.number")
    same(bad, [], "tshark finds no malformed packet")
sys.exit(failed != 0)
