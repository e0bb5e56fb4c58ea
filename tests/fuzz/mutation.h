// Deterministic damage: the same seed makes the same broken inputs on every machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

// SplitMix64. std::uniform_int_distribution differs between standard libraries; this does not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // REQUIRES: limit > 0.
  size_t Below(size_t limit) { return static_cast<size_t>(Next() % limit); }

 private:
  uint64_t state_;
};

// Replacements for a number: the limits of the types that hold counts, ids and offsets.
inline constexpr std::array<std::string_view, 18> kNumbers = {
    "0",          "1",          "-1",
    "2",          "007",        "63",
    "64",         "255",        "65536",
    "1048577",    "2147483647", "4294967295",
    "4294967296", "4294967297", "9223372036854775808",
    "1e3",        "-0.5",       "18446744073709551615"};
// Bytes to insert between two others.
inline constexpr std::array<std::string_view, 24> kPieces = {
    "{",    "}",      "[",     "]",        "\"", ",",        ":",           "\\",
    "null", "true",   "NaN",   "-",        "..", "/",        "\\u0000",     "\\ud800",
    "*",    "\"a\":", "1e400", "\x80\xff", " ",  "Infinity", "\"*\":\"0\"", "\n"};

class Mutator {
 public:
  Mutator(const std::vector<std::string>& seeds, uint64_t seed) : seeds_(seeds), random_(seed) {}

  // A seed with one to four faults.
  std::string Next() {
    std::string text = Seed();
    for (size_t count = 1 + random_.Below(4); count > 0; --count) Break(text);
    return text;
  }

 private:
  const std::string& Seed() { return seeds_[random_.Below(seeds_.size())]; }
  size_t Place(const std::string& text) { return random_.Below(text.size() + 1); }

  // One random number per statement: compilers differ in the order in which they evaluate
  // arguments.
  void Break(std::string& text) {
    const size_t kind = random_.Below(8);
    const size_t place = Place(text);
    switch (kind) {
      case 0:
        text.resize(place);
        break;
      case 1:
        text.insert(place, kPieces[random_.Below(kPieces.size())]);
        break;
      case 2:
        text.erase(place, 1 + random_.Below(8));
        break;
      case 3:
        Splice(text);
        break;
      case 4:
        Repeat(text);
        break;
      case 5:
        FlipBit(text);
        break;
      default:
        ChangeNumber(text);
    }
  }
  void FlipBit(std::string& text) {
    if (text.empty()) return;
    char& byte = text[random_.Below(text.size())];
    byte = static_cast<char>(byte ^ (1 << random_.Below(8)));
  }
  // The start of this text and the end of another.
  void Splice(std::string& text) {
    const std::string& other = Seed();
    text.resize(Place(text));
    text += other.substr(Place(other));
  }
  void Repeat(std::string& text) {
    const size_t begin = Place(text);
    const std::string piece = text.substr(begin, 1 + random_.Below(40));
    text.insert(Place(text), piece);
  }
  void ChangeNumber(std::string& text) {
    constexpr std::string_view kDigits = "0123456789";
    size_t begin = text.find_first_of(kDigits, Place(text));
    if (begin == std::string::npos) begin = text.find_first_of(kDigits);
    if (begin == std::string::npos) return;
    const size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    text.replace(begin, end - begin, kNumbers[random_.Below(kNumbers.size())]);
  }

  const std::vector<std::string>& seeds_;
  Random random_;
};

}  // namespace fuzz
