// SPDX-License-Identifier: Apache-2.0
#include "connectors/value_text.h"

#include <arrow/util/decimal.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cairn::connectors {
namespace {

constexpr int64_t kMicrosPerSecond = 1'000'000;
constexpr int64_t kMicrosPerDay = 86'400 * kMicrosPerSecond;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar.
int64_t DaysFromCivil(int64_t year, unsigned month, unsigned day) {
  year -= month <= 2;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const unsigned year_of_era = static_cast<unsigned>(year - era * 400);
  const unsigned day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  const unsigned day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + static_cast<int64_t>(day_of_era) - 719468;
}

struct CivilDate {
  int64_t year;
  unsigned month;
  unsigned day;
};

CivilDate CivilFromDays(int64_t days) {
  days += 719468;
  const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const unsigned day_of_era = static_cast<unsigned>(days - era * 146097);
  const unsigned year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const unsigned day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const unsigned month_from_march = (5 * day_of_year + 2) / 153;
  const unsigned day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
  const unsigned month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
  return {static_cast<int64_t>(year_of_era) + era * 400 + (month <= 2), month, day};
}

unsigned DaysInMonth(int64_t year, unsigned month) {
  constexpr unsigned kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return month == 2 && leap ? 29 : kDays[month - 1];
}

/// Two digits as a number; 255 when they are not digits.
unsigned TwoDigits(const char* text) {
  const unsigned tens = static_cast<unsigned char>(text[0]) - '0';
  const unsigned ones = static_cast<unsigned char>(text[1]) - '0';
  return tens <= 9 && ones <= 9 ? tens * 10 + ones : 255;
}

bool ParseTenByteDate(const char* text, int64_t* days) {
  const unsigned century = TwoDigits(text);
  const unsigned year_of_century = TwoDigits(text + 2);
  const unsigned month = TwoDigits(text + 5);
  const unsigned day = TwoDigits(text + 8);
  if (century > 99 || year_of_century > 99 || text[4] != '-' || text[7] != '-') return false;
  const int64_t year = century * 100 + year_of_century;
  if (month < 1 || month > 12 || day < 1 || day > DaysInMonth(year, month)) return false;
  *days = DaysFromCivil(year, month, day);
  return true;
}

/// Read ".fraction" at `text`; false when it has no digit or more than nine.
bool ParseFraction(std::string_view text, int64_t* micros) {
  if (text.size() < 2 || text.size() > 10) return false;
  int64_t value = 0;
  for (size_t i = 1; i <= 6; ++i) {
    value *= 10;
    if (i < text.size()) {
      if (!IsDigit(text[i])) return false;
      value += text[i] - '0';
    }
  }
  for (size_t i = 7; i < text.size(); ++i) {
    if (!IsDigit(text[i])) return false;
  }
  *micros = value;
  return true;
}

constexpr TextError kNotTimestamp = "is not a TIMESTAMP (YYYY-MM-DD HH:MM:SS[.ffffff])";

/// Read "HH:MM[:SS[.fraction]]" as microseconds of the day.
bool ParseTimeOfDay(std::string_view text, int64_t* micros) {
  if (text.size() < 5 || text[2] != ':') return false;
  const unsigned hour = TwoDigits(text.data());
  const unsigned minute = TwoDigits(text.data() + 3);
  unsigned second = 0;
  int64_t fraction = 0;
  if (hour > 23 || minute > 59) return false;
  if (text.size() > 5) {
    if (text.size() < 8 || text[5] != ':') return false;
    second = TwoDigits(text.data() + 6);
    if (second > 59) return false;
    if (text.size() > 8 && (text[8] != '.' || !ParseFraction(text.substr(8), &fraction))) {
      return false;
    }
  }
  *micros = (hour * 3600 + minute * 60 + second) * kMicrosPerSecond + fraction;
  return true;
}

void PutTwoDigits(unsigned value, char* out) {
  out[0] = static_cast<char>('0' + value / 10);
  out[1] = static_cast<char>('0' + value % 10);
}

bool EqualsIgnoringCase(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] + 32) : text[i];
    if (c != lower[i]) return false;
  }
  return true;
}

}  // namespace

namespace internal {

TextError ParseInt64Slow(std::string_view text, int64_t* value) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (begin != end && *begin == '+' && end - begin > 1 && IsDigit(begin[1])) ++begin;
  const auto result = std::from_chars(begin, end, *value);
  if (result.ec == std::errc::result_out_of_range && result.ptr == end) {
    return "is out of range for BIGINT";
  }
  if (result.ec != std::errc() || result.ptr != end) return "is not a BIGINT";
  return nullptr;
}

}  // namespace internal

TextError ParseInt32(std::string_view text, int32_t* value) {
  int64_t wide;
  const TextError error = ParseInt64(text, &wide);
  if (error != nullptr) {
    return std::strstr(error, "range") != nullptr ? "is out of range for INTEGER"
                                                  : "is not an INTEGER";
  }
  if (wide < std::numeric_limits<int32_t>::min() || wide > std::numeric_limits<int32_t>::max()) {
    return "is out of range for INTEGER";
  }
  *value = static_cast<int32_t>(wide);
  return nullptr;
}

TextError ParseDouble(std::string_view text, double* value) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (begin != end && *begin == '+' && end - begin > 1 && begin[1] != '-') ++begin;
  const auto result = std::from_chars(begin, end, *value);
  if (result.ec == std::errc::result_out_of_range && result.ptr == end) {
    return "is out of range for DOUBLE";
  }
  if (result.ec != std::errc() || result.ptr != end) return "is not a DOUBLE";
  return nullptr;
}

