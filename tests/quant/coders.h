// The rows of AllFormats() that can encode, and those that can decode.
#pragma once

#include <vector>

#include "quant/format.h"

namespace quant {

inline std::vector<const Format*> Encoders() {
  std::vector<const Format*> formats;
  for (const Format& format : AllFormats()) {
    if (format.encode != nullptr) formats.push_back(&format);
  }
  return formats;
}

inline std::vector<const Format*> Decoders() {
  std::vector<const Format*> formats;
  for (const Format& format : AllFormats()) {
    if (format.decode != nullptr) formats.push_back(&format);
  }
  return formats;
}

}  // namespace quant
