// The two digests of a distribution: XXH3-128 per tensor (fast), SHA-256 per file (what registries
// and people compare).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace shard {

// Streaming XXH3-128. The text is the canonical (big-endian) form in 32 hexadecimal digits, as
// `xxhsum -H2` prints it.
class Xxh3 {
 public:
  Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;
  ~Xxh3();
  void Reset();
  void Update(std::span<const std::byte> bytes);
  std::string Hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Streaming SHA-256 through OpenSSL, 64 hexadecimal digits.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();
  void Update(std::span<const std::byte> bytes);
  // Ends the stream; call once.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Xxh3Hex(std::span<const std::byte> bytes);
std::string Sha256Hex(std::string_view text);
std::string Sha256Hex(std::span<const std::byte> bytes);

}  // namespace shard
