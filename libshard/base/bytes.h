// Little-endian loads from untrusted bytes and arithmetic that cannot wrap.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace moepack {

static_assert(std::endian::native == std::endian::little,
              "moepack reads and writes little-endian files in place");

// REQUIRES: bytes.size() >= sizeof(T). No alignment is assumed.
template <class T>
T LoadLe(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <class T>
void StoreLe(T value, std::span<std::byte> bytes) {
  std::memcpy(bytes.data(), &value, sizeof(T));
}

template <class T>
void AppendLe(std::string& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

// Returns no value on overflow.
inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}
inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// The smallest multiple of `alignment` (not 0) that is >= value. REQUIRES: no overflow.
inline uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace moepack
