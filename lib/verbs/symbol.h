/* SPDX-License-Identifier: MIT */
/*
 * symbol.h - exported symbols that headers may or may not declare: their names in C differ from the symbols, so that a newer
 * header does not clash.
 */
#ifndef VERBS_SYMBOL_H
#define VERBS_SYMBOL_H

#include "base.h"

#define SYMBOL(type, name, args, ...)                 \
	EXPORT type newer_##name args __asm__(#name); \
	type newer_##name args __VA_ARGS__

#endif
