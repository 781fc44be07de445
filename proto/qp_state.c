/* SPDX-License-Identifier: MIT */
/*
 * qp_state.c - the table of protocol section 5: changes of state, with the attributes that each
 * requires and those that it may carry.  A change that no row knows does not exist.
 */
#include "qp_state.h"

#include <errno.h>
#include <stddef.h>

#include <rdmad/abi.h>

#define B(n) (1u << (n))

#define T_RC   B(QPT_RC)
#define T_UC   B(QPT_UC)
#define T_UD   B(QPT_UD)
#define T_RAW  B(QPT_RAW)
#define T_INI  B(QPT_XRC_SEND)
#define T_TGT  B(QPT_XRC_RECV)
#define T_CONN (T_RC | T_UC | T_INI | T_TGT)
#define T_ALL  (T_CONN | T_UD | T_RAW)
#define T_SQE  (T_UC | T_UD | T_RAW) /* RC: an error of the send queue is an error of the QP */

#define S_RESET  B(QPS_RESET)
#define S_INIT   B(QPS_INIT)
#define S_RTR    B(QPS_RTR)
#define S_RTS    B(QPS_RTS)
#define S_SQD    B(QPS_SQD)
#define S_SQE    B(QPS_SQE)
#define S_ERR    B(QPS_ERR)
#define S_TO_RTS (S_RTR | S_RTS | S_SQD)

#define A(name) QPA_##name

#define INIT_CONN (A(PKEY_INDEX) | A(PORT) | A(ACCESS_FLAGS))
#define INIT_UD   (A(PKEY_INDEX) | A(PORT) | A(QKEY))

#define RTR_UC  (A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN))
#define RTR_RC  (RTR_UC | A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER))
#define RTR_OPT (A(ALT_PATH) | A(ACCESS_FLAGS) | A(PKEY_INDEX))

#define RTS_TGT     (A(TIMEOUT) | A(SQ_PSN))
#define RTS_RC      (RTS_TGT | A(RETRY_CNT) | A(RNR_RETRY) | A(MAX_QP_RD_ATOMIC))
#define RTS_OPT_UD  (A(CUR_STATE) | A(QKEY) | A(RATE_LIMIT))
#define RTS_OPT_TGT (A(CUR_STATE) | A(ALT_PATH) | A(ACCESS_FLAGS) | A(PATH_MIG_STATE))
#define RTS_OPT_UC  (RTS_OPT_TGT | A(RATE_LIMIT))
#define RTS_OPT_RC  (RTS_OPT_UC | A(MIN_RNR_TIMER))

#define SQD_UC  (A(AV) | A(ALT_PATH) | A(ACCESS_FLAGS) | A(PKEY_INDEX) | A(PATH_MIG_STATE))
#define SQD_INI (SQD_UC | A(PORT) | A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) | A(MAX_QP_RD_ATOMIC))
#define SQD_TGT (SQD_UC | A(PORT) | A(TIMEOUT) | A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER))

