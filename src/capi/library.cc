// SPDX-License-Identifier: Apache-2.0
//
// libcairn.so is made of the other folders' objects (cmake/CairnInstall.cmake); a library needs one
// source of its own.
#include "cairn/c.h"
