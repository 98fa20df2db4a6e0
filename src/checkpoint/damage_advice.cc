// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/damage_advice.h"

#include <optional>
#include <string>

#include "checkpoint/repair.h"

namespace cairn::checkpoint {
namespace {

Status With(const Status& why, const std::string& advice) {
  return Status::Corruption(std::string(why.message()) + "; " + advice);
}

/// True when the manifest of a cut is whole and its objects are there.
bool HasAllFiles(env::ObjectStore* objects, const Place& place, const format::CutReference& cut) {
  const auto manifest = TryManifest(objects, place, cut);
  if (!manifest.ok()) return false;
  for (const StoredObject& object : StoredObjectsOf(**manifest)) {
    if (!CheckObject(objects, object).ok()) return false;
  }
  return true;
}

std::optional<base::CheckpointId> NewestOther(env::ObjectStore* objects, const Place& place,
                                              base::CheckpointId damaged) {
  for (const format::CutReference& cut : place.Cuts()) {
    if (cut.id != damaged && HasAllFiles(objects, place, cut)) return cut.id;
  }
  return std::nullopt;
}

}  // namespace

Status AdviseOnCut(const Status& why, env::ObjectStore* objects, const Place& place,
                   base::CheckpointId damaged) {
  if (why.code() != StatusCode::kCorruption) return why;
  const std::optional<base::CheckpointId> other = NewestOther(objects, place, damaged);
  if (!other) {
    return With(why,
                "no other checkpoint of the place has all its files. Put what is damaged back from "
                "a copy of the place");
  }
  const std::string id = std::to_string(other->value);
  const std::string verify = "checkpoint " + id +
                             " has all its files: check it with `cairn checkpoint verify PLACE@" +
                             id + "`";
  if (*other > damaged) return With(why, verify + " and use it");
  const Result<format::CutReference> restorable = ChooseRestorable(place, *other);
  if (restorable.ok()) {
    return With(why, verify + ", then `cairn run JOB.sql --from " + id + "` goes back to it");
  }
  return With(why, verify + " and read it with `cairn state`. A job cannot go back to it: " +
                       std::string(restorable.status().message()) +
                       ". To go on, put what is damaged back from a copy of the place");
}

Status AdviseOnFrame(const Status& why) {
  if (why.code() != StatusCode::kCorruption) return why;
  return With(why,
              "`cairn checkpoint verify PLACE` names all that is damaged and what can be used "
              "instead");
}

Status AdviseOnHead(const Status& why, env::ObjectStore* objects) {
  if (why.code() != StatusCode::kCorruption) return why;
  const Result<FoundHead> found = FindHead(objects);
  if (found.ok()) {
    return With(why, "`cairn checkpoint rebuild-head PLACE` finds it again, with checkpoint " +
                         std::to_string(found->head.latest_commit->id.value) +
                         " as the latest; with --write it writes it");
  }
  if (found.status().code() == StatusCode::kUnavailable) return why;
  return With(why, "it cannot be rebuilt (" + std::string(found.status().message()) +
                       "). Restore the place from a copy");
}

}  // namespace cairn::checkpoint
