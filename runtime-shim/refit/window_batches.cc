#include "runtime-shim/refit/window_batches.h"

#include <algorithm>

#include "runtime-shim/session/together.h"

namespace moepack::runtime {

WindowBatches WindowBatches::Of(const DeviceModel& model, const Calibration& text,
                                uint64_t memory) {
  WindowBatches made;
  uint64_t longest = 1;
  for (const CalibrationWindow& window : text.windows)
    longest = std::max<uint64_t>(longest, window.tokens.size());
  const uint64_t bytes = model.bytes_per_token() + model.bytes_per_position();
  const uint64_t rows = std::clamp<uint64_t>(memory / bytes, longest, kMostTogether);
  made.room.context = static_cast<uint32_t>(longest);
  made.room.windows = static_cast<uint32_t>(std::max<uint64_t>(1, rows / longest));
  uint64_t first = 0;
  for (const CalibrationWindow& window : text.windows) {
    if (made.batches.empty() || made.batches.back().windows.size() == made.room.windows) {
      made.batches.emplace_back();
      made.batches.back().first = first;
    }
    WindowBatch& batch = made.batches.back();
    batch.windows.emplace_back(window.tokens);
    batch.tokens += window.tokens.size();
    first += window.tokens.size();
  }
  return made;
}

}  // namespace moepack::runtime
