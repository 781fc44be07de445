# SPDX-License-Identifier: MIT
# Tries by pyverbs what the first device has and refuses: one line for each thing that was tried, "NAME ok" or
# "NAME errno"; profile.test knows what each profile must answer.
import errno
import os
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute, AH
from pyverbs.cq import CQ, CQEX, CqInitAttrEx
from pyverbs.device import AllocDmAttr, Context, DM, get_device_list
from pyverbs.mr import MR, MW
from pyverbs.mem_alloc import posix_memalign
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError, PyverbsUserError
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqInitAttr, SrqAttr
from pyverbs.wr import RecvWR, SendWR, SGE
from pyverbs.xrcd import XRCD, XRCDInitAttr

RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
BYTES = 8192

ctx = Context(name=get_device_list()[0].name.decode())
dev = ctx.query_device()
pd = PD(ctx)
cq = CQ(ctx, 64)
mem = posix_memalign(BYTES, 4096)


def name_of(error):
    return errno.errorcode.get(error.error_code, str(error.error_code)) if error.error_code else str(error)


def tried(what, call, *args):
    try:
        made = call(*args)
        print(what, "ok")
        return made
    except PyverbsRDMAError as error:
        print(what, name_of(error))
        return None
    except PyverbsUserError:    # it asked the device itself
        print(what, "ENOTSUP")
        return None


def close(made):
    if made:
        made.close()


def qp_init(kind, **cap):
    size = {"max_send_wr": 4, "max_recv_wr": 4, "max_send_sge": 1, "max_recv_sge": 1, **cap}
    return QPInitAttr(qp_type=kind, scq=cq, rcq=cq, cap=QPCap(**size), sq_sig_all=1)


def qp(kind, **cap):
    return QP(pd, qp_init(kind, **cap))


def one_too_many(what, make, most):
    """As many as there may be, and one."""
    made = []
    while len(made) < most:
        made.append(make())
    close(tried(what, make))
    for m in made:
        m.close()


def gid_index():
    """The last row that is used: an address of the host, or the only one."""
    rows = [g.gid_index for g in ctx.query_gid_table(64)]
    return rows[-1]


def to_itself(q, kind):
    attr = QPAttr(port_num=1)
    if kind == e.IBV_QPT_UD:
        attr.qkey = 7
        q.to_rts(attr)
        return
    index = gid_index()
    gr = GlobalRoute(dgid=ctx.query_gid(1, index), sgid_index=index)
    attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=gr)
    attr.dest_qp_num = q.qp_num
    attr.path_mtu = e.IBV_MTU_1024
    attr.qp_access_flags = RIGHTS | e.IBV_ACCESS_REMOTE_ATOMIC
    attr.max_rd_atomic = attr.max_dest_rd_atomic = min(1, dev.max_qp_rd_atom)
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 1, 14, 7, 7
    q.to_rts(attr)


def carried_out(q, mr, kind, op):
    wr = SendWR(opcode=op, num_sge=1, sg=[SGE(mr.buf + 4096, 8, mr.lkey)], send_flags=e.IBV_SEND_SIGNALED)
    if op == e.IBV_WR_ATOMIC_FETCH_AND_ADD:
        wr.set_wr_atomic(mr.rkey, mr.buf, 1, 0)
    elif kind == e.IBV_QPT_UD:
        index = gid_index()
        gr = GlobalRoute(dgid=ctx.query_gid(1, index), sgid_index=index)
        ah = AH(pd, attr=AHAttr(port_num=1, is_global=1, gr=gr))
        wr.set_wr_ud(ah, q.qp_num, 7)
    else:
        wr.set_wr_rdma(mr.rkey, mr.buf)
    receives = op in (e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM, e.IBV_WR_RDMA_WRITE_WITH_IMM)
    if receives:
        q.post_recv(RecvWR(num_sge=1, sg=[SGE(mr.buf, 4096, mr.lkey)]))
    try:
        q.post_send(wr)
    except PyverbsRDMAError:
        if receives:    # it would be in the way of the next one
            q.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            to_itself(q, kind)
        raise
    wanted = 1 + receives
    while wanted:       # the test has a bound
        n, wcs = cq.poll(8)
        for wc in wcs:
            if wc.status:
                raise PyverbsRDMAError("status %d" % wc.status, 0)
        wanted -= n


