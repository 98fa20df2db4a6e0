// SPDX-License-Identifier: Apache-2.0
//
// CAIRN_CHECK stops the process on a bug of Cairn's own where going on could acknowledge lost
// data. Never use it on bytes read from disk, network or user: those return kCorruption.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CAIRN_CHECK(condition)                                                           \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

#ifdef NDEBUG
#define CAIRN_DCHECK(condition) \
  do {                          \
  } while (false && (condition))
#else
#define CAIRN_DCHECK(condition) CAIRN_CHECK(condition)
#endif
