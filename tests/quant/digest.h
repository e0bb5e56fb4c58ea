// One number for the many bytes that an encoder writes, by type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>

namespace quant {

// FNV-1a, 64 bits.
inline constexpr uint64_t kEmptyDigest = 0xcbf29ce484222325u;

inline void Digest(std::span<const std::byte> bytes, uint64_t& digest) {
  for (const std::byte byte : bytes) {
    digest = (digest ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  }
}

// By the name of a type; a difference between two of these names the faulty type.
using TypeDigests = std::map<std::string_view, uint64_t>;
inline void DigestOfType(std::string_view type, std::span<const std::byte> bytes,
                         TypeDigests& digests) {
  Digest(bytes, digests.try_emplace(type, kEmptyDigest).first->second);
}

}  // namespace quant
