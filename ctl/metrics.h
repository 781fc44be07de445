/* SPDX-License-Identifier: MIT */
/* metrics.h - DUMP_STATS as OpenMetrics text, for Prometheus and similar collectors. */
#ifndef CTL_METRICS_H
#define CTL_METRICS_H

#include <jansson.h>

void metrics_print(const json_t *stats); /* on stdout */

#endif
