// SPDX-License-Identifier: Apache-2.0
#include "sql/text.h"

#include <arrow/util/utf8.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace cairn::sql {
namespace {

constexpr size_t kTextBytesMax = 256 * 1024;
constexpr size_t kExcerptCharactersMax = 96;

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

bool IsWordByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool StartsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

size_t CharactersIn(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), StartsCharacter));
}

// The longest suffix (or prefix) of whole characters that is at most `limit` characters long.
std::string_view LastCharacters(std::string_view text, size_t limit) {
  size_t begin = text.size();
  for (size_t seen = 0; begin > 0 && seen < limit; ++seen) {
    do --begin;
    while (begin > 0 && !StartsCharacter(text[begin]));
  }
  return text.substr(begin);
}

std::string_view FirstCharacters(std::string_view text, size_t limit) {
  size_t end = 0;
  for (size_t seen = 0; end < text.size() && seen < limit; ++seen) {
    do ++end;
    while (end < text.size() && !StartsCharacter(text[end]));
  }
  return text.substr(0, end);
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) ==
                  std::tolower(static_cast<unsigned char>(y));
         });
}

}  // namespace

Status SourceText::CheckEncoding() const {
  if (text_.size() > kTextBytesMax) {
    return Status::InvalidArgument("the SQL text has " + std::to_string(text_.size()) +
                                   " bytes; at most " + std::to_string(kTextBytesMax) +
                                   " are accepted");
  }
  if (size_t nul = text_.find('\0'); nul != std::string::npos) {
    return Status::InvalidArgument("the SQL text holds a NUL byte at byte " + std::to_string(nul));
  }
  arrow::util::InitializeUTF8();
  if (!arrow::util::ValidateUTF8(text_)) {
    return Status::InvalidArgument("the SQL text is not valid UTF-8");
  }
  return {};
}

stream::TextPosition SourceText::PositionOf(Place place) const {
  const std::string_view before =
      std::string_view(text_).substr(0, std::min(place.offset, text_.size()));
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 = 0
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(CharactersIn(before.substr(line_start))) + 1};
}

Place SourceText::PlaceOf(stream::TextPosition position) const {
  size_t line_start = 0;
  for (int line = 1; line < position.line; ++line) {
    const size_t end = text_.find('\n', line_start);
    if (end == std::string::npos) break;
    line_start = end + 1;
  }
  const std::string_view rest = std::string_view(text_).substr(line_start);
  return {line_start +
          FirstCharacters(rest, static_cast<size_t>(std::max(position.column, 1) - 1)).size()};
}

Status SourceText::Error(Place place, std::string_view message) const {
  const size_t offset = std::min(place.offset, text_.size());
  const stream::TextPosition position = PositionOf(place);
  std::string out = name_.empty() ? "" : name_ + ":";
  out += std::to_string(position.line) + ":" + std::to_string(position.column) + ": ";
  out += message;

  const std::string_view text = text_;
  const size_t line_start = text.substr(0, offset).rfind('\n') + 1;
  const size_t line_end = std::min(text.find('\n', offset), text.size());
  std::string_view before =
      LastCharacters(text.substr(line_start, offset - line_start), kExcerptCharactersMax / 2);
  const std::string_view after =
      FirstCharacters(text.substr(offset, line_end - offset), kExcerptCharactersMax / 2);
  const bool cut = before.size() < offset - line_start;
  out += cut ? "\n  ..." : "\n  ";
  out += before;
  out += after;
  if (offset + after.size() < line_end) out += "...";
  while (!out.empty() && out.back() == '\r') out.pop_back();
  out += cut ? "\n     " : "\n  ";
  for (char c : before) {
    if (StartsCharacter(c)) out += c == '\t' ? '\t' : ' ';
  }
  out += '^';
  return Status::InvalidArgument(std::move(out));
}

Place SourceText::PlaceOfCharacter(int position) const {
  return {FirstCharacters(text_, position > 0 ? static_cast<size_t>(position - 1) : 0).size()};
}

Place SourceText::SkipBlank(Place place) const {
  size_t i = place.offset;
  while (i < text_.size()) {
    if (IsBlank(text_[i])) {
      ++i;
    } else if (text_.compare(i, 2, "--") == 0) {
      i = std::min(text_.find('\n', i), text_.size());
    } else if (text_.compare(i, 2, "/*") == 0) {
      int depth = 1;  // comments nest, as in PostgreSQL
      for (i += 2; i < text_.size() && depth > 0;) {
        if (text_.compare(i, 2, "/*") == 0) {
          ++depth;
          i += 2;
        } else if (text_.compare(i, 2, "*/") == 0) {
          --depth;
          i += 2;
        } else {
          ++i;
        }
      }
    } else {
      break;
    }
  }
  return {std::min(i, text_.size())};
}

size_t SourceText::SkipQuoted(size_t offset) const {
  const char quote = text_[offset];
  size_t i = offset + 1;
  while (i < text_.size()) {
    if (text_[i] == quote) {
      if (i + 1 < text_.size() && text_[i + 1] == quote) {
        i += 2;
        continue;
      }
      return i + 1;
    }
    ++i;
  }
  return text_.size();
}

Place SourceText::FindKeyword(std::string_view keyword, Place from, Place to) const {
  const size_t end = std::min(to.offset, text_.size());
  for (size_t i = SkipBlank(from).offset; i < end; i = SkipBlank({i}).offset) {
    if (text_[i] == '\'' || text_[i] == '"') {
      i = SkipQuoted(i);
    } else if (IsWordByte(text_[i])) {
      const size_t begin = i;
      while (i < end && IsWordByte(text_[i])) ++i;
      if (EqualsIgnoringCase(std::string_view(text_).substr(begin, i - begin), keyword)) {
        return {begin};
      }
    } else {
      ++i;
    }
  }
  return from;
}

Result<std::string> SourceText::IntegerAt(Place place) const {
  size_t i = SkipBlank(place).offset;
  std::string digits;
  while (i < text_.size() && (text_[i] == '-' || text_[i] == '+')) {
    if (text_[i] == '-') digits = digits.empty() ? "-" : "";
    i = SkipBlank({i + 1}).offset;
  }
  const size_t first = i;
  while (i < text_.size() && std::isdigit(static_cast<unsigned char>(text_[i]))) ++i;
  if (i == first) return Error(place, "an integer was expected here");
  digits.append(text_, first, i - first);
  return digits;
}

Place SourceText::SkipName(Place place) const {
  size_t i = place.offset;
  if (i < text_.size() && text_[i] == '"') return {SkipQuoted(i)};
  while (i < text_.size() && IsWordByte(text_[i])) ++i;
  return {i};
}

}  // namespace cairn::sql
