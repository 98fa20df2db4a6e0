// SPDX-License-Identifier: Apache-2.0
//
// SourceText: the SQL text that is being compiled, and how an error points into it.
//
// Places are byte offsets until they are shown; then they are line:column, counted in characters
// from 1.
//
// Threads: immutable after construction; any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/status.h"
#include "stream/table_definition.h"

namespace cairn::sql {

/// Where something stands in the text: a byte offset.
struct Place {
  size_t offset = 0;
};

class SourceText {
 public:
  /// Shape:    `name` is put before line:column when it is not empty ("job.sql:3:15: ...").
  SourceText(std::string text, std::string name) : text_(std::move(text)), name_(std::move(name)) {}

  std::string_view text() const { return text_; }

  /// Refuse what the parser cannot carry: over 256 KiB, a NUL byte, bytes that are not UTF-8.
  Status CheckEncoding() const;

  stream::TextPosition PositionOf(Place place) const;
  /// The place that PositionOf shows as `position`.
  Place PlaceOf(stream::TextPosition position) const;

  /// Make an error that names the place and shows its line with a caret below it.
  Status Error(Place place, std::string_view message) const;

  /// Turn the parser's position (characters from 1; 0 = unknown) into a place.
  Place PlaceOfCharacter(int position) const;

  /// Return the first place at or after `place` that is neither blank nor in a comment.
  Place SkipBlank(Place place) const;

  /// Return the first place in [from, to) where `keyword` stands as a word outside quotes and
  /// comments, or `from` when there is none.
  Place FindKeyword(std::string_view keyword, Place from, Place to) const;

  /// Return the integer that starts at `place`, sign and blanks after the sign included.
  ///
  /// The parser's JSON leaves integers below 1 out; they are read from the text again.
  Result<std::string> IntegerAt(Place place) const;

  /// Return the place behind the identifier or quoted name at `place`.
  Place SkipName(Place place) const;

 private:
  size_t SkipQuoted(size_t offset) const;

  std::string text_;
  std::string name_;
};

}  // namespace cairn::sql
