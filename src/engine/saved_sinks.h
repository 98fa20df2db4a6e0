// SPDX-License-Identifier: Apache-2.0
//
// SavedSinks: the sinks of the job whose checkpoint another one goes on from. What they prepared is
// published where and as that job would have, whatever the present job makes of its sinks; then
// they are taken over, so that of one checkpoint only one job goes on.
//
// Threads: one.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "checkpoint/recovery.h"
#include "env/file_system.h"
#include "stream/sink.h"

namespace cairn::engine {

class SavedSinks {
 public:
  /// Take the sinks of `saved`; what those `given_up` prepared stays where it lies. `deployment`
  /// made the checkpoint, `successor` goes on from it.
  ///
  /// Errors:   kInvalidArgument: a sink of a connector that is unknown.
  static Result<SavedSinks> Make(const checkpoint::Pipeline& saved,
                                 const std::set<std::string>& given_up,
                                 const std::string& deployment, const std::string& successor,
                                 env::FileSystem* files);

  /// Whether a job may go on from `cut`. Writes nothing.
  ///
  /// Errors:   as stream::SavedSink::Check, naming the sink.
  Status Check(const checkpoint::Cut& cut) const;
  /// Why a job may not go on from `cut`, by sink. Writes nothing.
  std::map<std::string, std::string> Objections(const checkpoint::Cut& cut) const;

  /// Publish what `cut` lists, under the names that the sinks had when it was saved.
  ///
  /// Errors:   as stream::SavedSink::Recover, naming the sink.
  Status Recover(const checkpoint::Cut& cut) const;

  /// Keep the other job, and a third one, from publishing after this.
  ///
  /// Durable:  yes, on return.
  /// Errors:   as stream::SavedSink::TakeOver, naming the sink.
  Status TakeOver() const;

 private:
  struct Named {
    std::string name;
    std::unique_ptr<stream::SavedSink> sink;
    bool given_up = false;

    /// The descriptors that are to be committed.
    std::vector<std::string> PreparedIn(const checkpoint::Cut& cut) const;
    /// `status`, with the way out when rows are gone.
    Status Explain(const Status& status) const;
  };
  SavedSinks() = default;

  std::vector<Named> sinks_;
};

}  // namespace cairn::engine