static const struct row {
	uint16_t types; /* bits of enum qp_type */
	uint8_t from;   /* bits of enum qp_state */
	uint8_t to;     /* enum qp_state */
	uint32_t required;
	uint32_t optional;
} rows[] = {
	{ T_CONN, S_RESET, QPS_INIT, INIT_CONN, 0 },
	{ T_UD, S_RESET, QPS_INIT, INIT_UD, 0 },
	{ T_RAW, S_RESET, QPS_INIT, A(PORT), 0 },

	{ T_CONN, S_INIT, QPS_INIT, 0, INIT_CONN },
	{ T_UD, S_INIT, QPS_INIT, 0, INIT_UD },
	{ T_RAW, S_INIT, QPS_INIT, 0, A(PORT) },

	{ T_RC | T_TGT, S_INIT, QPS_RTR, RTR_RC, RTR_OPT },
	{ T_UC | T_INI, S_INIT, QPS_RTR, RTR_UC, RTR_OPT },
	{ T_UD, S_INIT, QPS_RTR, 0, A(PKEY_INDEX) | A(QKEY) },
	{ T_RAW, S_INIT, QPS_RTR, 0, 0 },

	{ T_RC, S_RTR, QPS_RTS, RTS_RC, RTS_OPT_RC },
	{ T_INI, S_RTR, QPS_RTS, RTS_RC, RTS_OPT_UC },
	{ T_TGT, S_RTR, QPS_RTS, RTS_TGT, RTS_OPT_TGT | A(MIN_RNR_TIMER) },
	{ T_UC, S_RTR, QPS_RTS, A(SQ_PSN), RTS_OPT_UC },
	{ T_UD, S_RTR, QPS_RTS, A(SQ_PSN), RTS_OPT_UD },
	{ T_RAW, S_TO_RTS, QPS_RTS, 0, A(RATE_LIMIT) },

	{ T_RC, S_RTS | S_SQD, QPS_RTS, 0, RTS_OPT_RC },
	{ T_TGT, S_RTS | S_SQD, QPS_RTS, 0, RTS_OPT_TGT | A(MIN_RNR_TIMER) },
	{ T_UC | T_INI, S_RTS | S_SQD, QPS_RTS, 0, RTS_OPT_UC },
	{ T_UD, S_RTS | S_SQD, QPS_RTS, 0, RTS_OPT_UD },

	{ T_CONN | T_UD, S_RTS, QPS_SQD, 0, A(EN_SQD_ASYNC_NOTIFY) },
	{ T_RAW, S_RTS, QPS_SQD, 0, 0 },

	{ T_RC, S_SQD, QPS_SQD, 0, SQD_INI | SQD_TGT },
	{ T_INI, S_SQD, QPS_SQD, 0, SQD_INI },
	{ T_TGT, S_SQD, QPS_SQD, 0, SQD_TGT },
	{ T_UC, S_SQD, QPS_SQD, 0, SQD_UC },
	{ T_UD, S_SQD, QPS_SQD, 0, A(PKEY_INDEX) | A(QKEY) },
	{ T_RAW, S_SQD, QPS_SQD, 0, 0 },

	{ T_UC, S_SQE, QPS_RTS, 0, A(CUR_STATE) | A(ACCESS_FLAGS) },
	{ T_UD, S_SQE, QPS_RTS, 0, A(CUR_STATE) | A(QKEY) },
	{ T_RAW, S_SQE, QPS_RTS, 0, 0 },

	{ T_ALL, S_RESET | S_INIT | S_RTR | S_RTS | S_SQD | S_ERR, QPS_RESET, 0, 0 },
	{ T_ALL, S_INIT | S_RTR | S_RTS | S_SQD | S_ERR, QPS_ERR, 0, 0 },
	{ T_SQE, S_SQE, QPS_RESET, 0, 0 },
	{ T_SQE, S_SQE, QPS_ERR, 0, 0 },
};

static const struct row *row_find(uint8_t type, uint8_t from, uint8_t to)
{
	if (type > QPT_XRC_RECV || from >= QP_STATES)
		return NULL;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].types & B(type) && rows[i].from & B(from) && rows[i].to == to)
			return &rows[i];
	return NULL;
}

bool qp_state_edge(uint8_t type, uint8_t from, uint8_t to) { return row_find(type, from, to) != NULL; }

int qp_state_check(uint8_t type, uint8_t from, uint8_t to, uint32_t mask)
{
	const struct row *row = row_find(type, from, to);

	if (!row || (!(mask & QPA_STATE) && from != to))
		return EINVAL;
	if ((mask & row->required) != row->required)
		return EINVAL;
	return mask & ~(row->required | row->optional | QPA_STATE) ? EINVAL : 0;
}

uint32_t qp_state_attrs(uint8_t type, uint8_t from, uint8_t to, bool required)
{
	const struct row *row = row_find(type, from, to);

	if (!row)
		return 0;
	return required ? row->required : row->required | row->optional | QPA_STATE;
}

const char *qp_state_name(uint8_t state)
{
	static const char *const names[QP_STATES] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return state < QP_STATES ? names[state] : "?";
}
