#include "quant/tables/fp4.h"

#include <cmath>

namespace quant {

uint8_t NearestFp4Code(float value, float scale) {
  uint8_t best = 0;
  float best_error = std::abs(kFp4Codes[0] * scale - value);
  for (uint8_t code = 1; code < kFp4Codes.size(); ++code) {
    const float error = std::abs(kFp4Codes[code] * scale - value);
    if (error < best_error) {
      best = code;
      best_error = error;
    }
  }
  return best;
}

}  // namespace quant
