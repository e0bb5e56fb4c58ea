// FNV-1a, 64 bits: one number for many bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quant {

inline constexpr uint64_t kEmptyDigest = 0xcbf29ce484222325u;

inline void Digest(std::span<const std::byte> bytes, uint64_t& digest) {
  for (const std::byte byte : bytes) {
    digest = (digest ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  }
}

}  // namespace quant
