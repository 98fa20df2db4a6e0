// SPDX-License-Identifier: Apache-2.0
#include "backend/remote/expiry_rule.h"

#include "backend/write_rules.h"

namespace cairn::backend {

Result<bool> ExpiryRule::IsDead(StateKeyRef key, std::string_view value) const {
  if (slots_.empty()) return false;
  const format::StoredKey parts = layout_.Parse(key.key);
  if (parts.kind != format::StoredKeyKind::kKeyed) return false;
  if (!slots_.contains({key.operator_id, std::string(parts.slot)})) return false;
  Result<bool> dead = IsExpired(value, now_ms_);
  if (dead.ok()) return dead;
  return dead.status().WithContext(DescribeKey(layout_, key.operator_id, key.key));
}

Status ExpiryRule::Hide(StateKeyRef key, PoolValue* value) const {
  if (slots_.empty() || *value == nullptr) return {};
  CAIRN_ASSIGN_OR_RETURN(const bool dead, IsDead(key, **value));
  if (dead) value->reset();
  return {};
}

}  // namespace cairn::backend
