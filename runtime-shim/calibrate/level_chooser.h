// The levels of a type that are nearest to what is wanted, each value for itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "quant/levels.h"
#include "runtime-shim/cpu/panels.h"

namespace moepack::runtime {

// Nearest levels for a row of a panel. Codes ascend; a value is base + scale * code.
struct LevelChooser {
  uint32_t count = 0;
  std::vector<float> codes;     // ascending; empty: 0, 1, 2, ...
  std::vector<uint8_t> levels;  // of the codes
  std::vector<float> middles;   // between neighbours
  uint8_t low = 0, high = 0;    // the levels of the first and last code
  float low_code = 0, high_code = 0;

  explicit LevelChooser(const quant::LevelGrid& grid) : count(grid.count) {
    high = static_cast<uint8_t>(count - 1);
    high_code = static_cast<float>(count - 1);
    if (grid.codes.empty()) return;
    levels.resize(count);
    std::iota(levels.begin(), levels.end(), uint8_t{0});
    std::stable_sort(levels.begin(), levels.end(),
                     [&](uint8_t a, uint8_t b) { return grid.codes[a] < grid.codes[b]; });
    for (const uint8_t level : levels) codes.push_back(grid.codes[level]);
    for (size_t i = 1; i < codes.size(); ++i) middles.push_back((codes[i - 1] + codes[i]) / 2);
    low = levels.front();
    high = levels.back();
    low_code = codes.front();
    high_code = codes.back();
  }

  // For each lane, the level nearest to `wanted`, and its value.
  void Choose(const float* wanted, const float* base, const float* scale, const float* inverse,
              uint8_t* level, float* value) const {
    if (!codes.empty()) return ChooseCode(wanted, scale, inverse, level, value);
    // Adding and subtracting this rounds to the nearest integer.
    constexpr float kRound = 12582912.0f;
    const auto top = static_cast<float>(count - 1);
    for (size_t c = 0; c < kPanelColumns; ++c) {
      const float q = (wanted[c] - base[c]) * inverse[c];
      const float bounded = std::min(std::max(0.0f, q), top);  // 0 for what is no number
      const float rounded = (bounded + kRound) - kRound;
      level[c] = static_cast<uint8_t>(rounded);
      value[c] = base[c] + scale[c] * rounded;
    }
  }

 private:
  void ChooseCode(const float* wanted, const float* scale, const float* inverse, uint8_t* level,
                  float* value) const {
    for (size_t c = 0; c < kPanelColumns; ++c) {
      const float q = wanted[c] * inverse[c];
      size_t place = 0;
      for (const float middle : middles) place += q > middle;
      level[c] = levels[place];
      value[c] = scale[c] * codes[place];
    }
  }
};

}  // namespace moepack::runtime
