/* SPDX-License-Identifier: MIT */
/* check.h - `rdmactl check`: reads captures of RoCEv2 traffic and says what breaks the rules of rule.def. */
#ifndef CTL_CHECK_H
#define CTL_CHECK_H

#include <stdbool.h>

/* argv[0] is "check".  The exit status: 0 no finding, 1 findings, 2 wrong arguments or a file that cannot be read. */
int check_main(int argc, char **argv, bool as_json);

#endif
