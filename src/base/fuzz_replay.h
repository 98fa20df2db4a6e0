// SPDX-License-Identifier: Apache-2.0
//
// For the replay of fuzz targets without libFuzzer: kept inputs, and random damage of good ones.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace cairn::base {

/// The files of a directory; none when it is not there.
inline std::vector<std::string> FilesOf(const std::filesystem::path& directory) {
  std::vector<std::string> files;
  if (!std::filesystem::is_directory(directory)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return files;
}

/// CAIRN_SEED, else a fresh one; printed.
inline uint64_t ReplaySeed() {
  const char* given = std::getenv("CAIRN_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "seed " << seed << " (CAIRN_SEED=" << seed << " repeats it)\n";
  return seed;
}

/// Change a few bytes: overwrite, insert, remove, cut, or copy a piece elsewhere.
inline std::string Damage(std::string bytes, std::mt19937_64* random) {
  const auto below = [&](size_t limit) { return limit == 0 ? 0 : (*random)() % limit; };
  for (size_t change = 1 + below(4); change > 0 && !bytes.empty(); --change) {
    const size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>((*random)());
        break;
      case 1:
        bytes[at] ^= static_cast<char>(1 << below(8));
        break;
      case 2:
        bytes.insert(at, 1 + below(8), static_cast<char>((*random)()));
        break;
      case 3:
        bytes.erase(at, 1 + below(8));
        break;
      case 4:
        bytes.resize(at);
        break;
      default:
        bytes.replace(at, std::min<size_t>(8, bytes.size() - at),
                      bytes.substr(below(bytes.size()), 8));
    }
  }
  return bytes;
}

}  // namespace cairn::base
