# SPDX-License-Identifier: MIT
# The first device sends a READ, then an atomic to the second one: the status of each.
import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SendWR, SGE

RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC


class End:
    def __init__(self, name):
        self.ctx = Context(name=name)
        self.pd, self.cq = PD(self.ctx), CQ(self.ctx, 16)
        self.mr = MR(self.pd, 4096, RIGHTS)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(), sq_sig_all=1))

    def to(self, peer):
        gr = GlobalRoute(dgid=peer.ctx.query_gid(1, 1), sgid_index=1)
        a = QPAttr(port_num=1)
        a.ah_attr = AHAttr(port_num=1, is_global=1, gr=gr)
        a.dest_qp_num, a.path_mtu, a.qp_access_flags = peer.qp.qp_num, e.IBV_MTU_1024, RIGHTS
        a.max_rd_atomic = a.max_dest_rd_atomic = 1
        a.min_rnr_timer, a.timeout, a.retry_cnt, a.rnr_retry = 1, 14, 7, 7
        self.qp.to_rts(a)


a, b = [End(d.name.decode()) for d in get_device_list()]
a.to(b)
b.to(a)
for op in (e.IBV_WR_RDMA_READ, e.IBV_WR_ATOMIC_FETCH_AND_ADD):
    wr = SendWR(opcode=op, num_sge=1, sg=[SGE(a.mr.buf, 8, a.mr.lkey)], send_flags=e.IBV_SEND_SIGNALED)
    if op == e.IBV_WR_RDMA_READ:
        wr.set_wr_rdma(b.mr.rkey, b.mr.buf)
    else:
        wr.set_wr_atomic(b.mr.rkey, b.mr.buf, 1, 0)
    a.qp.post_send(wr)
    n = 0
    while not n:    # the test has a bound
        n, wcs = a.cq.poll()
    print(wcs[0].status, end=" ")
