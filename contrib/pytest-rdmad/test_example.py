# SPDX-License-Identifier: MIT
"""Two queue pairs in the test itself, by pyverbs (Debian: python3-pyverbs), and what they make of lost and refused packets."""
import pytest
import pytest_rdmad as rdma

pyverbs = pytest.importorskip("pyverbs")
import pyverbs.enums as e  # noqa: E402
from pyverbs.addr import AHAttr, GlobalRoute  # noqa: E402
from pyverbs.cq import CQ  # noqa: E402
from pyverbs.device import Context  # noqa: E402
from pyverbs.mr import MR  # noqa: E402
from pyverbs.pd import PD  # noqa: E402
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr  # noqa: E402
from pyverbs.wr import SGE, RecvWR, SendWR  # noqa: E402


class Pair:
    """Two connected queue pairs; `a` sends to `b`."""

    def __init__(self, device, retries=7):
        self.ctx = Context(name=device)
        self.pd = PD(self.ctx)
        self.scq, self.rcq = CQ(self.ctx, 16), CQ(self.ctx, 16)
        self.mr = MR(self.pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
        self.a, self.b = (QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.scq, rcq=self.rcq,
                                                 cap=QPCap(max_send_wr=16, max_recv_wr=16))) for _ in "ab")
        route = GlobalRoute(dgid=self.ctx.query_gid(1, 0), sgid_index=0)
        for near, far in ((self.a, self.b), (self.b, self.a)):
            attr = QPAttr(port_num=1)
            attr.dest_qp_num, attr.path_mtu = far.qp_num, e.IBV_MTU_1024
            attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
            attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 10, retries, 7
            attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
            near.to_rts(attr)

    def send(self, text):
        """One message; the status of its completion."""
        sge = SGE(self.mr.buf, len(text), self.mr.lkey)
        self.mr.write(text, len(text))
        self.b.post_recv(RecvWR(sg=[SGE(self.mr.buf + 2048, 2048, self.mr.lkey)], num_sge=1))
        self.a.post_send(SendWR(num_sge=1, sg=[sge], opcode=e.IBV_WR_SEND, send_flags=e.IBV_SEND_SIGNALED))
        while True:
            n, done = self.scq.poll()
            if n:
                return done[0].status

    def received(self, length):
        return self.mr.read(length, 2048)


def test_a_message_arrives(rdma):
    pair = Pair(rdma.device)
    assert pair.send(b"hello") == e.IBV_WC_SUCCESS
    assert pair.received(5) == b"hello"
    assert not rdma.why()


@rdma.faults("rules: [{name: cosmic ray, match: {packet: send, psn: +1, iter: 1}, do: drop}]")
def test_a_lost_packet_is_sent_again(rdma):
    pair = Pair(rdma.device)
    assert [pair.send(b"one"), pair.send(b"two")] == [e.IBV_WC_SUCCESS] * 2
    assert pair.received(3) == b"two"
    assert rdma.hits() == 1


@rdma.faults("rules: [{name: cut, match: {packet: send}, do: drop}]")
def test_a_wire_that_is_cut(rdma):
    assert Pair(rdma.device, retries=1).send(b"lost") == e.IBV_WC_RETRY_EXC_ERR
    assert "dropped this PSN 2 times" in rdma.why()[0]["rules"]
