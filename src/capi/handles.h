// SPDX-License-Identifier: Apache-2.0
//
// What the C interface's opaque handles hold, and how a call reports failure.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "cairn/c.h"
#include "cairn/runtime_context.h"
#include "cairn/status.h"
#include "cairn/view.h"

/// Slots of the C interface are bytes by bytes.
struct cairn_table {
  cairn::KeyedState<cairn::Bytes, std::string>* table;
};
struct cairn_view {
  cairn::View view;
};

namespace cairn::capi {

inline std::string_view ViewOf(cairn_bytes bytes) {
  return {static_cast<const char*>(bytes.data), bytes.size};
}

/// Keep `status` as the thread's last error, if it is one, and return its code.
cairn_code Fail(const Status& status);

/// Run the body of a call, a function that returns Status; what it throws becomes an error.
template <class Body>
cairn_code Call(const Body& body) {
  try {
    return Fail(body());
  } catch (const std::bad_alloc&) {
    return Fail(Status::ResourceExhausted("out of memory"));
  } catch (const std::exception& thrown) {
    return Fail(Status::Internal(thrown.what()));
  } catch (...) {
    return Fail(Status::Internal("an exception that is no std::exception"));
  }
}

}  // namespace cairn::capi