TextError ParseBool(std::string_view text, bool* value) {
  if (text == "true" || text == "1" || text == "t") {
    *value = true;
  } else if (text == "false" || text == "0" || text == "f") {
    *value = false;
  } else if (EqualsIgnoringCase(text, "true") || EqualsIgnoringCase(text, "t")) {
    *value = true;
  } else if (EqualsIgnoringCase(text, "false") || EqualsIgnoringCase(text, "f")) {
    *value = false;
  } else {
    return "is not a BOOLEAN (true or false)";
  }
  return nullptr;
}

TextError ParseDate(std::string_view text, int32_t* days) {
  int64_t wide;
  if (text.size() != 10 || !ParseTenByteDate(text.data(), &wide)) {
    return "is not a DATE (YYYY-MM-DD)";
  }
  *days = static_cast<int32_t>(wide);
  return nullptr;
}

TextError ParseTimestamp(std::string_view text, DateCache* cache, int64_t* micros) {
  if (text.size() < 10) return kNotTimestamp;
  if (std::memcmp(cache->text, text.data(), 10) != 0) {
    int64_t days;
    if (!ParseTenByteDate(text.data(), &days)) return kNotTimestamp;
    std::memcpy(cache->text, text.data(), 10);
    cache->day_micros = days * kMicrosPerDay;
  }
  int64_t time_of_day = 0;
  if (text.back() == 'Z') text.remove_suffix(1);
  if (text.size() > 10) {
    if ((text[10] != ' ' && text[10] != 'T') || !ParseTimeOfDay(text.substr(11), &time_of_day)) {
      return kNotTimestamp;
    }
  }
  *micros = cache->day_micros + time_of_day;
  return nullptr;
}

TextError ParseDecimal(std::string_view text, int precision, int scale, uint8_t out[16]) {
  arrow::Decimal128 value;
  int32_t text_precision = 0;
  int32_t text_scale = 0;
  if (!arrow::Decimal128::FromString(text, &value, &text_precision, &text_scale).ok()) {
    return "is not a DECIMAL";
  }
  if (text_scale != scale) {
    auto rescaled = value.Rescale(text_scale, scale);
    if (!rescaled.ok()) {
      return text_scale > scale ? "has more fraction digits than the column's DECIMAL"
                                : "is out of range for the column's DECIMAL";
    }
    value = *rescaled;
  }
  if (!value.FitsInPrecision(precision)) return "is out of range for the column's DECIMAL";
  value.ToBytes(out);
  return nullptr;
}

char* PutDouble(double value, char* out) {
  if (std::isfinite(value)) return std::to_chars(out, out + kTextMax, value).ptr;
  const std::string_view name = std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
  std::memcpy(out, name.data(), name.size());
  return out + name.size();
}

char* PutDate(int64_t days, char* out) {
  const CivilDate date = CivilFromDays(days);
  if (date.year >= 0 && date.year <= 9999) [[likely]] {
    PutTwoDigits(static_cast<unsigned>(date.year / 100), out);
    PutTwoDigits(static_cast<unsigned>(date.year % 100), out + 2);
    out += 4;
  } else {
    out = PutInt64(date.year, out);  // ISO 8601 leaves such years to agreement
  }
  out[0] = '-';
  PutTwoDigits(date.month, out + 1);
  out[3] = '-';
  PutTwoDigits(date.day, out + 4);
  return out + 6;
}

char* PutTimestamp(int64_t micros, char* out) {
  int64_t days = micros / kMicrosPerDay;
  int64_t of_day = micros % kMicrosPerDay;
  if (of_day < 0) {
    of_day += kMicrosPerDay;
    --days;
  }
  out = PutDate(days, out);
  const unsigned seconds = static_cast<unsigned>(of_day / kMicrosPerSecond);
  const unsigned fraction = static_cast<unsigned>(of_day % kMicrosPerSecond);
  out[0] = ' ';
  PutTwoDigits(seconds / 3600, out + 1);
  out[3] = ':';
  PutTwoDigits(seconds / 60 % 60, out + 4);
  out[6] = ':';
  PutTwoDigits(seconds % 60, out + 7);
  if (fraction == 0) return out + 9;
  out[9] = '.';
  PutTwoDigits(fraction / 10000, out + 10);
  PutTwoDigits(fraction / 100 % 100, out + 12);
  PutTwoDigits(fraction % 100, out + 14);
  return out + 16;
}

char* PutDecimal(const uint8_t value[16], int scale, char* out) {
  const std::string text = arrow::Decimal128(value).ToString(scale);
  std::memcpy(out, text.data(), std::min(text.size(), kTextMax));
  return out + std::min(text.size(), kTextMax);
}

void AppendInt64(int64_t value, std::string* out) {
  char text[kTextMax];
  out->append(text, PutInt64(value, text));
}

void AppendDouble(double value, std::string* out) {
  char text[kTextMax];
  out->append(text, PutDouble(value, text));
}

void AppendDate(int64_t days, std::string* out) {
  char text[kTextMax];
  out->append(text, PutDate(days, text));
}

void AppendTimestamp(int64_t micros, std::string* out) {
  char text[kTextMax];
  out->append(text, PutTimestamp(micros, text));
}

void AppendDecimal(const uint8_t value[16], int scale, std::string* out) {
  char text[kTextMax];
  out->append(text, PutDecimal(value, scale, text));
}

}  // namespace cairn::connectors