kinds = {"rc": e.IBV_QPT_RC, "uc": e.IBV_QPT_UC, "ud": e.IBV_QPT_UD}
ops = {"write": e.IBV_WR_RDMA_WRITE, "write-imm": e.IBV_WR_RDMA_WRITE_WITH_IMM, "send": e.IBV_WR_SEND,
       "send-imm": e.IBV_WR_SEND_WITH_IMM, "read": e.IBV_WR_RDMA_READ, "atomics": e.IBV_WR_ATOMIC_FETCH_AND_ADD}
of_kind = {"rc": list(ops), "uc": ["write", "write-imm", "send", "send-imm"], "ud": ["send", "send-imm"]}
mr = MR(pd, BYTES, RIGHTS | e.IBV_ACCESS_REMOTE_ATOMIC, address=mem)

kind = None     # the first that the device has
for name, number in kinds.items():
    q = tried(name, qp, number)
    if not q:
        continue
    kind = number if kind is None else kind
    to_itself(q, number)
    for op in of_kind[name]:
        tried(name + "-" + op, carried_out, q, mr, number, ops[op])
    q.close()

ex = QPInitAttrEx(qp_type=kind, scq=cq, rcq=cq, pd=pd, cap=QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1),
                  comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, send_ops_flags=e.IBV_QP_EX_WITH_SEND)
close(tried("wr-api", lambda: QPEx(ctx, ex)))
close(tried("srq", lambda: SRQ(pd, SrqInitAttr(SrqAttr(max_wr=4, max_sge=1)))))
xrcd = XRCDInitAttr(e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS, os.O_CREAT, -1)
close(tried("xrc", lambda: XRCD(ctx, xrcd)))
close(tried("mw", lambda: MW(pd, e.IBV_MW_TYPE_1)))
close(tried("mw2", lambda: MW(pd, e.IBV_MW_TYPE_2)))
close(tried("odp", lambda: MR(pd, BYTES, RIGHTS | e.IBV_ACCESS_ON_DEMAND, address=mem)))
close(tried("dm", lambda: DM(ctx, AllocDmAttr(4096))))
close(tried("timestamps", lambda: CQEX(ctx, CqInitAttrEx(cqe=8, wc_flags=e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP))))
tried("resize-cq", cq.resize, 128)
tried("rereg-mr", mr.rereg, e.IBV_REREG_MR_CHANGE_ACCESS, None, 0, 0, RIGHTS)

close(tried("max_qp_wr", lambda: qp(kind, max_send_wr=dev.max_qp_wr + 1)))
close(tried("max_sge", lambda: qp(kind, max_send_sge=dev.max_sge + 1)))
close(tried("max_inline", lambda: qp(kind, max_inline_data=1025)))
close(tried("max_cqe", lambda: CQ(ctx, dev.max_cqe + 1)))
if dev.max_qp < 100:
    one_too_many("max_qp", lambda: qp(kind), dev.max_qp)
    one_too_many("max_cq", lambda: CQ(ctx, 4), dev.max_cq - 1)
    one_too_many("max_pd", lambda: PD(ctx), dev.max_pd - 1)
if dev.max_mr < 1000:
    one_too_many("max_mr", lambda: MR(pd, BYTES, RIGHTS, address=mem), dev.max_mr - 1)
if dev.max_mr_size < 1 << 30:
    close(tried("max_mr_size", lambda: MR(pd, dev.max_mr_size + 1, RIGHTS)))
sys.stdout.flush()
os._exit(0)
